//! Steps of gradient descent on a network.
//!
//! One step: outputs of a batch, their loss, the gradient of the parameters that are trained, clipped if asked for, and the
//! rule of the optimiser with the rate of the schedule. Nothing is allocated for the numbers of a step.

use std::ops::Range;

use veridical_core::Error as CoreError;

use crate::net::Net;
use crate::optimiser::{Optimiser, OptimiserSettings, clip};
use crate::pass::{Plan, Workspace};
use crate::schedule::Schedule;
use crate::{Error, Float, Loss, Mode, Result, Target};

/// How a network is trained.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainerSettings {
    /// What is minimised.
    pub loss: Loss,
    /// By which rule.
    pub optimiser: OptimiserSettings,
    /// The learning rate before the schedule.
    pub lr: f64,
    /// How the rate moves.
    pub schedule: Schedule,
    /// The largest norm of a gradient.
    pub clip: Option<f64>,
    /// The largest batch.
    pub batch: usize,
}

/// A network that is being trained.
#[derive(Debug)]
pub struct Trainer<T> {
    net: Net<T>,
    settings: TrainerSettings,
    plan: Plan,
    work: Workspace<T>,
    optimiser: Optimiser<T>,
    ranges: Vec<Range<usize>>,
    step: u64,
}

impl<T: Float> Trainer<T> {
    /// Before the first step; only layers that `is_trained` names move, and statistics of batch norm stay where its layer
    /// does.
    ///
    /// # Errors
    /// A setting or request for numbers that make no sense, and if nothing is trained.
    pub fn new(
        net: Net<T>,
        settings: TrainerSettings,
        is_trained: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        let (plan, rows) = (Plan::new(&net, is_trained), settings.batch);
        Self::with_plan(net, settings, plan, rows)
    }

    /// For packed sequences that have up to `rows` rows together ([`Trainer::step_sequences`]). If `wants_input`, the
    /// gradient at the input is there after a step, for a table of embeddings before the network.
    ///
    /// # Errors
    /// As [`Trainer::new`].
    pub fn of_sequences(
        net: Net<T>,
        settings: TrainerSettings,
        rows: usize,
        wants_input: bool,
        is_trained: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        let plan = Plan::new(&net, is_trained);
        let plan = if wants_input { plan.with_input(&net) } else { plan };
        Self::with_plan(net, settings, plan, rows)
    }

    fn with_plan(net: Net<T>, settings: TrainerSettings, plan: Plan, rows: usize) -> Result<Self> {
        settings.optimiser.check()?;
        if !(settings.lr > 0.0 && settings.lr.is_finite()) {
            return Err(CoreError::setting("lr", "a number above 0", settings.lr).into());
        }
        if settings.batch == 0 {
            return Err(CoreError::setting("batch", "at least 1", 0).into());
        }
        if settings.clip.is_some_and(|norm| norm.is_nan() || norm <= 0.0) {
            return Err(Error::request("⟨clip⟩ must be above 0".into()));
        }
        let ranges = plan.ranges(&net);
        if ranges.is_empty() {
            return Err(Error::request("every layer is frozen: nothing is left to train".into()));
        }
        let work = Workspace::new(&net, rows, Some(&plan));
        let optimiser = Optimiser::new(&settings.optimiser, net.params.len());
        Ok(Self { net, settings, plan, work, optimiser, ranges, step: 0 })
    }

    /// The network.
    pub fn net(&self) -> &Net<T> {
        &self.net
    }

    /// The network, to change its parameters between steps.
    pub fn net_mut(&mut self) -> &mut Net<T> {
        &mut self.net
    }

    /// How it is trained.
    pub fn settings(&self) -> &TrainerSettings {
        &self.settings
    }

    /// The network, when training is over.
    pub fn into_net(self) -> Net<T> {
        self.net
    }

    /// Steps that were made.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// The learning rate of the next step.
    pub fn rate(&self) -> f64 {
        self.settings.lr * self.settings.schedule.factor(self.step)
    }

    /// The gradient at the input in the last step, of a trainer that wants it.
    pub fn input_gradient(&self) -> &[T] {
        self.work.input_gradient(&self.net)
    }

    /// The gradient of the last step, before clipping.
    pub fn gradient(&self) -> &[T] {
        &self.work.grads
    }

    /// One step on `n` samples that `fill` writes; the loss before it, and how many classes were right.
    ///
    /// # Errors
    /// [`Error::LossDiverged`] if the loss is no number any more; the parameters are those before the step.
    pub fn step(
        &mut self,
        n: usize,
        targets: Target<'_>,
        weights: Option<&[f64]>,
        fill: impl FnOnce(&mut [T]),
    ) -> Result<(f64, Option<usize>)> {
        self.net.forward(&mut self.work, n, Mode::Training, noise(self.step), fill);
        self.descend(n, targets, weights)
    }

    /// One step on packed sequences, whose rows `fill` writes, of a network that gives one output per sequence.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn step_sequences(
        &mut self,
        starts: &[usize],
        targets: Target<'_>,
        fill: impl FnOnce(&mut [T]),
    ) -> Result<(f64, Option<usize>)> {
        let work = &mut self.work;
        self.net.forward_sequences(work, starts, Mode::Training, noise(self.step), fill);
        self.descend(starts.len() - 1, targets, None)
    }

    /// From the outputs of n samples to the next parameters.
    fn descend(
        &mut self,
        n: usize,
        targets: Target<'_>,
        weights: Option<&[f64]>,
    ) -> Result<(f64, Option<usize>)> {
        let lr = self.rate();
        let Self { net, work, plan, settings, .. } = self;
        let dim = net.outputs();
        let (outputs, gradient) = work.output_gradient(net);
        let loss = settings.loss.evaluate(outputs, n, dim, targets, weights, Some(gradient));
        let right = match targets {
            Target::Classes(classes) => Some(crate::correct(outputs, dim, &classes[..n])),
            Target::Numbers(_) => None,
        };
        if !loss.is_finite() {
            return Err(Error::LossDiverged { loss, steps: self.step });
        }
        net.backward(work, plan);
        net.settle(work);
        if let Some(norm) = settings.clip {
            clip(&mut work.grads, &self.ranges, norm);
        }
        self.optimiser.step(lr, &mut net.params, &work.grads, &self.ranges);
        self.step += 1;
        Ok((loss, right))
    }

    /// Outputs for `n` samples that `fill` writes, n x outputs, as the network would give them in use.
    pub fn predict(&mut self, n: usize, fill: impl FnOnce(&mut [T])) -> &[T] {
        self.net.forward(&mut self.work, n, Mode::Frozen, 0, fill);
        self.work.outputs(&self.net)
    }

    /// What the optimiser keeps, parameter by parameter.
    pub fn optimiser(&self) -> &Optimiser<T> {
        &self.optimiser
    }

    /// Goes on from an earlier state: parameters, buffers, what the optimiser kept.
    ///
    /// # Errors
    /// A damaged state if they are of another network.
    pub fn resume(
        &mut self,
        params: &[T],
        buffers: &[T],
        kept: &[(String, Vec<T>)],
        step: u64,
    ) -> Result<()> {
        if params.len() != self.net.params.len() || buffers.len() != self.net.buffers.len() {
            let what = format!(
                "the checkpoint is of another network: {} parameters, this one has {}",
                params.len(),
                self.net.params.len()
            );
            return Err(Error::damaged(what));
        }
        self.net.params.copy_from_slice(params);
        self.net.buffers.copy_from_slice(buffers);
        let kept: Vec<(&str, &[T])> =
            kept.iter().map(|(name, kept)| (name.as_str(), kept.as_slice())).collect();
        self.optimiser.set_state(step, &kept)?;
        self.step = step;
        Ok(())
    }
}

/// The number of a step as layers draw by it.
fn noise(step: u64) -> u32 {
    (step % u64::from(u32::MAX)) as u32
}
