//! Input pipeline of a network: normalization, and augmentation during training.
//!
//! x' = (x - mean_c) / deviation_c per channel, where bytes are first divided by 255.
//!
//! A flip mirrors an image with probability 1/2; a crop of p shifts it by up to p in each direction, uniformly, with zero
//! padding (He et al. 2015, section 4.2: on normalized values, so the padding is the mean). Draws depend on the epoch and the
//! sample.

use rayon::prelude::*;
use veridical_core::{Order, Seed, Stream};
use veridical_data::examples::{Examples, Values as ExampleValues};

use crate::{Float, Shape};

/// Values of all samples, sample by sample, channels last.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// Bytes from 0 to 255, which are divided by 255.
    Bytes(&'a [u8]),
    /// Floats, which are used unchanged.
    Floats(&'a [f32]),
}

impl<'a> From<&'a ExampleValues> for Values<'a> {
    fn from(values: &'a ExampleValues) -> Self {
        match values {
            ExampleValues::Bytes(values) => Self::Bytes(values),
            ExampleValues::Floats(values) => Self::Floats(values),
        }
    }
}

/// Augmentation of images during training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Augmentation {
    /// Whether to mirror images horizontally, with probability 1/2.
    pub flip: bool,
    /// Maximum shift in pixels, in each direction.
    pub crop: usize,
}

/// Feeds normalized samples to a network, augmented during training.
///
/// ```
/// use veridical_core::Seed;
/// use veridical_nets::{Feed, Shape, Values};
///
/// let images = [0u8, 255, 255, 255, 0, 0, 0, 0]; // two gray images of 2 x 2 pixels
/// let feed = Feed::new(Values::Bytes(&images), Shape::image(2, 2, 1), &[0.5], &[0.5], Seed::new(0)?);
/// let mut batch = [0.0f32; 4];
/// feed.fill(&[0], &mut batch);
/// assert_eq!((feed.len(), batch), (2, [-1.0, 1.0, 1.0, 1.0]));
/// # Ok::<(), veridical_nets::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Feed<'a> {
    values: Values<'a>,
    shape: Shape,
    /// Per channel: the shift that is subtracted, and the factor applied afterwards.
    affine: Vec<(f64, f64)>,
    augmentation: Augmentation,
    seed: Seed,
    moves: Stream,
}

impl<'a> Feed<'a> {
    /// Creates a feed of samples of one shape; `mean` and `deviation` have one value per channel.
    ///
    /// # Panics
    /// If the numbers of values, means and standard deviations do not match the shape.
    pub fn new(
        values: Values<'a>,
        shape: Shape,
        mean: &[f64],
        deviation: &[f64],
        seed: Seed,
    ) -> Self {
        let len = match values {
            Values::Bytes(values) => values.len(),
            Values::Floats(values) => values.len(),
        };
        assert!(len.is_multiple_of(shape.values()), "whole samples");
        assert!(
            mean.len() == shape.channels && deviation.len() == shape.channels,
            "one value per channel"
        );
        let affine = mean
            .iter()
            .zip(deviation)
            .map(|(&m, &d)| (m, if d > 0.0 { 1.0 / d } else { 1.0 }))
            .collect();
        let moves = Stream::new(seed, "augment");
        Self { values, shape, affine, augmentation: Augmentation::default(), seed, moves }
    }

    /// Creates a feed of all examples, in order.
    ///
    /// # Panics
    /// The same as [`Feed::new`].
    pub fn of(examples: &'a Examples, mean: &[f64], deviation: &[f64], seed: Seed) -> Self {
        Self::new((&examples.values).into(), examples.shape.into(), mean, deviation, seed)
    }

    /// Sets the augmentation that is applied during training.
    pub fn augmented(self, augmentation: Augmentation) -> Self {
        Self { augmentation, ..self }
    }

    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        let values = match self.values {
            Values::Bytes(values) => values.len(),
            Values::Floats(values) => values.len(),
        };
        values / self.shape.values()
    }

    /// Returns whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the order of the samples in an epoch.
    pub fn order(&self, n: usize, epoch: u32) -> Order {
        Order::new(n as u64, self.seed, "order", epoch)
    }

    /// Writes samples without augmentation.
    pub fn fill<T: Float>(&self, samples: &[usize], out: &mut [T]) {
        let len = self.shape.values();
        out.par_chunks_mut(len).zip(samples).for_each(|(out, &sample)| self.copy(sample, out));
    }

    /// Writes samples with the augmentation of an epoch.
    pub fn fill_training<T: Float>(&self, samples: &[usize], epoch: u32, out: &mut [T]) {
        let Augmentation { flip, crop } = self.augmentation;
        if !flip && crop == 0 {
            return self.fill(samples, out);
        }
        let len = self.shape.values();
        out.par_chunks_mut(len).zip(samples).for_each_init(
            || vec![T::ZERO; len],
            |scratch, (out, &sample)| {
                self.copy(sample, scratch);
                let mut draws = self.moves.at(epoch, sample as u64).draws();
                let flipped = flip && draws.below(2) == 1;
                let mut shift = || draws.below(2 * crop as u32 + 1) as usize;
                let by = if crop > 0 { (shift(), shift()) } else { (0, 0) };
                self.augment(scratch, flipped, by, out);
            },
        );
    }

    fn copy<T: Float>(&self, sample: usize, out: &mut [T]) {
        let len = self.shape.values();
        let channels = self.shape.channels;
        let at = sample * len;
        match self.values {
            Values::Bytes(values) => {
                let scaled = |x: u8, (m, d): (f64, f64)| T::of((f64::from(x) / 255.0 - m) * d);
                for (out, x) in
                    out.chunks_exact_mut(channels).zip(values[at..at + len].chunks_exact(channels))
                {
                    for ((out, &x), &affine) in out.iter_mut().zip(x).zip(&self.affine) {
                        *out = scaled(x, affine);
                    }
                }
            }
            Values::Floats(values) => {
                for (out, x) in
                    out.chunks_exact_mut(channels).zip(values[at..at + len].chunks_exact(channels))
                {
                    for ((out, &x), &(m, d)) in out.iter_mut().zip(x).zip(&self.affine) {
                        *out = T::of((f64::from(x) - m) * d);
                    }
                }
            }
        }
    }

    /// Pixel (y, x) of `out` is pixel (y + dy - crop, x + dx - crop) of the image, optionally mirrored, or zero outside.
    fn augment<T: Float>(
        &self,
        image: &[T],
        flipped: bool,
        (dy, dx): (usize, usize),
        out: &mut [T],
    ) {
        let Shape { height, width, channels } = self.shape;
        let crop = self.augmentation.crop;
        for y in 0..height {
            for x in 0..width {
                let out = &mut out[(y * width + x) * channels..][..channels];
                let from_y = (y + dy).checked_sub(crop).filter(|&y| y < height);
                let from_x = (x + dx).checked_sub(crop).filter(|&x| x < width);
                match (from_y, from_x) {
                    (Some(y), Some(x)) => {
                        let x = if flipped { width - 1 - x } else { x };
                        out.copy_from_slice(&image[(y * width + x) * channels..][..channels]);
                    }
                    _ => out.fill(T::ZERO),
                }
            }
        }
    }
}

/// Computes the mean and standard deviation of each channel over all samples (bytes divided by 255).
///
/// A constant channel has standard deviation 1.
pub fn moments(values: Values<'_>, shape: Shape) -> (Vec<f64>, Vec<f64>) {
    let (mean, variance) = match values {
        Values::Bytes(values) => byte_moments(values, shape.channels),
        Values::Floats(values) => float_moments(values, shape.channels),
    };
    let deviation = |(v, m): (&f64, &f64)| if *v > 1e-12 * (1.0 + m * m) { v.sqrt() } else { 1.0 };
    let deviations = variance.iter().zip(&mean).map(deviation).collect();
    (mean, deviations)
}

/// Sums of integers are exact.
fn byte_moments(values: &[u8], channels: usize) -> (Vec<f64>, Vec<f64>) {
    let n = (values.len() / channels).max(1) as f64;
    let mut sums = vec![(0u64, 0u64); channels];
    for row in values.chunks_exact(channels) {
        for (sum, &x) in sums.iter_mut().zip(row) {
            sum.0 += u64::from(x);
            sum.1 += u64::from(x) * u64::from(x);
        }
    }
    let mean = |&(sum, _): &(u64, u64)| sum as f64 / n / 255.0;
    let variance = |&(sum, squares): &(u64, u64)| {
        let mean = sum as f64 / n;
        (squares as f64 / n - mean * mean) / (255.0 * 255.0)
    };
    (sums.iter().map(mean).collect(), sums.iter().map(variance).collect())
}

/// Squares around the mean, so that a large mean does not cause cancellation.
fn float_moments(values: &[f32], channels: usize) -> (Vec<f64>, Vec<f64>) {
    let n = (values.len() / channels).max(1) as f64;
    let mut mean = vec![0.0; channels];
    for row in values.chunks_exact(channels) {
        mean.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
    }
    mean.iter_mut().for_each(|sum| *sum /= n);
    let mut variance = vec![0.0; channels];
    for row in values.chunks_exact(channels) {
        for ((sum, &x), m) in variance.iter_mut().zip(row).zip(&mean) {
            *sum += (f64::from(x) - m).powi(2);
        }
    }
    variance.iter_mut().for_each(|sum| *sum /= n);
    (mean, variance)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape::image(3, 4, 2);

    fn bytes(n: usize) -> Vec<u8> {
        (0..n * SHAPE.values()).map(|i| ((i * 7919 + 13) % 256) as u8).collect()
    }

    fn feed(values: &[u8], augmentation: Augmentation) -> Feed<'_> {
        let seed = Seed::new(3).unwrap();
        Feed::new(Values::Bytes(values), SHAPE, &[0.5, 0.25], &[0.5, 2.0], seed)
            .augmented(augmentation)
    }

    #[test]
    fn values_are_normalized_by_channel() {
        let values = bytes(4);
        let feed = feed(&values, Augmentation::default());
        assert_eq!((feed.len(), feed.is_empty()), (4, false));
        let mut out = vec![0.0f64; 2 * SHAPE.values()];
        feed.fill(&[3, 1], &mut out);
        for (k, x) in out.iter().enumerate() {
            let sample = if k < SHAPE.values() { 3 } else { 1 };
            let raw = f64::from(values[sample * SHAPE.values() + k % SHAPE.values()]) / 255.0;
            let want = if k % 2 == 0 { (raw - 0.5) / 0.5 } else { (raw - 0.25) / 2.0 };
            assert!((x - want).abs() < 1e-15);
        }
    }

    /// Every image seen is the original, mirrored or not, shifted by one of the offsets; all of them occur, and the result
    /// depends on the epoch and the sample alone.
    #[test]
    fn augmentation_depends_on_the_epoch_and_the_sample_alone() {
        let values = bytes(40);
        let feed = feed(&values, Augmentation { flip: true, crop: 1 });
        let len = SHAPE.values();
        let all: Vec<usize> = (0..40).collect();
        let mut seen = vec![0.0f64; 40 * len];
        feed.fill_training(&all, 7, &mut seen);
        let mut kinds = std::collections::BTreeSet::new();
        for i in all {
            let mut plain = vec![0.0f64; len];
            feed.fill(&[i], &mut plain);
            let found = (0..18).find(|k| {
                let (flip, dy, dx) = (k % 2 == 1, k / 2 % 3, k / 6);
                let pixel = |y: usize, x: usize, c: usize| {
                    let (y, x) = ((y + dy).checked_sub(1), (x + dx).checked_sub(1));
                    match (y.filter(|y| *y < 3), x.filter(|x| *x < 4)) {
                        (Some(y), Some(x)) => plain[(y * 4 + if flip { 3 - x } else { x }) * 2 + c],
                        _ => 0.0,
                    }
                };
                (0..len).all(|k| seen[i * len + k] == pixel(k / 8, k / 2 % 4, k % 2))
            });
            kinds.insert(found.expect("a shifted image"));
            let mut alone = vec![0.0f64; len];
            feed.fill_training(&[i], 7, &mut alone);
            assert_eq!(alone, seen[i * len..][..len]);
        }
        assert!(
            kinds.len() > 8 && kinds.iter().any(|k| k % 2 == 1) && kinds.iter().any(|k| k % 2 == 0)
        );
        let mut other = vec![0.0f64; 40 * len];
        feed.fill_training(&(0..40).collect::<Vec<_>>(), 8, &mut other);
        assert_ne!(other, seen);
    }

    #[test]
    fn an_epoch_visits_every_sample_once() {
        let values = bytes(17);
        let feed = feed(&values, Augmentation::default());
        let order = |epoch| -> Vec<u64> {
            let order = feed.order(17, epoch);
            (0..17).map(|t| order.at(t)).collect()
        };
        let mut sorted = order(0);
        assert_ne!(order(0), order(1));
        sorted.sort_unstable();
        assert_eq!(sorted, (0..17).collect::<Vec<_>>());
    }

    /// Two-pass textbook sums; a large mean does not affect the standard deviation, and a constant channel has 1.
    #[test]
    fn moments_are_those_of_the_channels() {
        let values = bytes(5);
        let (mean, deviation) = moments(Values::Bytes(&values), SHAPE);
        let floats: Vec<f32> = values.iter().map(|&x| f32::from(x) / 255.0 + 1e4).collect();
        let shifted = moments(Values::Floats(&floats), SHAPE);
        for c in 0..2 {
            let own: Vec<f64> =
                values.iter().skip(c).step_by(2).map(|&x| f64::from(x) / 255.0).collect();
            let n = own.len() as f64;
            let m = own.iter().sum::<f64>() / n;
            let sd = (own.iter().map(|x| (x - m).powi(2)).sum::<f64>() / n).sqrt();
            assert!((mean[c] - m).abs() < 1e-14 && (deviation[c] - sd).abs() < 1e-13);
            // f32 at 1e4 has steps of 1e-3; the standard deviation of a rounding error is smaller.
            assert!((shifted.1[c] - sd).abs() < 1e-4, "{} {sd}", shifted.1[c]);
        }
        let flat = moments(Values::Floats(&[3.0, 1.0, 3.0, 2.0]), Shape::row(2));
        assert_eq!((flat.0[0], flat.1[0]), (3.0, 1.0));
    }
}
