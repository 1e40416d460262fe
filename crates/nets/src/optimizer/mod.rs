//! Optimizers, with the update rules of PyTorch 2: one formula per file.
//!
//! A rule is elementwise: a parameter, its gradient and up to two values of state determine the next parameter and state.
//! A single pass over memory suffices, so the limit is memory bandwidth: Adam in f32 moves 28 bytes per parameter, on two
//! cores 26 GB/s where y += x moves 19.

mod adagrad;
mod adam;
mod clip;
mod sgd;

use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use veridical_core::choices;

pub use clip::clip;

use crate::float::wide;
use crate::{Error, Float, Result};

choices! {
    /// Update rule of an optimizer.
    pub enum Kind {
        /// Full-batch gradient descent
        Gd = "gd",
        /// Stochastic gradient descent, with or without momentum
        Sgd = "sgd",
        /// Adam
        Adam = "adam",
        /// Adam with decoupled weight decay
        Adamw = "adamw",
        /// AdaGrad
        Adagrad = "adagrad",
    }
}

impl Kind {
    /// Returns the default weight decay.
    pub const fn usual_decay(self) -> f64 {
        if matches!(self, Kind::Adamw) { 0.01 } else { 0.0 }
    }

    /// Names of the state per parameter, as in PyTorch.
    fn states(self, momentum: bool) -> &'static [&'static str] {
        match self {
            Kind::Gd | Kind::Sgd if momentum => &["momentum_buffer"],
            Kind::Gd | Kind::Sgd => &[],
            Kind::Adam | Kind::Adamw => &["exp_avg", "exp_avg_sq"],
            Kind::Adagrad => &["sum"],
        }
    }
}

/// An update rule with its hyperparameters; the defaults are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct OptimizerSettings {
    /// Update rule.
    pub kind: Kind,
    /// Momentum of gd and sgd.
    pub momentum: f64,
    /// Whether gd and sgd use Nesterov momentum.
    pub nesterov: bool,
    /// Decay rate of the first moment in adam and adamw.
    pub beta1: f64,
    /// Decay rate of the second moment in adam and adamw.
    pub beta2: f64,
    /// Constant added to the denominator; by default 1e-8, and 1e-10 for adagrad.
    pub eps: Option<f64>,
    /// Weight decay; by default 0, and 0.01 for adamw.
    pub weight_decay: Option<f64>,
}

impl Default for OptimizerSettings {
    fn default() -> Self {
        Self::of(Kind::Adam)
    }
}

impl OptimizerSettings {
    /// Returns a rule with PyTorch's defaults.
    pub fn of(kind: Kind) -> Self {
        Self {
            kind,
            momentum: 0.0,
            nesterov: false,
            beta1: 0.9,
            beta2: 0.999,
            eps: None,
            weight_decay: None,
        }
    }

    /// Returns eps, or its default.
    pub fn eps(&self) -> f64 {
        self.eps.unwrap_or(if self.kind == Kind::Adagrad { 1e-10 } else { 1e-8 })
    }

    /// Returns the weight decay, or its default.
    pub fn weight_decay(&self) -> f64 {
        self.weight_decay.unwrap_or(self.kind.usual_decay())
    }

    /// Checks that all hyperparameters are in range.
    ///
    /// # Errors
    /// A request error naming the first one that is not.
    pub fn check(&self) -> Result<()> {
        let bad = |what: String| Err(Error::request(what));
        let unit = 0.0..1.0;
        for (name, x) in [("momentum", self.momentum), ("beta1", self.beta1), ("beta2", self.beta2)]
        {
            if !unit.contains(&x) {
                return bad(format!("{name} is {x}: it must be at least 0 and below 1"));
            }
        }
        for (name, x) in [("eps", self.eps()), ("weight decay", self.weight_decay())] {
            if !(x >= 0.0 && x.is_finite()) {
                return bad(format!("{name} is {x}: it must be a number of at least 0"));
            }
        }
        let descends = matches!(self.kind, Kind::Gd | Kind::Sgd);
        if self.momentum > 0.0 && !descends {
            let name = self.kind.name();
            return bad(format!("momentum is an option of sgd, not of {name}; omit it or use sgd"));
        }
        if self.nesterov && self.momentum == 0.0 {
            return bad("nesterov requires a momentum above 0, such as 0.9".into());
        }
        Ok(())
    }
}

/// An optimizer with its state for a list of parameters.
///
/// ```
/// use veridical_nets::{Optimizer, OptimizerKind, OptimizerSettings};
///
/// let mut params = [1.0f32, 1.0];
/// let mut sgd = Optimizer::new(&OptimizerSettings::of(OptimizerKind::Sgd), 2);
/// sgd.step(0.5, &mut params, &[1.0, 1.0], &[0..1]); // only the first parameter is trained
/// assert_eq!(params, [0.5, 1.0]);
/// ```
#[derive(Clone, Debug)]
pub struct Optimizer<T> {
    settings: OptimizerSettings,
    steps: u64,
    states: Vec<Vec<T>>,
}

/// Parameters that one thread processes at once.
const BLOCK: usize = 1 << 14;
/// Parameters that are loaded at once, so that a loop over them vectorizes.
const LANES: usize = 16;

/// Update of one parameter by a rule with K values of state.
trait Rule<T, const K: usize>: Copy + Send + Sync {
    /// Returns the next parameter and state.
    fn next(self, parameter: T, gradient: T, state: [T; K]) -> (T, [T; K]);
}

impl<T: Float> Optimizer<T> {
    /// Creates an optimizer for `len` parameters, before the first step.
    pub fn new(settings: &OptimizerSettings, len: usize) -> Self {
        let names = settings.kind.states(settings.momentum > 0.0);
        let states = names.iter().map(|_| vec![T::ZERO; len]).collect();
        Self { settings: *settings, steps: 0, states }
    }

    /// Takes one step with the learning rate `lr`.
    ///
    /// Only parameters inside `trained` are updated; its ranges must ascend and not overlap.
    pub fn step(&mut self, lr: f64, params: &mut [T], grads: &[T], trained: &[Range<usize>]) {
        self.step_at(lr, params, grads, Places::Ranges(trained));
    }

    /// Takes one step on some rows of a table with `dim` values each.
    ///
    /// `rows` must ascend and `grads` holds the gradients of these rows only. Other rows and their state are unchanged, weight decay
    /// included, as in PyTorch's `SparseAdam`: the cost does not depend on the size of the table.
    pub fn step_rows(&mut self, lr: f64, params: &mut [T], dim: usize, rows: &[u32], grads: &[T]) {
        self.step_at(lr, params, grads, Places::Rows { rows, dim });
    }

    fn step_at(&mut self, lr: f64, params: &mut [T], grads: &[T], places: Places<'_>) {
        self.steps += 1;
        let s = &self.settings;
        match (&mut self.states[..], s.kind) {
            ([first, second], _) => {
                let rule = adam::Adam::new(s, lr, self.steps);
                run(rule, params, grads, [first, second], places);
            }
            ([sum], Kind::Adagrad) => {
                run(adagrad::Adagrad::new(s, lr), params, grads, [sum], places);
            }
            ([buffer], _) => run(sgd::Momentum::new(s, lr), params, grads, [buffer], places),
            _ => run(sgd::Sgd::new(s, lr), params, grads, [], places),
        }
    }

    /// Returns the number of steps taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the state per parameter, which is saved in a checkpoint together with [`Optimizer::steps`].
    pub fn state(&self) -> Vec<(&'static str, &[T])> {
        let names = self.settings.kind.states(self.settings.momentum > 0.0);
        names.iter().copied().zip(self.states.iter().map(Vec::as_slice)).collect()
    }

    /// Restores the state of a checkpoint.
    ///
    /// # Errors
    /// A damaged state if a list is missing, of the wrong length, or unknown.
    pub fn set_state(&mut self, steps: u64, state: &[(&str, &[T])]) -> Result<()> {
        let kind = self.settings.kind;
        let names = kind.states(self.settings.momentum > 0.0);
        if let Some((name, _)) = state.iter().find(|(name, _)| !names.contains(name)) {
            let what = format!("optimizer state {name:?} does not belong to {}", kind.name());
            return Err(Error::damaged(what));
        }
        for (&name, own) in names.iter().zip(&mut self.states) {
            let Some((_, values)) = state.iter().find(|(n, _)| *n == name) else {
                return Err(Error::damaged(format!("optimizer state {name:?} is missing")));
            };
            if values.len() != own.len() {
                return Err(Error::damaged(format!(
                    "optimizer state {name:?} has {} values but the network has {} parameters",
                    values.len(),
                    own.len()
                )));
            }
            own.copy_from_slice(values);
        }
        self.steps = steps;
        Ok(())
    }
}

/// Consecutive parameters with their gradients and state.
struct Stretch<'a, T, const K: usize> {
    params: &'a mut [T],
    grads: &'a [T],
    states: [&'a mut [T]; K],
}

impl<'a, T: Float, const K: usize> Stretch<'a, T, K> {
    /// Splits off the first `at` parameters.
    fn split(self, at: usize) -> (Self, Self) {
        let (params, later_params) = self.params.split_at_mut(at);
        let (grads, later_grads) = self.grads.split_at(at);
        let mut states = self.states.map(|s| s.split_at_mut(at));
        let later_states = std::array::from_fn(|k| std::mem::take(&mut states[k].1));
        let states = states.map(|(first, _)| first);
        (
            Self { params, grads, states },
            Self { params: later_params, grads: later_grads, states: later_states },
        )
    }

    fn run(self, rule: impl Rule<T, K>) {
        let Self { params, grads, states } = self;
        let (params, last_params) = params.as_chunks_mut::<LANES>();
        let (grads, last_grads) = grads.as_chunks::<LANES>();
        let mut states = states.map(|s| s.as_chunks_mut::<LANES>());
        wide(
            #[inline(always)]
            || {
                for (i, (params, grads)) in params.iter_mut().zip(grads).enumerate() {
                    let mut p = *params;
                    let mut s: [[T; LANES]; K] = std::array::from_fn(|k| states[k].0[i]);
                    for l in 0..LANES {
                        let next;
                        (p[l], next) = rule.next(p[l], grads[l], std::array::from_fn(|k| s[k][l]));
                        (0..K).for_each(|k| s[k][l] = next[k]);
                    }
                    *params = p;
                    (0..K).for_each(|k| states[k].0[i] = s[k]);
                }
                for (i, (p, g)) in last_params.iter_mut().zip(last_grads).enumerate() {
                    let next;
                    (*p, next) = rule.next(*p, *g, std::array::from_fn(|k| states[k].1[i]));
                    (0..K).for_each(|k| states[k].1[i] = next[k]);
                }
            },
        );
    }
}

/// Parameters that are updated.
#[derive(Clone, Copy)]
enum Places<'a> {
    /// Parameters inside these ranges, with gradients for all parameters.
    Ranges(&'a [Range<usize>]),
    /// Parameters of some rows, with gradients for these only.
    Rows { rows: &'a [u32], dim: usize },
}

/// Applies a rule to all parameters that are updated.
fn run<T: Float, const K: usize>(
    rule: impl Rule<T, K>,
    params: &mut [T],
    grads: &[T],
    states: [&mut Vec<T>; K],
    places: Places<'_>,
) {
    let states = states.map(Vec::as_mut_slice);
    match places {
        Places::Ranges(trained) => run_ranges(rule, Stretch { params, grads, states }, trained),
        Places::Rows { rows, dim } => run_rows(rule, params, grads, states, rows, dim),
    }
}

fn run_ranges<T: Float, const K: usize>(
    rule: impl Rule<T, K>,
    mut rest: Stretch<'_, T, K>,
    trained: &[Range<usize>],
) {
    let (mut at, mut blocks) = (0, Vec::new());
    for range in trained {
        let (_, mut inside) = rest.split(range.start - at);
        (inside, rest) = inside.split(range.len());
        at = range.end;
        while inside.params.len() > BLOCK {
            let (block, later) = inside.split(BLOCK);
            blocks.push(block);
            inside = later;
        }
        blocks.push(inside);
    }
    blocks.into_par_iter().for_each(|block| block.run(rule));
}

fn run_rows<T: Float, const K: usize>(
    rule: impl Rule<T, K>,
    mut params: &mut [T],
    grads: &[T],
    mut states: [&mut [T]; K],
    rows: &[u32],
    dim: usize,
) {
    // Each block has the parameters up to its last row.
    let size = (BLOCK / dim).max(1);
    let (mut at, mut blocks) = (0, Vec::new());
    for (rows, grads) in rows.chunks(size).zip(grads.chunks(size * dim)) {
        let end = (rows[rows.len() - 1] as usize + 1) * dim;
        let (first, later) = params.split_at_mut(end - at);
        params = later;
        let mut cut = states.map(|state| state.split_at_mut(end - at));
        states = std::array::from_fn(|k| std::mem::take(&mut cut[k].1));
        blocks.push((at, rows, Stretch { params: first, grads, states: cut.map(|cut| cut.0) }));
        at = end;
    }
    blocks.into_par_iter().for_each(|(at, rows, block)| {
        let Stretch { params, grads, mut states } = block;
        for (&row, grads) in rows.iter().zip(grads.chunks_exact(dim)) {
            let place = row as usize * dim - at..(row as usize + 1) * dim - at;
            let mut parts = states.each_mut().map(|state| &mut state[place.clone()]);
            let states = std::array::from_fn(|k| std::mem::take(&mut parts[k]));
            Stretch { params: &mut params[place.clone()], grads, states }.run(rule);
        }
    });
}

#[cfg(test)]
mod tests;
