use std::borrow::Cow;

use veridical_core::error::render;
use veridical_core::exit::Exit;

/// Result type of all verbs.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error type of all verbs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error(transparent)]
    Io(#[from] veridical_io::Error),
    /// A feature spec or a transform was rejected.
    #[error(transparent)]
    Features(#[from] veridical_features::Error),
    /// Training or evaluation was rejected, or training diverged.
    #[error(transparent)]
    Embed(#[from] veridical_embed::Error),
    /// A network or its weights were rejected.
    #[error(transparent)]
    Nets(#[from] veridical_nets::Error),
    /// A setting was rejected, or the user interrupted the job.
    #[error(transparent)]
    Core(#[from] veridical_core::Error),
    /// The transform failed on a row of this file.
    #[error("{path}: {source}")]
    InFile {
        /// Path of the input file.
        path: String,
        /// Cause, with the row number.
        source: veridical_features::Error,
    },
    /// The comparison ran, and a limit was not met.
    #[error("{0}")]
    GateFailed(String),
    /// The job was interrupted; finished work is kept.
    #[error("interrupted; finished work is kept, continue with ⟨resume⟩")]
    Interrupted,
}

impl From<veridical_kernels::Error> for Error {
    fn from(error: veridical_kernels::Error) -> Self {
        match error {
            veridical_kernels::Error::Core(error) => error.into(),
            veridical_kernels::Error::Nets(error) => error.into(),
            other => Self::request(other.to_string(), ""),
        }
    }
}

/// Renders the ⟨settings⟩ in a text as command-line flags.
///
/// # Example
/// ```
/// let message = "⟨k⟩ must be at least 1, got 0; try ⟨k 10⟩";
/// assert_eq!(veridical::flags(message), "--k must be at least 1, got 0; try --k 10");
/// ```
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
    /// Settings that conflict with each other, or do not match the data.
    request;
    /// A required input is missing.
    missing;
    /// The output already exists.
    exists;
    /// Incompatible shapes or dimensions.
    shape;
    /// Unusable data.
    unfit;
    /// Stored state that is damaged.
    damaged;
}

impl Error {
    /// A setting is outside its valid range.
    pub fn setting(
        name: impl Into<Cow<'static, str>>,
        must_be: impl Into<Cow<'static, str>>,
        got: impl ToString,
    ) -> Self {
        veridical_core::Error::setting(name, must_be, got).into()
    }

    /// Returns whether the job was interrupted by the user; finished work is kept.
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

    /// Returns the kind of error in one word, for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Core(e) | Self::Io(veridical_io::Error::Core(e)) => e.kind(),
            Self::Embed(veridical_embed::Error::Core(e)) => e.kind(),
            Self::Io(_) | Self::InFile { .. } => "file",
            Self::Features(_) => "features",
            Self::Embed(_) | Self::Nets(_) => "training",
            Self::GateFailed(_) => "gate",
            Self::Interrupted => "interrupted",
        }
    }

    /// Returns the exit status of a command that fails with this error.
    pub fn exit(&self) -> Exit {
        match self {
            Self::GateFailed(_) => Exit::GateFailed,
            Self::Core(veridical_core::Error::Internal(_)) => Exit::Bug,
            _ if self.is_interrupted() => Exit::Interrupted,
            _ => Exit::BadInput,
        }
    }
}
