//! A sparse matrix in memory, by rows.

use crate::{Error, Result};

/// A sparse matrix: the columns and values of the entries of every row.
///
/// ```
/// use veridical_core::SparseRows;
///
/// let mut rows = SparseRows::new(4);
/// rows.push(&[(0, 1.0), (3, 0.5)])?;
/// rows.push(&[])?;
/// assert_eq!((rows.n(), rows.dim(), rows.entries()), (2, 4, 2));
/// assert_eq!(rows.row(0), (&[0, 3][..], &[1.0, 0.5][..]));
/// assert!(rows.push(&[(4, 1.0)]).is_err());
/// # Ok::<(), veridical_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SparseRows {
    dim: usize,
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f32>,
}

impl SparseRows {
    /// Starts a matrix of `dim` columns without rows.
    pub fn new(dim: usize) -> Self {
        Self { dim, starts: vec![0], columns: Vec::new(), values: Vec::new() }
    }

    /// Adds a row by the columns and values of its entries.
    ///
    /// # Errors
    /// [`Error::Shape`] if a column is out of range; the row is then not added.
    pub fn push(&mut self, row: &[(u32, f32)]) -> Result<()> {
        if let Some((column, _)) = row.iter().find(|(column, _)| *column as usize >= self.dim) {
            let what = format!("an entry is in column {column} of a matrix of {}", self.dim);
            return Err(Error::shape(what, ""));
        }
        self.columns.extend(row.iter().map(|(column, _)| *column));
        self.values.extend(row.iter().map(|(_, value)| *value));
        self.starts.push(self.columns.len());
        Ok(())
    }

    /// Returns the number of rows.
    pub const fn n(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the number of columns.
    pub const fn dim(&self) -> usize {
        self.dim
    }

    /// Returns the number of entries.
    pub const fn entries(&self) -> usize {
        self.columns.len()
    }

    /// Returns the columns and values of row `i`.
    ///
    /// # Panics
    /// If `i` is out of range, as indexing a slice does.
    pub fn row(&self, i: usize) -> (&[u32], &[f32]) {
        let range = self.starts[i]..self.starts[i + 1];
        (&self.columns[range.clone()], &self.values[range])
    }

    /// Returns some rows, in the given order.
    pub fn subset(&self, rows: &[usize]) -> Self {
        let mut subset = Self::new(self.dim);
        for &i in rows {
            let (columns, values) = self.row(i);
            subset.columns.extend_from_slice(columns);
            subset.values.extend_from_slice(values);
            subset.starts.push(subset.columns.len());
        }
        subset
    }

    /// Returns the transposed matrix; the entries of its rows are in the order of the rows they come from.
    pub fn transposed(&self) -> Self {
        let mut starts = vec![0; self.dim + 1];
        self.columns.iter().for_each(|&column| starts[column as usize + 1] += 1);
        (0..self.dim).for_each(|column| starts[column + 1] += starts[column]);
        let mut next = starts.clone();
        let (mut columns, mut values) = (vec![0; self.entries()], vec![0.0; self.entries()]);
        for i in 0..self.n() {
            let (own, of) = self.row(i);
            for (&column, &value) in own.iter().zip(of) {
                let at = &mut next[column as usize];
                columns[*at] = i as u32;
                values[*at] = value;
                *at += 1;
            }
        }
        Self { dim: self.n(), starts, columns, values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposing_twice_sorts_the_entries_of_a_row() {
        let mut rows = SparseRows::new(3);
        for row in [&[(2, 1.0), (0, 2.0)][..], &[], &[(1, 3.0)]] {
            rows.push(row).unwrap();
        }
        let columns = rows.transposed();
        assert_eq!((columns.n(), columns.dim()), (3, 3));
        assert_eq!(columns.row(0), (&[0][..], &[2.0][..]));
        assert_eq!(columns.row(2), (&[0][..], &[1.0][..]));
        let twice = columns.transposed();
        assert_eq!(twice.row(0), (&[0, 2][..], &[2.0, 1.0][..]));
        assert_eq!(twice.subset(&[2, 1]).row(0), (&[1][..], &[3.0][..]));
        assert_eq!(twice.subset(&[2, 1]).row(1).0.len(), 0);
    }
}
