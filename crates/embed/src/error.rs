use std::borrow::Cow;

use veridical_core::Error as Kind;

/// The result of training or evaluating embeddings.
pub type Result<T> = std::result::Result<T, Error>;

/// Errors of training and evaluating embeddings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of a network.
    #[error(transparent)]
    Nets(#[from] veridical_nets::Error),
    /// An invalid setting, unsuitable data or a bad checkpoint, training that diverged, or an interruption by the user.
    #[error(transparent)]
    Core(#[from] Kind),
}

/// Splits a message into what is wrong and what to do about it.
fn halves(text: &str) -> (&str, &str) {
    text.split_once("; ").unwrap_or((text, ""))
}

impl Error {
    /// Whether the user interrupted the job.
    pub fn is_interrupted(&self) -> bool {
        match self {
            Self::Core(e) => e.is_interrupted(),
            Self::Nets(e) => e.is_interrupted(),
        }
    }

    /// Whether training diverged to a loss that is not finite; other settings may work.
    pub const fn is_diverged(&self) -> bool {
        matches!(self, Self::Core(Kind::Diverged { .. }))
    }

    /// Makes the error of a setting outside its range.
    pub fn setting(
        name: impl Into<Cow<'static, str>>,
        must_be: impl Into<Cow<'static, str>>,
        got: impl ToString,
    ) -> Self {
        Kind::setting(name, must_be, got).into()
    }

    /// Makes the error of settings that are mutually exclusive, unknown, or incompatible with the data.
    pub(crate) fn request(text: impl AsRef<str>) -> Self {
        let (what, hint) = halves(text.as_ref());
        Kind::request(what, hint).into()
    }

    /// Makes the error of data that is unsuitable for this trainer or metric.
    pub(crate) fn unfit(text: impl AsRef<str>) -> Self {
        let (what, hint) = halves(text.as_ref());
        Kind::unfit(what, hint).into()
    }

    /// Makes the error of a checkpoint with another configuration.
    pub(crate) fn shape(text: impl AsRef<str>) -> Self {
        let (what, hint) = halves(text.as_ref());
        Kind::shape(what, hint).into()
    }

    /// Makes the error of a damaged checkpoint.
    pub(crate) fn damaged(text: impl AsRef<str>) -> Self {
        let (what, hint) = halves(text.as_ref());
        Kind::damaged(what, hint).into()
    }
}
