"""Training steps compared with PyTorch's, taps with our backward pass; see README.md."""

import argparse
import json
import platform
import subprocess
from pathlib import Path

import peer
import sequences
import torch
from machine import described, load_before

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Name, batch size, required ratio to PyTorch.
CASES = [("mlp", 128, 1.2), ("cnn-small", 128, 1.4), ("resnet18", 32, 0.9)]
SEQUENCES = [
    ("embedding", 8192, 1.0),
    ("gru", 128, 3.0), ("lstm", 128, 1.0),
    ("sasrec", 128, 1.5), ("sasrec-dropout", 128, 1.5), ("encoder", 16, 1.0), ("encoder-dropout", 16, 1.0),
]  # fmt: skip
TITLES = {
    "mlp": "MLP 784-512-512-10",
    "cnn-small": "small CNN, 28 x 28",
    "resnet18": "ResNet-18, 32 x 32",
    "embedding": "embedding, 1 million rows, d 64",
    "gru": "GRU, d 32 to 32, length 50",
    "lstm": "LSTM, d 32 to 32, length 50",
    "sasrec": "SASRec, 2 blocks, d 64, length 200",
    "sasrec-dropout": "SASRec with dropout 0.2",
    "encoder": "encoder, 6 layers, d 384, length 128",
    "encoder-dropout": "encoder with dropout 0.1",
}
TAP_LIMIT = 1.3


def ours(binary, *args):
    out = subprocess.run([binary, *map(str, args)], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def train(args, case, batch):
    """The best round of ours and of every variant of the peer; they alternate, so that a busy minute affects both."""
    side = sequences if case in {case for case, *_ in SEQUENCES} else peer
    variants = list(side.variants(case, batch, not args.no_compile))
    if not variants:
        raise SystemExit(f"{case}: no variant of the peer runs here")
    rates = {variant.name: 0.0 for variant in variants}
    own = 0.0
    for number in range(args.rounds):
        own = max(own, ours(args.binary, "train", case, batch, args.threads, args.seconds)["rate"])
        for variant in variants:
            rates[variant.name] = max(rates[variant.name], variant.rate(args.seconds))
        if number == 0 and len(variants) > 2:  # the others are too slow
            variants = sorted(variants, key=lambda v: -rates[v.name])[:2]
    name = max(rates, key=rates.get)
    return {
        "case": case, "batch": batch, "ours": own, "peer": rates[name], "variant": name,
        "variants": rates,
    }  # fmt: skip


def shown(rate):
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def page(results, about):
    left_out = ", without torch.compile" if results["no_compile"] else ""
    lines = [
        "# Networks: results\n",
        "Written by `run.sh nets --markdown`; [README.md](README.md) explains the columns.\n",
        *described(results["load"], results["threads"], about),
        f"- Peer: PyTorch {torch.__version__}, Python {platform.python_version()}{left_out}\n",
        "| training step | samples/s | PyTorch | best variant | ratio | target | verdict |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    least = {case: ratio for case, _, ratio in CASES + SEQUENCES}
    for run in results["train"]:
        ratio, target = run["ours"] / run["peer"], least[run["case"]]
        lines.append(
            f"| {TITLES[run['case']]}, batch {run['batch']} | {shown(run['ours'])} | {shown(run['peer'])} | "
            f"{run['variant']} | {ratio:.2f}x | >= {target} | {'ok' if ratio >= target else 'MISSED'} |"
        )
    lines += [
        "\n| taps | forward, ms | backward, ms | tap per output, ms | / backward | with windows gathered | target | verdict |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for run in results["taps"]:
        ratio = run["tap"] / run["backward"]
        forward, backward, tap = (1e3 * run[key] for key in ("forward", "backward", "tap"))
        lines.append(
            f"| {TITLES[run['case']]}, batch {run['batch']} | {forward:.2f} | {backward:.2f} | {tap:.2f} | {ratio:.2f}x | "
            f"{run['gathered'] / run['backward']:.2f}x | <= {TAP_LIMIT} | {'ok' if ratio <= TAP_LIMIT else 'MISSED'} |"
        )
    lines += ["\n| all variants of PyTorch | samples/s |", "| --- | --- |"]
    for run in results["train"]:
        for name, rate in run["variants"].items():
            lines.append(f"| {TITLES[run['case']]}: {name} | {shown(rate)} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=ROOT / "target/release/bench-nets")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds per round")
    parser.add_argument("--only", help="only cases with this text in their name")
    parser.add_argument("--no-compile", action="store_true", help="skip torch.compile")
    parser.add_argument("--out", help="write every number as JSON")
    parser.add_argument("--markdown", action="store_true", help="write RESULTS.md")
    args = parser.parse_args()
    load = load_before()
    torch.set_num_threads(args.threads)
    wanted = lambda cases: [
        (case, batch) for case, batch, _ in cases if not args.only or args.only in case
    ]
    cases = wanted(CASES)
    results = {
        "load": load,
        "threads": args.threads,
        "no_compile": args.no_compile,
        "taps": [
            {"case": case, "batch": batch}
            | ours(args.binary, "taps", case, batch, args.threads, 8 * args.seconds)
            for case, batch in cases
        ],
        "train": [train(args, case, batch) for case, batch in cases + wanted(SEQUENCES)],
    }
    text = page(results, ours(args.binary, "about"))
    print(text)
    if args.out:
        Path(args.out).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if args.markdown:
        (HERE / "RESULTS.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
