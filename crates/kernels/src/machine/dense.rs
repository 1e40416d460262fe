//! A Gram matrix in memory as pairs of rows.

use std::ops::Range;

use veridical_core::{Result, Rows};

use super::product::{check_gram, product};
use crate::gram::Pairs;

/// A Gram matrix in memory.
#[derive(Clone, Copy, Debug)]
pub struct DenseGram<'a>(Rows<'a, f32>);

impl<'a> DenseGram<'a> {
    /// Views a square matrix of finite values.
    ///
    /// # Errors
    /// [`Error::Shape`](veridical_core::Error::Shape) if it is not square, [`Error::Unfit`](veridical_core::Error::Unfit) if a value is
    /// not finite.
    pub fn new(k: Rows<'a, f32>) -> Result<Self> {
        check_gram(k, k.n(), "rows")?;
        Ok(Self(k))
    }
}

impl Pairs for DenseGram<'_> {
    fn size(&self) -> (usize, usize) {
        (self.0.n(), self.0.n())
    }

    fn is_symmetric(&self) -> bool {
        true
    }

    fn tile(&self, rows: Range<usize>, columns: Range<usize>, values: &mut [f64]) {
        for (i, values) in rows.zip(values.chunks_exact_mut(columns.len())) {
            let row = &self.0.row(i)[columns.clone()];
            values.iter_mut().zip(row).for_each(|(value, &k)| *value = f64::from(k));
        }
    }

    fn multiply(&self, x: &[f64], columns: usize) -> Vec<f64> {
        product(self.0, x, columns)
    }

    fn columns(&self, chosen: &[u32]) -> Vec<f32> {
        self.0.iter().flat_map(|row| chosen.iter().map(|&j| row[j as usize])).collect()
    }
}
