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
DIM = 64
SIZES = (500_000, 2_000_000, 20_000_000)
QUICK_SIZES = (100_000, 200_000)
# The target: this many times the sum of what cannot be avoided, and this much memory.
TIMES = 1.5
GEMM_FRACTION = 0.6
READINGS = 3
MEMORY = 4 << 30


def tool(*arguments):
    done = subprocess.run([TOOL, *map(str, arguments)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def ours(*arguments):
    """Seconds and peak in bytes of a run of the product; exit code 1 is an outcome."""
    begin = time.perf_counter()
    child = subprocess.Popen([OURS, *map(str, arguments)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - begin
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 1):
        sys.exit(f"exit code {code}: {' '.join(map(str, arguments))}")
    return {"seconds": seconds, "peak": usage.ru_maxrss * 1024, "code": code}


def case(folder, rows, gemm, old):
    """One number of rows: in one order and shuffled."""
    a, b, c = (folder / f"{name}.parquet" for name in ("a", "b", "c"))
    tool("make", a, rows, DIM)
    tool("make", b, rows, DIM, "noise")
    tool("make", c, rows, DIM, "noise", "shuffled")
    reading = sum(min(tool("read", t)["seconds"] for _ in range(2)) for t in (a, b))
    pieces = tool("pieces", folder, rows, DIM)["seconds"]
    products = 2 * 2.0 * PROBES * rows * DIM / (GEMM_FRACTION * gemm)
    results = []
    for name, table, extra in (("one order", b, 0.0), ("shuffled", c, pieces)):
        limit = TIMES * (READINGS * reading + extra + products)
        flags = ["--quiet", "--threads", THREADS, "--scratch", folder]
        compared = ours("stability", a, table, *flags)
        out = folder / "live"
        refreshed = ours(
            "refresh", "--reference", a, "--new", table, "--out", out, "--min-cka", 0.5, *flags
        )
        shutil.rmtree(out, ignore_errors=True)
        result = {
            "rows": rows,
            "order": name,
            "reading": reading,
            "pieces": extra,
            "products": products,
            "limit": limit,
            "stability": compared,
            "refresh": refreshed,
        }
        if old and rows <= 1_000_000:
            result["before"] = before(old, a, table)
        results.append(result)
        print(json.dumps(result), flush=True)
    for table in (a, b, c):
        table.unlink()
    return results


def before(program, a, b):
    """The same comparison by an earlier build."""
    begin = time.perf_counter()
    child = subprocess.Popen(
        [program, "stability", a, b, "--quiet", "--threads", str(THREADS)],
        stdout=subprocess.DEVNULL,
    )
    _, _, usage = os.wait4(child.pid, 0)
    return {"seconds": time.perf_counter() - begin, "peak": usage.ru_maxrss * 1024}


def table(results):
    lines = [
        "| rows | order | reading once | products | target | stability | of target | peak | refresh | peak |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for r in results:
        s, f = r["stability"], r["refresh"]
        lines.append(
            f"| {r['rows']:,} | {r['order']} | {r['reading']:.1f} s | {r['products']:.1f} s | {r['limit']:.1f} s "
            f"| {s['seconds']:.1f} s | {s['seconds'] / r['limit']:.2f} | {s['peak'] / 1e6:.0f} MB "
            f"| {f['seconds']:.1f} s | {f['peak'] / 1e6:.0f} MB |"
        )
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small tables: whether it runs")
    parser.add_argument("--folder", type=Path, help="folder with 25 GB of space")
    parser.add_argument(
        "--before", type=Path, help="an earlier build to time on up to a million rows"
    )
    arguments = parser.parse_args()
    load = machine.load_before()
    gemm = tool("gemm", DIM)["flops_per_second"]
    print(json.dumps({"gemm_gflops": gemm / 1e9}), flush=True)
    results = []
    for rows in QUICK_SIZES if arguments.quick else SIZES:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            results += case(Path(folder), rows, gemm, arguments.before)
    page = ["# Refresh of large tables", ""]
    page += machine.described(load, THREADS, tool("about"))
    page += [f"- Products of rows of {DIM}: {gemm / 1e9:.0f} GFLOP/s", "", *table(results), ""]
    if not arguments.quick:
        (Path(__file__).parent / "RESULTS.md").write_text("\n".join(page), encoding="utf-8")
    print("\n".join(page))
    worst = max(r["stability"]["seconds"] / r["limit"] for r in results)
    peak = max(max(r["stability"]["peak"], r["refresh"]["peak"]) for r in results)
    print(f"worst fraction of the target {worst:.2f}, largest peak {peak / 1e9:.2f} GB")
    return 0 if worst <= 1 and peak <= MEMORY else 1


if __name__ == "__main__":
    sys.exit(main())
