//! Leading singular vectors of a matrix that is known by its products (Halko, Martinsson & Tropp 2011,
//! algorithms 4.4 and 5.1).
//!
//! Q spans A W for a Gaussian W of k + oversampling columns, refined by power iterations Q <- orth(A orth(A'Q)).
//! With A'Q = B', B B' = V diag(s^2) V' the factors are U = Q V and s. All in f64; W is drawn from a named stream, so
//! the same seed gives the same bytes.

use veridical_core::{Error, Result, Stream};

use crate::dense;
use crate::eigen::{eigen, gram_f64, orthonormal, sign_of, times};

/// A thin singular value decomposition A = U diag(s) V' of an n x m matrix, with r = min(n, m).
#[derive(Clone, Debug, PartialEq)]
pub struct Svd {
    /// Left singular vectors: n rows of r values.
    pub u: Vec<f64>,
    /// Singular values, largest first.
    pub s: Vec<f64>,
    /// Right singular vectors: m rows of r values.
    pub v: Vec<f64>,
}

/// Decomposes a row-major matrix with `columns` columns.
///
/// ```
/// let svd = veridical_learn::thin_svd(&[0.0, 2.0, 1.0, 0.0, 0.0, 0.0], 2);
/// assert_eq!((svd.s, svd.u.len(), svd.v.len()), (vec![2.0, 1.0], 6, 4));
/// ```
///
/// # Panics
/// If the values do not form whole rows, or are not finite.
pub fn thin_svd(matrix: &[f64], columns: usize) -> Svd {
    assert!(matrix.iter().all(|x| x.is_finite()), "a finite matrix");
    assert!(matrix.len().is_multiple_of(columns), "whole rows");
    let dense::Svd { u, s, v } = dense::Svd::of(dense::view(matrix, columns));
    Svd { u: dense::row_major(u.as_ref()), s, v: dense::row_major(v.as_ref()) }
}

/// A matrix known only by its products with narrow matrices, stored as rows of k values.
pub trait Operator: Sync {
    /// Returns the numbers of rows and columns.
    fn shape(&self) -> [usize; 2];

    /// Computes A x.
    fn apply(&self, x: &[f64], k: usize) -> Vec<f64>;

    /// Computes A' x.
    fn apply_transposed(&self, x: &[f64], k: usize) -> Vec<f64>;
}

/// Computes the `k` largest singular values and their left singular vectors (rows of k values).
///
/// Signs: the entry of largest absolute value in every vector is positive.
///
/// # Errors
/// [`Error::Shape`] if k is 0 or larger than the smaller dimension of the matrix.
pub fn randomized_svd(
    a: &dyn Operator,
    k: usize,
    oversampling: usize,
    iterations: usize,
    stream: Stream,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let [n, m] = a.shape();
    if k == 0 || k > n.min(m) {
        let what = format!("a {n} x {m} matrix does not have {k} singular values");
        return Err(Error::shape(what, ""));
    }
    let l = (k + oversampling).min(n.min(m));
    let mut sketch = vec![0.0; m * l];
    for (r, row) in sketch.chunks_exact_mut(l).enumerate() {
        stream.at(0, r as u64).fill_normals(row);
    }
    let mut q = orthonormal(&a.apply(&sketch, l), l);
    for _ in 0..iterations {
        let z = orthonormal(&a.apply_transposed(&q, l), l);
        q = orthonormal(&a.apply(&z, l), l);
    }
    let b = a.apply_transposed(&q, l);
    let (squares, v) = eigen(&gram_f64(&b, l), l);
    let first: Vec<f64> = v.chunks_exact(l).flat_map(|row| &row[..k]).copied().collect();
    let mut u = times(&q, l, &first, k);
    for c in 0..k {
        let sign = sign_of(u.iter().skip(c).step_by(k).copied());
        u.iter_mut().skip(c).step_by(k).for_each(|x| *x *= sign);
    }
    Ok((squares[..k].iter().map(|s| s.max(0.0).sqrt()).collect(), u))
}

#[cfg(test)]
mod tests {
    use veridical_core::Seed;

    use super::*;

    struct Dense {
        n: usize,
        m: usize,
        values: Vec<f64>,
    }

    impl Operator for Dense {
        fn shape(&self) -> [usize; 2] {
            [self.n, self.m]
        }

        fn apply(&self, x: &[f64], k: usize) -> Vec<f64> {
            times(&self.values, self.m, x, k)
        }

        fn apply_transposed(&self, x: &[f64], k: usize) -> Vec<f64> {
            let mut transposed = vec![0.0; self.n * self.m];
            for i in 0..self.n {
                (0..self.m).for_each(|j| transposed[j * self.n + i] = self.values[i * self.m + j]);
            }
            times(&transposed, self.n, x, k)
        }
    }

    fn stream() -> Stream {
        Stream::new(Seed::new(2).unwrap(), "test/svd")
    }

    /// A = sum of s_k u_k v_k' with orthonormal u, v: the sketch has as many columns as A has rank, so the range is
    /// found exactly, and the result is accurate to rounding times the condition number of the squares (16).
    #[test]
    fn a_matrix_of_low_rank_is_recovered() {
        let (n, m, rank) = (60, 40, 5);
        let random = |rows: usize, at| {
            let mut x = vec![0.0; rows * rank];
            stream().at(1, at).fill_normals(&mut x);
            orthonormal(&x, rank)
        };
        let (u, v) = (random(n, 0), random(m, 1));
        let s = [8.0, 6.0, 5.0, 3.0, 2.0];
        let entry = |i: usize, j: usize| -> f64 {
            (0..rank).map(|k| s[k] * u[i * rank + k] * v[j * rank + k]).sum()
        };
        let values = (0..n * m).map(|at| entry(at / m, at % m)).collect();
        let a = Dense { n, m, values };
        let (got, vectors) = randomized_svd(&a, rank, 5, 2, stream()).unwrap();
        for k in 0..rank {
            assert!((got[k] - s[k]).abs() < 1e-12, "{got:?}");
            let cosine: f64 = (0..n).map(|i| u[i * rank + k] * vectors[i * rank + k]).sum();
            assert!((cosine.abs() - 1.0).abs() < 1e-12, "vector {k}: {cosine}");
        }
    }

    /// A full spectrum against the eigenvalues of A A'. Power iterations leave a share
    /// (s_{l+1} / s_k)^(4q+2) of the error (Halko et al., eq. 1.9): about (0.52)^42 here.
    #[test]
    fn power_iterations_find_the_largest_of_many() {
        let n = 50;
        let mut x = vec![0.0; n * n];
        stream().at(2, 0).fill_normals(&mut x);
        let q = orthonormal(&x, n);
        let scaled: Vec<f64> =
            q.iter().enumerate().map(|(at, x)| x * 0.95f64.powi((at % n) as i32)).collect();
        let a = Dense { n, m: n, values: scaled };
        let (got, _) = randomized_svd(&a, 5, 10, 10, stream()).unwrap();
        for (k, s) in got.iter().enumerate() {
            assert!((s - 0.95f64.powi(k as i32)).abs() < 1e-10, "{k}: {s}");
        }
    }
}
