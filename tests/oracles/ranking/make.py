"""Writes ranking.json beside it: measures by scikit-learn, EASE by its textbook formula, quantiles by SciPy.

Run by hand: pip install numpy==2.4.6 scikit-learn==1.9.1 && python make.py
"""

import json
from pathlib import Path

import numpy as np
import scipy
import sklearn
from scipy.stats import t
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

KS = [1, 3, 5, 10]
rng = np.random.default_rng(4)


def ranking(n, n_relevant, levels):
    """Scores on a few levels have ties; `levels` 0 has none. scikit-learn averages NDCG over tied orders."""
    scores = (
        rng.integers(0, levels, n).astype(float) if levels else rng.permutation(n).astype(float)
    )
    relevant = np.zeros(n, dtype=int)
    relevant[rng.choice(n, n_relevant, replace=False)] = 1
    case = {
        "scores": scores.tolist(),
        "relevant": np.flatnonzero(relevant).tolist(),
        "ndcg": [ndcg_score([relevant], [scores], k=k) for k in KS],
        "auc": roc_auc_score(relevant, scores),
    }
    if not levels:  # scikit-learn takes tied items all at once, not in their mean order
        case["map"] = average_precision_score(relevant, scores)
    return case


def ease(users, items, weight):
    x = (rng.random((users, items)) < 0.3).astype(float)
    x[0, :] = 1
    p = np.linalg.inv(x.T @ x + weight * np.eye(items))
    b = np.eye(items) - p @ np.diag(1 / np.diag(p))
    rows = [np.flatnonzero(row).tolist() for row in x]
    return {"rows": rows, "weight_decay": weight, "scores": (x @ b).tolist()}


document = {
    "made_with": f"numpy {np.__version__}, scikit-learn {sklearn.__version__}, scipy {scipy.__version__}",
    "ks": KS,
    "rankings": [
        ranking(n, r, levels) for n, r in [(20, 3), (50, 1), (60, 25)] for levels in (0, 3, 8)
    ],
    "ease": ease(30, 12, 5.0),
    "student": [[df, t.ppf(0.975, df)] for df in (1, 1.5, 2, 3, 4.5, 9, 30, 250.25, 1e6)],
}
path = Path(__file__).with_name("ranking.json")
path.write_text(json.dumps(document, indent=None, separators=(",", ":")) + "\n")
