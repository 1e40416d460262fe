//! The rows that several tables share, in passes: a comparison reads them window by window, as often as it needs to, and
//! never holds them all.
//!
//! Windows begin at fixed row numbers ([`window_rows`]), whatever the tables are read from, so sums over windows are the same
//! bytes for the same rows.

use crate::{Ids, Result};

/// Consecutive shared rows of every table.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// The number of the first row among the shared ids.
    pub first: usize,
    /// The ids of the rows.
    pub ids: &'a Ids,
    /// The rows of every table, row-major, in the order of the first table.
    pub tables: &'a [&'a [f32]],
}

impl Window<'_> {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// The rows that several tables share.
pub trait Passes: std::fmt::Debug + Send + Sync {
    /// Returns the number of shared ids.
    fn n(&self) -> usize;

    /// Returns the names of the tables.
    fn names(&self) -> Vec<&str>;

    /// Returns the embedding dimension of every table.
    fn dims(&self) -> Vec<usize>;

    /// Returns the row number of an id among the shared ids.
    fn find(&self, id: &str) -> Option<u32>;

    /// Visits all windows in order; each has [`window_rows`] rows, except the last.
    ///
    /// # Errors
    /// Those of reading the tables and of `visit`.
    fn pass(&self, visit: &mut dyn FnMut(Window<'_>) -> Result<()>) -> Result<()>;

    /// Whether all tables have the same embedding dimension.
    fn same_width(&self) -> bool {
        let dims = self.dims();
        dims.iter().all(|dim| *dim == dims[0])
    }
}

/// Values of the widest table in a window.
const WINDOW_VALUES: usize = 1 << 22;

/// Returns the number of rows of a window for tables of these dimensions.
pub fn window_rows(dims: &[usize]) -> usize {
    let widest = dims.iter().copied().max().unwrap_or(1).max(1);
    let fitting = (WINDOW_VALUES / widest).max(1);
    (1usize << fitting.ilog2()).clamp(256, 1 << 16)
}

/// A matrix whose rows are read by their numbers, so that it need not be held.
pub trait StoredRows: Send {
    /// Returns the number of rows.
    fn n_rows(&self) -> usize;

    /// Returns the number of values of a row.
    fn dim(&self) -> usize;

    /// Reads the `n` rows from number `first` on, in place of what is in `rows`.
    ///
    /// # Errors
    /// Those of reading the matrix.
    fn read(&mut self, first: usize, n: usize, rows: &mut Vec<f32>) -> Result<()>;

    /// Reads the rows of these numbers, in this order. Numbers that lie close together are read at once.
    ///
    /// # Errors
    /// Those of reading the matrix.
    fn gather(&mut self, numbers: &[u32]) -> Result<Vec<f32>> {
        let dim = self.dim();
        let mut ascending: Vec<(usize, usize)> =
            numbers.iter().enumerate().map(|(at, &number)| (number as usize, at)).collect();
        ascending.sort_unstable();
        let (mut gathered, mut rows) = (vec![0.0; numbers.len() * dim], Vec::new());
        let is_near = |a: &(usize, usize), b: &(usize, usize)| b.0 - a.0 <= NEAR_ROWS;
        for near in ascending.chunk_by(is_near) {
            for part in near.chunks(NEAR_ROWS) {
                let (first, last) = (part[0].0, part[part.len() - 1].0);
                self.read(first, last + 1 - first, &mut rows)?;
                for &(number, at) in part {
                    gathered[at * dim..][..dim]
                        .copy_from_slice(&rows[(number - first) * dim..][..dim]);
                }
            }
        }
        Ok(gathered)
    }
}

/// The distance of rows that are read at once, and the most of them.
const NEAR_ROWS: usize = 64;
