//! Logistic regression on sparse rows, such as counts of words.
//!
//! two classes   min over w, b of (1/n) sum_i log(1 + exp(-t_i (<w, x_i> + b))) + |w|^2 / (2 C n),  t_i = +-1
//! more          the objective of [`Logistic`](super::Logistic)
//!
//! so that C means in both what it means in scikit-learn. The columns of W that a row reads are its entries, so an evaluation
//! reads X twice: by rows for the scores, by columns for the gradient; both are sums in a fixed order. The preconditioner is the
//! inverse of the diagonal q_k (1 - q_k) mean x_j^2 + 1 / (C n), the Hessian's where all scores are b.

use rayon::prelude::*;
use veridical_core::{Error, Result, SparseRows};

use super::LogisticSettings;
use super::lbfgs::{Smooth, minimize};
use super::penalty::{Folds, Penalty, log_loss, softplus};

/// Rows or columns of a task of a thread.
const BLOCK: usize = 512;

/// A fitted sparse logistic regression.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseLogistic {
    /// W by columns of the data: for every column one weight per output.
    pub weights: Vec<f32>,
    /// One intercept per output.
    pub intercepts: Vec<f32>,
    /// Number of L-BFGS iterations that were run.
    pub iterations: usize,
    /// Objective value at the solution.
    pub loss: f64,
    /// Whether the gradient fell below the tolerance.
    pub converged: bool,
}

/// Returns the number of outputs for a number of classes: one for two, else one each.
const fn outputs_for(classes: usize) -> usize {
    if classes == 2 { 1 } else { classes }
}

impl SparseLogistic {
    /// Fits rows with one class label each.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is not one label per row, [`Error::Unfit`] if there are no rows, fewer than two classes or a label
    /// that is not below `classes`.
    ///
    /// ```
    /// use veridical_core::SparseRows;
    /// use veridical_learn::{LogisticSettings, SparseLogistic};
    ///
    /// let mut rows = SparseRows::new(2);
    /// for row in [[(0, 1.0)], [(0, 2.0)], [(1, 1.0)], [(1, 2.0)]] {
    ///     rows.push(&row)?;
    /// }
    /// let fit = SparseLogistic::fit(&rows, &[0, 0, 1, 1], 2, &LogisticSettings::default())?;
    /// assert!(fit.converged);
    /// let outputs = fit.outputs(&rows); // one for two classes: above 0 is the second
    /// assert!(outputs[0] < 0.0 && outputs[3] > 0.0);
    /// # Ok::<(), veridical_core::Error>(())
    /// ```
    pub fn fit(
        rows: &SparseRows,
        labels: &[u32],
        classes: usize,
        settings: &LogisticSettings,
    ) -> Result<Self> {
        check(rows, labels, classes)?;
        let problem = Problem::new(rows.clone(), labels.to_vec(), classes);
        let mut x = problem.start();
        Ok(problem.fit(&mut x, settings))
    }

    /// Returns the outputs of every row: one for two classes (positive for the second), otherwise one per class.
    pub fn outputs(&self, rows: &SparseRows) -> Vec<f32> {
        let k = self.intercepts.len();
        let mut outputs = vec![0.0; rows.n() * k];
        outputs.par_chunks_mut(BLOCK * k).enumerate().for_each(|(block, out)| {
            for (i, out) in (block * BLOCK..).zip(out.chunks_exact_mut(k)) {
                out.copy_from_slice(&self.intercepts);
                let (columns, values) = rows.row(i);
                for (&column, &value) in columns.iter().zip(values) {
                    let weights = &self.weights[column as usize * k..][..k];
                    out.iter_mut().zip(weights).for_each(|(s, w)| *s += value * w);
                }
            }
        });
        outputs
    }

    /// Chooses the penalty by cross-validation, from rising values `cs`.
    ///
    /// # Errors
    /// The same as [`SparseLogistic::fit`], and [`Error::Unfit`] for fewer rows than folds.
    pub fn choose_penalty(
        rows: &SparseRows,
        labels: &[u32],
        classes: usize,
        cs: &[f64],
        folds: Folds,
        settings: &LogisticSettings,
    ) -> Result<Penalty> {
        check(rows, labels, classes)?;
        let parts = folds.parts(labels, classes)?.into_par_iter().map(|(train, test)| {
            let of = |own: &[usize]| own.iter().map(|&i| labels[i]).collect::<Vec<u32>>();
            let problem = Problem::new(rows.subset(&train), of(&train), classes);
            let start = problem.start();
            (problem, start, rows.subset(&test), of(&test))
        });
        let mut parts: Vec<_> = parts.collect();
        Penalty::choose(cs, rows.n(), |c| {
            let settings = LogisticSettings { c, ..*settings };
            let losses = parts.par_iter_mut().map(|(problem, x, test, labels)| {
                let outputs = problem.fit(x, &settings).outputs(test);
                log_loss(outputs.iter().map(|&s| f64::from(s)), labels, outputs_for(classes))
            });
            Ok(losses.collect())
        })
    }
}

fn check(rows: &SparseRows, labels: &[u32], classes: usize) -> Result<()> {
    if rows.n() != labels.len() {
        let what = format!("there are {} rows and {} labels", rows.n(), labels.len());
        return Err(Error::shape(what, ""));
    }
    if rows.n() == 0 || classes < 2 {
        return Err(Error::unfit("a classifier needs rows of at least two classes", ""));
    }
    match labels.iter().find(|&&label| label as usize >= classes) {
        Some(label) => Err(Error::unfit(format!("label {label} is not below {classes}"), "")),
        None => Ok(()),
    }
}

/// The part of a fit that does not depend on the penalty.
struct Problem {
    rows: SparseRows,
    /// The same entries by columns.
    columns: SparseRows,
    labels: Vec<u32>,
    /// Number of outputs.
    k: usize,
    /// q_k (1 - q_k) of every output.
    variances: Vec<f64>,
    /// mean x_j^2 of every column.
    squares: Vec<f64>,
    shares: Vec<f64>,
}

impl Problem {
    fn new(rows: SparseRows, labels: Vec<u32>, classes: usize) -> Self {
        let n = labels.len() as f64;
        let k = outputs_for(classes);
        let mut counts = vec![0.0; classes];
        labels.iter().for_each(|&label| counts[label as usize] += 1.0);
        // A class without rows has no finite intercept: it counts as half a row.
        let shares: Vec<f64> = counts.iter().map(|&count: &f64| count.max(0.5) / n).collect();
        let own = if k == 1 { &shares[1..] } else { &shares[..] };
        let variances = own.iter().map(|q| (q * (1.0 - q)).max(1e-6)).collect();
        let columns = rows.transposed();
        let square = |j: usize| {
            let (_, values) = columns.row(j);
            values.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>() / n
        };
        let squares = (0..rows.dim()).into_par_iter().map(square).collect();
        Self { columns, labels, k, variances, squares, shares, rows }
    }

    /// Zero weights and the log-odds of the shares of the classes.
    fn start(&self) -> Vec<f64> {
        let mut x = vec![0.0; self.rows.dim() * self.k];
        match self.k {
            1 => x.push((self.shares[1] / self.shares[0]).ln()),
            _ => x.extend(self.shares.iter().map(|q| q.ln())),
        }
        x
    }

    /// Fits from `x` on, which becomes the solution.
    fn fit(&self, x: &mut Vec<f64>, settings: &LogisticSettings) -> SparseLogistic {
        let penalty = 1.0 / (settings.c * self.labels.len() as f64);
        let objective = Objective { problem: self, penalty };
        let ended = minimize(&objective, x, settings.tolerance, settings.max_iterations);
        let (weights, intercepts) = x.split_at(self.rows.dim() * self.k);
        SparseLogistic {
            weights: weights.iter().map(|&w| w as f32).collect(),
            intercepts: intercepts.iter().map(|&b| b as f32).collect(),
            iterations: ended.iterations,
            loss: ended.value,
            converged: ended.converged,
        }
    }

    /// Replaces the scores of a row by the gradient of its loss, which is returned.
    fn residual(&self, scores: &mut [f64], label: u32) -> f64 {
        if let [s] = scores {
            let target = f64::from(label);
            let loss = softplus(if label == 1 { -*s } else { *s });
            *s = 1.0 / (1.0 + (-*s).exp()) - target;
            return loss;
        }
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let own = scores[label as usize] - most;
        scores.iter_mut().for_each(|s| *s = (*s - most).exp());
        let sum: f64 = scores.iter().sum();
        scores.iter_mut().for_each(|s| *s /= sum);
        scores[label as usize] -= 1.0;
        sum.ln() - own
    }
}

struct Objective<'a> {
    problem: &'a Problem,
    /// 1 / (C n).
    penalty: f64,
}

impl Smooth for Objective<'_> {
    fn evaluate(&self, x: &[f64], gradient: &mut [f64]) -> f64 {
        let Problem { rows, columns, labels, k, .. } = self.problem;
        let (k, n) = (*k, labels.len());
        let (weights, intercepts) = x.split_at(rows.dim() * k);
        let mut residuals = vec![0.0; n * k];
        let losses: Vec<f64> = residuals
            .par_chunks_mut(BLOCK * k)
            .enumerate()
            .map(|(block, out)| {
                let mut loss = 0.0;
                for (i, out) in (block * BLOCK..).zip(out.chunks_exact_mut(k)) {
                    out.copy_from_slice(intercepts);
                    let (own, values) = rows.row(i);
                    for (&column, &value) in own.iter().zip(values) {
                        let weights = &weights[column as usize * k..][..k];
                        out.iter_mut().zip(weights).for_each(|(s, w)| *s += f64::from(value) * w);
                    }
                    loss += self.problem.residual(out, labels[i]);
                }
                loss
            })
            .collect();
        let (of_weights, of_intercepts) = gradient.split_at_mut(rows.dim() * k);
        of_weights.par_chunks_mut(BLOCK * k).enumerate().for_each(|(block, out)| {
            for (j, out) in (block * BLOCK..).zip(out.chunks_exact_mut(k)) {
                out.fill(0.0);
                let (from, values) = columns.row(j);
                for (&i, &value) in from.iter().zip(values) {
                    let residual = &residuals[i as usize * k..][..k];
                    out.iter_mut().zip(residual).for_each(|(g, r)| *g += f64::from(value) * r);
                }
                let weights = &weights[j * k..][..k];
                out.iter_mut()
                    .zip(weights)
                    .for_each(|(g, w)| *g = *g / n as f64 + self.penalty * w);
            }
        });
        of_intercepts.fill(0.0);
        for residual in residuals.chunks_exact(k) {
            of_intercepts.iter_mut().zip(residual).for_each(|(g, r)| *g += r / n as f64);
        }
        let squares: f64 = weights.iter().map(|w| w * w).sum();
        losses.iter().sum::<f64>() / n as f64 + 0.5 * self.penalty * squares
    }

    fn precondition(&self, g: &mut [f64]) {
        let Problem { k, variances, squares, .. } = self.problem;
        let (weights, intercepts) = g.split_at_mut(squares.len() * k);
        for (g, square) in weights.chunks_exact_mut(*k).zip(squares) {
            g.iter_mut().zip(variances).for_each(|(g, v)| *g /= v * square + self.penalty);
        }
        intercepts.iter_mut().zip(variances).for_each(|(g, v)| *g /= v);
    }
}

#[cfg(test)]
mod tests {
    use veridical_core::{Rows, Seed, Stream};

    use super::*;
    use crate::Logistic;

    /// Sparse rows of several classes and the same rows in dense form.
    fn data(n: usize, dim: usize, classes: u32) -> (SparseRows, Vec<f32>, Vec<u32>) {
        let draws = Stream::new(Seed::new(1).unwrap(), "sparse");
        let mut rows = SparseRows::new(dim);
        let (mut dense, mut labels) = (vec![0.0; n * dim], Vec::new());
        for i in 0..n {
            let mut draws = draws.at(0, i as u64).draws();
            let label = draws.below(classes);
            let mut entries: Vec<(u32, f32)> = Vec::new();
            for j in 0..dim as u32 {
                let likely = if j % classes == label { 3 } else { 1 };
                if draws.below(8) < likely {
                    entries.push((j, 0.5 + draws.below(100) as f32 / 100.0));
                }
            }
            entries.iter().for_each(|&(j, x)| dense[i * dim + j as usize] = x);
            rows.push(&entries).unwrap();
            labels.push(label);
        }
        (rows, dense, labels)
    }

    /// Strictly convex up to a shift of all intercepts: both solvers find the same minimum, to the tolerance of the gradient over
    /// the least curvature (1 / (C n) = 0.0125) and to f32.
    #[test]
    fn the_minimum_is_that_of_dense_rows() {
        for classes in [2, 3, 5] {
            let (rows, dense, labels) = data(80, 12, classes);
            let c = 1.0;
            let settings = LogisticSettings { c, tolerance: 1e-9, ..Default::default() };
            let sparse = SparseLogistic::fit(&rows, &labels, classes as usize, &settings).unwrap();
            // Two scores with weights w / 2 and -w / 2 have half the squared norm of one score w.
            let of_dense =
                LogisticSettings { c: if classes == 2 { c / 2.0 } else { c }, ..settings };
            let dense_rows = Rows::new(&dense, 12).unwrap();
            let fit =
                Logistic::fit(dense_rows, &labels, classes as usize, &of_dense, None).unwrap();
            assert!(sparse.converged && fit.converged);
            let k = classes as usize;
            let want = fit.scores(&dense);
            let got = sparse.outputs(&rows);
            for (i, want) in want.chunks_exact(k).enumerate() {
                let differences: Vec<(f64, f64)> = match k {
                    2 => vec![(want[1] - want[0], f64::from(got[i]))],
                    _ => (1..k)
                        .map(|c| (want[c] - want[0], f64::from(got[i * k + c] - got[i * k])))
                        .collect(),
                };
                for (want, got) in differences {
                    assert!((want - got).abs() < 2e-5 * want.abs().max(1.0), "{want} {got}");
                }
            }
        }
    }

    #[test]
    fn the_gradient_is_that_of_the_loss() {
        for classes in [2, 4] {
            let (rows, _, labels) = data(30, 6, classes);
            let problem = Problem::new(rows, labels, classes as usize);
            let objective = Objective { problem: &problem, penalty: 0.1 };
            let x: Vec<f64> = (0..problem.start().len()).map(|i| (i as f64).sin()).collect();
            let mut gradient = vec![0.0; x.len()];
            objective.evaluate(&x, &mut gradient);
            let mut unused = gradient.clone();
            for i in 0..x.len() {
                let mut at = |h: f64| {
                    let mut x = x.clone();
                    x[i] += h;
                    objective.evaluate(&x, &mut unused)
                };
                let central = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!((central - gradient[i]).abs() < 1e-8, "{central} {}", gradient[i]);
            }
        }
    }

    #[test]
    fn cross_validation_finds_a_penalty_between_the_extremes() {
        let (rows, _, labels) = data(300, 40, 3);
        let cs = [1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0];
        let settings = LogisticSettings { tolerance: 1e-5, ..Default::default() };
        let seed = Seed::new(0).unwrap();
        let folds = Folds { n: 5, seed };
        let choose =
            || SparseLogistic::choose_penalty(&rows, &labels, 3, &cs, folds, &settings).unwrap();
        let chosen = choose();
        assert!(chosen.c > 1e-3 && chosen.c < 100.0, "{chosen:?}");
        let least = chosen.path.iter().map(|(_, loss)| *loss).fold(f64::INFINITY, f64::min);
        assert!(chosen.path.contains(&(chosen.c, least)));
        assert_eq!(chosen, choose());
    }

    #[test]
    fn bad_problems_are_refused() {
        let (rows, _, labels) = data(10, 4, 2);
        let settings = LogisticSettings::default();
        assert!(SparseLogistic::fit(&rows, &labels[1..], 2, &settings).is_err());
        assert!(SparseLogistic::fit(&rows, &[7; 10], 2, &settings).is_err());
        assert!(SparseLogistic::fit(&SparseRows::new(3), &[], 2, &settings).is_err());
    }
}
