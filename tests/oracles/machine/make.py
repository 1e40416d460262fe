"""Writes machine.json beside it: kernel logistic regressions and support vector machines by scikit-learn.

Run by hand: pip install numpy==2.4.6 scikit-learn==1.9.1 && python make.py

Features are multiples of 1/4, the same in every language, so that their products are exact in f32:
x_ij = (h(i, j) mod 9) / 4 - 1. A machine of the Gram matrix of the rows is the linear machine of the rows.
"""

import json
from pathlib import Path

import numpy as np
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC


def features(n, dim, salt=0):
    i, j = np.arange(n)[:, None] + salt, np.arange(dim)[None, :]
    return ((i * 7919 + j * 104729 + i * j * 31 + i * i * 17) % 9) / 4 - 1


rng = np.random.default_rng(11)


def planted(n, dim, classes):
    x = features(n, dim)
    y = np.argmax(x @ rng.normal(size=(dim, classes)) + rng.gumbel(size=(n, classes)), axis=1)
    y[:classes] = np.arange(classes)
    return x, y


def log_sum_exp(s):
    top = s.max(axis=1)
    return top + np.log(np.exp(s - top[:, None]).sum(axis=1))


def logistic(n, dim, classes, lam, balanced):
    x, y = planted(n, dim, classes)
    c = 1 / (n * lam)
    fit = LogisticRegression(
        C=c, tol=1e-12, max_iter=100_000, class_weight="balanced" if balanced else None
    ).fit(x, y)
    w = n / (classes * np.bincount(y, minlength=classes))[y] if balanced else np.ones(n)
    coef, intercept = fit.coef_, fit.intercept_
    if classes == 2:  # one logit: split over both classes, where the penalty of both is half
        raise ValueError("the penalty of two classes differs: use three or more")
    s = x @ coef.T + intercept
    objective = (w * (log_sum_exp(s) - s[np.arange(n), y])).mean() + lam / 2 * (coef**2).sum()
    return {
        "n": n, "dim": dim, "classes": classes, "lambda": lam, "balanced": balanced,
        "labels": y.tolist(), "objective": objective,
        "probabilities": fit.predict_proba(features(10, dim, 5000)).ravel().tolist(),
    }  # fmt: skip


def svm(n, dim, classes, c):
    x, y = planted(n, dim, classes)
    queries = features(12, dim, 5000)
    fit = SVC(C=c, kernel="precomputed", tol=1e-10, decision_function_shape="ovo").fit(x @ x.T, y)
    return {
        "n": n, "dim": dim, "classes": classes, "c": c, "labels": y.tolist(),
        "decisions": fit.decision_function(queries @ x.T).ravel().tolist(),
        "predicted": fit.predict(queries @ x.T).tolist(),
    }  # fmt: skip


out = {
    "versions": {"numpy": np.__version__, "scikit-learn": sklearn.__version__},
    "logistic": [
        logistic(60, 3, 3, 0.02, False), logistic(90, 6, 4, 0.3, True),
        logistic(120, 8, 5, 1e-3, False), logistic(150, 5, 3, 0.05, True),
    ],
    "svm": [svm(40, 3, 2, 1.0), svm(80, 5, 3, 0.5), svm(120, 6, 4, 10.0), svm(60, 4, 2, 0.01)],
}  # fmt: skip
Path(__file__).with_name("machine.json").write_text(json.dumps(out, separators=(",", ":")) + "\n")
