//! Inner products and kernels of all pairs, by tiles of a fixed size and order.
//!
//! A Gram matrix is computed in tiles of [`TILE`] x [`TILE`] pairs, by threads that take [`STRIP`] rows of a tile at a time: products in
//! the precision of the factors, their sum over layers in f64 and in a fixed order ([`Pairs::tile`]), rounded to f32 at the end. Of a
//! symmetric matrix only tiles on and above the diagonal are computed, and mirrored. The value of a pair does not depend on the pairs
//! that are computed with it, so the bytes do not depend on the number of threads, on how much of the factors is in memory, or
//! on the order of the samples.

mod gaussian;
mod spectrum;
mod tiles;
mod vectors;

use std::ops::Range;
use std::time::Instant;

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;
use veridical_core::Job;
use veridical_nets::Float;

use crate::Result;
pub use spectrum::{alignment, eigenvalues, rounding};
pub(crate) use tiles::{Kept, Sums, parts, rows_into};
pub use tiles::{Tile, Tiles, gram_into};
pub use vectors::{VectorKernel, VectorPairs};

/// Rows and columns of a tile.
pub const TILE: usize = 256;
/// Rows of a tile that one thread computes at once.
pub const STRIP: usize = 64;

/// Two lists of samples whose pairs have a value.
pub trait Pairs: Sync {
    /// Returns the numbers of rows and of columns.
    fn size(&self) -> (usize, usize);

    /// Returns whether rows and columns are the same samples, so that tiles below the diagonal are mirrored.
    fn is_symmetric(&self) -> bool;

    /// Writes the values of some rows of a tile, rows x columns, on this thread; they are 0 before.
    fn tile(&self, rows: Range<usize>, columns: Range<usize>, values: &mut [f64]);

    /// Returns K X for the matrix K of all pairs and a row-major X of `columns` values per column of K: every tile is computed and
    /// forgotten, so n = 100,000 rows take the memory of what their tiles come from, not 40 GB.
    ///
    /// # Panics
    /// If X does not have one row per column of K.
    fn multiply(&self, x: &[f64], columns: usize) -> Vec<f64> {
        let (n, m) = self.size();
        assert_eq!(x.len(), m * columns, "one row of X per column of K");
        let mut out = vec![0.0; n * columns];
        if columns == 0 {
            return out;
        }
        out.par_chunks_mut(TILE * columns).enumerate().for_each_init(
            Vec::new,
            |tile, (at, out)| {
                let rows = at * TILE..at * TILE + out.len() / columns;
                let mut out = MatMut::from_row_major_slice_mut(out, rows.len(), columns);
                for first in (0..m).step_by(TILE) {
                    let part = first..(first + TILE).min(m);
                    tile.clear();
                    tile.resize(rows.len() * part.len(), 0.0);
                    self.tile(rows.clone(), part.clone(), tile);
                    let k = MatRef::from_row_major_slice(tile, rows.len(), part.len());
                    let x = &x[part.start * columns..part.end * columns];
                    let x = MatRef::from_row_major_slice(x, part.len(), columns);
                    matmul(out.as_mut(), Accum::Add, k, x, 1.0, Par::Seq);
                }
            },
        );
        out
    }

    /// Returns some columns of K: a row of `chosen.len()` values for each row of K.
    fn columns(&self, chosen: &[u32]) -> Vec<f32> {
        let (n, m) = (self.size().0, chosen.len());
        let mut out = vec![0.0; n * m];
        out.par_chunks_mut(TILE * m.max(1)).enumerate().for_each_init(
            Vec::new,
            |one, (at, out)| {
                let rows = at * TILE..at * TILE + out.len() / m;
                for (k, &j) in chosen.iter().enumerate() {
                    one.clear();
                    one.resize(rows.len(), 0.0);
                    self.tile(rows.clone(), j as usize..j as usize + 1, one);
                    let to = out.iter_mut().skip(k).step_by(m);
                    to.zip(&*one).for_each(|(to, &value)| *to = value as f32);
                }
            },
        );
        out
    }
}

/// A matrix of kernel values.
#[derive(Clone, Debug, PartialEq)]
pub struct Gram {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// Values, row by row.
    pub values: Vec<f32>,
}

impl Gram {
    /// Returns row `i`.
    pub fn row(&self, i: usize) -> &[f32] {
        &self.values[i * self.columns..][..self.columns]
    }
}

/// Computes the matrix of all pairs.
///
/// # Errors
/// If the user stops the job.
pub fn gram(pairs: &impl Pairs, job: &Job<'_>) -> Result<Gram> {
    let (rows, columns) = pairs.size();
    Ok(Gram { rows, columns, values: assemble(pairs, job, |value| value as f32)? })
}

/// Computes the matrix of all pairs without rounding to f32.
///
/// # Errors
/// The same as [`gram`].
pub fn gram_f64(pairs: &impl Pairs, job: &Job<'_>) -> Result<Vec<f64>> {
    assemble(pairs, job, |value| value)
}

fn assemble<V: Copy + Default + Send + Sync>(
    pairs: &impl Pairs,
    job: &Job<'_>,
    cast: impl Fn(f64) -> V + Sync,
) -> Result<Vec<V>> {
    let (n, m) = pairs.size();
    let mut values = vec![V::default(); n * m];
    if values.is_empty() {
        return Ok(values);
    }
    let is_symmetric = pairs.is_symmetric();
    let progress = job.progress("kernel", "rows", Some(n as u64));
    values.par_chunks_mut(STRIP * m).enumerate().try_for_each(|(i, strip)| -> Result<()> {
        let rows = i * STRIP..i * STRIP + strip.len() / m;
        let mut tile = Vec::new();
        let first = if is_symmetric { rows.start / TILE } else { 0 };
        for j in first..m.div_ceil(TILE) {
            let columns = j * TILE..(j * TILE + TILE).min(m);
            tile.clear();
            tile.resize(rows.len() * columns.len(), 0.0);
            pairs.tile(rows.clone(), columns.clone(), &mut tile);
            for (row, tile) in strip.chunks_exact_mut(m).zip(tile.chunks_exact(columns.len())) {
                row[columns.clone()].iter_mut().zip(tile).for_each(|(v, &t)| *v = cast(t));
            }
            progress.check()?;
        }
        progress.advance(rows.len() as u64);
        Ok(())
    })?;
    if is_symmetric {
        mirror(&mut values, n);
    }
    Ok(values)
}

/// Copies the values above the diagonal to below it, block by block.
fn mirror<V: Copy>(values: &mut [V], n: usize) {
    for first in (0..n).step_by(STRIP) {
        for start in (0..=first).step_by(STRIP) {
            for i in first..(first + STRIP).min(n) {
                for j in start..(start + STRIP).min(i) {
                    values[i * n + j] = values[j * n + i];
                }
            }
        }
    }
}

/// Measures how many floating-point operations of products of f32 all threads do in a second: for estimates of time.
pub fn operations_per_second() -> f64 {
    const INNER: usize = 1 << 10;
    const TASKS: usize = 32;
    let rows = vec![1.0f32; TILE * INNER];
    let begun = Instant::now();
    (0..TASKS).into_par_iter().for_each(|_| {
        let mut out = vec![0.0; TILE * TILE];
        products(&rows, &rows, INNER, &mut out);
        std::hint::black_box(out);
    });
    (2 * TASKS * TILE * TILE * INNER) as f64 / begun.elapsed().as_secs_f64()
}

/// Fewest rows of either side of a product.
const LEAST: usize = 8;

/// Writes the inner products of all rows of a with all rows of b, on this thread.
///
/// Products of fewer rows than [`LEAST`] are summed in another order, and the value of a pair would depend on the number of rows: they
/// are filled up with zeros.
pub(crate) fn products<T: Float>(a: &[T], b: &[T], dim: usize, out: &mut [T]) {
    let (n, m) = (a.len() / dim, b.len() / dim);
    if n.min(m) < LEAST {
        let filled = |rows: &[T], n: usize| {
            let zeros = n.max(LEAST) * dim - rows.len();
            [rows, &vec![T::ZERO; zeros]].concat()
        };
        let (a, b, width) = (filled(a, n), filled(b, m), m.max(LEAST));
        let mut all = vec![T::ZERO; n.max(LEAST) * width];
        products(&a, &b, dim, &mut all);
        let rows = out.chunks_exact_mut(m).zip(all.chunks_exact(width));
        return rows.for_each(|(out, all)| out.copy_from_slice(&all[..m]));
    }
    let a = MatRef::from_row_major_slice(a, n, dim);
    let b = MatRef::from_row_major_slice(b, m, dim);
    let out = MatMut::from_row_major_slice_mut(out, n, m);
    matmul(out, Accum::Replace, a, b.transpose(), T::ONE, Par::Seq);
}

/// Writes c = a b, or adds it, on this thread; all row-major.
pub(crate) fn product<T: Float>(c: &mut [T], adds: bool, a: &[T], b: &[T], [m, k, n]: [usize; 3]) {
    let accum = if adds { Accum::Add } else { Accum::Replace };
    let a = MatRef::from_row_major_slice(&a[..m * k], m, k);
    let b = MatRef::from_row_major_slice(&b[..k * n], k, n);
    let c = MatMut::from_row_major_slice_mut(&mut c[..m * n], m, n);
    matmul(c, accum, a, b, T::ONE, Par::Seq);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of a pair is the same alone and among others.
    #[test]
    fn values_do_not_depend_on_the_other_rows() {
        fn check<T: Float>(dim: usize) {
            const SIZES: [usize; 12] = [1, 2, 3, 5, 7, 8, 9, 17, 64, 100, 256, 515];
            let most = SIZES[SIZES.len() - 1];
            let numbers = |count: usize| {
                let number = |i: usize| T::of((i * 7919 % 1009) as f64 / 257.0 - 2.0);
                (0..count).map(number).collect::<Vec<T>>()
            };
            let (a, b) = (numbers(most * dim), numbers((most + 1) * dim).split_off(dim));
            let mut all = vec![T::ZERO; most * most];
            products(&a, &b, dim, &mut all);
            for n in SIZES {
                for m in SIZES {
                    let mut some = vec![T::ZERO; n * m];
                    products(&a[..n * dim], &b[..m * dim], dim, &mut some);
                    let same = (0..n * m).all(|p| some[p] == all[p / m * most + p % m]);
                    assert!(same, "{n} x {m}, {dim} values");
                }
            }
        }
        for dim in [1, 5, 64, 300, 2000] {
            check::<f32>(dim);
        }
        check::<f64>(300);
    }

    pub(super) struct Numbers(pub usize, pub bool);

    impl Pairs for Numbers {
        fn size(&self) -> (usize, usize) {
            (self.0, self.0)
        }

        fn is_symmetric(&self) -> bool {
            self.1
        }

        fn tile(&self, rows: Range<usize>, columns: Range<usize>, values: &mut [f64]) {
            let pairs = rows.flat_map(|i| columns.clone().map(move |j| (i, j)));
            values.iter_mut().zip(pairs).for_each(|(v, (i, j))| *v = (i * j + i + j) as f64);
        }
    }

    #[test]
    fn tiles_are_in_their_places_and_mirrored() {
        for is_symmetric in [true, false] {
            let pairs = Numbers(600, is_symmetric);
            let all = gram_f64(&pairs, &Job::silent()).unwrap();
            assert!((0..600 * 600).all(|p| {
                let (i, j) = (p / 600, p % 600);
                all[p] == (i * j + i + j) as f64
            }));
        }
    }
}
