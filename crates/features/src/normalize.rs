//! Normalization of a row before it is projected.
//!
//! unit         y = x / |x|, a zero row stays zero
//! standardize  y_k = (x_k - mean_k) / deviation_k, with means and population standard deviations in the spec
//!
//! Computed in f64 and rounded once to f32, with the order of operations of `docs/format-spec.md`.

use veridical_core::Rows;
use veridical_core::orthogonal::squared_norm;

use crate::Error;

/// Normalization applied to a row before it is projected.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Normalize {
    /// The row is used unchanged.
    None,
    /// Rows are scaled to unit Euclidean length; zero rows stay zero.
    #[default]
    Unit,
    /// Columns are scaled to mean 0 and standard deviation 1.
    Standardize {
        /// Means, one per column.
        means: Vec<f64>,
        /// Population standard deviations, one per column, all above 0.
        deviations: Vec<f64>,
    },
}

impl Normalize {
    /// Returns the name used in specs and flags.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Unit => "unit",
            Self::Standardize { .. } => "standardize",
        }
    }

    pub(crate) fn check(&self, dim: usize) -> Result<(), Error> {
        let Self::Standardize { means, deviations } = self else { return Ok(()) };
        for (name, values) in [("means", means), ("deviations", deviations)] {
            if values.len() != dim {
                return Err(Error::param(
                    name,
                    format!("one number per column ({dim})"),
                    values.len(),
                ));
            }
        }
        if let Some(bad) = means.iter().find(|m| !m.is_finite()) {
            return Err(Error::param("means", "finite", bad));
        }
        if let Some(bad) = deviations.iter().find(|d| !(d.is_finite() && **d > 0.0)) {
            return Err(Error::param("deviations", "finite and above 0", bad));
        }
        Ok(())
    }

    /// Writes the normalized `row` to `y`; returns false for a zero row under `unit`.
    #[inline(always)]
    pub(crate) fn apply(&self, row: &[f32], y: &mut [f32]) -> bool {
        match self {
            Self::None => y.copy_from_slice(row),
            Self::Unit => {
                let squared = squared_norm(row);
                if squared == 0.0 {
                    y.copy_from_slice(row);
                    return false;
                }
                let inverse = 1.0 / squared.sqrt();
                for (y, &x) in y.iter_mut().zip(row) {
                    *y = (f64::from(x) * inverse) as f32;
                }
            }
            Self::Standardize { means, deviations } => {
                let columns = row.iter().zip(means.iter().zip(deviations));
                for (y, (&x, (mean, deviation))) in y.iter_mut().zip(columns) {
                    *y = ((f64::from(x) - mean) * (1.0 / deviation)) as f32;
                }
            }
        }
        true
    }

    /// Returns the normalized rows, row-major.
    ///
    /// # Errors
    /// [`Error::Width`] if the stored means and standard deviations are for rows of another width.
    ///
    /// ```
    /// use veridical_core::Rows;
    /// use veridical_features::Normalize;
    ///
    /// let rows = Rows::new(&[3.0, 4.0, 0.0, 0.0], 2)?;
    /// assert_eq!(Normalize::Unit.rows(rows)?, [0.6, 0.8, 0.0, 0.0]);
    /// # Ok::<(), veridical_features::Error>(())
    /// ```
    pub fn rows(&self, rows: Rows<'_, f32>) -> Result<Vec<f32>, Error> {
        match self {
            Self::Standardize { means, .. } if means.len() != rows.dim() => {
                return Err(Error::Width { expected: means.len(), got: rows.dim() });
            }
            _ => {}
        }
        let mut out = vec![0.0; rows.values().len()];
        for (row, out) in rows.iter().zip(out.chunks_exact_mut(rows.dim())) {
            self.apply(row, out);
        }
        Ok(out)
    }
}

/// Running means and variances of the columns of a table (Welford 1962).
///
/// Rows are added one at a time; the result depends only on the rows and their order.
///
/// ```
/// use veridical_core::Rows;
/// use veridical_features::{ColumnMoments, Normalize};
///
/// let mut moments = ColumnMoments::new(2);
/// moments.push_rows(Rows::new(&[1.0, 10.0, 3.0, 30.0], 2)?)?;
/// let (means, deviations) = (vec![2.0, 20.0], vec![1.0, 10.0]);
/// assert_eq!(moments.standardize(), Normalize::Standardize { means, deviations });
/// # Ok::<(), veridical_features::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ColumnMoments {
    count: u64,
    means: Vec<f64>,
    sums_of_squares: Vec<f64>,
}

impl ColumnMoments {
    /// Starts without rows, for rows of width `dim`.
    pub fn new(dim: usize) -> Self {
        Self { count: 0, means: vec![0.0; dim], sums_of_squares: vec![0.0; dim] }
    }

    /// Adds rows to the moments.
    ///
    /// # Errors
    /// [`Error::Width`] if the rows have another width.
    pub fn push_rows(&mut self, rows: Rows<'_, f32>) -> Result<(), Error> {
        if rows.dim() != self.means.len() {
            return Err(Error::Width { expected: self.means.len(), got: rows.dim() });
        }
        for row in rows {
            self.count += 1;
            let share = 1.0 / self.count as f64;
            for ((&x, mean), squares) in
                row.iter().zip(&mut self.means).zip(&mut self.sums_of_squares)
            {
                let delta = f64::from(x) - *mean;
                *mean += delta * share;
                *squares += delta * (f64::from(x) - *mean);
            }
        }
        Ok(())
    }

    /// Population variances of the columns.
    fn variances(&self) -> impl Iterator<Item = f64> {
        self.sums_of_squares.iter().map(|s| s / (self.count.max(1)) as f64)
    }

    /// Returns the standardization of these columns; a constant column has standard deviation 1.
    pub fn standardize(&self) -> Normalize {
        let deviation = |v: f64| if v > 0.0 { v.sqrt() } else { 1.0 };
        Normalize::Standardize {
            means: self.means.clone(),
            deviations: self.variances().map(deviation).collect(),
        }
    }

    /// Returns the population variance of all elements together, like `X.var()` in NumPy.
    pub fn total_variance(&self) -> f64 {
        let d = self.means.len() as f64;
        let mean = self.means.iter().sum::<f64>() / d;
        let between = self.means.iter().map(|m| (m - mean) * (m - mean)).sum::<f64>() / d;
        self.variances().sum::<f64>() / d + between
    }

    /// Returns [`total_variance`](Self::total_variance) after standardization: the share of columns that are not constant.
    pub fn standardized_variance(&self) -> f64 {
        let varying = self.variances().filter(|&v| v > 0.0).count();
        varying as f64 / self.means.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: [f32; 6] = [1.0, 10.0, 5.0, 3.0, 30.0, 5.0]; // two rows of width 3

    /// `StandardScaler().fit([[1, 10, 5], [3, 30, 5]])`: means 2, 20, 5; standard deviations 1, 10, and the
    /// constant column scaled by 1. `X.var()` is 94.3333.
    #[test]
    fn moments_match_scikit_learn() {
        let mut moments = ColumnMoments::new(3);
        moments.push_rows(Rows::new(&ROWS, 3).unwrap()).unwrap();
        assert!(moments.push_rows(Rows::new(&ROWS, 2).unwrap()).is_err());
        let Normalize::Standardize { means, deviations } = moments.standardize() else { panic!() };
        assert_eq!((means, deviations), (vec![2.0, 20.0, 5.0], vec![1.0, 10.0, 1.0]));
        let all = ROWS.map(f64::from);
        let mean = all.iter().sum::<f64>() / 6.0;
        let variance = all.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 6.0;
        assert!((moments.total_variance() - variance).abs() < 1e-12);
        assert!((moments.standardized_variance() - 2.0 / 3.0).abs() < 1e-15);
    }

    #[test]
    fn unit_keeps_zero_rows_and_survives_tiny_and_huge_ones() {
        let rows = [0.0, 0.0, 3e38, 4e37, 3e-44, 4e-44];
        let got = Normalize::Unit.rows(Rows::new(&rows, 2).unwrap()).unwrap();
        assert_eq!(got[..2], [0.0, 0.0]);
        for row in got[2..].chunks(2) {
            let norm = f64::from(row[0]).hypot(f64::from(row[1]));
            assert!((norm - 1.0).abs() < 1e-7, "{row:?}");
        }
    }
}
