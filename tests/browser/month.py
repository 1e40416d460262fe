"""A month of generated tables for the history page: month.py FOLDER, with the standard library alone.

Every day is the reference in other coordinates with some noise. Days 9, 17 and 18 have rows of other ids, and from day 20 on
the noise grows.
"""

import math
import random
import struct
import sys
import zipfile
from pathlib import Path

ROWS, DIM = 200, 8
BROKEN = {9, 17, 18}


def npy(kind, shape, data):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header = header.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def write(path, rows, ids):
    flat = [x for row in rows for x in row]
    with zipfile.ZipFile(path, "w") as file:
        vectors = struct.pack(f"<{len(flat)}f", *flat)
        file.writestr("vectors.npy", npy("<f4", f"({ROWS}, {DIM})", vectors))
        file.writestr("ids.npy", npy("<i8", f"({ROWS},)", struct.pack(f"<{ROWS}q", *ids)))


def turned(row, angle):
    cos, sin = math.cos(angle), math.sin(angle)
    pairs = zip(row[::2], row[1::2], strict=True)
    return [x for a, b in pairs for x in (cos * a - sin * b, sin * a + cos * b)]


folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
draw = random.Random(7)
reference = [[draw.gauss(0, 1) for _ in range(DIM)] for _ in range(ROWS)]
write(folder / "reference.npz", reference, range(ROWS))
for day in range(1, 31):
    noise = 0.08 + 0.012 * max(0, day - 19) + 0.01 * draw.random()
    rows = [[x + draw.gauss(0, noise) for x in turned(row, 0.3 * day)] for row in reference]
    ids = list(range(ROWS))
    if day in BROKEN:
        draw.shuffle(ids)
    write(folder / f"{day:02}.npz", rows, ids)
(folder / "budget.toml").write_text(
    "min-cka = 0.9\nmin-nn-overlap = 0.5\nmax-procrustes-residual = 0.35\n"
)
