//! Skip-gram and CBOW with negative sampling.

use veridical_core::Seed;

use crate::settings::settings;
use crate::{Error, Graphs, Input, Result, Trainer};

settings! {
    /// Settings of `item2vec`.
    pub struct Settings {
        /// Values of a vector
        pub dim: usize = 32,
        /// Neighbours on each side, at most
        pub window: usize = 5,
        /// Negative samples per positive one
        pub negatives: usize = 5,
        /// Frequent tokens above this share are thinned out; 0 keeps all
        pub subsample: f64 = 0.0,
        /// Negatives are drawn by count to this power
        pub power: f64 = 0.75,
        /// Passes over the data
        pub epochs: u32 = 10,
        /// Learning rate of the first step
        pub lr: f64 = 0.025,
        /// How the rate falls: constant, linear (to a hundredth), inverse (lr / (1 + epoch))
        pub schedule: crate::Schedule = crate::Schedule::Linear,
        /// Weight of the squared norm of the rows a sample uses
        pub weight_decay: f64 = 0.0,
        /// Probability to leave a coordinate out of a sample
        pub dropout: f64 = 0.0,
        /// Predict an item from the mean of its neighbours instead of each neighbour from it
        pub cbow: bool = false,
        /// What is handed out: input, both (with the context table) or sum
        pub vectors: Handed = Handed::Input,
        /// SSE: probability that an input item is replaced
        pub sse_item: f64 = 0.0,
        /// SSE: probability that a target item is replaced
        pub sse_context: f64 = 0.0,
        /// SSE-Graph: how much likelier a neighbour is than another item
        pub rho_item: f64 = 100.0,
        /// SSE-Graph: the same for targets
        pub rho_context: f64 = 100.0,
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
    Err(Error::Data("item2vec cannot be trained yet".into()))
}

/// Which vectors are handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Handed {
    /// The input vectors.
    #[default]
    Input,
    /// Input vectors, and target vectors as the table `context`.
    Both,
    /// Their sum.
    Sum,
}
