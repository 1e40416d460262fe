"""Reference implementation of the feature spec, format 1.

This module follows docs/format-spec.md line by line and uses only the Python standard library. It
is meant to be read next to that page and to produce the values in tests/golden/; it is exact, not
fast. Singles (f32) are held in Python floats whose value is exactly a single. No
logarithm, sine or cosine of the `math` module is used: the only library function that rounds is
`math.sqrt`, which IEEE 754 defines to the last bit. The only exception is `kernel`, the value that
phi approximates, which the page does not define to the bit.
"""

import functools
import hashlib
import json
import math
import struct

MASK32 = 0xFFFFFFFF


# Bit patterns and rounding


def f64_from_bits(bits):
    """The double with this bit pattern."""
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def f64_bits(x):
    """Bit pattern of a double."""
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def f32_from_bits(bits):
    """The single with this bit pattern."""
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def f32_bits(x):
    """Bit pattern of the single nearest to x."""
    return struct.unpack("<I", struct.pack("<f", f32(x)))[0]


def f32(x):
    """The single nearest to the double x, ties to even; overflow gives an infinity."""
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def fma(a, b, c):
    """a * b + c of three singles, rounded once to a single.

    The product of two singles is exact in double. The sum is rounded to odd in double (TwoSum finds
    the lost part), which leaves the second rounding, to single, correct.
    """
    product = a * b
    total = product + c
    if math.isfinite(total):
        back = total - product
        lost = (product - (total - back)) + (c - back)
        if lost != 0.0 and f64_bits(total) & 1 == 0:
            total = math.nextafter(total, math.copysign(math.inf, lost))
    return f32(total)


# Randomness


def stream_key(seed, name):
    """The two key words of a named stream."""
    digest = hashlib.sha256(f"veridical-stream/1\n{seed}\n{name}".encode()).digest()
    return struct.unpack("<II", digest[:8])


def philox4x32_10(counter, key):
    """Four random words from a counter of four words and a key of two."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        product0 = 0xD2511F53 * c0
        product1 = 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (
            (product1 >> 32) ^ c1 ^ k0,
            product1 & MASK32,
            (product0 >> 32) ^ c3 ^ k1,
            product0 & MASK32,
        )
        k0 = (k0 + 0x9E3779B9) & MASK32
        k1 = (k1 + 0xBB67AE85) & MASK32
    return c0, c1, c2, c3


def words_to_integer(a, b):
    """The 53-bit integer of two words."""
    return (a >> 5) * 2**26 + (b >> 6)


def words_to_uniform(a, b):
    """The uniform of two words, 0 <= u < 1."""
    return words_to_integer(a, b) * 2.0**-53


def block_counter(i, j):
    """The counter of block i of vector j."""
    return i, j & MASK32, j >> 32, 0


def uniform_integers(key, count, j):
    """The 53-bit integers of uniforms 0 .. count - 1 of vector j, two per block."""
    integers = []
    for block in range((count + 1) // 2):
        w0, w1, w2, w3 = philox4x32_10(block_counter(block, j), key)
        integers += [words_to_integer(w0, w1), words_to_integer(w2, w3)]
    return integers[:count]


def normal_pair(key, counter):
    """The two normals of one block."""
    w0, w1, w2, w3 = philox4x32_10(counter, key)
    u1 = (words_to_integer(w0, w1) + 1) * 2.0**-53
    u2 = words_to_uniform(w2, w3)
    r = math.sqrt(-2.0 * ln(u1))
    cosine, sine = cos_sin_2pi(u2)
    return r * cosine, r * sine


def normal(key, i, j):
    """Element i of Gaussian vector j of the stream with this key."""
    return normal_pair(key, block_counter(i // 2, j))[i % 2]


L1 = f64_from_bits(0x3FE5555555555593)
L2 = f64_from_bits(0x3FD999999997FA04)
L3 = f64_from_bits(0x3FD2492494229359)
L4 = f64_from_bits(0x3FCC71C51D8E78AF)
L5 = f64_from_bits(0x3FC7466496CB03DE)
L6 = f64_from_bits(0x3FC39A09D078C69F)
L7 = f64_from_bits(0x3FC2F112DF3E5244)
LN2_HI = f64_from_bits(0x3FE62E42FEE00000)
LN2_LO = f64_from_bits(0x3DEA39EF35793C76)


def ln(x):
    """Natural logarithm of a normal double x > 0."""
    half_z, exponent = math.frexp(x)  # exact: x = half_z * 2^exponent, 1/2 <= half_z < 1
    z, e = 2.0 * half_z, exponent - 1
    if z > 1.4142135623730951:
        z, e = z / 2.0, e + 1
    e = float(e)
    f = z - 1.0
    hfsq = (0.5 * f) * f
    s = f / (2.0 + f)
    zz = s * s
    w = zz * zz
    t1 = w * (L2 + w * (L4 + w * L6))
    t2 = zz * (L1 + w * (L3 + w * (L5 + w * L7)))
    R = t2 + t1
    return (((s * (hfsq + R) + e * LN2_LO) - hfsq) + f) + e * LN2_HI


HALF_PI = f64_from_bits(0x3FF921FB54442D18)
S1 = f64_from_bits(0xBFC5555555555549)
S2 = f64_from_bits(0x3F8111111110F8A6)
S3 = f64_from_bits(0xBF2A01A019C161D5)
S4 = f64_from_bits(0x3EC71DE357B1FE7D)
S5 = f64_from_bits(0xBE5AE5E68A2B9CEB)
S6 = f64_from_bits(0x3DE5D93A5ACFD57C)
C1 = f64_from_bits(0x3FA555555555554C)
C2 = f64_from_bits(0xBF56C16C16C15177)
C3 = f64_from_bits(0x3EFA01A019CB1590)
C4 = f64_from_bits(0xBE927E4F809C52AD)
C5 = f64_from_bits(0x3E21EE9EBDB4B1C4)
C6 = f64_from_bits(0xBDA8FAE9BE8838D4)


def cos_sin_2pi(u):
    """(cos(2 pi u), sin(2 pi u)) in double for 0 <= u < 1."""
    t = 4.0 * u
    q = math.floor(t + 0.5)
    x = (t - q) * HALF_PI
    z = x * x
    w = z * z
    S = x + (z * x) * (S1 + z * ((S2 + z * (S3 + z * S4)) + (z * w) * (S5 + z * S6)))
    r = z * (C1 + z * (C2 + z * C3)) + (w * w) * (C4 + z * (C5 + z * C6))
    hz = 0.5 * z
    v = 1.0 - hz
    C = v + (((1.0 - v) - hz) + z * r)
    return ((C, S), (-S, C), (-C, -S), (S, -C))[q % 4]


QUANTILE_TABLE = """
    400B18D91E9EEF75 4060A4888B1A436E 409ECE5D2213C0CC 40CAD1D8CD4EE71D
    40E66C3E869B752A 40F06C1C55B78F20 40E052D26B2E45E4 40A39A296F7D925E
    3FF0000000000000 4045281B386E1AB5 4085797EFDC8B3F7 40B512322E75C89F
    40D4B772D5D65266 40E3317CAA64F4BE 40DC0E457CB1AE76 40B46A7ECA984B69
    3FF6C665FDE9526A 4012857748CAB19B 401713F71462256A 400D2ECB1A3D02C4
    3FF453CC085375B2 3FCEF2ABB9B85C37 3F9744EB6C45EC67 3F49615AC0B7ACE9
    3FF0000000000000 40006CEFBB46A449 3FFAD278E6526633 3FE61292F23385C9
    3FC2F5123394F040 3F8F207A7EAB17BF 3F41F18CBFDF2728 3E120D3F686439E4
    401AA1B1C13EE526 4015DAEA6E875003 3FFC8EA6461FA445 3FD2FAD9315255CF
    3F9B2B41193B4EE7 3F545C1908425345 3EFC6EC6CC59E02A 3E8AFB74D693BF93
    3FF0000000000000 3FE331D34FC7D77F 3FC186EB183443FB 3F8E76F93215462A
    3F49C8BC979DC5D7 3EF35C2C496374BF 3E831446F740B9E0 3CE269BFF1F8C190
"""
QUANTILE_A, QUANTILE_B, QUANTILE_C, QUANTILE_D, QUANTILE_E, QUANTILE_F = (
    tuple(f64_from_bits(int(bits, 16)) for bits in QUANTILE_TABLE.split()[first : first + 8])
    for first in range(0, 48, 8)
)


def horner(coefficients, r):
    """The polynomial with these coefficients, constant term first."""
    result = coefficients[-1]
    for a in reversed(coefficients[:-1]):
        result = result * r + a
    return result


def quantile(v):
    """Inverse of the normal distribution function, 0 < v < 1 (AS 241, PPND16)."""
    q = v - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        return q * horner(QUANTILE_A, r) / horner(QUANTILE_B, r)
    r = v if q < 0.0 else 1.0 - v
    r = math.sqrt(-ln(r))
    if r <= 5.0:
        r = r - 1.6
        x = horner(QUANTILE_C, r) / horner(QUANTILE_D, r)
    else:
        r = r - 5.0
        x = horner(QUANTILE_E, r) / horner(QUANTILE_F, r)
    return -x if q < 0.0 else x


# The document

MIXTURE_FIELDS = ("scales", "weights")
STANDARDIZE_FIELDS = ("means", "deviations")
FIELDS = (
    "format",
    "input_dim",
    "output_dim",
    "seed",
    "kernel",
    "length_scale",
    *MIXTURE_FIELDS,
    "directions",
    "normalize",
    *STANDARDIZE_FIELDS,
)
ID_FIELDS = ("spec_id", "directions_id")
MAX_INPUT_DIM = 1_048_576
MAX_OUTPUT_DIM = 16_777_216
MAX_ELEMENTS = 2**31
MAX_COMPONENTS = 64

# Kernel -> the directions it can be used with.
KERNELS = {
    "gaussian": ("iid", "orthogonal", "hadamard", "halton"),
    "matern-1/2": ("iid", "orthogonal", "hadamard"),
    "matern-3/2": ("iid", "orthogonal", "hadamard"),
    "matern-5/2": ("iid", "orthogonal", "hadamard"),
    "mixture": ("iid", "orthogonal", "hadamard", "halton"),
    "laplace": ("iid",),
    "cauchy": ("iid",),
}
DIRECTIONS = ("iid", "orthogonal", "hadamard", "halton")


class SpecError(ValueError):
    """The document is not a valid feature spec."""


def _digest(spec, fields):
    lines = ["veridical-spec/1"]
    for field in fields:
        value = spec[field]
        if field in MIXTURE_FIELDS + STANDARDIZE_FIELDS:
            text = ",".join(f"{f64_bits(float(x)):016x}" for x in value)
        elif field == "length_scale":
            text = f"{f64_bits(float(value)):016x}"
        else:
            text = str(value)
        lines.append(f"{field}={text}")
    return hashlib.sha256("".join(line + "\n" for line in lines).encode()).hexdigest()


def _present_fields(spec):
    """The fields of a document with this kernel and this normalize, without the ids, in order."""
    absent = () if spec.get("kernel") == "mixture" else MIXTURE_FIELDS
    absent += () if spec.get("normalize") == "standardize" else STANDARDIZE_FIELDS
    return [field for field in FIELDS if field not in absent]


def spec_id(spec):
    """The id that identifies one map exactly."""
    return _digest(spec, _present_fields(spec))


def directions_id(spec):
    """The id shared by all specs that differ only in output_dim."""
    return _digest(spec, [field for field in _present_fields(spec) if field != "output_dim"])


def _require(condition, message):
    if not condition:
        raise SpecError(message)


def _is_integer(value, low, high):
    return type(value) is int and low <= value <= high


def _is_number(value):
    if type(value) not in (int, float):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _is_numbers(value, count):
    return isinstance(value, list) and len(value) == count and all(map(_is_number, value))


def validate(spec):
    """Raise SpecError unless spec (a dict) is a complete and consistent document."""
    _require(isinstance(spec, dict), "a spec is a JSON object")
    expected = {*_present_fields(spec), *ID_FIELDS}
    missing, unknown = expected - set(spec), set(spec) - expected
    _require(not missing, f"missing fields: {sorted(missing)}")
    _require(not unknown, f"unknown fields: {sorted(unknown)}")
    _require(_is_integer(spec["format"], 1, 1), "format must be 1")
    _require(_is_integer(spec["input_dim"], 1, MAX_INPUT_DIM), "input_dim is out of range")
    _require(_is_integer(spec["output_dim"], 2, MAX_OUTPUT_DIM), "output_dim is out of range")
    _require(spec["output_dim"] % 2 == 0, "output_dim must be even")
    d, m = spec["input_dim"], spec["output_dim"] // 2
    _require(m * d <= MAX_ELEMENTS, "the directions are too large")
    _require(_is_integer(spec["seed"], 0, 2**53 - 1), "seed is out of range")
    _require(spec["kernel"] in tuple(KERNELS), "unknown kernel")
    _require(_is_number(spec["length_scale"]), "length_scale must be a finite number")
    _require(float(spec["length_scale"]) > 0.0, "length_scale must be positive")
    if spec["kernel"] == "mixture":
        _require(isinstance(spec["scales"], list), "scales must be a list")
        components = len(spec["scales"])
        _require(1 <= components <= MAX_COMPONENTS, "a mixture has 1 to 64 components")
        for field in MIXTURE_FIELDS:
            _require(
                _is_numbers(spec[field], components), f"{field} must be as many finite numbers"
            )
            _require(all(float(x) > 0.0 for x in spec[field]), f"{field} must be positive")
        total = sum(float(w) for w in spec["weights"])
        _require(math.isfinite(total), "the sum of the weights must be finite")
        for s in spec["scales"]:
            scaled = float(spec["length_scale"]) * float(s)
            _require(0.0 < scaled < math.inf, "length_scale times a scale is out of range")
    _require(spec["directions"] in DIRECTIONS, "unknown directions")
    _require(
        spec["directions"] in KERNELS[spec["kernel"]],
        f"{spec['kernel']} cannot be used with {spec['directions']} directions",
    )
    _require(spec["normalize"] in ("none", "unit", "standardize"), "unknown normalize")
    if spec["normalize"] == "standardize":
        for field in STANDARDIZE_FIELDS:
            _require(_is_numbers(spec[field], d), f"{field} must be input_dim finite numbers")
        _require(all(float(x) > 0.0 for x in spec["deviations"]), "deviations must be positive")
    _require(spec["spec_id"] == spec_id(spec), "spec_id does not match")
    _require(spec["directions_id"] == directions_id(spec), "directions_id does not match")


def _unique_fields(pairs):
    result = dict(pairs)
    _require(len(result) == len(pairs), "a field occurs twice")
    return result


def _refuse_constant(text):
    raise SpecError(f"{text} is not JSON")


def parse_spec(text):
    """Parse and validate a spec document; raises SpecError if it is not one."""
    try:
        spec = json.loads(text, object_pairs_hook=_unique_fields, parse_constant=_refuse_constant)
    except SpecError:
        raise
    except ValueError as error:
        raise SpecError(f"not JSON: {error}") from error
    validate(spec)
    return spec


def make_spec(
    input_dim,
    output_dim,
    seed,
    length_scale=1.0,
    directions="orthogonal",
    normalize="none",
    means=None,
    deviations=None,
    kernel="gaussian",
    scales=None,
    weights=None,
):
    """A complete, validated spec with its ids."""
    given = {
        "format": 1,
        "input_dim": input_dim,
        "output_dim": output_dim,
        "seed": seed,
        "kernel": kernel,
        "length_scale": length_scale,
        "scales": scales,
        "weights": weights,
        "directions": directions,
        "normalize": normalize,
        "means": means,
        "deviations": deviations,
    }
    optional = MIXTURE_FIELDS + STANDARDIZE_FIELDS
    spec = {f: value for f, value in given.items() if value is not None or f not in optional}
    missing = set(_present_fields(spec)) - set(spec)
    _require(not missing, f"missing fields: {sorted(missing)}")
    spec["spec_id"] = spec_id(spec)
    spec["directions_id"] = directions_id(spec)
    validate(spec)
    return spec


# Kernels


def matern_order(kernel):
    """n of the kernel `matern-n/2`, None for other kernels."""
    return int(kernel[len("matern-") : -len("/2")]) if kernel.startswith("matern-") else None


def kernel(spec, x, y):
    """k(x, y) of two normalized rows: the value that the inner product of their phi approximates.

    Rounded as the library functions round; nothing else in this module depends on it.
    """
    length_scale = float(spec["length_scale"])
    name = spec["kernel"]
    differences = [(x_k - y_k) / length_scale for x_k, y_k in zip(x, y, strict=True)]
    if name == "laplace":
        return math.exp(-sum(map(abs, differences)))
    if name == "cauchy":
        return math.prod(1.0 / (1.0 + t * t) for t in differences)
    delta = math.hypot(*differences)
    if name == "gaussian":
        return math.exp(-delta * delta / 2.0)
    if name == "mixture":
        weights = [float(w) for w in spec["weights"]]
        terms = (
            w * math.exp(-((delta / float(s)) ** 2) / 2.0)
            for w, s in zip(weights, spec["scales"], strict=True)
        )
        return sum(terms) / sum(weights)
    n = matern_order(name)
    s = math.sqrt(n) * delta
    return {1: 1.0, 3: 1.0 + s, 5: 1.0 + s + s * s / 3.0}[n] * math.exp(-s)


# Directions


def dot(a, b):
    """Inner product of two vectors of doubles, with eight partial sums."""
    p = [0.0] * 8
    for k, (x, y) in enumerate(zip(a, b, strict=True)):
        p[k % 8] = p[k % 8] + x * y
    return ((p[0] + p[1]) + (p[2] + p[3])) + ((p[4] + p[5]) + (p[6] + p[7]))


def gaussian(key, d, j):
    """The d doubles of Gaussian vector j."""
    g = []
    for block in range((d + 1) // 2):
        g.extend(normal_pair(key, block_counter(block, j)))
    return g[:d]


PANEL = 32


def project_out(v, qs):
    """v minus its projections on every q of a list; all coefficients come from the same v."""
    coefficients = [dot(q, v) for q in qs]
    for c, q in zip(coefficients, qs, strict=True):
        v = [v_k - c * q_k for v_k, q_k in zip(v, q, strict=True)]
    return v


def mixture_component(spec, j):
    """The component of a mixture that direction j belongs to."""
    weights = [float(w) for w in spec["weights"]]
    total = weights[0]
    for w in weights[1:]:
        total = total + w
    w0, w1, _, _ = philox4x32_10(block_counter(0, j), stream_key(spec["seed"], "mixture"))
    t = words_to_uniform(w0, w1) * total
    c, accumulated = 0, weights[0]
    while c < len(weights) - 1 and t >= accumulated:
        c = c + 1
        accumulated = accumulated + weights[c]
    return c


def direction_length_scale(spec, j):
    """The length scale l_j of direction j."""
    length_scale = float(spec["length_scale"])
    n = matern_order(spec["kernel"])
    if spec["kernel"] == "mixture":
        length_scale = length_scale * float(spec["scales"][mixture_component(spec, j)])
    elif n is not None:
        z = gaussian(stream_key(spec["seed"], "matern"), n, j)
        x = z[0] * z[0]
        for z_i in z[1:]:
            x = x + z_i * z_i
        length_scale = length_scale * math.sqrt(x / float(n))
    _require(length_scale > 0.0, "the length scale makes a direction infinite")
    return length_scale


def laplace_direction(key, d, j, length_scale):
    """Direction j of the kernel `laplace`: elements with a Cauchy distribution."""
    u = []
    for k in uniform_integers(key, d, j):
        cosine, sine = cos_sin_2pi((2 * (k >> 1) + 1) * 2.0**-54)
        u.append(f32((sine / cosine) / length_scale))
    return u


def cauchy_direction(key, d, j, length_scale):
    """Direction j of the kernel `cauchy`: elements with a Laplace distribution."""
    u = []
    for k in uniform_integers(key, d, j):
        e = -ln(((k >> 1) + 1) * 2.0**-52)
        u.append(f32(e / length_scale) if k % 2 == 0 else f32(-e / length_scale))
    return u


def iid_directions(spec):
    """The rows of U of the family `iid`."""
    d, m = spec["input_dim"], spec["output_dim"] // 2
    key = stream_key(spec["seed"], "directions")
    for j in range(m):
        length_scale = direction_length_scale(spec, j)
        if spec["kernel"] == "laplace":
            yield laplace_direction(key, d, j, length_scale)
        elif spec["kernel"] == "cauchy":
            yield cauchy_direction(key, d, j, length_scale)
        else:
            yield [f32(x / length_scale) for x in gaussian(key, d, j)]


def orthogonal_directions(spec):
    """The rows of U of the family `orthogonal`."""
    d, m = spec["input_dim"], spec["output_dim"] // 2
    key = stream_key(spec["seed"], "directions")
    earlier, panel = [], []  # the q of the earlier panels of the block and of the current panel
    for j in range(m):
        g = gaussian(key, d, j)
        if j % d == 0:
            earlier, panel = [], []
        elif len(panel) == PANEL:
            earlier, panel = earlier + panel, []
        v = g
        r = math.sqrt(dot(g, g))
        for _ in range(2):
            v = project_out(v, earlier)
        for _ in range(2):
            v = project_out(v, panel)
        n = math.sqrt(dot(v, v))
        unit = [v_k / n for v_k in v]
        panel.append(unit)
        length_scale = direction_length_scale(spec, j)
        yield [f32((r * q_k) / length_scale) for q_k in unit]


def hadamard_size(d):
    """The number p of rows of a block."""
    p = 64
    while p < d:
        p = 2 * p
    return p


@functools.cache
def hadamard_signs(seed, p, b):
    """The three diagonals of block b, each p signs."""
    key = stream_key(seed, "signs")
    diagonals = []
    for t in (1, 2, 3):
        words = []
        for block in range((p + 127) // 128):
            words += philox4x32_10((block, b & MASK32, b >> 32, t), key)
        diagonals.append([-1 if words[k // 32] >> (k % 32) & 1 else 1 for k in range(p)])
    return diagonals


@functools.cache
def hadamard_radius(seed, p, j):
    """The length r_j of direction j, before the length scale."""
    x = [(k + 1) * 2.0**-53 for k in uniform_integers(stream_key(seed, "radial"), p // 2, j)]
    s = 0.0
    for first in range(0, p // 2, 16):
        product = x[first]
        for x_i in x[first + 1 : first + 16]:
            product = product * x_i
        s = s + ln(product)
    return math.sqrt(-2.0 * s)


def hadamard_factor(spec, j):
    """The double e_j of direction j."""
    p = hadamard_size(spec["input_dim"])
    size = float(p) * math.sqrt(float(p))
    return hadamard_radius(spec["seed"], p, j) / (size * direction_length_scale(spec, j))


def walsh_hadamard(v, rounded):
    """The Walsh-Hadamard transform of v, with the function `rounded` applied to every result."""
    v = list(v)
    h = 1
    while h < len(v):
        for k in range(len(v)):
            if k & h == 0:
                v[k], v[k + h] = rounded(v[k] + v[k + h]), rounded(v[k] - v[k + h])
        h = 2 * h
    return v


def hadamard_row(p, i, diagonals):
    """Row i of H S_3 H S_2 H S_1, as integers."""
    w = [-1 if (i & k).bit_count() % 2 else 1 for k in range(p)]  # row i of the first H
    # A row times H is the transform of the row, because H is symmetric.
    for t in (3, 2, 1):
        w = [w_k * sign for w_k, sign in zip(w, diagonals[t - 1], strict=True)]
        if t > 1:
            w = walsh_hadamard(w, int)
    return w


def hadamard_directions(spec):
    """The rows of U of the family `hadamard`: the explicit matrix, which phi does not use."""
    d, m = spec["input_dim"], spec["output_dim"] // 2
    p = hadamard_size(d)
    for j in range(m):
        e = hadamard_factor(spec, j)
        w = hadamard_row(p, j % p, hadamard_signs(spec["seed"], p, j // p))
        yield [f32(e * float(w_k)) for w_k in w[:d]]


def primes(count):
    """The first `count` primes."""
    found = []
    candidate = 2
    while len(found) < count:
        if all(candidate % b for b in found):
            found.append(candidate)
        candidate += 1
    return found


def halton_permutations(key, i, b):
    """(A_k, C_k) of every digit place k of coordinate i with the prime b."""
    places = 0
    while b ** (places + 1) <= 2**52:
        places += 1
    permutations = []
    for k in range(places):
        w0, w1, w2, w3 = philox4x32_10((0, i & MASK32, i >> 32, k), key)
        u0, u1 = words_to_uniform(w0, w1), words_to_uniform(w2, w3)
        permutations.append((1 + math.floor(u1 * float(b - 1)), math.floor(u0 * float(b))))
    return permutations


def halton_point(b, permutations, j):
    """Coordinate v of point j, 0 < v < 1."""
    places = len(permutations)
    N = 0
    rest = j
    for k, (A, C) in enumerate(permutations):
        rest, digit = divmod(rest, b)
        N += (A * digit + C) % b * b ** (places - 1 - k)
    return float(2 * N + 1) / float(2 * b**places)


def halton_directions(spec):
    """The rows of U of the family `halton`."""
    d, m = spec["input_dim"], spec["output_dim"] // 2
    key = stream_key(spec["seed"], "halton")
    coordinates = [(b, halton_permutations(key, i, b)) for i, b in enumerate(primes(d))]
    for j in range(m):
        length_scale = direction_length_scale(spec, j)
        g = [quantile(halton_point(b, permutations, j)) for b, permutations in coordinates]
        yield [f32(x / length_scale) for x in g]


def directions(spec):
    """The m rows of U, each d doubles that are exactly singles."""
    family = {
        "iid": iid_directions,
        "orthogonal": orthogonal_directions,
        "hadamard": hadamard_directions,
        "halton": halton_directions,
    }[spec["directions"]]
    rows = list(family(spec))
    finite = all(math.isfinite(x) for row in rows for x in row)
    _require(finite, "the length scale makes a direction infinite")
    return rows


# Sine and cosine in single precision


def arctan_inverse(n, bits):
    """atan(1 / n) * 2^bits, rounded down at each term of the series."""
    term = (1 << bits) // n
    total, k = term, 1
    while term:
        term //= n * n
        total += (-1) ** k * (term // (2 * k + 1))
        k += 1
    return total


TWO_OVER_PI_DIGITS = 256


def _two_over_pi():
    """floor(2/pi * 2^TWO_OVER_PI_DIGITS), from Machin's formula for pi with guard digits."""
    bits = TWO_OVER_PI_DIGITS + 64
    pi = 16 * arctan_inverse(5, bits) - 4 * arctan_inverse(239, bits)
    return (2 << (bits + TWO_OVER_PI_DIGITS)) // pi


TWO_OVER_PI = _two_over_pi()

T = f32_from_bits(0x3F22F983)
M = f32_from_bits(0x4B400000)
P1 = f32_from_bits(0x3FC90FDB)
P2 = f32_from_bits(0xB33BBD2E)
P3 = f32_from_bits(0xA6F72CED)
A1 = f32_from_bits(0xBE2AAAA3)
A2 = f32_from_bits(0x3C08839E)
A3 = f32_from_bits(0xB94CA1F9)
B1 = f32_from_bits(0x3D2AAAA5)
B2 = f32_from_bits(0xBAB6061A)
B3 = f32_from_bits(0x37CCF5CE)


def reduce_small(a):
    """(r, q) with a = r + q pi/2 up to whole turns, for |a| <= 2^13."""
    t = fma(a, T, M)
    q = f32_bits(t) & 3
    n = f32(t - M)
    return fma(-n, P3, fma(-n, P2, fma(-n, P1, a))), q


def reduce_large(a):
    """(r, q) for finite |a| > 2^13, from the exact digits of 2/pi."""
    bits = f32_bits(abs(a))
    integer = (bits & 0x7FFFFF) | 0x800000
    e = (bits >> 23) - 150
    # Digits 1 .. e + 94 of 2/pi, of which the last 96 are kept: b_(e-1) .. b_(e+94).
    window = (TWO_OVER_PI >> (TWO_OVER_PI_DIGITS - (e + 94))) & (2**96 - 1)
    F = (integer * window) % 2**96
    q = (F + 2**93) // 2**94
    G = F - q * 2**94
    r = f32(float(G) * 2.0**-94 * HALF_PI)
    if a < 0.0:
        r, q = -r, -q
    return r, q % 4


def sincos32(a):
    """(sin(a), cos(a)) of a single, as singles."""
    if not math.isfinite(a):
        return math.nan, math.nan
    r, q = reduce_small(a) if abs(a) <= 2.0**13 else reduce_large(a)
    z = f32(r * r)
    s = fma(fma(fma(A3, z, A2), z, A1), f32(z * r), r)
    c = fma(fma(fma(B3, z, B2), z, B1), f32(z * z), fma(-0.5, z, 1.0))
    if q % 2 == 1:
        s, c = c, s
    if q in (2, 3):
        s = -s
    if q in (1, 2):
        c = -c
    return s, c


# phi


def normalize_row(spec, x):
    """Step 1: the normalized row y of a row x of singles."""
    if spec["normalize"] == "unit":
        a = dot(x, x)
        if a == 0.0:
            return x
        factor = 1.0 / math.sqrt(a)
        return [f32(x_k * factor) for x_k in x]
    if spec["normalize"] == "standardize":
        return [
            f32((x_k - float(mean)) * (1.0 / float(deviation)))
            for x_k, mean, deviation in zip(x, spec["means"], spec["deviations"], strict=True)
        ]
    return x


def project(u, y):
    """Step 2: the inner product of a direction and a row, in singles."""
    a = 0.0
    for u_k, y_k in zip(u, y, strict=True):
        a = fma(u_k, y_k, a)
    return a


def project_hadamard(spec, y):
    """Step 2 for `hadamard`: the projections on all directions."""
    m, p = spec["output_dim"] // 2, hadamard_size(spec["input_dim"])
    result = []
    for b in range((m + p - 1) // p):
        v = list(y) + [0.0] * (p - len(y))
        for signs in hadamard_signs(spec["seed"], p, b):
            v = [v_k * float(sign) for v_k, sign in zip(v, signs, strict=True)]
            v = walsh_hadamard(v, f32)
        for j in range(b * p, min((b + 1) * p, m)):
            c = f32(hadamard_factor(spec, j))
            _require(math.isfinite(c), "the length scale makes a direction infinite")
            result.append(f32(c * v[j - b * p]))
    return result


def projections(spec, y, rows=None):
    """Step 2: the m projections of a normalized row."""
    if spec["directions"] == "hadamard":
        return project_hadamard(spec, y)
    return [project(u, y) for u in (directions(spec) if rows is None else rows)]


def phi(spec, row, rows=None):
    """The D features of a row, as singles.

    Pass directions(spec) as `rows` to save time; `hadamard` ignores it.
    """
    if len(row) != spec["input_dim"]:
        raise ValueError("the row does not have input_dim elements")
    y = normalize_row(spec, [f32(x) for x in row])
    c = f32(1.0 / math.sqrt(float(spec["output_dim"] // 2)))
    features = []
    for a in projections(spec, y, rows):
        if not math.isfinite(a):
            raise ValueError("the row is not finite or its projection overflows")
        sine, cosine = sincos32(a)
        features.append(f32(c * cosine))
        features.append(f32(c * sine))
    return features
