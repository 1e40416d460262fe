//! What every trainer has in common.

use veridical_core::Progress;
use veridical_core::choices;
use veridical_core::stopping::EarlyStopping;

use crate::{Model, Result};

/// Learns a model, one pass over the data at a time.
///
/// Everything random is drawn at an address (epoch, sample), so the [`model`](Self::model) after an epoch is
/// all that the next one depends on.
pub trait Trainer: Send {
    /// What one epoch goes over: samples, tokens or rows; the length of the progress bar.
    fn samples(&self) -> u64;

    /// How many epochs there are to be; 1 for a closed form.
    fn epochs(&self) -> u32;

    /// What the user should know about the data as it is used.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// When the loss has settled and training ends before its last epoch.
    fn settling(&self) -> Option<EarlyStopping> {
        None
    }

    /// Passes over the data once; `epoch` counts from 0. Returns the mean loss of a sample, if the method
    /// has one. Asks [`Progress::check`] now and then.
    ///
    /// # Errors
    /// [`veridical_core::Error::Diverged`] when the loss is not finite, and when the user interrupts.
    fn epoch(&mut self, epoch: u32, progress: &Progress) -> Result<Option<f64>>;

    /// Everything that has been learnt so far; the whole state of the trainer. It may cost a copy, which is kept until the
    /// next epoch: ask when it is needed.
    fn model(&self) -> &Model;

    /// Takes up a model of the same shapes: of a checkpoint, or warm rows.
    ///
    /// # Errors
    /// [`veridical_core::Error::Shape`] if it is of another kind or shape.
    fn restore(&mut self, model: Model) -> Result<()>;

    /// What is handed out at the end.
    fn into_model(self: Box<Self>) -> Model;
}

choices! {
    /// How a trainer uses its threads.
    pub enum Mode {
        /// The same bytes for any number of threads.
        Deterministic = "deterministic",
        /// Threads take samples as they come and lock one row at a time: different at every run.
        Hogwild = "hogwild",
    }
}

choices! {
    /// How the learning rate falls over the epochs.
    pub enum Schedule {
        /// It does not.
        Constant = "constant",
        /// In a straight line to a hundredth of its first value.
        Linear = "linear",
        /// lr / (1 + epoch).
        Inverse = "inverse",
        /// lr 0.9^epoch: like `inverse` and `constant`, the rate of an epoch does not depend on how many follow.
        Exponential = "exponential",
    }
}

impl Schedule {
    /// The rate when the share `done` in [0, 1] of `epochs` epochs is behind us.
    pub fn rate(self, first: f64, done: f64, epochs: u32) -> f64 {
        match self {
            Self::Constant => first,
            Self::Linear => first * (1.0 - 0.99 * done),
            Self::Inverse => first / f64::from(1 + Self::epoch(done, epochs)),
            Self::Exponential => first * 0.9f64.powi(Self::epoch(done, epochs)),
        }
    }

    /// Epochs behind us. A share e / epochs may be rounded to just below its epoch.
    fn epoch(done: f64, epochs: u32) -> i32 {
        (done * f64::from(epochs) + 1e-9).floor() as i32
    }
}

/// Refuses a loss that is no number.
///
/// # Errors
/// [`veridical_core::Error::Diverged`].
pub fn finite(loss: f64, epoch: u32, rate: f64) -> Result<f64> {
    if loss.is_finite() {
        return Ok(loss);
    }
    let hint = "lower ⟨lr⟩ or raise ⟨weight-decay⟩".to_owned();
    let place = format!("epoch {}", epoch + 1);
    Err(veridical_core::Error::Diverged { place, loss, rate, hint }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For every number of epochs: e / n times n may be just below e.
    #[test]
    fn rates_by_epoch_do_not_depend_on_how_many_follow() {
        for epochs in 1..200 {
            for epoch in 0..epochs {
                let done = f64::from(epoch) / f64::from(epochs);
                let inverse = Schedule::Inverse.rate(0.1, done, epochs);
                assert_eq!(inverse, 0.1 / f64::from(1 + epoch));
                let exponential = Schedule::Exponential.rate(0.1, done, epochs);
                assert_eq!(exponential, 0.1 * 0.9f64.powi(epoch as i32));
            }
        }
    }
}
