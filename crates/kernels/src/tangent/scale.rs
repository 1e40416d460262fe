//! Normalization of a kernel by the kernel of every sample with itself, d_i = sum_v d_i^v.
//!
//! cosine   k_ij / sqrt(d_i d_j), exactly 1 for a sample and itself; 0 where d_i = 0
//! paper    k_ij / (sum_v sqrt(d_i^v) sum_v sqrt(d_j^v)), eq. 4 of paper 004, section 1, as it is printed: the diagonal lies in [1/m, 1]

use std::ops::Range;

use super::Normalization;

/// One factor for each sample.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    normalization: Normalization,
    factors: Vec<f64>,
}

impl Scale {
    /// Computes the factors from d, samples x cotangents.
    pub fn new(normalization: Normalization, diagonals: &[f64], cotangents: usize) -> Self {
        let inverse = |root: f64| if root > 0.0 { 1.0 / root } else { 0.0 };
        let factor = |d: &[f64]| match normalization {
            Normalization::None => 1.0,
            Normalization::Cosine => inverse(d.iter().sum::<f64>().sqrt()),
            Normalization::Paper => inverse(d.iter().map(|d| d.sqrt()).sum()),
        };
        Self { normalization, factors: diagonals.chunks_exact(cotangents).map(factor).collect() }
    }

    /// Scales one number for each sample.
    pub fn multiply(&self, values: &mut [f64]) {
        values.iter_mut().zip(&self.factors).for_each(|(v, f)| *v *= f);
    }

    /// Scales a tile; of the same samples if `is_symmetric`.
    pub fn apply(
        [own, other]: &[Self; 2],
        is_symmetric: bool,
        rows: Range<usize>,
        columns: Range<usize>,
        values: &mut [f64],
    ) {
        if own.normalization == Normalization::None {
            return;
        }
        let is_cosine = own.normalization == Normalization::Cosine;
        for (i, row) in rows.zip(values.chunks_exact_mut(columns.len())) {
            for (j, value) in columns.clone().zip(row) {
                let scale = own.factors[i] * other.factors[j];
                *value *= scale;
                if is_symmetric && is_cosine && i == j && scale > 0.0 {
                    *value = 1.0;
                }
            }
        }
    }
}
