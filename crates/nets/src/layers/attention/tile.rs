//! Small products in registers: tiles of R rows and C columns, as [`ByTiles`](crate::float::ByTiles) gives them.
//!
//! The right factor is packed in strips of C columns, so that the rows of a strip are read one after the other. Every sum runs in
//! order with fused operations: an entry has the same bytes in any company, and for any R and C.

use crate::Float;
use crate::transpose::{SIDE, block};

/// Some sums of a product.
pub(super) type Tile<T, const R: usize, const C: usize> = [[T; C]; R];

/// Rows inside of a larger row-major matrix.
#[derive(Clone, Copy)]
pub(super) struct View<'a, T> {
    pub values: &'a [T],
    /// Between rows.
    pub stride: usize,
    /// The first column.
    pub first: usize,
    pub rows: usize,
    pub columns: usize,
}

impl<'a, T: Float> View<'a, T> {
    #[inline(always)]
    pub fn row(self, i: usize) -> &'a [T] {
        &self.values[i * self.stride + self.first..][..self.columns]
    }

    /// The rows of a tile from `i` on; the last one stands for those that are not there.
    #[inline(always)]
    pub fn tile<const R: usize>(self, i: usize) -> [&'a [T]; R] {
        let last = self.rows - 1;
        std::array::from_fn(
            #[inline(always)]
            |r| self.row((i + r).min(last)),
        )
    }

    /// Numbers of the strips of its rows.
    pub fn packed<const C: usize>(self) -> usize {
        self.rows * self.columns.next_multiple_of(C)
    }

    /// Numbers of the strips of its transpose.
    pub fn packed_transposed<const C: usize>(self) -> usize {
        self.columns * self.rows.next_multiple_of(C)
    }

    /// Strips of its columns, padded with zeros.
    #[inline(always)]
    pub fn pack<const C: usize>(self, room: &mut [T]) {
        for (s, strip) in room.chunks_exact_mut(self.rows * C).enumerate() {
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

    /// Strips of the columns of its transpose, padded with zeros.
    #[inline(always)]
    pub fn pack_transposed<const C: usize>(self, room: &mut [T]) {
        for (s, strip) in room.chunks_exact_mut(self.columns * C).enumerate() {
            let first = s * C;
            let strip = strip.as_chunks_mut::<C>().0;
            // Blocks in registers, the rest one by one.
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

/// A tile to `at` of a matrix whose rows are `stride` long.
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

/// The same, added to what is there.
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

/// sum_t a_r[t] b[t] over the rows b of a strip, for the rows a of a tile.
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

/// sum_t a[t][r] b[t] over the rows b of a strip, for the columns of a of a tile from `first` on; rows of a are `stride` apart.
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

/// One term of every sum.
#[inline(always)]
fn step<T: Float, const R: usize, const C: usize>(a: [T; R], b: &[T; C], sums: &mut Tile<T, R, C>) {
    for r in 0..R {
        for l in 0..C {
            sums[r][l] = a[r].fused(b[l], sums[r][l]);
        }
    }
}
