//! Soft-margin support vector machines on a Gram matrix, one for every pair of classes (as LIBSVM; Chang & Lin 2011).
//!
//! For classes a < b with y = 1 for a and -1 for b: min over 0 <= alpha <= C of (1/2) alpha' Q alpha - 1'alpha, Q_ij = y_i y_j k_ij, with
//! y'alpha = 0. Sequential minimal optimization (Platt 1998) with the working pair of Fan, Chen & Lin (2005): of the gradient
//! G = Q alpha - 1, i has the largest -y_i G_i among those that can still move up, j the largest decrease of the objective to second
//! order. A step t >= 0 moves alpha_i by y_i t and alpha_j by -y_j t. Ends when the largest violation of the optimality conditions is
//! below the tolerance.
//!
//! decision   f(x) = sum_i y_i alpha_i k(x, x_i) - rho, rho the mean of y_i G_i over 0 < alpha_i < C
//! class      the most pairs won, the smaller class on ties
//! scores     pairs won plus s / (3 (|s| + 1)) with the sum s of the decisions for the class: in the order of votes, and continuous

use rayon::prelude::*;
use veridical_core::{Error, Job, Result, Rows};

use super::glm::check_labels;
use super::product::{check_gram, check_queries, product, submatrix};

/// How a support vector machine is fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SvmSettings {
    /// The penalty C of a violated margin.
    pub c: f64,
    /// The violation of the optimality conditions at which to stop.
    pub tolerance: f64,
    /// The largest number of steps per pair of classes.
    pub steps: usize,
}

impl SvmSettings {
    /// Settings for C, with LIBSVM's tolerance of 1e-3 and at most 10 million steps.
    pub const fn new(c: f64) -> Self {
        Self { c, tolerance: 1e-3, steps: 10_000_000 }
    }
}

/// A fitted machine of every pair of classes.
#[derive(Clone, Debug)]
pub struct Svm {
    classes: usize,
    /// y_i alpha_i: a row of one value per pair for every training row.
    coefficients: Vec<f64>,
    /// rho, one value per pair.
    offsets: Vec<f64>,
    /// Whether all pairs have reached the tolerance.
    pub converged: bool,
    /// The number of training rows with a coefficient in some pair.
    pub supports: usize,
}

/// The classes of all pairs: (0, 1), (0, 2), .. (1, 2), ..
fn pairs(classes: usize) -> Vec<[usize; 2]> {
    (0..classes).flat_map(|a| (a + 1..classes).map(move |b| [a, b])).collect()
}

impl Svm {
    /// Fits labels below `classes`.
    ///
    /// # Errors
    /// [`Error::Setting`] if C or the tolerance is not above 0; [`Error::Shape`] if sizes differ; [`Error::Unfit`] for fewer than two classes, a
    /// class without a row, or values that are not finite; [`Error::Interrupted`] if the job is cancelled.
    ///
    /// ```
    /// use veridical_core::{Job, Rows};
    /// use veridical_kernels::machine::{Svm, SvmSettings};
    ///
    /// // The points -2, -1, 1, 2: the margin is between -1 and 1.
    /// let k = [4.0, 2.0, -2.0, -4.0, 2.0, 1.0, -1.0, -2.0, -2.0, -1.0, 1.0, 2.0, -4.0, -2.0, 2.0, 4.0];
    /// let job = Job::silent();
    /// let svm = Svm::fit(Rows::new(&k, 4)?, &[0, 0, 1, 1], 2, &SvmSettings::new(10.0), &job)?;
    /// assert_eq!(svm.predict(Rows::new(&[-6.0, -3.0, 3.0, 6.0], 4)?)?, [1]);
    /// assert_eq!(svm.supports, 2);
    /// # Ok::<(), veridical_core::Error>(())
    /// ```
    pub fn fit(
        k: Rows<'_, f32>,
        labels: &[u32],
        classes: usize,
        settings: &SvmSettings,
        job: &Job<'_>,
    ) -> Result<Self> {
        for (name, value) in [("c", settings.c), ("tolerance", settings.tolerance)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(Error::setting(name, "a finite number above 0", value));
            }
        }
        let n = check_gram(k, labels.len(), "labels")?;
        check_labels(labels, classes)?;
        let pairs = pairs(classes);
        let solve = |&[a, b]: &[usize; 2]| -> Result<(Vec<usize>, Solved)> {
            let of_pair = |y: u32| y as usize == a || y as usize == b;
            let rows: Vec<usize> = (0..n).filter(|&i| of_pair(labels[i])).collect();
            let sign = |&i: &usize| if labels[i] as usize == a { 1.0 } else { -1.0 };
            let y: Vec<f64> = rows.iter().map(sign).collect();
            let solved = minimize(&submatrix(k, &rows, &rows), &y, settings, job)?;
            Ok((rows, solved))
        };
        let solved: Vec<(Vec<usize>, Solved)> =
            pairs.par_iter().map(solve).collect::<Result<_>>()?;
        let mut coefficients = vec![0.0; n * pairs.len()];
        for (pair, (rows, solved)) in solved.iter().enumerate() {
            for (&i, coefficient) in rows.iter().zip(&solved.coefficients) {
                coefficients[i * pairs.len() + pair] = *coefficient;
            }
        }
        let rows = coefficients.chunks_exact(pairs.len());
        let supports = rows.filter(|row| row.iter().any(|c| *c != 0.0)).count();
        let offsets = solved.iter().map(|(_, solved)| solved.rho).collect();
        let converged = solved.iter().all(|(_, solved)| solved.converged);
        Ok(Self { classes, coefficients, offsets, converged, supports })
    }

    /// Returns the decisions of queries: a row of one value per pair of classes (0, 1), (0, 2), .., positive for the first of the pair.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is not one kernel value per training row, [`Error::Unfit`] if one is not finite.
    pub fn decisions(&self, k: Rows<'_, f32>) -> Result<Vec<f64>> {
        let pairs = self.offsets.len();
        check_queries(k, self.coefficients.len() / pairs)?;
        let mut decisions = product(k, &self.coefficients, pairs);
        for row in decisions.chunks_exact_mut(pairs) {
            row.iter_mut().zip(&self.offsets).for_each(|(d, rho)| *d -= rho);
        }
        Ok(decisions)
    }

    /// Returns scores of queries, a row of one value per class.
    ///
    /// # Errors
    /// The same as [`Self::decisions`].
    pub fn scores(&self, k: Rows<'_, f32>) -> Result<Vec<f64>> {
        let pairs = pairs(self.classes);
        let mut scores = Vec::with_capacity(k.n() * self.classes);
        for row in self.decisions(k)?.chunks_exact(pairs.len()) {
            let (mut votes, mut sums) = (vec![0.0; self.classes], vec![0.0; self.classes]);
            for (&[a, b], d) in pairs.iter().zip(row) {
                votes[if *d > 0.0 { a } else { b }] += 1.0;
                sums[a] += d;
                sums[b] -= d;
            }
            scores.extend(votes.iter().zip(sums).map(|(v, s)| v + s / (3.0 * (s.abs() + 1.0))));
        }
        Ok(scores)
    }

    /// Returns the class of every query.
    ///
    /// # Errors
    /// The same as [`Self::decisions`].
    pub fn predict(&self, k: Rows<'_, f32>) -> Result<Vec<u32>> {
        let pairs = pairs(self.classes);
        let class = |row: &[f64]| {
            let mut votes = vec![0u32; self.classes];
            for (&[a, b], d) in pairs.iter().zip(row) {
                votes[if *d > 0.0 { a } else { b }] += 1;
            }
            let more = |best: usize, c: usize| if votes[c] > votes[best] { c } else { best };
            (0..self.classes).reduce(more).unwrap_or(0) as u32
        };
        Ok(self.decisions(k)?.chunks_exact(pairs.len()).map(class).collect())
    }
}

struct Solved {
    /// y_i alpha_i.
    coefficients: Vec<f64>,
    rho: f64,
    converged: bool,
}

/// The smallest curvature of a step: equal rows have none.
const FLAT: f64 = 1e-12;
/// Steps between two looks at the cancel flag.
const LOOK: usize = 4096;

fn minimize(k: &[f32], y: &[f64], settings: &SvmSettings, job: &Job<'_>) -> Result<Solved> {
    let (n, c) = (y.len(), settings.c);
    let at = |i: usize, j: usize| f64::from(k[i * n + j]);
    let (mut alpha, mut g) = (vec![0.0f64; n], vec![-1.0f64; n]);
    // Whether alpha_i can move by y_i t and by -y_i t for a t above 0.
    let can_rise = |alpha: f64, y: f64| if y > 0.0 { alpha < c } else { alpha > 0.0 };
    let can_fall = |alpha: f64, y: f64| if y > 0.0 { alpha > 0.0 } else { alpha < c };
    let mut converged = false;
    for step in 0..settings.steps {
        if step % LOOK == 0 {
            job.check()?;
        }
        let (mut i, mut top) = (n, f64::NEG_INFINITY);
        for t in 0..n {
            if can_rise(alpha[t], y[t]) && -y[t] * g[t] > top {
                (i, top) = (t, -y[t] * g[t]);
            }
        }
        let (mut j, mut most, mut bottom) = (n, f64::NEG_INFINITY, f64::INFINITY);
        for t in 0..n {
            if !can_fall(alpha[t], y[t]) {
                continue;
            }
            let value = -y[t] * g[t];
            bottom = bottom.min(value);
            let slope = top - value;
            if i < n && slope > 0.0 {
                let curvature = (at(i, i) + at(t, t) - 2.0 * at(i, t)).max(FLAT);
                let decrease = slope * slope / curvature;
                if decrease > most {
                    (j, most) = (t, decrease);
                }
            }
        }
        if top - bottom < settings.tolerance || j == n {
            converged = true;
            break;
        }
        let curvature = (at(i, i) + at(j, j) - 2.0 * at(i, j)).max(FLAT);
        let wished = (y[j] * g[j] - y[i] * g[i]) / curvature;
        let room_i = if y[i] > 0.0 { c - alpha[i] } else { alpha[i] };
        let room_j = if y[j] > 0.0 { alpha[j] } else { c - alpha[j] };
        let t = wished.min(room_i).min(room_j);
        // At a bound exactly, not by a rounding.
        let moved = |alpha: f64, y: f64, t: f64, is_full: bool| match (is_full, y * t > 0.0) {
            (true, true) => c,
            (true, false) => 0.0,
            (false, _) => alpha + y * t,
        };
        alpha[i] = moved(alpha[i], y[i], t, t == room_i);
        alpha[j] = moved(alpha[j], -y[j], t, t == room_j);
        let (of_i, of_j) = (&k[i * n..][..n], &k[j * n..][..n]);
        for ((g, y), (a, b)) in g.iter_mut().zip(y).zip(of_i.iter().zip(of_j)) {
            *g += y * t * (f64::from(*a) - f64::from(*b));
        }
    }
    let (mut sum, mut free) = (0.0, 0.0);
    let (mut least, mut largest) = (f64::INFINITY, f64::NEG_INFINITY);
    for t in 0..n {
        let value = y[t] * g[t];
        if alpha[t] > 0.0 && alpha[t] < c {
            sum += value;
            free += 1.0;
        } else if can_rise(alpha[t], y[t]) {
            // rho is at most this for those, and at least that for the others.
            least = least.min(value);
        } else {
            largest = largest.max(value);
        }
    }
    let rho = if free > 0.0 { sum / free } else { f64::midpoint(least, largest) };
    let coefficients = alpha.iter().zip(y).map(|(alpha, y)| alpha * y).collect();
    Ok(Solved { coefficients, rho, converged })
}

#[cfg(test)]
mod tests {
    use super::super::product::testing::{Case, features, gram};
    use super::*;

    /// scikit-learn's SVC (LIBSVM) at a tolerance of 1e-10: decisions are unique where the optimum has a free support vector; both are
    /// within about tolerance times C n of it.
    #[test]
    fn decisions_are_those_of_libsvm() {
        for case in Case::all("svm") {
            let (n, classes, k) = (case.n, case.classes, case.gram());
            let settings = SvmSettings { tolerance: 1e-10, ..SvmSettings::new(case.number("c")) };
            let k = Rows::new(&k, n).unwrap();
            let svm = Svm::fit(k, &case.labels, classes, &settings, &Job::silent()).unwrap();
            assert!(svm.converged);
            let queries = case.queries(12);
            let queries = Rows::new(&queries, n).unwrap();
            // For two classes scikit-learn's decision is positive for the second.
            let sign = if classes == 2 { -1.0 } else { 1.0 };
            for (got, want) in svm.decisions(queries).unwrap().iter().zip(case.numbers("decisions"))
            {
                assert!((got - sign * want).abs() < 1e-6, "{got} is not {want}");
            }
            let predicted: Vec<f64> =
                svm.predict(queries).unwrap().into_iter().map(f64::from).collect();
            assert_eq!(predicted, case.numbers("predicted"));
        }
    }

    #[test]
    fn scores_are_in_the_order_of_votes() {
        let (n, dim, classes) = (90, 5, 3);
        let x = features(n, dim, 0);
        let k = gram(&x, &x, dim);
        let labels: Vec<u32> = (0..n as u32).map(|i| i * i % 7 % 3).collect();
        let k = Rows::new(&k, n).unwrap();
        let job = Job::silent();
        let svm = Svm::fit(k, &labels, classes, &SvmSettings::new(1.0), &job).unwrap();
        let scores = svm.scores(k).unwrap();
        assert!(svm.converged && svm.supports > 10 && svm.supports <= n);
        for (scores, class) in scores.chunks(classes).zip(svm.predict(k).unwrap()) {
            let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            // Sums move a score by less than a third: only a tie of votes can be decided by them.
            assert!(scores[class as usize] > top - 2.0 / 3.0);
        }
        let message =
            |c| Svm::fit(k, &labels, classes, &SvmSettings::new(c), &job).unwrap_err().to_string();
        assert_eq!(message(0.0), "⟨c⟩ must be a finite number above 0, got 0");
    }
}
