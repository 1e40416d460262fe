//! A matrix in memory: values in row-major order and the row width.
//!
//! A slice and a width that are passed separately can disagree, and a division then hides it: 12 values are three rows
//! of 4 and two of 6. [`Rows`] checks once that they match, and carries the width from then on.

use std::slice::ChunksExact;

use crate::{Error, Result};

/// A borrowed row-major matrix.
///
/// ```
/// use veridical_core::Rows;
///
/// let rows = Rows::new(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3)?;
/// assert_eq!((rows.n(), rows.dim()), (2, 3));
/// assert_eq!(rows.row(1), [4.0, 5.0, 6.0]);
/// assert!(Rows::new(&[1.0, 2.0, 3.0], 2).is_err());
/// # Ok::<(), veridical_core::Error>(())
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Rows<'a, T> {
    values: &'a [T],
    dim: usize,
}

// Not derived: a view can be copied even if `T` cannot.
impl<T> Clone for Rows<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Rows<'_, T> {}

impl<'a, T> Rows<'a, T> {
    /// Views `values` as rows of width `dim`.
    ///
    /// # Errors
    /// [`Error::Shape`] for a width of 0, and for values that do not form whole rows.
    pub fn new(values: &'a [T], dim: usize) -> Result<Self> {
        if dim == 0 {
            return Err(Error::shape("rows have a width of 0", "a row has at least one value"));
        }
        if !values.len().is_multiple_of(dim) {
            let what = format!("{} values do not form whole rows of width {dim}", values.len());
            return Err(Error::shape(what, ""));
        }
        Ok(Self { values, dim })
    }

    /// Returns the number of rows.
    pub const fn n(self) -> usize {
        self.values.len() / self.dim
    }

    /// Returns the width of a row, at least 1.
    pub const fn dim(self) -> usize {
        self.dim
    }

    /// Returns row `i`.
    ///
    /// # Panics
    /// If `i` is out of range, as indexing a slice does.
    pub fn row(self, i: usize) -> &'a [T] {
        &self.values[i * self.dim..][..self.dim]
    }

    /// Returns the rows in order.
    pub fn iter(self) -> ChunksExact<'a, T> {
        self.values.chunks_exact(self.dim)
    }

    /// Returns all values, row-major.
    pub const fn values(self) -> &'a [T] {
        self.values
    }
}

impl<'a, T> IntoIterator for Rows<'a, T> {
    type Item = &'a [T];
    type IntoIter = ChunksExact<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_in_their_order() {
        let values = [1u32, 2, 3, 4, 5, 6];
        let rows = Rows::new(&values, 2).unwrap();
        assert_eq!((rows.n(), rows.dim(), rows.values()), (3, 2, &values[..]));
        assert_eq!(rows.iter().collect::<Vec<_>>(), [[1, 2], [3, 4], [5, 6]]);
        assert!(rows.into_iter().enumerate().all(|(i, row)| row == rows.row(i)));
        let none: [u32; 0] = [];
        assert_eq!(Rows::new(&none, 2).unwrap().n(), 0);
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        let refused = |values: &[f32], dim| Rows::new(values, dim).unwrap_err();
        assert!(matches!(refused(&[], 0), Error::Shape { .. }));
        assert_eq!(refused(&[0.0; 7], 3).to_string(), "7 values do not form whole rows of width 3");
    }
}
