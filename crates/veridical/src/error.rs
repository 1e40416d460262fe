use veridical_core::exit::Exit;

/// The result of a verb.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong in a verb.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A table could not be read or written.
    #[error(transparent)]
    Data(#[from] veridical_data::Error),
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
    /// The request does not make sense; the text says what to do.
    #[error("{0}")]
    Usage(String),
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
    #[error("interrupted; what is done is kept, continue with --resume")]
    Interrupted,
}

impl Error {
    /// How a command that fails with this error ends.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Interrupted
            | Self::Core(veridical_core::Error::Interrupted)
            | Self::Nets(veridical_nets::Error::Core(veridical_core::Error::Interrupted))
            | Self::Embed(veridical_embed::Error::Core(veridical_core::Error::Interrupted))
            | Self::Data(veridical_data::Error::Core(veridical_core::Error::Interrupted)) => {
                Exit::Interrupted
            }
            Self::GateFailed(_) => Exit::GateFailed,
            _ => Exit::BadInput,
        }
    }
}
