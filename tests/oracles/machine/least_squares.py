"""Writes least_squares.json beside it: weighted least squares of features and of kernels by NumPy (paper 004, (14) and (17)).

Run by hand: pip install numpy==2.4.6 && python least_squares.py

Features of the first cases are multiples of 1/4, the same in every language (machine.json has them too). The last case is the tangent
features of a tanh network of one input and one output whose parameters are p_i = ((7919 i + 13) mod 17) / 8 - 1 in the order
W1, b1, W2, b2, W3, b3, written out here by hand.
"""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np


def features(n, dim, salt=0):
    i, j = np.arange(n)[:, None] + salt, np.arange(dim)[None, :]
    return ((i * 7919 + j * 104729 + i * j * 31 + i * i * 17) % 9) / 4 - 1


rng = np.random.default_rng(5)


def condition(a, rcond):
    """Largest over smallest singular value kept. The rank must not hang on rounding."""
    s = np.linalg.svd(a)[1]
    cut = s / s[0] / rcond
    assert not ((cut > 0.99) & (cut < 1.01)).any(), cut
    return s[0] / s[cut > 1].min()


def solved(x, queries, rconds, weighted):
    n = len(x)
    y = rng.normal(size=(n, 2))
    w = rng.uniform(0.2, 2.0, size=n) if weighted else np.ones(n)
    root = np.sqrt(w)[:, None]
    k, k_queries = x @ x.T, queries @ x.T
    out = {"y": y.ravel().tolist(), "weights": w.tolist() if weighted else None, "at": []}
    for rcond in rconds:
        a, h = root * x, root * k * root.T
        gamma, _, rank, _ = np.linalg.lstsq(a, root * y, rcond=rcond)
        pinv = np.linalg.pinv(h, rcond=rcond)
        delta = root * (pinv @ (root * y))
        out["at"].append({
            "rcond": rcond, "rank": int(rank), "features": (queries @ gamma).ravel().tolist(),
            "kernel_rank": int(np.linalg.matrix_rank(h, rtol=rcond)),
            "condition": condition(a, rcond), "kernel_condition": condition(h, rcond),
            "kernel": (k_queries @ delta).ravel().tolist(),
        })  # fmt: skip
    return out


def plain(n, dim, rconds, weighted):
    x = features(n, dim)
    return {"n": n, "dim": dim, **solved(x, features(8, dim, 5000), rconds, weighted)}


def tangent(x, hidden):
    """Gradients of f = W3 tanh(W2 tanh(W1 x + b1) + b2) + b3, and the outputs."""
    sizes = [1, *hidden, 1]
    shapes = [s for i, o in pairwise(sizes) for s in [(o, i), (o,)]]
    count = sum(int(np.prod(s)) for s in shapes)
    flat = ((np.arange(count) * 7919 + 13) % 17) / 8 - 1
    parts = np.split(flat, np.cumsum([int(np.prod(s)) for s in shapes])[:-1])
    w1, b1, w2, b2, w3, b3 = (p.reshape(s) for p, s in zip(parts, shapes))
    rows, outputs = [], []
    for value in x:
        z0 = np.array([value])
        z1 = np.tanh(w1 @ z0 + b1)
        z2 = np.tanh(w2 @ z1 + b2)
        outputs.append((w3 @ z2 + b3)[0])
        d3 = np.ones(1)
        d2 = (w3.T @ d3) * (1 - z2**2)
        d1 = (w2.T @ d2) * (1 - z1**2)
        pairs = [(d1, z0), (d2, z1), (d3, z2)]
        rows.append(np.concatenate([np.append(np.outer(d, z).ravel(), d) for d, z in pairs]))
    return np.array(rows), np.array(outputs)


def network(points, hidden, rconds):
    x = np.linspace(-1, 1, points)
    queries = np.linspace(-0.95, 0.95, 8)
    (phi, _), (phi_queries, outputs) = tangent(x, hidden), tangent(queries, hidden)
    return {
        "points": points, "hidden": hidden, "queries": queries.tolist(), "outputs": outputs.tolist(),
        **solved(phi, phi_queries, rconds, True),
    }  # fmt: skip


out = {
    "versions": {"numpy": np.__version__},
    "plain": [
        plain(40, 6, [1e-10, 0.5], False), plain(30, 5, [1e-10], True),
        plain(9, 20, [1e-10, 0.2], True), plain(12, 12, [1e-2], True),
    ],
    "network": network(7, [4, 3], [1e-10, 1e-2]),
}  # fmt: skip
path = Path(__file__).with_name("least_squares.json")
path.write_text(json.dumps(out, separators=(",", ":")) + "\n")
