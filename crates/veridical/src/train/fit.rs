//! The loop around a trainer: epochs, metrics, checkpoints, early stopping.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::json;
use veridical_core::interrupt;
use veridical_data::run::{Checkpoint, NamedTensor, RunWriter, TensorMap};
use veridical_embed::{Model, Part, Settling, Tensors, Trainer};

use super::judge::Judge;
use crate::{Error, Observer, Result};

/// A state is written at most so often, besides the last one.
const CHECKPOINT_AFTER: Duration = Duration::from_millis(250);
/// Large states take long to write; training between two of them takes at least so many times longer.
const CHECKPOINT_SHARE: u32 = 20;
/// Epochs are told about at most so often.
const NOTE_AFTER: Duration = Duration::from_secs(1);

/// When the model is judged, and when that ends the training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stopping {
    /// Judge after every so many epochs, and after the last.
    pub eval_every: u32,
    /// End after so many epochs without a better value, and keep the best model.
    pub patience: Option<u32>,
}

/// What the loop remembers between epochs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Memo {
    best: Option<Best>,
    loss: Option<f64>,
    /// Epochs in a row that improved the loss too little.
    #[serde(default)]
    still: u32,
    validation: Option<BTreeMap<String, f64>>,
}

/// The best epoch, counted from 1, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Counted from 1.
    pub epoch: u32,
    /// The decisive measure on the validation rows.
    pub value: f64,
}

/// How a training went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    /// Epochs that were run.
    pub epochs: u32,
    /// The mean loss of the last epoch, if the method has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loss: Option<f64>,
    /// The measure that decides, if the model was judged.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub measure: Option<String>,
    /// The best epoch by that measure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub best: Option<Best>,
    /// The last measures on the validation rows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub validation: Option<BTreeMap<String, f64>>,
}

/// Trains to the end or to the stop; with patience the trainer is left with the best state.
pub(crate) fn fit(
    trainer: &mut dyn Trainer,
    writer: Option<&RunWriter>,
    from: Option<Checkpoint>,
    stopping: Stopping,
    judge: Option<&Judge<'_>>,
    observer: &dyn Observer,
) -> Result<Fitted> {
    let mut state = State::take_up(trainer, from, observer)?;
    let epochs = trainer.epochs();
    let mut saves = Pace::new();
    let mut last_note = Instant::now();
    let settling = trainer.settling();
    while state.done < epochs && !state.is_exhausted(stopping) && !state.is_settled(settling) {
        let label = format!("epoch {}/{epochs}{}", state.done + 1, state.recap());
        let progress = observer.progress(&label, "samples", Some(trainer.samples()));
        let outcome = trainer.epoch(state.done, &progress);
        drop(progress);
        state.take_loss(outcome?, settling);
        state.done += 1;
        let is_due = state.done.is_multiple_of(stopping.eval_every) || state.done == epochs;
        let judged = judge.filter(|_| is_due);
        if let Some(judge) = judged {
            state.judge(trainer.model(), judge, stopping)?;
        }
        state.add_metrics(writer, judged.is_some())?;
        let is_last =
            state.done == epochs || state.is_exhausted(stopping) || state.is_settled(settling);
        if is_last || last_note.elapsed() > NOTE_AFTER {
            observer.note(&format!("epoch {}/{epochs}{}", state.done, state.recap()));
            last_note = Instant::now();
        }
        let interrupted = interrupt::check();
        if let Some(writer) = writer
            && (is_last || interrupted.is_err() || saves.is_due())
        {
            saves.time(|| state.save(trainer.model(), writer))?;
        }
        interrupted?;
    }
    let State { done, memo, best, .. } = state;
    if let (Some(best), Some(at)) = (best, memo.best)
        && at.epoch != done
    {
        trainer.restore(Model::from_parts(Tensors(best))?)?;
    }
    let measure = memo.best.and(judge).map(|judge| judge.decisive().to_owned());
    let Memo { best, loss, validation, .. } = memo;
    Ok(Fitted { epochs: done, loss, measure, best, validation })
}

/// Where the loop stands.
struct State {
    done: u32,
    memo: Memo,
    /// The best state so far; kept with patience alone.
    best: Option<TensorMap>,
    metrics_bytes: u64,
}

impl State {
    fn take_up(
        trainer: &mut dyn Trainer,
        from: Option<Checkpoint>,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let Some(Checkpoint { done, memo, metrics_bytes, state, best }) = from else {
            return Ok(Self { done: 0, memo: Memo::default(), best: None, metrics_bytes: 0 });
        };
        trainer.restore(Model::from_parts(Tensors(state))?)?;
        let damaged =
            |e| Error::Usage(format!("damaged checkpoint ({e}); start over with --force"));
        let memo = serde_json::from_value(memo).map_err(damaged)?;
        observer.note(&format!("continuing after epoch {done}"));
        Ok(Self { done, memo, best, metrics_bytes })
    }

    fn judge(&mut self, model: &Model, judge: &Judge<'_>, stopping: Stopping) -> Result<()> {
        let measures = judge.measures(model)?;
        let value = measures.get(judge.decisive()).copied().unwrap_or(f64::NAN);
        if self.memo.best.is_none_or(|best| judge.is_better(value, best.value)) {
            self.memo.best = Some(Best { epoch: self.done, value });
            if stopping.patience.is_some() {
                self.best = Some(owned(&model.parts()?));
            }
        }
        self.memo.validation = Some(measures);
        Ok(())
    }

    fn add_metrics(&mut self, writer: Option<&RunWriter>, judged: bool) -> Result<()> {
        let Some(writer) = writer else { return Ok(()) };
        let mut line = json!({ "epoch": self.done });
        if let Some(loss) = self.memo.loss {
            line["loss"] = loss.into();
        }
        if judged {
            line["validation"] = json!(self.memo.validation);
        }
        self.metrics_bytes = writer.add_metrics(&line)?;
        Ok(())
    }

    fn save(&self, model: &Model, writer: &RunWriter) -> Result<()> {
        let Self { done, metrics_bytes, .. } = *self;
        let memo = json!(self.memo);
        let at = Checkpoint { done, memo, metrics_bytes, ..Checkpoint::default() };
        let best = self.best.as_ref().map(named);
        Ok(writer.save(&at, &borrowed(&model.parts()?), best.as_deref())?)
    }

    fn take_loss(&mut self, loss: Option<f64>, settling: Option<Settling>) {
        if let Some(settling) = settling {
            self.memo.still = settling.count(self.memo.still, self.memo.loss, loss);
        }
        self.memo.loss = loss;
    }

    fn is_settled(&self, settling: Option<Settling>) -> bool {
        settling.is_some_and(|settling| self.memo.still >= settling.epochs)
    }

    fn is_exhausted(&self, stopping: Stopping) -> bool {
        match (self.memo.best, stopping.patience) {
            (Some(best), Some(patience)) => self.done - best.epoch >= patience,
            _ => false,
        }
    }

    fn recap(&self) -> String {
        let loss = self.memo.loss.map(|loss| format!("  loss {loss:.4}"));
        let measures = self.memo.validation.iter().flatten();
        let measures = measures.map(|(name, value)| format!("  {name} {value:.4}"));
        loss.into_iter().chain(measures).collect()
    }
}

/// When something that takes a while may be done again.
pub(crate) struct Pace {
    last: Instant,
    wait: Duration,
}

impl Pace {
    pub fn new() -> Self {
        Self { last: Instant::now(), wait: CHECKPOINT_AFTER }
    }

    pub fn is_due(&self) -> bool {
        self.last.elapsed() > self.wait
    }

    pub fn time<T>(&mut self, job: impl FnOnce() -> Result<T>) -> Result<T> {
        let begun = Instant::now();
        let done = job()?;
        self.last = Instant::now();
        self.wait = CHECKPOINT_AFTER.max(begun.elapsed() * CHECKPOINT_SHARE);
        Ok(done)
    }
}

/// The parts of a model as the writer takes them.
pub(crate) fn borrowed<'a>(parts: &'a [Part<'_>]) -> Vec<NamedTensor<'a>> {
    let named = |p: &'a Part<'_>| NamedTensor { name: &p.name, shape: &p.shape, values: &p.values };
    parts.iter().map(named).collect()
}

fn owned(parts: &[Part<'_>]) -> TensorMap {
    parts.iter().map(|p| (p.name.to_string(), (p.shape.clone(), p.values.to_vec()))).collect()
}

fn named(state: &TensorMap) -> Vec<NamedTensor<'_>> {
    state.iter().map(|(name, (shape, values))| NamedTensor { name, shape, values }).collect()
}
