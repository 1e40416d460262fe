"""Times the feature transform against its peers, on the same rows in one run; see README.md."""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

import files
import numpy as np
import peers
import report
from files import WrongAnswerError

THREADS = peers.THREADS
# d, D and rows: about 100 MB of features each.
CASES = ((32, 128, 100_000), (128, 512, 50_000), (384, 1024, 20_000), (768, 4096, 8_000))
SINGLE_ROW = (128, 512)
FILES = (500_000, 128, 512)
MEMORY = ((1_000_000, 10_000_000), 16, 32)
FAMILIES = ("iid", "orthogonal", "hadamard", "halton")
DEFAULT = "orthogonal"
# Families whose directions are a stored matrix.
DENSE = ("iid", "orthogonal")
# Number of rounds in which everything of a case is timed; the best counts.
ROUNDS = 2
FILE_REPEATS = 5
MEMORY_REPEATS = 5
CHECK_ROWS = 300
TARGETS = {
    # Required speedup over the peer, by d.
    "sklearn": {32: 2.5, 128: 2.5, 384: 2.5, 768: 2.0},
    "numpy": {32: 1.5, 128: 1.5, 384: 1.25, 768: 1.1},
    # Required speedup over dense directions, by d, and over Fastfood.
    "hadamard": {384: 2.0, 768: 4.0},
    "fastfood": 1.0,
    "fraction_of_limit": 0.70,
    "single_row_microseconds": 4.0,
    "files_ratio": 1.3,
    "memory_ratio": 1.1,
}
# Largest allowed difference of a feature from its float64 evaluation, and of a row's norm from 1.
TOLERANCE = 2e-6
NORM_TOLERANCE = 1e-5
BUSY = 0.3


def evaluate(rows, u):
    """phi in float64 by its definition; u has one direction per row."""
    x = rows.astype(np.float64)
    a = x / np.linalg.norm(x, axis=1, keepdims=True) @ u.astype(np.float64).T
    phi = np.stack([np.cos(a), np.sin(a)], axis=2).reshape(len(x), -1)
    return phi / np.sqrt(u.shape[0])


def require(fine, what):
    if not fine:
        raise WrongAnswerError(what)


def reference_module():
    sys.path.insert(0, str(files.ROOT / "python/reference"))
    import veridical_reference

    return veridical_reference


def check_ours(folder, rows, d, width, family, timed):
    """Checks that the timed output is phi. Returns U and the errors."""
    reference = reference_module()
    some = rows[:CHECK_ROWS]
    case = f"{d} -> {width}, {family}"
    timed_phi = np.fromfile(folder / "timed.phi.f32", "<f4").reshape(len(some), width)
    u = np.fromfile(folder / "timed.u.f32", "<f4").reshape(width // 2, d)

    spec = files.new_spec(folder / f"{d}-{width}-{family}.spec.json", d, width, family)
    document = reference.parse_spec(spec.read_text(encoding="utf-8"))
    require(document["spec_id"] == timed["spec_id"], f"{case}: a different spec was timed")
    np.save(folder / "some.npy", some)
    phi_file = folder / f"{d}-{width}-{family}.phi.npy"
    files.run(*files.apply_command(spec, folder / "some.npy", phi_file, THREADS))
    phi = np.load(phi_file)
    phi_file.unlink()
    require(np.array_equal(phi, timed_phi), f"{case}: product and timed code differ")
    if (d, width) == CASES[0][:2]:
        want = np.array(reference.directions(document), np.float32)
        require(np.array_equal(u, want), f"{case}: U is not that of the reference")

    error = float(np.abs(phi - evaluate(some, u)).max())
    require(error <= TOLERANCE, f"{case}: phi is off by {error:.1e}")
    norms = np.linalg.norm(phi.astype(np.float64), axis=1)
    norm_error = max(float(np.abs(norms - 1.0).max()), timed["worst_norm_error"])
    require(norm_error <= NORM_TOLERANCE, f"{case}: norms are off by {norm_error:.1e}")
    return u, {"error_to_float64": error, "norm_error": norm_error, "spec_id": timed["spec_id"]}


def check_numpy(numpy, form, u):
    """Checks that a numpy variant computes phi."""
    form.job()
    picked = np.r_[0:CHECK_ROWS, -CHECK_ROWS:0]
    error = np.abs(numpy.phi(form, picked) - evaluate(numpy.rows[picked], u)).max()
    require(error <= TOLERANCE, f"numpy, {form.name}: phi is off by {error:.1e}")


def check_sklearn(features, unit_rows, width):
    require(features.dtype == np.float32, f"scikit-learn computed in {features.dtype}")
    some, phi = unit_rows[:CHECK_ROWS], features[:CHECK_ROWS]
    squared = np.square(some[:, None, :] - some[None, :, :]).sum(axis=2)
    error = float(np.abs(phi @ phi.T - np.exp(-0.5 * squared)).mean())
    require(error <= 2.0 / np.sqrt(width), f"scikit-learn's kernel is off by {error:.2f}")


def run_case(folder, pool, d, width, n):
    rows = np.random.default_rng(d).standard_normal((n, d), dtype=np.float32)
    rows.tofile(folder / "rows.f32")
    # Rows of one value: projection is negligible, so this times sine, cosine and storing.
    rows[:, 0].tofile(folder / "one.f32")
    transform = (DEFAULT, folder / "rows.f32", n, d, width, THREADS, folder / "timed")
    sincos = (DEFAULT, folder / "one.f32", n, 1, width, THREADS)

    timed = files.bench(*transform)
    u, checks = check_ours(folder, rows, d, width, DEFAULT, timed)
    by_column = np.ascontiguousarray(u.T)

    # scikit-learn gets normalized rows, prepared before the timer starts; we and numpy normalize them.
    unit_rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    sampler = peers.sklearn_sampler(unit_rows, width)
    check_sklearn(sampler.transform(unit_rows), unit_rows, width)
    sklearn = peers.Form("sklearn", lambda: sampler.transform(unit_rows))

    numpy = peers.Numpy(rows, by_column, pool)
    forms = list(numpy.forms())
    plain = peers.shortlist([form for form in forms if form.python_threads == 1])
    threaded = peers.shortlist([form for form in forms if form.python_threads > 1])
    for form in plain + threaded:
        check_numpy(numpy, form, u)
    products = list(peers.products(rows, by_column, pool))
    whole = next(form for form in products if form.name == peers.WHOLE)
    in_cache = peers.shortlist([form for form in products if form is not whole])

    ours, one, single = [], [], []
    seconds, product_seconds = {}, {}
    for _ in range(ROUNDS):
        again = files.bench(*transform)
        ours.append(again["batch_seconds"])
        single.append(again["single_row_microseconds"])
        one.append(files.bench(*sincos)["batch_seconds"])
        for form in [sklearn, *plain, *threaded]:
            keep_best(seconds, form)
        for form in [whole, *in_cache]:
            keep_best(product_seconds, form)

    t = min(ours)
    best_plain = min((seconds[form.name], form.name) for form in plain)
    best_threaded = min((seconds[form.name], form.name) for form in threaded)
    best = min(best_plain, best_threaded)
    product = min((seconds, name) for name, seconds in product_seconds.items())
    limit, one_call = product[0] + min(one), product_seconds[peers.WHOLE] + min(one)
    flops = 2.0 * n * d * (width // 2)
    case = {
        "d": d, "D": width, "rows": n,
        "ours_seconds": t,
        "sklearn_seconds": seconds["sklearn"],
        "numpy": {"seconds": best[0], "form": best[1]},
        "numpy_plain": {"seconds": best_plain[0], "form": best_plain[1]},
        "numpy_forms": {form.name: seconds[form.name] for form in plain + threaded},
        "product": {"seconds": product[0], "form": product[1],
                    "gigaflops": flops / product[0] / 1e9},
        "product_one_call_seconds": product_seconds[peers.WHOLE],
        "sincos_seconds": min(one),
        "limit_seconds": limit, "fraction_of_limit": limit / t,
        "limit_one_call_seconds": one_call, "fraction_of_limit_one_call": one_call / t,
        "single_row_microseconds": min(single),
        "checks": checks,
        "families": run_families(folder, rows, d, width),
        "fastfood": files.fastfood(folder / "rows.f32", n, d, width),
    }  # fmt: skip
    if (d, width) == SINGLE_ROW:
        case["numpy_single_row_microseconds"] = 1e6 * peers.numpy_single_row(rows, by_column)
    return case, u


def run_families(folder, rows, d, width):
    """Every family on the rows of a case, alternating, and checked like the default."""
    found = {}
    for turn in range(ROUNDS):
        for family in FAMILIES:
            job = (family, folder / "rows.f32", len(rows), d, width, THREADS, folder / "timed")
            timed = files.bench(*job)
            if turn == 0:
                _, checks = check_ours(folder, rows, d, width, family, timed)
                found[family] = {"batch": [], "single": [], "checks": checks}
            found[family]["batch"].append(1e6 * timed["batch_seconds"] / len(rows))
            found[family]["single"].append(timed["single_row_microseconds"])
    return {
        family: {
            "batch_row_microseconds": min(of["batch"]),
            "single_row_microseconds": min(of["single"]),
            "checks": of["checks"],
        }
        for family, of in found.items()
    }


def keep_best(seconds, form):
    seconds[form.name] = min(seconds.get(form.name, np.inf), peers.timed(form))


def say(text):
    print(text, file=sys.stderr, flush=True)


def run_all(folder, scale, memory):
    def scaled(n):
        return max(2 * CHECK_ROWS, round(n * scale))

    results = {
        "machine": report.machine(), "build": files.bench("about"), "threads": THREADS,
        "scale": scale, "rounds": ROUNDS, "targets": TARGETS, "cases": [],
    }  # fmt: skip
    require(results["build"]["optimized"], "bench-features is not a release build")
    if (load := results["machine"]["load_before"]) > BUSY:
        say(f"warning: load average {load:.2f}: the machine is not idle")
    directions = {}
    with peers.python_threads() as pool:
        for d, width, n in CASES:
            say(f"{d} -> {width}")
            case, directions[d, width] = run_case(folder, pool, d, width, scaled(n))
            results["cases"].append(case)
            if (d, width) == SINGLE_ROW:
                results["single_row"] = {
                    "d": d, "D": width, "ours_microseconds": case["single_row_microseconds"],
                    "numpy_microseconds": case["numpy_single_row_microseconds"],
                }  # fmt: skip
    n, d, width = FILES
    say(f"file to file, {d} -> {width}")
    results["files"] = files.file_to_file(
        folder, scaled(n), d, width, THREADS,
        lambda rows: evaluate(rows, directions[d, width]), TOLERANCE, FILE_REPEATS,
    )  # fmt: skip
    if memory:
        counts, d, width = MEMORY
        say(f"peak memory, {d} -> {width}")
        np.ones(600 * d, np.float32).tofile(folder / "rows.f32")
        files.bench(DEFAULT, folder / "rows.f32", 600, d, width, 1, folder / "memory")
        u = np.fromfile(folder / "memory.u.f32", "<f4").reshape(width // 2, d)
        results["memory"] = files.peak_memory(
            folder, [scaled(n) for n in counts], d, width, THREADS,
            lambda rows: evaluate(rows, u), TOLERANCE, MEMORY_REPEATS,
        )  # fmt: skip
    return results


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write every number as JSON")
    parser.add_argument("--markdown", action="store_true", help="write RESULTS.md")
    parser.add_argument("--memory", action="store_true", help="also measure peak memory (slow)")
    parser.add_argument("--tmp", type=Path, metavar="DIR", help="folder for the tables of a run")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="share of the rows; below 1 only for a test run"
    )
    given = parser.parse_args()
    if given.scale != 1.0 and given.markdown:
        parser.error("--markdown requires the full number of rows, without --scale")
    if not 0.0 < given.scale <= 1.0:
        parser.error("--scale must be above 0 and at most 1")
    for program in (files.VERIDICAL, files.BENCH):
        if not program.exists():
            build = "cargo build --release -p veridical-cli -p bench-features"
            parser.error(f"{program} does not exist; build it with `{build}`")
    return given


def main():
    given = arguments()
    with tempfile.TemporaryDirectory(prefix="bench-features-", dir=given.tmp) as name:
        folder = Path(name)
        if shutil.disk_usage(folder).free < 4e9 * given.scale:
            sys.exit(f"{folder}: the tables need 4 GB; choose another folder with --tmp")
        try:
            results = run_all(folder, given.scale, given.memory)
        except WrongAnswerError as wrong:
            sys.exit(f"WRONG ANSWER, nothing is reported: {wrong}")
    table = report.lines(results, TARGETS)
    print("\n".join(report.about(results)), end="\n\n")
    print(report.text(report.HEADER, table), end="\n\n")
    families = report.family_lines(results, TARGETS, DENSE)
    print(report.text(report.FAMILY_HEADER, families), end="\n\n")
    print("\n".join(report.winners(results)), end="\n\n")
    print(report.checked(results))
    if given.scale != 1.0:
        print(f"\nNot a result: run on {given.scale:g} of the rows.")
    if given.out:
        given.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    if given.markdown:
        page = Path(__file__).with_name("RESULTS.md")
        page.write_text(report.markdown(results, table, families), encoding="utf-8")


if __name__ == "__main__":
    main()
