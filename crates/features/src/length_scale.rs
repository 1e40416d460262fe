//! Rules that choose the length scale l from data.
//!
//! median               l = median of |x - y| over all pairs of a sample (Garreau et al. 2018), or of |x - y|_1
//!                      for laplace
//! sklearn-gamma-scale  gamma = 1 / (d var(X)), l = sqrt(d var(X) / 2)
//!
//! Both are applied to the normalized rows, which are the input of the kernel.

use veridical_core::Rows;
use veridical_core::stats::median;

use crate::kernel::over_pairs;
use crate::{Error, Kernel};

/// Converts scikit-learn's gamma in exp(-gamma |x - y|^2) to a length scale.
///
/// # Errors
/// [`Error::Param`] unless gamma is finite and above 0.
///
/// ```
/// assert_eq!(veridical_features::length_scale::from_gamma(0.5)?, 1.0);
/// # Ok::<(), veridical_features::Error>(())
/// ```
pub fn from_gamma(gamma: f64) -> Result<f64, Error> {
    if !(gamma.is_finite() && gamma > 0.0) {
        return Err(Error::param("gamma", "finite and above 0", gamma));
    }
    Ok((0.5 / gamma).sqrt())
}

/// Chooses the length scale as the median distance of the normalized rows.
///
/// # Errors
/// [`Error::LengthScale`] for fewer than two rows or a median distance of 0.
///
/// ```
/// use veridical_core::Rows;
/// use veridical_features::{Kernel, length_scale};
///
/// let points = Rows::new(&[0.0, 1.0, 3.0], 1)?; // distances 1, 2 and 3
/// assert_eq!(length_scale::from_median(points, &Kernel::Gaussian)?, 2.0);
/// # Ok::<(), veridical_features::Error>(())
/// ```
pub fn from_median(rows: Rows<'_, f32>, kernel: &Kernel) -> Result<f64, Error> {
    let mut distances = distances(rows, kernel);
    let refused = |why: &str| Error::LengthScale { why: why.into() };
    let median = median(&mut distances).ok_or_else(|| refused("it takes at least two rows"))?;
    if median > 0.0 {
        return Ok(median);
    }
    Err(refused("more than half of the sampled pairs of rows are identical"))
}

/// Chooses the length scale of scikit-learn's `gamma="scale"`, for normalized rows whose elements have `variance`.
///
/// # Errors
/// [`Error::LengthScale`] for a variance of 0.
///
/// ```
/// let l = veridical_features::length_scale::from_gamma_scale(2.0, 4)?; // gamma = 1 / (4 * 2)
/// assert_eq!(l, 2.0);
/// # Ok::<(), veridical_features::Error>(())
/// ```
pub fn from_gamma_scale(variance: f64, dim: usize) -> Result<f64, Error> {
    if variance > 0.0 {
        return Ok((dim as f64 * variance / 2.0).sqrt());
    }
    Err(Error::LengthScale { why: "all elements of the table are equal".into() })
}

/// Computes the kernel's distance for every pair of rows, in f64.
pub fn distances(rows: Rows<'_, f32>, kernel: &Kernel) -> Vec<f64> {
    over_pairs(rows, |x, y| kernel.distance(x, y))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_median(values: &[f32], dim: usize, kernel: &Kernel) -> Result<f64, Error> {
        super::from_median(Rows::new(values, dim)?, kernel)
    }

    #[test]
    fn median_of_a_line_of_points() {
        // Points 0, 1, 3: distances 1, 2, 3.
        assert_eq!(from_median(&[0.0, 1.0, 3.0], 1, &Kernel::Gaussian).unwrap(), 2.0);
    }

    #[test]
    fn laplace_measures_by_coordinates() {
        assert_eq!(from_median(&[0.0, 0.0, 3.0, 4.0], 2, &Kernel::Gaussian).unwrap(), 5.0);
        assert_eq!(from_median(&[0.0, 0.0, 3.0, 4.0], 2, &Kernel::Laplace).unwrap(), 7.0);
    }

    #[test]
    fn degenerate_data_is_refused_with_the_remedy() {
        let message = from_median(&[1.0; 8], 2, &Kernel::Gaussian).unwrap_err().to_string();
        assert_eq!(
            message,
            "cannot choose a length scale: more than half of the sampled pairs of rows are \
             identical; pass a number with ⟨length-scale⟩"
        );
        assert!(
            from_median(&[1.0, 2.0], 2, &Kernel::Gaussian)
                .unwrap_err()
                .to_string()
                .contains("two rows")
        );
        assert!(from_gamma_scale(0.0, 2).is_err());
        assert!(from_gamma(0.0).unwrap_err().to_string().contains("gamma must be finite"));
    }

    /// gamma = 1 / (d var) and l = sqrt(1 / (2 gamma)).
    #[test]
    fn gamma_scale_is_the_gamma_of_scikit_learn() {
        let l = from_gamma_scale(0.25, 8).unwrap();
        assert!((l - from_gamma(1.0 / (8.0 * 0.25)).unwrap()).abs() < 1e-15);
    }
}
