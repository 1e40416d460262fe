"""Writes ranks.json beside it: rank correlations by SciPy, isotonic regressions by scikit-learn.

Run by hand: pip install numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1 && python make.py
"""

import json
import math
import warnings
from pathlib import Path

import numpy as np
import scipy
import sklearn
from scipy import stats
from sklearn.isotonic import IsotonicRegression

warnings.filterwarnings("ignore")  # constant input has no correlation: null below
rng = np.random.default_rng(7)


def finite(x):
    return None if math.isnan(x) else float(x)


def correlations(x, y):
    return {
        "x": x.tolist(), "y": y.tolist(),
        "kendall": finite(stats.kendalltau(x, y, variant="b").statistic),
        "spearman": finite(stats.spearmanr(x, y).statistic),
        "pearson": finite(stats.pearsonr(x, y).statistic),
    }  # fmt: skip


def isotonic(x, y):
    return {
        "x": x.tolist(),
        "y": y.tolist(),
        "fitted": IsotonicRegression().fit(x, y).predict(x).tolist(),
    }


def noisy(n, digits):
    z = rng.normal(size=n)
    return (np.round(z + 0.7 * rng.normal(size=n), digits), np.round(z, digits))


out = {
    "versions": {"numpy": np.__version__, "scipy": scipy.__version__, "scikit-learn": sklearn.__version__},
    "correlations": [
        *(correlations(*noisy(n, digits)) for n, digits in [(2, 3), (3, 1), (10, 0), (50, 0), (50, 6), (300, 1), (300, 8)]),
        correlations(np.ones(6), np.arange(6.0)), correlations(np.arange(6.0), np.ones(6)),
        correlations(np.array([1.0, 1.0, 2.0, 2.0]), np.array([1.0, 2.0, 1.0, 2.0])),
        correlations(np.array([3.0, 1.0]), np.array([1.0, 3.0])),
    ],
    "isotonic": [isotonic(*noisy(n, digits)) for n, digits in [(1, 2), (5, 2), (20, 0), (60, 1), (60, 6)]],
}  # fmt: skip
Path(__file__).with_name("ranks.json").write_text(json.dumps(out, separators=(",", ":")) + "\n")
