"""Tables in an object store: moto's S3 on loopback and, where a store must misbehave, a stub."""

import json
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import numpy as np
import pytest
from conftest import Sandbox
from moto.server import ThreadedMotoServer

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
}
KEYS = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"
ENDPOINT = "AWS_ENDPOINT_URL and AWS_REGION"


@pytest.fixture(scope="module")
def endpoint():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(endpoint):
    """An empty bucket called `bucket`."""
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )
    client.create_bucket(Bucket="bucket")
    yield client
    for key in keys(client):
        client.delete_object(Bucket="bucket", Key=key)
    client.delete_bucket(Bucket="bucket")


@pytest.fixture
def box(tmp_path, endpoint, s3):
    """A sandbox with the endpoint and credentials of the store."""
    return Sandbox(tmp_path, AWS_ENDPOINT_URL=endpoint, **CREDENTIALS)


def keys(s3):
    return sorted(o["Key"] for o in s3.list_objects_v2(Bucket="bucket").get("Contents", []))


def get(s3, key):
    return s3.get_object(Bucket="bucket", Key=key)["Body"].read()


def put(s3, key, body):
    s3.put_object(Bucket="bucket", Key=key, Body=body)


def table(box, name, rows=1000, dim=8):
    """Writes a table with ids to disk and returns its path."""
    values = np.random.default_rng(1).standard_normal((rows, dim), dtype=np.float32)
    with open(box.folder / name, "wb") as file:
        np.savez(file, vectors=values, ids=np.arange(rows))
    return box.folder / name


FORMATS = ["parquet", "arrow", "npz", "safetensors", "csv", "vec", "bin", "txt"]


@pytest.mark.parametrize("ending", FORMATS)
def test_a_table_is_read_and_written_with_the_bytes_of_a_local_one(box, s3, ending):
    table(box, "t.npz")
    box.ok("vectors", "convert", "t.npz", f"local.{ending}")
    box.ok("vectors", "convert", "t.npz", f"s3://bucket/a/t.{ending}")
    local = (box.folder / f"local.{ending}").read_bytes()
    assert get(s3, f"a/t.{ending}") == local
    box.ok("vectors", "convert", f"s3://bucket/a/t.{ending}", f"again.{ending}")
    assert (box.folder / f"again.{ending}").read_bytes() == local
    assert box.staged() == []


def test_an_object_of_many_blocks_and_parts_is_the_same_after_the_way_there_and_back(box, s3):
    table(box, "t.npz", rows=400_000, dim=16)  # 25 MB: three parts, seven blocks
    box.ok("vectors", "convert", "t.npz", "local.parquet")
    box.ok("vectors", "convert", "t.npz", "s3://bucket/t.parquet")
    assert get(s3, "t.parquet") == (box.folder / "local.parquet").read_bytes()
    box.ok("vectors", "convert", "s3://bucket/t.parquet", "again.npz")
    box.ok("vectors", "convert", "t.npz", "local.npz")
    assert (box.folder / "again.npz").read_bytes() == (box.folder / "local.npz").read_bytes()


def test_features_and_their_spec_go_to_the_store(box, s3):
    table(box, "t.npz")
    box.ok("featurize", "apply", "t.npz", "phi.parquet")
    box.ok("featurize", "apply", "t.npz", "s3://bucket/phi.parquet")
    for name in ["phi.parquet", "phi.spec.json"]:
        assert get(s3, name) == (box.folder / name).read_bytes()


def test_a_folder_is_written_with_its_success_and_read_with_its_partitions(box, s3):
    table(box, "t.npz")
    box.ok("vectors", "convert", "t.npz", "local", "--rows-per-part", 300)
    box.ok("vectors", "convert", "t.npz", "s3://bucket/d/day=1", "--rows-per-part", 300)
    names = [f"part-{i:05}.parquet" for i in range(4)]
    assert keys(s3) == ["d/day=1/_SUCCESS", *(f"d/day=1/{name}" for name in names)]
    for name in names:
        assert get(s3, f"d/day=1/{name}") == (box.folder / "local" / name).read_bytes()
    put(s3, "d/_log/x.parquet", b"not a table")
    put(s3, "d/day=1/.x.crc", b"")
    for folder in ["s3://bucket/d", "s3://bucket/d/"]:
        box.ok("vectors", "convert", folder, "back.csv", "--keep-columns", "day", "--force")
    text = (box.folder / "back.csv").read_text().splitlines()
    assert len(text) == 1001 and text[0].endswith(",day") and text[-1].endswith(",1")

    # Replacing the folder by a shorter one removes the surplus parts.
    said = box.refuses("vectors", "convert", "t.npz", "s3://bucket/d/day=1", "--rows-per-part", 500)
    assert said.endswith("already exists; choose another name or replace it with --force")
    box.ok(
        *("vectors", "convert", "t.npz", "s3://bucket/d/day=1", "--rows-per-part", 500, "--force")
    )
    want = ["d/day=1/_SUCCESS", "d/day=1/part-00000.parquet", "d/day=1/part-00001.parquet"]
    assert [key for key in keys(s3) if not key.endswith(".crc") and "_log" not in key] == want
    put(s3, "d/day=1/precious.txt", b"")
    said = box.refuses(
        *("vectors", "convert", "t.npz", "s3://bucket/d/day=1", "--rows-per-part", 500, "--force")
    )
    assert said.endswith("contains files that are not parts of a table; choose another name")


def test_an_object_that_is_there_is_left_alone_and_an_overlap_is_refused(box, s3):
    table(box, "t.npz")
    put(s3, "t.csv", b"id,a\n1,2\n")
    said = box.refuses("vectors", "convert", "t.npz", "s3://bucket/t.csv")
    assert said == (
        "s3://bucket/t.csv already exists; choose another name or replace it with --force"
    )
    assert get(s3, "t.csv") == b"id,a\n1,2\n"
    for output in ["s3://bucket/t.csv", "s3://bucket/t.csv/x.csv"]:
        said = box.refuses("vectors", "convert", "s3://bucket/t.csv", output, "--force")
        assert said.startswith(f"--output {output}: this is the input of --input, or one is "), said
    box.ok("vectors", "convert", "t.npz", "s3://bucket/t.csv", "--force")
    assert get(s3, "t.csv").startswith(b"id,v0")


def wait_for(condition):
    for _ in range(10_000):
        if condition():
            return
        time.sleep(0.002)
    raise AssertionError("it did not happen")


@pytest.mark.parametrize("parts", [[], ["--rows-per-part", 150_000]])
def test_a_killed_job_is_resumed_to_the_same_bytes(box, s3, parts):
    table(box, "t.npz", rows=400_000, dim=16)
    box.ok("vectors", "convert", "t.npz", "local.csv", *(parts and [*parts, "--format", "csv"]))
    job = ["vectors", "convert", "t.npz", "s3://bucket/out.csv", "--staging", "stage"]
    job += parts and [*parts, "--format", "csv"]
    process = box.start(*job)
    wait_for(lambda: list((box.folder / "stage").glob("*.partial/_journal.json")))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert keys(s3) == []
    assert "holds an unfinished job; continue it with --resume" in box.refuses(*job)
    box.ok(*job, "--resume")
    local = box.folder / "local.csv"
    if parts:
        want = {f"out.csv/{path.name}": path.read_bytes() for path in local.iterdir()}
        want["out.csv/_SUCCESS"] = b""
    else:
        want = {"out.csv": local.read_bytes()}
    assert {key: get(s3, key) for key in keys(s3)} == want
    assert list((box.folder / "stage").iterdir()) == []


class Stub(BaseHTTPRequestHandler):
    """An empty store that refuses uploads; with status "hangs" it does not respond to them."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.answer(403 if self.server.status == "denied" else 404)

    def do_GET(self):
        if self.server.status == "denied":
            code = b"<Error><Code>SignatureDoesNotMatch</Code></Error>"
            return self.answer(403, code)
        body = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
        self.answer(200, body)

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.puts.set()
        if self.server.status == "hangs":
            self.server.over.wait(60)
        self.answer(403, b"<Error><Code>AccessDenied</Code></Error>")


@pytest.fixture
def stub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    server.status, server.puts, server.over = "denied", threading.Event(), threading.Event()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    server.url = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.over.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_upload_that_is_killed_or_refused_is_taken_up_again(box, s3, stub):
    table(box, "t.npz")
    box.ok("vectors", "convert", "t.npz", "local.parquet")
    job = ["vectors", "convert", "t.npz", "s3://bucket/t.parquet"]
    good = box.environment["AWS_ENDPOINT_URL"]

    box.environment["AWS_ENDPOINT_URL"] = stub.url
    stub.status = "refuses"
    said = box.refuses(*job)
    start = (
        "s3://bucket/t.parquet: cannot write: access to `t.parquet` in bucket `bucket` is denied "
        f"(AccessDenied); check {KEYS} and their permissions; the finished table is in "
    )
    assert said.startswith(start) and said.endswith("-t.parquet.partial: continue with --resume")

    stub.status = "hangs"
    stub.puts.clear()
    process = box.start(*job, "--resume")
    assert stub.puts.wait(60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    # The lock that a killed job leaves is taken over by the next one.
    assert len([name for name in box.staged() if not name.endswith(".lock")]) == 1

    box.environment["AWS_ENDPOINT_URL"] = good
    box.ok(*job, "--resume")
    assert get(s3, "t.parquet") == (box.folder / "local.parquet").read_bytes()
    assert box.staged() == []


def test_an_object_that_changes_while_it_is_read_is_refused(box, s3):
    values = np.zeros((3 << 20, 8), dtype=np.float32)  # 96 MiB: more than is ever read ahead
    np.save(box.folder / "t.npy", values)
    s3.upload_file(str(box.folder / "t.npy"), "bucket", "t.npy")
    process = box.start("vectors", "convert", "s3://bucket/t.npy", "-")
    process.stdout.read(1)  # the process is running and blocks on the pipe
    values[0] = 1
    np.save(box.folder / "t.npy", values)
    s3.upload_file(str(box.folder / "t.npy"), "bucket", "t.npy")
    _, said = process.communicate(timeout=120)
    assert process.returncode == 2
    assert said.decode().strip() == (
        "veridical: error: s3://bucket/t.npy: cannot read: the object changed while it was read; run "
        "the job again when no other process writes to it"
    )


def test_wrong_credentials_are_named_with_where_they_come_from(box, stub):
    box.environment["AWS_ENDPOINT_URL"] = stub.url
    table(box, "t.npz")
    denied = f"is denied{{}}; check {KEYS} and their permissions"
    said = box.refuses("vectors", "stats", "s3://bucket/t.parquet")
    place = "s3://bucket/t.parquet: cannot open: access to `t.parquet` in bucket `bucket` "
    assert said == place + denied.format("")
    said = box.refuses("vectors", "stats", "s3://bucket/d/")
    place = "s3://bucket/d: cannot list: access to `d` in bucket `bucket` "
    assert said == place + denied.format(" (SignatureDoesNotMatch)")
    box.refuses("vectors", "convert", "t.npz", "s3://bucket/x.parquet")
    assert box.staged() == []


def test_an_endpoint_that_cannot_be_reached_fails_soon_with_one_line(box):
    box.environment["AWS_ENDPOINT_URL"] = "http://127.0.0.1:9"
    process = box.start("vectors", "stats", "s3://bucket/t.parquet")
    _, said = process.communicate(timeout=30)
    said = said.decode()
    assert process.returncode == 2 and said.count("\n") == 1
    assert said.startswith(
        "veridical: error: s3://bucket/t.parquet: cannot open: bucket `bucket`: "
    )
    assert said.strip().endswith(f"check the network, {ENDPOINT}, and {KEYS}"), said


def test_what_is_missing_is_named(box, s3):
    table(box, "t.npz")
    said = box.refuses("vectors", "stats", "s3://bucket/no/t.parquet")
    assert said == (
        "s3://bucket/no/t.parquet: cannot open: there is no object `no/t.parquet` in bucket `bucket`; "
        "check the name"
    )
    no_bucket = f"there is no bucket `nowhere`; check its name and {ENDPOINT}"
    said = box.refuses("vectors", "stats", "s3://nowhere/t.parquet")
    assert said == f"s3://nowhere/t.parquet: cannot list: {no_bucket}"
    said = box.refuses("vectors", "convert", "t.npz", "s3://nowhere/t.parquet")
    assert said == f"s3://nowhere/t.parquet: cannot list: {no_bucket}"
    assert box.staged() == []
    said = box.refuses("vectors", "convert", "t.npz", "s3://bucket/")
    assert said.startswith("s3://bucket/"), said


def days(box, name="t.npz"):
    """A table in other coordinates, and the arguments of a refresh to the store."""
    path = table(box, name, rows=300)
    loaded = np.load(path)
    with open(box.folder / "day.npz", "wb") as file:
        np.savez(file, vectors=loaded["vectors"][:, ::-1].copy(), ids=loaded["ids"])
    with open(box.folder / "broken.npz", "wb") as file:
        np.savez(file, vectors=loaded["vectors"], ids=np.roll(loaded["ids"], 7))
    small = ["--probes", "50", "--pairs", "200", "--kernel-ids", "100", "--min-cka", "0.9"]
    return ["refresh", "--reference", name, "--out", "s3://bucket/live", *small]


def test_publications_live_in_a_store(box, s3):
    refresh = days(box)
    box.ok(*refresh, "--new", "day.npz", "--date", "2026-01-01")
    box.ok(*refresh, "--new", "day.npz", "--date", "2026-01-02")
    code, said = box.run(*refresh, "--new", "broken.npz", "--date", "2026-01-03")
    assert code == 1 and "s3://bucket/live/2026-01-03.rejected/report.html" in said
    pointer = json.loads(get(s3, "live/_current.json"))
    assert pointer["version"] == "2026-01-02"
    for name in ["vectors/vectors.parquet", "map.safetensors", "manifest.json", "_SUCCESS"]:
        assert f"live/2026-01-02/{name}" in keys(s3)
    assert "live/2026-01-03.rejected/manifest.json" in keys(s3)
    assert get(s3, "live/manifests/2026-01-02.json") == get(s3, "live/2026-01-02/manifest.json")
    # The bytes are those of a local publication.
    local = [arg if arg != "s3://bucket/live" else "live" for arg in refresh]
    box.ok(*local, "--new", "day.npz", "--date", "2026-01-01")
    vectors = (box.folder / "live/2026-01-01/vectors/vectors.parquet").read_bytes()
    assert get(s3, "live/2026-01-01/vectors/vectors.parquet") == vectors
    # Every verb takes the folder; it can be checked, listed, gone back from and looked at.
    box.ok("vectors", "stats", "s3://bucket/live")
    box.ok("refresh", "verify", "s3://bucket/live")
    box.ok("refresh", "list", "s3://bucket/live")
    box.ok("refresh", "history", "s3://bucket/live", "--html", "history.html")
    box.ok("refresh", "rollback", "s3://bucket/live")
    assert json.loads(get(s3, "live/_current.json"))["version"] == "2026-01-01"
    said = box.refuses(*refresh, "--new", "day.npz", "--date", "2026-01-01")
    assert said.startswith("version 2026-01-01 already exists in s3://bucket/live; ")
    said = box.refuses(*refresh, "--new", "day.npz", "--date", "2026-01-01", "--force")
    assert "version 2026-01-01 is current, and objects cannot be replaced all at once" in said
    box.ok(*refresh, "--new", "day.npz", "--date", "2026-01-04", "--keep", "1")
    left = {key.split("/")[1] for key in keys(s3) if "/vectors/" in key}
    assert left == {"2026-01-01", "2026-01-04"}, left
    put(s3, "live/2026-01-04/summary.md", b"changed")
    said = box.refuses("refresh", "verify", "s3://bucket/live")
    assert said.startswith("s3://bucket/live/2026-01-04/summary.md: has 7 bytes")
    assert [name for name in box.staged() if "live" in name and not name.endswith("live")] == []


def test_of_two_jobs_that_publish_to_a_store_one_loses(box, s3):
    refresh = days(box)
    box.ok(*refresh, "--new", "day.npz", "--date", "2026-01-01")
    # The pointer moves while the second job is at work: simulated by a claim of the same version, and by a hook of the
    # first one that runs before the second one switches.
    put(s3, "live/2026-01-02/_job.json", b"another job")
    said = box.refuses(*refresh, "--new", "day.npz", "--date", "2026-01-02")
    assert said.startswith("s3://bucket/live/2026-01-02 is being written by another job; ")
    assert json.loads(get(s3, "live/_current.json"))["version"] == "2026-01-01"
    # Jobs on two machines (two staging folders), each with its own version, at the same time.
    jobs = [
        box.start(
            *refresh, "--new", "day.npz", "--date", f"2026-02-0{i}", "--staging", f"stage-{i}"
        )
        for i in range(1, 5)
    ]
    ended = [(job.wait(timeout=120), job.stderr.read().decode()) for job in jobs]
    assert any(code == 0 for code, _ in ended), ended
    for code, said in ended:
        assert code == 0 or code == 2 and "another job published meanwhile" in said, ended
    box.ok("refresh", "verify", "s3://bucket/live")


def test_a_store_without_conditional_puts_is_refused(box, s3):
    refresh = days(box)
    box.environment["AWS_CONDITIONAL_PUT"] = "disabled"
    said = box.refuses(*refresh, "--new", "day.npz", "--date", "2026-01-01")
    assert "the store refuses conditional puts" in said, said
    assert "live/_current.json" not in keys(s3)
