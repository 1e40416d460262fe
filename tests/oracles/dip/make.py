"""Writes dip.json beside it: Hartigan's dip of small samples by linear programs.

Run by hand: pip install numpy==2.4.6 scipy==1.17.1 && python make.py

The dip is the least t such that a unimodal distribution function G exists within t of that of the sample: for a mode at
the data point m, G is convex before it and concave after it, and may jump there. G may be taken linear between data
points, so for every m this is a linear program in the values of G.
"""

import json
from pathlib import Path

import numpy as np
from scipy.optimize import linprog


def with_mode(points, below, above, m):
    """The least distance for a mode at point m; G has two values there: before and after the jump."""
    places = [*range(m + 1), *range(m, len(points))]
    distance = len(places)
    rows, bounds = [], []

    def at_most(terms, bound):
        row = np.zeros(distance + 1)
        for place, factor in terms:
            row[place] += factor
        rows.append(row)
        bounds.append(bound)

    for g, point in enumerate(places):
        for side, value in (("below", below[point]), ("above", above[point])):
            if point == m and side != ("below" if g == m else "above"):
                continue
            at_most([(g, 1), (distance, -1)], value)
            at_most([(g, -1), (distance, -1)], -value)
        if g:
            at_most([(g - 1, 1), (g, -1)], 0)
    for first, last, sign in ((0, m, 1), (m + 1, distance - 1, -1)):
        for g in range(first + 1, last):
            before, after = (points[places[g + k]] - points[places[g + k - 1]] for k in (0, 1))
            slopes = [(g, 1 / before + 1 / after), (g - 1, -1 / before), (g + 1, -1 / after)]
            at_most([(place, sign * factor) for place, factor in slopes], 0)
    limits = [(0, 1)] * distance + [(0, None)]
    return linprog([0] * distance + [1], A_ub=np.array(rows), b_ub=bounds, bounds=limits).fun


def dip(sample):
    points, counts = np.unique(sample, return_counts=True)
    above = np.cumsum(counts) / len(sample)
    below = above - counts / len(sample)
    return min(with_mode(points, below, above, m) for m in range(len(points)))


def main():
    draw = np.random.default_rng(1)
    cases = []
    for n in (4, 7, 12, 20, 33, 50):
        for apart in (0, 4):
            half = n // 2
            sample = np.concatenate([draw.normal(0, 1, half), draw.normal(apart, 1, n - half)])
            sample = np.sort(np.round(sample, 2 if n < 50 else 1))  # the longest have ties
            cases.append({"sample": sample.tolist(), "dip": round(dip(sample), 12)})
    path = Path(__file__).with_name("dip.json")
    path.write_text(json.dumps(cases) + "\n", encoding="utf-8")


main()
