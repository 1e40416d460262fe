//! Evaluation of a network on some examples.
//!
//! accuracy   correct / n, with Wilson's 95 % interval ([`Estimate::share`])
//! rmse       sqrt(mean (f - y)^2), mae mean |f - y|, over all targets
//! r2         1 - sum (f - y)^2 / sum (y - mean y)^2, the mean over targets
//!
//! Two classifiers on the same examples are compared by McNemar's exact test: of the b + c examples that one of them alone classifies
//! correctly, b ~ Binomial(b + c, 1/2) if they are equally good, p = min(1, 2 P(X <= min(b, c))).
//!
//! The loss is the training loss without label smoothing.

use std::ops::Range;

use serde::Serialize;
use veridical_core::distributions::binomial_cdf;
use veridical_core::{Estimate, Job};
use veridical_data::examples::Targets;

use crate::fit::Evaluation;
use crate::{Error, Feed, Loss, Mode, Net, Result, Workspace};

/// Maximum number of samples per pass.
const MOST_SAMPLES: usize = 256;
/// Maximum number of values per pass: 256 MiB of f32.
const MOST_NUMBERS: usize = 64 << 20;

/// Metrics of a network on some examples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measures {
    /// Number of examples.
    pub n: usize,
    /// Mean loss.
    pub loss: f64,
    /// Accuracy, for classification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<Estimate>,
    /// Confusion matrix: `confusion[c][p]` is the number of examples of class c that are predicted as p.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub confusion: Vec<Vec<u64>>,
    /// Root mean squared error, for regression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rmse: Option<f64>,
    /// Mean absolute error, for regression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mae: Option<f64>,
    /// Coefficient of determination R^2; `None` if the targets do not vary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r2: Option<f64>,
}

impl Measures {
    /// Returns the short form that training reports.
    pub fn evaluation(&self) -> Evaluation {
        let accuracy = self.accuracy.map(|share| share.value);
        Evaluation { loss: self.loss, accuracy, rmse: self.rmse }
    }

    /// Returns the accuracy (recall) of each class.
    pub fn by_class(&self) -> Vec<Estimate> {
        let share =
            |(class, row): (usize, &Vec<u64>)| Estimate::share(row[class], row.iter().sum());
        self.confusion.iter().enumerate().map(share).collect()
    }
}

/// Workspace for evaluating a network on examples, of a size that depends on the network alone.
#[derive(Debug)]
pub struct Passes {
    work: Workspace<f32>,
    capacity: usize,
}

impl Passes {
    /// Allocates a workspace for a network.
    pub fn new(net: &Net<f32>) -> Self {
        let sizes = net.names().filter_map(|name| net.output_of(name));
        let numbers = net.input().values() + sizes.map(|shape| shape.values()).sum::<usize>();
        let capacity = (MOST_NUMBERS / numbers.max(1)).clamp(1, MOST_SAMPLES);
        Self { work: Workspace::new(net, capacity, None), capacity }
    }

    /// Runs all samples of a feed in order and calls `visit` with the range of samples and the workspace after each pass.
    ///
    /// Progress is reported to `job` as `what`.
    ///
    /// # Errors
    /// If the user stops the job.
    pub fn run(
        &mut self,
        net: &Net<f32>,
        feed: &Feed<'_>,
        (what, job): (&str, &Job<'_>),
        mut visit: impl FnMut(Range<usize>, &Workspace<f32>),
    ) -> Result<()> {
        let n = feed.len();
        let progress = job.progress(what, "examples", Some(n as u64));
        let mut samples = Vec::with_capacity(self.capacity);
        for first in (0..n).step_by(self.capacity) {
            let place = first..(first + self.capacity).min(n);
            samples.clear();
            samples.extend(place.clone());
            net.forward(&mut self.work, place.len(), Mode::Frozen, 0, |slot| {
                feed.fill(&samples, slot);
            });
            visit(place.clone(), &self.work);
            progress.advance(place.len() as u64);
            progress.check()?;
        }
        Ok(())
    }

    /// Computes all outputs, one sample after the other.
    ///
    /// # Errors
    /// The same as [`Passes::run`].
    pub fn outputs(
        &mut self,
        net: &Net<f32>,
        feed: &Feed<'_>,
        what: (&str, &Job<'_>),
    ) -> Result<Vec<f32>> {
        let mut outputs = Vec::with_capacity(feed.len() * net.outputs());
        self.run(net, feed, what, |_, work| outputs.extend_from_slice(work.outputs(net)))?;
        Ok(outputs)
    }
}

/// The reported loss: without label smoothing.
fn plain(loss: Loss) -> Loss {
    match loss {
        Loss::CrossEntropy { .. } => Loss::CrossEntropy { smoothing: 0.0 },
        other => other,
    }
}

/// Computes metrics from `outputs`, `dim` for each example, and the number of `classes`.
///
/// # Errors
/// If targets do not suit the loss, or an output is NaN or infinite.
pub fn measures(
    outputs: &[f32],
    dim: usize,
    targets: &Targets,
    loss: Loss,
    classes: usize,
) -> Result<Measures> {
    let n = outputs.len() / dim;
    let target = targets.into();
    let loss = plain(loss);
    loss.check(dim, target)?;
    let mut measures = Measures {
        n,
        loss: loss.evaluate(outputs, n, dim, target, None, None),
        accuracy: None,
        confusion: Vec::new(),
        rmse: None,
        mae: None,
        r2: None,
    };
    if !measures.loss.is_finite() {
        return Err(Error::unfit(format!(
            "the loss is {}: the network outputs NaN or infinite values",
            measures.loss
        )));
    }
    match targets {
        Targets::Classes(labels) => {
            let mut confusion = vec![vec![0; classes]; classes];
            for (f, &label) in outputs.chunks_exact(dim).zip(labels) {
                confusion[label as usize][predicted(f)] += 1;
            }
            let right = (0..classes).map(|c| confusion[c][c]).sum();
            measures.accuracy = Some(Estimate::share(right, n as u64));
            measures.confusion = confusion;
        }
        Targets::Numbers { values, .. } => {
            let errors = outputs.iter().zip(values).map(|(&f, &y)| f64::from(f) - f64::from(y));
            let count = values.len() as f64;
            measures.rmse = Some((errors.clone().map(|e| e * e).sum::<f64>() / count).sqrt());
            measures.mae = Some(errors.map(f64::abs).sum::<f64>() / count);
            measures.r2 = r2(outputs, values, dim);
        }
    }
    Ok(measures)
}

/// Returns the class with the largest output, the first on ties; a single output predicts class 1 if it is above 0.
pub fn predicted(f: &[f32]) -> usize {
    match f {
        [f] => usize::from(*f > 0.0),
        _ => (1..f.len()).fold(0, |best, j| if f[j] > f[best] { j } else { best }),
    }
}

/// Comparison of a classifier with a baseline on the same examples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct McNemar {
    /// Name of the baseline.
    pub baseline: String,
    /// Number of examples that the model alone classifies correctly.
    pub only_model: u64,
    /// Number of examples that the baseline alone classifies correctly.
    pub only_baseline: u64,
    /// Two-sided p-value of McNemar's exact test.
    pub p: f64,
}

impl McNemar {
    /// Compares which examples two classifiers have right.
    pub fn new(baseline: &str, model: &[bool], other: &[bool]) -> Self {
        let alone = |own: &[bool], other: &[bool]| {
            own.iter().zip(other).filter(|(own, other)| **own && !**other).count() as u64
        };
        let (only_model, only_baseline) = (alone(model, other), alone(other, model));
        let n = only_model + only_baseline;
        let tail = binomial_cdf(only_model.min(only_baseline), n, 0.5);
        let p = if n == 0 { 1.0 } else { (2.0 * tail).min(1.0) };
        Self { baseline: baseline.to_owned(), only_model, only_baseline, p }
    }
}

fn r2(outputs: &[f32], targets: &[f32], dim: usize) -> Option<f64> {
    let n = (targets.len() / dim) as f64;
    let of = |values: &[f32], j: usize| -> Vec<f64> {
        values.iter().skip(j).step_by(dim).map(|&x| f64::from(x)).collect()
    };
    let one = |j: usize| {
        let (f, y) = (of(outputs, j), of(targets, j));
        let mean = y.iter().sum::<f64>() / n;
        let total: f64 = y.iter().map(|y| (y - mean).powi(2)).sum();
        let error: f64 = f.iter().zip(&y).map(|(f, y)| (f - y).powi(2)).sum();
        (total > 0.0).then(|| 1.0 - error / total)
    };
    let all = (0..dim).map(one).collect::<Option<Vec<f64>>>()?;
    Some(all.iter().sum::<f64>() / dim as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_counted_in_their_places() {
        let outputs = [0.1, 0.9, 0.0, 2.0, 2.0, 1.0, -1.0, 0.0, 5.0];
        let targets = Targets::Classes(vec![1, 0, 0]);
        let found =
            measures(&outputs, 3, &targets, Loss::CrossEntropy { smoothing: 0.1 }, 3).unwrap();
        assert_eq!(found.confusion, [[1, 0, 1], [0, 1, 0], [0, 0, 0]]);
        assert_eq!(found.accuracy.unwrap().value, 2.0 / 3.0);
        let by_class = found.by_class();
        assert_eq!((by_class[0].value, by_class[1].value), (0.5, 1.0));
        assert!(by_class[2].value.is_nan());
    }

    /// 1 and 5 of 6 discordant examples: p = 2 (1 + 6) / 64.
    #[test]
    fn mcnemar_is_the_exact_binomial_test() {
        let model = [true, false, false, false, false, false, true, false];
        let other = [false, true, true, true, true, true, true, false];
        let found = McNemar::new("other", &model, &other);
        assert_eq!((found.only_model, found.only_baseline), (1, 5));
        assert!((found.p - 14.0 / 64.0).abs() < 1e-12, "{}", found.p);
        assert_eq!(McNemar::new("same", &model, &model).p, 1.0);
        assert_eq!(McNemar::new("even", &[true, false], &[false, true]).p, 1.0);
    }

    /// Errors 1, 0, -1, 2; the targets' mean is 2.5 and their squares around it sum to 5.
    #[test]
    fn regression_errors_match_a_worked_example() {
        let targets = Targets::Numbers { dim: 1, values: vec![1.0, 2.0, 3.0, 4.0] };
        let found = measures(&[2.0, 2.0, 2.0, 6.0], 1, &targets, Loss::Squared, 0).unwrap();
        assert_eq!((found.rmse, found.mae), (Some(1.5f64.sqrt()), Some(1.0)));
        assert_eq!((found.loss, found.r2), (1.5, Some(1.0 - 6.0 / 5.0)));
    }
}
