//! Small products in registers: tiles of R rows and C columns, as chosen by [`ByTiles`](crate::float::ByTiles).
//!
//! The right factor is packed in strips of C columns, so that the rows of a strip are contiguous. Every sum runs in order with
//! fused operations: an entry has the same bytes regardless of its neighbors, and for any R and C.

use crate::Float;
use crate::transpose::{SIDE, block};

/// Sums of one tile of a product.
pub(super) type Tile<T, const R: usize, const C: usize> = [[T; C]; R];

/// Rows of a larger row-major matrix.
#[derive(Clone, Copy)]
pub(super) struct View<'a, T> {
    pub values: &'a [T],
    /// Distance between rows.
    pub stride: usize,
    /// First column of the view.
    pub first: usize,
    pub rows: usize,
    pub columns: usize,
}

impl<'a, T: Float> View<'a, T> {
    #[inline(always)]
    pub fn row(self, i: usize) -> &'a [T] {
        &self.values[i * self.stride + self.first..][..self.columns]
    }

    /// The rows of a tile from `i` on; rows past the end repeat the last one.
    #[inline(always)]
    pub fn tile<const R: usize>(self, i: usize) -> [&'a [T]; R] {
        let last = self.rows - 1;
        std::array::from_fn(
            #[inline(always)]
            |r| self.row((i + r).min(last)),
        )
    }

    /// Number of values in the strips of its rows.
    pub fn packed<const C: usize>(self) -> usize {
        self.rows * self.columns.next_multiple_of(C)
    }

    /// Number of values in the strips of its transpose.
    pub fn packed_transposed<const C: usize>(self) -> usize {
        self.columns * self.rows.next_multiple_of(C)
    }

    /// Packs its columns into strips, padded with zeros.
    #[inline(always)]
    pub fn pack<const C: usize>(self, scratch: &mut [T]) {
        for (s, strip) in scratch.chunks_exact_mut(self.rows * C).enumerate() {
            let first = s * C;
            let len = C.min(self.columns - first);
            for (i, to) in strip.as_chunks_mut::<C>().0.iter_mut().enumerate() {
                let row = &self.row(i)[first..];
                match row.first_chunk::<C>() {
                    Some(row) => *to = *row,
                    None => {
                        *to = [T::ZERO; C];
                        to[..len].copy_from_slice(row);
                    }
                }
            }
        }
    }

    /// Packs the columns of its transpose into strips, padded with zeros.
    #[inline(always)]
    pub fn pack_transposed<const C: usize>(self, scratch: &mut [T]) {
        for (s, strip) in scratch.chunks_exact_mut(self.columns * C).enumerate() {
            let first = s * C;
            let strip = strip.as_chunks_mut::<C>().0;
            // Blocks in registers, the remainder one by one.
            for l in (0..C).step_by(SIDE) {
                let whole =
                    if first + l + SIDE <= self.rows { self.columns / SIDE * SIDE } else { 0 };
                for k in (0..whole).step_by(SIDE) {
                    let mut square = [[T::ZERO; SIDE]; SIDE];
                    for (i, row) in square.iter_mut().enumerate() {
                        row.copy_from_slice(&self.row(first + l + i)[k..k + SIDE]);
                    }
                    for (row, to) in block(square).iter().zip(&mut strip[k..k + SIDE]) {
                        to[l..l + SIDE].copy_from_slice(row);
                    }
                }
                for l in l..l + SIDE {
                    if first + l < self.rows {
                        let row = self.row(first + l);
                        for k in whole..self.columns {
                            strip[k][l] = row[k];
                        }
                    } else {
                        for to in strip.iter_mut() {
                            to[l] = T::ZERO;
                        }
                    }
                }
            }
        }
    }
}

/// Stores a tile at `at` of a matrix with rows of length `stride`.
#[inline(always)]
pub(super) fn store<T: Float, const R: usize, const C: usize>(
    tile: Tile<T, R, C>,
    to: &mut [T],
    at: usize,
    stride: usize,
) {
    for (r, row) in tile.iter().enumerate() {
        to[at + r * stride..][..C].copy_from_slice(row);
    }
}

/// Adds a tile to the values at `at` of a matrix with rows of length `stride`.
#[inline(always)]
pub(super) fn add<T: Float, const R: usize, const C: usize>(
    tile: Tile<T, R, C>,
    to: &mut [T],
    at: usize,
    stride: usize,
) {
    for (r, row) in tile.iter().enumerate() {
        let to = &mut to[at + r * stride..][..C];
        for l in 0..C {
            to[l] += row[l];
        }
    }
}

/// Computes sum_t a_r[t] b[t] over the rows b of a strip, for the rows a of a tile.
#[inline(always)]
pub(super) fn rows_by_strip<T: Float, const R: usize, const C: usize>(
    a: [&[T]; R],
    strip: &[T],
) -> Tile<T, R, C> {
    let strip = strip.as_chunks::<C>().0;
    let a = a.map(
        #[inline(always)]
        |a| &a[..strip.len()],
    );
    let mut sums = [[T::ZERO; C]; R];
    for (t, b) in strip.iter().enumerate() {
        let mut at = [T::ZERO; R];
        for r in 0..R {
            at[r] = a[r][t];
        }
        step(at, b, &mut sums);
    }
    sums
}

/// Computes sum_t a[t][r] b[t] over the rows b of a strip, for the columns of a tile of a from `first` on, rows `stride` apart.
#[inline(always)]
pub(super) fn columns_by_strip<T: Float, const R: usize, const C: usize>(
    a: &[T],
    stride: usize,
    first: usize,
    strip: &[T],
) -> Tile<T, R, C> {
    let mut sums = [[T::ZERO; C]; R];
    for (a, b) in a.chunks_exact(stride).zip(strip.as_chunks::<C>().0) {
        let mut at = [T::ZERO; R];
        at.copy_from_slice(&a[first..first + R]);
        step(at, b, &mut sums);
    }
    sums
}

/// Adds one term to every sum.
#[inline(always)]
fn step<T: Float, const R: usize, const C: usize>(a: [T; R], b: &[T; C], sums: &mut Tile<T, R, C>) {
    for r in 0..R {
        for l in 0..C {
            sums[r][l] = a[r].fused(b[l], sums[r][l]);
        }
    }
}
