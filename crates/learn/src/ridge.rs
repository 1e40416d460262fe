//! Ridge regression for a whole path of penalties, without squaring singular values.
//!
//! min over B, b of sum_i w_i |B x_i + b - y_i|^2 / sum_i w_i + lambda s_1^2 |B|^2
//!
//! with s_1 the largest singular value of the centered, weighted X / sqrt(sum w), so lambda is dimensionless. With X = Q R
//! (Householder, block of rows by block of rows, [X Y] at once) and R = U S V',
//! B' = V diag(s / (s^2 + lambda s_1^2)) U' Q' Y for every lambda at the cost of a product. The Gram matrix would square
//! the condition number: paper 004, section 6, shows how many digits that loses (its CK against its CKJ). Singular values below
//! eps max(n, d) s_1 are treated as 0 (the pseudo-inverse of eq. 14).

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::qr::no_pivoting::factor;
use faer::{Mat, Par};
use veridical_core::{Error, Result, Rows};

use crate::dense::{Svd, product, row_major};

/// A ridge regression factored once and solved for any penalty.
#[derive(Clone, Debug)]
pub struct RidgePath {
    s: Vec<f64>,
    v: Mat<f64>,
    /// U' Q' Y.
    uy: Mat<f64>,
    mean_x: Vec<f64>,
    mean_y: Vec<f64>,
    rows: usize,
}

/// A linear model with several targets.
#[derive(Clone, Debug, PartialEq)]
pub struct RidgeFit {
    /// B: one row of `dim` values per target.
    pub weights: Vec<f64>,
    /// Intercepts b, one per target.
    pub intercepts: Vec<f64>,
}

/// Rows that are folded into R at once.
const BLOCK: usize = 512;
/// Columns per Householder block.
const PANEL: usize = 32;

impl RidgePath {
    /// Factors the regression of the rows y on the rows x; without `weights` every row has weight 1.
    ///
    /// # Errors
    /// [`Error::Shape`] if x, y and the weights do not have the same number of rows, [`Error::Unfit`] if there are no rows or
    /// a value is not finite.
    ///
    /// ```
    /// use veridical_core::Rows;
    /// use veridical_learn::RidgePath;
    ///
    /// let (x, y) = (Rows::new(&[0.0, 1.0, 2.0], 1)?, Rows::new(&[1.0, 3.0, 5.0], 1)?);
    /// let line = RidgePath::new(x, y, None)?.solve(0.0);
    /// assert!((line.weights[0] - 2.0).abs() < 1e-12 && (line.intercepts[0] - 1.0).abs() < 1e-12);
    /// # Ok::<(), veridical_core::Error>(())
    /// ```
    pub fn new(x: Rows<'_, f64>, y: Rows<'_, f64>, weights: Option<&[f64]>) -> Result<Self> {
        let (n, dim, targets) = (x.n(), x.dim(), y.dim());
        let n_weights = weights.map_or(n, <[f64]>::len);
        if y.n() != n || n_weights != n {
            let what =
                format!("{n} rows were given with {} targets and {n_weights} weights", y.n());
            return Err(Error::shape(what, ""));
        }
        if n == 0 {
            return Err(Error::unfit("there are no rows to fit", ""));
        }
        let (x, y) = (x.values(), y.values());
        if !x.iter().chain(y).chain(weights.unwrap_or_default()).all(|value| value.is_finite()) {
            return Err(Error::unfit("a row, a target or a weight to fit is not finite", ""));
        }
        let weight = |i: usize| weights.map_or(1.0, |w| w[i]);
        let total: f64 = (0..n).map(weight).sum();
        let mean = |values: &[f64], width: usize| {
            let mut sums = vec![0.0; width];
            for (i, row) in values.chunks_exact(width).enumerate() {
                sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += weight(i) * x);
            }
            sums.iter_mut().for_each(|sum| *sum /= total);
            sums
        };
        let (mean_x, mean_y) = (mean(x, dim), mean(y, targets));
        let width = dim + targets;
        let mut r: Mat<f64> = Mat::zeros(0, width);
        for first in (0..n).step_by(BLOCK) {
            let rows = BLOCK.min(n - first);
            let above = r.nrows();
            let stacked = Mat::from_fn(above + rows, width, |i, j| {
                if i < above {
                    return if i <= j { r[(i, j)] } else { 0.0 };
                }
                let row = first + i - above;
                let value = match j < dim {
                    true => x[row * dim + j] - mean_x[j],
                    false => y[row * targets + j - dim] - mean_y[j - dim],
                };
                value * (weight(row) / total).sqrt()
            });
            r = triangle(stacked);
        }
        let size = r.nrows().min(dim);
        let upper = Mat::from_fn(size, dim, |i, j| if i <= j { r[(i, j)] } else { 0.0 });
        let qy = Mat::from_fn(size, targets, |i, j| r[(i, dim + j)]);
        let Svd { u, s, v } = Svd::of(upper.as_ref());
        let uy = product(u.transpose(), qy.as_ref());
        Ok(Self { s, v, uy, mean_x, mean_y, rows: n })
    }

    /// Solves for the penalty lambda s_1^2; lambda = 0 is the least-squares solution of minimum norm.
    pub fn solve(&self, lambda: f64) -> RidgeFit {
        let largest = self.s.first().copied().unwrap_or(0.0);
        let floor = f64::EPSILON * self.rows.max(self.mean_x.len()) as f64 * largest;
        let shrink =
            |s: f64| if s > floor { s / (s * s + lambda * largest * largest) } else { 0.0 };
        let scaled =
            Mat::from_fn(self.s.len(), self.uy.ncols(), |i, j| shrink(self.s[i]) * self.uy[(i, j)]);
        let b = product(self.v.as_ref(), scaled.as_ref());
        let weights = row_major(b.transpose());
        let intercepts =
            weights.chunks_exact(self.mean_x.len()).zip(&self.mean_y).map(|(row, mean)| {
                mean - row.iter().zip(&self.mean_x).map(|(b, x)| b * x).sum::<f64>()
            });
        let intercepts = intercepts.collect();
        RidgeFit { weights, intercepts }
    }
}

impl RidgeFit {
    /// Computes B x + b for every row.
    pub fn predict(&self, x: &[f64]) -> Vec<f64> {
        let targets = self.intercepts.len();
        let dim = self.weights.len() / targets;
        let mut out = row_major(
            product(crate::dense::view(x, dim), crate::dense::view(&self.weights, dim).transpose())
                .as_ref(),
        );
        for row in out.chunks_exact_mut(targets) {
            row.iter_mut().zip(&self.intercepts).for_each(|(y, b)| *y += b);
        }
        out
    }
}

/// R of the QR decomposition; the reflectors are stored below its diagonal.
fn triangle(mut a: Mat<f64>) -> Mat<f64> {
    let (n, m) = a.shape();
    let size = n.min(m);
    let block = PANEL.min(size.max(1));
    let mut coefficients: Mat<f64> = Mat::zeros(block, size);
    let need = factor::qr_in_place_scratch::<f64>(n, m, block, Par::Seq, Default::default());
    factor::qr_in_place(
        a.as_mut(),
        coefficients.as_mut(),
        Par::Seq,
        MemStack::new(&mut MemBuffer::new(need)),
        Default::default(),
    );
    a.truncate(size, m);
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve_spd;

    fn fit(x: &[f64], dim: usize, y: &[f64], weights: Option<&[f64]>) -> RidgePath {
        RidgePath::new(Rows::new(x, dim).unwrap(), Rows::new(y, 1).unwrap(), weights).unwrap()
    }

    #[test]
    fn what_cannot_be_fitted_is_refused() {
        let rows = |values: &'static [f64]| Rows::new(values, 1).unwrap();
        let error = |x, y, w| RidgePath::new(x, y, w).unwrap_err();
        assert!(matches!(error(rows(&[1.0]), rows(&[1.0, 2.0]), None), Error::Shape { .. }));
        assert!(matches!(error(rows(&[1.0]), rows(&[1.0]), Some(&[])), Error::Shape { .. }));
        assert!(matches!(error(rows(&[]), rows(&[]), None), Error::Unfit { .. }));
        assert!(matches!(error(rows(&[f64::NAN]), rows(&[1.0]), None), Error::Unfit { .. }));
    }

    fn data(n: usize, dim: usize, targets: usize) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
        let number =
            |i: usize, k: usize| ((i * 7919 + k * 104_729 + 13) % 1009) as f64 / 504.5 - 1.0;
        let x: Vec<f64> = (0..n * dim).map(|i| number(i, 1) + 0.3).collect();
        let y = (0..n * targets).map(|i| number(i, 2) + x[i / targets * dim]).collect();
        (x, y, (0..n).map(|i| 1.5 + number(i, 3)).collect())
    }

    /// The normal equations of the centered problem, well conditioned here.
    fn textbook(x: &[f64], dim: usize, y: &[f64], w: &[f64], lambda: f64) -> (Vec<f64>, f64) {
        let total: f64 = w.iter().sum();
        let mean = |column: &dyn Fn(usize) -> f64| {
            w.iter().enumerate().map(|(i, w)| w * column(i)).sum::<f64>() / total
        };
        let mx: Vec<f64> = (0..dim).map(|j| mean(&|i| x[i * dim + j])).collect();
        let my = mean(&|i| y[i]);
        let mut a = vec![0.0; dim * dim];
        let mut b = vec![0.0; dim];
        for (i, w) in w.iter().enumerate() {
            for j in 0..dim {
                let left = w / total * (x[i * dim + j] - mx[j]);
                b[j] += left * (y[i] - my);
                (0..dim).for_each(|k| a[j * dim + k] += left * (x[i * dim + k] - mx[k]));
            }
        }
        (0..dim).for_each(|j| a[j * dim + j] += lambda);
        let weights = solve_spd(&mut a, &b);
        let intercept = my - weights.iter().zip(&mx).map(|(w, m)| w * m).sum::<f64>();
        (weights, intercept)
    }

    /// Rows in one block and in several, more rows than columns and fewer.
    #[test]
    fn the_path_solves_the_normal_equations() {
        for (n, dim) in [(40, 5), (1300, 7), (6, 9)] {
            let (x, y, w) = data(n, dim, 1);
            let path = fit(&x, dim, &y, Some(&w));
            let unit = path.s[0] * path.s[0];
            for lambda in [1e-3, 0.1] {
                let fit = path.solve(lambda);
                let (weights, intercept) = textbook(&x, dim, &y, &w, lambda * unit);
                let near = |a: f64, b: f64| (a - b).abs() < 1e-9 * (1.0 + b.abs());
                assert!(fit.weights.iter().zip(&weights).all(|(a, b)| near(*a, *b)), "{n} {dim}");
                assert!(near(fit.intercepts[0], intercept));
            }
        }
    }

    /// Linearly dependent columns have a solution of minimum norm, and a line is recovered exactly.
    #[test]
    fn least_squares_of_a_singular_matrix() {
        let x: Vec<f64> = (0..30).flat_map(|i| [f64::from(i), 2.0 * f64::from(i), 1.0]).collect();
        let y: Vec<f64> = (0..30).map(|i| 5.0 * f64::from(i) - 3.0).collect();
        let fit = fit(&x, 3, &y, None).solve(0.0);
        assert!((fit.weights[0] - 1.0).abs() < 1e-12 && (fit.weights[1] - 2.0).abs() < 1e-12);
        assert!(fit.predict(&x).iter().zip(&y).all(|(a, b)| (a - b).abs() < 1e-11));
    }

    /// Columns x^k on 60 points, condition 1e10: the residual of a polynomial stays at rounding, where the normal equations
    /// lose half of the digits.
    #[test]
    fn small_singular_values_are_not_squared() {
        let n = 60;
        let at = |i: usize| i as f64 / (n - 1) as f64;
        let x: Vec<f64> = (0..n).flat_map(|i| (1..=14).map(move |k| at(i).powi(k))).collect();
        let y: Vec<f64> = (0..n).map(|i| at(i).powi(13) - 2.0 * at(i).powi(7)).collect();
        let fit = fit(&x, 14, &y, None).solve(0.0);
        let worst = fit.predict(&x).iter().zip(&y).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst < 1e-10, "{worst}");
    }
}
