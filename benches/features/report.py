"""Machine description, tables and pages of a run."""

import os
import platform

import numpy as np
import pyarrow
import sklearn
from machine import cpu_model
from threadpoolctl import threadpool_info

HEADER = ("case", "ours", "baseline", "baseline value", "ratio", "share of limit", "target",
          "verdict")  # fmt: skip
FAMILY_HEADER = ("case", "directions", "per row, batched", "/ hadamard", "per row, single",
                 "/ hadamard", "target", "verdict")  # fmt: skip


def machine():
    pools = [p for p in threadpool_info() if p["user_api"] == "blas"]
    blas = {
        f"{p['internal_api']} {p['version']} ({p.get('architecture', '?')}, "
        f"{p.get('threading_layer', '?')})"
        for p in pools
    }
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numpy_simd": np.show_config(mode="dicts")["SIMD Extensions"].get("found", []),
        "scikit_learn": sklearn.__version__,
        "pyarrow": pyarrow.__version__,
        "blas": sorted(blas),
    }


def verdict(ok):
    return "" if ok is None else "ok" if ok else "MISSED"


def line(what, ours, beside="", figure="", ratio="", limit="", target="", ok=None):
    return what, ours, beside, figure, ratio, limit, target, verdict(ok)


def milliseconds(seconds):
    return f"{1e3 * seconds:.2f} ms"


def lines(results, targets):
    """The rows of the table."""
    table = []
    for case in results["cases"]:
        what = f"{case['d']} -> {case['D']}, {case['rows']:,} rows"
        ours, t = milliseconds(case["ours_seconds"]), case["ours_seconds"]
        for name, seconds, goals in (
            ("scikit-learn RBFSampler", case["sklearn_seconds"], targets["sklearn"]),
            ("best numpy", case["numpy"]["seconds"], targets["numpy"]),
            ("best numpy, 1 Python thread", case["numpy_plain"]["seconds"], {}),
        ):
            times, goal = seconds / t, goals.get(case["d"])
            aim, ok = (f">= {goal:g}", times >= goal) if goal else ("", None)
            ratio = f"{times:.2f}x faster"
            table.append(line(what, ours, name, milliseconds(seconds), ratio, "", aim, ok))
        of_limit, target = case["fraction_of_limit"], targets["fraction_of_limit"]
        table.append(line(what, ours, "limit", milliseconds(case["limit_seconds"]), "",
                          f"{of_limit:.2f}", f">= {target:.2f}", of_limit >= target))  # fmt: skip
        one_call = milliseconds(case["limit_one_call_seconds"])
        of_limit = f"{case['fraction_of_limit_one_call']:.2f}"
        table.append(line(what, ours, "limit, product as one call", one_call, "", of_limit))
    single, target = results["single_row"], targets["single_row_microseconds"]
    t, numpy = single["ours_microseconds"], single["numpy_microseconds"]
    table.append(line(f"one row {single['d']} -> {single['D']}, 1 thread", f"{t:.2f} us", "numpy",
                      f"{numpy:.2f} us", f"{numpy / t:.2f}x faster", "", f"<= {target:g} us",
                      t <= target))  # fmt: skip
    files, target = results["files"], targets["files_ratio"]
    what = f"Parquet {files['rows']:,} x {files['d']} -> {files['D']}"
    for kind, pick in (("best", min), ("median", np.median)):
        ratio = files[f"ratio_{kind}"]
        ours, io = pick(files["ours_seconds"]), pick(files["io_seconds"])
        table.append(line(f"{what}, {kind} of {len(files['ours_seconds'])}", f"{ours:.2f} s",
                          "decode and encode alone", f"{io:.2f} s", f"{ratio:.2f}x the time", "",
                          f"<= {target:g}", ratio <= target))  # fmt: skip
    if memory := results.get("memory"):
        (few, many), (low, high) = memory["rows"], memory["peak_megabytes"]
        target = targets["memory_ratio"]
        table.append(line(f"peak memory, {memory['d']} -> {memory['D']}, {many:,} rows",
                          f"{high:.0f} MB", f"{few:,} rows", f"{low:.0f} MB",
                          f"{memory['ratio']:.2f}x the memory", "", f"< {target:g}",
                          memory["ratio"] < target))  # fmt: skip
    return table


def family_lines(results, targets, dense):
    """The rows of the table of families, with Fastfood below them."""
    table = []
    for case in results["cases"]:
        what = f"{case['d']} -> {case['D']}, {case['rows']:,} rows"
        families = case["families"]
        hadamard = families["hadamard"]

        def add(name, batch, single, goal=None, what=what, hadamard=hadamard):
            times = batch / hadamard["batch_row_microseconds"]
            times_single = single / hadamard["single_row_microseconds"]
            aim, ok = (f">= {goal:g}", times >= goal) if goal else ("", None)
            table.append((what, name, f"{batch:.3f} us", f"{times:.2f}x", f"{single:.2f} us",
                          f"{times_single:.2f}x", aim, verdict(ok)))  # fmt: skip

        for name, of in families.items():
            goal = targets["hadamard"].get(case["d"]) if name in dense else None
            add(name, of["batch_row_microseconds"], of["single_row_microseconds"], goal)
        fastfood = case["fastfood"]
        modes = ("accuracy", "mem") if "skipped" not in fastfood else ()
        for mode in modes:
            of, name = fastfood[mode], f"Fastfood, {mode}"
            if why := of.get("skipped"):
                table.append((what, f"{name}: {why}", "-", "", "-", "", "", "skipped"))
            else:
                batch = 1e6 * of["seconds"] / case["rows"]
                add(name, batch, of["single_row_microseconds"], targets["fastfood"])
        if not modes:
            why = f"Fastfood: {fastfood['skipped']}"
            table.append((what, why, "-", "", "-", "", "", "skipped"))
    return table


def fastfood(results):
    """What Fastfood ran on, or why it did not."""
    found = results["cases"][0]["fastfood"]
    if why := found.get("skipped"):
        return f"Fastfood (scikit-learn-extra): skipped, {why}"
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return f"Fastfood: {versions}; f64, on one thread"


def text(header, table):
    """A table in columns, with repeated cells left blank."""
    shown, before = [header], None
    for row in table:
        same = 0
        while before is not None and same < 2 and row[same] == before[same]:
            same += 1
        shown.append(("",) * same + row[same:])
        before = row
    widths = [max(len(row[i]) for row in shown) for i in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    )


def about(results):
    """Machine and build, one fact per line."""
    m, build = results["machine"], results["build"]
    compiled = ", ".join(build["compiled_in"])
    kind = f"NOT a plain build, compiled with {compiled}" if compiled else "not target-cpu=native"
    simd = ", ".join(m["numpy_simd"]) or "baseline"
    return [
        f"CPU: {m['cpu']}, {m['cores']} cores; {m['system']}",
        f"Load average before the run: {m['load_before']:.2f}",
        f"Threads: {results['threads']} for all; one for single rows",
        f"Veridical {build['version']}: `cargo build --release` for {build['target']}, {kind}",
        f"Instructions chosen at run time: {build['dispatched']}",
        f"Peers: numpy {m['numpy']} ({simd}), scikit-learn {m['scikit_learn']}",
        f"BLAS: {'; '.join(m['blas'])}",
        fastfood(results),
        f"Tables written by pyarrow {m['pyarrow']}, scripts run by Python {m['python']}",
    ]


def checked(results):
    checks = [case["checks"] for case in results["cases"]]
    checks += [of["checks"] for case in results["cases"] for of in case["families"].values()]
    worst = max(check["error_to_float64"] for check in checks)
    norm = max(check["norm_error"] for check in checks)
    return (
        f"Checked in the same run: phi differs from its float64 evaluation by at most {worst:.1e}, "
        f"row norms from 1 by at most {norm:.1e}, the timed output equals that of `veridical "
        "featurize apply` bit for bit, and U of the smallest case equals that of the reference, for "
        "every family of directions."
    )


def winners(results):
    """The fastest variants of numpy."""
    for case in results["cases"]:
        yield (
            f"{case['d']} -> {case['D']}: best numpy {case['numpy']['form']}; on one Python thread "
            f"{case['numpy_plain']['form']}; product for the limit {case['product']['form']}, "
            f"{case['product']['gigaflops']:.0f} Gflop/s"
        )


def markdown(results, table, families):
    def cells(row):
        return "| " + " | ".join(row) + " |"

    def rows(header, table):
        return [cells(header), cells(["---"] * len(header)), *(cells(row) for row in table)]

    page = [
        "# Feature transform: results",
        "",
        "Written by `run.sh --markdown`; [README.md](README.md) explains the columns.",
        "",
        *(f"- {fact}" for fact in about(results)),
        "",
        *rows(HEADER, table),
        "",
        "Families of directions, and Fastfood:",
        "",
        *rows(FAMILY_HEADER, families),
        "",
        "Fastest numpy variants:",
        "",
        *(f"- {fact}" for fact in winners(results)),
        "",
        checked(results),
        "",
    ]
    return "\n".join(page)
