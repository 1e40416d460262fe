"""Compares training with gensim and implicit, on the same data in one run; see README.md."""

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import data
import numpy as np
import quality
import report

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "target/release/bench-embed"
PEER = Path(__file__).with_name("peer.py")
THREADS = 2
BUSY = 0.5
MODES = ("deterministic", "hogwild")
# Required speedup over the peer, by mode; ALS has one mode, and the aim is 1.5.
TARGETS = {
    "item2vec": {"deterministic": 2.5, "hogwild": 4.0},
    "doc2vec": {"deterministic": 1.0, "hogwild": 2.0},
    "bpr": {"deterministic": 1.0, "hogwild": 1.5},
    "als": {"deterministic": 1.0},
}
SSE_SHARE = 1.05
MEMORY_SLACK = 1 << 30


@dataclass
class Case:
    """One job for both sides; `only_ours` are settings that are fixed in the peer."""

    method: str
    data: str
    settings: dict
    measures: tuple
    rounds: int = 3
    only_ours: dict = field(default_factory=dict)
    # Whether the peer's training time includes its preparation, so that ours must too.
    with_preparation: bool = False

    def name(self):
        s = self.settings
        parts = [f"dim {s['dim']}"]
        parts += [f"{key} {s[key]}" for key in ("algorithm", "window", "negatives") if key in s]
        return f"{self.method}, {self.data}, " + ", ".join(parts)


SMALL = {"dim": 32, "window": 3, "negatives": 3, "lr": 0.025}
LARGE = {"dim": 100, "window": 5, "negatives": 5, "lr": 0.025}
BPR = {"dim": 100, "lr": 0.02, "weight-decay": 0.01, "epochs": 40}
# implicit's BPR always learns biases, draws negatives by popularity and keeps its learning rate constant.
BPR_OURS = {"biases": True, "sampling": "popularity", "schedule": "constant", "negatives": 1}
ALS = {"weight-decay": 10.0, "alpha": 1.0, "epochs": 15}
DOCS = {**LARGE, "lr": 0.05, "epochs": 20}
CASES = (
    Case("item2vec", "ml-1m", {**SMALL, "epochs": 10}, ("genres", "hit_rate")),
    Case("item2vec", "ml-1m", {**LARGE, "epochs": 10}, ("genres", "hit_rate")),
    Case("item2vec", "zipf", {**SMALL, "epochs": 1}, ("topics",), rounds=2),
    Case("item2vec", "zipf", {**LARGE, "epochs": 1}, ("topics",), rounds=2),
    Case("doc2vec", "imdb-10k", {**DOCS, "algorithm": "dbow"}, ("sentiment",)),
    Case("doc2vec", "imdb-10k", {**DOCS, "algorithm": "dm"}, ("sentiment",), rounds=2),
    Case("bpr", "ml-1m", BPR, ("ndcg",), only_ours=BPR_OURS, with_preparation=True),
    Case("als", "ml-1m", {"dim": 64, **ALS}, ("ndcg",), with_preparation=True),
    Case("als", "ml-1m", {"dim": 128, **ALS}, ("ndcg",), with_preparation=True),
)  # fmt: skip
# Ours with every table's transition at p = 0.01, compared with p = 0.
SSE = (
    ("bpr", "ml-1m", {**BPR, **BPR_OURS, "epochs": 10}, ("sse-user", "sse-item")),
    ("item2vec", "ml-1m", {**LARGE, "epochs": 3}, ("sse-item", "sse-context")),
    ("doc2vec", "imdb-10k", {**LARGE, "epochs": 5}, ("sse-doc", "sse-context")),
)
SSE_ROUNDS = 5
MEMORY = ("bpr", (1_000_000, 10_000_000, 10_000_000), {"dim": 64, "epochs": 1})
TOKENS = 50_000_000


def say(text):
    print(text, file=sys.stderr, flush=True)


def call(*command):
    done = subprocess.run([str(c) for c in command], check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def trained(program, case, path, settings, seed, folder):
    """One training: its printed result and its tables."""
    prefix = folder / "vectors"
    found = call(*program, case.method, path, json.dumps(settings), THREADS, seed, prefix)
    tables = {}
    for name, shape in found["shapes"].items():
        file = Path(f"{prefix}.{name}.f32")
        if file.exists():
            tables[name] = np.fromfile(file, "<f4").reshape(shape)
            file.unlink()
    return found, tables


def sides(case):
    """The peer, and ours in every mode: a name, how to call it, its settings."""
    yield "peer", (sys.executable, PEER), case.settings
    modes = MODES if case.method != "als" else MODES[:1]
    for mode in modes:
        own = {**case.settings, **case.only_ours}
        yield mode, (BENCH,), own if case.method == "als" else {**own, "mode": mode}


def seconds(case, side, found):
    prepared = found["prepare_seconds"] if case.with_preparation and side != "peer" else 0.0
    return found["train_seconds"] + prepared


def run_case(case, source, folder, most):
    """All sides in turn, with another random seed in every round."""
    rounds = min(case.rounds, most)
    result = {"name": case.name(), "method": case.method, "data": case.data,
              "settings": case.settings, "only_ours": case.only_ours, "rounds": rounds,
              "sides": {}}  # fmt: skip
    for seed in range(rounds):
        for side, program, settings in sides(case):
            say(f"{case.name()}: {side}, seed {seed}")
            found, tables = trained(program, case, source.path, settings, seed, folder)
            of = result["sides"].setdefault(side, {"seconds": [], "peak_bytes": [], "quality": {}})
            of["seconds"].append(seconds(case, side, found))
            of["peak_bytes"].append(found["peak_bytes"])
            of["samples"] = found["samples"] * found["epochs"]
            for measure in case.measures:
                value = getattr(quality, measure)(tables, source)
                of["quality"].setdefault(measure, []).append(value)
    return result


def run_sse(sources, rounds):
    for method, name, settings, flags in SSE:
        if name not in sources:
            continue
        for mode in MODES:
            say(f"SSE, {method}, {mode}")
            times = {0.0: [], 0.01: []}
            for seed in range(rounds):
                for p, taken in times.items():
                    own = {**settings, "mode": mode, **dict.fromkeys(flags, p)}
                    job = (method, sources[name].path, json.dumps(own), THREADS, seed)
                    taken.append(call(BENCH, *job)["train_seconds"])
            pairs = [b / a for a, b in zip(times[0.0], times[0.01], strict=True)]
            yield {"method": method, "data": name, "mode": mode, "dim": settings["dim"],
                   "seconds": {str(p): taken for p, taken in times.items()},
                   "ratio": min(times[0.01]) / min(times[0.0]),
                   "median_ratio": statistics.median(pairs)}  # fmt: skip


def run_memory(scale):
    method, sizes, settings = MEMORY
    users, items, rows = (round(n * scale) for n in sizes)
    found = {}
    for mode in MODES:
        say(f"memory, {items:,} items, {mode}")
        own = json.dumps({**settings, "mode": mode})
        found[mode] = call(BENCH, method, f"uniform:{users}:{items}:{rows}", own, THREADS, 0)
    return {"method": method, "users": users, "items": items, "rows": rows, **settings,
            "modes": found}  # fmt: skip


def run_all(given):
    folder = given.tmp
    folder.mkdir(parents=True, exist_ok=True)
    results = {"machine": report.machine(), "build": call(BENCH, "about"), "threads": THREADS,
               "scale": given.scale, "cases": [], "skipped": {}, "sse": [], "memory": None,
               "targets": {"speed": TARGETS, "sse": SSE_SHARE, "memory_slack": MEMORY_SLACK}}  # fmt: skip
    if not results["build"]["optimized"]:
        sys.exit(f"{BENCH} is not a release build")
    if (load := results["machine"]["load_before"]) > BUSY:
        say(f"warning: load average {load:.2f}: the machine is not idle")
    shared = data.found(given.data or os.environ.get("VERIDICAL_DATA"), ROOT)
    makers = {
        "ml-1m": lambda: data.Movies(shared, folder),
        "imdb-10k": lambda: data.Reviews(shared, folder),
        "zipf": lambda: data.Zipf(round(TOKENS * given.scale), folder),
    }
    sources = {}
    for name in {case.data: None for case in CASES if given.only in case.name()}:
        say(f"preparing {name}")
        try:
            sources[name] = makers[name]()
        except data.AbsentError as absent:
            results["skipped"][name] = str(absent)
            say(f"skipped: {absent}")
    for case in CASES:
        if case.data in sources and given.only in case.name():
            results["cases"].append(run_case(case, sources[case.data], folder, given.rounds))
    if not given.only or given.only == "sse":
        if given.only:
            sources = {name: makers[name]() for name in ("ml-1m", "imdb-10k")}
        results["sse"] = list(run_sse(sources, min(SSE_ROUNDS, max(3, given.rounds))))
    if not given.only or given.only == "memory":
        results["memory"] = run_memory(given.scale)
    return results


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write every number as JSON")
    parser.add_argument("--markdown", action="store_true", help="write RESULTS.md")
    parser.add_argument("--data", metavar="DIR", help="folder of the datasets (or VERIDICAL_DATA)")
    parser.add_argument("--tmp", type=Path, metavar="DIR", default=ROOT / "target/bench-embed",
                        help="folder for prepared data; kept")  # fmt: skip
    parser.add_argument("--only", default="", metavar="TEXT",
                        help="only cases with this text in their name; `sse` and `memory` are cases too")  # fmt: skip
    parser.add_argument("--scale", type=float, default=1.0,
                        help="share of the generated data; below 1 only to test the script")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=SSE_ROUNDS, metavar="N",
                        help="maximum number of rounds of a case")  # fmt: skip
    given = parser.parse_args()
    if given.rounds < 1:
        parser.error("--rounds must be at least 1")
    if given.markdown and (given.scale != 1.0 or given.only):
        parser.error("--markdown requires a full run, without --scale and --only")
    if not 0.0 < given.scale <= 1.0:
        parser.error("--scale must be above 0 and at most 1")
    if not BENCH.exists():
        build = "cargo build --release -p bench-embed"
        parser.error(f"{BENCH} does not exist; build it with `{build}`")
    return given


def main():
    given = arguments()
    results = run_all(given)
    if given.out:
        given.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(report.text(results))
    if given.markdown:
        Path(__file__).with_name("RESULTS.md").write_text(report.page(results), encoding="utf-8")


if __name__ == "__main__":
    main()
