"""Logistic regression compared with scikit-learn at equal loss, Procrustes with the GEMM rate; see README.md."""

import argparse
import json
import os
import platform
import resource
import subprocess
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from machine import cpu_model
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / "target/bench-learn"
SHAPES = [(10_000, 64, 18, 1.0), (60_000, 784, 10, 1.0)]
TOLERANCES = (1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6)
PROCRUSTES_LIMIT = 20.0


def ours(binary, *args):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    out = subprocess.run([binary, *map(str, args)], check=True, capture_output=True, text=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    return {"cpu_seconds": used, **json.loads(out.stdout)}


def examples(n, dim, classes):
    """Rows with a decaying spectrum and noisy planted classes; wide rows are pixels: 0 to 1, most of them 0."""
    rng = np.random.default_rng(n)
    latent = rng.normal(size=(n, min(dim, 64))).astype(np.float32)
    mix = (
        rng.normal(size=(latent.shape[1], dim)) / np.arange(1, latent.shape[1] + 1)[:, None] ** 0.7
    )
    x = (latent @ mix.astype(np.float32)).astype(np.float32)
    if dim > 100:
        x = np.clip(x / x.std() - 0.7 + 0.2 * rng.normal(size=x.shape).astype(np.float32), 0, 2) / 2
    else:
        x += 0.3 * rng.normal(size=x.shape).astype(np.float32)
    planted = rng.normal(size=(latent.shape[1], classes))
    y = np.argmax(latent @ planted + 3 * rng.gumbel(size=(n, classes)), axis=1)
    return np.ascontiguousarray(x, dtype=np.float32), y.astype(np.uint32)


def loss_of(x, y, fit, c):
    s = x.astype(float) @ fit.coef_.astype(float).T + fit.intercept_
    top = s.max(axis=1)
    data = top + np.log(np.exp(s - top[:, None]).sum(axis=1)) - s[np.arange(len(y)), y]
    return data.mean() + (fit.coef_.astype(float) ** 2).sum() / (2 * c * len(y))


def peer(x, y, c, rounds, threads):
    """The faster of f32 and f64 rows, at scikit-learn's own tolerance."""
    best = None
    for dtype in (np.float64, np.float32):
        rows = x.astype(dtype)
        for _ in range(rounds):
            with threadpool_limits(threads):
                start, used = time.perf_counter(), time.process_time()
                fit = LogisticRegression(C=c, max_iter=5000).fit(rows, y)
                seconds, used = time.perf_counter() - start, time.process_time() - used
            if best is None or seconds < best["seconds"]:
                loss = loss_of(x, y, fit, c)
                best = {
                    "seconds": seconds,
                    "cpu_seconds": used,
                    "loss": loss,
                    "iterations": int(fit.n_iter_[0]),
                    "dtype": dtype.__name__,
                }
    return best


def logistic(binary, shape, rounds, threads):
    n, dim, classes, c = shape
    x, y = examples(n, dim, classes)
    WORK.mkdir(parents=True, exist_ok=True)
    rows, labels = WORK / "rows.f32", WORK / "labels.u32"
    x.tofile(rows)
    y.tofile(labels)
    theirs = peer(x, y, c, rounds, threads)
    result = {"shape": shape, "peer": theirs}
    for tolerance in TOLERANCES:
        run = ours(binary, "logistic", rows, labels, dim, classes, c, tolerance, threads, rounds)
        # CPU time per round, including a share of reading the rows.
        used = run["cpu_seconds"] / rounds
        run |= {"seconds": min(run["seconds"]), "cpu_seconds": used, "tolerance": tolerance}
        if "equal" not in result and run["loss"] <= theirs["loss"]:
            result["equal"] = run
        result["default"] = run
    return result


def page(results, about):
    lines = [
        "# Small estimators: results\n",
        "[README.md](README.md) explains the columns.\n",
        f"- CPU: {cpu_model()}, {os.cpu_count()} cores; {platform.system()}",
        f"- Load average before the run: {results['load']:.2f}",
        f"- Threads: {results['threads']} for all",
        f"- Veridical {about['version']}: `cargo build --release` for {about['target']}, not target-cpu=native",
        (
            f"- Peer: scikit-learn {version('scikit-learn')}; numpy {version('numpy')}, "
            f"Python {platform.python_version()}\n"
        ),
        "| case | side | seconds | CPU s | loss | iterations | speedup | CPU speedup | target | verdict |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for case in results["logistic"]:
        n, dim, classes, _ = case["shape"]
        what, theirs = f"logistic, {n:,} x {dim}, {classes} classes", case["peer"]
        row = f"| {what} | scikit-learn, {theirs['dtype']} | {theirs['seconds']:.3f} | {theirs['cpu_seconds']:.3f} | "
        lines.append(row + f"{theirs['loss']:.8f} | {theirs['iterations']} | 1.00x | 1.00x | | |")
        for name, run in (
            ("equal loss", case.get("equal")),
            ("default tolerance", case["default"]),
        ):
            if run is None:
                lines.append(f"| {what} | ours, {name} | | | not reached | | | | >= 1 | MISSED |")
                continue
            ratio = theirs["seconds"] / run["seconds"]
            used = theirs["cpu_seconds"] / run["cpu_seconds"]
            row = f"| {what} | ours, {name} ({run['tolerance']:g}) | {run['seconds']:.3f} | {run['cpu_seconds']:.3f} | "
            target = f">= 1 | {'ok' if ratio >= 1 else 'MISSED'}" if name == "equal loss" else " | "
            row += (
                f"{run['loss']:.8f} | {run['iterations']} | {ratio:.2f}x | {used:.2f}x | {target} |"
            )
            lines.append(row)
    fit = results["procrustes"]
    share = fit["moments_rate"] / fit["gemm_rate"]
    lines += [
        "\n| case | value | baseline | target | verdict |",
        "| --- | --- | --- | --- | --- |",
        (
            f"| Procrustes, 1,000,000 x 384 | {fit['seconds']:.2f} s | | < {PROCRUSTES_LIMIT:.0f} s | "
            f"{'ok' if fit['seconds'] < PROCRUSTES_LIMIT else 'MISSED'} |"
        ),
        (
            f"| of which moments | {fit['moments_rate'] / 1e9:.1f} GFLOP/s | f64 GEMM {fit['gemm_rate'] / 1e9:.1f} "
            f"({share:.0%}) | | |"
        ),
        (
            f"| applying the map | {fit['apply_rate'] / 1e9:.1f} GFLOP/s | the same "
            f"({fit['apply_rate'] / fit['gemm_rate']:.0%}) | | |"
        ),
        (
            f"| residual of the planted rotation | {fit['residual']:.1e} | | < 1e-6 | "
            f"{'ok' if fit['residual'] < 1e-6 else 'MISSED'} |"
        ),
    ]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=ROOT / "target/release/bench-learn")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--scale", type=float, default=1.0, help="share of the data; below 1 only for a test run"
    )
    parser.add_argument("--out", help="write every number as JSON")
    parser.add_argument("--markdown", action="store_true", help="write RESULTS.md")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"# the machine is busy: load {load:.2f}", flush=True)
    shapes = [(max(int(n * args.scale), 10 * k), d, k, c) for n, d, k, c in SHAPES]
    results = {
        "load": load,
        "threads": args.threads,
        "logistic": [logistic(args.binary, shape, args.rounds, args.threads) for shape in shapes],
        "procrustes": ours(
            args.binary, "procrustes", int(1_000_000 * args.scale), 384, args.threads
        ),
    }
    text = page(results, ours(args.binary, "about"))
    print(text)
    if args.out:
        Path(args.out).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if args.markdown:
        (HERE / "RESULTS.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
