//! Errors of kernels and of the machines that learn from them.

/// The result of a computation with kernels.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of kernels and of the machines that learn from them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Invalid data or settings, or an interruption by the user.
    #[error(transparent)]
    Core(#[from] veridical_core::Error),
    /// An error of a network.
    #[error(transparent)]
    Nets(#[from] veridical_nets::Error),
}
