//! Alternating least squares.

use veridical_core::Seed;

use crate::settings::settings;
use crate::{Error, Graphs, Input, Result, Trainer};

settings! {
    /// Settings of `als`.
    pub struct Settings {
        /// Values of a vector
        pub dim: usize = 64,
        /// Rounds over both sides
        pub epochs: u32 = 15,
        /// implicit (choices weighted by confidence) or explicit (ratings)
        pub feedback: Feedback = Feedback::Implicit,
        /// implicit: confidence 1 + alpha r
        pub alpha: f64 = 1.0,
        /// Weight of the squared norms
        pub weight_decay: f64 = 0.01,
        /// Multiply the weight decay by the number of ratings of a row (Zhou et al. 2008)
        pub scaled_decay: bool = false,
        /// cg (conjugate gradients) or cholesky
        pub solver: Solver = Solver::Cg,
        /// Steps of cg
        pub cg_steps: usize = 3,
        /// explicit: take the mean rating out first
        pub mean: bool = true,
        /// Weight of the graph Laplacian among users
        pub graph_weight_user: f64 = 0.0,
        /// Weight of the graph Laplacian among items
        pub graph_weight_item: f64 = 0.0,
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
    Err(Error::Data("als cannot be trained yet".into()))
}

/// What the values of the interactions mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feedback {
    /// Choices: a missing pair counts as a weak no.
    #[default]
    Implicit,
    /// Ratings: a missing pair says nothing.
    Explicit,
}

/// How a row is solved for.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Solver {
    /// A few steps of conjugate gradients from the row as it is.
    #[default]
    Cg,
    /// Exactly.
    Cholesky,
}
