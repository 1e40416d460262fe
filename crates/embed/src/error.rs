/// The result of learning or judging embeddings.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong while embeddings are learnt or judged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is outside its range, named as the flag is.
    #[error("--{name} must be {must_be}, got {got}")]
    Setting {
        /// The flag without its dashes.
        name: &'static str,
        /// The rule it broke.
        must_be: String,
        /// The value that was given.
        got: String,
    },
    /// The data does not serve this trainer or this measure; the text says what to do.
    #[error("{0}")]
    Data(String),
    /// The loss is no number any more.
    #[error(
        "epoch {epoch}: the loss is {loss} at learning rate {rate}: training diverged; lower --lr or raise --weight-decay"
    )]
    Diverged {
        /// The epoch, counted from 1.
        epoch: u32,
        /// What the loss became.
        loss: f64,
        /// The learning rate of the epoch.
        rate: f64,
    },
    /// A checkpoint or a model does not fit; the text says where and what to do.
    #[error("{0}")]
    State(String),
    /// A network refused.
    #[error(transparent)]
    Nets(#[from] veridical_nets::Error),
    /// The ground layer refused, or the user interrupted.
    #[error(transparent)]
    Core(#[from] veridical_core::Error),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] veridical_data::Error),
}

impl Error {
    /// A setting outside its range.
    pub fn setting(name: &'static str, must_be: impl Into<String>, got: impl ToString) -> Self {
        Self::Setting { name, must_be: must_be.into(), got: got.to_string() }
    }
}
