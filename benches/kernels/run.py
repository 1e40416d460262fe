"""Tangent kernels, machines and attributions compared with their peers; see README.md."""

import argparse
import gzip
import json
import math
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
from machine import described, load_before

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / "target/bench-kernels"


class Bench:
    def __init__(self, args):
        self.args = args

    def run(self, command, job, **options):
        options = {"threads": self.args.threads, **options}
        pairs = [f"{name}={value}" for name, value in options.items()]
        done = subprocess.run([*command, job, *pairs], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{job} {' '.join(pairs)}:\n{done.stderr[-3000:]}")
        return json.loads(done.stdout.splitlines()[-1])

    def ours(self, job, **options):
        return self.run([self.args.binary], job, **options)

    def peer(self, job, **options):
        return self.run([sys.executable, str(HERE / "peer.py")], job, **options)

    def folder(self, name):
        folder = WORK / name
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        return folder


def fastest(runs):
    return min(runs, key=lambda run: run["seconds"])


# Exact kernels


def exact(bench, net, n, peer_n, block, rounds):
    folder = bench.folder(net.replace(":", "-").replace(",", "-"))
    ours = bench.ours("trntk", net=net, n=n, dir=folder, rounds=rounds)
    peer = bench.peer("trntk", net=net, n=peer_n, dir=folder, block=block)
    blocks, pairs = peer["blocks"], peer["blocks"] * (peer["blocks"] + 1) / 2
    all_blocks = math.ceil(n / block)
    all_pairs = all_blocks * (all_blocks + 1) / 2
    scaled = {
        key: peer["formed"][key] / blocks * all_blocks + peer["contracted"][key] / pairs * all_pairs
        for key in ("seconds", "cpu_seconds")
    }
    gemm = bench.ours("gemm")["rate"]
    return {
        "net": net, "n": n, "peer_n": peer_n, "block": block, "ours": fastest(ours["runs"]),
        "operations": ours["operations"], "parameters": ours["parameters"], "peer": peer,
        "scaled": scaled, "gemm": gemm,
    }  # fmt: skip


def exact_rows(run, limit):
    own, scaled, peer = run["ours"], run["scaled"], run["peer"]
    what = f"trNTK, {run['net']}, {run['n']:,} x {run['n']:,}"
    measured = f"{run['peer_n']} x {run['peer_n']} measured in {peer['run']['seconds']:.1f} s ({peer['run']['cpu_seconds']:.1f} CPU s)"
    yield compared(what, own, scaled, limit, f"torch.func, {measured}, scaled")
    largest = peer["difference"]
    yield (
        f"{what}: largest difference of a cosine", f"{largest:.1e}", "", "", "<= 1e-5",
        verdict(largest <= 1e-5),
    )  # fmt: skip


def memory_row(run):
    own, peer = run["ours"]["peak_mb"], run["peer"]["two_blocks_mb"]
    what = f"trNTK, {run['net']}: memory, MB (peer: the Jacobians of two blocks of {run['block']} alone)"
    ratio = peer / own
    yield what, f"{own:,.0f}", f"{peer:,.0f}", f"{ratio:.1f}x", ">= 10x", verdict(ratio >= 10)


def gemm_row(run, limit=None):
    share = run["operations"] / run["ours"]["seconds"] / run["gemm"]
    what = (
        f"trNTK, {run['net']}: {run['operations'] / 1e12:.2f} TFLOP at, GFLOP/s (f32 GEMM beside)"
    )
    own = run["operations"] / run["ours"]["seconds"] / 1e9
    yield (
        what, f"{own:,.0f}", f"{run['gemm'] / 1e9:,.0f}", f"{share:.0%}",
        f">= {limit:.0%}" if limit else "beside", verdict(share >= limit) if limit else "",
    )  # fmt: skip


def mlp(bench):
    return exact(bench, "mlp:512,512", 2000, 256, 64, 3)


def cnn(bench):
    return exact(bench, "cnn-small", 1000, 128, 32, 2)


def resnet(bench):
    return exact(bench, "resnet20", 500, 64, 16, 1)


# Sketches


def project(bench):
    folder, options = bench.folder("project"), {"net": "mlp:512,512", "n": 512, "k": 4096}
    ours = bench.ours("project", dir=folder, **options)
    peer = bench.peer("project", dir=folder, paired=ours["paired"], **options)
    return {"ours": ours, "peer": peer, **options}


def project_rows(run):
    own, peer = run["ours"], run["peer"]
    what = f"sketch, K = {run['k']:,}, {run['n']} gradients of {own['parameters']:,}"
    theirs = f"{peer['version']}, gradients given; ours computes them"
    yield compared(what, own["run"], peer["run"], 100, theirs)
    equal = own["rms"] <= 1.2 * peer["rms"]
    yield (
        f"{what}: error of a cosine, rms", f"{own['rms']:.4f}", f"{peer['rms']:.4f}", "",
        "equal (within a fifth)", verdict(equal),
    )  # fmt: skip


# Attributions


def images(args, name, n, skip=0, part="train"):
    folder = Path(args.data) / name
    read = lambda file: gzip.decompress((folder / file).read_bytes())
    pixels = np.frombuffer(read(f"{part}-images-idx3-ubyte.gz"), np.uint8, offset=16)
    labels = np.frombuffer(read(f"{part}-labels-idx1-ubyte.gz"), np.uint8, offset=8)
    rows = slice(skip, skip + n)
    x = pixels.reshape(len(labels), -1)[rows].astype(np.float32) / 255
    return x, labels[rows].astype(np.uint32)


def scores(bench):
    args, folder = bench.args, bench.folder("scores")
    options = {"net": "mlp:64,64", "classes": 10}
    subsets = {"subsets": args.subsets, "seeds": args.seeds}
    x, y = images(args, "mnist", 5000)
    z, truth = images(args, "mnist", 500, part="t10k")
    for name, values in (
        ("rows.f32", x),
        ("labels.u32", y),
        ("queries.f32", z),
        ("query_labels.u32", truth),
    ):
        values.tofile(folder / name)
    ours = bench.ours("scores", dir=folder, epochs=15, **options, **subsets)
    lds = lambda effects: bench.ours(
        "lds", dir=folder, effects=effects, queries=len(truth), **subsets
    )
    result = {
        "ours": ours,
        "lds": {name: lds(f"{name}.f64") for name in ("trak", "removal")},
        "peers": [],
    }
    for k in (512, 2048):
        peer = bench.peer("trak", dir=folder, k=k, batch=500, **options)
        result["peers"].append({"k": k, **peer, "lds": lds("peer.f64")})
    return result


def scores_rows(run):
    own = run["ours"]
    both = f"{own['rows']:,} x {own['queries']}, MLP of {own['parameters']:,} parameters"
    shown = lambda lds: f"{lds['score']['value']:.3f}"
    for effect in ("trak", "removal"):
        for peer in run["peers"]:
            what = f"attributions by {effect}, {both}"
            limit = 10 if effect == "trak" else None
            yield compared(
                what, own[effect], peer["run"], limit, f"{peer['version']} TRAK, K = {peer['k']}"
            )
        best = max(peer["lds"]["score"]["value"] for peer in run["peers"])
        score = run["lds"][effect]
        yield (
            f"{what}: LDS, {score['subsets']} halves x {score['seeds']} seeds, ceiling {score['ceiling']:.2f}",
            shown(score), f"{best:.3f}", "", "beside", "",
        )  # fmt: skip


def labels(bench):
    args, folder = bench.args, bench.folder("labels")
    options = {"net": "mlp:512,512", "classes": 10, "epochs": 30}
    x, y = images(args, "fashion-mnist", 5000)
    rng = np.random.default_rng(0)
    wrong = np.zeros(len(y), np.uint32)
    wrong[rng.choice(len(y), len(y) // 10, replace=False)] = 1
    y = np.where(wrong == 1, (y + rng.integers(1, 10, len(y))) % 10, y).astype(np.uint32)
    for name, values in (("rows.f32", x), ("labels.u32", y), ("wrong.u32", wrong)):
        values.tofile(folder / name)
    return {
        "ours": bench.ours("labels", dir=folder, **options),
        "peer": bench.peer("labels", dir=folder, **options),
    }


def labels_rows(run):
    own, peer = run["ours"], run["peer"]
    what = "wrong labels among 5,000 of Fashion-MNIST, MLP 784-512-512-10, 30 epochs"
    theirs = f"{peer['version']}, five trainings"
    yield compared(f"{what}; the network is there", own["found"], peer["run"], 5, theirs)
    both = {key: own["found"][key] + own["training"][key] for key in ("seconds", "cpu_seconds")}
    yield compared(f"{what}; with its training", both, peer["run"], None, theirs)
    best = max(peer["average_precision"].values())
    ours = own["average_precision"]
    yield (
        f"{what}: average precision",
        f"{ours:.3f}",
        f"{best:.3f}",
        "",
        "not lower",
        verdict(ours >= best),
    )


# Machines


def logistic(bench):
    folder = bench.folder("logistic")
    runs = []
    for lam in (1e-3, 1e-5):
        options = {"n": 5000, "classes": 10, "lambda": lam, "dir": folder}
        ours = bench.ours("logistic", **options)
        peer = bench.peer("logistic", **options) if lam == 1e-3 else None
        runs.append({"lambda": lam, "ours": ours, "peer": peer})
    return {"runs": runs}


def logistic_rows(run):
    for one in run["runs"]:
        own, what = one["ours"], f"kernel logistic, n = 5,000, C = 10, lambda {one['lambda']:g}"
        yield limited(what, own["run"], 10)
        if one["peer"]:
            equal = [p for p in one["peer"]["runs"] if p["objective"] <= own["objective"] + 1e-6]
            chosen = equal[0] if equal else one["peer"]["runs"][-1]
            both = {
                key: chosen["run"][key] + one["peer"]["decomposed"][key]
                for key in ("seconds", "cpu_seconds")
            }
            above = chosen["objective"] - own["objective"]
            theirs = (
                f"{one['peer']['version']} lbfgs on a root of K, {chosen['iterations']} iterations, "
                f"objective {above:+.1e} of ours"
            )
            yield compared(what, own["run"], both, None, theirs)


def ridge(bench):
    folder = bench.folder("ridge")
    options = {"n": 100_000, "dim": 64, "dir": folder}
    runs = {
        "falkon": bench.ours("ridge", solver="falkon", centers=4000, **options),
        "pcg": bench.ours("ridge", solver="pcg", centers=1000, **options),
    }
    found = runs["falkon"]
    shared = {"length_scale": found["length_scale"], "tested": found["tested"], "centers": 4000}
    peer = bench.peer("ridge", **options, **shared)
    return {"runs": runs, "peer": peer}


def ridge_rows(run):
    for name, limit in (("falkon", 120), ("pcg", 480)):
        own = run["runs"][name]
        what = f"ridge, n = 100,000, d = 64, {name}, {own['iterations']} iterations, residual {own['residual']:.1e}"
        yield limited(what, own["run"], limit)
        peak = own["run"]["peak_mb"]
        yield f"{what}: memory, MB", f"{peak:,.0f}", "", "", "<= 2,000", verdict(peak <= 2000)
        if name == "falkon":
            theirs = f"{run['peer']['version']} Nystroem + Ridge, 4,000 centers"
            yield compared(what, own["run"], run["peer"]["run"], None, theirs)
        yield (
            f"{what}: error on new rows",
            f"{own['rmse']:.4f}",
            f"{run['peer']['rmse']:.4f}",
            "",
            "beside",
            "",
        )


def kendall(bench):
    options = {"n": 1_000_000, "dir": bench.folder("kendall")}
    return {"ours": bench.ours("kendall", **options), "peer": bench.peer("kendall", **options)}


def kendall_rows(run):
    for case in ("plain", "ties"):
        own, peer = run["ours"][case], run["peer"][case]
        what = f"Kendall of 1,000,000 pairs, {case}, with its jackknife interval"
        yield limited(what, own["run"], 0.5)
        yield compared(what, own["run"], peer["run"], None, f"{run['peer']['version']}, without")
        same = abs(own["tau"] - peer["tau"]) < 1e-9
        yield f"{what}: tau", f"{own['tau']:.9f}", f"{peer['tau']:.9f}", "", "equal", verdict(same)


# Taps


def taps(bench):
    """Both builds in turn, so that a busy minute affects both."""
    binaries = {"now": bench.args.nets, "before": bench.args.before}
    best = {}
    for _ in range(3):
        for case, batch in (("mlp", 128), ("cnn-small", 128), ("resnet18", 32)):
            for name, binary in binaries.items():
                command = [binary, "taps", case, batch, bench.args.threads, 4]
                done = subprocess.run(
                    [*map(str, command)], check=True, capture_output=True, text=True
                )
                found = json.loads(done.stdout)
                kept = best.setdefault(case, {}).setdefault(name, found)
                for key in ("tap", "gathered", "backward"):
                    kept[key] = min(kept[key], found[key])
    return {"cases": best}


def taps_rows(run):
    for case, both in run["cases"].items():
        for key, what in (("tap", "tap per output"), ("gathered", "with windows gathered")):
            own, before = both["now"][key] * 1e3, both["before"][key] * 1e3
            ratio = before / own
            yield (
                f"taps, {case}, {what}, ms; the build before", f"{own:.3f}", f"{before:.3f}",
                f"{ratio:.2f}x", ">= 1x (0.95 with noise)", verdict(ratio >= 0.95),
            )  # fmt: skip


# The page


def verdict(holds):
    return "ok" if holds else "MISSED"


def seconds(run):
    return f"{run['cpu_seconds']:.3g} CPU s ({run['seconds']:.3g} s)"


def compared(what, own, peer, limit, theirs):
    """By CPU seconds, which a busy machine disturbs least; both ratios are shown."""
    ratio, wall = peer["cpu_seconds"] / own["cpu_seconds"], peer["seconds"] / own["seconds"]
    aim = f">= {limit}x; {ratio / limit:.2g} of it" if limit else "beside"
    return (
        f"{what}; {theirs}", seconds(own), seconds(peer), f"{ratio:.3g}x ({wall:.3g}x)", aim,
        verdict(ratio >= limit) if limit else "",
    )  # fmt: skip


def limited(what, own, limit):
    """By CPU seconds of all threads: on an idle machine it takes less."""
    share = own["cpu_seconds"] / limit
    return what, seconds(own), "", "", f"< {limit} s; {share:.2f} of it", verdict(share < 1)


# Name: (measure, rows, whether it needs data)
CASES = {
    "mlp": (mlp, lambda run: [*exact_rows(run, 200), *memory_row(run), *gemm_row(run)], False),
    "cnn": (cnn, lambda run: [*exact_rows(run, 10), *gemm_row(run)], False),
    "resnet": (resnet, lambda run: [*exact_rows(run, 2), *gemm_row(run, 0.6)], False),
    "project": (project, project_rows, False),
    "scores": (scores, scores_rows, True),
    "labels": (labels, labels_rows, True),
    "logistic": (logistic, logistic_rows, False),
    "ridge": (ridge, ridge_rows, False),
    "kendall": (kendall, kendall_rows, False),
    "taps": (taps, taps_rows, False),
}


def page(results, about, load, threads):
    lines = [
        "# Kernels: results\n",
        "Written by `run.sh kernels --markdown`; [README.md](README.md) explains the columns.\n",
        *described(load, threads, about),
        f"- Python {platform.python_version()}; peers with their versions in the rows\n",
        "| what | ours | peer | ratio | aim | verdict |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, (_, rows, _) in CASES.items():
        if name in results:
            lines += ["| " + " | ".join(row) + " |" for row in rows(results[name])]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=ROOT / "target/release/bench-kernels")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", help="cases with these names, by commas: " + ", ".join(CASES))
    parser.add_argument(
        "--data", default=os.environ.get("VERIDICAL_DATA"),
        help="folder with mnist/ and fashion-mnist/; without it, cases that need them are left out",
    )  # fmt: skip
    parser.add_argument("--subsets", type=int, default=50, help="halves for the LDS")
    parser.add_argument("--seeds", type=int, default=2, help="trainings of each half")
    parser.add_argument("--nets", default=ROOT / "target/release/bench-nets")
    parser.add_argument("--before", help="bench-nets of an earlier commit; without it, no taps")
    parser.add_argument(
        "--out", help="every number as JSON; cases that do not run are kept from it"
    )
    parser.add_argument("--markdown", action="store_true", help="write RESULTS.md")
    args = parser.parse_args()
    load = load_before()
    path = Path(args.out) if args.out else None
    results = json.loads(path.read_text(encoding="utf-8")) if path and path.exists() else {}
    bench = Bench(args)
    for name, (measure, _, needs_data) in CASES.items():
        if args.only is not None and name not in args.only.split(","):
            continue
        if (needs_data and not args.data) or (name == "taps" and not args.before):
            print(f"# {name} is left out: --{'data' if needs_data else 'before'} is not given")
            continue
        results[name] = measure(bench)
        if path:
            path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    text = page(results, bench.ours("about"), load, args.threads)
    print(text)
    if args.markdown:
        (HERE / "RESULTS.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
