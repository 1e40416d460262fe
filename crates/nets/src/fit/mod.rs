//! The training loop: epochs, metrics, checkpoints, early stopping.
//!
//! Step s of E epochs with m steps each belongs to epoch e = floor(s / m) and takes the samples order_e(t), t from
//! (s mod m) B on. All draws are indexed by epoch, sample and step, so the state after any step consists of the parameters,
//! the buffers, the optimizer state and s.
//!
//! Early stopping (paper 000, F.2): training ends when the watched metric, the loss or the accuracy, has not improved by
//! more than `min_delta` for `patience` epochs ([`veridical_core::stopping`]); it is measured on the validation set if there
//! is one.
//!
//! ```
//! use veridical_core::{Job, Seed};
//! use veridical_data::generate;
//! use veridical_nets::fit::{Course, ExampleLearner, fit};
//! use veridical_nets::{
//!     Curve, Feed, Loss, NetConfig, OptimizerKind, OptimizerSettings, Schedule, Trainer, TrainerSettings,
//! };
//!
//! let seed = Seed::new(0)?;
//! let examples = generate::images(64, 8, 1, 2, seed);
//! let feed = Feed::of(&examples, &[0.5], &[0.3], seed);
//! let settings = TrainerSettings {
//!     loss: Loss::CrossEntropy { smoothing: 0.0 },
//!     optimizer: OptimizerSettings::of(OptimizerKind::Adam),
//!     lr: 1e-2,
//!     schedule: Schedule { curve: Curve::Constant, warmup: 0, total: 0 },
//!     clip: None,
//!     batch: 16,
//! };
//! let net = NetConfig::new("mlp:16".parse()?, examples.shape.into(), 2).build(seed)?;
//! let mut learner =
//!     ExampleLearner::new(Trainer::new(net, settings, |_| true)?, (feed, &examples), None, 2);
//! let course = Course { has_classes: true, ..Course::new(examples.n(), 5, seed) };
//! let learned = fit::<veridical_nets::Error>(&course, &mut learner, None, None, &Job::silent())?;
//! assert_eq!((learned.epochs, learned.steps), (5, 20));
//! # Ok::<(), veridical_nets::Error>(())
//! ```

mod documents;
mod examples;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::json;
use veridical_core::stopping::{Against, Better, EarlyStopping, Waiting};
use veridical_core::{Error as CoreError, Job, Order, Seed};
use veridical_data::{Checkpoint, Checkpoints, NamedTensor, TensorMap, named};

pub use self::documents::{DocumentLearner, DocumentPasses, Documents, first_vectors};
pub use self::examples::ExampleLearner;
use crate::{Error, Result, TrainerSettings};
use veridical_core::Pace;

/// Minimum time between notes about epochs.
const NOTE_AFTER: Duration = Duration::from_secs(1);

/// Summary of a training run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// Number of epochs that were run.
    pub epochs: u32,
    /// Number of steps that were taken.
    pub steps: u64,
    /// Mean training loss over the steps of the last epoch.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loss: Option<f64>,
    /// Training accuracy over the steps of the last epoch.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub accuracy: Option<f64>,
    /// Metrics on the validation set after the last epoch.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub validation: Option<Evaluation>,
    /// The epoch with the best value of the watched metric, on the validation set if there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub best: Option<Best>,
    /// Whether early stopping ended training before the last epoch.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub stopped_early: bool,
}

/// The best epoch and its value of the watched metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Number of the epoch, counted from 1.
    pub epoch: u32,
    /// Value of the watched metric.
    pub value: f64,
}

/// Metrics on the validation set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Mean loss.
    pub loss: f64,
    /// Accuracy, for classification.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub accuracy: Option<f64>,
    /// Root mean squared error, for regression.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rmse: Option<f64>,
}

/// Loss of a step, and the number of correct predictions.
pub type Step = (f64, Option<usize>);

/// A model that is trained step by step.
pub trait Learner {
    /// Returns the training settings.
    fn settings(&self) -> &TrainerSettings;

    /// Returns the number of steps taken.
    fn steps(&self) -> u64;

    /// Returns the learning rate of the next step.
    fn rate(&self) -> f64;

    /// Takes one step on some examples and returns the loss before it, with the number of correct predictions.
    ///
    /// # Errors
    /// [`Error::LossDiverged`] if the loss is NaN or infinite.
    fn step(&mut self, samples: &[usize], epoch: u32) -> Result<Step>;

    /// Evaluates on the validation set, if there is one.
    ///
    /// # Errors
    /// If an output is NaN or infinite, or the user stops the job.
    fn evaluate(&mut self, job: &Job<'_>) -> Result<Option<Evaluation>>;

    /// Returns all learned tensors by name.
    fn learned(&self) -> Vec<(String, &[f32])>;

    /// Returns the tensors of the optimizer state by name.
    fn kept(&self) -> Vec<(String, &[f32])>;

    /// Resumes from an earlier state: learned tensors and optimizer state.
    ///
    /// # Errors
    /// If the state belongs to another network.
    fn resume(&mut self, state: TensorMap, steps: u64) -> Result<()>;

    /// Restores earlier learned tensors; `false` if they belong to another network.
    fn restore(&mut self, learned: &TensorMap) -> bool;
}

/// The metric that determines the best epoch and early stopping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watched {
    /// Loss; lower is better.
    #[default]
    Loss,
    /// Accuracy; higher is better.
    Accuracy,
}

/// Course of a training run: epochs, early stopping, checkpoints.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Course {
    /// Number of training examples.
    pub n: usize,
    /// Random seed of the order of the examples.
    pub seed: Seed,
    /// Maximum number of epochs.
    pub epochs: u32,
    /// Metric that is watched.
    pub watched: Watched,
    /// Number of epochs without improvement after which training stops.
    pub patience: Option<u32>,
    /// Smallest change that counts as an improvement.
    pub min_delta: f64,
    /// Whether to return the network of the best epoch instead of the last.
    pub keeps_best: bool,
    /// Whether the task is classification.
    pub has_classes: bool,
    /// Number of steps between checkpoints; `None` chooses it from the cost of saving.
    pub checkpoint_every: Option<u64>,
}

impl Course {
    /// Creates a course for regression that runs all epochs and keeps the last.
    pub const fn new(n: usize, epochs: u32, seed: Seed) -> Self {
        Self {
            n,
            seed,
            epochs,
            watched: Watched::Loss,
            patience: None,
            min_delta: 0.0,
            keeps_best: false,
            has_classes: false,
            checkpoint_every: None,
        }
    }

    fn stopping(&self) -> EarlyStopping {
        let better = match self.watched {
            Watched::Loss => Better::Lower,
            Watched::Accuracy => Better::Higher,
        };
        let patience = self.patience.unwrap_or(u32::MAX);
        EarlyStopping { better, against: Against::Best, min_delta: self.min_delta, patience }
    }

    fn is_better(&self, value: f64, than: f64) -> bool {
        match self.watched {
            Watched::Loss => value < than,
            Watched::Accuracy => value > than,
        }
    }
}

/// Progress of the loop besides the network. Field names are those of checkpoints.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Memo {
    #[serde(rename = "learnt")]
    learned: Learned,
    /// Sums over the current epoch.
    loss_sum: f64,
    right: u64,
    seen: u64,
    /// The value that improvements are measured against, and the epochs since.
    mark: Option<f64>,
    waited: u32,
}

/// Trains to the end or to an early stop.
///
/// `keep` receives the metrics of each epoch and the checkpoints; training resumes from `from` if it is given.
///
/// # Errors
/// [`Error::TrainingDiverged`] with a suggestion, a state that belongs to another network, errors of `keep`, and
/// interruptions; a checkpoint is saved before an interruption is returned.
pub fn fit<E: From<Error>>(
    course: &Course,
    learner: &mut dyn Learner,
    keep: Option<&dyn Checkpoints<Error = E>>,
    from: Option<Checkpoint>,
    job: &Job<'_>,
) -> Result<Learned, E> {
    let (n, batch, epochs) = (course.n, learner.settings().batch, course.epochs);
    let per_epoch = n.div_ceil(batch) as u64;
    let total = per_epoch * u64::from(epochs);
    let mut state = State::take_up(learner, from, job)?;
    let mut samples = Vec::with_capacity(batch);
    let mut saves = Pace::new();
    let (begun, first) = (Instant::now(), learner.steps());
    let mut last_note = Instant::now();
    while learner.steps() < total && !state.memo.learned.stopped_early && !job.ends_now {
        let epoch = (learner.steps() / per_epoch) as u32;
        let order = Order::new(n as u64, course.seed, "order", epoch);
        let left = left(begun, learner.steps() - first, total - learner.steps());
        let label = format!("epoch {}/{epochs}{}{left}", epoch + 1, state.recap());
        let progress = job.progress(&label, "steps", Some(per_epoch));
        progress.advance(learner.steps() % per_epoch);
        loop {
            let at = (learner.steps() % per_epoch) as usize * batch;
            samples.clear();
            samples.extend((at..(at + batch).min(n)).map(|t| order.at(t as u64) as usize));
            state.rate = learner.rate();
            let step = learner.step(&samples, epoch);
            let (loss, right) = step.map_err(|e| state.diverged(e, epoch, learner.settings()))?;
            state.count(samples.len(), loss, right);
            progress.advance(1);
            let is_end = learner.steps().is_multiple_of(per_epoch);
            let interrupted = job.check();
            if is_end {
                break;
            }
            if course.is_due(learner.steps(), &saves) || interrupted.is_err() {
                saves.time(|| state.save(learner, keep))?;
            }
            interrupted.map_err(Error::from)?;
        }
        drop(progress);
        let is_number = |(_, values): &(String, &[f32])| values.iter().all(|x| x.is_finite());
        if !learner.learned().iter().all(is_number) {
            let cause = Error::WeightDiverged { steps: learner.steps() };
            return Err(state.diverged(cause, epoch, learner.settings()).into());
        }
        state.end_epoch(course, learner, epoch + 1, keep, job)?;
        let is_last = learner.steps() == total || state.memo.learned.stopped_early;
        if is_last || last_note.elapsed() > NOTE_AFTER {
            job.note(&format!("epoch {}/{epochs}{}", epoch + 1, state.recap()));
            last_note = Instant::now();
        }
        let interrupted = job.check();
        if is_last || course.is_due(learner.steps(), &saves) || interrupted.is_err() {
            saves.time(|| state.save(learner, keep))?;
        }
        interrupted.map_err(Error::from)?;
    }
    Ok(state.finish(learner, job)?)
}

impl Course {
    /// Whether to save a checkpoint after a step.
    fn is_due(&self, steps: u64, saves: &Pace) -> bool {
        match self.checkpoint_every {
            Some(every) => steps.is_multiple_of(every),
            None => saves.is_due(),
        }
    }
}

/// State of the loop.
struct State {
    memo: Memo,
    /// Learned tensors of the best epoch so far, if they are kept.
    best: Option<TensorMap>,
    metrics_bytes: u64,
    /// Learning rate of the last step.
    rate: f64,
}

impl State {
    fn take_up(learner: &mut dyn Learner, from: Option<Checkpoint>, job: &Job<'_>) -> Result<Self> {
        let Some(Checkpoint { done, memo, metrics_bytes, state, best }) = from else {
            return Ok(Self { memo: Memo::default(), best: None, metrics_bytes: 0, rate: 0.0 });
        };
        let memo = serde_json::from_value(memo).map_err(|e| damaged(&e.to_string()))?;
        learner.resume(state, u64::from(done)).map_err(|e| damaged(&e.to_string()))?;
        job.note(&format!("resuming after step {done}"));
        Ok(Self { memo, best, metrics_bytes, rate: 0.0 })
    }

    fn count(&mut self, n: usize, loss: f64, right: Option<usize>) {
        self.memo.loss_sum += loss * n as f64;
        self.memo.right += right.unwrap_or(0) as u64;
        self.memo.seen += n as u64;
    }

    /// Adds a suggestion to the error of a loss or weight that is not finite.
    fn diverged(&self, cause: Error, epoch: u32, settings: &TrainerSettings) -> Error {
        if !matches!(cause, Error::LossDiverged { .. } | Error::WeightDiverged { .. }) {
            return cause;
        }
        let before = match self.memo.seen {
            0 => self.memo.learned.loss,
            seen => Some(self.memo.loss_sum / seen as f64),
        };
        Error::TrainingDiverged {
            epoch: epoch + 1,
            cause: Box::new(cause),
            before,
            lr: settings.lr,
            is_clipped: settings.clip.is_some(),
        }
    }

    /// Evaluates, decides whether to continue, and writes the metrics of the epoch.
    fn end_epoch<E: From<Error>>(
        &mut self,
        course: &Course,
        learner: &mut dyn Learner,
        epoch: u32,
        keep: Option<&dyn Checkpoints<Error = E>>,
        job: &Job<'_>,
    ) -> Result<(), E> {
        let Memo { learned, loss_sum, right, seen, mark, waited } = &mut self.memo;
        let examples = *seen as f64;
        let loss = *loss_sum / examples;
        learned.loss = Some(loss);
        learned.accuracy = course.has_classes.then(|| *right as f64 / examples);
        (*loss_sum, *right, *seen) = (0.0, 0, 0);
        (learned.epochs, learned.steps) = (epoch, learner.steps());
        let mut line =
            json!({ "epoch": epoch, "steps": learned.steps, "loss": loss, "lr": self.rate });
        if let Some(accuracy) = learned.accuracy {
            line["accuracy"] = accuracy.into();
        }
        let mut measured = Evaluation { loss, accuracy: learned.accuracy, rmse: None };
        if let Some(found) = learner.evaluate(job)? {
            measured = found;
            line["validation"] = json!(found);
            learned.validation = Some(found);
        }
        let value = match course.watched {
            Watched::Loss => measured.loss,
            Watched::Accuracy => measured.accuracy.unwrap_or(f64::NAN),
        };
        if learned.best.is_none_or(|best| course.is_better(value, best.value)) {
            learned.best = Some(Best { epoch, value });
            if course.keeps_best {
                self.best = Some(owned(learner));
            }
        }
        let rule = course.stopping();
        let mut waiting = Waiting { mark: *mark, waited: *waited };
        waiting.see(&rule, value, 1);
        (*mark, *waited) = (waiting.mark, waiting.waited);
        learned.stopped_early =
            epoch < course.epochs && course.patience.is_some() && rule.is_over(*waited);
        if let Some(keep) = keep {
            self.metrics_bytes = keep.add_metrics(&line)?;
        }
        Ok(())
    }

    fn save<E>(
        &self,
        learner: &dyn Learner,
        keep: Option<&dyn Checkpoints<Error = E>>,
    ) -> Result<(), E> {
        let Some(keep) = keep else { return Ok(()) };
        let at = Checkpoint {
            done: learner.steps() as u32, // fits: the caller rejects longer schedules
            memo: json!(self.memo),
            metrics_bytes: self.metrics_bytes,
            ..Checkpoint::default()
        };
        let mut lists = learner.learned();
        lists.extend(learner.kept());
        let shapes: Vec<[usize; 1]> = lists.iter().map(|(_, values)| [values.len()]).collect();
        let tensors = lists.iter().zip(&shapes).filter(|((_, values), _)| !values.is_empty());
        let tensors: Vec<NamedTensor<'_>> =
            tensors.map(|((name, values), shape)| NamedTensor { name, shape, values }).collect();
        let best = self.best.as_ref().map(named);
        keep.save(&at, &tensors, best.as_deref())
    }

    /// Restores the best epoch, if it is kept.
    fn finish(self, learner: &mut dyn Learner, job: &Job<'_>) -> Result<Learned> {
        let Self { memo: Memo { learned, .. }, best, .. } = self;
        if let (Some(best), Some(at)) = (best, learned.best)
            && at.epoch != learned.epochs
        {
            if !learner.restore(&best) {
                return Err(damaged("its best state belongs to another network"));
            }
            job.note(&format!("keeping epoch {}, the best", at.epoch));
        }
        Ok(learned)
    }

    fn recap(&self) -> String {
        let learned = &self.memo.learned;
        let mut text = String::new();
        let mut add = |name: &str, value: Option<f64>| {
            text.extend(value.map(|value| format!("  {name} {value:.4}")));
        };
        add("loss", learned.loss);
        add("accuracy", learned.accuracy);
        add("validation loss", learned.validation.map(|found| found.loss));
        add("accuracy", learned.validation.and_then(|found| found.accuracy));
        add("rmse", learned.validation.and_then(|found| found.rmse));
        text
    }
}

fn damaged(what: &str) -> Error {
    CoreError::damaged(format!("damaged checkpoint ({what})"), "start over with ⟨force⟩").into()
}

fn owned(learner: &dyn Learner) -> TensorMap {
    let lists = learner.learned().into_iter().filter(|(_, values)| !values.is_empty());
    lists.map(|(name, values)| (name, (vec![values.len()], values.to_vec()))).collect()
}

/// The estimated remaining time, from the steps so far.
fn left(begun: Instant, done: u64, to_do: u64) -> String {
    let seconds = begun.elapsed().as_secs_f64() / done.max(1) as f64 * to_do as f64;
    match seconds {
        _ if done == 0 => String::new(),
        s if s < 90.0 => format!("  {s:.0} s left"),
        s if s < 5400.0 => format!("  {:.0} min left", s / 60.0),
        s => format!("  {:.1} h left", s / 3600.0),
    }
}
