//! Time steps of packed sequences, and the small products of one time step.

use crate::product::Matrix;
use crate::{Float, Sequences};

/// Order in time of the rows of packed sequences.
#[derive(Debug)]
pub(super) struct Steps<'a> {
    sequences: Sequences<'a>,
    /// Sequences, longest first.
    order: Vec<usize>,
    is_reverse: bool,
}

impl<'a> Steps<'a> {
    pub fn new(sequences: Sequences<'a>, is_reverse: bool) -> Self {
        let mut order: Vec<usize> = (0..sequences.len()).collect();
        order.sort_by_key(|&s| std::cmp::Reverse(sequences.range(s).len()));
        Self { sequences, order, is_reverse }
    }

    /// Number of time steps: the length of the longest sequence.
    pub fn times(&self) -> usize {
        self.order.first().map_or(0, |&s| self.sequences.range(s).len())
    }

    /// The sequences that are longer than t, longest first.
    #[inline(always)]
    pub fn running(&self, t: usize) -> &[usize] {
        let count = self.order.partition_point(|&s| self.sequences.range(s).len() > t);
        &self.order[..count]
    }

    /// The row of a sequence at time t.
    #[inline(always)]
    pub fn row(&self, sequence: usize, t: usize) -> usize {
        let range = self.sequences.range(sequence);
        if self.is_reverse { range.end - 1 - t } else { range.start + t }
    }

    /// All rows of a sequence in the order of time.
    pub fn rows(&self, sequence: usize) -> impl Iterator<Item = usize> {
        (0..self.sequences.range(sequence).len()).map(move |t| self.row(sequence, t))
    }

    /// Number of sequences.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Number of sequences rounded up to whole tiles.
    pub fn padded(&self) -> usize {
        self.len().next_multiple_of(ROWS)
    }
}

/// Rows of a tile of a product,
const ROWS: usize = 4;
/// and columns: eight registers of AVX2 hold its sums in f32.
const COLUMNS: usize = 16;

/// A matrix b (k x n) packed in strips of columns, padded with zeros: small products a b without the cost of a GEMM call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed<'a, T> {
    /// Values strip by strip, row by row.
    strips: &'a [T],
    k: usize,
}

impl<'a, T: Float> Packed<'a, T> {
    /// Number of columns with padding.
    pub fn padded(n: usize) -> usize {
        n.next_multiple_of(COLUMNS)
    }

    /// Number of values of a packed k x n matrix.
    pub fn len(k: usize, n: usize) -> usize {
        k * Self::padded(n)
    }

    /// Packs b into scratch memory.
    pub fn new(scratch: &'a mut [T], b: Matrix<'_, T>) -> Self {
        let (k, n) = b.size();
        for (s, strip) in scratch.chunks_exact_mut(k * COLUMNS).enumerate() {
            for (i, row) in strip.chunks_exact_mut(COLUMNS).enumerate() {
                for (j, to) in (s * COLUMNS..).zip(row) {
                    *to = if j < n { b.at(i, j) } else { T::ZERO };
                }
            }
        }
        Self { strips: scratch, k }
    }

    /// Adds a b to c for the first `rows` rows of a, and for those that pad the last tile. Rows of a have length k and those of
    /// c are padded. Every sum is over k in order, with fused operations: a row does not depend on the other rows.
    #[inline(always)]
    pub fn add_product(self, a: &[T], c: &mut [T], rows: usize) {
        let stride = self.strips.len() / self.k;
        let tiles = rows.div_ceil(ROWS);
        let a = a.chunks_exact(ROWS * self.k);
        for (a, c) in a.zip(c.chunks_exact_mut(ROWS * stride)).take(tiles) {
            let (a0, a) = a.split_at(self.k);
            let (a1, a) = a.split_at(self.k);
            let (a2, a3) = a.split_at(self.k);
            for (s, strip) in self.strips.chunks_exact(self.k * COLUMNS).enumerate() {
                let mut sums = [[T::ZERO; COLUMNS]; ROWS];
                for (r, sums) in sums.iter_mut().enumerate() {
                    sums.copy_from_slice(&c[r * stride + s * COLUMNS..][..COLUMNS]);
                }
                let [mut s0, mut s1, mut s2, mut s3] = sums;
                let rows = strip.as_chunks::<COLUMNS>().0.iter();
                for ((((b, &a0), &a1), &a2), &a3) in rows.zip(a0).zip(a1).zip(a2).zip(a3) {
                    for l in 0..COLUMNS {
                        s0[l] = a0.fused(b[l], s0[l]);
                        s1[l] = a1.fused(b[l], s1[l]);
                        s2[l] = a2.fused(b[l], s2[l]);
                        s3[l] = a3.fused(b[l], s3[l]);
                    }
                }
                for (r, sums) in [s0, s1, s2, s3].iter().enumerate() {
                    c[r * stride + s * COLUMNS..][..COLUMNS].copy_from_slice(sums);
                }
            }
        }
    }
}
