//! A table of vectors while it is trained.

use rayon::prelude::*;
use veridical_core::{Seed, Stream};

/// An embedding table: one row of `dim` values per number of an id.
///
/// ```
/// use veridical_embed::Embedding;
///
/// let table = Embedding::new(2, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
/// assert_eq!((table.n_rows(), table.dim()), (3, 2));
/// assert_eq!(table.row(1), [3.0, 4.0]);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embedding {
    dim: usize,
    values: Vec<f32>,
}

impl Embedding {
    /// Makes a table from row-major values.
    ///
    /// # Panics
    /// If `dim` is 0 or `values` is not a whole number of rows.
    pub fn new(dim: usize, values: Vec<f32>) -> Self {
        assert!(dim > 0 && values.len().is_multiple_of(dim), "whole rows");
        Self { dim, values }
    }

    /// Makes a table of zeros.
    pub fn zeros(rows: usize, dim: usize) -> Self {
        Self::new(dim, vec![0.0; rows * dim])
    }

    /// Makes a table of normal values with the given standard deviation from the random stream called `name`;
    /// row r is drawn at place r, so a longer table begins with the shorter one.
    pub fn normal(rows: usize, dim: usize, sd: f64, seed: Seed, name: &str) -> Self {
        let stream = Stream::new(seed, name);
        let mut values = vec![0.0; rows * dim];
        values.par_chunks_mut(dim).enumerate().for_each_init(
            || vec![0.0; dim],
            |normals, (r, row)| {
                stream.at(0, r as u64).fill_normals(normals);
                row.iter_mut().zip(normals).for_each(|(x, n)| *x = (sd * *n) as f32);
            },
        );
        Self::new(dim, values)
    }

    /// Returns the embedding dimension.
    pub const fn dim(&self) -> usize {
        self.dim
    }

    /// Returns the number of rows.
    pub fn n_rows(&self) -> usize {
        self.values.len().checked_div(self.dim).unwrap_or(0)
    }

    /// Returns row `r`.
    pub fn row(&self, r: usize) -> &[f32] {
        &self.values[r * self.dim..][..self.dim]
    }

    /// Returns row `r`, mutable.
    pub fn row_mut(&mut self, r: usize) -> &mut [f32] {
        &mut self.values[r * self.dim..][..self.dim]
    }

    /// Returns all values, row-major.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Returns all values, row-major and mutable.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// Returns the values, row-major, and drops the table.
    pub fn into_values(self) -> Vec<f32> {
        self.values
    }
}
