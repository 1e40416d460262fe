//! Small products in registers: tiles of four rows and sixteen columns.
//!
//! The right factor is packed in strips of sixteen columns, so that the rows of a strip are read one after the other. Every sum
//! runs in order with fused operations: an entry has the same bytes in any company. All functions are to be called inside
//! [`crate::float::wide`].

use crate::Float;

/// Rows of a tile.
pub(super) const ROWS: usize = 4;
/// Columns of a tile, and of a strip.
pub(super) const COLUMNS: usize = 16;

/// Some sums of a product.
pub(super) type Tile<T> = [[T; COLUMNS]; ROWS];

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

    /// Four rows from `i` on; the last one stands for those that are not there.
    #[inline(always)]
    pub fn tile(self, i: usize) -> [&'a [T]; ROWS] {
        let last = self.rows - 1;
        [
            self.row(i),
            self.row((i + 1).min(last)),
            self.row((i + 2).min(last)),
            self.row((i + 3).min(last)),
        ]
    }

    /// Numbers of the strips of its rows.
    pub fn packed(self) -> usize {
        self.rows * self.columns.next_multiple_of(COLUMNS)
    }

    /// Numbers of the strips of its transpose.
    pub fn packed_transposed(self) -> usize {
        self.columns * self.rows.next_multiple_of(COLUMNS)
    }

    /// Strips of its columns, padded with zeros.
    #[inline(always)]
    pub fn pack(self, room: &mut [T]) {
        for (s, strip) in room.chunks_exact_mut(self.rows * COLUMNS).enumerate() {
            let first = s * COLUMNS;
            let len = COLUMNS.min(self.columns - first);
            for (i, to) in strip.as_chunks_mut::<COLUMNS>().0.iter_mut().enumerate() {
                let row = &self.row(i)[first..];
                match row.first_chunk::<COLUMNS>() {
                    Some(row) => *to = *row,
                    None => {
                        *to = [T::ZERO; COLUMNS];
                        to[..len].copy_from_slice(row);
                    }
                }
            }
        }
    }

    /// Strips of the columns of its transpose, padded with zeros.
    #[inline(always)]
    pub fn pack_transposed(self, room: &mut [T]) {
        for (s, strip) in room.chunks_exact_mut(self.columns * COLUMNS).enumerate() {
            let first = s * COLUMNS;
            let strip = strip.as_chunks_mut::<COLUMNS>().0;
            // Blocks of 8 x 8 in registers, the rest one by one.
            for l in (0..COLUMNS).step_by(8) {
                let whole = if first + l + 8 <= self.rows { self.columns / 8 * 8 } else { 0 };
                for k in (0..whole).step_by(8) {
                    let mut block = [[T::ZERO; 8]; 8];
                    for (i, row) in block.iter_mut().enumerate() {
                        if let Some(eight) = self.row(first + l + i)[k..].first_chunk::<8>() {
                            *row = *eight;
                        }
                    }
                    for (row, to) in transposed(block).iter().zip(&mut strip[k..k + 8]) {
                        to[l..l + 8].copy_from_slice(row);
                    }
                }
                for l in l..l + 8 {
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

/// Rows become columns, by three rounds of interleaving.
#[inline(always)]
fn transposed<T: Float>(rows: [[T; 8]; 8]) -> [[T; 8]; 8] {
    let mut from = rows;
    for _ in 0..3 {
        let mut to = [[T::ZERO; 8]; 8];
        for i in 0..4 {
            for k in 0..4 {
                to[2 * i][2 * k] = from[i][k];
                to[2 * i][2 * k + 1] = from[i + 4][k];
                to[2 * i + 1][2 * k] = from[i][k + 4];
                to[2 * i + 1][2 * k + 1] = from[i + 4][k + 4];
            }
        }
        from = to;
    }
    from
}

/// A tile to `at` of a matrix whose rows are `stride` long.
#[inline(always)]
pub(super) fn store<T: Float>(tile: Tile<T>, to: &mut [T], at: usize, stride: usize) {
    for (r, row) in tile.iter().enumerate() {
        to[at + r * stride..][..COLUMNS].copy_from_slice(row);
    }
}

/// The same, added to what is there.
#[inline(always)]
pub(super) fn add<T: Float>(tile: Tile<T>, to: &mut [T], at: usize, stride: usize) {
    for (r, row) in tile.iter().enumerate() {
        let to = &mut to[at + r * stride..][..COLUMNS];
        for l in 0..COLUMNS {
            to[l] += row[l];
        }
    }
}

/// sum_t a_r[t] b[t] over the rows b of a strip, for four rows a.
#[inline(always)]
pub(super) fn rows_by_strip<T: Float>(a: [&[T]; ROWS], strip: &[T]) -> Tile<T> {
    let [a0, a1, a2, a3] = a;
    let zero = [T::ZERO; COLUMNS];
    let [mut s0, mut s1, mut s2, mut s3] = [zero; ROWS];
    let rows = strip.as_chunks::<COLUMNS>().0.iter();
    for ((((b, &a0), &a1), &a2), &a3) in rows.zip(a0).zip(a1).zip(a2).zip(a3) {
        for l in 0..COLUMNS {
            s0[l] = a0.fused(b[l], s0[l]);
            s1[l] = a1.fused(b[l], s1[l]);
            s2[l] = a2.fused(b[l], s2[l]);
            s3[l] = a3.fused(b[l], s3[l]);
        }
    }
    [s0, s1, s2, s3]
}

/// sum_t a[t][r] b[t] over the rows b of a strip, for four columns of a from `first` on; rows of a are `stride` apart.
#[inline(always)]
pub(super) fn columns_by_strip<T: Float>(
    a: &[T],
    stride: usize,
    first: usize,
    strip: &[T],
) -> Tile<T> {
    let zero = [T::ZERO; COLUMNS];
    let [mut s0, mut s1, mut s2, mut s3] = [zero; ROWS];
    for (a, b) in a.chunks_exact(stride).zip(strip.as_chunks::<COLUMNS>().0) {
        let a = &a[first..first + ROWS];
        let (a0, a1, a2, a3) = (a[0], a[1], a[2], a[3]);
        for l in 0..COLUMNS {
            s0[l] = a0.fused(b[l], s0[l]);
            s1[l] = a1.fused(b[l], s1[l]);
            s2[l] = a2.fused(b[l], s2[l]);
            s3[l] = a3.fused(b[l], s3[l]);
        }
    }
    [s0, s1, s2, s3]
}
