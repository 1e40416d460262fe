//! What can go wrong in a network.

/// What can go wrong in a network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A layer cannot be put after another, or a model does not suit its input.
    #[error("{layer}: {what}")]
    Shape {
        /// Where.
        layer: String,
        /// What does not fit, and what would.
        what: String,
    },
    /// Weights that are not those of this network.
    #[error("{}", crate::weights::complaint(missing, extra, wrong))]
    Weights {
        /// Names that the network has and the weights have not.
        missing: Vec<String>,
        /// Names that the weights have and the network has not.
        extra: Vec<String>,
        /// Tensors of another shape: what it is and what it should be.
        wrong: Vec<String>,
    },
    /// The loss is no number any more.
    #[error("the loss is {loss} after {steps} steps")]
    LossDiverged {
        /// What it is.
        loss: f64,
        /// Steps that were made.
        steps: u64,
    },
    /// A weight is no number any more.
    #[error("a weight is no number after {steps} steps")]
    WeightDiverged {
        /// Steps that were made.
        steps: u64,
    },
    /// A training that cannot go on: the learning rate is too large.
    #[error(
        "training diverged in epoch {epoch}: {cause}{}; ⟨lr⟩ {lr} is too large for this model, try ⟨lr⟩ {}{}",
        average(*before), less(*lr), if *is_clipped { "" } else { " or ⟨clip⟩ 1" }
    )]
    TrainingDiverged {
        /// Counted from 1.
        epoch: u32,
        /// What is no number.
        cause: Box<Self>,
        /// The mean loss before.
        before: Option<f64>,
        /// The learning rate.
        lr: f64,
        /// Whether gradients are clipped.
        is_clipped: bool,
    },
    /// A setting out of its range, data or stored state that does not serve, an interruption.
    #[error(transparent)]
    Core(#[from] veridical_core::Error),
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Settings that do not fit each other, or that nothing is known about.
    pub(crate) fn request(what: String) -> Self {
        veridical_core::Error::request(what, "").into()
    }

    /// Data that does not serve.
    pub(crate) fn unfit(what: String) -> Self {
        veridical_core::Error::unfit(what, "").into()
    }

    /// A state that is not of this network.
    pub(crate) fn damaged(what: String) -> Self {
        veridical_core::Error::damaged(what, "").into()
    }

    /// Whether the user asked the job to stop.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::Core(e) if e.is_interrupted())
    }
}

/// A third of a learning rate, with one digit.
fn less(lr: f64) -> f64 {
    format!("{:.0e}", lr * 0.3).parse::<f64>().unwrap_or(lr * 0.3)
}

fn average(before: Option<f64>) -> String {
    before.map_or(String::new(), |loss| match loss {
        loss if loss < 1e6 => format!(" (it was {loss:.4} on average)"),
        loss => format!(" (it was {loss:.1e} on average)"),
    })
}
