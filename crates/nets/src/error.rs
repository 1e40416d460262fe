//! What can go wrong in a network.

/// What can go wrong in a network.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A layer cannot be put after another, or a model does not suit its input.
    #[error("{layer}: {what}")]
    Shape {
        /// Where.
        layer: String,
        /// What does not fit, and what would.
        what: String,
    },
    /// A setting that makes no sense.
    #[error("{0}")]
    Setting(String),
    /// Weights that are not those of this network.
    #[error("{0}")]
    Weights(String),
    /// The loss is no number any more.
    #[error("{0}")]
    Diverged(String),
    /// From the ground below.
    #[error(transparent)]
    Core(#[from] veridical_core::Error),
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
