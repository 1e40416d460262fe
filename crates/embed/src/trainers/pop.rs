//! The most popular items.

use veridical_core::Seed;

use crate::settings::settings;
use crate::{Error, Graphs, Input, Result, Trainer};

settings! {
    /// Settings of `pop`.
    pub struct Settings {

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
    Err(Error::Data("pop cannot be trained yet".into()))
}
