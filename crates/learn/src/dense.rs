//! Products and singular value decompositions of f64 matrices, with the same bytes on any number of threads.

use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::matmul::matmul;
use faer::linalg::svd;
use faer::{Accum, Mat, MatRef, Par};

/// Number of parts faer splits the work on a large matrix into, independent of the number of threads.
const PARTS: usize = 8;
/// Multiply-adds above which starting threads pays off.
const LARGE: usize = 1 << 22;

fn parts(multiply_adds: usize) -> Par {
    if multiply_adds < LARGE { Par::Seq } else { Par::rayon(PARTS) }
}

/// View of a row-major matrix with `columns` columns.
pub(crate) fn view(matrix: &[f64], columns: usize) -> MatRef<'_, f64> {
    MatRef::from_row_major_slice(matrix, matrix.len() / columns, columns)
}

/// The matrix product A B.
pub(crate) fn product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let mut out = Mat::zeros(a.nrows(), b.ncols());
    let par = parts(a.nrows() * a.ncols() * b.ncols());
    matmul(out.as_mut(), Accum::Replace, a, b, 1.0, par);
    out
}

/// Copies the matrix into a row-major vector.
pub(crate) fn row_major(matrix: MatRef<'_, f64>) -> Vec<f64> {
    let row = |i| (0..matrix.ncols()).map(move |j| matrix[(i, j)]);
    (0..matrix.nrows()).flat_map(row).collect()
}

/// Thin singular value decomposition A = U diag(s) V', largest s first.
pub(crate) struct Svd {
    pub u: Mat<f64>,
    pub s: Vec<f64>,
    pub v: Mat<f64>,
}

impl Svd {
    /// # Panics
    /// If the matrix holds values that are not finite.
    pub(crate) fn of(a: MatRef<'_, f64>) -> Self {
        let (n, m) = a.shape();
        let size = n.min(m);
        let (mut u, mut v, mut s) = (Mat::zeros(n, size), Mat::zeros(m, size), vec![0.0; size]);
        let (par, thin) = (parts(n * m * size), svd::ComputeSvdVectors::Thin);
        let need = svd::svd_scratch::<f64>(n, m, thin, thin, par, Default::default());
        let solved = svd::svd(
            a,
            DiagMut::from_slice_mut(&mut s),
            Some(u.as_mut()),
            Some(v.as_mut()),
            par,
            MemStack::new(&mut MemBuffer::new(need)),
            Default::default(),
        );
        // INVARIANT: the iteration converges for a finite matrix, and callers have checked that the matrix is finite.
        solved.expect("singular values converge");
        Self { u, s, v }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 200 x 170 is above the size at which work is split.
    #[test]
    fn factors_multiply_to_the_matrix_with_the_same_bytes_on_any_threads() {
        let (n, m) = (200, 170);
        let values: Vec<f64> =
            (0..n * m).map(|i| ((i * 7919 + 11) % 1013) as f64 / 506.5 - 1.0).collect();
        let run = |threads| {
            veridical_core::threads::with_threads(Some(threads), || {
                let Svd { u, s, v } = Svd::of(view(&values, m));
                let scaled = Mat::from_fn(n, m, |i, j| u[(i, j)] * s[j]);
                (row_major(product(scaled.as_ref(), v.transpose()).as_ref()), s)
            })
            .unwrap()
        };
        let (got, s) = run(1);
        assert!(s.windows(2).all(|w| w[0] >= w[1]));
        // Singular values reach about 200; rounding is n eps of them.
        assert!(got.iter().zip(&values).all(|(g, w)| (g - w).abs() < 1e-11));
        assert!(run(2) == (got.clone(), s.clone()) && run(5) == (got, s));
    }
}
