//! Linear item-to-item weights in closed form.

use veridical_core::Seed;

use crate::settings::settings;
use crate::{Error, Graphs, Input, Result, Trainer};

settings! {
    /// Settings of `ease`.
    pub struct Settings {
        /// Weight of the squared weights
        pub weight_decay: f64 = 250.0,
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
    Err(Error::Data("ease cannot be trained yet".into()))
}
