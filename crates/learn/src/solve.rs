//! Small symmetric positive definite systems, in f64.
//!
//! A = L L', then L z = b and L' x = z (Golub & Van Loan, 4.2). A pivot that rounding left at or below
//! n eps max(a_ii) is raised to it, so a singular matrix yields a finite solution instead of none.
//!
//! The inverse is swept in place, a block K of rows and columns after the other (Goodnight 1979): with D = A_KK^-1 and C = A_.K,
//!   A <- A - C D C',  A_.K <- C D,  A_KK <- -D,
//! which leaves -A^-1: the lower triangle alone, in n^3 multiply-adds at the rate of products, without a second matrix.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;
use veridical_core::{Error, Result};

/// Solves A x = b for symmetric positive definite A; `a` is row-major and is overwritten by L.
///
/// # Panics
/// If `a` is not a square matrix of the size of `b`.
///
/// ```
/// let x = veridical_learn::solve_spd(&mut [4.0, 0.0, 0.0, 16.0], &[8.0, 48.0]);
/// assert_eq!(x, [2.0, 3.0]);
/// ```
pub fn solve_spd(a: &mut [f64], b: &[f64]) -> Vec<f64> {
    let n = b.len();
    assert_eq!(a.len(), n * n, "a square matrix");
    let largest = (0..n).map(|i| a[i * n + i]).fold(0.0, f64::max);
    let floor = (n as f64 * f64::EPSILON * largest).max(f64::MIN_POSITIVE);
    for j in 0..n {
        let (above, below) = a.split_at_mut(j * n);
        let row_j = &mut below[..n];
        for i in 0..j {
            let row_i = &above[i * n..];
            let sum: f64 = (0..i).map(|k| row_j[k] * row_i[k]).sum();
            row_j[i] = (row_j[i] - sum) / row_i[i];
        }
        let sum: f64 = row_j[..j].iter().map(|x| x * x).sum();
        row_j[j] = (row_j[j] - sum).max(floor).sqrt();
    }
    let mut x = b.to_vec();
    for i in 0..n {
        let sum: f64 = (0..i).map(|k| a[i * n + k] * x[k]).sum();
        x[i] = (x[i] - sum) / a[i * n + i];
    }
    for i in (0..n).rev() {
        x[i] /= a[i * n + i];
        let xi = x[i];
        (0..i).for_each(|k| x[k] -= a[i * n + k] * xi);
    }
    x
}

/// Inverts a symmetric positive definite matrix (n x n, f64) in its own memory; `None` if it is not positive definite.
///
/// The work is split in the same way on any number of threads, so the bytes are the same.
///
/// # Errors
/// [`Error::Shape`] if the matrix is not n x n.
///
/// ```
/// let inverse = veridical_learn::invert_spd(vec![4.0, 0.0, 0.0, 16.0], 2)?;
/// assert_eq!(inverse, Some(vec![0.25, 0.0, 0.0, 0.0625]));
/// # Ok::<(), veridical_core::Error>(())
/// ```
pub fn invert_spd(mut matrix: Vec<f64>, n: usize) -> Result<Option<Vec<f64>>> {
    if matrix.len() != n * n {
        let what = format!("{} values do not form a {n} x {n} matrix", matrix.len());
        return Err(Error::shape(what, ""));
    }
    let (mut panel, mut swept) = (Vec::new(), Vec::new());
    for first in (0..n).step_by(SWEPT) {
        let pivot = first..(first + SWEPT).min(n);
        let width = pivot.len();
        // C, the columns of the pivot block, of which the lower triangle holds a part by rows.
        panel.clear();
        for i in 0..n {
            let at = |j: usize| if j <= i { matrix[i * n + j] } else { matrix[j * n + i] };
            panel.extend(pivot.clone().map(at));
        }
        let Some(inverse) = inverted(&panel[first * width..pivot.end * width], width) else {
            return Ok(None);
        };
        swept.clear();
        swept.resize(n * width, 0.0);
        let inverse_view = MatRef::from_row_major_slice(&inverse, width, width);
        swept.par_chunks_mut(SWEPT * width).zip(panel.par_chunks(SWEPT * width)).for_each(
            |(out, rows)| {
                let count = rows.len() / width;
                let out = MatMut::from_row_major_slice_mut(out, count, width);
                let rows = MatRef::from_row_major_slice(rows, count, width);
                matmul(out, Accum::Replace, rows, inverse_view, 1.0, Par::Seq);
            },
        );
        matrix.par_chunks_mut(SWEPT * n).enumerate().for_each(|(block, rows)| {
            let (top, count) = (block * SWEPT, rows.len() / n);
            let columns = top + count; // up to the diagonal
            let out = MatMut::from_row_major_slice_mut(rows, count, n).subcols_mut(0, columns);
            let left =
                MatRef::from_row_major_slice(&swept[top * width..][..count * width], count, width);
            let right = MatRef::from_row_major_slice(&panel[..columns * width], columns, width);
            matmul(out, Accum::Add, left, right.transpose(), -1.0, Par::Seq);
            for (i, row) in (top..).zip(rows.chunks_exact_mut(n)) {
                if pivot.contains(&i) {
                    (0..first).for_each(|j| row[j] = swept[j * width + i - first]);
                    let own = &inverse[(i - first) * width..][..width];
                    row[pivot.clone()].iter_mut().zip(own).for_each(|(x, d)| *x = -d);
                } else if i >= pivot.end {
                    row[pivot.clone()].copy_from_slice(&swept[i * width..][..width]);
                }
            }
        });
    }
    for i in 0..n {
        for j in 0..=i {
            let x = -matrix[i * n + j];
            matrix[i * n + j] = x;
            matrix[j * n + i] = x;
        }
    }
    Ok(Some(matrix))
}

/// Rows of a block of the sweep.
const SWEPT: usize = 192;

/// The inverse of a small symmetric positive definite matrix, `None` if it is not positive definite.
fn inverted(matrix: &[f64], n: usize) -> Option<Vec<f64>> {
    let mut factor = matrix.to_vec();
    let scratch = llt::factor::cholesky_in_place_scratch::<f64>(n, Par::Seq, Default::default());
    let mut memory = MemBuffer::new(scratch);
    let view = MatMut::from_column_major_slice_mut(&mut factor, n, n);
    let (stack, none) = (MemStack::new(&mut memory), Default::default());
    llt::factor::cholesky_in_place(view, none, Par::Seq, stack, Default::default()).ok()?;
    let mut inverse = vec![0.0; n * n];
    let mut memory = MemBuffer::new(llt::inverse::inverse_scratch::<f64>(n, Par::Seq));
    let lower = MatRef::from_column_major_slice(&factor, n, n);
    let out = MatMut::from_column_major_slice_mut(&mut inverse, n, n);
    llt::inverse::inverse(out, lower, Par::Seq, MemStack::new(&mut memory));
    // Only the lower triangle has been written, by columns.
    for j in 0..n {
        for i in j + 1..n {
            inverse[i * n + j] = inverse[j * n + i];
        }
    }
    Some(inverse)
}

/// Computes the Gram matrix Y'Y in f64 of rows of `dim` values.
///
/// Products of a thousand rows at a time are in f32; their sums are in f64, in an order that depends on the number of rows
/// alone.
pub fn gram(rows: &[f32], dim: usize) -> Vec<f64> {
    let n = rows.len() / dim;
    let of_block = |rows: &[f32]| {
        let mut sum = GramSum::new(n, dim);
        sum.add(rows);
        sum.finish()
    };
    let blocks = rows.par_chunks((gram_block(n) * dim).max(1)).map(of_block);
    let mut total = vec![0.0; dim * dim];
    for block in blocks.collect::<Vec<_>>() {
        total.iter_mut().zip(block).for_each(|(t, b)| *t += b);
    }
    total
}

/// The sum of [`gram`] over rows that arrive in pieces, to the same bytes.
///
/// ```
/// use veridical_learn::{GramSum, gram};
///
/// let rows: Vec<f32> = (0..6000).map(|i| (i % 7) as f32).collect();
/// let mut sum = GramSum::new(3000, 2);
/// rows.chunks(2 * GramSum::STEP).for_each(|piece| sum.add(piece));
/// assert_eq!(sum.finish(), gram(&rows, 2));
/// ```
pub struct GramSum {
    dim: usize,
    /// The number of rows of a block, and how many of the current one are added.
    block: usize,
    added: usize,
    product: Vec<f32>,
    sum: Vec<f64>,
    total: Vec<f64>,
}

impl GramSum {
    /// The number of rows of which a piece holds a multiple, except the last piece.
    pub const STEP: usize = 1024;

    /// Starts the sum over `n` rows of `dim` values.
    pub fn new(n: usize, dim: usize) -> Self {
        let (product, zeros) = (vec![0.0; dim * dim], vec![0.0; dim * dim]);
        Self { dim, block: gram_block(n), added: 0, product, sum: zeros.clone(), total: zeros }
    }

    /// Adds the next rows.
    pub fn add(&mut self, rows: &[f32]) {
        let dim = self.dim;
        for step in rows.chunks(Self::STEP * dim) {
            let n = step.len() / dim;
            let rows = MatRef::from_row_major_slice(step, n, dim);
            let out = MatMut::from_row_major_slice_mut(&mut self.product, dim, dim);
            matmul(out, Accum::Replace, rows.transpose(), rows, 1.0, Par::Seq);
            self.sum.iter_mut().zip(&self.product).for_each(|(s, &p)| *s += f64::from(p));
            self.added += n;
            if self.added == self.block {
                self.end_block();
            }
        }
    }

    fn end_block(&mut self) {
        self.total.iter_mut().zip(&mut self.sum).for_each(|(t, s)| *t += std::mem::take(s));
        self.added = 0;
    }

    /// Returns the Gram matrix.
    pub fn finish(mut self) -> Vec<f64> {
        self.end_block();
        self.total
    }
}

/// The rows of which [`gram`] makes one sum, for `n` rows.
fn gram_block(n: usize) -> usize {
    n.div_ceil(64).next_multiple_of(GramSum::STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A = M'M + I has condition number below 1 + 9 * 9 * 1, so x is accurate to a few hundred eps.
    #[test]
    fn the_solution_solves() {
        for n in [1, 2, 5, 9] {
            let m: Vec<f32> = (0..n * n).map(|i| ((i * 37 + 11) % 19) as f32 / 9.5 - 1.0).collect();
            let mut a = gram(&m, n);
            (0..n).for_each(|i| a[i * n + i] += 1.0);
            let x: Vec<f64> = (0..n).map(|i| i as f64 - 2.5).collect();
            let b: Vec<f64> =
                a.chunks(n).map(|row| row.iter().zip(&x).map(|(a, x)| a * x).sum()).collect();
            let got = solve_spd(&mut a, &b);
            assert!(got.iter().zip(&x).all(|(g, x)| (g - x).abs() < 1e-12), "{got:?}");
        }
    }

    #[test]
    fn a_singular_matrix_gives_a_finite_answer() {
        assert!(solve_spd(&mut [1.0, 1.0, 1.0, 1.0], &[1.0, 1.0]).iter().all(|x| x.is_finite()));
        assert!(solve_spd(&mut [0.0], &[0.0]).iter().all(|x| x.is_finite()));
    }

    /// Condition number at most 1 + n^2 = 180,000: a relative error of 1e-9 is a hundred times the rounding that leaves.
    #[test]
    fn the_inverse_inverts_with_the_same_bytes_on_any_threads() {
        let n = 2 * SWEPT + 37;
        let m: Vec<f32> =
            (0..n * n).map(|i| ((i * 7919 + 11) % 1013) as f32 / 506.5 - 1.0).collect();
        let mut a = gram(&m, n);
        (0..n).for_each(|i| a[i * n + i] += 1.0);
        let run = |threads| {
            let a = a.clone();
            veridical_core::threads::with_threads(Some(threads), || {
                invert_spd(a, n).unwrap().unwrap()
            })
        };
        let inverse = run(1).unwrap();
        for threads in [2, 5] {
            assert!(run(threads).unwrap() == inverse, "{threads} threads");
        }
        for i in 0..n {
            for j in 0..n {
                let sum: f64 = (0..n).map(|k| a[i * n + k] * inverse[k * n + j]).sum();
                let want = f64::from(u8::from(i == j));
                assert!((sum - want).abs() < 1e-9 * n as f64, "{i} {j}: {sum}");
            }
        }
        assert!(invert_spd(vec![0.0, 1.0, 1.0, 0.0], 2).unwrap().is_none());
    }
}
