//! sin and cos of f32, together, with the same bits at every SIMD width.
//!
//! |a| <= 2^13: a = n pi/2 + r by three fused steps (Cody & Waite), beyond: exact reduction with the
//! binary digits of 2/pi (Payne & Hanek). Then the minimax polynomials of Cephes on |r| <= pi/4.
//! At most 2 units in the last place for |a| <= 2^13: the ignored test below checks every f32.
//! `docs/format-spec.md` lists every operation.

use pulp::Simd;

/// Largest |a| for which the fast reduction is used.
pub(crate) const FAST_LIMIT: f32 = 8192.0;

const TWO_OVER_PI: f32 = f32::from_bits(0x3F22_F983);
/// Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
const ROUND: f32 = f32::from_bits(0x4B40_0000);
const PI_2: [f32; 3] =
    [f32::from_bits(0x3FC9_0FDB), f32::from_bits(0xB33B_BD2E), f32::from_bits(0xA6F7_2CED)];
const SIN: [f32; 3] =
    [f32::from_bits(0xBE2A_AAA3), f32::from_bits(0x3C08_839E), f32::from_bits(0xB94C_A1F9)];
const COS: [f32; 3] =
    [f32::from_bits(0x3D2A_AAA5), f32::from_bits(0xBAB6_061A), f32::from_bits(0x37CC_F5CE)];

/// The first 256 binary digits of 2/pi after the binary point.
const TWO_OVER_PI_DIGITS: [u64; 4] =
    [0xA2F9_836E_4E44_1529, 0xFC27_57D1_F534_DDC0, 0xDB62_9599_3C43_9041, 0xFE51_63AB_DEBB_C561];

/// Computes (sin a, cos a) of one number.
///
/// ```
/// let (sin, cos) = veridical_features::sincos(1e30);
/// assert!((f64::from(sin) - 1e30f32.sin() as f64).abs() < 2e-7);
/// assert!((sin * sin + cos * cos - 1.0).abs() < 4e-7);
/// ```
pub fn sincos(a: f32) -> (f32, f32) {
    if a.abs() <= FAST_LIMIT {
        sincos_fast(pulp::Scalar::new(), a)
    } else if a.is_finite() {
        let (r, q) = reduce_exactly(a);
        from_reduced(pulp::Scalar::new(), r, q)
    } else {
        (f32::NAN, f32::NAN)
    }
}

/// Computes (sin a, cos a) of a vector whose elements are at most [`FAST_LIMIT`] in absolute value.
#[inline(always)]
pub(crate) fn sincos_fast<S: Simd>(simd: S, a: S::f32s) -> (S::f32s, S::f32s) {
    let round = simd.splat_f32s(ROUND);
    let t = simd.mul_add_f32s(a, simd.splat_f32s(TWO_OVER_PI), round);
    let q = simd.transmute_u32s_f32s(t);
    let minus_n = simd.sub_f32s(round, t);
    let mut r = a;
    for part in PI_2 {
        r = simd.mul_add_f32s(minus_n, simd.splat_f32s(part), r);
    }
    from_reduced(simd, r, q)
}

/// Computes (sin, cos) from the remainder r and the quadrant q (its low two bits).
#[inline(always)]
fn from_reduced<S: Simd>(simd: S, r: S::f32s, q: S::u32s) -> (S::f32s, S::f32s) {
    let constant = |x| simd.splat_f32s(x);
    let z = simd.mul_f32s(r, r);
    let poly = |p: [f32; 3]| {
        let inner = simd.mul_add_f32s(constant(p[2]), z, constant(p[1]));
        simd.mul_add_f32s(inner, z, constant(p[0]))
    };
    let s = simd.mul_add_f32s(poly(SIN), simd.mul_f32s(z, r), r);
    let head = simd.mul_add_f32s(constant(-0.5), z, constant(1.0));
    let c = simd.mul_add_f32s(poly(COS), simd.mul_f32s(z, z), head);

    // Quadrants by integer arithmetic: swap s and c for odd q, then set the signs.
    let (s, c) = (simd.transmute_u32s_f32s(s), simd.transmute_u32s_f32s(c));
    let one = simd.splat_u32s(1);
    let odd = simd.sub_u32s(simd.splat_u32s(0), simd.and_u32s(q, one)); // all ones for odd q
    let exchange = simd.and_u32s(simd.xor_u32s(s, c), odd);
    let sign = |q| {
        let high = simd.wrapping_dyn_shl_u32s(q, simd.splat_u32s(30));
        simd.and_u32s(high, simd.splat_u32s(1 << 31))
    };
    let s = simd.xor_u32s(simd.xor_u32s(s, exchange), sign(q));
    let c = simd.xor_u32s(simd.xor_u32s(c, exchange), sign(simd.add_u32s(q, one)));
    (simd.transmute_f32s_u32s(s), simd.transmute_f32s_u32s(c))
}

/// Reduces a finite |a| > 2^13 to r and q exactly: a = I 2^e,
/// F = (I W) mod 2^96 for the 96 digits W of 2/pi from place e - 1 on.
fn reduce_exactly(a: f32) -> (f32, u32) {
    let bits = a.to_bits();
    let integer = u128::from((bits & 0x7F_FFFF) | 0x80_0000);
    let e = ((bits >> 23) & 0xFF) as i32 - 150; // |a| = integer * 2^e; e >= -10 here
    let digits = digits_96(e - 1);
    // The low 96 bits of a 120-bit product.
    let f = (integer * digits) & ((1 << 96) - 1);
    let q = (f + (1 << 93)) >> 94;
    let g = f as i128 - ((q as i128) << 94);
    let r = (g as f64 * 2f64.powi(-94) * std::f64::consts::FRAC_PI_2) as f32;
    if a < 0.0 { (-r, (q as u32).wrapping_neg()) } else { (r, q as u32) }
}

/// The digits `first` .. `first + 95` of 2/pi (counted from 1; 0 before the binary point).
fn digits_96(first: i32) -> u128 {
    let word = |w: i32| {
        let inside = usize::try_from(w).ok().and_then(|w| TWO_OVER_PI_DIGITS.get(w));
        u128::from(inside.copied().unwrap_or(0))
    };
    let start = first - 1; // 0 is the first digit after the binary point
    let (w, offset) = (start.div_euclid(64), start.rem_euclid(64) as u32);
    let high = (word(w) << 64) | word(w + 1);
    let window = (high << offset) | ((word(w + 2) << offset) >> 64);
    window >> 32
}

#[cfg(test)]
mod tests {
    use rayon::prelude::*;

    use super::*;

    /// Error in units in the last place of the f32 nearest to `want`.
    fn ulps(got: f32, want: f64) -> f64 {
        let near = (want.abs() as f32).max(f32::MIN_POSITIVE);
        let ulp = f64::from(f32::from_bits(near.to_bits() + 1)) - f64::from(near);
        (f64::from(got) - want).abs() / ulp
    }

    /// The f64 sine is accurate to far below an f32 ulp for every f32 argument.
    fn worst(range: impl ParallelIterator<Item = u32>) -> f64 {
        let error = |bits| {
            let a = f32::from_bits(bits);
            let (sin, cos) = sincos(a);
            let (want_sin, want_cos) = f64::from(a).sin_cos();
            ulps(sin, want_sin).max(ulps(cos, want_cos))
        };
        range.map(error).reduce(|| 0.0, f64::max)
    }

    #[test]
    fn sampled_arguments_are_within_two_ulp() {
        let worst = worst((0..FAST_LIMIT.to_bits() + 1).into_par_iter().step_by(4099));
        assert!(worst <= 2.0, "{worst} ulp");
    }

    #[test]
    fn large_arguments_are_reduced_exactly() {
        let worst =
            worst((FAST_LIMIT.to_bits()..f32::INFINITY.to_bits()).into_par_iter().step_by(1021));
        assert!(worst <= 2.0, "{worst} ulp");
    }

    /// Exhaustive, so it is not part of the normal run:
    /// `cargo test --release -p veridical-features -- --ignored sincos`
    #[test]
    #[ignore = "exhaustive over f32: takes a minute in release mode"]
    fn sincos_is_within_two_ulp_for_every_f32_up_to_the_limit() {
        let worst = worst((0..=FAST_LIMIT.to_bits()).into_par_iter());
        println!("worst error {worst} ulp");
        assert!(worst <= 2.0, "{worst} ulp");
    }

    #[test]
    fn sine_is_odd_cosine_is_even_and_infinity_is_nan() {
        for a in [0.1f32, 1.0, 100.0, 8192.0, 8193.0, 1e20, 3e38] {
            let ((s, c), (s_minus, c_minus)) = (sincos(a), sincos(-a));
            assert_eq!((s, c), (-s_minus, c_minus), "at {a}");
        }
        assert!(sincos(f32::INFINITY).0.is_nan() && sincos(f32::NAN).1.is_nan());
    }
}
