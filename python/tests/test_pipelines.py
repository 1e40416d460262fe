"""The jobs of examples/pipelines run: the scripts as they are, the schedulers as far as they matter.

Airflow and Dagster are replaced by stubs that record what a file declares; the recorded commands and
functions run for real.
"""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
import yaml
from conftest import PROGRAM, ROOT, Sandbox
from prometheus_client.parser import text_string_to_metric_families

PIPELINES = ROOT / "examples/pipelines"
GOOD, BROKEN, MISSING = "2026-11-18", "2026-11-19", "2026-11-20"


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    """What the examples expect in /srv/embeddings: a good day, and one with ids that went wrong."""
    folder = tmp_path_factory.mktemp("embeddings")
    box, ids = Sandbox(folder), np.arange(400)
    rows = np.random.default_rng(1).standard_normal((400, 16), dtype=np.float32)
    (folder / "incoming").mkdir()
    for name, names, vectors in [
        ("reference", ids, rows),
        (f"incoming/{GOOD}", ids, rows[:, ::-1]),
        (f"incoming/{BROKEN}", np.roll(ids, 1), rows[:, ::-1]),
    ]:
        np.savez(folder / "table.npz", vectors=np.ascontiguousarray(vectors), ids=names)
        box.ok("vectors", "convert", "table.npz", f"{name}.parquet")
    limits = "min-cka = 0.9\nmin-nn-overlap = 0.8\nmin-shared-ids = 0.99\n"
    (folder / "budget.toml").write_text(limits)
    shutil.copytree(PIPELINES, folder / "pipelines")
    return folder


@pytest.fixture
def box(deployment, tmp_path):
    """A copy of the deployment, with the program on the PATH."""
    folder = tmp_path / "embeddings"
    shutil.copytree(deployment, folder)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/veridical").symlink_to(PROGRAM.resolve())
    return Sandbox(folder, PATH=f"{tmp_path}/bin:{os.environ['PATH']}")


def run(box, *command, stdin="", **environment):
    return subprocess.run(
        command,
        check=False,
        cwd=box.folder,
        env=box.environment | environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
    )


def refresh(box, date, *flags, **environment):
    return run(box, "sh", "pipelines/refresh.sh", *flags, DATE=date, **environment)


def example(box, name):
    """The text of an example, with the folder of the deployment for /srv/embeddings."""
    return (PIPELINES / name).read_text().replace("/srv/embeddings", str(box.folder))


def current(box):
    """The version that readers get, or None."""
    link = box.folder / "live/current"
    return os.readlink(link) if link.is_symlink() else None


def gauges(path):
    """The samples of a file, as a list of labels and value per name."""
    found = {}
    for family in text_string_to_metric_families(path.read_text()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


@pytest.fixture
def webhook():
    """A server that keeps the bodies of POST requests; `status` is what it responds."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.server.posts.append((self.headers["Content-Type"], json.loads(body)))
            self.send_response(self.server.status)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.posts, server.status = [], 200
    server.url = f"http://127.0.0.1:{server.server_port}/services/x"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_good_day_is_published_and_a_broken_one_leaves_it_current(box):
    done = refresh(box, GOOD)
    assert done.returncode == 0, done.stderr
    assert current(box) == GOOD
    assert (box.folder / "live/current/_SUCCESS").exists()
    assert f"*published*: live, version {GOOD}" in done.stderr

    done = refresh(box, BROKEN)
    assert done.returncode == 1, done.stderr
    assert current(box) == GOOD
    assert (box.folder / f"live/{BROKEN}.rejected/report.html").exists()
    assert not (box.folder / f"live/{BROKEN}").exists()
    assert f"*rejected*: live, version {BROKEN}" in done.stderr

    done = refresh(box, MISSING)
    assert done.returncode == 2, done.stderr
    assert current(box) == GOOD


def test_settings_come_from_the_environment(box):
    names = {"REFERENCE": "r.parquet", "NEW": "n.parquet", "BUDGET": "b.toml"}
    sources = ["reference.parquet", f"incoming/{GOOD}.parquet", "budget.toml"]
    for source, name in zip(sources, names.values(), strict=True):
        (box.folder / source).rename(box.folder / name)
    done = refresh(box, GOOD, OUT="other out", METRICS="day.prom", **names)
    assert done.returncode == 0, done.stderr
    assert (box.folder / f"other out/{GOOD}/_SUCCESS").exists()
    assert (box.folder / "day.prom").exists()


def test_an_interrupted_day_is_continued_unless_it_is_forced(box, tmp_path):
    program = tmp_path / "bin/veridical"
    program.unlink()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 130\n')
    program.chmod(0o755)
    assert "--resume" not in refresh(box, GOOD).stdout
    (box.folder / f"live/{GOOD}.partial").mkdir(parents=True)
    done = refresh(box, GOOD)
    assert done.returncode == 130 and "--resume" in done.stdout.split()
    assert "--resume" not in refresh(box, GOOD, "--force").stdout
    assert refresh(box, GOOD, "--resume").stdout.split().count("--resume") == 1
    assert "--resume" not in refresh(box, BROKEN).stdout


def test_the_hook_posts_any_text_as_json(box, webhook):
    text = '**"Safe"** in C:\\new\\table, \\n stays: 95 %\n\n- müßig\tnot 日本\x01\n'
    day = {"VERIDICAL_STATUS": "published", "VERIDICAL_OUT": "a", "VERIDICAL_VERSION": "7"}
    hook = ("sh", "pipelines/notify.sh")
    done = run(box, *hook, stdin=text, WEBHOOK_URL=webhook.url, **day)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    shown = text.replace("\t", " ").replace("\x01", "")
    assert webhook.posts == [
        ("application/json", {"text": f"*published*: a, version 7\n\n{shown}"})
    ]
    assert run(box, *hook, stdin=text, **day).stdout == f"*published*: a, version 7\n\n{text}"
    webhook.status = 500
    assert run(box, *hook, stdin=text, WEBHOOK_URL=webhook.url).returncode != 0


@pytest.mark.parametrize(
    ("date", "status", "folder"),
    [(GOOD, "published", GOOD), (BROKEN, "rejected", f"{BROKEN}.rejected")],
)
def test_the_summary_of_the_day_is_posted_once(box, webhook, date, status, folder):
    refresh(box, date, WEBHOOK_URL=webhook.url)
    [(_, message)] = webhook.posts
    summary = (box.folder / f"live/{folder}/summary.md").read_text()
    assert message["text"].startswith(f"*{status}*: live, version {date}\n\n{summary.strip()}")


def test_a_hook_that_fails_changes_nothing(box, webhook):
    webhook.status = 500
    done = refresh(box, GOOD, WEBHOOK_URL=webhook.url)
    assert done.returncode == 0 and current(box) == GOOD
    assert "500" in done.stderr, "curl's message reaches the log"


def test_metrics_of_both_kinds_of_days_are_read_by_prometheus(box):
    refresh(box, GOOD)
    found = gauges(box.folder / "veridical.prom")
    for measure in ["cka", "nn_overlap", "shared_ids"]:
        name = f"veridical_stability_{measure}"
        [[(labels, value)], [(_, low)], [(_, high)]] = (
            found[name + bound] for bound in ["", "_lower", "_upper"]
        )
        assert low <= value <= high
        assert {"table", "reference", "day"} <= set(labels) and labels["day"] == GOOD
    limits = {labels["limit"]: value for labels, value in found["veridical_stability_limit"]}
    assert limits == {"min-cka": 0.9, "min-nn-overlap": 0.8, "min-shared-ids": 0.99}
    assert [value for _, value in found["veridical_stability_limit_kept"]] == [1, 1, 1]
    [(labels, published)], [(_, rows)] = (
        found[f"veridical_refresh_{name}"] for name in ["published", "rows"]
    )
    assert (published, rows, labels["day"]) == (1, 400, GOOD)
    assert gauges(box.folder / "live/current/metrics.prom") == found

    refresh(box, BROKEN)
    found = gauges(box.folder / "veridical.prom")
    [(labels, published)], [(_, passed)] = (
        found[f"veridical_{name}"] for name in ["refresh_published", "stability_passed"]
    )
    assert (published, passed, labels["day"]) == (0, 0, BROKEN)
    assert 0 in [value for _, value in found["veridical_stability_limit_kept"]]


def test_alerts_name_metrics_that_exist_and_are_those_of_the_guide(box):
    [group] = yaml.safe_load(example(box, "alerts.yml"))["groups"]
    rules = [{key: rule[key] for key in ["alert", "expr"]} for rule in group["rules"]]
    guide = (ROOT / "docs/production.md").read_text()
    assert rules == yaml.safe_load(re.search(r"```yaml\n(.*?)```", guide, re.DOTALL)[1])
    refresh(box, BROKEN)
    found = gauges(box.folder / "veridical.prom")
    named = {name for rule in rules for name in re.findall(r"\bveridical_\w+", rule["expr"])}
    assert named and named <= set(found)


def test_the_line_of_the_crontab_runs_and_prints_only_if_nothing_was_published(box):
    lines = [line for line in example(box, "crontab").splitlines() if not line.startswith("#")]
    [entry] = [line for line in lines if not re.match(r"[A-Z_]+=", line)]
    *when, command = entry.split(maxsplit=5)
    assert all(re.fullmatch(r"[\d*]+", field) for field in when)
    assert "%" not in command, "cron takes it for a line break"
    done = run(box, "sh", "-c", command, DATE=GOOD)
    assert (done.stdout, done.stderr, current(box)) == ("", "", GOOD)
    done = run(box, "sh", "-c", command, DATE=BROKEN)
    assert done.stdout.startswith("refresh: exit code 1, see ") and current(box) == GOOD
    assert f"version {BROKEN}" in (box.folder / "refresh.log").read_text()


@pytest.mark.parametrize(
    ("date", "code", "said"),
    [(GOOD, 0, "**"), (BROKEN, 1, "**"), (MISSING, 2, "The refresh did not run to its end")],
)
def test_the_steps_of_the_workflow_run(box, tmp_path, date, code, said):
    workflow = yaml.safe_load(example(box, "github-actions.yml"))
    assert workflow[True]["schedule"], "YAML 1.1 reads the key `on` as true"
    [job] = workflow["jobs"].values()
    assert job["defaults"]["run"]["working-directory"] == str(box.folder)
    page = tmp_path / "summary"
    files = {"GITHUB_STEP_SUMMARY": str(page), "RUNNER_TEMP": str(tmp_path)}
    *steps, upload = job["steps"]
    scripts = [step["run"] for step in steps]
    runs = [run(box, "bash", "-e", "-c", script, DATE=date, **files) for script in scripts]
    assert [done.returncode for done in runs] == [code, 0], runs
    assert said in page.read_text()
    report = upload["with"]["path"].replace("${{ runner.temp }}", str(tmp_path))
    assert os.path.exists(report) == (code != 2)
    assert all(step["if"] == "${{ !cancelled() }}" for step in job["steps"][1:])


def test_the_container_of_the_cronjob_runs(box):
    claim, cronjob = yaml.safe_load_all(example(box, "kubernetes-cronjob.yaml"))
    spec = cronjob["spec"]
    job = spec["jobTemplate"]["spec"]
    pod = job["template"]["spec"]
    assert (spec["concurrencyPolicy"], job["backoffLimit"]) == ("Forbid", 0)
    assert pod["restartPolicy"] == "Never"
    [volume], [container] = pod["volumes"], pod["containers"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    [mount] = container["volumeMounts"]
    assert mount["name"] == volume["name"]
    assert mount["mountPath"] == container["workingDir"] == str(box.folder)
    done = run(box, *container["command"], DATE=GOOD)
    assert done.returncode == 0 and current(box) == GOOD, done.stderr


def load(box, name, monkeypatch, **modules):
    """Runs an example with stubs for the modules that it imports, and returns its names."""
    for module, content in modules.items():
        monkeypatch.setitem(sys.modules, module, content)
    path = box.folder / name
    path.write_text(example(box, name))
    for key, value in box.environment.items():
        monkeypatch.setenv(key, value)
    return runpy.run_path(str(path))


def module(**content):
    made = ModuleType("stub")
    made.__dict__.update(content)
    return made


def test_the_airflow_task_retries_all_failures_but_a_rejected_day(box, monkeypatch):
    class Skip(Exception):
        pass

    class Fail(Exception):
        pass

    tasks = []

    class BashOperator:
        """As the original: one exit code skips, others fail."""

        def __init__(self, *, bash_command, cwd, env, append_env, skip_on_exit_code, **settings):
            assert append_env and not bash_command.endswith((".sh", ".bash"))
            self.command, self.cwd, self.env = bash_command, cwd, env
            self.skipped, self.settings = skip_on_exit_code, settings
            tasks.append(self)

        def execute(self, context):
            env = {
                name: value.replace("{{ ds }}", context["ds"]) for name, value in self.env.items()
            }
            assert self.cwd == str(box.folder)
            done = run(box, "bash", "-c", self.command, **env)
            if done.returncode == self.skipped:
                raise Skip
            if done.returncode:
                raise RuntimeError(done.returncode)

    load(
        box,
        "airflow_dag.py",
        monkeypatch,
        **{
            "airflow.exceptions": module(AirflowFailException=Fail, AirflowSkipException=Skip),
            "airflow.providers.standard.operators.bash": module(BashOperator=BashOperator),
            "airflow.sdk": module(DAG=MagicMock()),
        },
    )
    [task] = tasks
    assert task.settings["retries"] > 0
    task.execute({"ds": GOOD})
    assert current(box) == GOOD
    with pytest.raises(Fail, match="rejected"):
        task.execute({"ds": BROKEN})
    with pytest.raises(RuntimeError, match="2"):
        task.execute({"ds": MISSING})
    assert current(box) == GOOD


def test_the_dagster_asset_has_the_numbers_of_the_day(box, monkeypatch):
    class Failure(Exception):
        def __init__(self, description, metadata=None, allow_retries=True):
            super().__init__(description)
            self.metadata, self.allow_retries = metadata, allow_retries

    dagster = MagicMock()
    dagster.asset = lambda **_: lambda function: function
    dagster.Failure, dagster.MaterializeResult = Failure, SimpleNamespace
    dagster.MetadataValue = SimpleNamespace(md=str, path=str)
    asset = load(box, "dagster_job.py", monkeypatch, dagster=dagster)["embeddings"]

    def materialize(day):
        return asset(SimpleNamespace(partition_key=day))

    found = materialize(GOOD).metadata
    assert current(box) == GOOD
    assert found["schema"] == "veridical.refresh/1" and found["published"] is True
    assert found["rows"] == 400
    assert found["summary"] == (box.folder / "live/current/summary.md").read_text()
    with pytest.raises(Failure, match="rejected") as rejected:
        materialize(BROKEN)
    assert not rejected.value.allow_retries
    assert rejected.value.metadata["published"] is False
    assert os.path.exists(rejected.value.metadata["report"])
    with pytest.raises(Failure, match=f"incoming/{MISSING}.parquet") as failed:
        materialize(MISSING)
    assert failed.value.allow_retries
    assert current(box) == GOOD
