//! What can go wrong in a comparison.

/// The result of a comparison.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong in a comparison.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Tables, settings or limits were refused, or the job was stopped.
    #[error(transparent)]
    Core(#[from] veridical_core::Error),
    /// A feature map was refused.
    #[error(transparent)]
    Features(#[from] veridical_features::Error),
}
