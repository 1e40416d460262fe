//! Gram matrices that are multiplied with, in memory or computed by tiles and forgotten.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;
use veridical_core::{Error, Result, Rows};

use super::product::{check_gram, product};

/// A symmetric Gram matrix as a linear map.
pub trait GramOperator: Sync {
    /// Returns the number of rows.
    fn n(&self) -> usize;

    /// Returns the diagonal.
    fn diagonal(&self) -> Vec<f64>;

    /// Returns K X for a row-major X of `columns` values per row.
    fn apply(&self, x: &[f64], columns: usize) -> Vec<f64>;

    /// Returns the columns `centers` of K: a row of `centers.len()` values per row of K.
    fn columns(&self, centers: &[u32]) -> Vec<f32>;
}

/// A Gram matrix in memory.
#[derive(Clone, Copy, Debug)]
pub struct DenseGram<'a>(Rows<'a, f32>);

impl<'a> DenseGram<'a> {
    /// Views a square matrix of finite values.
    ///
    /// # Errors
    /// [`Error::Shape`] if it is not square, [`Error::Unfit`] if a value is not finite.
    pub fn new(k: Rows<'a, f32>) -> Result<Self> {
        check_gram(k, k.n(), "rows")?;
        Ok(Self(k))
    }
}

impl GramOperator for DenseGram<'_> {
    fn n(&self) -> usize {
        self.0.n()
    }

    fn diagonal(&self) -> Vec<f64> {
        (0..self.0.n()).map(|i| f64::from(self.0.row(i)[i])).collect()
    }

    fn apply(&self, x: &[f64], columns: usize) -> Vec<f64> {
        product(self.0, x, columns)
    }

    fn columns(&self, centers: &[u32]) -> Vec<f32> {
        self.0.iter().flat_map(|row| centers.iter().map(|&j| row[j as usize])).collect()
    }
}

/// The Gram matrix of the Gaussian kernel exp(-|x - y|^2 / (2 l^2)) of vectors, computed tile by tile whenever it is needed: n = 100,000
/// rows take the memory of their vectors, not 40 GB.
///
/// |x - y|^2 = |x|^2 + |y|^2 - 2 x·y of vectors less their mean, divided by l: an error of a few f32 roundings of |x|^2 / l^2.
#[derive(Clone, Debug)]
pub struct GaussianGram {
    dim: usize,
    /// (x - mean) / l.
    rows: Vec<f32>,
    /// |x|^2 / 2 of these.
    halves: Vec<f32>,
}

/// Rows and columns of a tile.
const TILE: usize = 256;

impl GaussianGram {
    /// Takes vectors and the length scale l.
    ///
    /// # Errors
    /// [`Error::Setting`] if l is not above 0, [`Error::Unfit`] if a value is not finite.
    pub fn new(vectors: Rows<'_, f32>, length_scale: f64) -> Result<Self> {
        if !(length_scale > 0.0 && length_scale.is_finite()) {
            return Err(Error::setting("length-scale", "a finite number above 0", length_scale));
        }
        let (n, dim) = (vectors.n(), vectors.dim());
        if let Some(at) = vectors.values().iter().position(|x| !x.is_finite()) {
            return Err(Error::unfit(format!("vector {} is not finite", at / dim), ""));
        }
        let mut mean = vec![0.0f64; dim];
        for row in vectors {
            mean.iter_mut().zip(row).for_each(|(m, &x)| *m += f64::from(x) / n as f64);
        }
        let scaled = |row: &[f32]| -> Vec<f32> {
            let cells = row.iter().zip(&mean);
            cells.map(|(&x, m)| ((f64::from(x) - m) / length_scale) as f32).collect()
        };
        let rows: Vec<f32> = vectors.iter().flat_map(scaled).collect();
        let half = |row: &[f32]| {
            (row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>() / 2.0) as f32
        };
        let halves = rows.chunks_exact(dim).map(half).collect();
        Ok(Self { dim, rows, halves })
    }

    /// Kernel values of rows with all of `others`, one after the other.
    fn tile(&self, first: usize, count: usize, others: &[f32], halves: &[f32], out: &mut [f32]) {
        let (dim, m) = (self.dim, halves.len());
        let a = MatRef::from_row_major_slice(&self.rows[first * dim..][..count * dim], count, dim);
        let b = MatRef::from_row_major_slice(others, m, dim);
        let view = MatMut::from_row_major_slice_mut(&mut *out, count, m);
        matmul(view, Accum::Replace, a, b.transpose(), 1.0, Par::Seq);
        for (row, half) in out.chunks_exact_mut(m).zip(&self.halves[first..]) {
            row.iter_mut()
                .zip(halves)
                .for_each(|(k, other)| *k = exp((*k - (half + other)).min(0.0)));
        }
    }
}

impl GramOperator for GaussianGram {
    fn n(&self) -> usize {
        self.halves.len()
    }

    fn diagonal(&self) -> Vec<f64> {
        vec![1.0; self.n()]
    }

    fn apply(&self, x: &[f64], columns: usize) -> Vec<f64> {
        let n = self.n();
        assert_eq!(x.len(), n * columns, "one row of X per row of K");
        let mut out = vec![0.0; n * columns];
        if columns == 0 {
            return out;
        }
        out.par_chunks_mut(TILE * columns).enumerate().for_each_init(
            || (vec![0.0f32; TILE * TILE], vec![0.0f64; TILE * TILE]),
            |(tile, wide), (block, out)| {
                let count = out.len() / columns;
                let mut out = MatMut::from_row_major_slice_mut(out, count, columns);
                let parts = self.rows.chunks(TILE * self.dim).zip(self.halves.chunks(TILE));
                for ((others, halves), x) in parts.zip(x.chunks(TILE * columns)) {
                    let m = halves.len();
                    self.tile(block * TILE, count, others, halves, &mut tile[..count * m]);
                    let values = tile[..count * m].iter();
                    wide.iter_mut().zip(values).for_each(|(w, &k)| *w = f64::from(k));
                    let k = MatRef::from_row_major_slice(&wide[..count * m], count, m);
                    let x = MatRef::from_row_major_slice(x, m, columns);
                    matmul(out.as_mut(), Accum::Add, k, x, 1.0, Par::Seq);
                }
            },
        );
        out
    }

    fn columns(&self, centers: &[u32]) -> Vec<f32> {
        let (n, m, dim) = (self.n(), centers.len(), self.dim);
        let others: Vec<f32> = centers
            .iter()
            .flat_map(|&j| self.rows[j as usize * dim..][..dim].iter().copied())
            .collect();
        let halves: Vec<f32> = centers.iter().map(|&j| self.halves[j as usize]).collect();
        let mut out = vec![0.0; n * m];
        out.par_chunks_mut(TILE * m.max(1)).enumerate().for_each(|(block, out)| {
            self.tile(block * TILE, out.len() / m, &others, &halves, out);
        });
        out
    }
}

/// exp(x) for x <= 0 in f32, to two units in the last place, written so that a loop over a slice vectorizes: x = n ln 2 + r, the
/// Taylor series of exp(r) to r^7, and n put into the exponent. Below e^-87 it is that number, 1e-38.
#[inline]
fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 2^23: adding it rounds to an integer
    let x = x.max(-87.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let series = [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
    let power = series.iter().fold(1.0f32 / 5040.0, |sum, c| sum * r + c);
    let exponent = (shifted.to_bits() << 23).wrapping_add(127 << 23);
    power * f32::from_bits(exponent)
}

#[cfg(test)]
mod tests {
    use super::super::product::testing::normals;
    use super::*;
    use veridical_core::threads::with_threads;

    /// Two units in the last place, 2^-22.
    #[test]
    fn the_exponential_is_accurate() {
        for i in 0..200_000 {
            let x = -(i as f32) * 86.9 / 200_000.0;
            let want = f64::from(x).exp();
            let error = (f64::from(exp(x)) / want - 1.0).abs();
            assert!(error < 2.4e-7, "{x}: {error:e}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(-1e9) < 2e-38);
    }

    #[test]
    fn tiles_are_the_kernel_of_the_definition_on_any_threads() {
        let (n, dim, c, l) = (2 * TILE + 37, 7, 3, 2.0);
        let x: Vec<f32> = normals(n * dim, 0).iter().map(|&x| x as f32 + 5.0).collect();
        let y = normals(n * c, 1);
        let gram = GaussianGram::new(Rows::new(&x, dim).unwrap(), l).unwrap();
        let run = |threads| with_threads(Some(threads), || gram.apply(&y, c)).unwrap();
        let got = run(1);
        assert!(run(2) == got && run(5) == got);
        let all: Vec<u32> = (0..n as u32).collect();
        let dense = gram.columns(&all);
        for (i, row) in dense.chunks(n).enumerate().step_by(41) {
            for (j, k) in row.iter().enumerate() {
                let cells = x[i * dim..][..dim].iter().zip(&x[j * dim..][..dim]);
                let square: f64 = cells.map(|(a, b)| f64::from(a - b).powi(2)).sum();
                // Roundings of |x|^2 / (2 l^2), below 10, and of the exponential.
                assert!((f64::from(*k) - (-square / (2.0 * l * l)).exp()).abs() < 1e-5);
            }
        }
        let want = DenseGram::new(Rows::new(&dense, n).unwrap()).unwrap().apply(&y, c);
        assert!(got.iter().zip(&want).all(|(g, w)| (g - w).abs() < 1e-9), "sums in f64");
        assert!(GaussianGram::new(Rows::new(&x, dim).unwrap(), 0.0).is_err());
    }
}
