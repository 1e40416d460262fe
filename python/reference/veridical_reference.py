"""Reference implementation of the feature spec, format 1.

This module follows docs/format-spec.md line by line and uses nothing but the Python standard
library. It is meant to be read next to that page and to produce the values in tests/golden/; it is
exact, not fast. Singles (f32) are held in Python floats whose value is exactly a single. No
logarithm, sine or cosine of the `math` module is used: the only library function that rounds is
`math.sqrt`, which IEEE 754 defines to the last bit.
"""

import hashlib
import json
import math
import struct

MASK32 = 0xFFFFFFFF


# Bit patterns and rounding


def f64_from_bits(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def f64_bits(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def f32_from_bits(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def f32_bits(x):
    """Bit pattern of the single nearest to x."""
    return struct.unpack("<I", struct.pack("<f", f32(x)))[0]


def f32(x):
    """The single nearest to the double x, ties to even; too large gives an infinity."""
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
    return normal_pair(key, (i // 2, j & MASK32, j >> 32, 0))[i % 2]


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


# The document

FIELDS = (
    "format",
    "input_dim",
    "output_dim",
    "seed",
    "kernel",
    "length_scale",
    "directions",
    "normalize",
)
STANDARDIZE_FIELDS = ("means", "deviations")
ID_FIELDS = ("spec_id", "directions_id")
MAX_INPUT_DIM = 1_048_576
MAX_OUTPUT_DIM = 16_777_216
MAX_ELEMENTS = 2**31


class SpecError(ValueError):
    """The document is not a valid feature spec."""


def _digest(spec, fields):
    lines = ["veridical-spec/1"]
    for field in fields:
        value = spec[field]
        if field in STANDARDIZE_FIELDS:
            text = ",".join(f"{f64_bits(float(x)):016x}" for x in value)
        elif field == "length_scale":
            text = f"{f64_bits(float(value)):016x}"
        else:
            text = str(value)
        lines.append(f"{field}={text}")
    return hashlib.sha256("".join(line + "\n" for line in lines).encode()).hexdigest()


def _present_fields(spec):
    return FIELDS + (STANDARDIZE_FIELDS if spec["normalize"] == "standardize" else ())


def spec_id(spec):
    return _digest(spec, _present_fields(spec))


def directions_id(spec):
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
    expected = set(FIELDS + ID_FIELDS)
    if spec.get("normalize") == "standardize":
        expected |= set(STANDARDIZE_FIELDS)
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
    _require(spec["kernel"] == "gaussian", "unknown kernel")
    _require(_is_number(spec["length_scale"]), "length_scale must be a finite number")
    _require(float(spec["length_scale"]) > 0.0, "length_scale must be positive")
    _require(spec["directions"] in ("iid", "orthogonal"), "unknown directions")
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
    """Read a spec document; SpecError if it is not one."""
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
):
    """A complete, validated spec with its ids."""
    spec = {
        "format": 1,
        "input_dim": input_dim,
        "output_dim": output_dim,
        "seed": seed,
        "kernel": "gaussian",
        "length_scale": length_scale,
        "directions": directions,
        "normalize": normalize,
    }
    if means is not None:
        spec["means"] = means
    if deviations is not None:
        spec["deviations"] = deviations
    spec["spec_id"] = spec_id(spec)
    spec["directions_id"] = directions_id(spec)
    validate(spec)
    return spec


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
        g.extend(normal_pair(key, (block, j & MASK32, j >> 32, 0)))
    return g[:d]


PANEL = 32


def project_out(v, qs):
    """v after it is projected on every q of a list."""
    coefficients = [dot(q, v) for q in qs]
    for c, q in zip(coefficients, qs, strict=True):
        v = [v_k - c * q_k for v_k, q_k in zip(v, q, strict=True)]
    return v


def directions(spec):
    """The m rows of U, each d doubles that are exactly singles."""
    d, m = spec["input_dim"], spec["output_dim"] // 2
    length_scale = float(spec["length_scale"])
    key = stream_key(spec["seed"], "directions")
    rows = []
    earlier, panel = [], []  # the q of the earlier panels of the block and of the current panel
    for j in range(m):
        g = gaussian(key, d, j)
        if spec["directions"] == "iid":
            rows.append([f32(x / length_scale) for x in g])
            continue
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
        rows.append([f32((r * q_k) / length_scale) for q_k in unit])
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


def phi(spec, row, rows=None):
    """The D features of a row, as singles; rows may hold directions(spec), to save time."""
    if len(row) != spec["input_dim"]:
        raise ValueError("the row does not have input_dim elements")
    y = normalize_row(spec, [f32(x) for x in row])
    c = f32(1.0 / math.sqrt(float(spec["output_dim"] // 2)))
    features = []
    for u in directions(spec) if rows is None else rows:
        sine, cosine = sincos32(project(u, y))
        features.append(f32(c * cosine))
        features.append(f32(c * sine))
    return features
