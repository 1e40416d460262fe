//! Errors of building, training and evaluating a network.

/// Errors of building, training and evaluating a network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Layers with incompatible shapes, or a model that does not accept its input.
    #[error("{layer}: {what}")]
    Shape {
        /// Layer in which the mismatch occurs.
        layer: String,
        /// Description of the mismatch, with the expected shape.
        what: String,
    },
    /// Weights that do not belong to this network.
    #[error("{}", crate::weights::mismatch(missing, extra, wrong))]
    Weights {
        /// Tensors of the network that are missing from the weights.
        missing: Vec<String>,
        /// Tensors of the weights that the network does not have.
        extra: Vec<String>,
        /// Tensors with the wrong shape, each with its shape and the expected one.
        wrong: Vec<String>,
    },
    /// The loss became NaN or infinite.
    #[error("the loss is {loss} after {steps} steps")]
    LossDiverged {
        /// Value of the loss.
        loss: f64,
        /// Number of steps taken.
        steps: u64,
    },
    /// A weight became NaN or infinite.
    #[error("a weight is NaN or infinite after {steps} steps")]
    WeightDiverged {
        /// Number of steps taken.
        steps: u64,
    },
    /// Training diverged: the learning rate is too large.
    #[error(
        "training diverged in epoch {epoch}: {cause}{}; ⟨lr⟩ {lr} is too large for this model, try ⟨lr⟩ {}{}",
        average(*before), less(*lr), if *is_clipped { "" } else { " or ⟨clip⟩ 1" }
    )]
    TrainingDiverged {
        /// Epoch in which training diverged, counted from 1.
        epoch: u32,
        /// The loss or weight that is not finite.
        cause: Box<Self>,
        /// Mean loss before the divergence.
        before: Option<f64>,
        /// Learning rate.
        lr: f64,
        /// Whether gradients are clipped.
        is_clipped: bool,
    },
    /// A setting out of range, unsuitable data or stored state, or an interruption.
    #[error(transparent)]
    Core(#[from] veridical_core::Error),
}

/// Result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Settings that contradict each other, or that are not supported.
    pub(crate) fn request(what: String) -> Self {
        veridical_core::Error::request(what, "").into()
    }

    /// Unsuitable data.
    pub(crate) fn unfit(what: String) -> Self {
        veridical_core::Error::unfit(what, "").into()
    }

    /// A stored state that does not belong to this network.
    pub(crate) fn damaged(what: String) -> Self {
        veridical_core::Error::damaged(what, "").into()
    }

    /// Returns whether the user stopped the job.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::Core(e) if e.is_interrupted())
    }
}

/// A third of a learning rate, rounded to one digit.
fn less(lr: f64) -> f64 {
    format!("{:.0e}", lr * 0.3).parse::<f64>().unwrap_or(lr * 0.3)
}

fn average(before: Option<f64>) -> String {
    before.map_or(String::new(), |loss| match loss {
        loss if loss < 1e6 => format!(" (the mean loss was {loss:.4})"),
        loss => format!(" (the mean loss was {loss:.1e})"),
    })
}
