//! The interface of all trainers.

use veridical_core::Progress;
use veridical_core::choices;
use veridical_core::stopping::EarlyStopping;

use crate::{Model, Result};

/// Trains a model, one epoch at a time.
///
/// Random draws are addressed by (epoch, sample), so the next epoch depends on the [`model`](Self::model)
/// after the previous one and on nothing else.
pub trait Trainer: Send {
    /// Returns the number of samples, tokens or rows in an epoch: the length of the progress bar.
    fn samples(&self) -> u64;

    /// Returns the number of epochs to train; 1 for a closed form.
    fn epochs(&self) -> u32;

    /// Returns notes for the user on how the data is used.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the rule that ends training early once the training loss has settled, if any.
    fn settling(&self) -> Option<EarlyStopping> {
        None
    }

    /// Runs one epoch; `epoch` counts from 0. Returns the mean loss of a sample, if the method has one. Calls
    /// [`Progress::check`] regularly.
    ///
    /// # Errors
    /// [`veridical_core::Error::Diverged`] when the loss is not finite, and when the user interrupts.
    fn epoch(&mut self, epoch: u32, progress: &Progress) -> Result<Option<f64>>;

    /// Returns everything learned so far, which is the whole state of the trainer. It may cost a copy, which is cached
    /// until the next epoch: call it only when needed.
    fn model(&self) -> &Model;

    /// Replaces the state by a model of the same shapes, from a checkpoint or a warm start.
    ///
    /// # Errors
    /// [`veridical_core::Error::Shape`] if it is of another kind or shape.
    fn restore(&mut self, model: Model) -> Result<()>;

    /// Returns the final model.
    fn into_model(self: Box<Self>) -> Model;
}

choices! {
    /// How a trainer uses threads.
    pub enum Mode {
        /// The same result, byte for byte, for any number of threads.
        Deterministic = "deterministic",
        /// Threads process samples concurrently and lock one row at a time: every run differs.
        Hogwild = "hogwild",
    }
}

choices! {
    /// The learning-rate schedule.
    pub enum Schedule {
        /// The learning rate does not change.
        Constant = "constant",
        /// Linear decay to a hundredth of the initial value.
        Linear = "linear",
        /// Inverse decay: lr / (1 + epoch).
        Inverse = "inverse",
        /// Exponential decay: lr 0.9^epoch. As with `inverse` and `constant`, the learning rate of an epoch does not depend
        /// on the number of epochs.
        Exponential = "exponential",
    }
}

impl Schedule {
    /// Returns the learning rate after the fraction `done`, in [0, 1], of `epochs` epochs, with initial value `first`.
    ///
    /// ```
    /// use veridical_embed::Schedule;
    ///
    /// assert_eq!(Schedule::Linear.rate(0.1, 0.0, 10), 0.1);
    /// assert!((Schedule::Linear.rate(0.1, 1.0, 10) - 0.001).abs() < 1e-12);
    /// assert_eq!(Schedule::Inverse.rate(0.1, 0.5, 2), 0.05); // after one of two epochs
    /// ```
    pub fn rate(self, first: f64, done: f64, epochs: u32) -> f64 {
        match self {
            Self::Constant => first,
            Self::Linear => first * (1.0 - 0.99 * done),
            Self::Inverse => first / f64::from(1 + Self::epoch(done, epochs)),
            Self::Exponential => first * 0.9f64.powi(Self::epoch(done, epochs)),
        }
    }

    /// Completed epochs. The fraction e / epochs may be rounded to just below its epoch.
    fn epoch(done: f64, epochs: u32) -> i32 {
        (done * f64::from(epochs) + 1e-9).floor() as i32
    }
}

/// Returns the loss if it is finite.
///
/// # Errors
/// [`veridical_core::Error::Diverged`] for a loss that is NaN or infinite.
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
