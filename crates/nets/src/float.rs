//! Floating-point types of layers: f32 for training and f64 for tests; every layer is written once for both.

use std::fmt::{Debug, Display};
use std::ops::Neg;

use faer::traits::RealField;

use crate::elementary;

/// A floating-point type that layers compute with.
pub trait Float:
    RealField + Copy + Default + Debug + Display + Neg<Output = Self> + Send + Sync + 'static
{
    /// The number 0.
    const ZERO: Self;
    /// The number 1.
    const ONE: Self;

    /// Rounds to the nearest number of this type.
    fn of(x: f64) -> Self;
    /// Converts to f64.
    fn wide(self) -> f64;
    /// Returns the square root.
    fn sqrt(self) -> Self;
    /// Returns the absolute value.
    fn abs(self) -> Self;
    /// Returns self b + c, rounded once: a single instruction on current CPUs, with the same result on all of them.
    fn fused(self, b: Self, c: Self) -> Self;
    /// Returns 2^n for the integer n in the low bits of `shifted` = n + [`Float::ROUND`].
    fn power_of_two(shifted: Self) -> Self;

    /// Constant whose addition rounds to an integer and leaves it in the low bits.
    const ROUND: Self;
    /// Argument below which exp is clamped.
    const EXP_LEAST: Self;
    /// Argument above which exp is clamped.
    const EXP_LARGEST: Self;
    /// ln 2 split in two parts: n times the first is exact for all n that occur.
    const LN_2: [Self; 2];
    /// Taylor coefficients of exp, 1/k! from the highest power down, enough for |r| <= ln 2 / 2.
    const EXP_SERIES: &'static [Self];

    /// Computes exp(x) in operations that vectorize: 2^n exp(r) with n the integer nearest to
    /// x / ln 2 and r = x - n ln 2 (Cody & Waite 1980).
    #[inline(always)]
    fn exp(self) -> Self {
        let x = if self > Self::EXP_LEAST { self } else { Self::EXP_LEAST };
        let x = if x < Self::EXP_LARGEST { x } else { Self::EXP_LARGEST };
        let shifted = x * Self::of(std::f64::consts::LOG2_E) + Self::ROUND;
        let n = shifted - Self::ROUND;
        let r = (x - n * Self::LN_2[0]) - n * Self::LN_2[1];
        let mut series = Self::ZERO;
        for &c in Self::EXP_SERIES {
            series = series * r + c;
        }
        let power = series * Self::power_of_two(shifted);
        if self.is_number() { power } else { self }
    }

    /// Computes 1 - Phi(x) of the normal distribution for x >= 0, given e = exp(-x^2/2).
    fn upper_tail(x: Self, e: Self) -> Self;

    /// Returns whether the value is not NaN.
    #[inline(always)]
    #[expect(clippy::eq_op, reason = "NaN alone differs from itself")]
    fn is_number(self) -> bool {
        self == self
    }

    /// Returns the larger of two numbers.
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        if self > other { self } else { other }
    }
}

impl Float for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const ROUND: Self = 12_582_912.0; // 1.5 2^23
    const EXP_LEAST: Self = -87.0;
    const EXP_LARGEST: Self = 88.0;
    const LN_2: [Self; 2] = [0.693_359_4, -2.121_944_4e-4];
    const EXP_SERIES: &'static [Self] =
        &[1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];

    #[inline(always)]
    fn of(x: f64) -> Self {
        x as Self
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self::sqrt(self)
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Self::abs(self)
    }
    #[inline(always)]
    fn fused(self, b: Self, c: Self) -> Self {
        self.mul_add(b, c)
    }
    #[inline(always)]
    fn power_of_two(shifted: Self) -> Self {
        Self::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23))
    }
    #[inline(always)]
    fn upper_tail(x: Self, e: Self) -> Self {
        e * elementary::tail_ratio(x)
    }
}

impl Float for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const ROUND: Self = 6_755_399_441_055_744.0; // 1.5 2^52
    const EXP_LEAST: Self = -708.0;
    const EXP_LARGEST: Self = 709.0;
    const LN_2: [Self; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];
    const EXP_SERIES: &'static [Self] = &[
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

    #[inline(always)]
    fn of(x: f64) -> Self {
        x
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self::sqrt(self)
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Self::abs(self)
    }
    #[inline(always)]
    fn fused(self, b: Self, c: Self) -> Self {
        self.mul_add(b, c)
    }
    #[inline(always)]
    fn power_of_two(shifted: Self) -> Self {
        Self::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52))
    }
    #[inline(always)]
    fn upper_tail(x: Self, e: Self) -> Self {
        elementary::upper_tail(x, e)
    }
}

/// Runs a loop with the widest vectors of this CPU. The operations are exactly those written, so results are the same on
/// every CPU. The closure must be marked `#[inline(always)]`, and so must closures that it calls. It should be `move`:
/// captures by reference are reloaded in every iteration, and loops over three slices are then not vectorized.
#[inline(always)]
pub(crate) fn wide<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}

/// Work on tiles of R rows and two vectors, C values of f32. The sums stay in registers, and there are enough of them to
/// hide the latency of an addition: eight of the sixteen registers of AVX2, twelve of the thirty-two of AVX-512.
pub(crate) trait ByTiles {
    /// Must be marked `#[inline(always)]`; the result must not depend on R and C.
    fn run<const R: usize, const C: usize>(self);
}

/// Runs such work with the widest vectors of this CPU, like [`wide`].
pub(crate) fn by_tiles(work: impl ByTiles) {
    struct Dispatched<W>(W);
    impl<W: ByTiles> pulp::WithSimd for Dispatched<W> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: pulp::Simd>(self, _: S) {
            match S::F32_LANES {
                16.. => self.0.run::<6, 32>(),
                _ => self.0.run::<4, 16>(),
            }
        }
    }
    pulp::Arch::new().dispatch(Dispatched(work));
}

/// Number of partial sums in [`sum`].
const LANES: usize = 16;

/// The sum of a term over all indices of lists of equal length, always in the same order: index i is added to sum
/// i mod 16, and the sums are added pairwise. Must be called inside [`wide`].
#[inline(always)]
#[expect(
    clippy::needless_range_loop,
    reason = "maps of arrays are calls, which prevent vectorization"
)]
pub(crate) fn sum<T: Float, const N: usize>(lists: [&[T]; N], term: impl Fn([T; N]) -> T) -> T {
    let mut sums = [T::ZERO; LANES];
    let len = lists[0].len();
    let mut whole: [&[[T; LANES]]; N] = [&[]; N];
    for n in 0..N {
        whole[n] = &lists[n].as_chunks::<LANES>().0[..len / LANES];
    }
    for i in 0..len / LANES {
        for k in 0..LANES {
            let mut at = [T::ZERO; N];
            for n in 0..N {
                at[n] = whole[n][i][k];
            }
            sums[k] += term(at);
        }
    }
    for i in len / LANES * LANES..len {
        let mut at = [T::ZERO; N];
        for n in 0..N {
            at[n] = lists[n][i];
        }
        sums[i % LANES] += term(at);
    }
    let mut eight = [T::ZERO; 8];
    for k in 0..8 {
        eight[k] = sums[k] + sums[k + 8];
    }
    let [a, b, c, d, e, f, g, h] = eight;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seven terms leave r^8/8! < 5.2e-9 of f32's 6e-8; Horner's rule and the scaling add about one ulp, the
    /// reduction x - n ln 2 half an ulp of x below 88: 2^-24 (2 + 88 2^-16 ..), in total below 4 ulp.
    #[test]
    fn exp_as_the_library_has_it() {
        for i in -87_000..88_000 {
            let x = i as f32 / 1000.0;
            let (got, want) = (Float::exp(x), f64::from(x).exp());
            assert!((f64::from(got) - want).abs() <= 2.4e-7 * want, "{x}: {got} {want}");
            let x = f64::from(i) / 124.5;
            let (got, want) = (Float::exp(x), x.exp());
            assert!((got - want).abs() <= 7e-16 * want, "{x}: {got} {want}");
        }
        assert!(Float::exp(f32::NAN).is_nan() && Float::exp(f64::NAN).is_nan());
        assert_eq!((Float::exp(0.0f32), Float::exp(0.0f64)), (1.0, 1.0));
    }

    /// Integers below 2^53 are added without rounding in any order.
    #[test]
    fn sums_leave_nothing_out() {
        for len in [0, 1, 15, 16, 17, 100] {
            let (a, b): (Vec<f64>, Vec<f64>) = (0..len).map(|i| (f64::from(i), 3.0)).unzip();
            let want: f64 = (0..len).map(|i| f64::from(3 * i)).sum();
            assert_eq!(sum([&a, &b], |[a, b]| a * b), want, "{len}");
        }
    }
}
