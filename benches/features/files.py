"""The product as users run it: tables on disk, processes, their time and their memory."""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
VERIDICAL = ROOT / "target/release/veridical"
BENCH = ROOT / "target/release/bench-features"
ROW_GROUP = 65_536

# The peak of a child starts with the memory of its parent, so it is started by a small parent.
PEAK_OF_CHILD = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


class WrongAnswerError(Exception):
    """A result is wrong; its time means nothing."""


def run(*command):
    """Runs a program and returns what it printed."""
    command = [str(part) for part in command]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr.strip()}")
    return done.stdout


def bench(*arguments):
    """One mode of bench-features."""
    return json.loads(run(BENCH, *arguments))


def fastfood(rows, n, d, width):
    """scikit-learn-extra's Fastfood on the same rows, or the reason why it was skipped."""
    here = Path(__file__).parent
    python = here / ".venv-fastfood/bin/python"
    if not (here / ".venv-fastfood/requirements.txt").exists():
        return {"skipped": "its environment (requirements-fastfood.txt) could not be installed"}
    try:
        return json.loads(run(python, here / "fastfood.py", rows, n, d, width))
    except RuntimeError as failed:
        return {"skipped": str(failed).splitlines()[-1]}


def wall_and_cpu(command):
    """Wall-clock and CPU seconds of a program, from start to end."""
    start = time.perf_counter()
    child = subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    stderr = child.stderr.read().decode()
    child.stderr.close()
    if child.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{stderr.strip()}")
    return wall, usage.ru_utime + usage.ru_stime


def peak_megabytes(command):
    """The largest resident set of a program."""
    printed = run(sys.executable, "-I", "-S", "-c", PEAK_OF_CHILD, *command)
    return int(printed.splitlines()[-1]) / 1024.0


def new_spec(path, d, width, family="orthogonal"):
    """The product's spec for these widths, with length scale 1 and defaults otherwise."""
    run(VERIDICAL, "featurize", "new", "--quiet", "--input-dim", d, "--output-dim", width,
        "--length-scale", 1, "--directions", family, "--out", path)  # fmt: skip
    return path


def apply_command(spec, table, output, threads):
    return [VERIDICAL, "featurize", "apply", "--quiet", "--threads", threads, "--spec", spec, table,
            output]  # fmt: skip


def write_table(path, n, d, seed):
    """Ids and rows of normals as Parquet: PLAIN, uncompressed, not nullable, the cheapest to
    decode, so that decoding does not hide the transform."""
    vector = pa.list_(pa.field("item", pa.float32(), nullable=False), d)
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), pa.field("vector", vector, nullable=False)]
    )
    rng = np.random.default_rng(seed)
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    with pq.ParquetWriter(path, schema, **options) as writer:
        for first in range(0, n, ROW_GROUP):
            rows = min(ROW_GROUP, n - first)
            ids = pa.array(np.arange(first, first + rows))
            values = pa.array(rng.standard_normal(rows * d, dtype=np.float32))
            vectors = pa.FixedSizeListArray.from_arrays(values, type=vector)
            writer.write_table(pa.Table.from_arrays([ids, vectors], schema=schema))


def end_rows(path, width, n=300):
    """The number of rows of a table, its last ids and its last rows."""
    with pq.ParquetFile(path) as table:
        last = table.read_row_group(table.num_row_groups - 1)
        n_rows = table.metadata.num_rows
    last = last.slice(max(0, len(last) - n))
    vectors = last["vector"].combine_chunks().flatten().to_numpy().reshape(len(last), width)
    return n_rows, last["id"].to_numpy(), vectors


def check_table(table, output, d, width, evaluate, tolerance):
    """Checks that the output has a row for every row of the input, and that its last rows are phi of theirs."""
    n_in, ids_in, rows = end_rows(table, d)
    n_out, ids_out, phi = end_rows(output, width)
    if n_in != n_out:
        raise WrongAnswerError(f"{output.name}: {n_out} rows instead of {n_in}")
    # Row groups may differ in size: compare the rows that were read from both.
    k = min(len(ids_in), len(ids_out))
    error = float(np.abs(phi[-k:] - evaluate(rows[-k:])).max())
    if not (np.array_equal(ids_in[-k:], ids_out[-k:]) and error <= tolerance):
        raise WrongAnswerError(f"{output.name}: the last rows are off by {error:.1e}")
    return error


def file_to_file(folder, n, d, width, threads, evaluate, tolerance, repeats):
    """`featurize apply` on a Parquet table, alternating with decoding and encoding the same table."""
    table, spec = folder / "items.parquet", new_spec(folder / "files.spec.json", d, width)
    phi, constant = folder / "phi.parquet", folder / "constant.parquet"
    write_table(table, n, d, seed=3)
    ours, io = [], []
    for turn in range(repeats + 1):  # the first turn is a warm-up
        one = wall_and_cpu(apply_command(spec, table, phi, threads))
        if turn == 0:
            error = check_table(table, phi, d, width, evaluate, tolerance)
        size = phi.stat().st_size
        phi.unlink()
        other = wall_and_cpu([BENCH, "io", table, constant, width])
        if abs(constant.stat().st_size - size) > 0.01 * size:
            raise WrongAnswerError(f"constants take {constant.stat().st_size} bytes, phi {size}")
        constant.unlink()
        if turn > 0:
            ours.append(one)
            io.append(other)
    # Outside the turns: how long the middle stage takes to produce its constants.
    fill = bench("io", table, constant, width)["fill_seconds"]
    constant.unlink()
    table.unlink()
    return {
        "rows": n, "d": d, "D": width, "output_bytes": size, "error": error,
        "ours_seconds": [wall for wall, _ in ours], "io_seconds": [wall for wall, _ in io],
        "ours_cpu_seconds": [cpu for _, cpu in ours], "io_cpu_seconds": [cpu for _, cpu in io],
        "io_fill_seconds": fill,
        "ratio_best": min(ours)[0] / min(io)[0],
        "ratio_median": (statistics.median(wall for wall, _ in ours)
                         / statistics.median(wall for wall, _ in io)),
    }  # fmt: skip


def peak_memory(folder, counts, d, width, threads, evaluate, tolerance, repeats):
    """The peak of `featurize apply` on tables of different lengths, the largest of several runs:
    the number of pieces in flight varies."""
    spec = new_spec(folder / "memory.spec.json", d, width)
    table, phi = folder / "items.parquet", folder / "phi.parquet"
    runs = []
    for n in counts:
        write_table(table, n, d, seed=4)
        peaks = []
        for _ in range(repeats):
            peaks.append(peak_megabytes(apply_command(spec, table, phi, threads)))
            check_table(table, phi, d, width, evaluate, tolerance)
            phi.unlink()
        table.unlink()
        runs.append(peaks)
    peaks = [max(peaks) for peaks in runs]
    return {
        "rows": list(counts), "d": d, "D": width, "runs_megabytes": runs, "peak_megabytes": peaks,
        "ratio": peaks[-1] / peaks[0],
    }  # fmt: skip
