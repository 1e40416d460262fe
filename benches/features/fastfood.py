"""scikit-learn-extra's Fastfood on the rows of a case; run.py starts it in its own environment.

usage: fastfood.py ROWS.f32 N d D

Both modes compute D features: "accuracy" a cosine and a sine for each of D/2 directions, like ours, "mem"
a cosine for each of D. It computes in f64 and on one thread. All rows at once or in blocks, whichever
is faster; one row at a time for the last value. Prints one JSON object.
"""

import json
import sys
import warnings

import numpy as np
import sklearn
import sklearn_extra
from peers import BLOCKS, SINGLE_ROWS, best_of
from sklearn_extra.kernel_approximation import Fastfood

CHECK_ROWS = 300
MODES = {"accuracy": 2, "mem": 1}  # features per direction


def in_blocks(mapping, rows, block):
    """A job that maps `rows` in blocks into one output."""
    out = np.empty((len(rows), mapping.transform(rows[:1]).shape[1]))

    def job():
        for first in range(0, len(rows), block):
            out[first : first + block] = mapping.transform(rows[first : first + block])

    return job


def kernel_error(mapping, rows):
    """The mean error of the kernel values of some pairs."""
    some = rows[:CHECK_ROWS].astype(np.float64)
    phi = mapping.transform(some)
    squared = np.square(some[:, None, :] - some[None, :, :]).sum(axis=2)
    return float(np.abs(phi @ phi.T - np.exp(-0.5 * squared)).mean())


def timed(rows, width, mode):
    n_components = width // MODES[mode]
    mapping = Fastfood(
        sigma=1.0, n_components=n_components, tradeoff_mem_accuracy=mode, random_state=0
    ).fit(rows[:1])
    features = mapping.transform(rows[:1]).shape[1]
    if features != width:  # it rounds n_components up to a multiple of the padded d
        return {"skipped": f"computes {features} features instead of {width}"}
    error = kernel_error(mapping, rows)
    if not error <= 2.0 / np.sqrt(width):
        return {"skipped": f"its kernel is off by {error:.2f}"}
    forms = {"whole": lambda: mapping.transform(rows)}
    for block in (b for b in BLOCKS if b < len(rows)):
        forms[f"blocks of {block}"] = in_blocks(mapping, rows, block)
    looked_at = {name: best_of(job, runs=1, seconds=0.0) for name, job in forms.items()}
    form = min(looked_at, key=looked_at.get)
    some = [rows[i : i + 1] for i in range(min(SINGLE_ROWS, len(rows)))]
    single = best_of(lambda: [mapping.transform(row) for row in some])
    return {
        "seconds": best_of(forms[form]),
        "form": form,
        "single_row_microseconds": 1e6 * single / len(some),
        "n_components": n_components,
        "kernel_error": error,
    }


def main():
    path, n, d, width = sys.argv[1], *map(int, sys.argv[2:5])
    warnings.simplefilter("ignore")
    rows = np.fromfile(path, "<f4").reshape(n, d)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    result = {mode: timed(rows, width, mode) for mode in MODES}
    result["versions"] = {
        "scikit-learn-extra": sklearn_extra.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
