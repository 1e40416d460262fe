//! Multinomial logistic regression in the space of a kernel (kGLM, paper 004, equation 1), and the influence of its rows.
//!
//! min over alpha, b  F = (1/n) sum_i w_i CE_i + (lambda / 2) tr(alpha' K alpha),  logits S = K alpha + b, P = softmax(S)
//!
//! In the inner product <(d, d_b), (e, e_b)> = tr(d' K e) + d_b·e_b the gradient and the Hessian are, row by row,
//!   g = W (P - Y) / n + lambda alpha,  g_b = sum_i of the first part
//!   H (d, d_b) = (lambda d + t, sum_i t_i),  t_i = (w_i / n) D_i (K d + d_b)_i,  D_i z = p_i ∘ z - p_i (p_i·z)
//! so the minimum has alpha = W (Y - P) / (n lambda): the certificate, whose violation is reported. Newton's equation is solved by
//! conjugate gradients in this inner product. They need <r, r> = tr(r' K r); with K r and K p carried along beside r and p, one
//! product with K per step (K t) is all. They end at the rounding of <r, r>, eps |r| |K r_0|. Forcing term min(0.1, sqrt |g|) (Eisenstat & Walker 1996), Armijo halving on F.
//!
//! What K does not see of d (K is often singular) meets the eigenvalue lambda of H. It shrinks from step to step as long as no
//! eigenvalue is smaller, and is blown up otherwise: the intercept is scaled, d_b in units of 1 / size, such that its curvature
//! size^2 (1/n) sum_i w_i D_i is at least about lambda too.
//!
//! Influence of the weight w_i on v·f(x) (Koh & Liang 2017, here without approximation but the implicit function theorem):
//!   d v·f(x) / d w_i = (y_i - p_i)·z_i / n = lambda alpha_i·z_i / w_i,  z = H^-1 (v ⊗ (phi_x, 1)) evaluated at the training rows:
//!   z = k_x v' / lambda + K d + d_b,  H (d, d_b) = (-t, v - sum_i t_i),  t_i = (w_i / n) D_i (k_x v' / lambda)_i
//! As lambda grows, lambda z goes to k_x v' and the influence times w_i to alpha_i·v k(x, x_i), the terms of v·f(x). Logits are
//! defined up to a constant per row, so v counts up to one: its mean is taken off.
//!
//! With [`Penalty::Weights`] the penalty is |W|^2 on the weights of the rows of K as features, which is the kernel K^2.

use veridical_core::{Error, Job, Result, Rows};

use super::hessian::{Hessian, System, add, column_sums, dot, mean_diagonal};
use super::product::{check_gram, check_lambda, check_queries, product};
use super::softmax::{log_sum_exp, softmax};

/// What is penalized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Penalty {
    /// The norm in the space of the kernel, tr(alpha' K alpha).
    #[default]
    Norm,
    /// The sum of squares of alpha: rows of K as features, as paper 004 fits it.
    Weights,
}

/// How a kGLM is fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GlmSettings {
    /// The penalty lambda, in units of 1 / K.
    pub lambda: f64,
    /// The gradient at which to stop, in the norm of the kernel relative to the root of the mean diagonal of K.
    pub tolerance: f64,
    /// The largest number of Newton steps.
    pub steps: usize,
    /// The largest number of products with K.
    pub products: usize,
}

impl GlmSettings {
    /// Settings for a penalty, with a tolerance of 1e-6, at most 60 Newton steps and 3,000 products.
    pub const fn new(lambda: f64) -> Self {
        Self { lambda, tolerance: 1e-6, steps: 60, products: 3000 }
    }
}

/// A fitted multinomial logistic regression.
#[derive(Clone, Debug)]
pub struct Glm {
    classes: usize,
    lambda: f64,
    weights: Vec<f64>,
    alpha: Vec<f64>,
    intercepts: Vec<f64>,
    scores: Vec<f64>,
    labels: Vec<u32>,
    /// F at the fit.
    pub objective: f64,
    /// Whether the gradient is below the tolerance.
    pub converged: bool,
    /// The norm of the gradient, relative as the tolerance.
    pub gradient: f64,
    /// The largest |n lambda alpha_ic - w_i (y_ic - p_ic)|: how far the fit is from its certificate.
    pub violation: f64,
    /// Newton steps taken.
    pub steps: usize,
    /// Products with K.
    pub products: usize,
}

/// Returns weights n / (C n_y) that give every class the same sum; `None` if a class has no row.
///
/// ```
/// let w = veridical_kernels::machine::balanced_weights(&[0, 0, 0, 1], 2);
/// assert_eq!(w, Some(vec![2.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0, 2.0]));
/// ```
pub fn balanced_weights(labels: &[u32], classes: usize) -> Option<Vec<f64>> {
    let mut counts = vec![0u32; classes];
    labels.iter().for_each(|&y| counts[y as usize] += 1);
    let share = labels.len() as f64 / classes as f64;
    let weights = labels.iter().map(|&y| share / f64::from(counts[y as usize])).collect();
    counts.iter().all(|&count| count > 0).then_some(weights)
}

impl Glm {
    /// Fits labels below `classes`; without `weights` every row has weight 1. `start` is a fit to the same rows to begin at.
    ///
    /// # Errors
    /// [`Error::Setting`] if lambda is not above 0; [`Error::Shape`] if sizes differ; [`Error::Unfit`] for fewer than two classes, a
    /// class without a row, or values that are not finite; [`Error::Interrupted`] if the job is cancelled.
    ///
    /// ```
    /// use veridical_core::{Job, Rows};
    /// use veridical_kernels::machine::{Glm, GlmSettings};
    ///
    /// let k = [1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0, 1.0];
    /// let fit = Glm::fit(Rows::new(&k, 4)?, &[0, 0, 1, 1], 2, None, None, &GlmSettings::new(0.1), &Job::silent())?;
    /// let logits = fit.predict(Rows::new(&[1.0, 1.0, -1.0, -1.0], 4)?)?;
    /// assert!(fit.converged && logits[0] > logits[1]);
    /// # Ok::<(), veridical_core::Error>(())
    /// ```
    pub fn fit(
        k: Rows<'_, f32>,
        labels: &[u32],
        classes: usize,
        weights: Option<&[f64]>,
        start: Option<&Self>,
        settings: &GlmSettings,
        job: &Job<'_>,
    ) -> Result<Self> {
        check_lambda(settings.lambda)?;
        let n = check_gram(k, labels.len(), "labels")?;
        check_labels(labels, classes)?;
        let weights = checked_weights(weights, n)?;
        let lambda = settings.lambda;
        let start = start.filter(|s| s.alpha.len() == n * classes);
        let mut fit = Self {
            classes,
            lambda,
            weights,
            alpha: start.map_or_else(|| vec![0.0; n * classes], |s| s.alpha.clone()),
            intercepts: start.map_or_else(|| vec![0.0; classes], |s| s.intercepts.clone()),
            scores: start.map_or_else(|| vec![0.0; n * classes], |s| s.scores.clone()),
            labels: labels.to_vec(),
            objective: 0.0,
            converged: false,
            gradient: f64::INFINITY,
            violation: 0.0,
            steps: 0,
            products: 0,
        };
        fit.newton(k, labels, settings, job)?;
        Ok(fit)
    }

    /// Fits with a penalty on alpha itself: the machine of the kernel K^2, whose alpha is then that of K.
    ///
    /// # Errors
    /// The same as [`Self::fit`].
    pub fn fit_penalized(
        k: Rows<'_, f32>,
        labels: &[u32],
        classes: usize,
        weights: Option<&[f64]>,
        penalty: Penalty,
        settings: &GlmSettings,
        job: &Job<'_>,
    ) -> Result<Self> {
        if penalty == Penalty::Norm {
            return Self::fit(k, labels, classes, weights, None, settings, job);
        }
        let n = check_gram(k, labels.len(), "labels")?;
        let wide: Vec<f64> = k.values().iter().map(|&k| f64::from(k)).collect();
        let square: Vec<f32> = product(k, &wide, n).into_iter().map(|k| k as f32).collect();
        let mut fit =
            Self::fit(Rows::new(&square, n)?, labels, classes, weights, None, settings, job)?;
        fit.alpha = product(k, &fit.alpha, classes);
        Ok(fit)
    }

    /// Returns alpha: a row of one value per class for every training row.
    pub fn alpha(&self) -> &[f64] {
        &self.alpha
    }

    /// Returns b, one value per class.
    pub fn intercepts(&self) -> &[f64] {
        &self.intercepts
    }

    /// Returns the logits of the training rows.
    pub fn scores(&self) -> &[f64] {
        &self.scores
    }

    /// Returns the penalty.
    pub const fn lambda(&self) -> f64 {
        self.lambda
    }

    /// Returns the number of classes.
    pub const fn classes(&self) -> usize {
        self.classes
    }

    fn n(&self) -> usize {
        self.weights.len()
    }

    /// Predicts the logits of queries from their kernel values with the training rows.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is not one kernel value per training row, [`Error::Unfit`] if one is not finite.
    pub fn predict(&self, k: Rows<'_, f32>) -> Result<Vec<f64>> {
        check_queries(k, self.n())?;
        let mut scores = product(k, &self.alpha, self.classes);
        for row in scores.chunks_exact_mut(self.classes) {
            row.iter_mut().zip(&self.intercepts).for_each(|(s, b)| *s += b);
        }
        Ok(scores)
    }

    fn newton(
        &mut self,
        k: Rows<'_, f32>,
        labels: &[u32],
        settings: &GlmSettings,
        job: &Job<'_>,
    ) -> Result<()> {
        let (n, c, lambda) = (self.n(), self.classes, self.lambda);
        let unit = mean_diagonal(k).sqrt();
        loop {
            job.check()?;
            let p = softmax(&self.scores, c);
            let first = self.loss_gradient(&p, labels);
            let mut k_alpha = self.scores.clone();
            k_alpha.chunks_exact_mut(c).for_each(|row| add(row, -1.0, &self.intercepts));
            let mut g = first.clone();
            add(&mut g, lambda, &self.alpha);
            // Not K first + lambda K alpha: close to the minimum that is a difference of equal numbers.
            let mut k_g = product(k, &g, c);
            self.products += 1;
            let g_b = column_sums(&first, c);
            let square = dot(&g, &k_g) + unit * unit * dot(&g_b, &g_b);
            let penalty = dot(&self.alpha, &k_alpha);
            let objective = self.loss(labels, &self.scores) + lambda / 2.0 * penalty;
            self.objective = objective;
            self.gradient = square.max(0.0).sqrt() / unit;
            let violation = |g: &[f64]| g.iter().fold(0.0f64, |m, g| m.max(g.abs())) * n as f64;
            self.violation = violation(&g);
            self.converged = self.gradient <= settings.tolerance;
            if self.converged {
                // What K does not see of alpha has not converged: the certificate fixes it, unless lambda is so small that it
                // magnifies what is left of the gradient.
                let mut scores = self.scores.clone();
                add(&mut scores, -1.0 / lambda, &k_g);
                let norm =
                    penalty - 2.0 * dot(&g, &k_alpha) / lambda + dot(&g, &k_g) / lambda.powi(2);
                let value = self.loss(labels, &scores) + lambda / 2.0 * norm;
                if value <= objective + 64.0 * f64::EPSILON * objective.abs() {
                    add(&mut self.alpha, -1.0 / lambda, &g);
                    self.scores = scores;
                    self.objective = value;
                    let mut g = self.loss_gradient(&softmax(&self.scores, c), labels);
                    add(&mut g, lambda, &self.alpha);
                    self.violation = violation(&g);
                }
            }
            let is_spent = self.steps >= settings.steps || self.products >= settings.products;
            if self.converged || is_spent {
                return Ok(());
            }
            self.steps += 1;
            let forcing = self.gradient.sqrt().min(0.1);
            [&mut g, &mut k_g].into_iter().for_each(|x| x.iter_mut().for_each(|x| *x = -*x));
            let operator = Hessian::new(k, &p, &self.weights, c, lambda);
            let size = operator.size;
            let g_b = g_b.into_iter().map(|g| -size * g).collect();
            let most = settings.products - self.products;
            let step =
                operator.solve(System { r: g, k_r: k_g, r_b: g_b }, c, forcing, most, job)?;
            self.products += step.products;
            // Along the step everything is a line but the loss; F falls at first by the square of the step in H.
            let along = dot(&self.alpha, &step.k_d);
            let own = dot(&step.d, &step.k_d);
            let mut move_of = step.k_d.clone();
            move_of.chunks_exact_mut(c).for_each(|row| add(row, size, &step.d_b));
            let slope = dot(&first, &move_of) + lambda * along;
            let mut length = 1.0;
            let scores = loop {
                let mut scores = self.scores.clone();
                add(&mut scores, length, &move_of);
                let norm = penalty + length * (2.0 * along + length * own);
                let value = self.loss(labels, &scores) + lambda / 2.0 * norm;
                // Close to the minimum the fall is below the rounding of F.
                let rounding = 64.0 * f64::EPSILON * objective.abs();
                if value <= objective + 1e-4 * length * slope + rounding {
                    break scores;
                }
                length /= 2.0;
                if length < 1e-10 {
                    return Ok(());
                }
            };
            self.scores = scores;
            add(&mut self.alpha, length, &step.d);
            add(&mut self.intercepts, length * size, &step.d_b);
        }
    }

    /// (1/n) sum_i w_i CE_i.
    fn loss(&self, labels: &[u32], scores: &[f64]) -> f64 {
        let rows = scores.chunks_exact(self.classes).zip(labels).zip(&self.weights);
        let sum: f64 = rows.map(|((s, &y), w)| w * (log_sum_exp(s) - s[y as usize])).sum();
        sum / self.n() as f64
    }

    /// W (P - Y) / n.
    fn loss_gradient(&self, p: &[f64], labels: &[u32]) -> Vec<f64> {
        let mut g = p.to_vec();
        for ((g, &y), w) in g.chunks_exact_mut(self.classes).zip(labels).zip(&self.weights) {
            g[y as usize] -= 1.0;
            g.iter_mut().for_each(|g| *g *= w / self.n() as f64);
        }
        g
    }

    /// Returns d v·f(x) / d w_i, how the weight of every training row moves every query x in its direction v: removing a row moves it
    /// by about the negative. `k` is the Gram matrix of the fit, `queries` has the kernel values of the queries, `v` a direction per
    /// query. Queries are solved `LANES` at a time, each to a residual of 1e-9 of its right-hand side.
    ///
    /// # Errors
    /// [`Error::Shape`] if sizes differ, [`Error::Unfit`] if a value is not finite, [`Error::Interrupted`] if the job is cancelled.
    pub fn influence(
        &self,
        k: Rows<'_, f32>,
        queries: Rows<'_, f32>,
        v: Rows<'_, f64>,
        job: &Job<'_>,
    ) -> Result<Vec<f64>> {
        let (n, c, lambda) =
            (check_gram(k, self.n(), "rows in the fit")?, self.classes, self.lambda);
        check_queries(queries, n)?;
        if v.n() != queries.n() || v.dim() != c {
            let (q, m, d) = (queries.n(), v.n(), v.dim());
            let what = format!("{q} queries of {c} classes were given with directions {m} x {d}");
            return Err(Error::shape(what, ""));
        }
        let p = softmax(&self.scores, c);
        let operator = Hessian::new(k, &p, &self.weights, c, lambda);
        let size = operator.size;
        let mut effects = Vec::with_capacity(queries.n() * n);
        for first in (0..queries.n()).step_by(LANES) {
            let lanes = LANES.min(queries.n() - first);
            let width = lanes * c;
            let mut directions = Vec::with_capacity(width);
            for q in first..first + lanes {
                let mean = v.row(q).iter().sum::<f64>() / c as f64;
                directions.extend(v.row(q).iter().map(|v| v - mean));
            }
            let mut z = Vec::with_capacity(n * width);
            for i in 0..n {
                for (lane, v) in directions.chunks_exact(c).enumerate() {
                    let near = f64::from(queries.row(first + lane)[i]) / lambda;
                    z.extend(v.iter().map(|v| near * v));
                }
            }
            let mut r = operator.curvature(&z, c, width);
            let mut r_b: Vec<f64> = column_sums(&r, width);
            r_b.iter_mut().zip(&directions).for_each(|(r, v)| *r = size * (v - *r));
            r.iter_mut().for_each(|r| *r = -*r);
            let k_r = product(k, &r, width);
            let step = operator.solve(System { r, k_r, r_b }, c, 1e-9, 2000, job)?;
            for (z, k_d) in z.chunks_exact_mut(width).zip(step.k_d.chunks_exact(width)) {
                let moved = z.iter_mut().zip(k_d).zip(&step.d_b);
                moved.for_each(|((z, k_d), b)| *z += k_d + size * b);
            }
            for lane in 0..lanes {
                let rows = z.chunks_exact(width).zip(p.chunks_exact(c)).zip(&self.labels);
                effects.extend(rows.map(|((z, p), &y)| {
                    let z = &z[lane * c..][..c];
                    (z[y as usize] - dot(p, z)) / n as f64
                }));
            }
        }
        Ok(effects)
    }
}

/// Queries that share the products of one run of conjugate gradients.
const LANES: usize = 16;

pub(super) fn checked_weights(weights: Option<&[f64]>, n: usize) -> Result<Vec<f64>> {
    let weights = weights.map_or_else(|| vec![1.0; n], <[f64]>::to_vec);
    if weights.len() != n || weights.iter().any(|w| !(w.is_finite() && *w >= 0.0)) {
        let what = "weights must be one number of at least 0 for every training row";
        return Err(Error::unfit(what, ""));
    }
    Ok(weights)
}

pub(super) fn check_labels(labels: &[u32], classes: usize) -> Result<()> {
    if classes < 2 {
        let what = format!("a classifier needs at least two classes, got {classes}");
        return Err(Error::unfit(what, ""));
    }
    let mut counts = vec![0usize; classes];
    for (i, &y) in labels.iter().enumerate() {
        let Some(count) = counts.get_mut(y as usize) else {
            let what = format!("the label of row {i} is {y}, there are {classes} classes");
            return Err(Error::unfit(what, "labels are counted from 0"));
        };
        *count += 1;
    }
    if let Some(class) = counts.iter().position(|&count| count == 0) {
        let what = format!("class {class} has no training row");
        return Err(Error::unfit(what, "take more rows, or leave this class out"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::product::testing::{Case, features, gram, normals};
    use super::*;
    use proptest::prelude::*;
    use veridical_core::threads::with_threads;

    fn rows<T>(values: &[T], dim: usize) -> Rows<'_, T> {
        Rows::new(values, dim).unwrap()
    }

    fn tight(lambda: f64) -> GlmSettings {
        GlmSettings { tolerance: 1e-12, ..GlmSettings::new(lambda) }
    }

    fn fit(k: &[f32], labels: &[u32], classes: usize, w: Option<&[f64]>, lambda: f64) -> Glm {
        let k = rows(k, labels.len());
        Glm::fit(k, labels, classes, w, None, &tight(lambda), &Job::silent()).unwrap()
    }

    fn labels(n: usize, classes: usize, at: u64) -> Vec<u32> {
        let drawn = normals(n, at);
        let label = |(i, z): (usize, &f64)| match i < classes {
            true => i as u32,
            false => ((z.abs() * 3.0) as usize % classes) as u32,
        };
        drawn.iter().enumerate().map(label).collect()
    }

    /// scikit-learn's LogisticRegression on the factor of K with C = 1 / (n lambda), by lbfgs to a gradient of 1e-12: our objective is the
    /// smaller to 1e-9 of it, the predictions are the same to its root.
    #[test]
    fn the_minimum_is_that_of_scikit_learn() {
        for case in Case::all("logistic") {
            let (n, classes) = (case.n, case.classes);
            let balanced = balanced_weights(&case.labels, classes).unwrap();
            let w = case.is("balanced").then_some(&balanced[..]);
            let fit = fit(&case.gram(), &case.labels, classes, w, case.number("lambda"));
            assert!(fit.converged, "{} after {} products", fit.gradient, fit.products);
            let want = case.number("objective");
            assert!((fit.objective - want).abs() < 1e-9 * want, "{} not {want}", fit.objective);
            let p = softmax(&fit.predict(rows(&case.queries(10), n)).unwrap(), classes);
            for (got, want) in p.iter().zip(case.numbers("probabilities")) {
                assert!((got - want).abs() < 3e-5, "{got} is not {want}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// alpha = W (Y - P) / (n lambda), and its classes sum to 0. The gradient is at most 1e-12 in the norm of the kernel, which
        /// bounds g itself only where K is regular: so K has a diagonal added
        #[test]
        fn the_certificate_holds(
            n in 6usize..40, dim in 1usize..6, classes in 2usize..5, log in -3.0..0.5f64,
            weighted: bool, at in 0u64..50,
        ) {
            let lambda = 10f64.powf(log);
            let x = features(n, dim, at as usize);
            let mut k = gram(&x, &x, dim);
            (0..n).for_each(|i| k[i * n + i] += 0.5);
            let y = labels(n, classes, at);
            let w: Vec<f64> = normals(n, at + 90).iter().map(|w| 0.2 + w.abs()).collect();
            let fit = fit(&k, &y, classes, weighted.then_some(&w[..]), lambda);
            prop_assert!(fit.converged, "{} {}", fit.gradient, fit.products);
            prop_assert!(fit.violation < 1e-10 * n as f64, "{}", fit.violation);
            for i in 0..n {
                let alpha = &fit.alpha[i * classes..][..classes];
                prop_assert!(alpha.iter().sum::<f64>().abs() < 1e-10 * (1.0 + 1.0 / lambda));
            }
            let logits = fit.predict(rows(&k, n)).unwrap();
            prop_assert!(logits.iter().zip(&fit.scores).all(|(a, b)| (a - b).abs() < 1e-9 * (1.0 + b.abs())));
        }

        /// Central differences in w_i with step h: error h^2 f''' / 6 + (accuracy of the fit) / h.
        #[test]
        fn influence_is_the_derivative_by_the_weight(
            dim in 2usize..5, classes in 2usize..4, log in -2.0..0.0f64, at in 0u64..50,
        ) {
            let (n, lambda, h) = (14, 10f64.powf(log), 1e-4);
            let x = features(n, dim, at as usize);
            let (mut k, queries) = (gram(&x, &x, dim), gram(&features(3, dim, 400), &x, dim));
            (0..n).for_each(|i| k[i * n + i] += 0.5);
            let y = labels(n, classes, at);
            let w: Vec<f64> = normals(n, at + 90).iter().map(|w| 0.5 + w.abs()).collect();
            let v = normals(3 * classes, at + 91);
            let centered: Vec<f64> = v.chunks(classes).flat_map(|v| {
                let mean = v.iter().sum::<f64>() / classes as f64;
                v.iter().map(move |v| v - mean)
            }).collect();
            let influence = fit(&k, &y, classes, Some(&w), lambda)
                .influence(rows(&k, n), rows(&queries, n), rows(&v, classes), &Job::silent())
                .unwrap();
            for i in [0, 5, 13] {
                let at = |shift: f64| -> Vec<f64> {
                    let mut w = w.clone();
                    w[i] += shift;
                    let f = fit(&k, &y, classes, Some(&w), lambda).predict(rows(&queries, n)).unwrap();
                    f.chunks(classes).zip(centered.chunks(classes)).map(|(f, v)| dot(f, v)).collect()
                };
                for ((up, down), q) in at(h).iter().zip(at(-h)).zip(0..) {
                    let got = influence[q * n + i];
                    let slope = (up - down) / (2.0 * h);
                    prop_assert!((got - slope).abs() < 1e-6 * (1.0 + slope.abs()), "{got} {slope}");
                }
            }
        }
    }

    /// Taking a row out moves v·f(x) by minus its influence to first order: what is left over shrinks with the square of the weight that
    /// is taken away, to a quarter for half of it, with the next order between a sixth and two fifths.
    #[test]
    fn removal_is_minus_influence_to_first_order() {
        let (n, dim, classes, lambda) = (40, 4, 3, 0.3);
        let x = features(n, dim, 0);
        let mut k = gram(&x, &x, dim);
        (0..n).for_each(|i| k[i * n + i] += 0.5);
        let query = gram(&features(1, dim, 400), &x, dim);
        let y = labels(n, classes, 7);
        let v = [1.0, 0.0, -1.0];
        let full = fit(&k, &y, classes, None, lambda);
        let value = |fit: &Glm| dot(&fit.predict(rows(&query, n)).unwrap(), &v);
        let influence = full
            .influence(rows(&k, n), rows(&query, n), rows(&v, classes), &Job::silent())
            .unwrap();
        let strongest = (0..n).max_by(|&a, &b| influence[a].abs().total_cmp(&influence[b].abs()));
        let i = strongest.unwrap();
        let left = |taken: f64| {
            let mut w = vec![1.0; n];
            w[i] -= taken;
            let moved = value(&fit(&k, &y, classes, Some(&w), lambda)) - value(&full);
            (moved + taken * influence[i]).abs()
        };
        let (whole, half) = (left(1.0), left(0.5));
        assert!(whole < 0.2 * influence[i].abs(), "{whole} of {}", influence[i]);
        assert!((1.0 / 6.0..0.4).contains(&(half / whole)), "{half} {whole}");
        // The row without weight is the row that is not there, at the penalty that keeps n lambda.
        let rest: Vec<usize> = (0..n).filter(|&j| j != i).collect();
        let own: Vec<f32> = rest
            .iter()
            .flat_map(|&a| rest.iter().map(move |&b| (a, b)))
            .map(|(a, b)| k[a * n + b])
            .collect();
        let others: Vec<u32> = rest.iter().map(|&j| y[j]).collect();
        let without = fit(&own, &others, classes, None, lambda * n as f64 / (n - 1) as f64);
        let seen: Vec<f32> = rest.iter().map(|&j| query[j]).collect();
        let got = dot(&without.predict(rows(&seen, n - 1)).unwrap(), &v);
        assert!((got - value(&full) + influence[i]).abs() - whole < 1e-8, "{got}");
    }

    /// As lambda grows the influence of equation 3: alpha_i·v k(x, x_i); the next term is smaller by trace(K) / lambda. The
    /// intercept is not penalized, and takes part at any lambda: v and the class shares make it 0 here.
    #[test]
    fn influence_without_fit_is_the_attribution() {
        let (n, dim, lambda) = (12, 3, 1e7);
        let x = features(n, dim, 0);
        // Rows come in pairs x, -x of one class: neither class nor query leans, and b stays 0.
        let mut x2 = x.clone();
        x2.extend(x.iter().map(|x| -x));
        let k = gram(&x2, &x2, dim);
        let half = labels(n, 2, 3);
        let y: Vec<u32> = half.iter().chain(&half).copied().collect();
        let fit = fit(&k, &y, 2, None, lambda);
        let query = gram(&features(1, dim, 9), &x2, dim);
        let v = [1.0, -1.0];
        let all = rows(&query, 2 * n);
        let got = fit.influence(rows(&k, 2 * n), all, rows(&v, 2), &Job::silent()).unwrap();
        for i in 0..n {
            // The part of the intercept is equal for x and -x of one class: half the difference is the kernel's.
            let odd = (got[i] - got[n + i]) / 2.0;
            let alpha = |i: usize| dot(&fit.alpha[2 * i..][..2], &v);
            let want = f64::from(query[i]) * (alpha(i) + alpha(n + i)) / 2.0;
            assert!((odd - want).abs() <= 1e-4 * want.abs() + 1e-15, "{odd} is not {want}");
        }
    }

    #[test]
    fn separable_data_converge_or_say_that_they_did_not() {
        let x = [-2.0, -1.0, 1.0, 2.0];
        let k = gram(&x, &x, 1);
        let y = [0, 0, 1, 1];
        let run = |settings: &GlmSettings| {
            Glm::fit(rows(&k, 4), &y, 2, None, None, settings, &Job::silent()).unwrap()
        };
        let fine = run(&GlmSettings::new(1e-8));
        assert!(fine.converged && fine.objective < 1e-5, "{} {}", fine.gradient, fine.objective);
        let hurried = run(&GlmSettings { steps: 1, ..GlmSettings::new(1e-8) });
        assert!(!hurried.converged && hurried.objective.is_finite());
        assert_eq!(hurried.steps, 1);
    }

    /// A warm start ends at the same minimum with less work.
    #[test]
    fn a_warm_start_saves_steps() {
        let (n, dim) = (60, 5);
        let x = features(n, dim, 0);
        let k = gram(&x, &x, dim);
        let y = labels(n, 3, 1);
        let cold = fit(&k, &y, 3, None, 1e-2);
        let start = fit(&k, &y, 3, None, 1.2e-2);
        let job = Job::silent();
        let warm = Glm::fit(rows(&k, n), &y, 3, None, Some(&start), &tight(1e-2), &job).unwrap();
        assert!((warm.objective - cold.objective).abs() < 1e-12 * cold.objective);
        assert!(warm.steps < cold.steps, "{} {}", warm.steps, cold.steps);
    }

    /// The kernel K^2 has the rows of K as features.
    #[test]
    fn a_penalty_on_weights_is_the_machine_of_the_squared_kernel() {
        let (n, dim) = (30, 4);
        let x = features(n, dim, 0);
        let k = gram(&x, &x, dim);
        let y = labels(n, 3, 1);
        let settings = tight(0.5);
        let job = Job::silent();
        let kernel = rows(&k, n);
        let got =
            Glm::fit_penalized(kernel, &y, 3, None, Penalty::Weights, &settings, &job).unwrap();
        let square = gram(&k, &k, n);
        let want = fit(&square, &y, 3, None, 0.5);
        let queries = gram(&features(5, dim, 70), &x, dim);
        let features_of = gram(&queries, &k, n);
        let (a, b) =
            (got.predict(rows(&queries, n)).unwrap(), want.predict(rows(&features_of, n)).unwrap());
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-6), "{a:?} {b:?}");
    }

    #[test]
    fn a_fit_has_the_same_bytes_on_any_threads() {
        let (n, dim) = (150, 6);
        let x = features(n, dim, 0);
        let k = gram(&x, &x, dim);
        let y = labels(n, 4, 1);
        let run =
            |threads| with_threads(Some(threads), || fit(&k, &y, 4, None, 1e-2).alpha).unwrap();
        assert!(run(1) == run(2) && run(1) == run(7));
    }

    #[test]
    fn what_cannot_be_classified_is_refused() {
        let k = [1.0, 0.0, 0.0, 1.0];
        let message = |y: &[u32], classes, lambda| {
            let settings = GlmSettings::new(lambda);
            Glm::fit(rows(&k, 2), y, classes, None, None, &settings, &Job::silent())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(message(&[0, 0], 1, 1.0), "a classifier needs at least two classes, got 1");
        assert_eq!(
            message(&[0, 0], 2, 1.0),
            "class 1 has no training row; take more rows, or leave this class out"
        );
        assert!(message(&[0, 2], 2, 1.0).starts_with("the label of row 1 is 2"));
        assert!(message(&[0, 1], 2, 0.0).starts_with("⟨lambda⟩ must be"));
    }
}
