//! Inner products of rows, in blocks.
//!
//! products     c_ij = <a_i, b_j> by a single-threaded GEMM: callers split the rows of `a` into blocks of a
//!              fixed size and assign blocks to threads, so the bytes do not depend on the number of threads
//! cosine       <a, b> / (|a| |b|); a row of zeros has cosine 0 to everything

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;

use crate::{Best, Scored};

/// Writes <a_i, b_j> to row i, column j of `out`, for rows of `dim` values.
///
/// # Panics
/// If a slice does not hold whole rows, or `out` has the wrong size.
///
/// ```
/// let mut gram = [0.0; 4];
/// veridical_learn::products(&[1.0, 2.0, 3.0, 4.0], &[1.0, 0.0, 0.0, 1.0], 2, &mut gram);
/// assert_eq!(gram, [1.0, 2.0, 3.0, 4.0]);
/// ```
pub fn products(a: &[f32], b: &[f32], dim: usize, out: &mut [f32]) {
    assert!(dim > 0 && a.len().is_multiple_of(dim) && b.len().is_multiple_of(dim), "whole rows");
    let (n, m) = (a.len() / dim, b.len() / dim);
    assert_eq!(out.len(), n * m, "one value per pair");
    if out.is_empty() {
        return;
    }
    let a = MatRef::from_row_major_slice(a, n, dim);
    let b = MatRef::from_row_major_slice(b, m, dim);
    let out = MatMut::from_row_major_slice_mut(out, n, m);
    matmul(out, Accum::Replace, a, b.transpose(), 1.0, Par::Seq);
}

/// Computes the inner product <a, b>, summed in eight chains of a fixed order.
#[inline]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0f32; 8];
    let (a8, b8) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f32 = a8.remainder().iter().zip(b8.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a8.zip(b8) {
        for l in 0..8 {
            lanes[l] += x[l] * y[l];
        }
    }
    lanes.iter().sum::<f32>() + rest
}

/// Returns the rows divided by their norms; rows of zeros are unchanged.
pub fn unit_rows(rows: &[f32], dim: usize) -> Vec<f32> {
    let mut unit = rows.to_vec();
    to_unit_rows(&mut unit, dim);
    unit
}

/// Divides the rows by their norms in place; rows of zeros are unchanged.
pub fn to_unit_rows(rows: &mut [f32], dim: usize) {
    rows.par_chunks_mut(dim).for_each(to_unit);
}

/// Finds the `k` rows of `table` with the largest cosine to each row of `queries`.
///
/// `itself(q)` names the row of the table to exclude from the neighbors of query q. The table is read block by block and
/// not copied.
///
/// ```
/// let table = [1.0, 0.0, 0.0, 1.0, 3.0, 1.0];
/// let nearest = veridical_learn::cosine_neighbors(&table, &[2.0, 0.0], 2, 2, |_| None);
/// let numbers: Vec<u32> = nearest[0].iter().map(|scored| scored.number).collect();
/// assert_eq!(numbers, [0, 2]);
/// ```
pub fn cosine_neighbors(
    table: &[f32],
    queries: &[f32],
    dim: usize,
    k: usize,
    itself: impl Fn(usize) -> Option<u32> + Sync,
) -> Vec<Vec<Scored>> {
    let queries = unit_rows(queries, dim);
    let rows = (BLOCK_VALUES / dim).clamp(1, n_rows(table, dim).max(1));
    let answers = queries.par_chunks(QUERIES * dim).enumerate().map(|(b, queries)| {
        let n = queries.len() / dim;
        let mut best: Vec<Best> = (0..n).map(|_| Best::new(k)).collect();
        let mut scores = vec![0.0; n * rows];
        let mut unit = Vec::with_capacity(rows * dim);
        for (first, block) in (0..).step_by(rows).zip(table.chunks(rows * dim)) {
            unit.clear();
            unit.extend_from_slice(block);
            unit.chunks_exact_mut(dim).for_each(to_unit);
            let width = block.len() / dim;
            let scores = &mut scores[..n * width];
            products(queries, &unit, dim, scores);
            for (q, (best, row)) in best.iter_mut().zip(scores.chunks_exact(width)).enumerate() {
                let own = itself(b * QUERIES + q);
                for (number, &score) in (first..).zip(row) {
                    if Some(number) != own {
                        best.offer(number, score);
                    }
                }
            }
        }
        best.into_iter().map(Best::into_sorted).collect::<Vec<_>>()
    });
    answers.collect::<Vec<_>>().into_iter().flatten().collect()
}

/// Number of queries compared with a block of the table at once.
const QUERIES: usize = 128;
/// Values per block: it stays in the L2 cache while the queries pass over it.
const BLOCK_VALUES: usize = 1 << 16;

fn n_rows(table: &[f32], dim: usize) -> usize {
    table.len() / dim
}

fn to_unit(row: &mut [f32]) {
    let norm = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
    if norm > 0.0 {
        row.iter_mut().for_each(|x| *x = (f64::from(*x) / norm) as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(n: usize, dim: usize) -> Vec<f32> {
        (0..n * dim).map(|i| ((i * 7919 + 13) % 101) as f32 / 50.0 - 1.0).collect()
    }

    /// Each sum of d products of values up to 1 differs by at most d^2 2^-24 from the exact sum.
    #[test]
    fn products_are_those_of_the_rows() {
        for (n, m, dim) in [(1, 1, 1), (3, 17, 5), (9, 33, 100), (64, 7, 64)] {
            let (a, b) = (rows(n, dim), rows(m, dim));
            let mut out = vec![0.0; n * m];
            products(&a, &b, dim, &mut out);
            for (i, x) in a.chunks(dim).enumerate() {
                for (j, y) in b.chunks(dim).enumerate() {
                    let exact: f64 =
                        x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
                    let tolerance = (dim * dim) as f64 / (1 << 24) as f64;
                    assert!((f64::from(out[i * m + j]) - exact).abs() <= tolerance);
                    assert!((f64::from(dot(x, y)) - exact).abs() <= tolerance);
                }
            }
        }
    }

    /// Equal vectors must have equal scores, at any position in the table.
    #[test]
    fn equal_rows_have_equal_products() {
        for dim in [1, 3, 8, 33, 64, 100, 300, 1000] {
            for m in [1, 2, 7, 8, 9, 31, 64, 65, 127, 1001] {
                for n in [1, 2, 5, 16, 67] {
                    let a: Vec<f32> = rows(1, dim).repeat(n);
                    let b: Vec<f32> = rows(2, dim)[dim..].repeat(m);
                    let mut out = vec![0.0; n * m];
                    products(&a, &b, dim, &mut out);
                    assert!(out.iter().all(|x| *x == out[0]), "dim {dim}, {n} x {m}");
                }
            }
        }
    }

    #[test]
    fn neighbors_are_by_cosine_and_leave_the_row_out() {
        let table = [1.0, 0.0, 10.0, 1.0, 0.0, 5.0, 0.0, 0.0];
        let near = cosine_neighbors(&table, &table, 2, 2, |q| Some(q as u32));
        let numbers = |q: usize| near[q].iter().map(|s| s.number).collect::<Vec<_>>();
        assert_eq!(numbers(0), [1, 2]);
        assert_eq!(numbers(2), [1, 0]);
        assert_eq!(numbers(3), [0, 1]);
    }
}
