"""Writes tests/golden/*.json with the reference implementation.

Run as `python3 python/reference/make_golden.py`. Singles and doubles are written as the 8 or 16 hex
digits of their IEEE bits. The files depend on this script and on veridical_reference.py only.
"""

import json
import math
import pathlib

import veridical_reference as ref

MADE_BY = "python/reference/make_golden.py"
GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"

# Known answers published with Random123 (kat_vectors, philox4x32 with 10 rounds).
PHILOX_VECTORS = (
    (
        "00000000 00000000 00000000 00000000",
        "00000000 00000000",
        "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    ),
    (
        "ffffffff ffffffff ffffffff ffffffff",
        "ffffffff ffffffff",
        "408f276d 41c83b0e a20bc7c6 6d5451fd",
    ),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
)


def hex32(word):
    return f"{word:08x}"


def hex_f32(x):
    if math.isnan(x):
        raise ValueError("the bits of a NaN are not defined, keep it out of the golden values")
    return hex32(ref.f32_bits(x))


def hex_f64(x):
    return f"{ref.f64_bits(x):016x}"


def next_f32(x, steps=1):
    """The single `steps` places further from zero."""
    return ref.f32_from_bits(ref.f32_bits(x) + steps)


# philox.json, normals.json


def philox_document():
    vectors = [
        {"counter": counter.split(), "key": key.split(), "output": output.split()}
        for counter, key, output in PHILOX_VECTORS
    ]
    return {"vectors": vectors}


def normals_document():
    streams = []
    for seed in (0, 7, 2**53 - 1):
        for name in ("directions", "negatives"):
            key = ref.stream_key(seed, name)
            vectors = [
                {"j": j, "normals": [hex_f64(ref.normal(key, i, j)) for i in range(16)]}
                for j in (0, 3)
            ]
            streams.append(
                {"seed": seed, "name": name, "key": [hex32(k) for k in key], "vectors": vectors}
            )
    key = ref.stream_key(7, "directions")
    counter = (0, 0, 0, 0)
    words = ref.philox4x32_10(counter, key)
    uniforms = {
        "seed": 7,
        "name": "directions",
        "counter": [hex32(c) for c in counter],
        "words": [hex32(w) for w in words],
        "uniforms": [
            hex_f64(ref.words_to_uniform(words[0], words[1])),
            hex_f64(ref.words_to_uniform(words[2], words[3])),
        ],
    }
    return {"streams": streams, "block": uniforms}


# directions.json

DIRECTION_SHAPES = (
    # input_dim, output_dim, seed, length_scale
    (1, 2, 0, 1.0),
    (1, 6, 11, 2.5),
    (3, 4, 7, 0.1),
    (5, 22, 2**53 - 1, 3.7),
    (16, 24, 123456789, 1e-3),
    (33, 80, 42, 11.313708498984761),
    # Seeds and length scales at which a double falls so close to the middle of two singles that a
    # change of the order of operations changes a bit of U (see Sensitivity in check_reference.py).
    (3, 4, 7, 1.9585058597560623),
    (3, 4, 7, 1.5359628247210853),
    (9, 22, 13473085, 1.3),
    (9, 22, 13611885, 1.3),
)

# Blocks of several panels, only for `orthogonal`; the seeds and length scales are chosen as above,
# for the work against earlier panels.
PANEL_SHAPES = (
    # Two blocks, each with panels of 32 and 4.
    (36, 144, 42, 1.30001278205),
    # A block with panels of 32, 32 and 6, and the first 5 directions of the next block.
    (70, 150, 71, 8.400341888666),
)


def directions_document():
    cases = []
    families = (("iid", DIRECTION_SHAPES), ("orthogonal", DIRECTION_SHAPES + PANEL_SHAPES))
    for family, shapes in families:
        for input_dim, output_dim, seed, length_scale in shapes:
            spec = ref.make_spec(input_dim, output_dim, seed, length_scale, family)
            rows = [[hex_f32(x) for x in row] for row in ref.directions(spec)]
            cases.append(
                {
                    "spec": spec,
                    "spec_id": spec["spec_id"],
                    "directions_id": spec["directions_id"],
                    "directions": rows,
                }
            )
    return {"cases": cases}


# phi.json


def random_row(input_dim, j, scale=1.0):
    key = ref.stream_key(0, "golden-rows")
    return [ref.f32(scale * x) for x in ref.gaussian(key, input_dim, j)]


def special_rows(input_dim):
    """Rows of ordinary, zero, tiny and subnormal values; safe for every normalization."""
    subnormal = [(-1) ** k * (k % 5 + 1) * 2.0**-149 for k in range(input_dim)]
    mixed = [(2.0**-149, -1.5, 2.0**-126, -0.0, 3.0e-20, 0.75)[k % 6] for k in range(input_dim)]
    return [
        random_row(input_dim, 0),
        random_row(input_dim, 1, 0.01),
        [0.0] * input_dim,
        [-0.0] * input_dim,
        subnormal,
        mixed,
        random_row(input_dim, 2, 1e-40),
        random_row(input_dim, 3, 1e-25),
        [1.0] + [0.0] * (input_dim - 1),
    ]


LARGE_SCALES = {
    "none": (3e4, 2e9, 1e20, 3e35),
    "unit": (3e37,),
    "standardize": (3e4, 2e9, 1e20),
}


def large_rows(spec):
    """Rows of large values: projections beyond the short reduction, except for `unit`."""
    scales = LARGE_SCALES[spec["normalize"]]
    return [random_row(spec["input_dim"], 10 + k, scale) for k, scale in enumerate(scales)]


def close_rows(spec):
    """Rows with a normalized element so close to the middle of two singles that a change of the
    order of operations in step 1 changes a bit of phi."""
    if spec["input_dim"] == 2 and spec["normalize"] == "unit":
        return [[4853.0, 2758.0]]
    if spec["input_dim"] == 128:
        return [random_row(4, 6328247) + [2.0**-26] * 124]
    if spec["input_dim"] == 2 and spec["normalize"] == "standardize":
        return [[float.fromhex("0x1.87b76ep+1"), float.fromhex("0x1.16828ap+1")]]
    return []


def phi_specs():
    close_means, close_deviations = [0.7, -0.3], [1.7719501999825216, 0.712622100691345]
    means = [0.1, -3.0, 1e-7, 250.0]
    deviations = [1.0, 0.3, 1e-6, 77.7]
    many_means = [0.01 * k - 0.3 for k in range(33)]
    many_deviations = [0.5 + 0.1 * k for k in range(33)]
    make = ref.make_spec
    return (
        make(1, 2, 5, 1.0, "iid", "none"),
        make(3, 8, 1, 1.0, "iid", "none"),
        make(5, 22, 2, 0.37, "orthogonal", "none"),
        make(1, 4, 6, 0.25, "orthogonal", "unit"),
        make(16, 24, 3, 0.2, "orthogonal", "unit"),
        make(7, 10, 2**53 - 1, 1.75, "iid", "unit"),
        make(4, 12, 8, 2.0, "orthogonal", "standardize", means, deviations),
        make(4, 6, 9, 0.5, "iid", "standardize", means, deviations),
        make(33, 80, 10, 6.0, "orthogonal", "none"),
        make(33, 80, 10, 0.7, "orthogonal", "unit"),
        make(33, 14, 10, 4.5, "iid", "standardize", many_means, many_deviations),
        make(2, 6, 12, 0.02, "iid", "unit"),
        make(128, 4, 12, 0.02, "iid", "unit"),
        make(2, 6, 12, 0.02, "iid", "standardize", close_means, close_deviations),
    )


def phi_document():
    cases = []
    largest = 0.0
    for spec in phi_specs():
        u = ref.directions(spec)
        rows = close_rows(spec) or special_rows(spec["input_dim"]) + large_rows(spec)
        for row in rows:
            y = ref.normalize_row(spec, row)
            largest = max(largest, max(abs(ref.project(u_j, y)) for u_j in u))
        cases.append(
            {
                "spec": spec,
                "rows": [[hex_f32(x) for x in row] for row in rows],
                "phi": [[hex_f32(x) for x in ref.phi(spec, row, u)] for row in rows],
            }
        )
    if largest <= 2.0**60:
        raise ValueError("no row has a projection beyond 2^60")
    return {"cases": cases}


# sincos.json


def closest_to_quadrants(count):
    """The `count` singles up to 2^13 that lie relatively closest to multiples of pi/2."""
    candidates = []
    for n in range(1, 5216):
        a = ref.f32(n * ref.HALF_PI)
        candidates.append((abs(a - n * ref.HALF_PI) / a, a))
    return sorted(a for _, a in sorted(candidates)[:count])


def sincos_arguments():
    """Positive singles over all ranges."""
    from_bits = ref.f32_from_bits
    # Zero, subnormals and other tiny values.
    tiny = [0x00000000, 0x00000001, 0x00000002, 0x00012345, 0x007FFFFF, 0x00800000, 0x00800001]
    arguments = [from_bits(bits) for bits in tiny]
    arguments += [2.0**-k for k in (100, 63, 40, 26, 13, 12, 11, 7, 4, 2, 1)]
    # Around multiples of pi/4: zeros, extrema and the borders of the quadrants.
    for n in (1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 100, 1001, 4096, 7777, 10429, 10430):
        a = ref.f32(n * (ref.HALF_PI / 2.0))
        arguments += [next_f32(a, -1), a, next_f32(a)]
    arguments += closest_to_quadrants(10)
    # The border between the two reductions and powers of two up to the largest single.
    for e in (0, 3, 8, 12, 13, 14, 20, 23, 24, 31, 32, 48, 60, 64, 96, 110, 126, 127):
        arguments += [next_f32(2.0**e, -1), 2.0**e, next_f32(2.0**e)]
    # The two singles beyond 2^13 that lie closest to a multiple of pi/2.
    arguments += [16367173.0 * 2.0**72, 10741887.0 * 2.0**11]
    arguments += [from_bits(0x7F7FFFFE), from_bits(0x7F7FFFFF)]
    # Random significands, dense in the usual range and then one per binade.
    key = ref.stream_key(0, "golden-sincos")
    exponents = [-3, -2, -1, 0, 1, 2, 3, 4] * 2 + list(range(-10, 13, 2)) + list(range(13, 127, 3))
    for i, e in enumerate(exponents):
        word = ref.philox4x32_10((i, 0, 0, 0), key)[0]
        arguments.append(from_bits(((e + 127) << 23) | (word >> 9)))
    return sorted(set(arguments))


def sincos_document():
    cases = []
    for positive in sincos_arguments():
        for a in (positive, -positive):
            sine, cosine = ref.sincos32(a)
            cases.append({"a": hex_f32(a), "sin": hex_f32(sine), "cos": hex_f32(cosine)})
    return {"cases": cases}


# Files


def to_text(value, indent=0):
    """JSON with a list or object that holds only scalars on one line."""
    children = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(value, dict | list) or not any(isinstance(c, dict | list) for c in children):
        return json.dumps(value)
    pad = " " * (indent + 1)
    if isinstance(value, dict):
        lines = [f"{pad}{json.dumps(k)}: {to_text(v, indent + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"
    lines = [pad + to_text(v, indent + 1) for v in value]
    return "[\n" + ",\n".join(lines) + "\n" + " " * indent + "]"


def golden_texts():
    """File name -> text of every golden file."""
    documents = {
        "philox.json": philox_document(),
        "normals.json": normals_document(),
        "directions.json": directions_document(),
        "phi.json": phi_document(),
        "sincos.json": sincos_document(),
    }
    return {
        name: to_text({"made_by": MADE_BY, **document}) + "\n"
        for name, document in documents.items()
    }


def main():
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, text in golden_texts().items():
        (GOLDEN / name).write_text(text, encoding="utf-8", newline="\n")
        print(f"tests/golden/{name}: {len(text)} bytes")


if __name__ == "__main__":
    main()
