"""Checks of the reference implementation and of the golden files.

Run as `python3 python/reference/check_reference.py`; exits with a non-zero status on failure.
"""

import copy
import hashlib
import json
import math
import random
import statistics
import unittest
from fractions import Fraction

import make_golden
import veridical_reference as ref

# A value of pi that is independent of the module: Stormer's formula, 600 binary digits.
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
    """Sine and cosine of (pi/2) * quarters for a Fraction, as Fractions accurate to 500 digits."""
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


OLD_CASES = (
    ("directions.json", 22, "c79f541f27d0d708ba204f49019fa817ffdef2f5524060157e3e976cf3252694"),
    ("phi.json", 14, "faa4e235119580df01bb47f8178f06a3981261d316c9a0b2e93e141b81938b93"),
)


class Golden(unittest.TestCase):
    def test_files_are_current(self):
        for name, text in make_golden.golden_texts().items():
            with self.subTest(name):
                # Not assertEqual: the diff of two large texts takes very long to print.
                stored = (make_golden.GOLDEN / name).read_text(encoding="utf-8")
                self.assertTrue(stored == text, f"{name} differs, run make_golden.py")
                self.assertLess(len(text), 600_000)
                self.assertEqual(json.loads(text)["made_by"], make_golden.MADE_BY)

    def test_golden_specs_parse(self):
        for name in ("directions.json", "phi.json"):
            for case in read_golden(name)["cases"]:
                self.assertEqual(ref.parse_spec(json.dumps(case["spec"])), case["spec"])

    def test_first_cases_are_those_of_0_1_0(self):
        # Documents, ids and values; SHA-256 of the cases as of 0.1.0.
        for name, count, digest in OLD_CASES:
            cases = json.dumps(read_golden(name)["cases"][:count])
            self.assertEqual(hashlib.sha256(cases.encode()).hexdigest(), digest)

    def test_every_combination_is_there(self):
        combinations = {(k, f) for k, families in ref.KERNELS.items() for f in families}
        self.assertEqual(len(combinations), 19)
        for name in ("directions.json", "phi.json"):
            specs = [case["spec"] for case in read_golden(name)["cases"]]
            self.assertEqual({(s["kernel"], s["directions"]) for s in specs}, combinations)
            for p in (64, 128):  # more than one block
                self.assertTrue(
                    any(
                        s["directions"] == "hadamard"
                        and ref.hadamard_size(s["input_dim"]) == p
                        and s["output_dim"] // 2 > p
                        for s in specs
                    )
                )


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
        for c in (1.0, 1.0 + 2.0**-23):  # ties and their neighbors
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

    def test_quantile(self):
        rng = random.Random(7)
        golden = [
            ref.f64_from_bits(int(case["v"], 16)) for case in read_golden("quantile.json")["cases"]
        ]
        self.assertGreaterEqual(len(golden), 60)
        # All three branches, on both sides.
        for low, high in ((0.0, 1e-11), (1e-10, 0.07), (0.08, 0.5)):
            self.assertGreaterEqual(sum(low < v < high for v in golden), 5)
            self.assertGreaterEqual(sum(low < 1.0 - v < high for v in golden), 5)
        # The standard library has the same algorithm with another logarithm.
        arguments = golden + [(rng.getrandbits(52) + 0.5) * 2.0**-52 for _ in range(5000)]
        arguments += [math.ldexp(rng.uniform(0.5, 1.0), -rng.randrange(1, 53)) for _ in range(5000)]
        normal = statistics.NormalDist()
        worst = max(ulp64(ref.quantile(v), normal.inv_cdf(v)) for v in arguments)
        self.assertLessEqual(worst, 8.0)

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
        for spec in combinations(4, 20, 5, 0.3):
            for row in ref.directions(spec):
                self.assertEqual(row, [ref.f32(x) for x in row])

    def test_prefix(self):
        row = [0.3, -1.25, 2.0, 0.125, -0.7]
        # 4 and 16 directions: the constants are 1/2 and 1/4; then 64 and 256.
        for sizes in ((8, 32), (128, 512)):
            for short, long in zip(
                combinations(5, sizes[0], 9, 1.5, "unit"),
                combinations(5, sizes[1], 9, 1.5, "unit"),
                strict=True,
            ):
                if sizes[0] > 8 and short["directions"] != "hadamard":
                    continue
                rows = ref.directions(short)
                self.assertEqual(ref.directions(long)[: len(rows)], rows)
                self.assertEqual(short["directions_id"], long["directions_id"])
                self.assertNotEqual(short["spec_id"], long["spec_id"])
                scaled = [2.0 * x for x in ref.phi(long, row)[: sizes[0]]]
                self.assertEqual(scaled, ref.phi(short, row))

    def test_golden_prefixes(self):
        """The shorter of two golden cases of the same directions is a prefix of the longer."""
        by_id = {}
        for case in read_golden("directions.json")["cases"]:
            by_id.setdefault(case["directions_id"], []).append(case)
        pairs = [cases for cases in by_id.values() if len(cases) > 1]
        self.assertEqual({cases[0]["spec"]["kernel"] for cases in pairs}, {"gaussian", "mixture"})
        for short, long in pairs:
            rows = short["directions"]
            self.assertLess(len(rows), len(long["directions"]))
            self.assertEqual(long["directions"][: len(rows)], rows)

    def test_directions_out_of_range(self):
        for spec in combinations(3, 8, 1, 1e-45):
            with self.assertRaises(ref.SpecError):
                ref.directions(spec)
            with self.assertRaises(ref.SpecError):
                ref.phi(spec, [1.0, 2.0, 3.0])
        with self.assertRaises(ref.SpecError):
            ref.make_spec(2, 2, 1, 1e-300, "iid", kernel="mixture", scales=[1e-300], weights=[1.0])

    def test_same_directions_up_to_the_length_scale(self):
        # A mixture of one component is a Gaussian; a Matern direction is a scaled Gaussian one.
        for family in ref.DIRECTIONS:
            plain = ref.directions(ref.make_spec(3, 20, 7, 0.5, family))
            one = ref.make_spec(
                3, 20, 7, 2.0, family, kernel="mixture", scales=[0.25], weights=[9.0]
            )
            self.assertEqual(ref.directions(one), plain)
            if family == "halton":
                continue
            for kernel in ("matern-1/2", "matern-3/2", "matern-5/2"):
                rows = ref.directions(ref.make_spec(3, 20, 7, 0.5, family, kernel=kernel))
                for u, v in zip(rows, plain, strict=True):
                    for k in range(3):
                        self.assertLess(abs(u[k] * v[0] - u[0] * v[k]), 1e-6 * abs(u[k] * v[0]))


def combinations(input_dim, output_dim, seed, length_scale, normalize="none"):
    """A spec for every kernel and every family of directions it can be used with."""
    for kernel, families in ref.KERNELS.items():
        for family in families:
            fields = {"kernel": kernel}
            if kernel == "mixture":
                fields |= {"scales": [0.4, 1.0, 2.5], "weights": [1.0, 0.5, 2.0]}
            yield ref.make_spec(
                input_dim, output_dim, seed, length_scale, family, normalize, **fields
            )


class Kernels(unittest.TestCase):
    def test_values(self):
        def value(kernel, x, y, **fields):
            spec = ref.make_spec(len(x), 2, 1, 2.0, "iid", kernel=kernel, **fields)
            self.assertAlmostEqual(ref.kernel(spec, y, x), ref.kernel(spec, x, y), places=15)
            self.assertEqual(ref.kernel(spec, x, x), 1.0)
            return ref.kernel(spec, x, y)

        x, y = [1.0, -2.0], [4.0, 2.0]  # differences 3 and 4, distance 5, l = 2
        mixture = {"scales": [0.5, 3.0], "weights": [1.0, 3.0]}
        third, fifth = math.sqrt(3.0) * 2.5, math.sqrt(5.0) * 2.5
        for kernel, fields, expected in (
            ("gaussian", {}, math.exp(-25.0 / 8.0)),
            ("laplace", {}, math.exp(-3.5)),
            ("cauchy", {}, 1.0 / (1.0 + 2.25) / (1.0 + 4.0)),
            ("matern-1/2", {}, math.exp(-2.5)),
            ("matern-3/2", {}, (1.0 + third) * math.exp(-third)),
            ("matern-5/2", {}, (1.0 + fifth + fifth**2 / 3.0) * math.exp(-fifth)),
            ("mixture", mixture, (math.exp(-12.5) + 3.0 * math.exp(-25.0 / 72.0)) / 4.0),
        ):
            self.assertAlmostEqual(value(kernel, x, y, **fields), expected, places=15)

    def test_phi_approximates_the_kernel(self):
        x, y = [0.5, -0.25, 1.0], [0.1, 0.3, 0.3]
        for spec in combinations(3, 2400, 12, 1.1):
            u = ref.directions(spec)
            phi_x, phi_y = ref.phi(spec, x, u), ref.phi(spec, y, u)
            self.assertLess(abs(ref.dot(phi_x, phi_x) - 1.0), 1e-5)
            error = ref.dot(phi_x, phi_y) - ref.kernel(spec, x, y)
            # The deviation of the mean of 1200 cosines is at most 0.02.
            self.assertLess(abs(error), 0.05, (spec["kernel"], spec["directions"]))

    def test_mixture_components(self):
        weights = [1.0, 2.0, 5.0]
        spec = ref.make_spec(
            1, 2, 3, 1.0, "iid", kernel="mixture", scales=[1.0, 2.0, 3.0], weights=weights
        )
        counts = [0, 0, 0]
        for j in range(4000):
            counts[ref.mixture_component(spec, j)] += 1
        for count, weight in zip(counts, weights, strict=True):
            self.assertLess(abs(count / 4000 - weight / 8.0), 0.03)


class Hadamard(unittest.TestCase):
    def test_size(self):
        for d, p in (
            (1, 64),
            (63, 64),
            (64, 64),
            (65, 128),
            (128, 128),
            (129, 256),
            (2**20, 2**20),
        ):
            self.assertEqual(ref.hadamard_size(d), p)

    def test_transform_is_the_product(self):
        rng = random.Random(8)
        for p in (1, 2, 8, 64):
            v = [rng.randrange(-100, 100) for _ in range(p)]
            product = [
                sum((-1) ** (i & k).bit_count() * v_k for k, v_k in enumerate(v)) for i in range(p)
            ]
            self.assertEqual(ref.walsh_hadamard(v, int), product)
            self.assertEqual(ref.walsh_hadamard(list(map(float, v)), ref.f32), product)

    def test_rows_are_the_product(self):
        p = 64
        diagonals = ref.hadamard_signs(5, p, 3)
        matrix = [[int(i == k) for k in range(p)] for i in range(p)]
        for signs in diagonals:  # S_1 first
            matrix = [[sign * x for x in row] for sign, row in zip(signs, matrix, strict=True)]
            columns = zip(*matrix, strict=True)
            matrix = list(
                zip(*(ref.walsh_hadamard(column, int) for column in columns), strict=True)
            )
        for i in range(p):
            row = ref.hadamard_row(p, i, diagonals)
            self.assertEqual(row, list(matrix[i]))
            self.assertEqual(sum(x * x for x in row), p**3)
            self.assertEqual(sum(x * y for x, y in zip(row, matrix[i - 1], strict=True)), 0)

    def test_signs(self):
        signs = [
            sign
            for b in (0, 1, 2**32)
            for diagonal in ref.hadamard_signs(1, 512, b)
            for sign in diagonal
        ]
        self.assertEqual(set(signs), {-1, 1})
        self.assertLess(abs(sum(signs)), 250)
        self.assertEqual(len({tuple(signs[i : i + 128]) for i in range(0, len(signs), 128)}), 36)
        # A longer diagonal starts with the shorter one of the same block.
        for t in range(3):
            self.assertEqual(ref.hadamard_signs(1, 64, 1)[t], ref.hadamard_signs(1, 512, 1)[t][:64])
        words = ref.philox4x32_10((1, 7, 0, 2), ref.stream_key(1, "signs"))
        for k in (128, 129, 159, 160, 255):
            bit = words[(k - 128) // 32] >> (k % 32) & 1
            self.assertEqual(ref.hadamard_signs(1, 256, 7)[1][k], 1 - 2 * bit)

    def test_lengths(self):
        for p in (64, 128):
            squares = [ref.hadamard_radius(2, p, j) ** 2 for j in range(1000)]
            mean, variance = statistics.fmean(squares), statistics.pvariance(squares)
            self.assertLess(abs(mean - p), 5.0 * math.sqrt(2.0 * p / 1000))
            self.assertLess(abs(variance / (2.0 * p) - 1.0), 0.25)
        # All p elements: the length of a direction is r_j / l.
        for j, u in enumerate(ref.directions(ref.make_spec(64, 140, 2, 0.3, "hadamard"))):
            length = math.sqrt(ref.dot(u, u)) * 0.3
            self.assertLess(abs(length / ref.hadamard_radius(2, 64, j) - 1.0), 1e-6)

    def test_transform_and_matrix_agree(self):
        for d, m in ((1, 70), (5, 130), (64, 66), (70, 140)):
            for kernel in ("gaussian", "matern-1/2"):
                spec = ref.make_spec(d, 2 * m, 21, 1.7, "hadamard", kernel=kernel)
                y = make_golden.random_row(d, 5)
                norm = math.sqrt(ref.dot(y, y))
                rows = ref.directions(spec)
                p = ref.hadamard_size(d)
                for j, a in enumerate(ref.projections(spec, y)):
                    exact = ref.dot(rows[j], y)
                    # 3 log2(p) roundings of vectors whose length the transforms preserve.
                    length = ref.hadamard_factor(spec, j) * p**1.5
                    self.assertLess(abs(a - exact), 21 * 2.0**-24 * length * norm)


class Halton(unittest.TestCase):
    def test_primes(self):
        self.assertEqual(ref.primes(10), [2, 3, 5, 7, 11, 13, 17, 19, 23, 29])
        self.assertEqual(ref.primes(70)[-1], 349)

    def test_permutations(self):
        for i, b in ((0, 2), (1, 3), (9, 29), (2**20 - 1, 16290047)):
            pairs = ref.halton_permutations(ref.stream_key(1, "halton"), i, b)
            self.assertLessEqual(b ** len(pairs), 2**52)
            self.assertGreater(b ** (len(pairs) + 1), 2**52)
            self.assertTrue(all(1 <= A < b and 0 <= C < b for A, C in pairs))
        self.assertEqual(len(ref.halton_permutations(ref.stream_key(1, "halton"), 0, 2)), 52)

    def test_points_are_spread(self):
        for i, b in enumerate((2, 3, 5, 7)):
            pairs = ref.halton_permutations(ref.stream_key(4, "halton"), i, b)
            power = b
            while power <= 400:
                # Any b^k points from a multiple of b^k on have one in each interval of b^-k.
                for start in (0, 3 * power):
                    points = [ref.halton_point(b, pairs, j) for j in range(start, start + power)]
                    self.assertEqual(
                        [math.floor(v * power) for v in sorted(points)], [*range(power)]
                    )
                power *= b

    def test_ends(self):
        for b, places in ((2, 52), (3, 32), (349, 6)):
            lowest = ref.halton_point(b, [(1, 0)] * places, 0)
            highest = ref.halton_point(b, [(1, b - 1)] * places, 0)
            self.assertEqual(lowest, 1.0 / (2 * b**places))
            self.assertEqual(highest, 1.0 - 1.0 / (2 * b**places))
            self.assertTrue(math.isfinite(ref.quantile(lowest) + ref.quantile(highest)))


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
    """v minus its projections on each list of q in turn; modified: each c from the latest v."""
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


def scaled_gaussians(spec, element):
    """Rows of f32(element(g, j)) for the Gaussians g of the directions j of a spec."""
    key = ref.stream_key(spec["seed"], "directions")
    return [
        [ref.f32(element(g, j)) for g in ref.gaussian(key, spec["input_dim"], j)]
        for j in range(spec["output_dim"] // 2)
    ]


def from_integers(element):
    """Variant of `laplace` or `cauchy` that computes an element from the 53-bit integer and l."""

    def rows(spec):
        key = ref.stream_key(spec["seed"], "directions")
        return [
            [
                ref.f32(element(k, spec["length_scale"]))
                for k in ref.uniform_integers(key, spec["input_dim"], j)
            ]
            for j in range(spec["output_dim"] // 2)
        ]

    return rows


def tangent(k, length, combine=lambda c, s, length: (s / c) / length):
    cosine, sine = ref.cos_sin_2pi((2 * (k >> 1) + 1) * 2.0**-54)
    return combine(cosine, sine, length)


def exponential(k, length, combine=lambda e, length: e / length):
    e = -ref.ln(((k >> 1) + 1) * 2.0**-52)
    return combine(-e if k % 2 else e, length)


def squares(z, multiply_add=unfused):
    x = z[0] * z[0]
    for z_i in z[1:]:
        x = multiply_add(z_i, z_i, x)
    return x


def matern(combine):
    """Variant of a Matern kernel that computes an element from g, l and the normals z."""

    def rows(spec):
        n = ref.matern_order(spec["kernel"])
        key = ref.stream_key(spec["seed"], "matern")
        z = [ref.gaussian(key, n, j) for j in range(spec["output_dim"] // 2)]
        return scaled_gaussians(spec, lambda g, j: combine(g, spec["length_scale"], z[j]))

    return rows


def mixture(combine):
    """Variant of the mixture that computes an element from g, l and the scale."""

    def rows(spec):
        scales = [
            spec["scales"][ref.mixture_component(spec, j)] for j in range(spec["output_dim"] // 2)
        ]
        return scaled_gaussians(spec, lambda g, j: combine(g, spec["length_scale"], scales[j]))

    return rows


def grouped_sum(x, size=16, order=lambda values: values):
    s = 0.0
    for first in order(range(0, len(x), size)):
        s += ref.ln(math.prod(order(x[first : first + size])))
    return s


def hadamard_factors(
    spec, total=grouped_sum, combine=lambda r, p, length: r / ((p * math.sqrt(p)) * length)
):
    """The e_j with one detail of the definition changed."""
    p = ref.hadamard_size(spec["input_dim"])
    key = ref.stream_key(spec["seed"], "radial")
    factors = []
    for j in range(spec["output_dim"] // 2):
        x = [(k + 1) * 2.0**-53 for k in ref.uniform_integers(key, p // 2, j)]
        r = math.sqrt(-2.0 * total(x))
        factors.append(combine(r, float(p), ref.direction_length_scale(spec, j)))
    return factors


def hadamard(**changes):
    """Variant of the explicit matrix; the projections have the same e_j."""

    def rows(spec):
        p = ref.hadamard_size(spec["input_dim"])
        result = []
        for j, e in enumerate(hadamard_factors(spec, **changes)):
            w = ref.hadamard_row(p, j % p, ref.hadamard_signs(spec["seed"], p, j // p))
            result.append([ref.f32(e * float(w_k)) for w_k in w[: spec["input_dim"]]])
        return result

    return rows


def halton_times_inverse(spec):
    key = ref.stream_key(spec["seed"], "halton")
    coordinates = [
        (b, ref.halton_permutations(key, i, b)) for i, b in enumerate(ref.primes(spec["input_dim"]))
    ]
    factor = 1.0 / spec["length_scale"]
    return [
        [ref.f32(ref.quantile(ref.halton_point(b, perm, j)) * factor) for b, perm in coordinates]
        for j in range(spec["output_dim"] // 2)
    ]


HADAMARD_CHANGES = {
    "groups of 8": {"total": lambda x: grouped_sum(x, 8)},
    "groups of 32": {"total": lambda x: grouped_sum(x, 32)},
    "no groups": {"total": lambda x: grouped_sum(x, 1)},
    "right to left": {"total": lambda x: grouped_sum(x, order=lambda values: values[::-1])},
    "(r / l) / p^(3/2)": {"combine": lambda r, p, length: (r / length) / (p * math.sqrt(p))},
    "(r / p^(3/2)) / l": {"combine": lambda r, p, length: (r / (p * math.sqrt(p))) / length},
    "times 1 / l": {"combine": lambda r, p, length: r / (p * math.sqrt(p)) * (1.0 / length)},
}

MATERN_VARIANTS = {
    "as defined": matern(lambda g, a, z: g / (a * math.sqrt(squares(z) / len(z)))),
    "(g / l) / sqrt": matern(lambda g, a, z: (g / a) / math.sqrt(squares(z) / len(z))),
    "times 1 / l": matern(lambda g, a, z: g * (1.0 / (a * math.sqrt(squares(z) / len(z))))),
    "root in the numerator": matern(lambda g, a, z: g * math.sqrt(len(z) / squares(z)) / a),
    "root of l^2": matern(lambda g, a, z: g / math.sqrt(a * a * squares(z) / len(z))),
}
LONG_MATERN_VARIANTS = MATERN_VARIANTS | {
    "(l sqrt(x)) / sqrt(n)": matern(
        lambda g, a, z: g / (a * math.sqrt(squares(z)) / math.sqrt(len(z)))
    ),
    "l (sqrt(x) / sqrt(n))": matern(
        lambda g, a, z: g / (a * (math.sqrt(squares(z)) / math.sqrt(len(z))))
    ),
    "fused squares": matern(
        lambda g, a, z: g / (a * math.sqrt(squares(z, fused) / len(z))),
    ),
    "squares backwards": matern(
        lambda g, a, z: g / (a * math.sqrt(squares(z[::-1]) / len(z))),
    ),
}

# (kernel, directions) -> variants of the rows; the first is none.
KERNEL_VARIANTS = {
    ("laplace", "iid"): {
        "as defined": from_integers(tangent),
        "sin / (cos * l)": from_integers(
            lambda k, a: tangent(k, a, lambda c, s, length: s / (c * length))
        ),
        "times 1 / l": from_integers(
            lambda k, a: tangent(k, a, lambda c, s, length: (s / c) * (1.0 / length))
        ),
        "(sin / l) / cos": from_integers(
            lambda k, a: tangent(k, a, lambda c, s, length: (s / length) / c)
        ),
        "another last bit": from_integers(lambda k, a: tangent(k + 2, a)),
    },
    ("cauchy", "iid"): {
        "as defined": from_integers(exponential),
        "times 1 / l": from_integers(
            lambda k, a: exponential(k, a, lambda e, length: e * (1.0 / length))
        ),
        "another last bit": from_integers(lambda k, a: exponential(k + 2, a)),
    },
    ("matern-1/2", "iid"): MATERN_VARIANTS,
    ("matern-3/2", "iid"): LONG_MATERN_VARIANTS,
    ("matern-5/2", "iid"): LONG_MATERN_VARIANTS,
    ("mixture", "iid"): {
        "as defined": mixture(lambda g, a, s: g / (a * s)),
        "(g / l) / s": mixture(lambda g, a, s: (g / a) / s),
        "(g / s) / l": mixture(lambda g, a, s: (g / s) / a),
        "times 1 / l": mixture(lambda g, a, s: g * (1.0 / (a * s))),
    },
    ("gaussian", "hadamard"): {
        "as defined": hadamard(),
        **{name: hadamard(**changes) for name, changes in HADAMARD_CHANGES.items()},
    },
    ("gaussian", "halton"): {
        "as defined": ref.directions,
        "times 1 / l": halton_times_inverse,
    },
}


class Sensitivity(unittest.TestCase):
    """The golden files detect a changed order of operations, not only a wrong formula."""

    def golden_directions(self, family, input_dims):
        for case in read_golden("directions.json")["cases"]:
            if case["spec"]["directions"] == family and case["spec"]["input_dim"] in input_dims:
                rows = [[ref.f32_from_bits(int(x, 16)) for x in u] for u in case["directions"]]
                yield case["spec"], rows

    def check_variants(self, input_dims, variants):
        cases = [
            (spec, rows)
            for spec, rows in self.golden_directions("orthogonal", input_dims)
            if spec["kernel"] == "gaussian"
        ]
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
            if spec["kernel"] != "gaussian":
                continue
            key = ref.stream_key(spec["seed"], "directions")
            factor = 1.0 / spec["length_scale"]
            for j, row in enumerate(rows):
                gaussian = ref.gaussian(key, spec["input_dim"], j)
                changed |= row != [ref.f32(x * factor) for x in gaussian]
        self.assertTrue(changed)

    def test_kernels(self):
        for (kernel, family), variants in KERNEL_VARIANTS.items():
            cases = [
                (spec, rows)
                for spec, rows in self.golden_directions(family, (3, 70))
                if spec["kernel"] == kernel and spec["output_dim"] == 6
            ]
            self.assertTrue(cases)
            for name, variant in variants.items():
                with self.subTest(kernel=kernel, family=family, name=name):
                    changed = any(variant(spec) != rows for spec, rows in cases)
                    self.assertEqual(changed, name != "as defined")

    def test_quantile(self):
        def fused_horner(coefficients, r):
            result = coefficients[-1]
            for a in reversed(coefficients[:-1]):
                result = fused(result, r, a)
            return result

        def variant(
            v,
            horner=ref.horner,
            middle=lambda q, a, b: q * a / b,
            other=lambda v: 1.0 - v,
            square=lambda q: 0.180625 - q * q,
        ):
            q = v - 0.5
            if abs(q) <= 0.425:
                r = square(q)
                return middle(q, horner(ref.QUANTILE_A, r), horner(ref.QUANTILE_B, r))
            r = math.sqrt(-ref.ln(v if q < 0.0 else other(v)))
            if r <= 5.0:
                x = horner(ref.QUANTILE_C, r - 1.6) / horner(ref.QUANTILE_D, r - 1.6)
            else:
                x = horner(ref.QUANTILE_E, r - 5.0) / horner(ref.QUANTILE_F, r - 5.0)
            return math.copysign(x, q)

        cases = [
            tuple(ref.f64_from_bits(int(case[field], 16)) for field in ("v", "quantile"))
            for case in read_golden("quantile.json")["cases"]
        ]
        self.assertTrue(all(variant(v) == value for v, value in cases))
        for changes in (
            {"horner": fused_horner},
            {"middle": lambda q, a, b: q * (a / b)},
            {"middle": lambda q, a, b: q / b * a},
            {"square": lambda q: fused(-q, q, 0.180625)},
            {"square": lambda q: (0.425 - q) * (0.425 + q)},
        ):
            self.assertTrue(any(variant(v, **changes) != value for v, value in cases))

    def test_hadamard_projections(self):
        def project(spec, y, factors, up=True, rounded=ref.f32):
            p = ref.hadamard_size(spec["input_dim"])
            steps = [1 << i for i in range(p.bit_length() - 1)]
            result = []
            for j, e in enumerate(factors):
                if j % p == 0:
                    v = y + [0.0] * (p - len(y))
                    for signs in ref.hadamard_signs(spec["seed"], p, j // p):
                        v = [sign * v_k for sign, v_k in zip(signs, v, strict=True)]
                        for h in steps if up else steps[::-1]:
                            v = [
                                rounded(v[k ^ h] - v[k] if k & h else v[k] + v[k ^ h])
                                for k in range(p)
                            ]
                result.append(ref.f32(ref.f32(e) * ref.f32(v[j % p])))
            return result

        def features(spec, y, *arguments, **changes):
            c = ref.f32(1.0 / math.sqrt(spec["output_dim"] // 2))
            pairs = (ref.sincos32(a) for a in project(spec, y, *arguments, **changes))
            return [f"{ref.f32_bits(c * x):08x}" for s, c_a in pairs for x in (c_a, s)]

        cases = [
            case
            for case in read_golden("phi.json")["cases"]
            if case["spec"]["seed"] == make_golden.CLOSE_HADAMARD_SEED
        ]
        self.assertEqual(len(cases), 1)
        spec = cases[0]["spec"]
        self.assertEqual(spec["normalize"], "none")
        rows = [[ref.f32_from_bits(int(x, 16)) for x in row] for row in cases[0]["rows"]]

        def changed(*arguments, **changes):
            return [features(spec, row, *arguments, **changes) for row in rows] != cases[0]["phi"]

        exact = hadamard_factors(spec)
        self.assertFalse(changed(exact))
        self.assertTrue(changed(exact, up=False))
        self.assertTrue(changed(exact, rounded=float))
        for name, changes in HADAMARD_CHANGES.items():
            with self.subTest(name):
                self.assertTrue(changed(hadamard_factors(spec, **changes)))

    def changes_phi(self, normalize, variant):
        """Whether the phi of some row of phi.json changes if step 1 is replaced by variant."""
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
            for spec in combinations(3, 8, 1, 1.0, normalize):
                bits = [ref.f32_bits(x) for x in ref.phi(spec, [0.0, -0.0, 0.0])]
                self.assertEqual(bits, [0x3F000000, 0] * 4)

    def test_refused_rows(self):
        for family in ref.DIRECTIONS:
            spec = ref.make_spec(2, 8, 1, 1e-3, family)
            for row in ([math.inf, 0.0], [math.nan, 0.0], [1e38, 1e38]):
                with self.assertRaises(ValueError):
                    ref.phi(spec, row)

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
        self.mixture = ref.make_spec(
            3, 8, 7, 0.5, "iid", kernel="mixture", scales=[1.0, 2.0], weights=[0.5, 0.25]
        )
        self.standardize = ref.make_spec(2, 4, 7, 0.5, "iid", "standardize", [0.0, 1.0], [1.0, 2.0])

    def refused(self, spec, renew_ids=True):
        spec = copy.deepcopy(spec)
        if renew_ids:
            # Ids that match the changed document, so that only the change itself is refused.
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
        text = (
            "veridical-spec/1\nformat=1\ninput_dim=2\noutput_dim=4\nseed=7\nkernel=mixture\n"
            "length_scale=3fe0000000000000\nscales=3ff0000000000000,4000000000000000\n"
            "weights=3fe0000000000000,4008000000000000\ndirections=halton\nnormalize=standardize\n"
            "means=0000000000000000,3ff0000000000000\n"
            "deviations=3ff0000000000000,4000000000000000\n"
        )
        spec = ref.make_spec(
            *(2, 4, 7, 0.5, "halton", "standardize", [0.0, 1.0], [1.0, 2.0]),
            kernel="mixture",
            scales=[1, 2.0],
            weights=[0.5, 3],
        )
        self.assertEqual(spec["spec_id"], hashlib.sha256(text.encode()).hexdigest())
        text = (
            "veridical-spec/1\nformat=1\ninput_dim=2\noutput_dim=4\nseed=7\nkernel=matern-3/2\n"
            "length_scale=3ff0000000000000\ndirections=hadamard\nnormalize=none\n"
        )
        spec = ref.make_spec(2, 4, 7, 1.0, "hadamard", kernel="matern-3/2")
        self.assertEqual(spec["spec_id"], hashlib.sha256(text.encode()).hexdigest())

    def test_accepted(self):
        for spec in (self.plain, self.standardize, self.mixture):
            self.assertEqual(ref.parse_spec(json.dumps(spec)), spec)
        whole = dict(self.plain, length_scale=2)  # a number without a fraction is a number
        whole["spec_id"], whole["directions_id"] = ref.spec_id(whole), ref.directions_id(whole)
        ref.parse_spec(json.dumps(whole))
        ref.make_spec(1, 2, 2**53 - 1)
        ref.make_spec(256, 2**24, 0)

    def test_missing_and_unknown_fields(self):
        for spec in (self.plain, self.standardize, self.mixture):
            for field in spec:
                changed = dict(spec)
                del changed[field]
                self.refused(changed, renew_ids=False)
            self.refused(dict(spec, extra=1))
        self.refused(dict(self.plain, means=[0.0] * 3))
        self.refused(dict(self.plain, means=[0.0] * 3, deviations=[1.0] * 3))
        self.refused(dict(self.plain, scales=[1.0], weights=[1.0]))
        self.refused(dict(self.plain, scales=None, weights=None))

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
            "kernel": ("matern", "matern-7/2", "mixture", "Gaussian", "", 1, None, ["gaussian"]),
            "length_scale": (0.0, 0, -1.0, "1.0", "median", None, True, 10**400, [1.0]),
            "directions": ("IID", "Hadamard", "", None, 0, ["iid"]),
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

    def test_combinations(self):
        for kernel, families in ref.KERNELS.items():
            mixture = {"scales": [1.0], "weights": [1.0]} if kernel == "mixture" else {}
            for family in ref.DIRECTIONS:
                if family in families:
                    ref.make_spec(3, 4, 1, 1.0, family, kernel=kernel, **mixture)
                else:
                    with self.assertRaises(ref.SpecError):
                        ref.make_spec(3, 4, 1, 1.0, family, kernel=kernel, **mixture)
                    self.refused(dict(self.plain, kernel=kernel, directions=family))
        refused = [
            (kernel, family)
            for kernel, families in ref.KERNELS.items()
            for family in ref.DIRECTIONS
            if family not in families
        ]
        expected = [(f"matern-{n}/2", "halton") for n in (1, 3, 5)]
        expected += [(k, f) for k in ("laplace", "cauchy") for f in ref.DIRECTIONS if f != "iid"]
        self.assertEqual(sorted(refused), sorted(expected))

    def test_wrong_mixtures(self):
        for scales, weights in (
            ([], []),
            ([1.0], [1.0, 1.0]),
            ([1.0, 1.0], [1.0]),
            ([1.0] * 65, [1.0] * 65),
            ([1.0, 1.0], [1e308, 1e308]),
            ([0.0, 1.0], [1.0, 1.0]),
            ([1.0, 1.0], [1.0, 0.0]),
            ([-1.0], [1.0]),
            ([1.0], [-1.0]),
            (["1"], [1.0]),
            ([True], [1.0]),
            ([None], [1.0]),
            ([10**400], [1.0]),
            (1.0, 1.0),
            ("1", "1"),
            ({"0": 1.0}, {"0": 1.0}),
            (None, None),
        ):
            self.refused(dict(self.mixture, scales=scales, weights=weights))
        ref.make_spec(1, 2, 1, 1.0, "iid", kernel="mixture", scales=[1.0] * 64, weights=[2] * 64)
        with self.assertRaises(ref.SpecError):
            ref.make_spec(1, 2, 1, 1.0, "iid", kernel="mixture", scales=[1.0])
        with self.assertRaises(ref.SpecError):
            ref.make_spec(1, 2, 1, 1.0, "iid", scales=[1.0], weights=[1.0])

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
