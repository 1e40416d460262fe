//! A table of vectors while it is being learnt.

use rayon::prelude::*;
use veridical_core::{Seed, Stream};

/// One row of `dim` values per number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embedding {
    dim: usize,
    values: Vec<f32>,
}

impl Embedding {
    /// From rows end to end.
    ///
    /// # Panics
    /// If `values` are not whole rows.
    pub fn new(dim: usize, values: Vec<f32>) -> Self {
        assert!(dim > 0 && values.len().is_multiple_of(dim), "whole rows");
        Self { dim, values }
    }

    /// All zeros.
    pub fn zeros(rows: usize, dim: usize) -> Self {
        Self::new(dim, vec![0.0; rows * dim])
    }

    /// Normal values of the given deviation from the stream called `name`; row r is drawn at place r, so
    /// a longer table begins with the shorter one.
    pub fn normal(rows: usize, dim: usize, deviation: f64, seed: Seed, name: &str) -> Self {
        let stream = Stream::new(seed, name);
        let mut values = vec![0.0; rows * dim];
        values.par_chunks_mut(dim).enumerate().for_each_init(
            || vec![0.0; dim],
            |normals, (r, row)| {
                stream.at(0, r as u64).fill_normals(normals);
                row.iter_mut().zip(normals).for_each(|(x, n)| *x = (deviation * *n) as f32);
            },
        );
        Self::new(dim, values)
    }

    /// Values of a row.
    pub const fn dim(&self) -> usize {
        self.dim
    }

    /// How many rows.
    pub fn n_rows(&self) -> usize {
        self.values.len().checked_div(self.dim).unwrap_or(0)
    }

    /// Row `r`.
    pub fn row(&self, r: usize) -> &[f32] {
        &self.values[r * self.dim..][..self.dim]
    }

    /// Row `r`, to change it.
    pub fn row_mut(&mut self, r: usize) -> &mut [f32] {
        &mut self.values[r * self.dim..][..self.dim]
    }

    /// All rows, end to end.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// All rows, to change them.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// The rows themselves.
    pub fn into_values(self) -> Vec<f32> {
        self.values
    }
}
