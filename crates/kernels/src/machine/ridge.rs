//! Kernel ridge regression with an intercept, and every row or group of rows removed in closed form.
//!
//! min over f in the space of the kernel, b:  sum_i w_i |y_i - f(x_i) - b|^2 + lambda |f|^2,  f = sum_i alpha_i k(x_i, .)
//!
//! With G = (K + lambda W^-1)^-1, u = G1, s = 1'u and M = G - uu'/s:
//!   alpha = MY,  b = u'Y / s,  f(x) + b = l(x)'Y with l(x) = M k_x + u / s
//! Removing rows B is letting their w go to 0, a change of rank |B| (Cook 1977; Rifkin & Lippert 2007 for single rows):
//!   left-out residuals  y_B - f_-B(x_B) = M_BB^-1 alpha_B;  alone  alpha_i / M_ii
//!   predictions         f(x) - f_-B(x) = l_B(x)' M_BB^-1 alpha_B
//! without a second solve; weights of one removed row do not matter for it.
//!
//! [`RidgeFit`] solves (K + lambda I) `[A, u]` = `[Y, 1]` for alpha = A - u b' by one Cholesky factor: a third of the work, for predictions
//! alone. [`RidgeSpectrum`]: M is the inverse of H (K + lambda I) H on the vectors orthogonal to 1, H = I - 11'/n. So HKH = V D V' gives M
//! for every lambda: M = sum_(v_k orthogonal to 1) v_k v_k' / (d_k + lambda). The multiple tr(K) 11'/n is added before the
//! decomposition and taken out of M after it: 1 is then an eigenvector apart from the null space of HKH.

use std::sync::Arc;

use veridical_core::{Error, Result, Rows};
use veridical_learn::{eigen, invert_spd, solve_spd};

use super::cholesky::Cholesky;
use super::product::{check_gram, check_lambda, check_queries, product, product_f64};

/// A kernel ridge regression that can do without any of its rows.
#[derive(Clone, Debug)]
pub struct Ridge {
    targets: usize,
    lambda: f64,
    /// M, n x n; shared by the fits of other targets.
    m: Arc<Vec<f64>>,
    /// u / s.
    mean: Vec<f64>,
    alpha: Vec<f64>,
    intercepts: Vec<f64>,
}

impl Ridge {
    /// Fits targets y (one row per training row) with the penalty `lambda` in units of K; without `weights` every row has weight 1.
    ///
    /// # Errors
    /// [`Error::Shape`] if the sizes differ, [`Error::Unfit`] if a value is not finite or a weight not above 0, or K + lambda I is
    /// not positive definite, [`Error::Setting`] if lambda is not above 0.
    ///
    /// ```
    /// use veridical_core::Rows;
    /// use veridical_kernels::machine::Ridge;
    ///
    /// let (k, y) = ([0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 0.0, 2.0, 4.0], [1.0, 3.0, 5.0]);
    /// let line = Ridge::fit(Rows::new(&k, 3)?, Rows::new(&y, 1)?, 1e-6, None)?;
    /// // The points 0, 1, 2 are on the line 2x + 1: at 10 it is 21, and it is the same without any of them.
    /// assert!((line.predict(Rows::new(&[0.0, 10.0, 20.0], 3)?)?[0] - 21.0).abs() < 1e-4);
    /// assert!(line.left_out_residuals().iter().all(|r| r.abs() < 1e-4));
    /// # Ok::<(), veridical_core::Error>(())
    /// ```
    pub fn fit(
        k: Rows<'_, f32>,
        y: Rows<'_, f64>,
        lambda: f64,
        weights: Option<&[f64]>,
    ) -> Result<Self> {
        let n = check_fit(k, y, lambda)?;
        if let Some(weights) = weights {
            if weights.len() != n {
                let what = format!("{n} training rows were given with {} weights", weights.len());
                return Err(Error::shape(what, ""));
            }
            if let Some(i) = weights.iter().position(|&w| !(w.is_finite() && w > 0.0)) {
                let what = format!("the weight of row {i} must be above 0, got {}", weights[i]);
                return Err(Error::unfit(what, "leave a row without weight out"));
            }
        }
        let mut g: Vec<f64> = k.values().iter().map(|&k| f64::from(k)).collect();
        for i in 0..n {
            g[i * n + i] += lambda / weights.map_or(1.0, |w| w[i]);
        }
        let Some(mut m) = invert_spd(g, n)? else {
            let what = format!("K + {lambda} I is not positive definite");
            return Err(Error::unfit(what, "set a larger ⟨lambda⟩"));
        };
        let u: Vec<f64> = m.chunks_exact(n).map(|row| row.iter().sum()).collect();
        let s: f64 = u.iter().sum();
        for (row, u_i) in m.chunks_exact_mut(n).zip(&u) {
            row.iter_mut().zip(&u).for_each(|(m, u_j)| *m -= u_i * u_j / s);
        }
        let mean: Vec<f64> = u.iter().map(|u| u / s).collect();
        let targets = y.dim();
        let alpha = product_f64(&m, n, y.values(), targets);
        let intercepts = product_f64(&mean, n, y.values(), targets);
        Ok(Self { targets, lambda, m: Arc::new(m), mean, alpha, intercepts })
    }

    /// Returns the fit of other targets with the same Gram matrix, penalty and weights: a product instead of a solve.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is not one row of targets per training row, [`Error::Unfit`] if one is not finite.
    pub fn with_targets(&self, y: Rows<'_, f64>) -> Result<Self> {
        let n = self.n();
        if y.n() != n {
            let what = format!("{n} training rows were given with {} rows of targets", y.n());
            return Err(Error::shape(what, ""));
        }
        check_targets(y)?;
        let targets = y.dim();
        let alpha = product_f64(&self.m, n, y.values(), targets);
        let intercepts = product_f64(&self.mean, n, y.values(), targets);
        Ok(Self { targets, alpha, intercepts, ..self.clone() })
    }

    /// Returns alpha: a row of one value per target for every training row.
    pub fn alpha(&self) -> &[f64] {
        &self.alpha
    }

    /// Returns b, one value per target.
    pub fn intercepts(&self) -> &[f64] {
        &self.intercepts
    }

    /// Returns the penalty.
    pub const fn lambda(&self) -> f64 {
        self.lambda
    }

    /// Returns the number of targets.
    pub const fn targets(&self) -> usize {
        self.targets
    }

    fn n(&self) -> usize {
        self.mean.len()
    }

    /// Predicts the targets of queries from their kernel values with the training rows.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is not one kernel value per training row, [`Error::Unfit`] if one is not finite.
    pub fn predict(&self, k: Rows<'_, f32>) -> Result<Vec<f64>> {
        check_queries(k, self.n())?;
        Ok(with_intercepts(product(k, &self.alpha, self.targets), &self.intercepts))
    }

    /// Returns y_i - f_-i(x_i), the residual of every training row under the fit to the others.
    pub fn left_out_residuals(&self) -> Vec<f64> {
        let diagonal: Vec<f64> = self.m.iter().step_by(self.n() + 1).copied().collect();
        left_out(&self.alpha, &diagonal, self.targets)
    }

    /// Returns M_BB^-1 alpha_B: the residuals of the rows of a group under the fit to all rows outside of it.
    ///
    /// # Errors
    /// [`Error::Unfit`] if the group is all rows, or a row is out of range or twice in it.
    pub fn left_out_group(&self, group: &[usize]) -> Result<Vec<f64>> {
        let (n, targets) = (self.n(), self.targets);
        check_group(group, n)?;
        let block: Vec<f64> =
            group.iter().flat_map(|&i| group.iter().map(move |&j| self.m[i * n + j])).collect();
        let mut out = vec![0.0; group.len() * targets];
        for c in 0..targets {
            let alpha: Vec<f64> = group.iter().map(|&i| self.alpha[i * targets + c]).collect();
            let solved = solve_spd(&mut block.clone(), &alpha);
            out.iter_mut().skip(c).step_by(targets).zip(solved).for_each(|(o, r)| *o = r);
        }
        Ok(out)
    }

    /// Returns l(x), the weight of every training row's target in the prediction of a query: M k_x + u / s.
    ///
    /// # Errors
    /// The same as [`Self::predict`].
    pub fn smoother(&self, k: Rows<'_, f32>) -> Result<Vec<f64>> {
        let n = self.n();
        check_queries(k, n)?;
        // M is symmetric: K M, row by row.
        let l = product(k, &self.m, n);
        Ok(with_intercepts(l, &self.mean))
    }

    /// Returns v·(f(x) - f_-i(x)) for every query x with its direction v and every training row i: what the row contributes, as its
    /// removal shows.
    ///
    /// # Errors
    /// The same as [`Self::predict`], and [`Error::Shape`] if there is not one direction per query.
    pub fn removal(&self, k: Rows<'_, f32>, v: Rows<'_, f64>) -> Result<Vec<f64>> {
        let n = self.n();
        if v.n() != k.n() || v.dim() != self.targets {
            let (q, c) = (k.n(), self.targets);
            let what = format!("{q} queries of {c} outputs, directions {} x {}", v.n(), v.dim());
            return Err(Error::shape(what, ""));
        }
        let residuals = self.left_out_residuals();
        let mut effects = self.smoother(k)?;
        for (effects, v) in effects.chunks_exact_mut(n).zip(v) {
            for (effect, r) in effects.iter_mut().zip(residuals.chunks_exact(self.targets)) {
                *effect *= r.iter().zip(v).map(|(r, v)| r * v).sum::<f64>();
            }
        }
        Ok(effects)
    }

    /// Predicts queries with the fit to the rows outside a group.
    ///
    /// # Errors
    /// The same as [`Self::predict`] and [`Self::left_out_group`].
    pub fn predict_without(&self, k: Rows<'_, f32>, group: &[usize]) -> Result<Vec<f64>> {
        let (n, targets) = (self.n(), self.targets);
        let residuals = self.left_out_group(group)?;
        let mut f = self.predict(k)?;
        // Only the rows B of l: K M_.B, and the means of B.
        let of_group: Vec<f64> =
            (0..n).flat_map(|i| group.iter().map(move |&j| self.m[i * n + j])).collect();
        let width = group.len();
        let l = product(k, &of_group, width);
        for (f, l) in f.chunks_exact_mut(targets).zip(l.chunks_exact(width)) {
            for ((l, &j), r) in l.iter().zip(group).zip(residuals.chunks_exact(targets)) {
                f.iter_mut().zip(r).for_each(|(f, r)| *f -= (l + self.mean[j]) * r);
            }
        }
        Ok(f)
    }
}

/// A kernel ridge regression that only predicts.
#[derive(Clone, Debug)]
pub struct RidgeFit {
    targets: usize,
    lambda: f64,
    alpha: Vec<f64>,
    intercepts: Vec<f64>,
}

impl RidgeFit {
    /// Fits targets y as [`Ridge::fit`] does.
    ///
    /// # Errors
    /// The same as [`Ridge::fit`].
    pub fn new(k: Rows<'_, f32>, y: Rows<'_, f64>, lambda: f64) -> Result<Self> {
        let n = check_fit(k, y, lambda)?;
        let targets = y.dim();
        let mut regular: Vec<f64> = k.values().iter().map(|&k| f64::from(k)).collect();
        (0..n).for_each(|i| regular[i * n + i] += lambda);
        let Some(factor) = Cholesky::new(regular, n) else {
            let what = format!("K + {lambda} I is not positive definite");
            return Err(Error::unfit(what, "set a larger ⟨lambda⟩"));
        };
        let mut solved: Vec<f64> = y.iter().flat_map(|y| y.iter().copied().chain([1.0])).collect();
        factor.solve(&mut solved, targets + 1);
        let rows = || solved.chunks_exact(targets + 1);
        let s: f64 = rows().map(|row| row[targets]).sum();
        let intercepts: Vec<f64> =
            (0..targets).map(|c| rows().map(|row| row[c]).sum::<f64>() / s).collect();
        let alpha = rows()
            .flat_map(|row| {
                row[..targets].iter().zip(&intercepts).map(|(a, b)| a - row[targets] * b)
            })
            .collect();
        Ok(Self { targets, lambda, alpha, intercepts })
    }

    /// Returns alpha: a row of one value per target for every training row.
    pub fn alpha(&self) -> &[f64] {
        &self.alpha
    }

    /// Returns b, one value per target.
    pub fn intercepts(&self) -> &[f64] {
        &self.intercepts
    }

    /// Returns the penalty.
    pub const fn lambda(&self) -> f64 {
        self.lambda
    }

    /// Predicts the targets of queries from their kernel values with the training rows.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is not one kernel value per training row, [`Error::Unfit`] if one is not finite.
    pub fn predict(&self, k: Rows<'_, f32>) -> Result<Vec<f64>> {
        check_queries(k, self.alpha.len() / self.targets)?;
        Ok(with_intercepts(product(k, &self.alpha, self.targets), &self.intercepts))
    }
}

fn check_fit(k: Rows<'_, f32>, y: Rows<'_, f64>, lambda: f64) -> Result<usize> {
    check_lambda(lambda)?;
    let n = check_gram(k, y.n(), "targets")?;
    if n < 2 {
        return Err(Error::unfit("a regression needs at least two training rows", ""));
    }
    check_targets(y)?;
    Ok(n)
}

fn check_targets(y: Rows<'_, f64>) -> Result<()> {
    match y.values().iter().position(|y| !y.is_finite()) {
        None => Ok(()),
        Some(at) => {
            Err(Error::unfit(format!("the target of row {} is not finite", at / y.dim()), ""))
        }
    }
}

fn check_group(group: &[usize], n: usize) -> Result<()> {
    let mut taken = vec![false; n];
    for &i in group {
        if i >= n {
            let what = format!("row {i} of the group does not exist: there are {n} training rows");
            return Err(Error::unfit(what, "rows are counted from 0"));
        }
        if std::mem::replace(&mut taken[i], true) {
            return Err(Error::unfit(format!("row {i} is twice in the group"), ""));
        }
    }
    match group.len() {
        0 => Err(Error::unfit("the group to leave out is empty", "")),
        all if all == n => {
            Err(Error::unfit("the group to leave out is all training rows", "leave some in"))
        }
        _ => Ok(()),
    }
}

fn with_intercepts(mut rows: Vec<f64>, intercepts: &[f64]) -> Vec<f64> {
    for row in rows.chunks_exact_mut(intercepts.len()) {
        row.iter_mut().zip(intercepts).for_each(|(f, b)| *f += b);
    }
    rows
}

fn left_out(alpha: &[f64], diagonal: &[f64], targets: usize) -> Vec<f64> {
    let rows = alpha.chunks_exact(targets).zip(diagonal);
    rows.flat_map(|(alpha, m)| alpha.iter().map(move |a| a / m)).collect()
}

/// Ridge regressions for every penalty from one eigendecomposition.
#[derive(Clone, Debug)]
pub struct RidgeSpectrum {
    targets: usize,
    /// Eigenvalues of HKH + tr(K) 11'/n, and its eigenvectors as columns.
    values: Vec<f64>,
    vectors: Vec<f64>,
    /// V'(Y - mean Y).
    vy: Vec<f64>,
    shift: f64,
    mean_k: Vec<f64>,
    mean_y: Vec<f64>,
}

/// A ridge regression of a [`RidgeSpectrum`].
#[derive(Clone, Debug)]
pub struct RidgeAt {
    /// The penalty.
    pub lambda: f64,
    /// alpha: a row of one value per target for every training row.
    pub alpha: Vec<f64>,
    /// b, one value per target.
    pub intercepts: Vec<f64>,
    /// y_i - f_-i(x_i): the residual of every training row under the fit to the others.
    pub left_out: Vec<f64>,
}

impl RidgeSpectrum {
    /// Decomposes the Gram matrix for the targets y.
    ///
    /// # Errors
    /// [`Error::Shape`] if the sizes differ, [`Error::Unfit`] if a value is not finite.
    pub fn new(k: Rows<'_, f32>, y: Rows<'_, f64>) -> Result<Self> {
        let n = check_fit(k, y, 1.0)?;
        let targets = y.dim();
        let mean_k: Vec<f64> =
            k.iter().map(|row| row.iter().map(|&k| f64::from(k)).sum::<f64>() / n as f64).collect();
        let mean = mean_k.iter().sum::<f64>() / n as f64;
        let trace: f64 = (0..n).map(|i| f64::from(k.row(i)[i])).sum();
        let shift = trace.max(f64::MIN_POSITIVE);
        let mut centered = Vec::with_capacity(n * n);
        for (row, of_row) in k.iter().zip(&mean_k) {
            let cell = |(k, of_column): (&f32, &f64)| {
                f64::from(*k) - of_row - of_column + mean + shift / n as f64
            };
            centered.extend(row.iter().zip(&mean_k).map(cell));
        }
        let (values, vectors) = eigen(&centered, n);
        let mut mean_y = vec![0.0; targets];
        y.iter().for_each(|row| mean_y.iter_mut().zip(row).for_each(|(m, y)| *m += y / n as f64));
        let mut vy = vec![0.0; n * targets];
        for (row, y) in vectors.chunks_exact(n).zip(y) {
            for (out, v) in vy.chunks_exact_mut(targets).zip(row) {
                out.iter_mut().zip(y).zip(&mean_y).for_each(|((o, y), m)| *o += v * (y - m));
            }
        }
        Ok(Self { targets, values, vectors, vy, shift, mean_k, mean_y })
    }

    /// Solves for one penalty.
    ///
    /// # Errors
    /// [`Error::Setting`] if lambda is not above 0, [`Error::Unfit`] if K + lambda I is not positive definite.
    pub fn at(&self, lambda: f64) -> Result<RidgeAt> {
        check_lambda(lambda)?;
        let (n, targets) = (self.mean_k.len(), self.targets);
        if self.values.iter().any(|d| d + lambda <= 0.0) {
            let what = format!("K + {lambda} I is not positive definite");
            return Err(Error::unfit(what, "set a larger ⟨lambda⟩"));
        }
        let mut solved = self.vy.clone();
        for (row, d) in solved.chunks_exact_mut(targets).zip(&self.values) {
            row.iter_mut().for_each(|x| *x /= d + lambda);
        }
        let alpha = product_f64(&self.vectors, n, &solved, targets);
        let of_one = 1.0 / (n as f64 * (self.shift + lambda));
        let diagonal: Vec<f64> = self
            .vectors
            .chunks_exact(n)
            .map(|v| {
                v.iter().zip(&self.values).map(|(v, d)| v * v / (d + lambda)).sum::<f64>() - of_one
            })
            .collect();
        let mut intercepts = self.mean_y.clone();
        for (alpha, mean) in alpha.chunks_exact(targets).zip(&self.mean_k) {
            intercepts.iter_mut().zip(alpha).for_each(|(b, a)| *b -= mean * a);
        }
        let left_out = left_out(&alpha, &diagonal, targets);
        Ok(RidgeAt { lambda, alpha, intercepts, left_out })
    }
}

impl RidgeAt {
    /// Predicts the targets of queries from their kernel values with the training rows.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is not one kernel value per training row, [`Error::Unfit`] if one is not finite.
    pub fn predict(&self, k: Rows<'_, f32>) -> Result<Vec<f64>> {
        let targets = self.intercepts.len();
        check_queries(k, self.alpha.len() / targets)?;
        Ok(with_intercepts(product(k, &self.alpha, targets), &self.intercepts))
    }
}

#[cfg(test)]
mod tests {
    use super::super::product::submatrix;
    use super::super::product::testing::{features, gram, normals};
    use super::*;
    use proptest::prelude::*;

    fn rows<T>(values: &[T], dim: usize) -> Rows<'_, T> {
        Rows::new(values, dim).unwrap()
    }

    /// The fit to the rows outside `group`, as a second fit.
    fn refit(
        k: Rows<'_, f32>,
        y: Rows<'_, f64>,
        lambda: f64,
        weights: Option<&[f64]>,
        group: &[usize],
        queries: &[f32],
    ) -> Vec<f64> {
        let (n, targets) = (k.n(), y.dim());
        let kept: Vec<usize> = (0..n).filter(|i| !group.contains(i)).collect();
        let left = submatrix(k, &kept, &kept);
        let y: Vec<f64> = kept.iter().flat_map(|&i| y.row(i).to_vec()).collect();
        let weights: Option<Vec<f64>> = weights.map(|w| kept.iter().map(|&i| w[i]).collect());
        let left = rows(&left, kept.len());
        let fit = Ridge::fit(left, rows(&y, targets), lambda, weights.as_deref()).unwrap();
        let all: Vec<usize> = (0..queries.len() / n).collect();
        let queries = submatrix(rows(queries, n), &all, &kept);
        fit.predict(rows(&queries, kept.len())).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Condition number at most (tr K + lambda) / lambda < 1e5: 1e-9 is ten thousand roundings of it.
        #[test]
        fn removal_equals_refitting(
            n in 5usize..24, dim in 1usize..8, targets in 1usize..4, log in -2.0..2.0f64,
            weighted: bool, at in 0u64..100,
        ) {
            let lambda = 10f64.powf(log);
            let x = features(n, dim, at as usize);
            let (k, queries) = (gram(&x, &x, dim), gram(&features(6, dim, 77), &x, dim));
            let y = normals(n * targets, at);
            let weights: Vec<f64> = normals(n, at + 500).iter().map(|w| 0.3 + w.abs()).collect();
            let weights = weighted.then_some(&weights[..]);
            let fit = Ridge::fit(rows(&k, n), rows(&y, targets), lambda, weights).unwrap();
            let f = fit.predict(rows(&queries, n)).unwrap();
            if !weighted {
                let alone = RidgeFit::new(rows(&k, n), rows(&y, targets), lambda).unwrap();
                let same = alone.predict(rows(&queries, n)).unwrap();
                prop_assert!(same.iter().zip(&f).all(|(a, b)| (a - b).abs() < 1e-9 * (1.0 + b.abs())));
                let (a, b) = (alone.alpha(), fit.alpha());
                prop_assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9 * (1.0 + b.abs())));
            }
            let v: Vec<f64> = normals(6 * targets, at + 900);
            let removal = fit.removal(rows(&queries, n), rows(&v, targets)).unwrap();
            let residuals = fit.left_out_residuals();
            let again = |group: &[usize], queries: &[f32]| {
                refit(rows(&k, n), rows(&y, targets), lambda, weights, group, queries)
            };
            for i in 0..n {
                let own = again(&[i], &k[i * n..][..n]);
                let without = again(&[i], &queries);
                for c in 0..targets {
                    let want = y[i * targets + c] - own[c];
                    prop_assert!((residuals[i * targets + c] - want).abs() < 1e-9 * (1.0 + want.abs()));
                }
                for q in 0..6 {
                    let want: f64 = (0..targets)
                        .map(|c| v[q * targets + c] * (f[q * targets + c] - without[q * targets + c]))
                        .sum();
                    prop_assert!((removal[q * n + i] - want).abs() < 1e-9 * (1.0 + want.abs()));
                }
            }
            let group = [3, 0, 2];
            let got = fit.predict_without(rows(&queries, n), &group).unwrap();
            let want = again(&group, &queries);
            prop_assert!(got.iter().zip(&want).all(|(g, w)| (g - w).abs() < 1e-9 * (1.0 + w.abs())));
            let residuals = fit.left_out_group(&group).unwrap();
            for (b, &i) in group.iter().enumerate() {
                let own = again(&group, &k[i * n..][..n]);
                for c in 0..targets {
                    let want = y[i * targets + c] - own[c];
                    prop_assert!((residuals[b * targets + c] - want).abs() < 1e-9 * (1.0 + want.abs()));
                }
            }
        }

        /// One eigendecomposition and one solve per lambda are the same regression; also where K is singular (dim < n).
        #[test]
        fn the_path_equals_its_solves(
            n in 3usize..24, dim in 1usize..8, targets in 1usize..4, log in -3.0..3.0f64, at in 0u64..100,
        ) {
            let lambda = 10f64.powf(log);
            let x = features(n, dim, at as usize);
            let k = gram(&x, &x, dim);
            let y = normals(n * targets, at);
            let fit = Ridge::fit(rows(&k, n), rows(&y, targets), lambda, None).unwrap();
            let spectrum = RidgeSpectrum::new(rows(&k, n), rows(&y, targets)).unwrap().at(lambda).unwrap();
            let close = |a: &[f64], b: &[f64]| {
                let largest = b.iter().fold(1.0f64, |m, x| m.max(x.abs()));
                a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9 * largest)
            };
            prop_assert!(close(&spectrum.alpha, &fit.alpha));
            prop_assert!(close(&spectrum.intercepts, &fit.intercepts));
            prop_assert!(close(&spectrum.left_out, &fit.left_out_residuals()));
        }

        /// Stationarity: residuals are lambda alpha / w, and alpha sums to 0.
        #[test]
        fn residuals_are_lambda_alpha(n in 3usize..24, dim in 1usize..8, at in 0u64..100) {
            let x = features(n, dim, at as usize);
            let k = gram(&x, &x, dim);
            let y = normals(n, at);
            let weights: Vec<f64> = normals(n, at + 500).iter().map(|w| 0.3 + w.abs()).collect();
            let fit = Ridge::fit(rows(&k, n), rows(&y, 1), 0.7, Some(&weights)).unwrap();
            let f = fit.predict(rows(&k, n)).unwrap();
            for i in 0..n {
                prop_assert!((y[i] - f[i] - 0.7 * fit.alpha[i] / weights[i]).abs() < 1e-10);
            }
            prop_assert!(fit.alpha.iter().sum::<f64>().abs() < 1e-10);
        }
    }

    #[test]
    fn what_cannot_be_fitted_or_left_out_is_refused() {
        let (k, y) = ([1.0, 0.0, 0.0, 1.0], [1.0, 2.0]);
        let fit = |lambda, weights| Ridge::fit(rows(&k, 2), rows(&y, 1), lambda, weights);
        let message = |lambda, weights| fit(lambda, weights).unwrap_err().to_string();
        assert_eq!(message(0.0, None), "⟨lambda⟩ must be a finite number above 0, got 0");
        assert_eq!(message(1.0, Some(&[1.0])), "2 training rows were given with 1 weights");
        assert!(message(1.0, Some(&[1.0, 0.0])).starts_with("the weight of row 1 must be above 0"));
        let indefinite = Ridge::fit(rows(&[0.0, 9.0, 9.0, 0.0], 2), rows(&y, 1), 1.0, None);
        assert_eq!(
            indefinite.unwrap_err().to_string(),
            "K + 1 I is not positive definite; set a larger ⟨lambda⟩"
        );
        let fit = fit(1.0, None).unwrap();
        let message = |group: &[usize]| fit.left_out_group(group).unwrap_err().to_string();
        assert_eq!(message(&[]), "the group to leave out is empty");
        assert_eq!(message(&[1, 0]), "the group to leave out is all training rows; leave some in");
        assert_eq!(message(&[1, 1]), "row 1 is twice in the group");
        assert!(message(&[2]).starts_with("row 2 of the group does not exist"));
    }
}
