//! Affine maps of rows, y = (x - from) M + to.
//!
//! Each output value is one chain of f64 fused multiply-adds over the inputs in order, then rounded to f32:
//! the bits of a row do not depend on the other rows, the chunks or the threads. GEMM libraries do not guarantee that.
//!
//! Limit: 2 fused vector operations per cycle on AVX2; per input value, a tile of 6 rows x 2 vectors needs twelve of
//! them, two loads and six broadcasts.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// Rows per tile.
const TILE_ROWS: usize = 6;
/// Vectors per panel of columns.
const TILE_VECTORS: usize = 2;
/// Rows that one thread takes at a time, and multiply-adds below which a single thread is used.
const BLOCK_ROWS: usize = 16 * TILE_ROWS;
const SMALL: usize = 1 << 18;

/// An affine map of rows, y = (x - from) M + to.
///
/// ```
/// use veridical_learn::LinearMap;
///
/// let quarter = LinearMap { from: vec![0.0; 2], matrix: vec![0.0, 1.0, -1.0, 0.0], to: vec![0.0; 2] };
/// assert!(quarter.is_rotation());
/// assert_eq!(quarter.apply(&[1.0, 2.0]), [-2.0, 1.0]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LinearMap {
    /// Shift subtracted from a row before the product.
    pub from: Vec<f64>,
    /// M: one row per input value, one column per output value, row-major.
    pub matrix: Vec<f64>,
    /// Shift added to the product.
    pub to: Vec<f64>,
}

impl LinearMap {
    /// Returns the identity map on rows of `dim` values.
    pub fn identity(dim: usize) -> Self {
        let mut matrix = vec![0.0; dim * dim];
        matrix.iter_mut().step_by(dim + 1).for_each(|m| *m = 1.0);
        Self { from: vec![0.0; dim], matrix, to: vec![0.0; dim] }
    }

    /// The map x M without shifts, to rows of `output_dim` values.
    pub(crate) fn plain(matrix: Vec<f64>, input_dim: usize, output_dim: usize) -> Self {
        Self { from: vec![0.0; input_dim], matrix, to: vec![0.0; output_dim] }
    }

    /// Returns the number of values in an input row.
    pub fn input_dim(&self) -> usize {
        self.from.len()
    }

    /// Returns the number of values in an output row.
    pub fn output_dim(&self) -> usize {
        self.to.len()
    }

    /// Returns whether the map is orthogonal without shifts: M'M = I to 1e-9. Reflections count as rotations.
    pub fn is_rotation(&self) -> bool {
        let d = self.output_dim();
        let shifts = self.from.iter().chain(&self.to).any(|&x| x != 0.0);
        if shifts || d != self.input_dim() {
            return false;
        }
        let gram = crate::eigen::gram_f64(&self.matrix, d);
        gram.iter().enumerate().all(|(at, g)| {
            let want = if at % (d + 1) == 0 { 1.0 } else { 0.0 };
            (g - want).abs() <= 1e-9
        })
    }

    /// Maps the rows.
    ///
    /// # Panics
    /// If the rows are not whole, or the parts of the map have inconsistent sizes.
    pub fn apply(&self, rows: &[f32]) -> Vec<f32> {
        let (d_in, d_out) = (self.input_dim(), self.output_dim());
        assert_eq!(self.matrix.len(), d_in * d_out, "a matrix of inputs x outputs");
        assert!(rows.len().is_multiple_of(d_in), "whole rows");
        let mut out = vec![0.0; rows.len() / d_in * d_out];
        let arch = Arch::new();
        let packed = arch.dispatch(Pack(self));
        let block = |(rows, out): (&[f32], &mut [f32])| {
            arch.dispatch(Apply { map: self, packed: &packed, rows, out });
        };
        if rows.len() * d_out < SMALL {
            block((rows, &mut out));
        } else {
            let blocks = out.par_chunks_mut(BLOCK_ROWS * d_out);
            rows.par_chunks(BLOCK_ROWS * d_in).zip(blocks).for_each(block);
        }
        out
    }
}

/// Packs M into panels of a few vectors, row by row, padded with zeros.
struct Pack<'a>(&'a LinearMap);

impl WithSimd for Pack<'_> {
    type Output = Vec<f64>;

    fn with_simd<S: Simd>(self, _: S) -> Vec<f64> {
        let (d_in, d_out) = (self.0.input_dim(), self.0.output_dim());
        let width = TILE_VECTORS * S::F64_LANES;
        let mut packed = vec![0.0; d_out.div_ceil(width) * width * d_in];
        for (p, panel) in packed.chunks_exact_mut(width * d_in).enumerate() {
            let columns = p * width..d_out.min((p + 1) * width);
            for (row, out) in self.0.matrix.chunks_exact(d_out).zip(panel.chunks_exact_mut(width)) {
                out[..columns.len()].copy_from_slice(&row[columns.clone()]);
            }
        }
        packed
    }
}

/// Maps one block of rows.
struct Apply<'a> {
    map: &'a LinearMap,
    packed: &'a [f64],
    rows: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { map, packed, rows, out } = self;
        let (d_in, d_out) = (map.input_dim(), map.output_dim());
        let width = TILE_VECTORS * S::F64_LANES;
        // Value k of the rows of a tile, side by side.
        let mut tiles = vec![[0.0f64; TILE_ROWS]; rows.len().div_ceil(TILE_ROWS * d_in) * d_in];
        for (tile, rows) in tiles.chunks_exact_mut(d_in).zip(rows.chunks(TILE_ROWS * d_in)) {
            for (r, row) in rows.chunks_exact(d_in).enumerate() {
                for ((tile, &x), from) in tile.iter_mut().zip(row).zip(&map.from) {
                    tile[r] = f64::from(x) - from;
                }
            }
        }
        for (p, panel) in packed.chunks_exact(width * d_in).enumerate() {
            let columns = p * width..d_out.min((p + 1) * width);
            let (panel, _) = S::as_simd_f64s(panel);
            let to = &map.to[columns.clone()];
            for (tile, out) in tiles.chunks_exact(d_in).zip(out.chunks_mut(TILE_ROWS * d_out)) {
                let sums = multiply(simd, panel, tile);
                for (sums, out) in sums.iter().zip(out.chunks_exact_mut(d_out)) {
                    let sums: &[f64] = pulp::bytemuck::cast_slice(sums);
                    for ((out, sum), to) in out[columns.clone()].iter_mut().zip(sums).zip(to) {
                        *out = (sum + to) as f32;
                    }
                }
            }
        }
    }
}

/// Accumulates one chain per element of a tile.
#[inline(always)]
fn multiply<S: Simd>(
    simd: S,
    panel: &[S::f64s],
    tile: &[[f64; TILE_ROWS]],
) -> [[S::f64s; TILE_VECTORS]; TILE_ROWS] {
    let mut sums = [[simd.splat_f64s(0.0); TILE_VECTORS]; TILE_ROWS];
    for (m, x) in panel.as_chunks::<TILE_VECTORS>().0.iter().zip(tile) {
        for (sum, &x) in sums.iter_mut().zip(x) {
            let x = simd.splat_f64s(x);
            sum[0] = simd.mul_add_f64s(m[0], x, sum[0]);
            sum[1] = simd.mul_add_f64s(m[1], x, sum[1]);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn map(d_in: usize, d_out: usize) -> LinearMap {
        let values = |n: usize, salt: usize| -> Vec<f64> {
            (0..n).map(|i| ((i * 7919 + salt) % 1009) as f64 / 504.5 - 1.0).collect()
        };
        LinearMap { from: values(d_in, 3), matrix: values(d_in * d_out, 5), to: values(d_out, 7) }
    }

    fn rows(n: usize, dim: usize) -> Vec<f32> {
        (0..n * dim).map(|i| ((i * 31 + 7) % 997) as f32 / 498.5 - 1.0).collect()
    }

    proptest! {
        /// The formula as a chain of scalar fused multiply-adds has the same bits, so rows are independent of each other.
        #[test]
        fn every_row_is_its_own_chain(n in 1usize..40, d_in in 1usize..40, d_out in 1usize..40) {
            let (map, rows) = (map(d_in, d_out), rows(n, d_in));
            let got = map.apply(&rows);
            for (row, got) in rows.chunks(d_in).zip(got.chunks(d_out)) {
                for (j, got) in got.iter().enumerate() {
                    let chain = (0..d_in).fold(0.0f64, |sum, k| {
                        map.matrix[k * d_out + j].mul_add(f64::from(row[k]) - map.from[k], sum)
                    });
                    prop_assert_eq!(*got, (chain + map.to[j]) as f32);
                }
            }
        }
    }

    #[test]
    fn many_rows_on_any_threads_have_the_bits_of_each_alone() {
        let (n, d_in, d_out) = (1000, 37, 50);
        let (map, rows) = (map(d_in, d_out), rows(n, d_in));
        let alone: Vec<f32> = rows.chunks(d_in).flat_map(|row| map.apply(row)).collect();
        for threads in [1, 3] {
            let all = veridical_core::threads::with_threads(Some(threads), || map.apply(&rows));
            assert!(all.unwrap() == alone);
        }
    }

    #[test]
    fn rotations_are_distinguished_from_other_maps() {
        let identity = LinearMap::identity(3);
        assert!(identity.is_rotation());
        assert_eq!(identity.apply(&[1.0, 2.0, 3.0]), [1.0, 2.0, 3.0]);
        let plain = |matrix: &[f64]| LinearMap::plain(matrix.to_vec(), 2, 2);
        assert!(plain(&[0.0, 1.0, 1.0, 0.0]).is_rotation(), "a reflection");
        assert!(!plain(&[2.0, 0.0, 0.0, 2.0]).is_rotation(), "scaled");
        assert!(!LinearMap { to: vec![0.0, 0.0, 1.0], ..identity }.is_rotation(), "shifted");
        assert!(!LinearMap::plain(vec![1.0, 0.0], 2, 1).is_rotation(), "narrower");
    }
}
