"""Writes recurrent.json beside it: GRU and LSTM over sequences of different lengths by PyTorch in f64.

Run by hand: pip install torch==2.15.0 numpy==2.4.6 && python recurrent.py

Numbers are those of nets.py, u(t, k): tensor t of the state_dict is 0.6 u, the input is tensor 1000, u times 2, with the rows of all
sequences one after the other, and the loss is sum_k c_k y_k with c = u of tensor 2000.
"""

import json
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.utils import rnn

torch.set_default_dtype(torch.float64)
INPUT, COTANGENT = 1000, 2000
LENGTHS = [7, 1, 40, 2, 7]
INPUTS, HIDDEN = 3, 4


def mixed(t, count):
    with np.errstate(over="ignore"):
        z = (np.uint64(t << 32) + np.arange(1, count + 1, dtype=np.uint64)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return torch.from_numpy((z >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0)


def values(x):
    return x.detach().flatten().tolist()


def case(cell, both):
    layer = getattr(nn, cell.upper())(INPUTS, HIDDEN, batch_first=True, bidirectional=both)
    with torch.no_grad():
        for t, value in enumerate(layer.state_dict().values()):
            value.copy_(0.6 * mixed(t, value.numel()).reshape(value.shape))
    x = (2 * mixed(INPUT, sum(LENGTHS) * INPUTS)).reshape(-1, INPUTS).requires_grad_()
    padded = rnn.pad_sequence(x.split(LENGTHS), batch_first=True)
    packed = rnn.pack_padded_sequence(padded, LENGTHS, batch_first=True, enforce_sorted=False)
    out, _ = rnn.pad_packed_sequence(layer(packed)[0], batch_first=True)
    y = torch.cat([row[:length] for row, length in zip(out, LENGTHS, strict=True)])
    (y * mixed(COTANGENT, y.numel()).reshape(y.shape)).sum().backward()
    return {
        "cell": cell, "both": both, "inputs": INPUTS, "hidden": HIDDEN, "lengths": LENGTHS,
        "y": values(y), "dx": values(x.grad),
        "gradients": {name: values(p.grad) for name, p in layer.named_parameters()},
    }  # fmt: skip


cases = [case(cell, both) for cell in ("gru", "lstm") for both in (False, True)]
lines = ",\n".join(json.dumps(case) for case in cases)
text = f'{{"torch": "{torch.__version__}", "cases": [\n{lines}\n]}}\n'
Path(__file__).with_name("recurrent.json").write_text(text)
