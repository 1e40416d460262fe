//! The loop around the steps of a network: epochs, metrics, checkpoints, early stopping.
//!
//! Step s of E epochs with m steps each belongs to epoch e = floor(s / m) and takes the samples order_e(t), t from
//! (s mod m) B on. All draws are indexed by epoch, sample and step, so a state after any step is parameters, buffers, what the
//! optimiser keeps, and s.
//!
//! Early stopping (paper 000, F.2): the end is reached when the loss has not fallen by more than `min_delta` for `patience`
//! epochs; it is that of the validation examples if there are some, and then the best epoch is kept.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use veridical_core::{Order, Seed, interrupt};
use veridical_data::run::{Checkpoint, NamedTensor, RunWriter, TensorMap};
use veridical_nets::{Error as NetError, TrainerSettings};

use crate::train::{Best, Pace};
use crate::{Error, Observer, Result};

/// Epochs are told about at most so often.
const NOTE_AFTER: Duration = Duration::from_secs(1);

/// How a training went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Learnt {
    /// Epochs that were run.
    pub epochs: u32,
    /// Steps that were made.
    pub steps: u64,
    /// The mean loss of the steps of the last epoch.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loss: Option<f64>,
    /// The share of examples that were right in these steps.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub accuracy: Option<f64>,
    /// Measures on the validation examples after the last epoch.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub validation: Option<Judged>,
    /// The epoch with the lowest loss, on the validation examples if there are some.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub best: Option<Best>,
    /// Whether training ended before the last epoch.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub stopped_early: bool,
}

/// Measures on the validation examples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The mean loss.
    pub loss: f64,
    /// The share that is right.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub accuracy: Option<f64>,
    /// The root of the mean squared error.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rmse: Option<f64>,
}

/// What learns, step by step.
pub(super) trait Learner {
    /// Steps that were made.
    fn steps(&self) -> u64;

    /// One step on some examples; the loss before it, and how many classes were right.
    fn step(&mut self, samples: &[usize], epoch: u32) -> veridical_nets::Result<Step>;

    /// Measures on the validation examples, if there are some.
    fn judge(&mut self) -> Result<Option<Judged>>;

    /// Everything that is learnt.
    fn learnt(&self) -> Vec<(String, &[f32])>;

    /// What the optimiser keeps besides.
    fn kept(&self) -> Vec<(String, &[f32])>;

    /// Goes on from an earlier state: what is learnt and what is kept.
    fn resume(&mut self, state: TensorMap, steps: u64) -> veridical_nets::Result<()>;

    /// Goes back to what was learnt before; `false` if it is of another network.
    fn restore(&mut self, learnt: &TensorMap) -> bool;
}

/// The loss of a step, and how many classes were right.
pub(super) type Step = (f64, Option<usize>);

/// How the steps follow each other.
pub(super) struct Course<'a> {
    /// How many examples are learnt from.
    pub n: usize,
    /// Decides their order.
    pub seed: Seed,
    pub settings: &'a TrainerSettings,
    pub epochs: u32,
    pub patience: Option<u32>,
    pub min_delta: f64,
    /// Whether classes are told apart.
    pub has_classes: bool,
    pub has_validation: bool,
    pub checkpoint_every: Option<u64>,
}

/// Where the loop stands besides the network.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Memo {
    learnt: Learnt,
    /// Sums over the epoch that is under way.
    loss_sum: f64,
    right: u64,
    seen: u64,
    /// The loss that an improvement is measured from, and the epochs since.
    mark: Option<f64>,
    waited: u32,
}

/// Trains to the end or to the stop; the network is left in its best state if validation examples decide.
pub(super) fn fit(
    course: &Course<'_>,
    learner: &mut dyn Learner,
    writer: &RunWriter,
    from: Option<Checkpoint>,
    observer: &dyn Observer,
) -> Result<Learnt> {
    let (n, batch, epochs) = (course.n, course.settings.batch, course.epochs);
    let per_epoch = n.div_ceil(batch) as u64;
    let total = per_epoch * u64::from(epochs);
    let mut state = State::take_up(learner, from, observer)?;
    let mut samples = Vec::with_capacity(batch);
    let mut saves = Pace::new();
    let (begun, first) = (Instant::now(), learner.steps());
    let mut last_note = Instant::now();
    while learner.steps() < total && !state.memo.learnt.stopped_early {
        let epoch = (learner.steps() / per_epoch) as u32;
        let order = Order::new(n as u64, course.seed, "order", epoch);
        let left = left(begun, learner.steps() - first, total - learner.steps());
        let label = format!("epoch {}/{epochs}{}{left}", epoch + 1, state.recap());
        let progress = observer.progress(&label, "steps", Some(per_epoch));
        progress.advance(learner.steps() % per_epoch);
        loop {
            let at = (learner.steps() % per_epoch) as usize * batch;
            samples.clear();
            samples.extend((at..(at + batch).min(n)).map(|t| order.at(t as u64) as usize));
            let step = learner.step(&samples, epoch);
            let (loss, right) = step.map_err(|e| course.diverged(e, epoch, &state.memo))?;
            state.count(samples.len(), loss, right);
            progress.advance(1);
            let is_end = learner.steps().is_multiple_of(per_epoch);
            let interrupted = interrupt::check();
            if is_end {
                break;
            }
            let is_due = match course.checkpoint_every {
                Some(every) => learner.steps().is_multiple_of(every),
                None => saves.is_due(),
            };
            if is_due || interrupted.is_err() {
                saves.time(|| state.save(learner, writer))?;
            }
            interrupted?;
        }
        drop(progress);
        let is_number = |(_, values): &(String, &[f32])| values.iter().all(|x| x.is_finite());
        if !learner.learnt().iter().all(is_number) {
            let what = format!("a weight is no number after {} steps", learner.steps());
            return Err(course.diverged(NetError::Diverged(what), epoch, &state.memo));
        }
        state.end_epoch(course, learner, epoch + 1, writer)?;
        let is_last = learner.steps() == total || state.memo.learnt.stopped_early;
        if is_last || last_note.elapsed() > NOTE_AFTER {
            observer.note(&format!("epoch {}/{epochs}{}", epoch + 1, state.recap()));
            last_note = Instant::now();
        }
        let interrupted = interrupt::check();
        let is_due = match course.checkpoint_every {
            Some(every) => learner.steps().is_multiple_of(every),
            None => saves.is_due(),
        };
        if is_last || is_due || interrupted.is_err() {
            saves.time(|| state.save(learner, writer))?;
        }
        interrupted?;
    }
    let State { memo, best, .. } = state;
    if let (Some(best), Some(at)) = (best, memo.learnt.best)
        && at.epoch != memo.learnt.epochs
    {
        if !learner.restore(&best) {
            let what = "damaged checkpoint (its best state is of another network)";
            return Err(Error::Usage(format!("{what}; start over with --force")));
        }
        observer.note(&format!("epoch {} was the best and is kept", at.epoch));
    }
    Ok(memo.learnt)
}

impl Course<'_> {
    /// A loss that is no number, with what can be done.
    fn diverged(&self, error: NetError, epoch: u32, memo: &Memo) -> Error {
        let NetError::Diverged(what) = error else { return error.into() };
        let lr = self.settings.lr;
        let less = format!("{:.0e}", lr * 0.3).parse::<f64>().unwrap_or(lr * 0.3);
        let clip = if self.settings.clip.is_none() { " or --clip 1" } else { "" };
        let before = match memo.seen {
            0 => memo.learnt.loss,
            seen => Some(memo.loss_sum / seen as f64),
        };
        let before = before.map_or(String::new(), |loss| match loss {
            loss if loss < 1e6 => format!(" (it was {loss:.4} on average)"),
            loss => format!(" (it was {loss:.1e} on average)"),
        });
        Error::Usage(format!(
            "training diverged in epoch {}: {what}{before}; --lr {lr} is too large for this model, try --lr {less}{clip}",
            epoch + 1
        ))
    }
}

/// Where the loop stands.
struct State {
    memo: Memo,
    /// The best state so far; kept if validation examples decide when to stop.
    best: Option<TensorMap>,
    metrics_bytes: u64,
}

impl State {
    fn take_up(
        learner: &mut dyn Learner,
        from: Option<Checkpoint>,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let Some(Checkpoint { done, memo, metrics_bytes, state, best }) = from else {
            return Ok(Self { memo: Memo::default(), best: None, metrics_bytes: 0 });
        };
        let damaged =
            |e: String| Error::Usage(format!("damaged checkpoint ({e}); start over with --force"));
        let memo = serde_json::from_value(memo).map_err(|e| damaged(e.to_string()))?;
        let resumed = learner.resume(state, u64::from(done));
        resumed.map_err(|e| damaged(e.to_string()))?;
        observer.note(&format!("continuing after step {done}"));
        Ok(Self { memo, best, metrics_bytes })
    }

    fn count(&mut self, n: usize, loss: f64, right: Option<usize>) {
        self.memo.loss_sum += loss * n as f64;
        self.memo.right += right.unwrap_or(0) as u64;
        self.memo.seen += n as u64;
    }

    /// Judges, decides whether to go on, and writes the line of the epoch.
    fn end_epoch(
        &mut self,
        course: &Course<'_>,
        learner: &mut dyn Learner,
        epoch: u32,
        writer: &RunWriter,
    ) -> Result<()> {
        let Memo { learnt, loss_sum, right, seen, mark, waited } = &mut self.memo;
        let examples = *seen as f64;
        let loss = *loss_sum / examples;
        learnt.loss = Some(loss);
        learnt.accuracy = course.has_classes.then(|| *right as f64 / examples);
        (*loss_sum, *right, *seen) = (0.0, 0, 0);
        (learnt.epochs, learnt.steps) = (epoch, learner.steps());
        let settings = &course.settings;
        let lr = settings.lr * settings.schedule.factor(learner.steps() - 1);
        let mut line = json!({ "epoch": epoch, "steps": learnt.steps, "loss": loss, "lr": lr });
        if let Some(accuracy) = learnt.accuracy {
            line["accuracy"] = accuracy.into();
        }
        let mut decisive = loss;
        if let Some(judged) = learner.judge()? {
            decisive = judged.loss;
            line["validation"] = json!(judged);
            learnt.validation = Some(judged);
        }
        if learnt.best.is_none_or(|best| decisive < best.value) {
            learnt.best = Some(Best { epoch, value: decisive });
            if course.patience.is_some() && course.has_validation {
                self.best = Some(owned(learner));
            }
        }
        match *mark {
            Some(before) if before - decisive <= course.min_delta => *waited += 1,
            _ => (*mark, *waited) = (Some(decisive), 0),
        }
        learnt.stopped_early =
            epoch < course.epochs && course.patience.is_some_and(|patience| *waited >= patience);
        self.metrics_bytes = writer.add_metrics(&line)?;
        Ok(())
    }

    fn save(&self, learner: &dyn Learner, writer: &RunWriter) -> Result<()> {
        let at = Checkpoint {
            done: learner.steps() as u32, // no more: see `Job::load`
            memo: json!(self.memo),
            metrics_bytes: self.metrics_bytes,
            ..Checkpoint::default()
        };
        let mut lists = learner.learnt();
        lists.extend(learner.kept());
        let shapes: Vec<[usize; 1]> = lists.iter().map(|(_, values)| [values.len()]).collect();
        let tensors = lists.iter().zip(&shapes).filter(|((_, values), _)| !values.is_empty());
        let tensors: Vec<NamedTensor<'_>> =
            tensors.map(|((name, values), shape)| NamedTensor { name, shape, values }).collect();
        let best = self.best.as_ref().map(|best| {
            let named = best.iter();
            named.map(|(name, (shape, values))| NamedTensor { name, shape, values }).collect()
        });
        let best: Option<Vec<NamedTensor<'_>>> = best;
        Ok(writer.save(&at, &tensors, best.as_deref())?)
    }

    fn recap(&self) -> String {
        let learnt = &self.memo.learnt;
        let mut text = String::new();
        let mut add = |name: &str, value: Option<f64>| {
            text.extend(value.map(|value| format!("  {name} {value:.4}")));
        };
        add("loss", learnt.loss);
        add("accuracy", learnt.accuracy);
        add("validation loss", learnt.validation.map(|judged| judged.loss));
        add("accuracy", learnt.validation.and_then(|judged| judged.accuracy));
        add("rmse", learnt.validation.and_then(|judged| judged.rmse));
        text
    }
}

fn owned(learner: &dyn Learner) -> TensorMap {
    let lists = learner.learnt().into_iter().filter(|(_, values)| !values.is_empty());
    lists.map(|(name, values)| (name, (vec![values.len()], values.to_vec()))).collect()
}

/// The time that is left, from the steps so far.
fn left(begun: Instant, done: u64, to_do: u64) -> String {
    let seconds = begun.elapsed().as_secs_f64() / done.max(1) as f64 * to_do as f64;
    match seconds {
        _ if done == 0 => String::new(),
        s if s < 90.0 => format!("  {s:.0} s left"),
        s if s < 5400.0 => format!("  {:.0} min left", s / 60.0),
        s => format!("  {:.1} h left", s / 3600.0),
    }
}

/// The line of each epoch, if the file is there.
pub(super) fn metrics(run: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
