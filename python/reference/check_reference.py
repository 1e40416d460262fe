"""Checks of the reference implementation and of the golden files.

Run as `python3 python/reference/check_reference.py`; exits with a non-zero status on failure.
"""

import copy
import hashlib
import json
import math
import random
import unittest
from fractions import Fraction

import make_golden
import veridical_reference as ref

# A value of pi that shares nothing with the module: Stormer's formula, 600 binary digits.
PI_BITS = 600


def _arctan_inverse(n):
    one = 1 << (PI_BITS + 32)
    total = 0
    k = 0
    power = n
    while power < one:
        total += (-1) ** k * (one // ((2 * k + 1) * power))
        power *= n * n
        k += 1
    return total


PI = Fraction(
    24 * _arctan_inverse(8) + 8 * _arctan_inverse(57) + 4 * _arctan_inverse(239),
    1 << (PI_BITS + 32),
)


def exact_sincos(quarters):
    """Sine and cosine of (pi/2) * quarters for a Fraction, as Fractions good to 500 digits."""
    q = round(quarters)
    r = math.floor((quarters - q) * PI / 2 * 2**PI_BITS)
    sums = [0, 0]  # cosine and sine, by their series in fixed point
    term, k = 1 << PI_BITS, 0
    while term:
        sums[k % 2] += (-1) ** (k // 2) * term
        k += 1
        term = (abs(term * r) >> PI_BITS) // k * (1 if term * r > 0 else -1)
    cosine, sine = (Fraction(x, 1 << PI_BITS) for x in sums)
    return ((sine, cosine), (cosine, -sine), (-sine, -cosine), (-cosine, sine))[q % 4]


def ulp_error(value, exact, digits, smallest):
    """|value - exact| in units of the last place of exact."""
    if exact == 0:
        return 0.0 if value == 0.0 else math.inf
    exponent = math.frexp(float(exact))[1]
    unit = Fraction(2) ** max(exponent - digits, smallest)
    return float(abs(Fraction(value) - Fraction(exact)) / unit)


def ulp32(value, exact):
    return ulp_error(value, exact, 24, -149)


def ulp64(value, exact):
    return ulp_error(value, exact, 53, -1074)


def round_to_single(x):
    """The single nearest to a Fraction."""
    if x == 0:
        return 0.0
    magnitude = abs(x)
    e = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** e > magnitude:
        e -= 1
    quantum = Fraction(2) ** max(e - 23, -149)
    rounded = round(magnitude / quantum) * quantum
    result = math.inf if rounded >= 2**128 else float(rounded)
    return result if x > 0 else -result


def random_single(rng):
    kind = rng.randrange(4)
    if kind == 0:
        bits = rng.getrandbits(23)  # subnormal
    elif kind == 1:
        bits = (rng.randrange(1, 255) << 23) | rng.getrandbits(23)
    elif kind == 2:
        bits = (rng.randrange(115, 140) << 23) | rng.getrandbits(23)
    else:
        bits = (rng.randrange(120, 134) << 23) | (rng.getrandbits(4) << 19) | rng.getrandbits(2)
    return ref.f32_from_bits(bits | rng.getrandbits(1) << 31)


def read_golden(name):
    return json.loads((make_golden.GOLDEN / name).read_text(encoding="utf-8"))


class Philox(unittest.TestCase):
    def test_known_answers(self):
        for vector in read_golden("philox.json")["vectors"]:
            counter, key, output = (
                tuple(int(word, 16) for word in vector[field])
                for field in ("counter", "key", "output")
            )
            self.assertEqual(ref.philox4x32_10(counter, key), output)

    def test_uniforms(self):
        self.assertEqual(ref.words_to_uniform(0, 0), 0.0)
        self.assertEqual(ref.words_to_uniform(0xFFFFFFFF, 0xFFFFFFFF), 1.0 - 2.0**-53)
        self.assertEqual(ref.words_to_uniform(0x80000000, 0), 0.5)
        self.assertEqual(ref.words_to_uniform(0, 64), 2.0**-53)

    def test_normals_look_normal(self):
        key = ref.stream_key(1, "directions")
        values = [x for j in range(40) for x in ref.gaussian(key, 100, j)]
        mean = sum(values) / len(values)
        self.assertLess(abs(mean), 0.06)
        self.assertLess(abs(sum(x * x for x in values) / len(values) - 1.0), 0.1)
        self.assertEqual(values[205], ref.normal(key, 5, 2))


class Golden(unittest.TestCase):
    def test_files_are_current(self):
        for name, text in make_golden.golden_texts().items():
            with self.subTest(name):
                # Not assertEqual: the difference of two large texts takes very long to print.
                stored = (make_golden.GOLDEN / name).read_text(encoding="utf-8")
                self.assertTrue(stored == text, f"{name} differs, run make_golden.py")
                self.assertLess(len(text), 200_000)
                self.assertEqual(json.loads(text)["made_by"], make_golden.MADE_BY)

    def test_golden_specs_parse(self):
        for name in ("directions.json", "phi.json"):
            for case in read_golden(name)["cases"]:
                self.assertEqual(ref.parse_spec(json.dumps(case["spec"])), case["spec"])


class Rounding(unittest.TestCase):
    def test_f32(self):
        rng = random.Random(1)
        for _ in range(5000):
            x = math.ldexp(rng.uniform(-1.0, 1.0), rng.randrange(-155, 131))
            self.assertEqual(ref.f32(x), round_to_single(Fraction(x)))
        largest = ref.f32_from_bits(0x7F7FFFFF)
        tie = largest + 2.0**103  # half way to 2^128
        self.assertEqual(ref.f32(math.nextafter(tie, 0.0)), largest)
        self.assertEqual(ref.f32(tie), math.inf)
        self.assertEqual(ref.f32(-1e300), -math.inf)
        self.assertEqual(ref.f32_bits(-(2.0**-150)), 0x80000000)
        self.assertEqual(ref.f32_bits(1.5 * 2.0**-149), 2)

    def check_fma(self, a, b, c):
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        result = ref.fma(a, b, c)
        self.assertEqual(result, round_to_single(exact), (a.hex(), b.hex(), c.hex()))
        if exact != 0:
            self.assertEqual(math.copysign(1.0, result), 1.0 if exact > 0 else -1.0)

    def test_fma_random(self):
        rng = random.Random(2)
        for _ in range(15000):
            self.check_fma(random_single(rng), random_single(rng), random_single(rng))

    def test_fma_hard_cases(self):
        rng = random.Random(3)
        for _ in range(10000):
            # c near -a * b, and products near the middle of two singles of the size of c.
            a = random_single(rng)
            b = math.ldexp(rng.randrange(1, 2**24), rng.randrange(-40, 10))
            near = ref.f32(-a * b)
            if math.isfinite(near):
                self.check_fma(a, b, near)
                self.check_fma(a, b, ref.f32(near / 2.0))
            c = math.ldexp(rng.randrange(2**23, 2**24), rng.randrange(-60, 60))
            half = math.ldexp(c, -24) if rng.getrandbits(1) else math.ldexp(1.0, -75)
            significand = rng.randrange(1, 2**12) * 2.0**-12
            self.check_fma(ref.f32(half), 1.0 + significand, c)
        for c in (1.0, 1.0 + 2.0**-23):  # ties and their neighbours
            for sign in (1.0, -1.0):
                for b in (1.0, 1.0 + 2.0**-23, 1.0 - 2.0**-24):
                    self.check_fma(sign * 2.0**-24, b, c)
                    self.check_fma(sign * 2.0**-25, b, c)
                    self.check_fma(2.0**-149, sign * 2.0**-149, c)
        self.check_fma(2.0**127, 2.0, -(2.0**104))
        self.check_fma(2.0**127, 2.0, -(2.0**103))
        self.check_fma(2.0**-75, 2.0**-75, 2.0**-149)
        self.check_fma(2.0**-75, -(2.0**-75), 2.0**-149)

    def test_fma_special_values(self):
        self.assertEqual(ref.f32_bits(ref.fma(-0.0, 1.0, -0.0)), 0x80000000)
        self.assertEqual(ref.f32_bits(ref.fma(-0.0, 1.0, 0.0)), 0)
        self.assertEqual(ref.f32_bits(ref.fma(1.0, 1.0, -1.0)), 0)
        self.assertEqual(ref.fma(math.inf, 1.0, 1.0), math.inf)
        self.assertTrue(math.isnan(ref.fma(math.inf, 0.0, 1.0)))
        self.assertTrue(math.isnan(ref.fma(math.inf, 1.0, -math.inf)))
        self.assertEqual(ref.fma(2.0**100, 2.0**100, 1.0), math.inf)


class Functions(unittest.TestCase):
    def test_ln(self):
        rng = random.Random(4)
        arguments = [1.0, 0.5, 2.0**-53, 1.0 - 2.0**-53, math.sqrt(0.5), math.sqrt(2.0), 2.0]
        arguments += [(rng.getrandbits(53) + 1) * 2.0**-53 for _ in range(20000)]
        arguments += [(rng.getrandbits(20) + 1) * 2.0**-53 for _ in range(5000)]
        arguments += [1.0 - rng.getrandbits(30) * 2.0**-53 for _ in range(5000)]
        for _ in range(5000):
            arguments.append(math.ldexp(rng.uniform(1.0, 2.0), rng.randrange(-1022, 1023)))
        worst = max(ulp64(ref.ln(x), math.log(x)) for x in arguments)
        self.assertLessEqual(worst, 2.0)
        self.assertEqual(ref.f64_bits(ref.ln(1.0)), 0)

    def test_cos_sin_2pi(self):
        rng = random.Random(5)
        arguments = [k / 8.0 + s * 2.0**-53 for k in range(1, 8) for s in range(-3, 4)]
        arguments += [0.0, 2.0**-53, 1.0 - 2.0**-53]
        arguments += [rng.getrandbits(53) * 2.0**-53 for _ in range(5000)]
        arguments += [rng.getrandbits(25) * 2.0**-53 for _ in range(1000)]
        for u in arguments:
            cosine, sine = ref.cos_sin_2pi(u)
            exact_sine, exact_cosine = exact_sincos(4 * Fraction(u))
            self.assertLessEqual(ulp64(sine, exact_sine), 2.0, u)
            self.assertLessEqual(ulp64(cosine, exact_cosine), 2.0, u)

    def test_two_over_pi(self):
        digits = ref.TWO_OVER_PI_DIGITS
        self.assertEqual(ref.TWO_OVER_PI, math.floor(2 / PI * 2**digits))
        self.assertGreaterEqual(digits, 104 + 94)
        self.assertEqual(float(PI), math.pi)

    def check_sincos(self, a):
        sine, cosine = ref.sincos32(a)
        exact_sine, exact_cosine = exact_sincos(Fraction(a) * 2 / PI)
        self.assertLessEqual(ulp32(sine, exact_sine), 2.0, a.hex())
        self.assertLessEqual(ulp32(cosine, exact_cosine), 2.0, a.hex())

    def test_sincos32_golden(self):
        cases = read_golden("sincos.json")["cases"]
        self.assertGreaterEqual(len(cases), 350)
        for case in cases:
            self.check_sincos(ref.f32_from_bits(int(case["a"], 16)))

    def test_sincos32_random(self):
        rng = random.Random(6)
        for _ in range(3000):
            self.check_sincos(ref.f32(rng.uniform(-8192.0, 8192.0)))
            self.check_sincos(random_single(rng))
        # Arguments with the largest errors known for |a| <= 2^13.
        for bits in (0x4466B4AA, 0x44E606E9):
            self.check_sincos(ref.f32_from_bits(bits))

    def test_sincos32_special_values(self):
        for a in (math.inf, -math.inf, math.nan):
            self.assertTrue(all(math.isnan(x) for x in ref.sincos32(a)))
        # A zero of either sign gives +0 and 1.
        for a in (0.0, -0.0):
            self.assertEqual([ref.f32_bits(x) for x in ref.sincos32(a)], [0, 0x3F800000])

    def test_reductions_agree_at_the_border(self):
        for steps in range(-200, 201):
            a = make_golden.next_f32(8192.0, steps)
            small, q_small = ref.reduce_small(a)
            large, q_large = ref.reduce_large(a)
            self.assertEqual(q_small, q_large)
            self.assertLessEqual(ulp32(small, large), 2.0)


class Directions(unittest.TestCase):
    def test_dot(self):
        a = [float(k + 1) for k in range(19)]
        self.assertEqual(ref.dot(a, a), float(sum((k + 1) ** 2 for k in range(19))))
        # The order of the sums: elements 0 and 8 share a partial sum, 0 and 1 do not.
        big = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
        self.assertEqual(ref.dot(big, [2.0**60, 0, 0, 0, 1.0, 0, 0, 0, -(2.0**60)]), 1.0)
        self.assertEqual(ref.dot(big, [2.0**60, 0, 0, 0, -(2.0**60), 0, 0, 0, 1.0]), 0.0)
        self.assertEqual(ref.f64_bits(ref.dot([-0.0], [1.0])), 0)

    def test_blocks_are_orthogonal(self):
        for d, output_dim in ((2, 10), (5, 22), (16, 24), (33, 80), (70, 150)):
            spec = ref.make_spec(d, output_dim, 3, 0.8, "orthogonal")
            iid = ref.directions(ref.make_spec(d, output_dim, 3, 0.8, "iid"))
            rows = ref.directions(spec)
            norms = [math.sqrt(ref.dot(u, u)) for u in rows]
            for j, u in enumerate(rows):
                # The length of a direction is the length of its Gaussian.
                length = math.sqrt(ref.dot(iid[j], iid[j]))
                self.assertLess(abs(norms[j] / length - 1.0), 1e-6)
                for i in range(j - j % d, j):
                    cosine = ref.dot(u, rows[i]) / (norms[j] * norms[i])
                    self.assertLess(abs(cosine), 5e-7)

    def test_elements_are_singles(self):
        for family in ("iid", "orthogonal"):
            for row in ref.directions(ref.make_spec(4, 20, 5, 0.3, family)):
                self.assertEqual(row, [ref.f32(x) for x in row])

    def test_prefix(self):
        row = [0.3, -1.25, 2.0, 0.125, -0.7]
        for family in ("iid", "orthogonal"):
            short = ref.make_spec(5, 8, 9, 1.5, family, "unit")
            long = ref.make_spec(5, 32, 9, 1.5, family, "unit")
            self.assertEqual(ref.directions(long)[:4], ref.directions(short))
            self.assertEqual(short["directions_id"], long["directions_id"])
            self.assertNotEqual(short["spec_id"], long["spec_id"])
            # 4 and 16 directions: the constants are 1/2 and 1/4.
            scaled = [2.0 * x for x in ref.phi(long, row)[:8]]
            self.assertEqual(scaled, ref.phi(short, row))


def fused(a, b, c):
    """a * b + c of doubles, rounded once."""
    return float(Fraction(a) * Fraction(b) + Fraction(c))


def unfused(a, b, c):
    return a * b + c


def plain_dot(a, b):
    total = 0.0
    for x, y in zip(a, b, strict=True):
        total += x * y
    return total


def fused_dot(a, b):
    p = [0.0] * 8
    for k, (x, y) in enumerate(zip(a, b, strict=True)):
        p[k % 8] = fused(x, y, p[k % 8])
    return ((p[0] + p[1]) + (p[2] + p[3])) + ((p[4] + p[5]) + (p[6] + p[7]))


def project(v, *lists, dot=ref.dot, multiply_add=unfused, modified=False):
    """v projected on one list of q after the other; modified: each c from the latest v."""
    for qs in lists:
        start = v
        for q in qs:
            c = dot(q, v if modified else start)
            v = [multiply_add(-c, q_k, v_k) for q_k, v_k in zip(q, v, strict=True)]
    return v


def project_summed(v, *lists):
    """As project, but the sum over the q is subtracted at the end."""
    for qs in lists:
        total = [0.0] * len(v)
        for q in qs:
            c = ref.dot(q, v)
            total = [t_k + c * q_k for t_k, q_k in zip(total, q, strict=True)]
        v = [v_k - t_k for v_k, t_k in zip(v, total, strict=True)]
    return v


def cut(qs, size=32):
    return [qs[i : i + size] for i in range(0, len(qs), size)]


def variant_directions(
    spec,
    steps=lambda v, earlier, own: project(v, earlier, earlier, own, own),
    size=32,
    across_blocks=False,
    dot=ref.dot,
    divide=lambda v, n: v / n,
    scale=lambda r, q, length: (r * q) / length,
):
    """Orthogonal directions with one detail of the definition changed.

    steps gets v and the lists of the q of the earlier panels and of the panel of v; size is that of
    the panels, which with across_blocks are cut from all directions instead of those of a block;
    dot is used for the two norms.
    """
    d = spec["input_dim"]
    key = ref.stream_key(spec["seed"], "directions")
    rows, block = [], []
    for j in range(spec["output_dim"] // 2):
        block = block if j % d else []
        v = ref.gaussian(key, d, j)
        r = math.sqrt(dot(v, v))
        place = j if across_blocks else j % d
        first = max(j % d - place % size, 0)
        v = steps(v, block[:first], block[first:])
        n = math.sqrt(dot(v, v))
        block.append([divide(v_k, n) for v_k in v])
        rows.append([ref.f32(scale(r, q_k, spec["length_scale"])) for q_k in block[-1]])
    return rows


# Variants that differ inside a panel or for a direction alone.
VARIANTS = {
    "one pass": {"steps": lambda v, e, own: project(v, own)},
    "three passes": {"steps": lambda v, e, own: project(v, own, own, own)},
    "modified Gram-Schmidt": {"steps": lambda v, e, own: project(v, own, own, modified=True)},
    "one partial sum": {
        "steps": lambda v, e, own: project(v, own, own, dot=plain_dot),
        "dot": plain_dot,
    },
    "fused dot": {
        "steps": lambda v, e, own: project(v, own, own, dot=fused_dot),
        "dot": fused_dot,
    },
    "fused update": {"steps": lambda v, e, own: project(v, own, own, multiply_add=fused)},
    "sum first": {"steps": lambda v, e, own: project_summed(v, own, own)},
    "times 1 / n": {"divide": lambda v, n: v * (1.0 / n)},
    "times 1 / l": {"scale": lambda r, q, length: (r * q) * (1.0 / length)},
    "r * (q / l)": {"scale": lambda r, q, length: r * (q / length)},
    "(r / l) * q": {"scale": lambda r, q, length: (r / length) * q},
}

# Variants that differ only where a block has several panels.
PANEL_VARIANTS = {
    "no panels": {"steps": lambda v, e, own: project(v, e + own, e + own)},
    "panels of 16": {"size": 16},
    "panels of 31": {"size": 31},
    "panels of 33": {"size": 33},
    "panels across blocks": {"across_blocks": True},
    "one pass on earlier panels": {"steps": lambda v, e, own: project(v, e, own, own)},
    "three passes on earlier panels": {"steps": lambda v, e, own: project(v, e, e, e, own, own)},
    "one pass on the own panel": {"steps": lambda v, e, own: project(v, e, e, own)},
    "three passes on the own panel": {"steps": lambda v, e, own: project(v, e, e, own, own, own)},
    "own panel first": {"steps": lambda v, e, own: project(v, own, own, e, e)},
    "both in turn": {"steps": lambda v, e, own: project(v, e, own, e, own)},
    "earlier panels descending": {
        "steps": lambda v, e, own: project(v, e[::-1], e[::-1], own, own)
    },
    "earlier panels modified": {
        "steps": lambda v, e, own: project(project(v, e, e, modified=True), own, own)
    },
    "earlier panels with one partial sum": {
        "steps": lambda v, e, own: project(project(v, e, e, dot=plain_dot), own, own)
    },
    "earlier panels with fused dot": {
        "steps": lambda v, e, own: project(project(v, e, e, dot=fused_dot), own, own)
    },
    "earlier panels with fused update": {
        "steps": lambda v, e, own: project(project(v, e, e, multiply_add=fused), own, own)
    },
    "sum over earlier panels first": {
        "steps": lambda v, e, own: project(project_summed(v, e, e), own, own)
    },
}

# Variants that differ only from the third panel of a block on.
THIRD_PANEL_VARIANTS = {
    "panels of 64": {"size": 64},
    "panel by panel, twice": {"steps": lambda v, e, own: project(v, *cut(e), *cut(e), own, own)},
    "twice each panel": {
        "steps": lambda v, e, own: project(v, *(p for p in cut(e) for _ in range(2)), own, own)
    },
    "sum over each panel first": {
        "steps": lambda v, e, own: project(project_summed(v, *cut(e), *cut(e)), own, own)
    },
}


class Sensitivity(unittest.TestCase):
    """The golden files notice a change of the order of operations, not only a wrong formula."""

    def golden_directions(self, family, input_dims):
        for case in read_golden("directions.json")["cases"]:
            if case["spec"]["directions"] == family and case["spec"]["input_dim"] in input_dims:
                rows = [[ref.f32_from_bits(int(x, 16)) for x in u] for u in case["directions"]]
                yield case["spec"], rows

    def check_variants(self, input_dims, variants):
        cases = list(self.golden_directions("orthogonal", input_dims))
        self.assertTrue(all(variant_directions(spec) == rows for spec, rows in cases))
        for name, variant in variants.items():
            with self.subTest(name):
                self.assertTrue(
                    any(variant_directions(spec, **variant) != rows for spec, rows in cases)
                )

    def test_orthogonal(self):
        self.check_variants(range(1, 10), VARIANTS)

    def test_panels(self):
        self.check_variants((36,), PANEL_VARIANTS)

    def test_third_panel(self):
        self.check_variants((70,), THIRD_PANEL_VARIANTS)

    def test_iid(self):
        changed = False
        for spec, rows in self.golden_directions("iid", range(1, 10)):
            key = ref.stream_key(spec["seed"], "directions")
            factor = 1.0 / spec["length_scale"]
            for j, row in enumerate(rows):
                gaussian = ref.gaussian(key, spec["input_dim"], j)
                changed |= row != [ref.f32(x * factor) for x in gaussian]
        self.assertTrue(changed)

    def changes_phi(self, normalize, variant):
        """Does some row of phi.json have another phi if step 1 is replaced by variant?"""
        for case in read_golden("phi.json")["cases"]:
            spec = case["spec"]
            if spec["normalize"] != normalize:
                continue
            u = ref.directions(spec)
            plain = dict(spec, normalize="none")
            for row, features in zip(case["rows"], case["phi"], strict=True):
                x = [ref.f32_from_bits(int(bits, 16)) for bits in row]
                if any(x):
                    changed = ref.phi(plain, variant(spec, x), u)
                    if [f"{ref.f32_bits(y):08x}" for y in changed] != features:
                        return True
        return False

    def test_unit(self):
        def divided(spec, x):
            norm = math.sqrt(ref.dot(x, x))
            return [ref.f32(x_k / norm) for x_k in x]

        def one_partial_sum(spec, x):
            factor = 1.0 / math.sqrt(plain_dot(x, x))
            return [ref.f32(x_k * factor) for x_k in x]

        self.assertFalse(self.changes_phi("unit", ref.normalize_row))
        self.assertTrue(self.changes_phi("unit", divided))
        self.assertTrue(self.changes_phi("unit", one_partial_sum))

    def test_standardize(self):
        def divided(spec, x):
            triples = zip(x, spec["means"], spec["deviations"], strict=True)
            return [ref.f32((x_k - mean) / deviation) for x_k, mean, deviation in triples]

        self.assertFalse(self.changes_phi("standardize", ref.normalize_row))
        self.assertTrue(self.changes_phi("standardize", divided))


class Phi(unittest.TestCase):
    def test_norm_and_kernel(self):
        spec = ref.make_spec(4, 2000, 12, 1.3, "iid", "none")
        u = ref.directions(spec)
        x, y = [0.5, -0.25, 1.0, 0.0], [0.1, 0.3, 0.8, -0.6]
        phi_x, phi_y = ref.phi(spec, x, u), ref.phi(spec, y, u)
        self.assertLess(abs(ref.dot(phi_x, phi_x) - 1.0), 1e-5)
        distance = sum((a - b) ** 2 for a, b in zip(x, y, strict=True))
        kernel = math.exp(-distance / (2 * 1.3**2))
        self.assertLess(abs(ref.dot(phi_x, phi_y) - kernel), 0.1)

    def test_zero_row(self):
        for normalize in ("none", "unit"):
            spec = ref.make_spec(3, 8, 1, normalize=normalize)
            self.assertEqual(ref.phi(spec, [0.0, -0.0, 0.0]), [0.5, 0.0] * 4)

    def test_standardize(self):
        spec = ref.make_spec(
            2, 6, 1, normalize="standardize", means=[1.0, -2.0], deviations=[0.5, 4.0]
        )
        plain = ref.make_spec(2, 6, 1)
        self.assertEqual(ref.phi(spec, [2.0, 6.0]), ref.phi(plain, [2.0, 2.0]))

    def test_inputs_become_singles(self):
        spec = ref.make_spec(1, 2, 1)
        self.assertEqual(ref.phi(spec, [0.1]), ref.phi(spec, [ref.f32(0.1)]))
        with self.assertRaises(ValueError):
            ref.phi(spec, [0.1, 0.2])


class Spec(unittest.TestCase):
    def setUp(self):
        self.plain = ref.make_spec(3, 8, 7, 0.5, "iid", "unit")
        self.standardize = ref.make_spec(2, 4, 7, 0.5, "iid", "standardize", [0.0, 1.0], [1.0, 2.0])

    def refused(self, spec, renew_ids=True):
        spec = copy.deepcopy(spec)
        if renew_ids:
            # Ids that fit the changed document, so that nothing but the change is refused.
            for field, function in (
                ("spec_id", ref.spec_id),
                ("directions_id", ref.directions_id),
            ):
                try:
                    spec[field] = function(spec)
                except (KeyError, TypeError, ValueError, OverflowError):
                    pass
        with self.assertRaises(ref.SpecError):
            ref.parse_spec(json.dumps(spec))

    def test_ids(self):
        text = (
            "veridical-spec/1\nformat=1\ninput_dim=2\noutput_dim=4\nseed=7\nkernel=gaussian\n"
            "length_scale=3fe0000000000000\ndirections=iid\nnormalize=standardize\n"
            "means=0000000000000000,3ff0000000000000\n"
            "deviations=3ff0000000000000,4000000000000000\n"
        )
        short = text.replace("output_dim=4\n", "")
        spec = self.standardize
        self.assertEqual(spec["spec_id"], hashlib.sha256(text.encode()).hexdigest())
        self.assertEqual(spec["directions_id"], hashlib.sha256(short.encode()).hexdigest())

    def test_accepted(self):
        for spec in (self.plain, self.standardize):
            self.assertEqual(ref.parse_spec(json.dumps(spec)), spec)
        whole = dict(self.plain, length_scale=2)  # a number without a fraction is a number
        whole["spec_id"], whole["directions_id"] = ref.spec_id(whole), ref.directions_id(whole)
        ref.parse_spec(json.dumps(whole))
        ref.make_spec(1, 2, 2**53 - 1)
        ref.make_spec(256, 2**24, 0)

    def test_missing_and_unknown_fields(self):
        for spec in (self.plain, self.standardize):
            for field in spec:
                changed = dict(spec)
                del changed[field]
                self.refused(changed, renew_ids=False)
            self.refused(dict(spec, extra=1))
        self.refused(dict(self.plain, means=[0.0] * 3))
        self.refused(dict(self.plain, means=[0.0] * 3, deviations=[1.0] * 3))

    def test_wrong_ids(self):
        for field in ref.ID_FIELDS:
            good = self.plain[field]
            for bad in (good[:-1], good.upper(), "0" * 64, None, 0, good + " "):
                self.refused(dict(self.plain, **{field: bad}), renew_ids=False)
        self.refused(dict(self.plain, seed=8), renew_ids=False)

    def test_wrong_values(self):
        wrong = {
            "format": (0, 2, "1", 1.0, True, None),
            "input_dim": (0, -1, 3.0, "3", 2**20 + 1, True),
            "output_dim": (0, -2, 7, 1, 8.0, 2**24 + 2),
            "seed": (-1, 2**53, 7.0, "7", None, False),
            "kernel": ("laplace", "Gaussian", 1, None),
            "length_scale": (0.0, 0, -1.0, "1.0", "median", None, True, 10**400, [1.0]),
            "directions": ("IID", "", None, 0),
            "normalize": ("l2", "", None, 0, "standardize"),
        }
        for field, values in wrong.items():
            for value in values:
                with self.subTest(field=field, value=str(value)[:20]):
                    self.refused(dict(self.plain, **{field: value}))
        self.refused(dict(self.plain, input_dim=2**20, output_dim=2**13))
        for means in ([0.0], [0.0] * 3, [0.0, None], [0.0, "1"], 0.0, None):
            self.refused(dict(self.standardize, means=means))
        for deviations in ([1.0], [1.0, 0.0], [1.0, -1.0], [1.0, True], "12"):
            self.refused(dict(self.standardize, deviations=deviations))

    def test_wrong_json(self):
        text = json.dumps(self.plain)
        for bad in (
            "",
            "[]",
            "1",
            text[:-1],
            text.replace("0.5", "NaN"),
            text.replace("0.5", "Infinity"),
            text.replace("0.5", "1e999"),
            text.replace('"seed": 7', '"seed": 7, "seed": 7'),
        ):
            with self.assertRaises(ref.SpecError):
                ref.parse_spec(bad)


if __name__ == "__main__":
    unittest.main()
