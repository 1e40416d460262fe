"""The daily refresh as a DAG for Airflow 3.

Exit code 1 means that the day was rejected: the task fails at once, because a retry would give the
same answer. Other failures (a table that is late, a lock, a store that does not respond) are
retried, and an interrupted day is continued.
"""

from datetime import datetime, timedelta

from airflow.exceptions import AirflowFailException, AirflowSkipException
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

REJECTED = 1


class RefreshOperator(BashOperator):
    """Runs the refresh; a rejected day fails without a retry."""

    def __init__(self, **settings):
        super().__init__(skip_on_exit_code=REJECTED, **settings)

    def execute(self, context):
        try:
            return super().execute(context)
        except AirflowSkipException:
            # A skipped task would look harmless and skip everything downstream in silence.
            raise AirflowFailException("the day was rejected; its report is in live/") from None


with DAG(
    dag_id="refresh",
    schedule="30 5 * * *",
    start_date=datetime(2026, 11, 18),
    catchup=False,
    max_active_runs=1,
) as dag:
    RefreshOperator(
        task_id="refresh",
        # Not the script alone: Airflow takes a command that ends in `.sh` for a template file.
        bash_command="sh pipelines/refresh.sh --quiet",
        cwd="/srv/embeddings",
        env={"DATE": "{{ ds }}"},
        append_env=True,
        retries=2,
        retry_delay=timedelta(minutes=10),
    )
