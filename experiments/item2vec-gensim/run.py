"""Trains item2vec and gensim's Word2Vec on the same sequences and compares them by the rule of README.md.

Every training is kept as a JSON file, so a run that was interrupted goes on from there.
"""

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "benches"), str(ROOT / "benches/embed")]

import data
import numpy as np
import quality
import run as bench
from machine import cpu_model
from scipy.stats import t as student

SEEDS = range(5)
DIMS = (100, 32, 200)
COMMON = {"window": 5, "negatives": 5, "lr": 0.025}
# By corpus: who reads it, its settings, and its measures.
CORPORA = {
    "ml-1m": (data.Movies, {"epochs": 10}, ("genres", "hit_rate", "hit_rate_last")),
    "imdb": (data.Words, {"epochs": 5, "subsample": 0.001}, ("association",)),
}
SIDES = {
    "gensim": ((sys.executable, bench.PEER), {}),
    "deterministic": ((bench.BENCH,), {"mode": "deterministic"}),
    "hogwild": ((bench.BENCH,), {"mode": "hogwild"}),
}
# Speed: dim 100 on ML-1M, fewer epochs, the sides in turn.
SPEED = {"dim": 100, **COMMON, "epochs": 2}
ROUNDS = 5
TARGETS = {"deterministic": 2.5, "hogwild": 4.0}


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def trained(kept, name, side, corpus, settings, seed, measures, may_train=True):
    """One training, or what is kept of it; `None` if there is nothing and none may start."""
    file = kept / f"{name}.json"
    if file.exists():
        return json.loads(file.read_text(encoding="utf-8"))
    if not may_train:
        return None
    bench.say(name)
    program, own = SIDES[side]
    case = bench.Case("item2vec", "", {}, ())
    load, before = os.getloadavg()[0], cpu_seconds()
    with tempfile.TemporaryDirectory(dir=kept) as folder:
        job = (program, case, corpus.path, {**settings, **own}, seed, Path(folder))
        found, tables = bench.trained(*job)
    result = {
        "seconds": found["train_seconds"], "cpu_seconds": cpu_seconds() - before, "load": load,
        **{measure: getattr(quality, measure)(tables, corpus) for measure in measures},
    }  # fmt: skip
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(result), encoding="utf-8")
    partial.rename(file)
    return result


def welch(ours, theirs):
    """The difference of two means with its 95 % interval (Welch 1947)."""
    errors = [np.var(values, ddof=1) / len(values) for values in (ours, theirs)]
    freedom = sum(errors) ** 2 / sum(e**2 / (len(v) - 1) for e, v in zip(errors, (ours, theirs)))
    half = student.ppf(0.975, freedom) * sum(errors) ** 0.5
    difference = statistics.fmean(ours) - statistics.fmean(theirs)
    return difference, difference - half, difference + half


def study(kept, corpora, sides, may_train=True):
    """The rows of all cells, and the cells that are not complete."""
    rows, missing = [], []
    for dim in DIMS:
        for name, corpus in corpora.items():
            _, settings, measures = CORPORA[name]
            settings = {"dim": dim, **COMMON, **settings}
            found = {
                side: [
                    trained(kept, f"{name}-{dim}-{side}-{seed}", side, corpus, settings, seed, measures, may_train)
                    for seed in SEEDS
                ]
                for side in sides
            }  # fmt: skip
            if len(sides) < 2:
                continue
            if any(None in of for of in found.values()):
                missing.append(f"{name}, dim {dim}")
                continue
            for measure in measures:
                theirs, ours = ([of[measure] for of in found[side]] for side in sides)
                difference, low, high = welch(ours, theirs)
                rows.append({
                    "corpus": name, "dim": dim, "measure": measure, "gensim": theirs, "ours": ours,
                    "difference": difference, "low": low, "high": high, "holds": bool(high >= 0.0),
                })  # fmt: skip
    return rows, missing


def speed(kept, corpus):
    found = {side: [] for side in SIDES}
    for turn in range(ROUNDS):
        for side, of in found.items():
            of.append(trained(kept, f"speed-{turn}-{side}", side, corpus, SPEED, turn, ()))
    base = statistics.median(of["seconds"] for of in found["gensim"])
    sides = {}
    for side, target in TARGETS.items():
        ratio = base / statistics.median(of["seconds"] for of in found[side])
        sides[side] = {"ratio": ratio, "target": target, "holds": ratio >= target}
    return {"settings": SPEED, "threads": bench.THREADS, "trainings": found, "ratios": sides}


def table(result):
    yield "| corpus | dim | measure | gensim | ours | ours - gensim | 95 % interval | holds |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in result["rows"]:
        means = [f"{statistics.fmean(row[s]):.4f} ({np.std(row[s], ddof=1):.4f})" for s in ("gensim", "ours")]  # fmt: skip
        interval = f"{row['low']:+.4f}, {row['high']:+.4f}"
        cells = [row["corpus"], row["dim"], row["measure"], *means, f"{row['difference']:+.4f}",
                 interval, "yes" if row["holds"] else "no"]  # fmt: skip
        yield "| " + " | ".join(map(str, cells)) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", metavar="DIR", help="folder of the datasets (or VERIDICAL_DATA)")
    parser.add_argument("--keep", type=Path, default=ROOT / "target/item2vec-gensim", metavar="DIR",
                        help="folder of finished trainings")  # fmt: skip
    parser.add_argument("--only", choices=["gensim", "deterministic", "speed"],
                        help="train one side, or the rounds of speed, and write no result")  # fmt: skip
    parser.add_argument("--finished", action="store_true",
                        help="train nothing for quality: the result names the cells that are missing")  # fmt: skip
    given = parser.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    shared = data.found(given.data or os.environ.get("VERIDICAL_DATA"), ROOT)
    corpora = {name: of[0](shared, given.keep) for name, of in CORPORA.items()}
    if given.only in ("gensim", "deterministic"):
        study(given.keep, corpora, [given.only])
        return
    timed = speed(given.keep, corpora["ml-1m"])
    if given.only:
        print(json.dumps(timed["ratios"], indent=2))
        return
    rows, missing = study(given.keep, corpora, ["gensim", "deterministic"], not given.finished)
    result = {
        "machine": {"cpu": cpu_model(), "cores": os.cpu_count(), "gensim": version("gensim")},
        "holds": {
            "quality": all(row["holds"] for row in rows) and (None if missing else True),
            **{f"speed, {side}": of["holds"] for side, of in timed["ratios"].items()},
        },
        "missing": missing, "rows": rows, "speed": timed,
    }  # fmt: skip
    text = json.dumps(result, indent=2) + "\n"
    (HERE / "result.json").write_text(text, encoding="utf-8")
    print("\n".join(table(result)), json.dumps(timed["ratios"], indent=2), sep="\n\n")


if __name__ == "__main__":
    main()
