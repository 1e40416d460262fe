//! Eigendecomposition of small symmetric matrices, and its uses: orthonormal bases and principal components.
//!
//! eigen          A = V diag(l) V', largest l first
//! orthonormal    Y V diag(l)^-1/2 for Y'Y = V diag(l) V' (Stathopoulos & Wu 2002), twice, so that the result is
//!                orthonormal to rounding; directions below 1e-14 of the largest l become columns of zeros
//! PCA            rows less their mean, times the eigenvectors of their covariance (n - 1)
//!
//! Signs: the entry of largest absolute value in every eigenvector is positive (the first such entry, on ties).

use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd;
use faer::{MatMut, MatRef, Par};
use rayon::prelude::*;
use veridical_core::{Error, Result, Rows};

/// Computes the eigenvalues of a symmetric matrix, largest first, and its eigenvectors as columns of a row-major n x n matrix.
///
/// ```
/// let (values, vectors) = veridical_learn::eigen(&[1.0, 0.0, 0.0, 3.0], 2);
/// assert_eq!((values, vectors), (vec![3.0, 1.0], vec![0.0, 1.0, 1.0, 0.0]));
/// ```
///
/// # Panics
/// If the matrix is not n x n, or holds values that are not finite.
pub fn eigen(matrix: &[f64], n: usize) -> (Vec<f64>, Vec<f64>) {
    assert_eq!(matrix.len(), n * n, "a square matrix");
    assert!(matrix.iter().all(|x| x.is_finite()), "a finite matrix");
    let (mut values, mut vectors) = (vec![0.0; n], vec![0.0; n * n]);
    let compute = evd::ComputeEigenvectors::Yes;
    let scratch = evd::self_adjoint_evd_scratch::<f64>(n, compute, Par::Seq, Default::default());
    let mut memory = MemBuffer::new(scratch);
    let solved = evd::self_adjoint_evd(
        MatRef::from_column_major_slice(matrix, n, n),
        DiagMut::from_slice_mut(&mut values),
        Some(MatMut::from_column_major_slice_mut(&mut vectors, n, n)),
        Par::Seq,
        MemStack::new(&mut memory),
        Default::default(),
    );
    // INVARIANT: the QR iteration converges for a finite symmetric matrix.
    solved.expect("eigenvalues converge");
    values.reverse();
    let mut columns = vec![0.0; n * n];
    for (c, vector) in vectors.chunks_exact(n).rev().enumerate() {
        let sign = sign_of(vector.iter().copied());
        vector.iter().enumerate().for_each(|(r, x)| columns[r * n + c] = sign * x);
    }
    (values, columns)
}

/// The sign that makes the entry of largest absolute value positive.
pub(crate) fn sign_of(vector: impl Iterator<Item = f64>) -> f64 {
    let largest = vector.fold(0.0f64, |m, x| if x.abs() > m.abs() { x } else { m });
    if largest < 0.0 { -1.0 } else { 1.0 }
}

/// Gram matrix Y'Y of rows of `k` values; blocks of rows are summed in order.
pub(crate) fn gram_f64(rows: &[f64], k: usize) -> Vec<f64> {
    let block = (rows.len() / k.max(1)).div_ceil(64).max(64) * k;
    let partial = |block: &[f64]| {
        let mut sum = vec![0.0; k * k];
        for row in block.chunks_exact(k) {
            for (i, out) in sum.chunks_exact_mut(k).enumerate() {
                let x = row[i];
                out.iter_mut().zip(row).for_each(|(s, y)| *s += x * y);
            }
        }
        sum
    };
    let blocks: Vec<Vec<f64>> = rows.par_chunks(block.max(1)).map(partial).collect();
    let mut total = vec![0.0; k * k];
    blocks.iter().for_each(|block| total.iter_mut().zip(block).for_each(|(t, b)| *t += b));
    total
}

/// Product of rows of k values with a k x m matrix.
pub(crate) fn times(rows: &[f64], k: usize, matrix: &[f64], m: usize) -> Vec<f64> {
    let mut out = vec![0.0; rows.len() / k * m];
    out.par_chunks_exact_mut(m).zip(rows.par_chunks_exact(k)).for_each(|(out, row)| {
        for (x, weights) in row.iter().zip(matrix.chunks_exact(m)) {
            out.iter_mut().zip(weights).for_each(|(o, w)| *o += x * w);
        }
    });
    out
}

/// Computes an orthonormal basis of the columns of `y` (rows of k values); linearly dependent columns become zeros.
///
/// ```
/// let basis = veridical_learn::orthonormal(&[3.0, 6.0, 4.0, 8.0], 2); // the second column is twice the first
/// let squared_norm = basis.iter().map(|x| x * x).sum::<f64>();
/// assert!((squared_norm - 1.0).abs() < 1e-12); // rank 1: one unit vector and one column of zeros
/// ```
pub fn orthonormal(y: &[f64], k: usize) -> Vec<f64> {
    let once = |y: &[f64]| {
        let (values, mut vectors) = eigen(&gram_f64(y, k), k);
        let floor = 1e-14 * values.first().copied().unwrap_or(0.0);
        let scale = |l: &f64| if *l > floor && *l > 0.0 { 1.0 / l.sqrt() } else { 0.0 };
        let scales: Vec<f64> = values.iter().map(scale).collect();
        for row in vectors.chunks_exact_mut(k) {
            row.iter_mut().zip(&scales).for_each(|(v, s)| *v *= s);
        }
        times(y, k, &vectors, k)
    };
    once(&once(y))
}

/// Principal component analysis (PCA) fitted on a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Pca {
    /// Mean row, which is subtracted before projecting.
    pub mean: Vec<f64>,
    /// Principal directions, largest variance first: k rows of d values.
    pub directions: Vec<f64>,
    /// Variance along each direction.
    pub variances: Vec<f64>,
    /// Total variance of the rows, over all d directions.
    pub total_variance: f64,
}

impl Pca {
    /// Fits the first `k` principal components of the rows.
    ///
    /// # Errors
    /// [`Error::Shape`] if k exceeds the number of columns, [`Error::Unfit`] if there are no rows or a value is not finite.
    ///
    /// ```
    /// use veridical_core::Rows;
    /// use veridical_learn::Pca;
    ///
    /// let rows = Rows::new(&[0.0, 0.0, 3.0, 4.0, 6.0, 8.0], 2)?; // on a line
    /// let pca = Pca::fit(rows, 1)?;
    /// assert!((pca.variances[0] - pca.total_variance).abs() < 1e-12);
    /// assert_eq!(pca.transform(rows)?, [-5.0, 0.0, 5.0]);
    /// # Ok::<(), veridical_core::Error>(())
    /// ```
    pub fn fit(rows: Rows<'_, f32>, k: usize) -> Result<Self> {
        let (n, dim) = (rows.n(), rows.dim());
        if k > dim {
            let what = format!("rows of {dim} values do not have {k} components");
            return Err(Error::shape(what, ""));
        }
        if n == 0 || !rows.values().iter().all(|x| x.is_finite()) {
            return Err(Error::unfit("components need rows of finite numbers", ""));
        }
        let mut mean = vec![0.0; dim];
        for row in rows {
            mean.iter_mut().zip(row).for_each(|(m, &x)| *m += f64::from(x));
        }
        mean.iter_mut().for_each(|m| *m /= n as f64);
        let centered: Vec<f64> = rows
            .iter()
            .flat_map(|row| row.iter().zip(&mean).map(|(&x, m)| f64::from(x) - m))
            .collect();
        let mut covariance = gram_f64(&centered, dim);
        covariance.iter_mut().for_each(|c| *c /= n.saturating_sub(1).max(1) as f64);
        let total_variance = (0..dim).map(|i| covariance[i * dim + i]).sum();
        let (mut variances, vectors) = eigen(&covariance, dim);
        variances.truncate(k);
        let directions =
            (0..k).flat_map(|c| (0..dim).map(move |r| (r, c))).map(|(r, c)| vectors[r * dim + c]);
        Ok(Self { directions: directions.collect(), mean, variances, total_variance })
    }

    /// Projects rows on the components and returns k coordinates per row.
    ///
    /// # Errors
    /// [`Error::Shape`] if the rows have another width than those seen at fit.
    pub fn transform(&self, rows: Rows<'_, f32>) -> Result<Vec<f32>> {
        let dim = self.mean.len();
        if rows.dim() != dim {
            let what = format!("components of {dim} values do not fit rows of {}", rows.dim());
            return Err(Error::shape(what, ""));
        }
        let coordinate = |row: &[f32], direction: &[f64]| -> f32 {
            let terms = row.iter().zip(&self.mean).zip(direction);
            terms.map(|((&x, m), d)| (f64::from(x) - m) * d).sum::<f64>() as f32
        };
        let along = |row| self.directions.chunks_exact(dim).map(move |d| coordinate(row, d));
        Ok(rows.iter().flat_map(along).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(n: usize) -> Vec<f64> {
        (0..n).map(|i| ((i * 7919 + 13) % 101) as f64 / 50.0 - 1.0).collect()
    }

    /// Entries are at most 1, so errors are about n eps; the tolerance allows a hundred times that.
    #[test]
    fn a_symmetric_matrix_is_the_sum_of_its_eigenparts() {
        let n = 12;
        let a = gram_f64(&values(n * n), n);
        let (l, v) = eigen(&a, n);
        assert!(l.windows(2).all(|w| w[0] >= w[1]));
        for i in 0..n {
            for j in 0..n {
                let sum: f64 = (0..n).map(|k| l[k] * v[i * n + k] * v[j * n + k]).sum();
                assert!((sum - a[i * n + j]).abs() < 1e-12, "{i} {j}");
            }
        }
        let largest =
            (0..n).map(|r| v[r * n]).fold(0.0f64, |m, x| if x.abs() > m.abs() { x } else { m });
        assert!(largest > 0.0);
    }

    /// The last column is the sum of two others, so the rank is one less than the number of columns.
    #[test]
    fn bases_are_orthonormal_and_dependent_columns_vanish() {
        let (n, k) = (40, 5);
        let mut y = values(n * k);
        y.chunks_exact_mut(k).for_each(|row| row[4] = row[0] + row[1]);
        let q = orthonormal(&y, k);
        let gram = gram_f64(&q, k);
        for i in 0..k {
            for j in 0..k {
                let want = f64::from(u8::from(i == j && i < 4));
                assert!((gram[i * k + j] - want).abs() < 1e-13, "{i} {j} {}", gram[i * k + j]);
            }
        }
    }

    /// Points on a line with unit noise across it.
    #[test]
    fn the_first_component_is_the_line() {
        let rows: Vec<f32> = (0..50)
            .flat_map(|i| [3.0 * i as f32, 4.0 * i as f32, if i % 2 == 0 { 1.0 } else { -1.0 }])
            .collect();
        let rows = Rows::new(&rows, 3).unwrap();
        let pca = Pca::fit(rows, 2).unwrap();
        assert!(Pca::fit(rows, 4).is_err());
        assert!((pca.directions[0] - 0.6).abs() < 1e-3 && (pca.directions[1] - 0.8).abs() < 1e-3);
        // 25 times the variance 212.5 of 0..49, and 50/49 of the noise.
        assert!((pca.variances[0] - 25.0 * 212.5).abs() < 1.0);
        assert!((pca.total_variance - 25.0 * 212.5 - 50.0 / 49.0).abs() < 1e-9);
        let coordinates = pca.transform(rows).unwrap();
        assert_eq!(coordinates.len(), 100);
        let mean: f32 = coordinates.iter().step_by(2).sum::<f32>() / 50.0;
        assert!(mean.abs() < 1e-4);
    }
}
