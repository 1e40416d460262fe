//! tanh, sigmoid, softplus, erf and the normal distribution, written so that loops vectorize: selects instead of
//! branches, one division each.
//!
//! tanh x       = x + x^3 P(x^2)/Q(x^2) for |x| < 0.625 (Cephes, Moshier 1989), else 1 - 2/(e^2x + 1)
//! sigmoid x    = 1/(1 + e^-x)
//! softplus x   = ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|)
//! Phi x        = in f32 1 - e^(-x^2/2) t Q(t), t = 1/(1 + 0.35 x), x >= 0 (the form of Hastings 1955); in f64 from erf
//! erf x        = x A(x^2)/B(x^2) for |x| < 0.46875, else 1 - e^(-x^2) C(x)/D(x) (Cody 1969, Math. Comp. 23)
//! ln(1 + u)    = fdlibm's series in s = f/(2 + f), 1 + u = 2^k (1 + f), for u in [0, 1]
//!
//! Relative errors are a few units in the last place, also near 0; NaN stays NaN. Cody's C/D is designed for |x| < 4;
//! beyond, 1 - erf is still accurate to a relative 1e-10 for |x| < 9, which is negligible in erf.

use crate::Float;

const TANH_P: [f64; 3] =
    [-9.643_991_794_250_522e-1, -9.928_772_310_019_186e1, -1.614_687_684_417_084_5e3];
const TANH_Q: [f64; 4] =
    [1.0, 1.128_116_784_916_329_3e2, 2.235_488_390_601_004_5e3, 4.844_063_053_251_255e3];

const ERF_A: [f64; 5] = [
    1.857_777_061_846_031_5e-1,
    3.161_123_743_870_565_6,
    1.138_641_541_510_501_6e2,
    3.774_852_376_853_02e2,
    3.209_377_589_138_469_5e3,
];
const ERF_B: [f64; 5] = [
    1.0,
    2.360_129_095_234_412e1,
    2.440_246_379_344_441_7e2,
    1.282_616_526_077_372_3e3,
    2.844_236_833_439_171e3,
];
const ERF_C: [f64; 9] = [
    2.153_115_354_744_038_5e-8,
    5.641_884_969_886_701e-1,
    8.883_149_794_388_376,
    6.611_919_063_714_163e1,
    2.986_351_381_974_001e2,
    8.819_522_212_417_69e2,
    1.712_047_612_634_070_6e3,
    2.051_078_377_826_071_5e3,
    1.230_339_354_797_997_2e3,
];
const ERF_D: [f64; 9] = [
    1.0,
    1.574_492_611_070_983_5e1,
    1.176_939_508_913_125e2,
    5.371_811_018_620_099e2,
    1.621_389_574_566_690_2e3,
    3.290_799_235_733_459_6e3,
    4.362_619_090_143_247e3,
    3.439_367_674_143_721_6e3,
    1.230_339_354_803_749_4e3,
];
/// Scale of t = 1/(1 + 0.35 x).
const TAIL_SCALE: f32 = 0.35;
/// Polynomial Q of degree 8 with t Q(t) = (1 - Phi(x)) exp(x^2/2) (1 + d), |d| < 3.3e-8 for 0 <= x < 14: a minimax
/// fit by reweighted least squares.
const TAIL_Q: [f64; 9] = [
    -0.029_145_070_677_416_784,
    0.143_967_371_105_346_6,
    -0.255_704_981_490_886_44,
    0.159_163_139_661_910_3,
    -0.023_101_916_233_518_656,
    0.105_504_493_846_523_38,
    0.119_833_801_363_412_8,
    0.139_861_733_966_210_68,
    0.139_621_412_514_296_94,
];
/// The |x| at which erf changes its formula.
const ERF_SMALL: f64 = 0.46875;
/// Beyond this |x|, erf is 1 and C/D could overflow.
const ERF_LARGE: f64 = 27.0;

const LN_SERIES: [f64; 7] = [
    1.479_819_860_511_658_6e-1,
    1.531_383_769_920_937_3e-1,
    1.818_357_216_161_805e-1,
    2.222_219_843_214_978_4e-1,
    2.857_142_874_366_239e-1,
    3.999_999_999_940_942e-1,
    6.666_666_666_666_735e-1,
];

/// Evaluates a polynomial, highest power first.
#[inline(always)]
fn horner<T: Float, const N: usize>(coefficients: [f64; N], x: T) -> T {
    let mut value = T::of(coefficients[0]);
    for &c in &coefficients[1..] {
        value = value * x + T::of(c);
    }
    value
}

#[inline(always)]
fn select<T>(condition: bool, yes: T, no: T) -> T {
    if condition { yes } else { no }
}

/// The sign of x, 1 at 0.
#[inline(always)]
fn sign<T: Float>(x: T) -> T {
    select(x < T::ZERO, -T::ONE, T::ONE)
}

/// tanh x.
#[inline(always)]
pub(crate) fn tanh<T: Float>(x: T) -> T {
    let two = T::of(2.0);
    let small = x.abs() < T::of(0.625);
    let z = x * x;
    let numerator = select(small, x * z * horner(TANH_P, z), -two * sign(x));
    let denominator = select(small, horner(TANH_Q, z), (two * x.abs()).exp() + T::ONE);
    select(small, x, sign(x)) + numerator / denominator
}

/// 1/(1 + e^-x).
#[inline(always)]
pub(crate) fn sigmoid<T: Float>(x: T) -> T {
    let e = (-x.abs()).exp();
    select(x < T::ZERO, e, T::ONE) / (T::ONE + e)
}

/// ln(1 + e^x).
#[inline(always)]
pub(crate) fn softplus<T: Float>(x: T) -> T {
    T::ZERO.larger(x) + ln_1p((-x.abs()).exp())
}

/// ln(1 + u) for u in [0, 1].
#[inline(always)]
pub(crate) fn ln_1p<T: Float>(u: T) -> T {
    let half = T::of(0.5);
    let halved = u > T::of(std::f64::consts::SQRT_2 - 1.0);
    let f = select(halved, (u - T::ONE) * half, u);
    let square = half * f * f;
    let s = f / (T::of(2.0) + f);
    let z = s * s;
    let series = s * (square + z * horner(LN_SERIES, z));
    let [high, low] = T::LN_2;
    select(halved, high + (f - (square - (series + low))), f - (square - series))
}

/// erf x and 1 - erf |x|, given e = exp(-x^2).
#[inline(always)]
fn erf_and_rest<T: Float>(x: T, e: T) -> (T, T) {
    let small = x.abs() < T::of(ERF_SMALL);
    let y = select(x.abs() < T::of(ERF_LARGE), x.abs(), T::of(ERF_LARGE));
    let z = x * x;
    let numerator = select(small, x * horner(ERF_A, z), horner(ERF_C, y));
    let denominator = select(small, horner(ERF_B, z), horner(ERF_D, y));
    let ratio = numerator / denominator;
    let rest = e * ratio;
    (select(small, ratio, sign(x) - sign(x) * rest), select(small, T::ONE - ratio.abs(), rest))
}

/// erf x = 2/sqrt(pi) int_0^x e^(-t^2) dt.
#[inline(always)]
pub(crate) fn erf<T: Float>(x: T) -> T {
    erf_and_rest(x, (-(x * x)).exp()).0
}

/// 1 - Phi(x) for x >= 0, given e = exp(-x^2/2), to the precision of f64.
#[inline(always)]
pub(crate) fn upper_tail<T: Float>(x: T, e: T) -> T {
    T::of(0.5) * erf_and_rest(x * T::of(std::f64::consts::FRAC_1_SQRT_2), e).1
}

/// (1 - Phi(x)) exp(x^2/2) for x >= 0 to the precision of f32: t Q(t).
#[inline(always)]
pub(crate) fn tail_ratio(x: f32) -> f32 {
    let t = 1.0 / (1.0 + TAIL_SCALE * x);
    t * horner(TAIL_Q, t)
}

/// The standard normal distribution function and density at x.
#[inline(always)]
pub(crate) fn normal<T: Float>(x: T) -> (T, T) {
    let e = (T::of(-0.5) * x * x).exp();
    let rest = T::upper_tail(x.abs(), e);
    let density =
        e * T::of(std::f64::consts::FRAC_1_SQRT_2 * std::f64::consts::FRAC_2_SQRT_PI / 2.0);
    (select(x < T::ZERO, rest, T::ONE - rest), density)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A grid with many points near 0 and both signs, within +-`end`.
    fn grid(end: f64) -> impl Iterator<Item = f64> {
        let near =
            (0..300).map(|k| 1e-30 * 10f64.powf(f64::from(k) / 10.0)).filter(move |x| *x < end);
        let far = (0..20_000).map(move |k| f64::from(k) * end / 20_000.0);
        near.chain(far).flat_map(|x| [x, -x])
    }

    /// Checks f64 to within `wide` units in the last place and f32 to within `narrow`, over a grid.
    fn close(
        end: f64,
        f64s: impl Fn(f64) -> f64,
        f32s: impl Fn(f32) -> f32,
        want: impl Fn(f64) -> f64,
        [wide, narrow]: [f64; 2],
    ) {
        for x in grid(end) {
            let (got, want64) = (f64s(x), want(x));
            let ulp = want64.abs().next_up() - want64.abs();
            assert!((got - want64).abs() <= wide * ulp, "{x}: {got} instead of {want64}");
            let x = x as f32;
            let (got, want32) = (f32s(x), want(f64::from(x)));
            let ulp = f64::from((want32.abs() as f32).next_up()) - f64::from(want32.abs() as f32);
            assert!(
                (f64::from(got) - want32).abs() <= narrow * ulp,
                "f32 {x}: {got} instead of {want32}"
            );
        }
    }

    /// exp is accurate to 3 ulp (see there), x^2 and Horner's rule with terms of one sign add a few more, the last
    /// operation half an ulp; std's functions are accurate to 1 ulp.
    #[test]
    fn functions_of_the_library() {
        close(30.0, tanh, tanh, f64::tanh, [3.0, 3.0]);
        close(
            80.0,
            sigmoid,
            sigmoid,
            |x| if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) },
            [6.0, 6.0],
        );
        close(80.0, softplus, softplus, |x| x.max(0.0) + (-x.abs()).exp().ln_1p(), [6.0, 6.0]);
        let ln = |x: f64| ln_1p(x.abs());
        close(1.0, ln, |x| ln_1p(x.abs()), |x| x.abs().ln_1p(), [2.0, 2.0]);
    }

    /// Values of mpmath 1.3 with 40 digits: x, erf x, 1 - erf x.
    const ERF: [(f64, f64, f64); 20] = [
        (1e-20, 1.1283791670955125e-20, 1.0),
        (1e-10, 1.1283791670955126e-10, 0.999999999887162),
        (0.001, 0.0011283787909692365, 0.9988716212090307),
        (0.1, 0.1124629160182849, 0.887537083981715),
        (0.25, 0.27632639016823696, 0.7236736098317631),
        (0.46875, 0.49261347321793797, 0.507386526782062),
        (0.5, 0.5204998778130465, 0.4795001221869535),
        (0.75, 0.7111556336535151, 0.28884436634648486),
        (1.0, 0.8427007929497149, 0.15729920705028513),
        (1.5, 0.9661051464753108, 0.033894853524689274),
        (2.0, 0.9953222650189527, 0.004677734981047266),
        (2.5, 0.999593047982555, 0.0004069520174449589),
        (3.0, 0.9999779095030014, 2.209049699858544e-05),
        (3.5, 0.9999992569016276, 7.430983723414128e-07),
        (4.0, 0.9999999845827421, 1.541725790028002e-08),
        (4.5, 0.9999999998033839, 1.9661604415428876e-10),
        (5.0, 0.9999999999984626, 1.537459794428035e-12),
        (5.5, 0.9999999999999927, 7.357847917974398e-15),
        (6.0, 1.0, 2.1519736712498913e-17),
        (10.0, 1.0, 2.088487583762545e-45),
    ];

    /// Cody's ratios are accurate to 1.1e-16, x^2 in exp costs x^2 e^(-x^2) 2^-53 < 2^-54 of erf, the rest as above. The
    /// tail of the normal distribution, relative to itself, has the full x^2 2^-53 and the error of C/D beyond 4.
    #[test]
    fn erf_and_the_normal_distribution_are_those_of_mpmath() {
        for (x, want, rest) in ERF {
            for s in [1.0, -1.0] {
                let got = erf(s * x);
                assert!((got - s * want).abs() <= 4.5e-16 * want, "{x}: {got} instead of {want}");
            }
            let (tail, _) = normal(-x * std::f64::consts::SQRT_2);
            let allowed = if x > 4.0 { 1e-8 } else { 1e-16 * (5.0 + 4.0 * x * x) };
            assert!((2.0 * tail - rest).abs() <= allowed * rest, "{x}: {tail} instead of {rest}");
        }
        close(8.0, erf, erf, erf, [0.0, 4.0]);
        for x in grid(6.0) {
            let ((below, density), (above, _)) = (normal(x), normal(-x));
            assert!((below + above - 1.0).abs() <= 3e-16);
            let want = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
            assert!((density - want).abs() <= 2e-15 * want);
        }
    }

    /// The fit is off by 3.3e-8 < 2^-24, t and Horner's rule with few sign changes by some 2^-22, exp by 2^-22 and, since
    /// x^2/2 is rounded, by x^2 2^-24.
    #[test]
    fn the_normal_distribution_in_f32_is_that_in_f64() {
        for x in grid(12.0) {
            let x = x as f32;
            let ((got, density), want) = (normal(x), normal(f64::from(x)));
            let near = |got: f32, want: f64| {
                let allowed = 2f64.powi(-24) * (16.0 + f64::from(x * x));
                (f64::from(got) - want).abs() <= allowed * want
            };
            assert!(near(got, want.0) && near(density, want.1), "{x}: {got} {density} {want:?}");
        }
    }

    #[test]
    fn nan_and_infinity() {
        for f in [tanh, sigmoid, softplus, erf] as [fn(f32) -> f32; 4] {
            assert!(f(f32::NAN).is_nan());
        }
        assert!(normal(f32::NAN).0.is_nan());
        assert_eq!([tanh(f32::INFINITY), tanh(f32::NEG_INFINITY)], [1.0, -1.0]);
        assert_eq!([erf(f32::INFINITY), erf(-1e30f32)], [1.0, -1.0]);
        assert_eq!((sigmoid(f32::INFINITY), softplus(f64::INFINITY)), (1.0, f64::INFINITY));
        assert!(sigmoid(-1e30f32) < 1e-37 && softplus(-1e30f32) < 1e-37);
        assert_eq!(normal(1e30f32).0, 1.0);
    }
}
