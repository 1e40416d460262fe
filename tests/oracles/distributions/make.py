"""Writes distributions.json beside it: distribution functions, quantiles and ranks by SciPy.

Run by hand: pip install scipy==1.17.1 mpmath==1.4.1 && python make.py

SciPy loses digits in some far tails. Every value is checked with 150 digits, and left out where SciPy is off by more
than 1e-12 of it; `left_out` names those.
"""

import json
from itertools import product
from pathlib import Path

import mpmath
import scipy
from mpmath import exp, log, log1p, loggamma, mpf, sqrt
from scipy import special, stats

ALLOWED = 1e-12
mpmath.mp.dps = 150


def series(first, factor):
    """The sum of positive terms, of which factor(n) takes term n to the next."""
    term = total = first
    n = 0
    while term > total * mpmath.mp.eps:
        term *= factor(n)
        total += term
        n += 1
    return total


def gamma_p(a, x):
    """DLMF 8.7.1."""
    return series(exp(a * log(x) - x - loggamma(a + 1)), lambda n: x / (a + n + 1))


def beta_i(a, b, x, y):
    """DLMF 8.17.8; y is 1 - x."""
    if x > 0.5:
        return 1 - beta_i(b, a, y, x)
    front = exp(a * log(x) + b * log(y) - log_beta(a, b)) / a
    return series(front, lambda n: x * (a + b + n) / (a + n + 1))


def log_beta(a, b):
    return loggamma(a) + loggamma(b) - loggamma(a + b)


def student(t, f):
    """Distribution function and density."""
    outside = beta_i(f / 2, mpf(1) / 2, f / (f + t * t), t * t / (f + t * t)) if t else mpf(1)
    density = exp(-(f + 1) / 2 * log1p(t * t / f) - log_beta(f / 2, mpf(1) / 2)) / sqrt(f)
    return (outside / 2 if t < 0 else 1 - outside / 2), density


def chi_square(x, f):
    return gamma_p(f / 2, x / 2), exp((f / 2 - 1) * log(x / 2) - x / 2 - loggamma(f / 2)) / 2


def beta(x, a, b):
    return beta_i(a, b, x, 1 - x), exp((a - 1) * log(x) + (b - 1) * log(1 - x) - log_beta(a, b))


def kolmogorov(x):
    """The survival function by the alternating series, which 150 digits and 400 terms make right from 0.1 on."""
    return 2 * sum((-1) ** (j - 1) * exp(-2 * j * j * x * x) for j in range(1, 400))


def quantiles(name, law, scipy_law, parameters, probabilities):
    """Of a quantile, the relative error to first order: (F(x) - p) / (x f(x))."""
    for shape, p in product(parameters, probabilities):
        value = float(scipy_law.ppf(p, *shape))
        if value:
            below, density = law(mpf(value), *map(mpf, shape))
            error = (below - mpf(p)) / (density * mpf(value))
        else:  # right if the next double is not too small
            error = 0 if law(mpf(5e-324), *map(mpf, shape))[0] >= p else 1
        keep(name, [p, *shape], value, error)


def values(name, truth, scipy_function, arguments):
    for at in arguments:
        value, true = float(scipy_function(*at)), truth(*map(mpf, at))
        if true > mpf(10) ** -120:
            keep(name, list(at), value, value / true - 1)


def keep(name, at, value, error):
    if abs(error) <= ALLOWED:
        document.setdefault(name, []).append([*at, value])
    else:
        document["left_out"].append([name, *at])


document = {
    "made_with": f"scipy {scipy.__version__}, checked by mpmath {mpmath.__version__}",
    "left_out": [],
}

FAR = [1e-100, 1e-12, 1e-6, 1e-3, 0.025, 0.3, 0.4999999, 0.5, 0.9, 0.975, 1 - 1e-6, 1 - 1e-12]
STUDENT = [1, 1.5, 2, 2.5, 4.5, 9, 30, 99, 100, 250.25, 12345.5, 1e6, 1e9]
CHI_SQUARE = [0.05, 0.5, 1, 1.5, 2, 4, 9, 30.5, 100, 500, 1e4, 1e6]
SHAPES = list(product([0.1, 0.5, 2.5, 10, 100.5, 1e4], repeat=2))

quantiles("student_quantile", student, stats.t, [(f,) for f in STUDENT], FAR)
quantiles("chi_square_quantile", chi_square, stats.chi2, [(f,) for f in CHI_SQUARE], FAR)
quantiles("beta_quantile", beta, stats.beta, SHAPES, [1e-30, 1e-6, 0.025, 0.5, 0.975, 1 - 1e-6])

values(
    "student_cdf",
    lambda t, f: student(t, f)[0],
    stats.t.cdf,
    product([-1e30, -1e3, -20, -3, -1, -0.01, 0, 0.5, 2, 10], STUDENT),
)
values(
    "chi_square_sf",
    lambda x, f: 1 - chi_square(x, f)[0],
    stats.chi2.sf,
    [(f + z * (2 * f) ** 0.5, f) for z, f in product([-0.7, -0.1, 0.001, 1, 4, 20], CHI_SQUARE)
     if f + z * (2 * f) ** 0.5 > 0],
)  # fmt: skip
values(
    "beta_cdf",
    lambda x, a, b: beta(x, a, b)[0],
    stats.beta.cdf,
    [(x, *shape) for x, shape in product([1e-9, 0.01, 0.4, 0.5, 0.9, 1 - 2**-20], SHAPES)],
)
values(
    "binomial_cdf",
    lambda k, n, p: beta_i(n - k, k + 1, 1 - p, p),
    stats.binom.cdf,
    [(k, n, p) for n, p in product([1, 10, 89, 1000, 16384, 10**6], [1e-9, 0.01, 0.3, 0.5, 0.95])
     for k in sorted({0, n // 2, n - 1, *(int(n * p + z * (n * p * (1 - p)) ** 0.5) for z in (-8, -1, 1, 8))})
     if 0 <= k < n],
)  # fmt: skip
values(
    "kolmogorov_sf",
    kolmogorov,
    special.kolmogorov,
    [
        (x,)
        for x in (0.1, 0.2, 0.3, 0.5, 0.7, 0.82, 0.9, 0.999999, 1, 1.000001, 1.2, 1.36, 2, 3, 5, 11)
    ],
)

# SciPy gives n where the largest of n values is not enough: P(X <= n - 1) < confidence.
ranks = []
for n, q, confidence in product(
    [1, 2, 20, 89, 90, 100, 905, 1000, 16384, 10**6],
    [0.3, 0.5, 0.95, 0.99],
    [0.9, 0.99, 1 - 1e-6, 1 - 1e-9],
):
    k = int(stats.binom.ppf(confidence, n, q))
    ranks.append([n, q, confidence, k + 1 if k < n else None])
document["quantile_bound_rank"] = ranks

path = Path(__file__).with_name("distributions.json")
path.write_text(json.dumps(document, indent=None, separators=(",", ":")) + "\n")
