//! Gradient steps on a network.
//!
//! One step: the outputs of a batch, their loss, the gradient of the trained parameters, clipped if configured, and the
//! update rule of the optimizer with the learning rate of the schedule. A step does not allocate memory for values.

use std::ops::Range;

use veridical_core::Error as CoreError;

use crate::net::Net;
use crate::optimizer::{Optimizer, OptimizerSettings, clip};
use crate::pass::{Plan, Workspace};
use crate::schedule::Schedule;
use crate::{Error, Float, Loss, Mode, Result, Target};

/// Training settings of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainerSettings {
    /// Loss that is minimized.
    pub loss: Loss,
    /// Optimizer and its hyperparameters.
    pub optimizer: OptimizerSettings,
    /// Base learning rate, which the schedule multiplies.
    pub lr: f64,
    /// Learning rate schedule.
    pub schedule: Schedule,
    /// Maximum norm of a gradient; `None` disables clipping.
    pub clip: Option<f64>,
    /// Maximum batch size.
    pub batch: usize,
}

/// A network in training.
///
/// ```
/// use veridical_core::Seed;
/// use veridical_nets::{
///     Curve, Loss, NetConfig, OptimizerKind, OptimizerSettings, Schedule, Shape, Target, Trainer, TrainerSettings,
/// };
///
/// let net = NetConfig::new("mlp:8".parse()?, Shape::row(2), 2).build::<f32>(Seed::new(0)?)?;
/// let settings = TrainerSettings {
///     loss: Loss::CrossEntropy { smoothing: 0.0 },
///     optimizer: OptimizerSettings::of(OptimizerKind::Adam),
///     lr: 0.1,
///     schedule: Schedule { curve: Curve::Constant, warmup: 0, total: 0 },
///     clip: None,
///     batch: 2,
/// };
/// let mut trainer = Trainer::new(net, settings, |_| true)?;
/// let x = [1.0, 0.0, 0.0, 1.0];
/// for _ in 0..50 {
///     trainer.step(2, Target::Classes(&[0, 1]), None, |batch| batch.copy_from_slice(&x))?;
/// }
/// let (loss, _) = trainer.step(2, Target::Classes(&[0, 1]), None, |batch| batch.copy_from_slice(&x))?;
/// assert!(loss < 0.1);
/// # Ok::<(), veridical_nets::Error>(())
/// ```
#[derive(Debug)]
pub struct Trainer<T> {
    net: Net<T>,
    settings: TrainerSettings,
    plan: Plan,
    work: Workspace<T>,
    optimizer: Optimizer<T>,
    ranges: Vec<Range<usize>>,
    step: u64,
}

impl<T: Float> Trainer<T> {
    /// Creates a trainer, before the first step.
    ///
    /// Only layers for which `is_trained` returns true are updated; the statistics of a frozen batch norm are frozen too.
    ///
    /// # Errors
    /// A setting or request error for values out of range, and if no layer is trained.
    pub fn new(
        net: Net<T>,
        settings: TrainerSettings,
        is_trained: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        let (plan, rows) = (Plan::new(&net, is_trained), settings.batch);
        Self::with_plan(net, settings, plan, rows)
    }

    /// Creates a trainer for packed sequences with up to `rows` rows in total ([`Trainer::step_sequences`]).
    ///
    /// With `needs_input`, the gradient at the input is available after a step, for an embedding table before the network.
    ///
    /// # Errors
    /// The same as [`Trainer::new`].
    pub fn of_sequences(
        net: Net<T>,
        settings: TrainerSettings,
        rows: usize,
        needs_input: bool,
        is_trained: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        let plan = Plan::new(&net, is_trained);
        let plan = if needs_input { plan.with_input(&net) } else { plan };
        Self::with_plan(net, settings, plan, rows)
    }

    fn with_plan(net: Net<T>, settings: TrainerSettings, plan: Plan, rows: usize) -> Result<Self> {
        settings.optimizer.check()?;
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
            return Err(Error::request(
                "every layer is frozen: no parameters are left to train".into(),
            ));
        }
        let work = Workspace::new(&net, rows, Some(&plan));
        let optimizer = Optimizer::new(&settings.optimizer, net.params.len());
        Ok(Self { net, settings, plan, work, optimizer, ranges, step: 0 })
    }

    /// Returns the network.
    pub fn net(&self) -> &Net<T> {
        &self.net
    }

    /// Returns the network, to change its parameters between steps.
    pub fn net_mut(&mut self) -> &mut Net<T> {
        &mut self.net
    }

    /// Returns the training settings.
    pub fn settings(&self) -> &TrainerSettings {
        &self.settings
    }

    /// Returns the trained network.
    pub fn into_net(self) -> Net<T> {
        self.net
    }

    /// Returns the number of steps taken.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Returns the learning rate of the next step.
    pub fn rate(&self) -> f64 {
        self.settings.lr * self.settings.schedule.factor(self.step)
    }

    /// Returns the gradient at the input in the last step, of a trainer created with `needs_input`.
    pub fn input_gradient(&self) -> &[T] {
        self.work.input_gradient(&self.net)
    }

    /// Returns the gradient of the last step, before clipping.
    pub fn gradient(&self) -> &[T] {
        &self.work.grads
    }

    /// Takes one step on `n` samples that `fill` writes.
    ///
    /// Returns the loss before the step, and the number of correct predictions for classes.
    ///
    /// # Errors
    /// [`Error::LossDiverged`] if the loss is NaN or infinite; the parameters are then those before the step.
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

    /// Takes one step on packed sequences, whose rows `fill` writes, for a network with one output per sequence.
    ///
    /// # Errors
    /// The same as [`Trainer::step`].
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

    /// Continues from the outputs of n samples to the next parameters.
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
        self.optimizer.step(lr, &mut net.params, &work.grads, &self.ranges);
        self.step += 1;
        Ok((loss, right))
    }

    /// Computes outputs for `n` samples that `fill` writes, n x outputs, in inference mode.
    pub fn predict(&mut self, n: usize, fill: impl FnOnce(&mut [T])) -> &[T] {
        self.net.forward(&mut self.work, n, Mode::Frozen, 0, fill);
        self.work.outputs(&self.net)
    }

    /// Returns the optimizer with its state.
    pub fn optimizer(&self) -> &Optimizer<T> {
        &self.optimizer
    }

    /// Resumes from an earlier state: parameters, buffers, optimizer state.
    ///
    /// # Errors
    /// A damaged state if it belongs to another network.
    pub fn resume(
        &mut self,
        params: &[T],
        buffers: &[T],
        kept: &[(String, Vec<T>)],
        step: u64,
    ) -> Result<()> {
        if params.len() != self.net.params.len() || buffers.len() != self.net.buffers.len() {
            let what = format!(
                "the checkpoint belongs to another network: it has {} parameters, this one {}",
                params.len(),
                self.net.params.len()
            );
            return Err(Error::damaged(what));
        }
        self.net.params.copy_from_slice(params);
        self.net.buffers.copy_from_slice(buffers);
        let kept: Vec<(&str, &[T])> =
            kept.iter().map(|(name, kept)| (name.as_str(), kept.as_slice())).collect();
        self.optimizer.set_state(step, &kept)?;
        self.step = step;
        Ok(())
    }
}

/// The step as an index of random draws.
fn noise(step: u64) -> u32 {
    (step % u64::from(u32::MAX)) as u32
}
