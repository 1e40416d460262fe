//! Samples on their way into a network: normalised, and moved about while training.
//!
//! x' = (x - mean_c) / deviation_c per channel, with bytes as x / 255 first.
//!
//! A flip mirrors an image with probability 1/2; a crop of p moves it by up to p in each direction, uniformly, over a border of
//! zeros (He et al. 2015, section 4.2: on normalised values, so the border is the mean). Draws belong to an epoch and a sample.

use rayon::prelude::*;
use veridical_core::{Order, Seed, Stream};

use crate::{Float, Shape};

/// The numbers of all samples, sample by sample, channels last.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// 0 .. 255.
    Bytes(&'a [u8]),
    /// As they are.
    Floats(&'a [f32]),
}

/// What images undergo while training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Augmentation {
    /// Mirror left and right.
    pub flip: bool,
    /// Move by up to so many pixels.
    pub crop: usize,
}

/// Gives samples to a network.
#[derive(Clone, Debug)]
pub struct Feed<'a> {
    values: Values<'a>,
    shape: Shape,
    /// Per channel: what is subtracted, and what it is multiplied with afterwards.
    affine: Vec<(f64, f64)>,
    augmentation: Augmentation,
    seed: Seed,
    moves: Stream,
}

impl<'a> Feed<'a> {
    /// Samples of one shape; `mean` and `deviation` have one value per channel.
    ///
    /// # Panics
    /// If the numbers of values, means and deviations do not fit the shape.
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
            "one per channel"
        );
        let affine = mean
            .iter()
            .zip(deviation)
            .map(|(&m, &d)| (m, if d > 0.0 { 1.0 / d } else { 1.0 }))
            .collect();
        let moves = Stream::new(seed, "augment");
        Self { values, shape, affine, augmentation: Augmentation::default(), seed, moves }
    }

    /// With images that are moved about while training.
    pub fn augmented(self, augmentation: Augmentation) -> Self {
        Self { augmentation, ..self }
    }

    /// How many samples.
    pub fn len(&self) -> usize {
        let values = match self.values {
            Values::Bytes(values) => values.len(),
            Values::Floats(values) => values.len(),
        };
        values / self.shape.values()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The order of the samples in an epoch.
    pub fn order(&self, n: usize, epoch: u32) -> Order {
        Order::new(n as u64, self.seed, "order", epoch)
    }

    /// Writes samples as they are.
    pub fn fill<T: Float>(&self, samples: &[usize], out: &mut [T]) {
        let len = self.shape.values();
        out.par_chunks_mut(len).zip(samples).for_each(|(out, &sample)| self.copy(sample, out));
    }

    /// Writes samples as they are seen in an epoch of the training.
    pub fn fill_training<T: Float>(&self, samples: &[usize], epoch: u32, out: &mut [T]) {
        let Augmentation { flip, crop } = self.augmentation;
        if !flip && crop == 0 {
            return self.fill(samples, out);
        }
        let len = self.shape.values();
        out.par_chunks_mut(len).zip(samples).for_each_init(
            || vec![T::ZERO; len],
            |room, (out, &sample)| {
                self.copy(sample, room);
                let mut draws = self.moves.at(epoch, sample as u64).draws();
                let flipped = flip && draws.below(2) == 1;
                let mut shift = || draws.below(2 * crop as u32 + 1) as usize;
                let by = if crop > 0 { (shift(), shift()) } else { (0, 0) };
                self.move_about(room, flipped, by, out);
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

    /// Pixel (y, x) of `out` is pixel (y + dy - crop, x + dx - crop) of the image, mirrored or not, or zero.
    fn move_about<T: Float>(
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

/// The mean and deviation of each channel over all samples (bytes as x / 255); a constant channel has deviation 1.
pub fn moments(values: Values<'_>, shape: Shape) -> (Vec<f64>, Vec<f64>) {
    let (mean, variance) = match values {
        Values::Bytes(values) => byte_moments(values, shape.channels),
        Values::Floats(values) => float_moments(values, shape.channels),
    };
    let deviation = |(v, m): (&f64, &f64)| if *v > 1e-12 * (1.0 + m * m) { v.sqrt() } else { 1.0 };
    let deviations = variance.iter().zip(&mean).map(deviation).collect();
    (mean, deviations)
}

/// Sums of whole numbers are exact.
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

/// Squares around the mean, so that a large one does not cancel.
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
