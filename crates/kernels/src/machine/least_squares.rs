//! Weighted least squares without a penalty, in the space of features or on a Gram matrix (paper 004, section 2), at a rank that is
//! stated.
//!
//! min over gamma  sum_i w_i |y_i - gamma'Phi(x_i)|^2,  f(z) = gamma'Phi(z)                       (17), (18)
//! min over delta  sum_i w_i |y_i - sum_j delta_j k(x_j, x_i)|^2,  f(z) = sum_j delta_j k(x_j, z)  (13)
//!
//! With Phi the rows Phi(x_i)' and W = diag(w):
//!   features   W^½ Phi = U S V',           gamma = V S⁺ U' W^½ y
//!   kernel     Ĥ = W^½ K W^½ = V D V',     delta = W^½ V D⁺ V' W^½ y                              (14)
//! S⁺ and D⁺ treat singular values (of Ĥ: |eigenvalues|) of at most `rcond` times the largest as 0. Both are the solution of minimum
//! norm, and the same function if K = Phi Phi' and nothing is cut (19), (20); but D = S^2, so that the kernel loses twice as many
//! digits, and what it can tell from 0 ends at the square root of what the features can. On the features of the conjugate kernel
//! this is the paper's CKJ; on all tangent features ([`Factors::features`](crate::tangent::Factors::features)) NTKJ.
//!
//! There is no intercept: the features of a network whose last layer has a bias contain a constant.

use veridical_core::{Error, Result, Rows};
use veridical_learn::{Svd, eigen, thin_svd};

use super::product::product_f64;

/// A least-squares problem, decomposed once and solved at any rank.
#[derive(Clone, Debug)]
pub struct LeastSquares {
    /// Singular values, largest first; of a kernel |eigenvalues|.
    s: Vec<f64>,
    /// From the coordinates of the solution to coefficients: a row per coefficient.
    basis: Vec<f64>,
    /// Coordinates of the targets: a row per singular value.
    coordinates: Vec<f64>,
    targets: usize,
    rounding: f64,
}

/// A function that is linear in features, or in the kernel values with the training rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// gamma or delta: a row of one value per target for every feature or training row.
    pub coefficients: Vec<f64>,
    /// Number of targets.
    pub targets: usize,
    /// Number of singular values that were not treated as 0.
    pub rank: usize,
}

impl LeastSquares {
    /// Decomposes the regression of targets y (one row per training row) on features; without `weights` every row has weight 1.
    ///
    /// # Errors
    /// [`Error::Shape`] if the sizes differ, [`Error::Unfit`] if there are no rows, a value is not finite or a weight below 0.
    ///
    /// ```
    /// use veridical_core::Rows;
    /// use veridical_kernels::machine::LeastSquares;
    ///
    /// // 1 and x at 0, 1, 2, where y = 2x + 1.
    /// let (phi, y) = ([1.0, 0.0, 1.0, 1.0, 1.0, 2.0], [1.0, 3.0, 5.0]);
    /// let line = LeastSquares::of_features(Rows::new(&phi, 2)?, Rows::new(&y, 1)?, None)?.solve(1e-12)?;
    /// assert!(line.rank == 2 && (line.predict(Rows::new(&[1.0, 10.0], 2)?)?[0] - 21.0).abs() < 1e-12);
    /// # Ok::<(), veridical_core::Error>(())
    /// ```
    pub fn of_features(
        features: Rows<'_, f64>,
        y: Rows<'_, f64>,
        weights: Option<&[f64]>,
    ) -> Result<Self> {
        let (n, dim) = (features.n(), features.dim());
        let root = roots(n, y, weights)?;
        check_finite(features, "feature")?;
        let mut a = features.values().to_vec();
        a.chunks_exact_mut(dim).zip(&root).for_each(|(row, w)| scale(row, *w));
        let Svd { u, s, v } = thin_svd(&a, dim);
        drop(a);
        let coordinates = transposed_product(&u, s.len(), &scaled(y, &root), y.dim());
        let rounding = f64::EPSILON * n.max(dim) as f64;
        Ok(Self { s, basis: v, coordinates, targets: y.dim(), rounding })
    }

    /// Decomposes the regression of targets y on the rows of a Gram matrix (14).
    ///
    /// # Errors
    /// The same as [`Self::of_features`], and [`Error::Shape`] if the matrix is not square.
    pub fn of_kernel(k: Rows<'_, f64>, y: Rows<'_, f64>, weights: Option<&[f64]>) -> Result<Self> {
        let n = k.n();
        if k.dim() != n {
            let what = format!("a Gram matrix of training rows is square, got {n} x {}", k.dim());
            return Err(Error::shape(what, ""));
        }
        let root = roots(n, y, weights)?;
        check_finite(k, "kernel value")?;
        let mut h = k.values().to_vec();
        for (row, w) in h.chunks_exact_mut(n).zip(&root) {
            row.iter_mut().zip(&root).for_each(|(h, v)| *h *= w * v);
        }
        let (values, mut basis) = eigen(&h, n);
        let coordinates = transposed_product(&basis, n, &scaled(y, &root), y.dim());
        basis.chunks_exact_mut(n).zip(&root).for_each(|(row, w)| scale(row, *w));
        // D⁺ keeps the sign of an eigenvalue, which rounding can make negative.
        for row in basis.chunks_exact_mut(n) {
            row.iter_mut().zip(&values).for_each(|(x, d)| *x *= d.signum());
        }
        let s = values.into_iter().map(f64::abs).collect();
        let rounding = f64::EPSILON * n as f64;
        Ok(Self { s, basis, coordinates, targets: y.dim(), rounding })
    }

    /// Returns eps times the larger side of the matrix: the cut-off below which singular values are rounding.
    pub const fn rounding(&self) -> f64 {
        self.rounding
    }

    /// Returns the largest singular value over that of number `rank`, counted from 1; `None` if that one is 0 or does not exist.
    pub fn condition(&self, rank: usize) -> Option<f64> {
        let mut s = self.s.clone();
        s.sort_by(|a, b| b.total_cmp(a));
        let small = *s.get(rank.checked_sub(1)?)?;
        (small > 0.0).then(|| s[0] / small)
    }

    /// Solves with singular values of at most `rcond` times the largest treated as 0.
    ///
    /// # Errors
    /// [`Error::Setting`] if rcond is not in \[0, 1).
    pub fn solve(&self, rcond: f64) -> Result<Linear> {
        if !(0.0..1.0).contains(&rcond) {
            return Err(Error::setting("rcond", "a number from 0 to below 1", rcond));
        }
        let floor = rcond * self.s.iter().copied().fold(0.0, f64::max);
        let mut solution = self.coordinates.clone();
        let mut rank = 0;
        for (row, &s) in solution.chunks_exact_mut(self.targets).zip(&self.s) {
            let is_kept = s > floor;
            rank += usize::from(is_kept);
            scale(row, if is_kept { 1.0 / s } else { 0.0 });
        }
        let coefficients = match self.s.is_empty() {
            true => vec![0.0; 0],
            false => product_f64(&self.basis, self.s.len(), &solution, self.targets),
        };
        Ok(Linear { coefficients, targets: self.targets, rank })
    }
}

impl Linear {
    /// Predicts the targets from features, or from kernel values with the training rows.
    ///
    /// # Errors
    /// [`Error::Shape`] if a row does not have one value per coefficient, [`Error::Unfit`] if a value is not finite.
    pub fn predict(&self, rows: Rows<'_, f64>) -> Result<Vec<f64>> {
        let dim = self.coefficients.len() / self.targets;
        if rows.dim() != dim {
            let what = format!("a row has {} values and the fit {dim} coefficients", rows.dim());
            return Err(Error::shape(what, ""));
        }
        check_finite(rows, "value")?;
        Ok(product_f64(rows.values(), dim, &self.coefficients, self.targets))
    }
}

/// Checks sizes and weights, and returns the square roots of the weights.
fn roots(n: usize, y: Rows<'_, f64>, weights: Option<&[f64]>) -> Result<Vec<f64>> {
    let n_weights = weights.map_or(n, <[f64]>::len);
    if y.n() != n || n_weights != n {
        let what = format!("{n} rows were given with {} targets and {n_weights} weights", y.n());
        return Err(Error::shape(what, ""));
    }
    if n == 0 {
        return Err(Error::unfit("there are no rows to fit", ""));
    }
    check_finite(y, "target")?;
    let Some(weights) = weights else { return Ok(vec![1.0; n]) };
    if let Some(i) = weights.iter().position(|w| !(w.is_finite() && *w >= 0.0)) {
        let what =
            format!("the weight of row {i} must be a finite number from 0, got {}", weights[i]);
        return Err(Error::unfit(what, ""));
    }
    Ok(weights.iter().map(|w| w.sqrt()).collect())
}

fn check_finite(rows: Rows<'_, f64>, what: &str) -> Result<()> {
    match rows.values().iter().position(|x| !x.is_finite()) {
        None => Ok(()),
        Some(at) => {
            let (row, column) = (at / rows.dim(), at % rows.dim());
            Err(Error::unfit(format!("{what} {column} of row {row} is not finite"), ""))
        }
    }
}

fn scale(row: &mut [f64], by: f64) {
    row.iter_mut().for_each(|x| *x *= by);
}

/// W^½ y.
fn scaled(y: Rows<'_, f64>, root: &[f64]) -> Vec<f64> {
    y.iter().zip(root).flat_map(|(y, w)| y.iter().map(move |y| w * y)).collect()
}

/// A'B for rows of A of `m` values and rows of B of `columns`, summed over rows in order.
fn transposed_product(a: &[f64], m: usize, b: &[f64], columns: usize) -> Vec<f64> {
    let mut out = vec![0.0; m * columns];
    for (a, b) in a.chunks_exact(m).zip(b.chunks_exact(columns)) {
        for (out, a) in out.chunks_exact_mut(columns).zip(a) {
            out.iter_mut().zip(b).for_each(|(o, b)| *o += a * b);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;
    use veridical_core::{Job, Seed};
    use veridical_nets::{NetConfig, Shape};

    use super::super::product::testing::{features, normals};
    use super::*;
    use crate::tangent::{Examples, Factors, Kind, Plan, Settings};

    fn rows(values: &[f64], dim: usize) -> Rows<'_, f64> {
        Rows::new(values, dim).unwrap()
    }

    fn wide(values: Vec<f32>) -> Vec<f64> {
        values.into_iter().map(f64::from).collect()
    }

    fn gram(a: &[f64], b: &[f64], dim: usize) -> Vec<f64> {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        a.chunks(dim).flat_map(|a| b.chunks(dim).map(move |b| dot(a, b))).collect()
    }

    fn numbers(value: &Value) -> Vec<f64> {
        value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    }

    fn oracle() -> Value {
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracles/machine/least_squares.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    /// The solution of minimum norm moves by at most about (condition^2 of the features, condition of Ĥ) roundings; of the sums of at
    /// most 40 terms a hundred times that covers the rest. Values are of order 1.
    fn compare(case: &Value, phi: &[f64], queries: &[f64], dim: usize, grams: [Vec<f64>; 2]) {
        let y = numbers(&case["y"]);
        let n = y.len() / 2;
        let weights = (!case["weights"].is_null()).then(|| numbers(&case["weights"]));
        let (y, weights) = (rows(&y, 2), weights.as_deref());
        let direct = LeastSquares::of_features(rows(phi, dim), y, weights).unwrap();
        let kernel = LeastSquares::of_kernel(rows(&grams[0], n), y, weights).unwrap();
        for at in case["at"].as_array().unwrap() {
            let number = |key: &str| at[key].as_f64().unwrap();
            let check = |fit: &Linear, queries, rank: &str, want: &str, power: f64| {
                assert_eq!(fit.rank as f64, number(rank));
                let close = 100.0 * f64::EPSILON * power;
                for (got, want) in fit.predict(queries).unwrap().iter().zip(numbers(&at[want])) {
                    assert!((got - want).abs() < close, "{got} is not {want} to {close}");
                }
            };
            let fit = direct.solve(number("rcond")).unwrap();
            check(&fit, rows(queries, dim), "rank", "features", number("condition").powi(2));
            let fit = kernel.solve(number("rcond")).unwrap();
            let power = number("kernel_condition");
            check(&fit, rows(&grams[1], n), "kernel_rank", "kernel", power);
        }
    }

    #[test]
    fn solutions_are_those_of_numpy_lstsq_and_pinv() {
        for case in oracle()["plain"].as_array().unwrap() {
            let size = |key: &str| case[key].as_u64().unwrap() as usize;
            let dim = size("dim");
            let x = wide(features(size("n"), dim, 0));
            let queries = wide(features(8, dim, 5000));
            compare(case, &x, &queries, dim, [gram(&x, &x, dim), gram(&queries, &x, dim)]);
        }
    }

    /// NTKJ and NTK of a tanh network, whose tangent features NumPy has written out.
    #[test]
    fn tangent_features_of_a_network_are_regressed_as_numpy_does() {
        let case = &oracle()["network"];
        let points = case["points"].as_u64().unwrap() as usize;
        let hidden: Vec<String> =
            numbers(&case["hidden"]).iter().map(|h| (*h as usize).to_string()).collect();
        let model = format!("mlp:{}", hidden.join(","));
        let mut config = NetConfig::new(model.parse().unwrap(), Shape::row(1), 1);
        config.activation = "tanh".parse().unwrap();
        let mut net = config.build::<f64>(Seed::new(0).unwrap()).unwrap();
        for (i, p) in net.params.iter_mut().enumerate() {
            *p = ((i * 7919 + 13) % 17) as f64 / 8.0 - 1.0;
        }
        let x: Vec<f64> = (0..points).map(|i| 2.0 * i as f64 / (points - 1) as f64 - 1.0).collect();
        let queries = numbers(&case["queries"]);
        let job = Job::silent();
        let take = |x: &[f64]| {
            let all = x.to_vec();
            let fill = move |at: std::ops::Range<usize>, slot: &mut [f64]| {
                slot.copy_from_slice(&all[at]);
            };
            let examples = Examples::new(x.len(), fill);
            let plan = Plan::new(&net, &examples, None, &Settings::new(Kind::Trntk0)).unwrap();
            Factors::take(&net, &examples, &plan, &job).unwrap()
        };
        let (train, test) = (take(&x), take(&queries));
        for (got, want) in test.outputs().iter().zip(numbers(&case["outputs"])) {
            assert!((got - want).abs() < 1e-14, "{got} is not {want}");
        }
        let dim = train.feature_dim().unwrap();
        let phi = train.features(0..train.len()).unwrap();
        let phi_queries = test.features(0..test.len()).unwrap();
        let gram = train.gram_f64(None, &job).unwrap();
        let across = test.gram_f64(Some(&train), &job).unwrap();
        compare(case, &phi, &phi_queries, dim, [gram, across]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// (19), (20): where nothing is cut, or everything below a gap, features and kernel are one function. Condition numbers of Ĥ
        /// stay below 1e6 for these sizes: 1e-8 is 100 roundings of it.
        #[test]
        fn features_and_their_kernel_have_one_solution(
            n in 2usize..12, extra in 3usize..9, is_wide: bool, at in 0u64..100,
        ) {
            let dim = if is_wide { 3 * n + extra } else { 2 };
            let n = if is_wide { n } else { 3 * n + extra };
            let phi = normals(n * dim, at);
            let queries = normals(5 * dim, at + 300);
            let y = normals(n, at + 600);
            let weights: Vec<f64> = normals(n, at + 900).iter().map(|w| 0.3 + w.abs()).collect();
            let k = gram(&phi, &phi, dim);
            let direct =
                LeastSquares::of_features(rows(&phi, dim), rows(&y, 1), Some(&weights)).unwrap();
            let kernel = LeastSquares::of_kernel(rows(&k, n), rows(&y, 1), Some(&weights)).unwrap();
            let (direct, kernel) = (direct.solve(1e-6).unwrap(), kernel.solve(1e-12).unwrap());
            prop_assert_eq!(direct.rank, n.min(dim));
            prop_assert_eq!(kernel.rank, n.min(dim));
            let got = direct.predict(rows(&queries, dim)).unwrap();
            let want = kernel.predict(rows(&gram(&queries, &phi, dim), n)).unwrap();
            prop_assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-8 * (1.0 + b.abs())));
        }
    }

    /// A row of weight 0 is as good as absent, and a target in the span is met where the weight is not 0.
    #[test]
    fn rows_of_weight_zero_do_not_count() {
        let phi = normals(6 * 2, 1);
        let y: Vec<f64> = phi.chunks(2).map(|x| 2.0 * x[0] - x[1]).collect();
        let mut off = y.clone();
        off[3] = 1e6;
        let weights = [1.0, 0.5, 2.0, 0.0, 1.0, 1.0];
        let fit = LeastSquares::of_features(rows(&phi, 2), rows(&off, 1), Some(&weights)).unwrap();
        let got = fit.solve(fit.rounding()).unwrap().coefficients;
        assert!((got[0] - 2.0).abs() < 1e-12 && (got[1] + 1.0).abs() < 1e-12, "{got:?}");
    }

    #[test]
    fn what_cannot_be_fitted_is_refused() {
        let (phi, y) = ([1.0, 0.0, 0.0, 1.0], [1.0, 2.0]);
        let fit = |phi: &[f64], y: &[f64], w: Option<&[f64]>| {
            LeastSquares::of_features(rows(phi, 2), rows(y, 1), w)
        };
        let message = |phi: &[f64], y: &[f64], w| fit(phi, y, w).unwrap_err().to_string();
        assert_eq!(message(&phi, &[1.0], None), "2 rows were given with 1 targets and 2 weights");
        assert_eq!(message(&[], &[], None), "there are no rows to fit");
        assert_eq!(message(&[1.0, f64::NAN], &[1.0], None), "feature 1 of row 0 is not finite");
        assert_eq!(message(&phi, &[1.0, f64::INFINITY], None), "target 0 of row 1 is not finite");
        assert_eq!(
            message(&phi, &y, Some(&[1.0, -1.0])),
            "the weight of row 1 must be a finite number from 0, got -1"
        );
        let fitted = fit(&phi, &y, None).unwrap();
        assert_eq!(
            fitted.solve(1.0).unwrap_err().to_string(),
            "⟨rcond⟩ must be a number from 0 to below 1, got 1"
        );
        let kernel = LeastSquares::of_kernel(rows(&[1.0; 6], 3), rows(&y, 1), None);
        assert_eq!(
            kernel.unwrap_err().to_string(),
            "a Gram matrix of training rows is square, got 2 x 3"
        );
        assert!(fitted.solve(0.0).unwrap().predict(rows(&[1.0; 3], 3)).is_err());
        assert_eq!((fitted.condition(2), fitted.condition(3)), (Some(1.0), None));
        // Nothing to learn from: a rank of 0 predicts 0.
        let zero = fit(&[0.0; 4], &y, None).unwrap().solve(1e-12).unwrap();
        assert_eq!((zero.rank, zero.predict(rows(&phi, 2)).unwrap()), (0, vec![0.0, 0.0]));
    }
}
