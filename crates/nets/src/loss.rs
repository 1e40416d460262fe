//! Training losses of a network and their gradients.
//!
//! L = sum_i w_i l_i / sum_i w_i over the samples i, with weights w_i = 1 unless given. For one sample, with outputs f of length d:
//!
//! - squared: l = 1/d sum_j (f_j - y_j)^2, dl/df_j = 2 (f_j - y_j) / d. A class is y = e_c, or -1 and 1 if d = 1.
//! - cross entropy: l = -sum_j q_j ln p_j, p = softmax(f), q = (1 - s) t + s/d with the smoothing s and t = e_c or given
//!   probabilities (Szegedy et al. 2016, eq. 3). dl/df_j = p_j sum_k q_k - q_j. ln sum exp is taken after subtracting the maximum.
//! - binary cross entropy: l = 1/d sum_j ln(1 + exp(f_j)) - y_j f_j, dl/df_j = (1/(1 + exp(-f_j)) - y_j) / d, in the form
//!   max(f, 0) - y f + ln(1 + exp(-|f|)) that does not overflow. A class is y = 0 or 1, d = 1.
//!
//! These are PyTorch's MSELoss, CrossEntropyLoss and BCEWithLogitsLoss with reduction `mean`.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use veridical_data::examples::Targets;

use crate::float::wide;
use crate::{Error, Float, Result};

/// A training loss.
///
/// ```
/// use veridical_nets::{Loss, Target};
///
/// let loss = Loss::CrossEntropy { smoothing: 0.0 };
/// let logits = [0.0f64, 0.0];
/// let mut gradient = [0.0; 2];
/// let value = loss.evaluate(&logits, 1, 2, Target::Classes(&[1]), None, Some(&mut gradient));
/// assert!((value - 2f64.ln()).abs() < 1e-12);
/// assert_eq!(gradient, [0.5, -0.5]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// Mean squared error.
    Squared,
    /// Softmax cross entropy.
    CrossEntropy {
        /// Label smoothing: the share of the target that is spread over all classes.
        smoothing: f64,
    },
    /// Binary cross entropy; each output is an independent logit.
    BinaryCrossEntropy,
}

/// Training targets of some samples.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// One class per sample.
    Classes(&'a [u32]),
    /// As many numbers per sample as there are outputs.
    Numbers(&'a [f32]),
}

impl<'a> From<&'a Targets> for Target<'a> {
    fn from(targets: &'a Targets) -> Self {
        match targets {
            Targets::Classes(classes) => Self::Classes(classes),
            Targets::Numbers { values, .. } => Self::Numbers(values),
        }
    }
}

/// Samples that one thread processes at once; sums are per block.
const ROWS: usize = 256;

impl Loss {
    /// Checks that the targets suit the loss and `dim` outputs.
    ///
    /// # Errors
    /// Unfit data, naming the first sample with an unsuitable target.
    pub fn check(&self, dim: usize, targets: Target<'_>) -> Result<()> {
        if let Loss::CrossEntropy { smoothing } = self
            && !(0.0..1.0).contains(smoothing)
        {
            return Err(Error::request(format!(
                "label smoothing must be at least 0 and below 1, got {smoothing}"
            )));
        }
        match targets {
            Target::Classes(classes) => self.check_classes(dim, classes),
            Target::Numbers(numbers) => self.check_numbers(dim, numbers),
        }
    }

    fn check_classes(&self, dim: usize, classes: &[u32]) -> Result<()> {
        let bound = match (self, dim) {
            (Loss::BinaryCrossEntropy, 2..) => {
                return Err(Error::request(format!(
                    "binary cross entropy of classes needs one output, the network has {dim}; use cross entropy"
                )));
            }
            (Loss::CrossEntropy { .. }, _) => dim,
            (_, dim) => dim.max(2),
        };
        match classes.iter().position(|&c| c as usize >= bound) {
            None => Ok(()),
            Some(i) => Err(Error::unfit(format!(
                "sample {i} has class {}: with {dim} {} classes are 0 to {}",
                classes[i],
                if dim == 1 { "output" } else { "outputs" },
                bound - 1,
            ))),
        }
    }

    fn check_numbers(&self, dim: usize, numbers: &[f32]) -> Result<()> {
        let (fine, rule): (fn(f32) -> bool, _) = match self {
            Loss::Squared => (f32::is_finite, "must be finite"),
            _ => (|y| (0.0..=1.0).contains(&y), "must be a probability for this loss"),
        };
        match numbers.iter().position(|&y| !fine(y)) {
            None => Ok(()),
            Some(k) => Err(Error::unfit(format!(
                "target {} of sample {} is {}: it {rule}",
                k % dim,
                k / dim,
                numbers[k]
            ))),
        }
    }

    /// Computes L of `n` samples with `dim` outputs each and, if `gradient` is given, overwrites it with dL/doutputs.
    ///
    /// Targets must satisfy [`Loss::check`], and weights must not be negative; if all weights are 0, so is the loss.
    pub fn evaluate<T: Float>(
        &self,
        outputs: &[T],
        n: usize,
        dim: usize,
        targets: Target<'_>,
        weights: Option<&[f64]>,
        gradient: Option<&mut [T]>,
    ) -> f64 {
        let total = weights.map_or(n as f64, |w| w[..n].iter().sum());
        let share = if total > 0.0 { 1.0 / total } else { 0.0 };
        let block = |b: usize, gradient: Option<&mut [T]>| {
            let first = b * ROWS;
            let len = ROWS.min(n - first);
            Block {
                loss: *self,
                dim,
                outputs: &outputs[first * dim..][..len * dim],
                targets: match targets {
                    Target::Classes(c) => Target::Classes(&c[first..][..len]),
                    Target::Numbers(y) => Target::Numbers(&y[first * dim..][..len * dim]),
                },
                weights: weights.map(|w| &w[first..][..len]),
                share,
            }
            .evaluate(gradient)
        };
        let sums: Vec<f64> = match gradient {
            Some(gradient) => gradient[..n * dim]
                .par_chunks_mut(ROWS * dim)
                .enumerate()
                .map(|(b, gradient)| block(b, Some(gradient)))
                .collect(),
            None => (0..n.div_ceil(ROWS)).into_par_iter().map(|b| block(b, None)).collect(),
        };
        sums.iter().sum()
    }
}

/// A block of consecutive samples.
struct Block<'a, T> {
    loss: Loss,
    dim: usize,
    outputs: &'a [T],
    targets: Target<'a>,
    weights: Option<&'a [f64]>,
    /// 1 / sum of all weights.
    share: f64,
}

impl<T: Float> Block<'_, T> {
    /// Adds the block's part of L and of the gradient.
    fn evaluate(&self, mut gradient: Option<&mut [T]>) -> f64 {
        let mut row = vec![T::ZERO; if gradient.is_some() { 0 } else { self.dim }];
        wide(
            #[inline(always)]
            || {
                let mut sum = 0.0;
                for (i, f) in self.outputs.chunks_exact(self.dim).enumerate() {
                    let weight = self.share * self.weights.map_or(1.0, |w| w[i]);
                    let g = match &mut gradient {
                        Some(gradient) => &mut gradient[i * self.dim..][..self.dim],
                        None => &mut row[..],
                    };
                    let l = match self.loss {
                        Loss::Squared => self.squared(i, f, g),
                        Loss::CrossEntropy { smoothing } => self.cross_entropy(i, f, g, smoothing),
                        Loss::BinaryCrossEntropy => self.binary(i, f, g),
                    };
                    let weight_t = T::of(weight);
                    g.iter_mut().for_each(|g| *g *= weight_t);
                    sum += weight * l;
                }
                sum
            },
        )
    }

    /// Returns l of sample i and writes dl/df to g.
    #[inline(always)]
    fn squared(&self, i: usize, f: &[T], g: &mut [T]) -> f64 {
        let d = self.dim as f64;
        match self.targets {
            Target::Classes(classes) if self.dim == 1 => {
                g[0] = f[0] - if classes[i] == 0 { -T::ONE } else { T::ONE };
            }
            Target::Classes(classes) => {
                g.copy_from_slice(f);
                g[classes[i] as usize] -= T::ONE;
            }
            Target::Numbers(y) => {
                let y = &y[i * self.dim..][..self.dim];
                for ((g, f), y) in g.iter_mut().zip(f).zip(y) {
                    *g = *f - T::of(f64::from(*y));
                }
            }
        }
        let l = sum_of(g, |g| g * g) / d;
        let scale = T::of(2.0 / d);
        g.iter_mut().for_each(|g| *g *= scale);
        l
    }

    #[inline(always)]
    fn cross_entropy(&self, i: usize, f: &[T], g: &mut [T], smoothing: f64) -> f64 {
        let top = f.iter().fold(f[0], |top, &f| top.larger(f));
        for (g, f) in g.iter_mut().zip(f) {
            *g = (*f - top).exp();
        }
        let sum = sum_of(g, |g| g);
        let (keep, spread) = (1.0 - smoothing, smoothing / self.dim as f64);
        // -sum_j q_j (f_j - top) + ln sum, where sum_j q_j is 1 for a class.
        let mut l = 0.0;
        if smoothing > 0.0 {
            let top = top.wide();
            l -= spread * sum_of(f, |f| f - top);
        }
        let (mass, scale) = match self.targets {
            Target::Classes(classes) => {
                l -= keep * (f[classes[i] as usize] - top).wide();
                (1.0, T::of(1.0 / sum))
            }
            Target::Numbers(t) => {
                let mut mass = smoothing;
                for (f, &t) in f.iter().zip(&t[i * self.dim..]) {
                    let q = keep * f64::from(t);
                    mass += q;
                    l -= q * (*f - top).wide();
                }
                (mass, T::of(mass / sum))
            }
        };
        let spread = T::of(spread);
        g.iter_mut().for_each(|g| *g = *g * scale - spread);
        match self.targets {
            Target::Classes(classes) => g[classes[i] as usize] -= T::of(keep),
            Target::Numbers(t) => {
                for (g, &t) in g.iter_mut().zip(&t[i * self.dim..]) {
                    *g -= T::of(keep * f64::from(t));
                }
            }
        }
        l + mass * sum.ln()
    }

    #[inline(always)]
    fn binary(&self, i: usize, f: &[T], g: &mut [T]) -> f64 {
        let d = self.dim as f64;
        let scale = T::of(1.0 / d);
        let mut l = 0.0;
        for (j, (g, &f)) in g.iter_mut().zip(f).enumerate() {
            let y = match self.targets {
                Target::Classes(classes) => f64::from(classes[i]),
                Target::Numbers(y) => f64::from(y[i * self.dim + j]),
            };
            let e = (-f.abs()).exp();
            l += f.wide().max(0.0) - y * f.wide() + e.wide().ln_1p();
            let p = if f > T::ZERO { T::ONE } else { e } * (T::ONE / (T::ONE + e));
            *g = (p - T::of(y)) * scale;
        }
        l / d
    }
}

/// The sum of a function of numbers, in eight interleaved sums.
#[inline(always)]
fn sum_of<T: Float>(values: &[T], of: impl Fn(f64) -> f64) -> f64 {
    let mut sums = [0.0; 8];
    let (eights, rest) = values.as_chunks::<8>();
    for eight in eights {
        for (sum, x) in sums.iter_mut().zip(eight) {
            *sum += of(x.wide());
        }
    }
    let [a, b, c, d, e, f, g, h] = sums;
    let whole = ((a + b) + (c + d)) + ((e + f) + (g + h));
    rest.iter().fold(whole, |sum, x| sum + of(x.wide()))
}

/// Counts the samples whose class has the largest output, the lower class on ties.
///
/// With a single output, a value above 0 predicts class 1.
pub fn correct<T: Float>(outputs: &[T], dim: usize, classes: &[u32]) -> usize {
    let predicted = |f: &[T]| match f {
        [f] => usize::from(*f > T::ZERO),
        _ => (1..dim).fold(0, |best, j| if f[j] > f[best] { j } else { best }),
    };
    outputs
        .chunks_exact(dim)
        .zip(classes)
        .filter(|(f, class)| predicted(f) == **class as usize)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::normals;

    const LOSSES: [Loss; 4] = [
        Loss::Squared,
        Loss::CrossEntropy { smoothing: 0.0 },
        Loss::CrossEntropy { smoothing: 0.1 },
        Loss::BinaryCrossEntropy,
    ];

    /// Differences with h = 1e-5 are off by about 4e-11 (see `testing`).
    fn check_gradient(loss: Loss, n: usize, dim: usize, targets: Target<'_>, w: Option<&[f64]>) {
        let mut f = normals(n * dim, "outputs");
        let mut gradient = vec![f64::NAN; n * dim];
        let value = loss.evaluate(&f, n, dim, targets, w, Some(&mut gradient));
        assert_eq!(value, loss.evaluate(&f, n, dim, targets, w, None));
        for k in 0..f.len() {
            let at = f[k];
            let [up, down] = [1e-5, -1e-5].map(|h| {
                f[k] = at + h;
                loss.evaluate(&f, n, dim, targets, w, None)
            });
            f[k] = at;
            let want = (up - down) / 2e-5;
            assert!((gradient[k] - want).abs() < 1e-9, "{loss:?} {k}: {} {want}", gradient[k]);
        }
    }

    #[test]
    fn gradients_are_right() {
        let weights = [0.5, 0.0, 2.0, 1.0, 3.0];
        for w in [None, Some(&weights[..])] {
            for loss in LOSSES {
                for dim in [1, 3, 11] {
                    let numbers: Vec<f32> =
                        (0..5 * dim).map(|k| (k * 37 % 64) as f32 / 64.0).collect();
                    check_gradient(loss, 5, dim, Target::Numbers(&numbers), w);
                    if dim > 1 && loss != Loss::BinaryCrossEntropy {
                        check_gradient(loss, 5, dim, Target::Classes(&[2, 0, 1, 1, 2]), w);
                    }
                }
            }
            for loss in [Loss::Squared, Loss::BinaryCrossEntropy] {
                check_gradient(loss, 5, 1, Target::Classes(&[1, 0, 1, 1, 0]), w);
            }
        }
    }

    #[test]
    fn extreme_outputs_do_not_overflow() {
        let f = [1e4, -1e4f64];
        let ce = Loss::CrossEntropy { smoothing: 0.0 };
        assert_eq!(ce.evaluate(&f, 1, 2, Target::Classes(&[1]), None, None), 2e4);
        assert_eq!(ce.evaluate(&f, 1, 2, Target::Classes(&[0]), None, None), 0.0);
        let bce = Loss::BinaryCrossEntropy;
        assert_eq!(bce.evaluate(&f, 2, 1, Target::Classes(&[0, 0]), None, None), 5e3);
        let mut g = [f64::NAN; 2];
        bce.evaluate(&f, 2, 1, Target::Classes(&[0, 0]), None, Some(&mut g));
        assert!(g[0] == 0.5 && g[1].abs() < 1e-300);
        for loss in LOSSES {
            let y = Target::Numbers(&[0.0, 1.0]);
            assert!(loss.evaluate(&[1.0, f32::NAN], 1, 2, y, None, None).is_nan(), "{loss:?}");
        }
    }

    #[test]
    fn blocks_do_not_depend_on_threads() {
        let (n, dim) = (3 * ROWS + 17, 5);
        let f: Vec<f32> = normals(n * dim, "f").iter().map(|&x| x as f32).collect();
        let classes: Vec<u32> = (0..n as u32).map(|i| i % 5).collect();
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let loss = Loss::CrossEntropy { smoothing: 0.1 };
            let mut g = vec![0.0; n * dim];
            let targets = Target::Classes(&classes);
            (pool.install(|| loss.evaluate(&f, n, dim, targets, None, Some(&mut g))), g)
        };
        assert_eq!(run(1), run(2));
        assert_eq!(run(1), run(3));
    }

    #[test]
    fn weights_are_repetitions() {
        let f = normals(6, "f");
        let twice = [&f[..2], &f[..2], &f[2..]].concat();
        for loss in [Loss::Squared, Loss::CrossEntropy { smoothing: 0.2 }] {
            let weighted =
                loss.evaluate(&f, 3, 2, Target::Classes(&[1, 0, 1]), Some(&[2.0, 1.0, 1.0]), None);
            let repeated = loss.evaluate(&twice, 4, 2, Target::Classes(&[1, 1, 0, 1]), None, None);
            assert!((weighted - repeated).abs() < 1e-15 * 8.0);
        }
        let none =
            Loss::Squared.evaluate(&f, 3, 2, Target::Classes(&[0; 3]), Some(&[0.0; 3]), None);
        assert_eq!(none, 0.0);
    }

    #[test]
    fn the_largest_output_counts_and_ties_go_down() {
        let f = [1.0f32, 1.0, 0.0, 0.0, 2.0, 3.0];
        assert_eq!(correct(&f, 3, &[0, 2]), 2);
        assert_eq!(correct(&f, 3, &[1, 2]), 1);
        assert_eq!(correct(&[0.5f32, -0.5, 0.0], 1, &[1, 0, 0]), 3);
    }

    #[test]
    fn targets_that_do_not_suit_are_named() {
        let says = |loss: Loss, dim, targets| loss.check(dim, targets).unwrap_err().to_string();
        let ce = Loss::CrossEntropy { smoothing: 0.0 };
        assert_eq!(
            says(ce, 3, Target::Classes(&[0, 2, 3])),
            "sample 2 has class 3: with 3 outputs classes are 0 to 2"
        );
        assert_eq!(
            says(Loss::Squared, 1, Target::Classes(&[1, 2])),
            "sample 1 has class 2: with 1 output classes are 0 to 1"
        );
        assert_eq!(
            says(Loss::Squared, 2, Target::Numbers(&[0.0, 1.0, f32::NAN, 0.0])),
            "target 0 of sample 1 is NaN: it must be finite"
        );
        assert_eq!(
            says(Loss::BinaryCrossEntropy, 1, Target::Numbers(&[2.0])),
            "target 0 of sample 0 is 2: it must be a probability for this loss"
        );
        assert!(
            says(Loss::CrossEntropy { smoothing: 1.0 }, 2, Target::Classes(&[])).contains("got 1")
        );
        assert!(says(Loss::BinaryCrossEntropy, 2, Target::Classes(&[0])).contains("one output"));
        assert!(ce.check(3, Target::Classes(&[0, 2])).is_ok());
    }
}
