use std::borrow::Cow;

use veridical_core::error::render;
use veridical_core::exit::Exit;

/// The result of a verb.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong in a verb.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error(transparent)]
    Io(#[from] veridical_io::Error),
    /// A spec or a transform was refused.
    #[error(transparent)]
    Features(#[from] veridical_features::Error),
    /// A training or an evaluation was refused, or diverged.
    #[error(transparent)]
    Embed(#[from] veridical_embed::Error),
    /// A network or its weights were refused.
    #[error(transparent)]
    Nets(#[from] veridical_nets::Error),
    /// A setting of the ground layer was refused, or the user interrupted.
    #[error(transparent)]
    Core(#[from] veridical_core::Error),
    /// An error of the transform with the file and the row of the table.
    #[error("{path}: {source}")]
    InFile {
        /// The input.
        path: String,
        /// What was wrong in it.
        source: veridical_features::Error,
    },
    /// The work was done, and the answer is no.
    #[error("{0}")]
    GateFailed(String),
    /// The job was interrupted, and what is done is kept.
    #[error("interrupted; what is done is kept, continue with ⟨resume⟩")]
    Interrupted,
}

/// A text with its settings as the flags of the command line.
pub fn flags(text: &str) -> String {
    render(text, |name, value| match value {
        Some(value) => format!("--{name} {value}"),
        None => format!("--{name}"),
    })
}

macro_rules! constructors {
    ($( $(#[doc = $doc:expr])* $name:ident; )*) => {
        impl Error {
            $( $(#[doc = $doc])*
            pub fn $name(what: impl Into<String>, hint: impl Into<String>) -> Self {
                veridical_core::Error::$name(what, hint).into()
            } )*
        }
    };
}

constructors! {
    /// Settings that exclude each other, or that do not fit the data.
    request;
    /// Something that is needed is not there.
    missing;
    /// The output exists already.
    exists;
    /// Sizes do not fit each other.
    shape;
    /// Data that does not serve.
    unfit;
    /// Stored state that is not what it promises to be.
    damaged;
}

impl Error {
    /// A setting outside its range.
    pub fn setting(
        name: impl Into<Cow<'static, str>>,
        must_be: impl Into<Cow<'static, str>>,
        got: impl ToString,
    ) -> Self {
        veridical_core::Error::setting(name, must_be, got).into()
    }

    /// Whether the user asked the job to stop: what is done so far is kept.
    pub fn is_interrupted(&self) -> bool {
        match self {
            Self::Interrupted => true,
            Self::Core(e) => e.is_interrupted(),
            Self::Io(e) => e.is_interrupted(),
            Self::Embed(e) => e.is_interrupted(),
            Self::Nets(e) => e.is_interrupted(),
            _ => false,
        }
    }

    /// How a command that fails with this error ends.
    pub fn exit(&self) -> Exit {
        match self {
            Self::GateFailed(_) => Exit::GateFailed,
            Self::Core(veridical_core::Error::Internal(_)) => Exit::Bug,
            _ if self.is_interrupted() => Exit::Interrupted,
            _ => Exit::BadInput,
        }
    }
}
