"""Machine description, tables and page of a run."""

import os
import platform
import statistics
from importlib.metadata import version

from machine import cpu_model

HEADER = ("case", "side", "seconds", "per second", "speedup", "target", "verdict", "quality",
          "peak memory")  # fmt: skip
OTHER = ("case", "value", "baseline", "ratio", "target", "verdict")
MEASURES = {
    "genres": "genres of 10 neighbors (Jaccard)", "hit_rate": "hit rate@10 of the next item",
    "topics": "topic of 10 neighbors", "sentiment": "sentiment accuracy", "ndcg": "NDCG@10",
}  # fmt: skip
PEERS = {"item2vec": "gensim", "doc2vec": "gensim", "bpr": "implicit", "als": "implicit"}


def machine():
    return {
        "cpu": cpu_model(), "cores": os.cpu_count(), "system": platform.system(),
        "load_before": os.getloadavg()[0], "python": platform.python_version(),
        **{name: version(name) for name in ("gensim", "implicit", "numpy", "scikit-learn")},
    }  # fmt: skip


def verdict(ok):
    return "" if ok is None else "ok" if ok else "MISSED"


def quality(values):
    """Mean, and half the range over the seeds."""
    spread = f" ± {(max(values) - min(values)) / 2:.4f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.4f}{spread}"


def case_lines(results):
    for case in results["cases"]:
        sides = case["sides"]
        peer = min(sides["peer"]["seconds"])
        for side, of in sides.items():
            best = min(of["seconds"])
            goal = results["targets"]["speed"][case["method"]].get(side)
            measured = [
                f"{MEASURES[name]} {quality(of['quality'][name])}" for name in of["quality"]
            ]
            yield (
                case["name"],
                PEERS[case["method"]] if side == "peer" else f"ours, {side}",
                f"{best:.2f}",
                f"{of['samples'] / best:,.0f}",
                f"{peer / best:.2f}x",
                f">= {goal:g}" if goal else "",
                verdict(peer / best >= goal if goal else None),
                "; ".join(measured),
                f"{max(of['peak_bytes']) / 2**20:,.0f} MiB",
            )


def other_lines(results):
    most = results["targets"]["sse"]
    for of in results["sse"]:
        plain, sse = (min(times) for times in of["seconds"].values())
        yield (
            f"SSE p = 0.01, {of['method']}, {of['data']}, dim {of['dim']}, {of['mode']}",
            f"{sse:.2f} s", f"p = 0: {plain:.2f} s",
            f"{of['ratio']:.3f} (median of pairs {of['median_ratio']:.3f})",
            f"< {most:g}", verdict(min(of["ratio"], of["median_ratio"]) < most),
        )  # fmt: skip
    if memory := results["memory"]:
        slack = results["targets"]["memory_slack"]
        for mode, of in memory["modes"].items():
            more = of["peak_bytes"] - of["table_bytes"]
            yield (
                (f"memory, {memory['method']}, {memory['items']:,} items, {memory['users']:,} users, "
                f"{memory['rows']:,} rows, dim {memory['dim']}, {mode}"),
                f"{of['peak_bytes'] / 2**30:.2f} GiB",
                f"tables {of['table_bytes'] / 2**30:.2f} GiB",
                f"{more / 2**30:.2f} GiB more", f"< {slack / 2**30:g} GiB more", verdict(more < slack),
            )  # fmt: skip


def about(results):
    m, build = results["machine"], results["build"]
    kind = "NOT a plain build" if build["native"] else "not target-cpu=native"
    facts = [
        f"CPU: {m['cpu']}, {m['cores']} cores; {m['system']}",
        f"Load average before the run: {m['load_before']:.2f}",
        f"Threads: {results['threads']} for all",
        f"Veridical {build['version']}: `cargo build --release` for {build['target']}, {kind}",
        (
            f"Peers: gensim {m['gensim']}, implicit {m['implicit']}; numpy {m['numpy']}, "
            f"scikit-learn {m['scikit-learn']}, Python {m['python']}"
        ),
    ]
    facts += [f"Skipped, {name}: {why}" for name, why in results["skipped"].items()]
    return facts


def text(results):
    def table(header, lines):
        shown = [header, *lines]
        widths = [max(len(row[i]) for row in shown) for i in range(len(header))]
        return "\n".join(
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in shown
        )

    parts = ["\n".join(about(results)), table(HEADER, case_lines(results))]
    parts.append(table(OTHER, other_lines(results)))
    if results["scale"] != 1.0:
        parts.append(f"Not a result: generated data at {results['scale']:g} of its size.")
    return "\n\n".join(parts)


def page(results):
    def cells(row):
        return "| " + " | ".join(row) + " |"

    def rows(header, table):
        return [cells(header), cells(["---"] * len(header)), *map(cells, table)]

    return "\n".join([
        "# Training: results", "",
        "Written by `run.sh --markdown`; [README.md](README.md) explains the columns.", "",
        *(f"- {fact}" for fact in about(results)), "",
        *rows(HEADER, case_lines(results)), "",
        "Cost of SSE, and memory:", "",
        *rows(OTHER, other_lines(results)), "",
    ])  # fmt: skip
