//! Kernels that the inner products of phi estimate, with the second moment of their directions.
//!
//! | kernel | k(x, y), delta = \|x - y\| | E\|u\|^2 l^2 / d |
//! |---|---|---|
//! | gaussian | exp(-delta^2 / (2 l^2)) | 1 |
//! | matern-1/2 | exp(-s), s = delta / l | infinite |
//! | matern-3/2 | (1 + s) exp(-s), s = sqrt(3) delta / l | 3 |
//! | matern-5/2 | (1 + s + s^2 / 3) exp(-s), s = sqrt(5) delta / l | 5/3 |
//! | mixture | mean of gaussians of length scales l s_c with weights w_c | mean of 1 / s_c^2 |
//! | laplace | exp(-\|x - y\|_1 / l) | infinite |
//! | cauchy | prod 1 / (1 + ((x_k - y_k) / l)^2) | 2 |
//!
//! Rahimi & Recht (2007) for gaussian, laplace and cauchy; a Matern direction is a Gaussian divided by
//! sqrt(chi^2_2nu / 2nu), a multivariate t (Rasmussen & Williams 2006, section 4.2.1).

use rayon::prelude::*;
use veridical_core::Rows;

use crate::{Directions, Error};

/// A shift-invariant kernel that the inner products of phi estimate.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Kernel {
    /// Gaussian (RBF) kernel exp(-|x - y|^2 / (2 l^2)).
    #[default]
    Gaussian,
    /// Laplace kernel exp(-|x - y|_1 / l), the product of one-dimensional exponentials.
    Laplace,
    /// Cauchy kernel prod 1 / (1 + ((x_k - y_k) / l)^2).
    Cauchy,
    /// Matern kernel with nu = 1/2: exp(-|x - y| / l).
    Matern12,
    /// Matern kernel with nu = 3/2.
    Matern32,
    /// Matern kernel with nu = 5/2.
    Matern52,
    /// Weighted mean of Gaussian kernels with length scales l `scales[c]`.
    Mixture {
        /// Factors of the length scale, one per component.
        scales: Vec<f64>,
        /// Weights, one per component; they need not sum to one.
        weights: Vec<f64>,
    },
}

/// Maximum number of components of a mixture.
const MAX_COMPONENTS: usize = 64;

impl Kernel {
    /// Names of all kernels, as in specs and flags.
    pub const NAMES: [&'static str; 7] =
        ["gaussian", "laplace", "cauchy", "matern-1/2", "matern-3/2", "matern-5/2", "mixture"];

    /// Returns the kernel called `name`; the components of a mixture must be set separately.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "gaussian" => Self::Gaussian,
            "laplace" => Self::Laplace,
            "cauchy" => Self::Cauchy,
            "matern-1/2" => Self::Matern12,
            "matern-3/2" => Self::Matern32,
            "matern-5/2" => Self::Matern52,
            "mixture" => Self::Mixture { scales: Vec::new(), weights: Vec::new() },
            _ => return None,
        })
    }

    /// Returns the name used in specs and flags.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Gaussian => "gaussian",
            Self::Laplace => "laplace",
            Self::Cauchy => "cauchy",
            Self::Matern12 => "matern-1/2",
            Self::Matern32 => "matern-3/2",
            Self::Matern52 => "matern-5/2",
            Self::Mixture { .. } => "mixture",
        }
    }

    /// Returns whether the kernel is a function of |x - y|, so that its directions may be rotated.
    pub const fn is_isotropic(&self) -> bool {
        !matches!(self, Self::Laplace | Self::Cauchy)
    }

    /// 2 nu of a Matern kernel.
    pub(crate) const fn degrees_of_freedom(&self) -> Option<usize> {
        match self {
            Self::Matern12 => Some(1),
            Self::Matern32 => Some(3),
            Self::Matern52 => Some(5),
            _ => None,
        }
    }

    /// Computes k(x, y) exactly, in f64.
    ///
    /// ```
    /// use veridical_features::Kernel;
    ///
    /// let k = Kernel::Matern12.value(&[0.0, 0.0], &[3.0, 4.0], 5.0);
    /// assert_eq!(k, (-1.0f64).exp());
    /// ```
    pub fn value(&self, x: &[f32], y: &[f32], length_scale: f64) -> f64 {
        let differences = x.iter().zip(y).map(|(x, y)| f64::from(*x) - f64::from(*y));
        match self {
            Self::Laplace => (-differences.map(f64::abs).sum::<f64>() / length_scale).exp(),
            Self::Cauchy => {
                let factor = |difference: f64| {
                    let s = difference / length_scale;
                    1.0 / (1.0 + s * s)
                };
                differences.map(factor).product()
            }
            _ => {
                let squared: f64 = differences.map(|difference| difference * difference).sum();
                self.at_distance(squared.sqrt(), length_scale).unwrap_or(f64::NAN)
            }
        }
    }

    /// Computes k for every pair of rows (0, 1), (0, 2), .. (1, 2), ..
    ///
    /// ```
    /// use veridical_core::Rows;
    /// use veridical_features::Kernel;
    ///
    /// let rows = [0.0, 0.0, 3.0, 4.0, 0.0, 0.0];
    /// let values = Kernel::Matern12.pairs(Rows::new(&rows, 2)?, 5.0);
    /// assert_eq!(values, [(-1.0f64).exp(), 1.0, (-1.0f64).exp()]);
    /// # Ok::<(), veridical_core::Error>(())
    /// ```
    pub fn pairs(&self, rows: Rows<'_, f32>, length_scale: f64) -> Vec<f64> {
        over_pairs(rows, |x, y| self.value(x, y, length_scale))
    }

    /// Computes k for two rows at the given distance; `None` if k does not depend on the distance alone.
    pub fn at_distance(&self, distance: f64, length_scale: f64) -> Option<f64> {
        let gaussian = |l: f64| (-0.5 * (distance / l) * (distance / l)).exp();
        let matern = |two_nu: f64| two_nu.sqrt() * distance / length_scale;
        Some(match self {
            Self::Gaussian => gaussian(length_scale),
            Self::Matern12 => (-matern(1.0)).exp(),
            Self::Matern32 => {
                let s = matern(3.0);
                (1.0 + s) * (-s).exp()
            }
            Self::Matern52 => {
                let s = matern(5.0);
                (1.0 + s + s * s / 3.0) * (-s).exp()
            }
            Self::Mixture { scales, weights } => {
                let components = scales.iter().zip(weights);
                let sum: f64 = components.map(|(s, w)| w * gaussian(length_scale * s)).sum();
                sum / weights.iter().sum::<f64>()
            }
            Self::Laplace | Self::Cauchy => return None,
        })
    }

    /// Returns the distance that the length scale is relative to: |x - y|_1 for laplace, else |x - y|.
    pub fn distance(&self, x: &[f32], y: &[f32]) -> f64 {
        let differences = x.iter().zip(y).map(|(x, y)| f64::from(*x) - f64::from(*y));
        match self {
            Self::Laplace => differences.map(f64::abs).sum(),
            _ => differences.map(|difference| difference * difference).sum::<f64>().sqrt(),
        }
    }

    /// Returns the largest possible 1 + k(2 delta) - 2 k(delta)^2, which is 2m times the variance of one estimated
    /// value: 1 where k(2 delta) <= 2 k(delta)^2, and 9/8 from k(2 delta) <= k(delta) alone.
    pub fn worst_variance(&self) -> f64 {
        match self {
            Self::Cauchy | Self::Mixture { .. } => 1.125,
            _ => 1.0,
        }
    }

    /// Returns E|u|^2 of a direction, or `None` where it is infinite.
    pub fn second_moment(&self, input_dim: usize, length_scale: f64) -> Option<f64> {
        let factor = match self {
            Self::Gaussian => 1.0,
            Self::Cauchy => 2.0,
            Self::Matern32 => 3.0,
            Self::Matern52 => 5.0 / 3.0,
            Self::Mixture { scales, weights } => {
                let sum: f64 = scales.iter().zip(weights).map(|(s, w)| w / (s * s)).sum();
                sum / weights.iter().sum::<f64>()
            }
            Self::Laplace | Self::Matern12 => return None,
        };
        Some(factor * input_dim as f64 / (length_scale * length_scale))
    }

    pub(crate) fn check(&self, length_scale: f64) -> Result<(), Error> {
        let Self::Mixture { scales, weights } = self else { return Ok(()) };
        if scales.is_empty() || scales.len() > MAX_COMPONENTS {
            let must_be = format!("from 1 to {MAX_COMPONENTS} numbers");
            return Err(Error::param("scales", must_be, scales.len()));
        }
        if scales.len() != weights.len() {
            let must_be = format!("as many as the scales ({})", scales.len());
            return Err(Error::param("weights", must_be, weights.len()));
        }
        for (name, values) in [("scales", scales), ("weights", weights)] {
            if let Some(bad) = values.iter().find(|x| !(x.is_finite() && **x > 0.0)) {
                return Err(Error::param(name, "finite and above 0", bad));
            }
        }
        let total: f64 = weights.iter().sum();
        if !total.is_finite() {
            return Err(Error::param("weights", "small enough for a finite sum", total));
        }
        let lost = |s: &&f64| !(length_scale * **s > 0.0 && (length_scale * **s).is_finite());
        if let Some(bad) = scales.iter().find(lost) {
            let must_be = "such that scale times length_scale stays within the range of f64";
            return Err(Error::param("scales", must_be, bad));
        }
        Ok(())
    }

    /// Rejects a family whose directions would not have this kernel's spectral distribution, with the reason.
    pub(crate) fn check_family(&self, directions: Directions) -> Result<(), Error> {
        let why = match directions {
            Directions::Iid => return Ok(()),
            Directions::Orthogonal | Directions::Hadamard if self.is_isotropic() => return Ok(()),
            Directions::Halton if matches!(self, Self::Gaussian | Self::Mixture { .. }) => {
                return Ok(());
            }
            Directions::Orthogonal | Directions::Hadamard => {
                "it rotates the directions, and those of a kernel that is a product over coordinates \
                 do not survive a rotation"
            }
            Directions::Halton => {
                "its points are made for Gaussian coordinates, and this kernel's are not"
            }
        };
        let (family, name) = (directions.name(), self.name());
        let allowed = if self.is_isotropic() { "iid, orthogonal or hadamard" } else { "iid" };
        Err(Error::param("directions", format!("{allowed} for kernel {name}: {why}"), family))
    }
}

/// Applies `f` to every pair of rows (0, 1), (0, 2), .. (1, 2), ..
pub(crate) fn over_pairs(
    rows: Rows<'_, f32>,
    f: impl Fn(&[f32], &[f32]) -> f64 + Sync,
) -> Vec<f64> {
    let rows: Vec<&[f32]> = rows.iter().collect();
    let of_row = |i: usize| rows[i + 1..].iter().map(|y| f(rows[i], y)).collect::<Vec<f64>>();
    (0..rows.len()).into_par_iter().map(of_row).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: [f32; 3] = [0.5, -1.0, 2.0];
    const Y: [f32; 3] = [1.0, 0.25, 1.5];

    /// scikit-learn 1.9.1: `rbf_kernel`, `laplacian_kernel` and `gaussian_process.kernels.Matern` at
    /// length scale 0.8; NumPy for the product.
    #[test]
    fn values_are_those_of_scikit_learn() {
        for (name, want) in [
            ("gaussian", 0.19962231455216264),
            ("laplace", 0.060054667895307945),
            ("matern-1/2", 0.1660982452158805),
            ("matern-3/2", 0.18340208590129994),
            ("matern-5/2", 0.1875423336905945),
            ("cauchy", 0.1502602100395205),
        ] {
            let got = Kernel::from_name(name).unwrap().value(&X, &Y, 0.8);
            assert!((got - want).abs() < 1e-15, "{name}: {got}");
        }
    }

    #[test]
    fn a_mixture_of_equal_gaussians_is_the_gaussian() {
        let mixture = Kernel::Mixture { scales: vec![1.0, 1.0], weights: vec![0.3, 2.0] };
        let (a, b) = (mixture.value(&X, &Y, 0.8), Kernel::Gaussian.value(&X, &Y, 0.8));
        assert!((a - b).abs() < 1e-15);
    }

    #[test]
    fn mixtures_out_of_range_are_named() {
        let message = |scales: &[f64], weights: &[f64]| {
            let kernel = Kernel::Mixture { scales: scales.into(), weights: weights.into() };
            kernel.check(1e-200).unwrap_err().to_string()
        };
        assert_eq!(message(&[], &[]), "scales must be from 1 to 64 numbers, got 0");
        assert_eq!(message(&[1.0], &[]), "weights must be as many as the scales (1), got 0");
        assert_eq!(message(&[1.0], &[-1.0]), "weights must be finite and above 0, got -1");
        assert_eq!(
            message(&[1.0; 2], &[1e308; 2]),
            "weights must be small enough for a finite sum, got inf"
        );
        assert!(message(&[1e-200], &[1.0]).starts_with("scales must be such that scale times"));
    }

    #[test]
    fn families_that_break_the_law_are_refused_with_the_reason() {
        let message = |kernel: Kernel, family| {
            kernel.check_family(family).map_err(|e| e.to_string()).unwrap_err()
        };
        assert_eq!(
            message(Kernel::Laplace, Directions::Hadamard),
            "directions must be iid for kernel laplace: it rotates the directions, and those of a \
             kernel that is a product over coordinates do not survive a rotation, got hadamard"
        );
        assert!(message(Kernel::Matern32, Directions::Halton).contains("Gaussian coordinates"));
        for name in Kernel::NAMES {
            let kernel = Kernel::from_name(name).unwrap();
            assert_eq!(kernel.name(), name);
            assert!(kernel.check_family(Directions::Iid).is_ok());
            assert_eq!(kernel.check_family(Directions::Orthogonal).is_ok(), kernel.is_isotropic());
        }
    }
}
