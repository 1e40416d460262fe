"""Sentences per second of all-MiniLM-L6-v2, from text to vector, compared with ONNX Runtime and sentence-transformers; see README.md."""

import argparse
import json
import os
import platform
import random
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import sentence_transformers
import torch
from machine import described, load_before
from onnxruntime.transformers import optimizer
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from transformers import BertModel

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Name, minimum and maximum words per text, number of texts.
CASES = [("short", 4, 24, 512), ("paragraphs", 100, 100, 128), ("mixed", 4, 200, 256)]
LEAST = 1.0  # required ratio to ONNX Runtime's best
CLOSE = 1e-4


def texts_of(folder, least, most, count):
    """Random words of the vocabulary: lengths determine the time, not the content."""
    vocabulary = (Path(folder) / "vocab.txt").read_text(encoding="utf-8").split("\n")
    words = [word for word in vocabulary[2000:12000] if word.isalpha()]
    draw = random.Random(7)
    return [" ".join(draw.choices(words, k=draw.randint(least, most))) for _ in range(count)]


class Ours:
    name = "veridical"

    def __init__(self, args, texts, folder):
        self.args, self.texts, self.folder = args, texts, folder
        self.lines = folder / "texts.txt"
        self.lines.write_text("\n".join(texts) + "\n", encoding="utf-8")
        self.out = folder / "vectors.f32"
        self.tokens = 0

    def rate(self, batch):
        args = self.args
        line = [
            args.binary,
            "rate",
            args.model,
            self.lines,
            batch,
            args.threads,
            args.seconds,
            self.out,
        ]
        done = subprocess.run(
            [str(word) for word in line], check=True, capture_output=True, text=True
        )
        found = json.loads(done.stdout)
        self.tokens = found["tokens"]
        return found["rate"]

    def vectors(self):
        return np.fromfile(self.out, dtype="<f4").reshape(len(self.texts), -1)


class Timed:
    """A peer inside this process: `encode` from texts to vectors, with a given batch size."""

    def rate(self, batch):
        self.encode(batch)
        begun, best = time.perf_counter(), float("inf")
        while time.perf_counter() - begun < self.seconds:
            start = time.perf_counter()
            self.encode(batch)
            best = min(best, time.perf_counter() - start)
        return len(self.texts) / best

    def vectors(self):
        return self.encode(32)


class Sentences(Timed):
    name = "sentence-transformers"

    def __init__(self, args, texts):
        self.texts, self.seconds = texts, args.seconds
        self.model = SentenceTransformer(str(args.model), device="cpu")

    def encode(self, batch):
        return self.model.encode(self.texts, batch_size=batch, show_progress_bar=False)


class Onnx(Timed):
    """ONNX Runtime on texts that are sorted by length and padded to the longest of a batch."""

    def __init__(self, args, texts, graph, name):
        self.name, self.texts, self.seconds = name, texts, args.seconds
        self.tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
        self.tokenizer.enable_truncation(256)
        self.tokenizer.no_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = args.threads
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            str(graph), options, providers=["CPUExecutionProvider"]
        )

    def encode(self, batch):
        tokens = [found.ids for found in self.tokenizer.encode_batch_fast(self.texts)]
        order = np.argsort([len(ids) for ids in tokens], kind="stable")
        out = None
        for first in range(0, len(order), batch):
            rows = order[first : first + batch]
            longest = len(tokens[rows[-1]])
            ids = np.zeros((len(rows), longest), dtype=np.int64)
            mask = np.zeros_like(ids)
            for i, row in enumerate(rows):
                ids[i, : len(tokens[row])] = tokens[row]
                mask[i, : len(tokens[row])] = 1
            hidden = self.session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
            weights = mask[:, :, None].astype(np.float32)
            mean = (hidden * weights).sum(1) / weights.sum(1)
            if out is None:
                out = np.empty((len(order), mean.shape[1]), dtype=np.float32)
            out[rows] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return out


def export(model, folder):
    """The network as ONNX, unchanged and with ONNX Runtime's transformer fusions."""

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = BertModel.from_pretrained(
                model, attn_implementation="eager", add_pooling_layer=False
            ).eval()

        def forward(self, input_ids, attention_mask):
            types = torch.zeros_like(input_ids)
            return self.bert(
                input_ids=input_ids, attention_mask=attention_mask, token_type_ids=types
            ).last_hidden_state

    plain, fused = folder / "plain.onnx", folder / "fused.onnx"
    ids = torch.ones(2, 7, dtype=torch.long)
    names = ["input_ids", "attention_mask", "hidden"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Hidden(), (ids, torch.ones_like(ids)), str(plain), input_names=names[:2], output_names=names[2:],
            dynamic_axes={name: {0: "batch", 1: "length"} for name in names}, opset_version=17, dynamo=False,
        )  # fmt: skip
    best = optimizer.optimize_model(str(plain), model_type="bert", num_heads=12, hidden_size=384)
    best.save_model_to_file(str(fused))
    return {"onnxruntime": plain, "onnxruntime, fused": fused}


def case(args, graphs, folder, name, least, most, count):
    """The best rate of every implementation over batch sizes and rounds; they take turns, so that a busy minute affects all."""
    texts = texts_of(args.model, least, most, count)
    ours = Ours(args, texts, folder)
    peers = [Onnx(args, texts, graph, title) for title, graph in graphs.items()] + [
        Sentences(args, texts)
    ]
    rates = {}
    for _ in range(args.rounds):
        for side in [ours, *peers]:
            for batch in args.batches:
                rate = side.rate(batch)
                if rate > rates.get(side.name, (0.0, 0))[0]:
                    rates[side.name] = (rate, batch)
    own = ours.vectors()
    far = {peer.name: float(np.abs(peer.vectors() - own).max()) for peer in peers}
    worst = max(far.values())
    if worst > CLOSE:
        raise SystemExit(f"{name}: vectors differ by {worst}: {far}")
    return {"case": name, "texts": count, "tokens": ours.tokens, "rates": rates, "difference": far}


def page(results, about):
    lines = [
        "# Sentence encoder: results\n",
        "Written by `run.sh encoder --markdown`; [README.md](README.md) explains the columns.\n",
        *described(results["load"], results["threads"], about),
        (
            f"- Peers: ONNX Runtime {onnxruntime.__version__}, sentence-transformers {sentence_transformers.__version__} on PyTorch "
            f"{torch.__version__}, Python {platform.python_version()}\n"
        ),
        "| texts | tokens per text | sentences/s | ONNX Runtime | best variant | ratio | target | verdict | sentence-transformers | ratio |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for run in results["cases"]:
        rates = run["rates"]
        own = rates["veridical"][0]
        variant = max(
            (name for name in rates if name.startswith("onnx")), key=lambda name: rates[name][0]
        )
        onnx, sentences = rates[variant][0], rates["sentence-transformers"][0]
        ratio = own / onnx
        lines.append(
            f"| {run['case']} | {run['tokens'] / run['texts']:.0f} | {own:,.0f} | {onnx:,.0f} | {variant}, batch {rates[variant][1]} | "
            f"{ratio:.2f}x | >= {LEAST} | {'ok' if ratio >= LEAST else 'MISSED'} | {sentences:,.0f} | {own / sentences:.2f}x |"
        )
    worst = max(max(run["difference"].values()) for run in results["cases"])
    lines.append(f"\nVectors agree to {worst:.1e}.")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--model",
        type=Path,
        default=os.environ.get("VERIDICAL_MINILM"),
        help="folder of all-MiniLM-L6-v2",
    )
    parser.add_argument("--binary", default=ROOT / "target/release/bench-encoder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds per round")
    parser.add_argument("--batches", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--only", help="only cases with this text in their name")
    parser.add_argument("--out", help="write every number as JSON")
    parser.add_argument("--markdown", action="store_true", help="write RESULTS.md")
    args = parser.parse_args()
    if args.model is None:
        raise SystemExit("set the folder of all-MiniLM-L6-v2 with --model or VERIDICAL_MINILM")
    args.model = Path(args.model)
    load = load_before()
    torch.set_num_threads(args.threads)
    results = {"load": load, "threads": args.threads, "cases": []}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        graphs = export(args.model, folder)
        for name, least, most, count in CASES:
            if not args.only or args.only in name:
                results["cases"].append(case(args, graphs, folder, name, least, most, count))
    about = subprocess.run([str(args.binary), "about"], check=True, capture_output=True, text=True)
    text = page(results, json.loads(about.stdout))
    print(text)
    if args.markdown:
        (HERE / "RESULTS.md").write_text(text, encoding="utf-8")
    if args.out:
        Path(args.out).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
