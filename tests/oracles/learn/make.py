"""Writes learn.json beside it: logistic regressions and nearest neighbors by scikit-learn.

Run by hand: pip install numpy==2.4.6 scikit-learn==1.9.1 && python make.py

Rows are quotients of small integers, the same in every language: x_ij = (h(i, j) mod 1009) / 504.5 - 1 as f32.
"""

import json
from pathlib import Path

import numpy as np
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier


def rows(n, dim, salt=0):
    i, j = np.arange(n)[:, None] + salt, np.arange(dim)[None, :]
    return (((i * 7919 + j * 104729 + i * j * 31 + i * i * 17) % 1009) / 504.5 - 1).astype(
        np.float32
    )


def log_sum_exp(s):
    top = s.max(axis=1)
    return top + np.log(np.exp(s - top[:, None]).sum(axis=1))


rng = np.random.default_rng(5)
strict = {"tol": 1e-12, "max_iter": 100_000}


def softmax(n, dim, classes, c):
    x = rows(n, dim).astype(float)
    planted = rng.normal(size=(classes, dim))
    y = np.argmax(x @ planted.T + rng.gumbel(size=(n, classes)), axis=1)
    y[:classes] = np.arange(classes)
    fit = LogisticRegression(C=c, **strict).fit(x, y)
    scores = x @ fit.coef_.T + fit.intercept_
    data = (log_sum_exp(scores) - scores[np.arange(n), y]).mean()
    loss = data + (fit.coef_**2).sum() / (2 * c * n)
    return {
        "n": n, "dim": dim, "classes": classes, "c": c, "labels": y.tolist(), "loss": loss,
        "weights": fit.coef_.ravel().tolist(), "intercepts": fit.intercept_.tolist(),
    }  # fmt: skip


def one_vs_rest(n, dim, classes, c):
    x = rows(n, dim).astype(float)
    planted = rng.normal(size=(classes, dim))
    y = (x @ planted.T + rng.logistic(size=(n, classes)) > 0.5).astype(int)
    fit = OneVsRestClassifier(LogisticRegression(C=c, **strict)).fit(x, y)
    weights = np.vstack([e.coef_ for e in fit.estimators_])
    intercepts = np.concatenate([e.intercept_ for e in fit.estimators_])
    s = x @ weights.T + intercepts
    data = (np.logaddexp(0, s) - y * s).sum() / n
    return {
        "n": n, "dim": dim, "classes": classes, "c": c,
        "sets": [np.flatnonzero(row).tolist() for row in y],
        "loss": data + (weights**2).sum() / (2 * c * n),
        "weights": weights.ravel().tolist(), "intercepts": intercepts.tolist(),
        "predicted": [np.flatnonzero(row).tolist() for row in fit.predict(x)],
    }  # fmt: skip


def neighbors(n, dim, classes, k, metric):
    y = rng.integers(0, classes, n)
    fit = KNeighborsClassifier(k, metric=metric, algorithm="brute").fit(rows(n, dim), y)
    return {
        "n": n, "dim": dim, "classes": classes, "k": k, "metric": metric, "labels": y.tolist(),
        "predicted": fit.predict(rows(40, dim, salt=5000)).tolist(),
    }  # fmt: skip


out = {
    "versions": {"numpy": np.__version__, "scikit-learn": sklearn.__version__},
    "softmax": [
        softmax(60, 3, 3, 1.0), softmax(120, 6, 4, 0.01), softmax(150, 8, 5, 100.0), softmax(200, 12, 9, 5.0),
    ],
    "one_vs_rest": [one_vs_rest(90, 4, 3, 1.0), one_vs_rest(120, 7, 5, 20.0)],
    "knn": [
        neighbors(100, 4, 3, 1, "euclidean"), neighbors(150, 6, 4, 7, "euclidean"),
        neighbors(150, 6, 4, 10, "cosine"),
    ],
}  # fmt: skip
Path(__file__).with_name("learn.json").write_text(json.dumps(out, separators=(",", ":")) + "\n")
