//! Matrix factorisation of ratings.

use veridical_core::Seed;

use crate::settings::settings;
use crate::{Error, Graphs, Input, Result, Trainer};

settings! {
    /// Settings of `mf`.
    pub struct Settings {
        /// Values of a vector
        pub dim: usize = 64,
        /// Passes over the data
        pub epochs: u32 = 20,
        /// Learning rate of the first step
        pub lr: f64 = 0.05,
        /// How the rate falls: constant, linear (to a hundredth), inverse (lr / (1 + epoch))
        pub schedule: crate::Schedule = crate::Schedule::Linear,
        /// Weight of the squared norm of the rows a sample uses
        pub weight_decay: f64 = 0.01,
        /// Probability to leave a coordinate out of a sample
        pub dropout: f64 = 0.0,
        /// Learn a bias of every user and item
        pub biases: bool = true,
        /// Take the mean rating out first
        pub mean: bool = true,
        /// SSE: probability that a user is replaced in a sample
        pub sse_user: f64 = 0.0,
        /// SSE: probability that an item is replaced in a sample
        pub sse_item: f64 = 0.0,
        /// SSE-Graph: how much likelier a neighbour is than another user
        pub rho_user: f64 = 100.0,
        /// SSE-Graph: how much likelier a neighbour is than another item
        pub rho_item: f64 = 100.0,
        /// deterministic (same bytes for any threads) or hogwild (fastest, never twice the same)
        pub mode: crate::Mode = crate::Mode::Deterministic,
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
    Err(Error::Data("mf cannot be trained yet".into()))
}
