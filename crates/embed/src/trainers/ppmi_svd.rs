//! Shifted positive pointwise mutual information by a randomised SVD.

use veridical_core::Seed;

use crate::settings::settings;
use crate::{Error, Graphs, Input, Result, Trainer};

settings! {
    /// Settings of `ppmi-svd`.
    pub struct Settings {
        /// Values of a vector
        pub dim: usize = 32,
        /// Neighbours on each side
        pub window: usize = 5,
        /// ln of this is taken off the mutual information (the k of skip-gram)
        pub shift: f64 = 1.0,
        /// Context counts are taken to this power
        pub power: f64 = 0.75,
        /// Singular values are taken to this power in the vectors
        pub exponent: f64 = 0.5,
        /// Columns of the random sketch beyond dim
        pub oversampling: usize = 10,
        /// Power iterations
        pub iterations: usize = 4,
    }
}

/// A trainer before its first epoch.
///
/// # Errors
/// Settings out of range, and data that does not serve the method.
pub fn trainer<'a>(
    _settings: &Settings,
    _input: Input<'a>,
    _graphs: &'a Graphs,
    _seed: Seed,
) -> Result<Box<dyn Trainer + 'a>> {
    Err(Error::Data("ppmi-svd cannot be trained yet".into()))
}
