//! Small symmetric positive definite systems, in f64.
//!
//! A = L L', then L z = b and L' x = z (Golub & Van Loan, 4.2). A pivot that rounding left at or below
//! n eps max(a_ii) is raised to it, so a singular matrix yields a finite solution instead of none.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;
use veridical_core::{Error, Result};

/// Number of parts faer splits its work into, independent of the number of threads.
const PARTS: usize = 8;

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

/// Inverts a symmetric positive definite matrix (n x n, f64); `None` if it is not positive definite.
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
    let par = Par::rayon(PARTS);
    let scratch = llt::factor::cholesky_in_place_scratch::<f64>(n, par, Default::default());
    let mut memory = MemBuffer::new(scratch);
    let stack = MemStack::new(&mut memory);
    let view = MatMut::from_column_major_slice_mut(&mut matrix, n, n);
    if llt::factor::cholesky_in_place(view, Default::default(), par, stack, Default::default())
        .is_err()
    {
        return Ok(None);
    }
    let mut inverse = vec![0.0; n * n];
    let mut memory = MemBuffer::new(llt::inverse::inverse_scratch::<f64>(n, par));
    let stack = MemStack::new(&mut memory);
    let lower = MatRef::from_column_major_slice(&matrix, n, n);
    llt::inverse::inverse(
        MatMut::from_column_major_slice_mut(&mut inverse, n, n),
        lower,
        par,
        stack,
    );
    // Only the lower triangle has been written, by columns.
    for j in 0..n {
        for i in j + 1..n {
            inverse[i * n + j] = inverse[j * n + i];
        }
    }
    Ok(Some(inverse))
}

/// Computes the Gram matrix Y'Y in f64 of rows of `dim` values.
///
/// Products of a thousand rows at a time are in f32; their sums are in f64, in an order that depends on the number of rows
/// alone.
pub fn gram(rows: &[f32], dim: usize) -> Vec<f64> {
    const STEP: usize = 1024;
    let n = rows.len() / dim;
    let block = n.div_ceil(64).next_multiple_of(STEP);
    let partial = |block: &[f32]| {
        let mut product = vec![0.0f32; dim * dim];
        let mut sum = vec![0.0f64; dim * dim];
        for step in block.chunks(STEP * dim) {
            let rows = MatRef::from_row_major_slice(step, step.len() / dim, dim);
            let out = MatMut::from_row_major_slice_mut(&mut product, dim, dim);
            matmul(out, Accum::Replace, rows.transpose(), rows, 1.0, Par::Seq);
            sum.iter_mut().zip(&product).for_each(|(s, &p)| *s += f64::from(p));
        }
        sum
    };
    let blocks: Vec<Vec<f64>> = rows.par_chunks((block * dim).max(1)).map(partial).collect();
    let mut total = vec![0.0; dim * dim];
    for block in blocks {
        total.iter_mut().zip(block).for_each(|(t, b)| *t += b);
    }
    total
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

    /// Condition number at most 1 + n^2 = 90,001: a relative error of 1e-9 is a hundred times the rounding that leaves.
    #[test]
    fn the_inverse_inverts_with_the_same_bytes_on_any_threads() {
        let n = 300;
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
