//! Dropout (Srivastava et al. 2014).
//!
//! y = x m / (1 - p) in training, with m = 0 with probability p and 1 otherwise, independently for each value; y = x when frozen.
//! dx = dy m / (1 - p).
//!
//! p is rounded to multiples of 2^-16: a value is kept if its 16 random bits, as a number, are at least 2^16 p. The bits
//! depend on the sample alone, not on how the batch is split, and are drawn again in the backward pass instead of being
//! stored. Sixteen blocks of four words hold the bits of 128 values: all first words, then all second ones, .., low half
//! before high half. In this order a loop draws several blocks at once.

use veridical_core::Place;

use crate::float::wide;
use crate::{Backward, Error, Float, Forward, Layer, Mode, Result, Shape};

/// Dropout layer, which zeroes values at random in training.
#[derive(Clone, Debug)]
pub struct Dropout {
    /// Threshold 2^16 p.
    threshold: u16,
}

/// Number of blocks that are drawn at once,
const BLOCKS: usize = 16;
/// and the number of values that they mask.
const VALUES: usize = 8 * BLOCKS;

impl Dropout {
    /// Creates dropout with probability `p`.
    ///
    /// # Errors
    /// A request error unless p is in [0, 1).
    pub fn new(p: f64) -> Result<Self> {
        if !(0.0..1.0).contains(&p) {
            return Err(Error::request(format!(
                "the dropout probability must be at least 0 and below 1, got {p}"
            )));
        }
        Ok(Self { threshold: (p * 65536.0).round().min(65535.0) as u16 })
    }

    /// Returns the dropout probability p.
    pub fn probability(&self) -> f64 {
        f64::from(self.threshold) / 65536.0
    }

    /// The scale 1/(1 - p).
    fn scale<T: Float>(&self) -> T {
        T::of(65536.0 / (65536.0 - f64::from(self.threshold)))
    }

    /// The factors m / (1 - p), with the random bits of `place` from block `first` on. Must be called inside [`wide`].
    #[inline(always)]
    pub(super) fn factors<T: Float>(&self, place: Place, mut first: u32, factors: &mut [T]) {
        let (threshold, scale) = (self.threshold, self.scale::<T>());
        for factors in factors.chunks_mut(VALUES) {
            let halves = halves(place, first);
            for (factor, &half) in factors.iter_mut().zip(&halves) {
                *factor = if half >= threshold { scale } else { T::ZERO };
            }
            first += BLOCKS as u32;
        }
    }

    /// Computes to = from m / (1 - p) for one sample.
    fn apply<T: Float>(&self, place: Place, from: &[T], to: &mut [T]) {
        let (threshold, scale) = (self.threshold, self.scale::<T>());
        wide(
            #[inline(always)]
            move || {
                let mut first = 0;
                for (from, to) in from.chunks(VALUES).zip(to.chunks_mut(VALUES)) {
                    let halves = halves(place, first);
                    for ((to, &x), &half) in to.iter_mut().zip(from).zip(&halves) {
                        *to = if half >= threshold { x * scale } else { T::ZERO };
                    }
                    first += BLOCKS as u32;
                }
            },
        );
    }

    /// Computes to = from m / (1 - p) for all samples.
    fn apply_all<T: Float>(
        &self,
        at: impl Fn(usize) -> Place,
        from: &[T],
        to: &mut [T],
        len: usize,
    ) {
        let samples = from.chunks_exact(len.max(1)).zip(to.chunks_exact_mut(len.max(1)));
        for (i, (from, to)) in samples.enumerate() {
            self.apply(at(i), from, to);
        }
    }
}

/// Random bits of [`VALUES`] values, from block `first` on.
#[inline(always)]
fn halves(place: Place, first: u32) -> [u16; VALUES] {
    let mut words = [[0; BLOCKS]; 4];
    for (b, block) in (0..BLOCKS).zip(first..) {
        let [w0, w1, w2, w3] = place.words(block);
        words[0][b] = w0;
        words[1][b] = w1;
        words[2][b] = w2;
        words[3][b] = w3;
    }
    let mut halves = [0; VALUES];
    for (to, word) in halves.as_chunks_mut().0.iter_mut().zip(words.as_flattened()) {
        *to = [*word as u16, (*word >> 16) as u16];
    }
    halves
}

impl<T: Float> Layer<T> for Dropout {
    fn output(&self, input: Shape) -> Result<Shape> {
        Ok(input)
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let Forward { input, mode, x, y, noise, .. } = pass;
        match mode {
            Mode::Training => self.apply_all(|i| noise.at(i), x, y, input.values()),
            Mode::Frozen => y.copy_from_slice(x),
        }
    }

    fn backward(&self, pass: Backward<'_, T>) {
        let Backward { input, mode, dy, dx: Some(dx), noise, .. } = pass else { return };
        match mode {
            Mode::Training => self.apply_all(|i| noise.at(i), dy, dx, input.values()),
            Mode::Frozen => dx.copy_from_slice(dy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Trial;
    use proptest::prelude::*;

    /// The check also runs samples alone: their masks are those of the whole batch.
    #[test]
    fn gradients_are_right_and_masks_belong_to_samples() {
        for p in [0.0, 0.1, 0.5, 0.9] {
            let layer = Dropout::new(p).unwrap();
            for mode in [Mode::Training, Mode::Frozen] {
                for input in [Shape::image(3, 2, 5), Shape::row(300)] {
                    Trial::new(&layer, input, 3, mode).check();
                }
            }
        }
    }

    #[test]
    fn values_are_dropped_as_the_words_say() {
        let layer = Dropout::new(0.25).unwrap();
        let trial = Trial::new(&layer, Shape::row(2 * VALUES + 37), 2, Mode::Training);
        let (y, _) = trial.forward();
        let len = trial.input.values();
        for (i, (y, x)) in y.iter().zip(&trial.x).enumerate() {
            let (sample, value) = (i / len, i % len);
            let (group, j) = (value / 128, value % 128);
            let block = 16 * group + j % 32 / 2;
            let word = crate::testing::noise(0).at(sample).words(block as u32)[j / 32];
            let half = if value % 2 == 0 { word & 0xffff } else { word >> 16 };
            assert_eq!(*y, if half >= 16384 { x * (65536.0 / 49152.0) } else { 0.0 });
        }
    }

    #[test]
    fn probabilities_outside_are_refused() {
        for p in [-0.1, 1.0, f64::NAN] {
            let error = Dropout::new(p).unwrap_err().to_string();
            assert!(error.contains("below 1, got"), "{error}");
        }
        // Even the largest probability keeps some values.
        assert_eq!(Dropout::new(1.0 - 1e-9).unwrap().threshold, 65535);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// Of N values Binomial(N, 1 - p) are kept; five standard deviations and half a step of p, 2^-17, are allowed.
        #[test]
        fn the_mean_is_that_of_x(p in 0.02..0.98f64) {
            let layer = Dropout::new(p).unwrap();
            let mut trial = Trial::new(&layer, Shape::row(1000), 100, Mode::Training);
            trial.x.fill(1.0);
            let (y, _) = trial.forward();
            let kept = y.iter().filter(|y| **y != 0.0).count() as f64 / y.len() as f64;
            let allowed = 5.0 * (p * (1.0 - p) / y.len() as f64).sqrt() + 1.0 / 131_072.0;
            prop_assert!((kept - (1.0 - p)).abs() <= allowed, "{} of {}", kept, 1.0 - p);
            let mean = y.iter().sum::<f64>() / y.len() as f64;
            prop_assert!((mean - 1.0).abs() <= allowed / (1.0 - p));
        }
    }
}
