//! Errors of a comparison.

/// The result of a comparison.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of a comparison.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Invalid tables, settings or limits, or an interruption by the user.
    #[error(transparent)]
    Core(#[from] veridical_core::Error),
    /// An error of a feature map.
    #[error(transparent)]
    Features(#[from] veridical_features::Error),
}
