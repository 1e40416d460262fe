"""Writes optimizers.json beside it: optimizers, losses, clipping and schedules by PyTorch in f64.

Run by hand: pip install torch==2.15.0 && python optimizers.py

Numbers are the same in every language up to the last bit of the sine: w(k, offset, scale) = scale sin(0.37 k + offset).
Gradients of step s are w(k, 1 + s, 1), outputs w(k, 0.5, 3), numbers to reach are 0.5 + 0.5 sin(0.37 k + 2) as f32.
"""

import json
from pathlib import Path

import torch
from torch.nn import functional

torch.set_default_dtype(torch.float64)
N, STEPS = 7, 5


def wave(count, offset, scale=1.0):
    return scale * torch.sin(0.37 * torch.arange(count) + offset)


def optimizer(kind, lr, **options):
    """Parameters after each step; `options` by PyTorch's names."""
    classes = {
        "sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW,
        "adagrad": torch.optim.Adagrad,
    }  # fmt: skip
    p = wave(N, 0.0).requires_grad_()
    by = classes[kind]([p], lr=lr, foreach=False, **options)
    steps = []
    for s in range(STEPS):
        p.grad = wave(N, 1.0 + s)
        by.step()
        steps.append(p.detach().tolist())
    return {"kind": kind, "lr": lr, "options": options, "steps": steps}


def loss(name, n, dim, targets, smoothing=0.0, weights=None):
    f = wave(n * dim, 0.5, 3.0).reshape(n, dim).requires_grad_()
    if targets == "numbers":
        y = (0.5 + 0.5 * torch.sin(0.37 * torch.arange(n * dim) + 2.0)).float().double()
        y = y.reshape(n, dim)
        if name == "cross-entropy":
            y = (y * 64).round() / (y * 64).round().sum(dim=1, keepdim=True)
            y = y.float().double()
        stored = y.flatten().tolist()
    else:
        c = torch.arange(n) * 5 % max(dim, 2)
        stored = c.tolist()
        if name == "cross-entropy":
            y = c
        elif dim == 1:
            y = c.double().reshape(n, 1)
            y = 2 * y - 1 if name == "squared" else y
        else:
            y = functional.one_hot(c, dim).double()
    if name == "squared":
        each = functional.mse_loss(f, y, reduction="none").mean(dim=1)
    elif name == "cross-entropy":
        each = functional.cross_entropy(f, y, reduction="none", label_smoothing=smoothing)
    else:
        each = functional.binary_cross_entropy_with_logits(f, y, reduction="none").mean(dim=1)
    w = torch.ones(n) if weights is None else torch.tensor(weights)
    value = (w * each).sum() / w.sum()
    value.backward()
    return {
        "loss": name, "n": n, "dim": dim, "smoothing": smoothing, "targets": targets,
        "values": stored, "weights": weights, "value": value.item(),
        "gradient": f.grad.flatten().tolist(),
    }  # fmt: skip


def clip(limit):
    a, b = wave(5, 0.0, 2.0).requires_grad_(), wave(6, 0.0).requires_grad_()
    a.grad, b.grad = wave(5, 1.0, 2.0), wave(6, 2.0)
    norm = torch.nn.utils.clip_grad_norm_([a, b], limit)
    return {"limit": limit, "norm": norm.item(), "gradient": a.grad.tolist() + b.grad.tolist()}


def schedule(name, steps, make):
    by = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    rates = make(by)
    factors = []
    for _ in range(steps):
        factors.append(by.param_groups[0]["lr"])
        by.step()
        rates.step()
    return {"curve": name, "warmup": 0, "total": steps, "factors": factors}


weights = [0.5, 2.0, 0.0, 1.0, 3.0]
rates = torch.optim.lr_scheduler
result = {
    "torch": torch.__version__,
    "optimizers": [
        optimizer("sgd", 0.1),
        optimizer("sgd", 0.1, weight_decay=0.01),
        optimizer("sgd", 0.1, momentum=0.9),
        optimizer("sgd", 0.1, momentum=0.9, weight_decay=0.01),
        optimizer("sgd", 0.1, momentum=0.9, nesterov=True),
        optimizer("sgd", 0.1, momentum=0.8, nesterov=True, weight_decay=0.01),
        optimizer("adam", 0.001),
        optimizer("adam", 0.01, weight_decay=0.1),
        optimizer("adam", 0.01, betas=(0.8, 0.95), eps=1e-3),
        optimizer("adamw", 0.001),
        optimizer("adamw", 0.01, weight_decay=0.1, betas=(0.5, 0.9), eps=1e-4),
        optimizer("adagrad", 0.01),
        optimizer("adagrad", 0.1, weight_decay=0.1, eps=1e-3),
    ],
    "losses": [
        loss(name, 5, dim, targets, smoothing, w)
        for w in (None, weights)
        for name, dim, targets, smoothing in [
            ("squared", 3, "classes", 0.0),
            ("squared", 1, "classes", 0.0),
            ("squared", 4, "numbers", 0.0),
            ("cross-entropy", 3, "classes", 0.0),
            ("cross-entropy", 10, "classes", 0.1),
            ("cross-entropy", 4, "numbers", 0.2),
            ("binary-cross-entropy", 1, "classes", 0.0),
            ("binary-cross-entropy", 3, "numbers", 0.0),
        ]
    ],
    "clips": [clip(1.0), clip(100.0)],
    "schedules": [
        schedule("constant", 4, lambda by: rates.ConstantLR(by, 1.0)),
        schedule("step:3,0.1", 10, lambda by: rates.StepLR(by, 3, 0.1)),
        schedule("cosine", 10, lambda by: rates.CosineAnnealingLR(by, 10)),
    ],
}
Path(__file__).with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
