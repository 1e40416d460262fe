//! Matrix products of row-major slices, split by size alone.
//!
//! c (m x n) = alpha a b + beta c, beta 0 or 1. [`whole`] runs on the calling thread; [`divided`] splits c into strips of a
//! fixed size that any number of threads compute, so the bytes do not depend on the number of threads.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;

use crate::Float;

/// A row-major matrix, or the transpose of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix<'a, T>(MatRef<'a, T>);

impl<'a, T: Float> Matrix<'a, T> {
    /// View of rows x columns values.
    pub fn rows(values: &'a [T], rows: usize, columns: usize) -> Self {
        Self(MatRef::from_row_major_slice(&values[..rows * columns], rows, columns))
    }

    /// View of `columns` columns from `first` on of a matrix with rows of length `stride`.
    pub fn strided(
        values: &'a [T],
        rows: usize,
        stride: usize,
        first: usize,
        columns: usize,
    ) -> Self {
        let whole = MatRef::from_row_major_slice(&values[..rows * stride], rows, stride);
        Self(whole.subcols(first, columns))
    }

    /// The transpose.
    pub fn transposed(self) -> Self {
        Self(self.0.transpose())
    }

    /// Numbers of rows and columns.
    pub fn size(self) -> (usize, usize) {
        (self.0.nrows(), self.0.ncols())
    }

    /// A single entry.
    pub fn at(self, row: usize, column: usize) -> T {
        self.0[(row, column)]
    }
}

/// Products below this size run on one thread: starting another costs about as much.
const SMALL: usize = 1 << 18;
/// Approximate number of multiplications per strip of c.
const STRIP: usize = 1 << 22;
/// Strips hold whole vectors and tiles.
const GRAIN: usize = 16;
/// Maximum number of strips: each of them reads one of the factors completely.
const STRIPS: usize = 16;

/// Minimum number of rows or columns per strip, or half of all: each strip packs the whole other factor again.
const LEAST: usize = 384;

fn accum(add: bool) -> Accum {
    if add { Accum::Add } else { Accum::Replace }
}

/// Computes c = alpha a b, or adds it, on this thread.
pub(crate) fn whole<T: Float>(
    c: &mut [T],
    add: bool,
    alpha: T,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
) {
    let (m, n) = (a.0.nrows(), b.0.ncols());
    if m == 1 {
        return alone(&mut c[..n], add, alpha, a, b);
    }
    let c = MatMut::from_row_major_slice_mut(&mut c[..m * n], m, n);
    matmul(c, accum(add), a.0, b.0, alpha, Par::Seq);
}

/// A product with a vector is summed in another order than one with a matrix. To make the result of a row independent of
/// the number of rows, a single row is computed twice, as a matrix of two rows.
fn alone<T: Float>(c: &mut [T], add: bool, alpha: T, a: Matrix<'_, T>, b: Matrix<'_, T>) {
    let twice: Vec<T> = (0..2).flat_map(|_| a.0.row(0).iter().copied()).collect();
    let mut both = [&*c, &*c].concat();
    whole(&mut both, add, alpha, Matrix::rows(&twice, 2, a.0.ncols()), b);
    c.copy_from_slice(&both[..c.len()]);
}

/// Computes c = alpha a b, or adds it, into `columns` of a matrix with rows of length `stride`.
pub(crate) fn strided<T: Float>(
    c: &mut [T],
    stride: usize,
    first: usize,
    add: bool,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
) {
    let (m, n) = (a.0.nrows(), b.0.ncols());
    let c = MatMut::from_row_major_slice_mut(&mut c[..m * stride], m, stride);
    matmul(c.subcols_mut(first, n), accum(add), a.0, b.0, T::ONE, Par::Seq);
}

/// Computes c = alpha a b, or adds it, on any number of threads.
pub(crate) fn divided<T: Float>(
    c: &mut [T],
    add: bool,
    alpha: T,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
) {
    let (m, k, n) = (a.0.nrows(), a.0.ncols(), b.0.ncols());
    let work = m * k * n;
    if work < SMALL || m == 1 {
        return whole(c, add, alpha, a, b);
    }
    let long = m.max(n);
    // A power of two, so that two or four threads get equal parts.
    let strips = (work / STRIP).min(long / LEAST).clamp(2, STRIPS);
    let strips = 1 << strips.ilog2();
    let size = long.div_ceil(strips).next_multiple_of(GRAIN);
    let mut rest = MatMut::from_row_major_slice_mut(&mut c[..m * n], m, n);
    let mut parts = Vec::with_capacity(strips);
    let mut first = 0;
    while first < long {
        // A strip of one row or column would be a product with a vector, which is summed in another order: the result of a row
        // would depend on the number of rows.
        let take = if long - first <= size + 1 { long - first } else { size };
        let (part, tail) =
            if m >= n { rest.split_at_row_mut(take) } else { rest.split_at_col_mut(take) };
        parts.push((first, take, part));
        rest = tail;
        first += take;
    }
    parts.into_par_iter().for_each(|(first, take, c)| {
        let (a, b) = match m >= n {
            true => (a.0.subrows(first, take), b.0),
            false => (a.0, b.0.subcols(first, take)),
        };
        matmul(c, accum(add), a, b, alpha, Par::Seq);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 % 1009) as f32 - 504.0) / 257.0).collect()
    }

    /// The result of a row does not depend on the number of rows.
    #[test]
    fn rows_do_not_depend_on_each_other() {
        let (k, n, most) = (65, 96, 2 * LEAST + 2 * GRAIN + 2);
        let (a, b) = (numbers(most * k), numbers(k * n));
        let product = |m: usize| {
            let mut c = vec![0.0; m * n];
            divided(&mut c, false, 1.0, Matrix::rows(&a, m, k), Matrix::rows(&b, k, n));
            c
        };
        let all = product(most);
        for m in (1..most).filter(|m| m % GRAIN < 3) {
            assert!(product(m) == all[..m * n], "{m} rows");
            let mut c = vec![0.0; m * n];
            whole(&mut c, false, 1.0, Matrix::rows(&a, m, k), Matrix::rows(&b, k, n));
            assert!(c == all[..m * n], "{m} rows on one thread");
        }
    }
}
