//! The training loop: epochs, metrics, checkpoints, validation, early stopping.
//!
//! It ends after the last epoch, when the training loss has settled ([`Trainer::settling`]), or after `patience` epochs
//! without improvement on the validation set; both rules are those of [`veridical_core::stopping`]. With a validation set
//! the best state is restored at the end. This module does no file I/O: metrics and checkpoints go through [`Checkpoints`].

mod validation;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use veridical_core::Job;
use veridical_core::stopping::{EarlyStopping, Waiting};
use veridical_data::{Checkpoint, Checkpoints, NamedTensor, TensorMap, named};

pub use self::validation::{Measures, Validate, Validation};
use crate::{Error, Model, Part, Trainer};
use veridical_core::Pace;

/// The least time between two notes about epochs.
const NOTE_AFTER: Duration = Duration::from_secs(1);

/// When the model is validated, and when training stops early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FitSettings {
    /// Validate after every `eval_every` epochs, and after the last.
    pub eval_every: u32,
    /// Stop after this many epochs without improvement.
    pub patience: Option<u32>,
}

impl Default for FitSettings {
    fn default() -> Self {
        Self { eval_every: 1, patience: None }
    }
}

/// The best epoch and its value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// The epoch, counted from 1.
    pub epoch: u32,
    /// The value of the decisive metric on the validation set.
    pub value: f64,
}

/// The summary of a training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    /// The number of epochs that were run.
    pub epochs: u32,
    /// The mean loss of the last epoch, if the method has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loss: Option<f64>,
    /// The name of the decisive metric, if the model was validated.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub measure: Option<String>,
    /// The best epoch by that metric.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub best: Option<Best>,
    /// The metrics of that epoch on the validation set.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub validation: Option<BTreeMap<String, f64>>,
}

/// Discards all metrics and checkpoints.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

impl Checkpoints for Nowhere {
    type Error = Error;

    fn add_metrics(&self, _line: &Value) -> Result<u64, Error> {
        Ok(0)
    }

    fn save(
        &self,
        _at: &Checkpoint,
        _state: &[NamedTensor<'_>],
        _best: Option<&[NamedTensor<'_>]>,
    ) -> Result<(), Error> {
        Ok(())
    }
}

/// Trains to the last epoch or until early stopping; with a validation set the best state is restored at the end.
///
/// `keep` stores metrics and checkpoints, `from` is a checkpoint to resume from, and `each` is called after every epoch
/// with the number of epochs done, the loss and the trainer; it calls [`model`](Trainer::model) if it needs the model.
///
/// ```
/// use veridical_core::{Job, Seed};
/// use veridical_data::generate::{ShopSettings, shop};
/// use veridical_embed::fit::{Nowhere, fit};
/// use veridical_embed::{Error, Graphs, Input, Method, Trainer};
///
/// let seed = Seed::new(0)?;
/// let settings =
///     ShopSettings { users: 30, items: 12, clusters: 3, per_user: 6, skew: 0.5, noise: 0.1, seed };
/// let data = shop(settings)?.data;
/// let rows: Vec<u32> = (0..data.len() as u32).collect();
/// let graphs = Graphs::default();
/// let given = serde_json::Map::from_iter([("epochs".to_owned(), 3.into())]);
/// let mut trainer = Method::Bpr.trainer(&given, Input::of(&data, &rows), &graphs, seed)?;
/// let mut losses = Vec::new();
/// let each = |_, loss: Option<f64>, _: &dyn Trainer| {
///     losses.extend(loss);
///     Ok::<(), Error>(())
/// };
/// let job = Job::silent();
/// let fitted = fit(&mut *trainer, Default::default(), None, None::<&Nowhere>, None, &job, each)?;
/// assert_eq!((fitted.epochs, losses.len()), (3, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of the trainer, of the validation, of `keep` and of `each`; an interruption, after a checkpoint was saved; and
/// [`veridical_core::Error::Damaged`] for a damaged checkpoint.
pub fn fit<K: Checkpoints, E: From<Error> + From<K::Error>>(
    trainer: &mut dyn Trainer,
    settings: FitSettings,
    validation: Option<&dyn Validate>,
    keep: Option<&K>,
    from: Option<Checkpoint>,
    job: &Job<'_>,
    mut each: impl FnMut(u32, Option<f64>, &dyn Trainer) -> Result<(), E>,
) -> Result<Fitted, E> {
    let mut state = State::start(trainer, settings, validation, from, job)?;
    let epochs = trainer.epochs();
    let mut saves = Pace::new();
    let mut last_note = Instant::now();
    while state.done < epochs && !state.is_over() && !job.ends_now {
        let label = format!("epoch {}/{epochs}{}", state.done + 1, state.recap());
        let progress = job.progress(&label, "samples", Some(trainer.samples()));
        let outcome = trainer.epoch(state.done, &progress);
        drop(progress);
        state.take_loss(outcome?);
        state.done += 1;
        let is_due = state.done.is_multiple_of(settings.eval_every) || state.done == epochs;
        let due = validation.filter(|_| is_due);
        if let Some(validation) = due {
            let is_last = state.done == epochs;
            state.validate(trainer.model(), validation, is_last, job)?;
        }
        if let Some(keep) = keep {
            state.metrics_bytes = keep.add_metrics(&state.line(due.is_some()))?;
        }
        each(state.done, state.memo.loss, &*trainer)?;
        let is_last = state.done == epochs || state.is_over();
        if is_last || last_note.elapsed() > NOTE_AFTER {
            job.note(&format!("epoch {}/{epochs}{}", state.done, state.recap()));
            last_note = Instant::now();
        }
        let interrupted = job.check();
        if let Some(keep) = keep
            && (is_last || interrupted.is_err() || saves.is_due())
        {
            saves.time(|| state.save::<K, E>(trainer.model(), keep))?;
        }
        interrupted.map_err(Error::from)?;
    }
    let State { done, memo, best, .. } = state;
    if let (Some(best), Some(at)) = (best, memo.best)
        && at.epoch != done
    {
        trainer.restore(Model::from_parts(best)?)?;
    }
    let measure = memo.best.and(validation).map(|validation| validation.decisive().to_owned());
    let Memo { best, loss, validation, of_best, .. } = memo;
    Ok(Fitted { epochs: done, loss, measure, best, validation: of_best.or(validation) })
}

/// Whether products of the values are finite.
fn is_finite(model: &Model) -> Result<bool, Error> {
    let most = f32::MAX.sqrt();
    Ok(model.parts()?.iter().all(|part| part.values.iter().all(|x| x.abs() < most)))
}

/// The state of the loop between epochs; a part of every checkpoint.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Memo {
    best: Option<Best>,
    loss: Option<f64>,
    /// Consecutive epochs that improved the loss too little.
    #[serde(default)]
    still: u32,
    /// The last metrics on the validation set.
    validation: Option<BTreeMap<String, f64>>,
    /// Those of the best epoch.
    #[serde(default)]
    of_best: Option<BTreeMap<String, f64>>,
}

/// The state of the loop.
struct State {
    done: u32,
    memo: Memo,
    /// The best state so far, if there is a validation set.
    best: Option<TensorMap>,
    metrics_bytes: u64,
    /// The rule on the training loss.
    settling: Option<EarlyStopping>,
    /// The rule on the decisive metric; without patience it only defines which value is the best.
    patience: Option<EarlyStopping>,
}

impl State {
    fn start(
        trainer: &mut dyn Trainer,
        settings: FitSettings,
        validation: Option<&dyn Validate>,
        from: Option<Checkpoint>,
        job: &Job<'_>,
    ) -> Result<Self, Error> {
        let patience = settings.patience.unwrap_or(u32::MAX);
        let new = Self {
            done: 0,
            memo: Memo::default(),
            best: None,
            metrics_bytes: 0,
            settling: trainer.settling(),
            patience: validation.map(|rows| EarlyStopping::patience(rows.better(), patience)),
        };
        let Some(Checkpoint { done, memo, metrics_bytes, state, best }) = from else {
            return Ok(new);
        };
        trainer.restore(Model::from_parts(state)?)?;
        let memo = serde_json::from_value(memo).map_err(|e| {
            let what = format!("damaged checkpoint ({e})");
            veridical_core::Error::damaged(what, "start over with ⟨force⟩")
        })?;
        job.note(&format!("resuming after epoch {done}"));
        Ok(Self { done, memo, best, metrics_bytes, ..new })
    }

    fn validate(
        &mut self,
        model: &Model,
        validation: &dyn Validate,
        is_last: bool,
        job: &Job<'_>,
    ) -> Result<(), Error> {
        let measures = match validation.measures(model, job) {
            // The last step of the epoch diverged: the next one says so, with its loss.
            Err(error) if !is_last && !error.is_interrupted() && !is_finite(model)? => {
                return Ok(());
            }
            outcome => outcome?,
        };
        let value = measures.get(validation.decisive()).copied().unwrap_or(f64::NAN);
        let best = self.memo.best.map(|best| best.value);
        if self.patience.is_some_and(|rule| rule.improves(value, best)) {
            self.memo.best = Some(Best { epoch: self.done, value });
            self.memo.of_best = Some(measures.clone());
            self.best = Some(model.tensors()?);
        }
        self.memo.validation = Some(measures);
        Ok(())
    }

    /// The metrics of an epoch.
    fn line(&self, is_validated: bool) -> Value {
        let mut line = json!({ "epoch": self.done });
        if let Some(loss) = self.memo.loss {
            line["loss"] = loss.into();
        }
        if is_validated {
            line["validation"] = json!(self.memo.validation);
        }
        line
    }

    fn save<K: Checkpoints, E: From<Error> + From<K::Error>>(
        &self,
        model: &Model,
        keep: &K,
    ) -> Result<(), E> {
        let Self { done, metrics_bytes, .. } = *self;
        let memo = json!(self.memo);
        let at = Checkpoint { done, memo, metrics_bytes, ..Checkpoint::default() };
        let best = self.best.as_ref().map(named);
        let parts = model.parts()?;
        let parts: Vec<NamedTensor<'_>> = parts.iter().map(Part::named).collect();
        Ok(keep.save(&at, &parts, best.as_deref())?)
    }

    fn take_loss(&mut self, loss: Option<f64>) {
        if let (Some(rule), Some(loss)) = (self.settling, loss) {
            let mut waiting = Waiting { mark: self.memo.loss, waited: self.memo.still };
            waiting.see(&rule, loss, 1);
            self.memo.still = waiting.waited;
        }
        self.memo.loss = loss;
    }

    /// Whether the loss has settled or patience has run out.
    fn is_over(&self) -> bool {
        let is_settled = self.settling.is_some_and(|rule| rule.is_over(self.memo.still));
        let waited = self.memo.best.map(|best| self.done - best.epoch);
        is_settled || self.patience.zip(waited).is_some_and(|(rule, waited)| rule.is_over(waited))
    }

    fn recap(&self) -> String {
        let loss = self.memo.loss.map(|loss| format!("  loss {loss:.4}"));
        let measures = self.memo.validation.iter().flatten();
        let measures = measures.map(|(name, value)| format!("  {name} {value:.4}"));
        loss.into_iter().chain(measures).collect()
    }
}
