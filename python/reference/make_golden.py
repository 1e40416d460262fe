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


# quantile.json


def quantile_arguments():
    """Doubles between 0 and 1 over the three branches of the quantile."""
    up, down = (lambda v: math.nextafter(v, 1.0)), (lambda v: math.nextafter(v, 0.0))
    # The middle, and 0.425 away from it.
    arguments = [0.5, up(0.5), down(0.5), 0.25, 0.75, 2.0 / 3.0, 0.4, 0.1]
    for v in (0.075, 0.925):
        arguments += [down(v), v, up(v)]
    # The boundary of the tails, r = 5, where 1 - v is still exact but coarse.
    tail = 1.3887943864964021e-11  # exp(-25)
    arguments += [0.9 * tail, tail, 1.1 * tail, 1.0 - 0.9 * tail, 1.0 - tail, 1.0 - 1.1 * tail]
    # The ends of the range of `halton`, and beyond.
    arguments += [2.0**-53, 2.0**-52, 3.0 * 2.0**-53, 1.0 - 2.0**-53, 1.0 - 2.0**-52]
    arguments += [2.0**-60, 1e-100, 2.0**-1022]
    # Random ones, in the whole range and in the tails.
    key = ref.stream_key(0, "golden-quantile")
    for k in ref.uniform_integers(key, 20, 0):
        arguments.append((2 * (k >> 1) + 1) * 2.0**-53)
    for e, k in enumerate(ref.uniform_integers(key, 16, 1)):
        v = (k >> 1 | 2**51) * 2.0**-52 * 2.0 ** -(3 * e + 4)
        arguments.append(v if e % 2 == 0 else 1.0 - v)
    return sorted(set(arguments))


def quantile_document():
    cases = [{"v": hex_f64(v), "quantile": hex_f64(ref.quantile(v))} for v in quantile_arguments()]
    return {"cases": cases}


# directions.json

DIRECTION_SHAPES = (
    # input_dim, output_dim, seed, length_scale
    (1, 2, 0, 1.0),
    (1, 6, 11, 2.5),
    (3, 4, 7, 0.1),
    (5, 22, 2**53 - 1, 3.7),
    (16, 24, 123456789, 1e-3),
    (33, 80, 42, 11.313708498984761),
    # Seeds and length scales at which a double is so close to the midpoint of two singles that a
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


MIXTURES = (
    # scales, weights
    ([0.5, 1.0, 3.0], [1.0, 2.0, 0.7]),
    ([1.5], [0.3]),
    ([0.1, 0.3, 1.0, 3.0, 10.0], [1e-3, 0.25, 10.0, 0.25, 3.0]),
)

# The combinations added in 0.2.0.
KERNEL_SHAPES = (
    # kernel, directions, shapes as above
    (
        "laplace",
        "iid",
        ((1, 20, 101, 1.0), (3, 8, 102, 0.4), (20, 20, 103, 6.5), (70, 6, 104, 20.0)),
    ),
    (
        "cauchy",
        "iid",
        ((1, 20, 111, 1.0), (3, 8, 112, 0.4), (20, 20, 113, 6.5), (70, 6, 114, 20.0)),
    ),
    ("matern-1/2", "iid", ((1, 20, 121, 1.0), (3, 8, 122, 0.4), (20, 16, 2**53 - 1, 3.3))),
    ("matern-3/2", "iid", ((1, 20, 131, 1.0), (3, 8, 132, 0.4), (20, 16, 133, 3.3))),
    ("matern-5/2", "iid", ((1, 20, 141, 1.0), (3, 8, 142, 0.4), (20, 16, 143, 3.3))),
    ("mixture", "iid", ((1, 20, 151, 1.0), (3, 40, 152, 0.4), (20, 16, 153, 3.3))),
    ("matern-1/2", "orthogonal", ((1, 8, 221, 1.0), (5, 22, 222, 0.9), (20, 46, 223, 5.1))),
    ("matern-3/2", "orthogonal", ((1, 8, 231, 1.0), (5, 22, 232, 0.9), (20, 46, 233, 5.1))),
    ("matern-5/2", "orthogonal", ((1, 8, 241, 1.0), (5, 22, 242, 0.9), (20, 46, 243, 5.1))),
    ("mixture", "orthogonal", ((1, 8, 251, 1.0), (5, 22, 252, 0.9), (20, 46, 253, 5.1))),
    # Blocks of 64 and, for 70, of 128 directions.
    (
        "gaussian",
        "hadamard",
        ((1, 300, 301, 1.0), (3, 140, 302, 0.7), (20, 140, 2**53 - 1, 4.0), (70, 270, 304, 8.0)),
    ),
    ("matern-1/2", "hadamard", ((3, 140, 321, 0.7), (70, 6, 322, 8.0))),
    ("matern-3/2", "hadamard", ((5, 140, 331, 0.7), (70, 6, 332, 8.0))),
    ("matern-5/2", "hadamard", ((1, 140, 341, 0.7), (20, 20, 342, 8.0))),
    ("mixture", "hadamard", ((5, 140, 351, 0.7), (64, 6, 352, 5.0), (70, 262, 353, 8.0))),
    (
        "gaussian",
        "halton",
        ((1, 200, 401, 1.0), (3, 8, 402, 0.7), (3, 60, 402, 0.7), (20, 60, 403, 4.0)),
    ),
    ("gaussian", "halton", ((70, 40, 2**53 - 1, 8.0),)),
    ("mixture", "halton", ((1, 20, 451, 1.0), (5, 10, 452, 0.7), (5, 60, 452, 0.7))),
)

# Seeds and length scales chosen as for DIRECTION_SHAPES, for the rules of these kernels.
CLOSE_KERNEL_SHAPES = (
    ("laplace", "iid", ((3, 6, 700, 1.1899999589125125),)),
    ("cauchy", "iid", ((3, 6, 701, 1.4749999891802872),)),
    ("matern-1/2", "iid", ((3, 6, 702, 0.9054999603690603),)),
    ("matern-3/2", "iid", ((3, 6, 703, 1.252000011790238), (3, 6, 722, 1.7519999609479182))),
    ("matern-5/2", "iid", ((3, 6, 704, 1.562000018109793), (3, 6, 716, 0.7934000146795193))),
    ("mixture", "iid", ((3, 6, 705, 1.3779999968895265),)),
    (
        "gaussian",
        "hadamard",
        (
            (70, 6, 305, 5.045000216002362),
            (70, 6, 305, 7.1200001736018335),
            (70, 6, 718, 7.949999540497742),
        ),
    ),
    ("gaussian", "halton", ((3, 6, 707, 0.9450000078778573),)),
)
CLOSE_MIXTURE = [0.3, 1.7], [1.0, 2.0]


def mixture_fields(kernel, number):
    """Arguments of make_spec: components for a mixture, chosen by number, and none otherwise."""
    if kernel != "mixture":
        return {}
    scales, weights = CLOSE_MIXTURE if number == 705 else MIXTURES[number % len(MIXTURES)]
    return {"scales": scales, "weights": weights}


def direction_specs():
    families = (("iid", DIRECTION_SHAPES), ("orthogonal", DIRECTION_SHAPES + PANEL_SHAPES))
    for family, shapes in families:
        for shape in shapes:
            yield ref.make_spec(*shape, family)
    for kernel, family, shapes in KERNEL_SHAPES + CLOSE_KERNEL_SHAPES:
        for shape in shapes:
            mixture = mixture_fields(kernel, shape[2])
            yield ref.make_spec(*shape, family, kernel=kernel, **mixture)


def directions_document():
    cases = []
    for spec in direction_specs():
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


# The combinations added in 0.2.0 omit the last scale of `none`: the transforms of `hadamard` and
# the tails of some kernels could overflow.
LARGE_SCALES = {
    "none": (3e4, 2e9, 1e20, 3e35),
    "unit": (3e37,),
    "standardize": (3e4, 2e9, 1e20),
}


def large_rows(spec):
    """Rows of large values: projections beyond the short reduction, except for `unit`."""
    scales = LARGE_SCALES[spec["normalize"]]
    if spec["kernel"] != "gaussian" or spec["directions"] in ("hadamard", "halton"):
        scales = scales[:3]
    return [random_row(spec["input_dim"], 10 + k, scale) for k, scale in enumerate(scales)]


CLOSE_HADAMARD_SEED = 846


def close_rows(spec):
    """Rows with a normalized element so close to the midpoint of two singles that a change of the
    order of operations in step 1 changes a bit of phi. For `hadamard` the length scale is chosen
    accordingly, for the c_j, and the rows are arbitrary."""
    if spec["input_dim"] == 2 and spec["normalize"] == "unit":
        return [[4853.0, 2758.0]]
    if spec["seed"] == CLOSE_HADAMARD_SEED:
        return [random_row(spec["input_dim"], j) for j in range(4)]
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


# kernel, directions, then input_dim, output_dim, seed, length_scale and normalize.
KERNEL_PHI_SHAPES = (
    ("laplace", "iid", (3, 12, 501, 1.0, "none")),
    ("laplace", "iid", (20, 8, 502, 0.9, "unit")),
    ("cauchy", "iid", (5, 12, 511, 1.0, "none")),
    ("cauchy", "iid", (3, 8, 512, 0.9, "standardize")),
    ("matern-1/2", "iid", (5, 12, 521, 1.0, "none")),
    ("matern-3/2", "iid", (5, 12, 522, 1.0, "unit")),
    ("matern-5/2", "iid", (5, 12, 523, 1.0, "standardize")),
    ("mixture", "iid", (3, 24, 524, 1.0, "none")),
    ("matern-1/2", "orthogonal", (5, 12, 531, 0.8, "standardize")),
    ("matern-3/2", "orthogonal", (5, 12, 532, 0.8, "none")),
    ("matern-5/2", "orthogonal", (20, 12, 533, 0.8, "unit")),
    ("mixture", "orthogonal", (3, 16, 534, 0.8, "unit")),
    # Blocks of 64 and, for 70, of 128 directions.
    ("gaussian", "hadamard", (1, 2, 541, 1.0, "none")),
    ("gaussian", "hadamard", (1, 140, 542, 1.0, "none")),
    ("gaussian", "hadamard", (3, 132, 543, 0.5, "unit")),
    ("gaussian", "hadamard", (20, 140, 544, 5.0, "standardize")),
    ("gaussian", "hadamard", (64, 14, 545, 5.0, "none")),
    ("gaussian", "hadamard", (70, 270, 546, 9.0, "none")),
    ("matern-1/2", "hadamard", (5, 20, 551, 0.8, "none")),
    ("matern-1/2", "hadamard", (5, 20, 552, 0.8, "standardize")),
    ("matern-3/2", "hadamard", (70, 20, 553, 0.8, "unit")),
    ("matern-5/2", "hadamard", (20, 20, 554, 3.0, "standardize")),
    ("mixture", "hadamard", (5, 134, 555, 0.8, "unit")),
    ("mixture", "hadamard", (70, 262, 556, 8.0, "unit")),
    ("gaussian", "halton", (1, 20, 561, 1.0, "none")),
    ("gaussian", "halton", (5, 40, 562, 0.5, "unit")),
    ("gaussian", "halton", (70, 20, 563, 8.0, "standardize")),
    ("mixture", "halton", (3, 40, 571, 0.8, "none")),
    ("mixture", "halton", (20, 20, 572, 0.8, "unit")),
    ("mixture", "halton", (5, 20, 573, 0.8, "standardize")),
    ("gaussian", "hadamard", (70, 6, CLOSE_HADAMARD_SEED, 7.424999935903541, "none")),
)


def kernel_phi_specs():
    for kernel, family, (input_dim, output_dim, seed, length_scale, normalize) in KERNEL_PHI_SHAPES:
        fields = mixture_fields(kernel, seed)
        if normalize == "standardize":
            fields["means"] = [0.25 * k - 0.3 for k in range(input_dim)]
            fields["deviations"] = [0.5 + 0.1 * k for k in range(input_dim)]
        yield ref.make_spec(
            input_dim, output_dim, seed, length_scale, family, normalize, kernel=kernel, **fields
        )


def phi_document():
    cases = []
    largest = 0.0
    for spec in (*phi_specs(), *kernel_phi_specs()):
        u = ref.directions(spec)
        rows = close_rows(spec) or special_rows(spec["input_dim"]) + large_rows(spec)
        for row in rows:
            y = ref.normalize_row(spec, row)
            largest = max(largest, *map(abs, ref.projections(spec, y, u)))
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
    """The `count` singles up to 2^13 that are relatively closest to multiples of pi/2."""
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
    # Around multiples of pi/4: zeros, extrema and the boundaries of the quadrants.
    for n in (1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 100, 1001, 4096, 7777, 10429, 10430):
        a = ref.f32(n * (ref.HALF_PI / 2.0))
        arguments += [next_f32(a, -1), a, next_f32(a)]
    arguments += closest_to_quadrants(10)
    # The boundary between the two reductions and powers of two up to the largest single.
    for e in (0, 3, 8, 12, 13, 14, 20, 23, 24, 31, 32, 48, 60, 64, 96, 110, 126, 127):
        arguments += [next_f32(2.0**e, -1), 2.0**e, next_f32(2.0**e)]
    # The two singles beyond 2^13 that are closest to a multiple of pi/2.
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
    """JSON with every list or object of scalars on one line."""
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
        "quantile.json": quantile_document(),
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
