//! What every trainer has in common.

use serde::{Deserialize, Serialize};
use veridical_core::progress::Progress;

use crate::{Error, Model, Result};

/// Learns a model, one pass over the data at a time.
///
/// Everything random is drawn at an address (epoch, sample), so the [`model`](Self::model) after an epoch is
/// all that the next one depends on.
pub trait Trainer: Send {
    /// What one epoch goes over: samples, tokens or rows; the length of the progress bar.
    fn samples(&self) -> u64;

    /// How many epochs there are to be; 1 for a closed form.
    fn epochs(&self) -> u32;

    /// Passes over the data once; `epoch` counts from 0. Returns the mean loss of a sample, if the method
    /// has one. Asks [`veridical_core::interrupt::check`] now and then.
    ///
    /// # Errors
    /// [`Error::Diverged`] when the loss is not finite, and when the user interrupts.
    fn epoch(&mut self, epoch: u32, progress: &Progress) -> Result<Option<f64>>;

    /// Everything that has been learnt so far; the whole state of the trainer.
    fn model(&self) -> &Model;

    /// Takes up a model of the same shapes: of a checkpoint, or warm rows.
    ///
    /// # Errors
    /// [`Error::State`] if it is of another kind or shape.
    fn restore(&mut self, model: Model) -> Result<()>;

    /// What is handed out at the end.
    fn into_model(self: Box<Self>) -> Model;
}

/// How a trainer uses its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The same bytes for any number of threads.
    #[default]
    Deterministic,
    /// Threads write without waiting for each other: fastest, and different at every run.
    Hogwild,
}

/// How the learning rate falls over the epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// It does not.
    Constant,
    /// In a straight line to a hundredth of its first value.
    #[default]
    Linear,
    /// lr / (1 + epoch).
    Inverse,
}

impl Schedule {
    /// The rate when the share `done` in [0, 1] of `epochs` epochs is behind us.
    pub fn rate(self, first: f64, done: f64, epochs: u32) -> f64 {
        match self {
            Self::Constant => first,
            Self::Linear => first * (1.0 - 0.99 * done),
            Self::Inverse => first / (1.0 + (done * f64::from(epochs)).floor()),
        }
    }
}

/// Refuses a loss that is no number.
///
/// # Errors
/// [`Error::Diverged`].
pub fn finite(loss: f64, epoch: u32, rate: f64) -> Result<f64> {
    if loss.is_finite() { Ok(loss) } else { Err(Error::Diverged { epoch: epoch + 1, loss, rate }) }
}
