use std::borrow::Cow;

use veridical_core::Error as Kind;

/// The result of learning or judging embeddings.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong while embeddings are learned or judged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A network refused.
    #[error(transparent)]
    Nets(#[from] veridical_nets::Error),
    /// A setting, the data or a stored state does not serve, training diverged, or the user interrupted.
    #[error(transparent)]
    Core(#[from] Kind),
}

/// A sentence as what is wrong and what to do about it.
fn halves(text: &str) -> (&str, &str) {
    text.split_once("; ").unwrap_or((text, ""))
}

impl Error {
    /// Whether the user asked the job to stop.
    pub fn is_interrupted(&self) -> bool {
        match self {
            Self::Core(e) => e.is_interrupted(),
            Self::Nets(e) => e.is_interrupted(),
        }
    }

    /// Whether the loss became no number: other settings may do.
    pub const fn is_diverged(&self) -> bool {
        matches!(self, Self::Core(Kind::Diverged { .. }))
    }

    /// A setting outside its range.
    pub fn setting(
        name: impl Into<Cow<'static, str>>,
        must_be: impl Into<Cow<'static, str>>,
        got: impl ToString,
    ) -> Self {
        Kind::setting(name, must_be, got).into()
    }

    /// Settings that exclude each other, that do not exist, or that do not fit the data.
    pub(crate) fn request(text: impl AsRef<str>) -> Self {
        let (what, hint) = halves(text.as_ref());
        Kind::request(what, hint).into()
    }

    /// Data that does not serve this trainer or this measure.
    pub(crate) fn unfit(text: impl AsRef<str>) -> Self {
        let (what, hint) = halves(text.as_ref());
        Kind::unfit(what, hint).into()
    }

    /// A state of another configuration.
    pub(crate) fn shape(text: impl AsRef<str>) -> Self {
        let (what, hint) = halves(text.as_ref());
        Kind::shape(what, hint).into()
    }

    /// A state that is none.
    pub(crate) fn damaged(text: impl AsRef<str>) -> Self {
        let (what, hint) = halves(text.as_ref());
        Kind::damaged(what, hint).into()
    }
}
