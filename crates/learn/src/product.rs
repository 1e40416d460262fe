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
/// `itself(q)` names the row of the table to exclude from the neighbors of query q.
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
    itself: impl Fn(usize) -> Option<u32>,
) -> Vec<Vec<Scored>> {
    let mut search = NeighborSearch::new(queries, dim, k, itself);
    for (first, window) in (0..).step_by(WINDOW_ROWS).zip(table.chunks(WINDOW_ROWS * dim)) {
        search.add(first, window);
    }
    search.finish()
}

/// The search of [`cosine_neighbors`] over a table that arrives window by window. How it is cut may change the last bit of a score,
/// nothing else.
///
/// ```
/// let mut search = veridical_learn::NeighborSearch::new(&[2.0, 0.0], 2, 2, |_| None);
/// search.add(0, &[1.0, 0.0, 0.0, 1.0]);
/// search.add(2, &[3.0, 1.0]);
/// let numbers: Vec<u32> = search.finish()[0].iter().map(|scored| scored.number).collect();
/// assert_eq!(numbers, [0, 2]);
/// ```
pub struct NeighborSearch {
    dim: usize,
    /// Unit rows.
    queries: Vec<f32>,
    /// The row to exclude, for every query.
    own: Vec<Option<u32>>,
    best: Vec<Best>,
}

impl NeighborSearch {
    /// Starts a search for the `k` nearest rows of each row of `queries`; `itself(q)` is excluded for query q.
    pub fn new(
        queries: &[f32],
        dim: usize,
        k: usize,
        itself: impl Fn(usize) -> Option<u32>,
    ) -> Self {
        let n = queries.len() / dim;
        Self {
            dim,
            queries: unit_rows(queries, dim),
            own: (0..n).map(itself).collect(),
            best: (0..n).map(|_| Best::new(k)).collect(),
        }
    }

    /// Adds the rows of the table from number `first` on.
    pub fn add(&mut self, first: u32, table: &[f32]) {
        let Self { dim, queries, own, best } = self;
        let dim = *dim;
        let unit = unit_rows(table, dim); // once, for all queries
        let rows = (BLOCK_VALUES / dim).max(1);
        let queries = queries.par_chunks(QUERIES * dim);
        let parts = queries.zip(best.par_chunks_mut(QUERIES)).zip(own.par_chunks(QUERIES));
        parts.for_each(|((queries, best), own)| {
            let mut scores = vec![0.0; best.len() * rows.min(unit.len() / dim)];
            for (first, block) in (first..).step_by(rows).zip(unit.chunks(rows * dim)) {
                let width = block.len() / dim;
                let scores = &mut scores[..best.len() * width];
                products(queries, block, dim, scores);
                for ((best, own), row) in best.iter_mut().zip(own).zip(scores.chunks_exact(width)) {
                    offer(best, *own, first, row);
                }
            }
        });
    }

    /// Returns the neighbors found so far of query `q`, in no order.
    pub fn found(&self, q: usize) -> impl Iterator<Item = Scored> + '_ {
        self.best[q].kept()
    }

    /// Returns the neighbors of every query, nearest first.
    pub fn finish(self) -> Vec<Vec<Scored>> {
        self.best.into_iter().map(Best::into_sorted).collect()
    }
}

/// Offers the scores of consecutive rows, except that of `own`. Groups without a score that could enter are passed over by
/// their largest.
fn offer(best: &mut Best, own: Option<u32>, first: u32, scores: &[f32]) {
    const GROUP: usize = 32;
    for (first, group) in (first..).step_by(GROUP).zip(scores.chunks(GROUP)) {
        if best.is_above(group) {
            continue;
        }
        for (number, &score) in (first..).zip(group) {
            if Some(number) != own {
                best.offer(number, score);
            }
        }
    }
}

/// Rows of a table in memory that are normalized at once.
const WINDOW_ROWS: usize = 1 << 14;
/// Number of queries compared with a block of the table at once.
const QUERIES: usize = 128;
/// Values per block: it stays in the L2 cache while the queries pass over it.
const BLOCK_VALUES: usize = 1 << 16;

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

    /// Every value is a quotient of small integers: ties and repeated rows occur in every window.
    #[test]
    fn windows_do_not_change_the_neighbors() {
        let (n, dim, k) = (500, 3, 7);
        let table = rows(n, dim);
        let whole = cosine_neighbors(&table, &table, dim, k, |q| Some(q as u32));
        for window in [1, 33, 64, 499] {
            let mut search = NeighborSearch::new(&table, dim, k, |q| Some(q as u32));
            for (first, rows) in (0..).step_by(window).zip(table.chunks(window * dim)) {
                search.add(first, rows);
            }
            for (got, want) in search.finish().iter().zip(&whole) {
                assert_eq!(got.len(), k);
                let near = got.iter().zip(want).all(|(x, y)| (x.score - y.score).abs() < 1e-6);
                assert!(near, "windows of {window}");
            }
        }
        let norm = |x: &[f32]| x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        for (q, found) in whole.iter().enumerate() {
            let x = &table[q * dim..][..dim];
            let cosine = |y: &[f32]| f64::from(dot(x, y)) / (norm(x) * norm(y));
            let others = table.chunks(dim).enumerate().filter(|&(i, _)| i != q);
            let mut cosines: Vec<f64> = others.map(|(_, y)| cosine(y)).collect();
            cosines.sort_by(|a, b| b.total_cmp(a));
            for (found, want) in found.iter().zip(cosines) {
                assert!((f64::from(found.score) - want).abs() < 1e-5);
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
