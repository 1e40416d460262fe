//! Items like those in the history.

use veridical_core::Seed;

use crate::settings::settings;
use crate::{Error, Graphs, Input, Result, Trainer};

settings! {
    /// Settings of `itemknn`.
    pub struct Settings {
        /// Neighbours kept of every item
        pub neighbours: usize = 100,
        /// Added to the product of norms: lowers similarities of rare items
        pub shrink: f64 = 10.0,
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
    Err(Error::Data("itemknn cannot be trained yet".into()))
}
