//! Logistic regression with an L2 penalty.
//!
//! min over W, b of (1/n) sum_i [log sum_k exp(s_ik) - s_i,y_i] + |W|^2 / (2 C n),   s_i = W x_i + b
//!
//! This is scikit-learn's objective for three or more classes, divided by C n; intercepts are not penalized. For two
//! classes scikit-learn fits one score w with |w|^2 / 2, which equals this objective with 2 C in place of C. [`OneVsRest`]
//! fits a separate binary problem per class, with scikit-learn's penalty.
//!
//! The minimum does not depend on the coordinate system: rotating the rows rotates W and leaves every score unchanged.
//!
//! A class without examples has no minimum (its intercept diverges to minus infinity): its weights are 0 and its intercept
//! is minus infinity, so it is never predicted.

mod kernel;
mod lbfgs;
mod objective;
mod penalty;
mod sparse;

use objective::{Axes, Examples, Objective, Targets};
use rayon::prelude::*;
use veridical_core::{Result, Rows};

use self::lbfgs::minimize;
use self::penalty::log_loss;
pub use self::penalty::{Folds, Penalty};
pub use self::sparse::SparseLogistic;
use crate::dense::{product, row_major, view};
use crate::votes::check_labels;

/// Settings of a logistic regression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogisticSettings {
    /// Inverse regularization strength C.
    pub c: f64,
    /// Stopping tolerance: the fit has converged when no entry of the gradient is larger.
    pub tolerance: f64,
    /// Maximum number of L-BFGS iterations.
    pub max_iterations: usize,
}

impl Default for LogisticSettings {
    fn default() -> Self {
        Self { c: 1.0, tolerance: 1e-6, max_iterations: 1000 }
    }
}

/// A fitted logistic regression: class scores that are linear in a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Logistic {
    /// W: one row of `dim` values per class.
    pub weights: Vec<f64>,
    /// Intercepts b, one per class.
    pub intercepts: Vec<f64>,
    /// Number of L-BFGS iterations that were run.
    pub iterations: usize,
    /// Objective value at the solution.
    pub loss: f64,
    /// Whether the gradient fell below the tolerance.
    pub converged: bool,
}

impl Logistic {
    /// Fits rows with one class label each, warm-started from `start` if it is given.
    ///
    /// # Errors
    /// [`Error::Shape`](veridical_core::Error::Shape) if there is not one label per row,
    /// [`Error::Unfit`](veridical_core::Error::Unfit) if there are no rows or a label is not below `classes`.
    ///
    /// ```
    /// use veridical_core::Rows;
    /// use veridical_learn::{Logistic, LogisticSettings};
    ///
    /// let rows = Rows::new(&[-2.0, -1.0, 1.0, 2.0], 1)?;
    /// let fit = Logistic::fit(rows, &[0, 0, 1, 1], 2, &LogisticSettings::default(), None)?;
    /// assert!(fit.converged);
    /// assert_eq!(fit.predict(&[-3.0, 0.5]), [0, 1]);
    /// # Ok::<(), veridical_core::Error>(())
    /// ```
    pub fn fit(
        rows: Rows<'_, f32>,
        labels: &[u32],
        classes: usize,
        settings: &LogisticSettings,
        start: Option<&Logistic>,
    ) -> Result<Self> {
        Ok(Problem::of_classes(rows, labels, classes)?.fit(settings, start))
    }

    /// Chooses the penalty by cross-validation, from rising values `cs`.
    ///
    /// # Errors
    /// The same as [`Logistic::fit`], and [`Error::Unfit`](veridical_core::Error::Unfit) for fewer rows than folds.
    pub fn choose_penalty(
        rows: Rows<'_, f32>,
        labels: &[u32],
        classes: usize,
        cs: &[f64],
        folds: Folds,
        settings: &LogisticSettings,
    ) -> Result<Penalty> {
        check_labels(rows, labels.len(), labels, classes)?;
        let dim = rows.dim();
        let picked = |own: &[usize]| -> (Vec<f32>, Vec<u32>) {
            let values = own.iter().flat_map(|&i| rows.row(i)).copied().collect();
            (values, own.iter().map(|&i| labels[i]).collect())
        };
        let parts = folds.parts(labels, classes)?;
        let parts: Vec<_> =
            parts.iter().map(|(train, test)| (picked(train), picked(test))).collect();
        let mut fits: Vec<Option<Logistic>> = vec![None; parts.len()];
        Penalty::choose(cs, rows.n(), |c| {
            let settings = LogisticSettings { c, ..*settings };
            let of = |(fit, (train, test)): (&mut Option<Logistic>, &(Part, Part))| {
                let train_rows = Rows::new(&train.0, dim)?;
                let found = Self::fit(train_rows, &train.1, classes, &settings, fit.as_ref())?;
                let loss = log_loss(found.scores(&test.0).into_iter(), &test.1, classes);
                *fit = Some(found);
                Ok(loss)
            };
            fits.par_iter_mut().zip(&parts).map(of).collect()
        })
    }

    /// Returns the scores (logits), one per class for every row.
    pub fn scores(&self, rows: &[f32]) -> Vec<f64> {
        let classes = self.intercepts.len();
        let dim = self.weights.len() / classes;
        let wide: Vec<f64> = rows.iter().map(|&x| f64::from(x)).collect();
        let mut scores =
            row_major(product(view(&wide, dim), view(&self.weights, dim).transpose()).as_ref());
        for row in scores.chunks_exact_mut(classes) {
            row.iter_mut().zip(&self.intercepts).for_each(|(s, b)| *s += b);
        }
        scores
    }

    /// Returns the class with the largest score for every row, the smallest class on ties.
    pub fn predict(&self, rows: &[f32]) -> Vec<u32> {
        let best =
            |scores: &[f64]| {
                (0..).zip(scores).fold((0, f64::NEG_INFINITY), |best, (k, &s)| {
                    if s > best.1 { (k, s) } else { best }
                })
            };
        self.scores(rows).chunks_exact(self.intercepts.len()).map(|s| best(s).0).collect()
    }
}

/// Fits a path of regularization strengths; each C is warm-started from the next smaller one.
///
/// The fits are returned in the order of `cs`.
///
/// # Errors
/// The same as [`Logistic::fit`].
pub fn logistic_path(
    rows: Rows<'_, f32>,
    labels: &[u32],
    classes: usize,
    settings: &LogisticSettings,
    cs: &[f64],
) -> Result<Vec<Logistic>> {
    let problem = Problem::of_classes(rows, labels, classes)?;
    let mut order: Vec<usize> = (0..cs.len()).collect();
    order.sort_by(|&i, &j| cs[i].total_cmp(&cs[j]));
    let mut fits: Vec<Option<Logistic>> = vec![None; cs.len()];
    let mut last: Option<usize> = None;
    for i in order {
        let start = last.and_then(|last| fits[last].as_ref());
        fits[i] = Some(problem.fit(&LogisticSettings { c: cs[i], ..*settings }, start));
        last = Some(i);
    }
    Ok(fits.into_iter().flatten().collect())
}

/// Multi-label classification: an independent binary logistic regression per class.
///
/// ```
/// use veridical_core::Rows;
/// use veridical_learn::{LogisticSettings, OneVsRest};
///
/// let rows = Rows::new(&[-2.0, -1.0, 1.0, 2.0], 1)?;
/// let sets = [vec![0], vec![0], vec![0, 1], vec![0, 1]];
/// let fit = OneVsRest::fit(rows, &sets, 2, &LogisticSettings::default())?;
/// assert_eq!(fit.predict(&[-3.0, 3.0]), [vec![0], vec![0, 1]]);
/// # Ok::<(), veridical_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct OneVsRest(pub Logistic);

impl OneVsRest {
    /// Fits rows with a set of classes each; a set may be empty and must not repeat a class.
    ///
    /// # Errors
    /// The same as [`Logistic::fit`].
    pub fn fit(
        rows: Rows<'_, f32>,
        sets: &[Vec<u32>],
        classes: usize,
        settings: &LogisticSettings,
    ) -> Result<Self> {
        check_labels(rows, sets.len(), sets.iter().flatten(), classes)?;
        let mut counts = vec![0; classes];
        sets.iter().flatten().for_each(|&label| counts[label as usize] += 1);
        Ok(Self(Problem::new(rows, Labels::Sets(sets), counts).fit(settings, None)))
    }

    /// Returns, for every row, the classes with a positive score.
    pub fn predict(&self, rows: &[f32]) -> Vec<Vec<u32>> {
        let positive =
            |scores: &[f64]| (0..).zip(scores).filter(|(_, s)| **s > 0.0).map(|(k, _)| k).collect();
        self.0.scores(rows).chunks_exact(self.0.intercepts.len()).map(positive).collect()
    }
}

/// Rows with their labels.
type Part = (Vec<f32>, Vec<u32>);

#[derive(Clone, Copy)]
enum Labels<'a> {
    Classes(&'a [u32]),
    Sets(&'a [Vec<u32>]),
}

/// The part of a fit that does not depend on the penalty.
struct Problem<'a> {
    rows: &'a [f32],
    dim: usize,
    labels: Labels<'a>,
    counts: Vec<usize>,
    axes: Axes,
}

impl<'a> Problem<'a> {
    fn of_classes(rows: Rows<'a, f32>, labels: &'a [u32], classes: usize) -> Result<Self> {
        check_labels(rows, labels.len(), labels, classes)?;
        let mut counts = vec![0; classes];
        labels.iter().for_each(|&label| counts[label as usize] += 1);
        Ok(Self::new(rows, Labels::Classes(labels), counts))
    }

    /// Builds the problem from labels that were already checked.
    fn new(rows: Rows<'a, f32>, labels: Labels<'a>, counts: Vec<usize>) -> Self {
        let (rows, dim) = (rows.values(), rows.dim());
        Self { rows, dim, labels, counts, axes: Axes::of(rows, dim) }
    }

    fn fit(&self, settings: &LogisticSettings, start: Option<&Logistic>) -> Logistic {
        let (dim, classes) = (self.dim, self.counts.len());
        let n = self.rows.len() / dim;
        let sets = matches!(self.labels, Labels::Sets(_));
        // Classes with no examples (or, in one-vs-rest, with all of them) are settled without fitting.
        let open = |&k: &usize| self.counts[k] > 0 && !(sets && self.counts[k] == n);
        let open: Vec<usize> = (0..classes).filter(open).collect();
        let settled =
            |k: usize| if self.counts[k] == 0 { f64::NEG_INFINITY } else { f64::INFINITY };
        let mut fit = Logistic {
            weights: vec![0.0; classes * dim],
            intercepts: (0..classes).map(settled).collect(),
            iterations: 0,
            loss: 0.0,
            converged: true,
        };
        if let [only] = open[..]
            && !sets
        {
            fit.intercepts[only] = 0.0;
            return fit;
        }
        if open.is_empty() {
            return fit;
        }
        let mut number = vec![u32::MAX; classes];
        open.iter().zip(0..).for_each(|(&k, i)| number[k] = i);
        let (renumbered, filtered): (Vec<u32>, Vec<Vec<u32>>);
        let targets = match self.labels {
            Labels::Classes(labels) => {
                renumbered = labels.iter().map(|&l| number[l as usize]).collect();
                Targets::Softmax(&renumbered)
            }
            Labels::Sets(sets) => {
                let set = |set: &Vec<u32>| {
                    set.iter().map(|&l| number[l as usize]).filter(|&l| l != u32::MAX).collect()
                };
                filtered = sets.iter().map(set).collect();
                Targets::Sigmoid(&filtered)
            }
        };
        let examples = Examples { rows: self.rows, dim, targets, classes: open.len() };
        let shares: Vec<f64> = open.iter().map(|&k| self.counts[k] as f64 / n as f64).collect();
        let objective = Objective {
            examples: &examples,
            axes: &self.axes,
            penalty: 1.0 / (settings.c * n as f64),
            shares: &shares,
        };
        let mut x = self.start(&open, &shares, start);
        if start.is_some() {
            objective.shift_intercepts(&mut x, 1.0);
        }
        objective.to_zero_sum(&mut x);
        let ended = minimize(&objective, &mut x, settings.tolerance, settings.max_iterations);
        objective.shift_intercepts(&mut x, -1.0);
        let (w, b) = x.split_at(open.len() * dim);
        for (i, &k) in open.iter().enumerate() {
            fit.weights[k * dim..][..dim].copy_from_slice(&w[i * dim..][..dim]);
            fit.intercepts[k] = b[i];
        }
        Logistic {
            iterations: ended.iterations,
            loss: ended.value,
            converged: ended.converged,
            ..fit
        }
    }

    /// Initial parameters of the classes to fit: those of `start`, else zero weights and the log-odds of the class shares.
    fn start(&self, open: &[usize], shares: &[f64], start: Option<&Logistic>) -> Vec<f64> {
        let dim = self.dim;
        let same = |start: &&Logistic| {
            start.weights.len() == self.counts.len() * dim
                && open.iter().all(|&k| start.intercepts[k].is_finite())
        };
        if let Some(start) = start.filter(same) {
            let weights = open.iter().flat_map(|&k| &start.weights[k * dim..][..dim]);
            return weights.chain(open.iter().map(|&k| &start.intercepts[k])).copied().collect();
        }
        let mut x = vec![0.0; open.len() * dim];
        let sets = matches!(self.labels, Labels::Sets(_));
        x.extend(shares.iter().map(|p| if sets { (p / (1.0 - p)).ln() } else { p.ln() }));
        x
    }
}

#[cfg(test)]
mod tests;
