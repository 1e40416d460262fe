"""Times `veridical stability` and `refresh` on tables larger than memory, with their peaks; see README.md."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import machine

ROOT = Path(__file__).resolve().parents[2]
OURS = ROOT / "target/release/veridical"
TOOL = ROOT / "target/release/bench-refresh"
THREADS = 2
PROBES = 2000
# Rows and dimensions; with `--before`, an earlier build compares the tables of COMPARED as well.
SIZES = ((500_000, 64), (2_000_000, 64), (20_000_000, 64))
COMPARED = (1_000_000, 128)
QUICK_SIZES = ((100_000, 64), (200_000, 64))
QUICK_COMPARED = (50_000, 128)
# The target: this many times the sum of what cannot be avoided, and this much memory.
TIMES = 1.5
GEMM_FRACTION = 0.6
READINGS = 3
MEMORY = 4 << 30
# Runs of either build, in turns; the fastest counts.
TURNS = 3


def tool(*arguments):
    done = subprocess.run([TOOL, *map(str, arguments)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def timed(program, *arguments):
    """Seconds and peak in bytes of a run of the product; exit code 1 is an outcome."""
    begin = time.perf_counter()
    child = subprocess.Popen([program, *map(str, arguments)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - begin
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 1):
        sys.exit(f"exit code {code}: {' '.join(map(str, arguments))}")
    return {"seconds": seconds, "peak": usage.ru_maxrss * 1024, "code": code}


def compared(program, folder, a, b, flags):
    """`stability` and `refresh` of two tables."""
    out = folder / "live"
    pair = ("--reference", a, "--new", b, "--out", out, "--min-cka", 0.5)
    results = {
        "stability": timed(program, "stability", a, b, *flags),
        "refresh": timed(program, "refresh", *pair, *flags),
    }
    shutil.rmtree(out, ignore_errors=True)
    return results


def case(folder, rows, dim, gemm, earlier=None):
    """One size: in one order and shuffled, and by an earlier build in turns."""
    a, b, c = (folder / f"{name}.parquet" for name in ("a", "b", "c"))
    tool("make", a, rows, dim)
    tool("make", b, rows, dim, "noise")
    tool("make", c, rows, dim, "noise", "shuffled")
    reading = sum(min(tool("read", t)["seconds"] for _ in range(2)) for t in (a, b))
    pieces = tool("pieces", folder, rows, dim)["seconds"]
    products = 2 * 2.0 * PROBES * rows * dim / (GEMM_FRACTION * gemm)
    results = []
    for name, table, extra in (("one order", b, 0.0), ("shuffled", c, pieces)):
        flags = ["--quiet", "--threads", THREADS]
        result = {
            "rows": rows,
            "dim": dim,
            "order": name,
            "reading": reading,
            "pieces": extra,
            "products": products,
            "limit": TIMES * (READINGS * reading + extra + products),
            "ours": [],
            "before": [],
        }
        for _ in range(TURNS if earlier else 1):
            ours = compared(OURS, folder, a, table, [*flags, "--scratch", folder])
            result["ours"].append(ours)
            if earlier:
                result["before"].append(compared(earlier, folder, a, table, flags))
        results.append(result)
        print(json.dumps(result), flush=True)
    for table in (a, b, c):
        table.unlink()
    return results


def best(runs, verb):
    """Seconds and peak of the fastest run of a verb."""
    return min((run[verb] for run in runs), key=lambda run: run["seconds"])


def compared_table(results):
    lines = [
        "| rows | order | verb | before | peak | now | peak | now / before |",
        "|---:|---|---|---:|---:|---:|---:|---:|",
    ]
    for r in results:
        for verb in ("stability", "refresh"):
            old, new = best(r["before"], verb), best(r["ours"], verb)
            lines.append(
                f"| {r['rows']:,} x {r['dim']} | {r['order']} | {verb} "
                f"| {old['seconds']:.1f} s | {old['peak'] / 1e6:.0f} MB "
                f"| {new['seconds']:.1f} s | {new['peak'] / 1e6:.0f} MB "
                f"| {new['seconds'] / old['seconds']:.2f} |"
            )
    return lines


def table(results):
    lines = [
        "| rows | order | reading once | pieces | products | target | stability | of target | peak | refresh | peak |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for r in results:
        s, f = (best(r["ours"], verb) for verb in ("stability", "refresh"))
        lines.append(
            f"| {r['rows']:,} x {r['dim']} | {r['order']} | {r['reading']:.1f} s | {r['pieces']:.1f} s "
            f"| {r['products']:.1f} s | {r['limit']:.1f} s "
            f"| {s['seconds']:.1f} s | {s['seconds'] / r['limit']:.2f} | {s['peak'] / 1e6:.0f} MB "
            f"| {f['seconds']:.1f} s | {f['peak'] / 1e6:.0f} MB |"
        )
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small tables: whether it runs")
    parser.add_argument("--folder", type=Path, help="folder with 25 GB of space")
    parser.add_argument("--before", type=Path, help="an earlier build to compare with")
    arguments = parser.parse_args()
    load = machine.load_before()
    sizes, (rows, dim) = (QUICK_SIZES, QUICK_COMPARED) if arguments.quick else (SIZES, COMPARED)
    rates = {d: tool("gemm", d)["flops_per_second"] for d in sorted({dim, *(d for _, d in sizes)})}
    print(json.dumps({"gemm_gflops": {d: rate / 1e9 for d, rate in rates.items()}}), flush=True)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        folder = Path(folder)
        both = case(folder, rows, dim, rates[dim], arguments.before) if arguments.before else []
        results = [r for n, d in sizes for r in case(folder, n, d, rates[d])]
    page = ["# Refresh of large tables", ""]
    page += machine.described(load, THREADS, tool("about"))
    page += [f"- Products of rows of {d}: {rate / 1e9:.0f} GFLOP/s" for d, rate in rates.items()]
    page += ["", *table(results), ""]
    if both:
        page += ["Beside an earlier build, fastest of three runs of each in turns:", ""]
        page += [*compared_table(both), ""]
    if not arguments.quick:
        (Path(__file__).parent / "RESULTS.md").write_text("\n".join(page), encoding="utf-8")
    print("\n".join(page))
    # Small tables take the time of the measures that do not grow with rows; the target is for the largest.
    runs = [(r["limit"], run) for r in results if r["rows"] == sizes[-1][0] for run in r["ours"]]
    worst = max(run["stability"]["seconds"] / limit for limit, run in runs)
    peak = max(run[verb]["peak"] for _, run in runs for verb in run)
    print(f"worst fraction of the target {worst:.2f}, largest peak {peak / 1e9:.2f} GB")
    return 0 if worst <= 1 and peak <= MEMORY else 1


if __name__ == "__main__":
    sys.exit(main())
