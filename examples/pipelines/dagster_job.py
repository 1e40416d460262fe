"""The daily refresh as a partitioned Dagster asset, with the numbers of the day as metadata.

A rejected day fails without a retry, because a retry would give the same answer. Other failures (a
table that is late, a lock, a store that does not respond) are retried.
"""

import json
import os
import subprocess
from pathlib import Path

import dagster as dg

HOME = Path("/srv/embeddings")
REJECTED = 1

# With end_offset=1 the run of a day publishes that day, not the day before.
days = dg.DailyPartitionsDefinition(start_date="2026-11-18", end_offset=1)


def metadata(result, folder):
    """Numbers and words of the JSON document, and the summary and the report of the day."""
    found = {key: value for key, value in result.items() if isinstance(value, str | int | float)}
    summary = folder / "summary.md"
    if summary.exists():
        found["summary"] = dg.MetadataValue.md(summary.read_text())
        found["report"] = dg.MetadataValue.path(str(folder / "report.html"))
    return found


@dg.asset(partitions_def=days, retry_policy=dg.RetryPolicy(max_retries=2, delay=600))
def embeddings(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    """Vectors in the frame of the reference; live/current is the version to read."""
    day = context.partition_key
    job = subprocess.run(
        ["sh", "pipelines/refresh.sh", "--json"],
        check=False,
        cwd=HOME,
        env=os.environ | {"DATE": day},
        stdout=subprocess.PIPE,  # stderr goes to the log of the run
        text=True,
    )
    result = json.loads(job.stdout or "{}")
    if job.returncode == REJECTED:
        raise dg.Failure(
            description=f"{day} was rejected; the current version stays",
            metadata=metadata(result, HOME / f"live/{day}.rejected"),
            allow_retries=False,
        )
    if job.returncode != 0:
        raise dg.Failure(description=result.get("error", f"exit code {job.returncode}"))
    return dg.MaterializeResult(metadata=metadata(result, HOME / f"live/{day}"))


refresh = dg.define_asset_job("refresh", selection=[embeddings])
defs = dg.Definitions(
    assets=[embeddings],
    jobs=[refresh],
    schedules=[dg.build_schedule_from_partitioned_job(refresh, hour_of_day=5, minute_of_hour=30)],
)
