//! Exponential of nonpositive numbers, written so that a loop over a slice vectorizes.
//!
//! exp(x) = 2^n exp(r),  n the integer nearest to x / ln 2,  r = x - n ln 2, |r| <= ln 2 / 2, with ln 2 in two parts
//! (Cody & Waite 1980). exp(r) by its series to r^12, whose next term is below 1.7e-16. The exponent of the result is
//! read from the low bits of x / ln 2 + 1.5 2^52.

const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Adding this constant rounds to an integer, which is then in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// Arguments are clamped here; exp(-708) is 3e-308.
const LEAST: f64 = -708.0;

/// Taylor coefficients 1/12!, 1/11!, .., 1/0!.
const SERIES: [f64; 13] = [
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
    1.0,
    1.0,
];

/// Computes exp(x) for x <= 0.
///
/// Arguments below -708 return exp(-708), about 3e-308.
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    let x = if x > LEAST { x } else { LEAST };
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN2_HIGH) - n * LN2_LOW;
    let series = SERIES.iter().fold(0.0, |sum, c| sum * r + c);
    let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
    series * power
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The series is off by 1.7e-16, Horner's rule and the last product by an ulp each: 6e-16 in total.
    #[test]
    fn as_the_library_has_it() {
        for i in 0..200_000 {
            let x = -f64::from(i) * f64::from(i) * 1.77e-8;
            let (got, want) = (exp(x), x.exp());
            assert!((got - want).abs() <= 6e-16 * want, "{x}: {got} {want}");
        }
        assert_eq!((exp(0.0), exp(-0.0)), (1.0, 1.0));
        assert!(exp(-1e9) < 1e-300 && exp(f64::NEG_INFINITY) < 1e-300);
    }
}
