//! The Gaussian kernel exp(-|x - y|^2 / (2 l^2)) in f32, for matrices of 10^10 values.
//!
//! |x - y|^2 = |x|^2 + |y|^2 - 2 x . y of vectors less the mean of the rows, divided by l: an error of a few f32 roundings of |x|^2 / l^2.

use std::ops::Range;

use veridical_core::Rows;

use super::products;

/// Vectors less a mean, divided by the length scale.
#[derive(Clone, Debug)]
pub(super) struct Scaled {
    dim: usize,
    values: Vec<f32>,
    /// |x|^2 / 2.
    halves: Vec<f32>,
}

/// The mean of all rows.
pub(super) fn mean(rows: Rows<'_, f32>) -> Vec<f64> {
    let mut mean = vec![0.0f64; rows.dim()];
    for row in rows {
        mean.iter_mut().zip(row).for_each(|(m, &x)| *m += f64::from(x) / rows.n() as f64);
    }
    mean
}

impl Scaled {
    pub fn new(rows: Rows<'_, f32>, mean: &[f64], length_scale: f64) -> Self {
        let scaled = |row: &[f32]| -> Vec<f32> {
            let cells = row.iter().zip(mean);
            cells.map(|(&x, m)| ((f64::from(x) - m) / length_scale) as f32).collect()
        };
        let values: Vec<f32> = rows.iter().flat_map(scaled).collect();
        let half = |row: &[f32]| {
            (row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>() / 2.0) as f32
        };
        let halves = values.chunks_exact(rows.dim()).map(half).collect();
        Self { dim: rows.dim(), values, halves }
    }

    pub fn select(&self, rows: &[u32]) -> Self {
        let row = |&i: &u32| &self.values[i as usize * self.dim..][..self.dim];
        let values = rows.iter().flat_map(row).copied().collect();
        let halves = rows.iter().map(|&i| self.halves[i as usize]).collect();
        Self { dim: self.dim, values, halves }
    }

    fn part(&self, range: &Range<usize>) -> &[f32] {
        &self.values[range.start * self.dim..range.end * self.dim]
    }

    /// Writes the kernel of some rows and columns.
    pub fn tile(
        &self,
        others: &Self,
        rows: &Range<usize>,
        columns: &Range<usize>,
        out: &mut [f32],
    ) {
        products(self.part(rows), others.part(columns), self.dim, out);
        let halves = &others.halves[columns.clone()];
        // With the widest vectors of the processor: the operations and their order stay the same.
        pulp::Arch::new().dispatch(|| {
            let rows = out.chunks_exact_mut(columns.len()).zip(&self.halves[rows.clone()]);
            for (row, half) in rows {
                let cells = row.iter_mut().zip(halves);
                cells.for_each(|(k, other)| *k = exp((*k - (half + other)).min(0.0)));
            }
        });
    }
}

/// exp(x) for x <= 0 in f32, to two units in the last place, written so that a loop over a slice vectorizes: x = n ln 2 + r, the
/// Taylor series of exp(r) to r^7, and n put into the exponent. Below e^-87 it is that number, 1e-38.
#[inline(always)]
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
    use super::*;

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
}
