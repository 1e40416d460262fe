//! A network trained as a part of a model: its steps, and its state in a checkpoint.

use std::ops::Range;

use veridical_data::TensorMap;
use veridical_nets::{EmbeddingTable, Net, Optimizer, OptimizerSettings, Plan, Workspace};

use super::{STATE, Sequential, load_net, save_net};
use crate::Result;

/// A network with its optimizer.
pub(crate) struct Tower {
    /// The prefix of its tensor names.
    name: &'static str,
    pub net: Net<f32>,
    pub work: Workspace<f32>,
    plan: Plan,
    ranges: Vec<Range<usize>>,
    optimizer: Optimizer<f32>,
}

impl Tower {
    /// For batches of up to `rows` rows; the gradient at the input is available after a step if `has_table`.
    pub fn new(
        name: &'static str,
        net: Net<f32>,
        rows: usize,
        settings: &OptimizerSettings,
        has_table: bool,
    ) -> Self {
        let mut plan = Plan::new(&net, |_| true);
        if has_table {
            plan = plan.with_input(&net);
        }
        Self {
            name,
            work: Workspace::new(&net, rows, Some(&plan)),
            ranges: plan.ranges(&net),
            optimizer: Optimizer::new(settings, net.params.len()),
            plan,
            net,
        }
    }

    /// The number of the step, which addresses its random draws.
    pub fn number(&self) -> u32 {
        (self.optimizer.steps() % u64::from(u32::MAX)) as u32
    }

    /// Takes a step from the gradient at the outputs.
    pub fn step(&mut self, lr: f64) {
        let Self { net, work, plan, ranges, optimizer, .. } = self;
        net.backward(work, plan);
        optimizer.step(lr, &mut net.params, &work.grads, ranges);
    }

    /// Adds weights and optimizer state to those of a model.
    pub fn save(&self, nets: &mut TensorMap, state: &mut TensorMap) {
        save_net(&self.net, self.name, nets);
        save(&self.optimizer, self.name, state);
    }

    /// Resumes from a model.
    pub fn load(&mut self, from: &Sequential) -> Result<()> {
        load_net(&mut self.net, &from.nets, self.name)?;
        load(&from.state, self.name, |steps, kept| self.optimizer.set_state(steps, kept))
    }
}

/// The prefix of the optimizer state of an item table; no network name begins with it.
const ITEM: &str = "table.";

/// Adds the optimizer state of an item table.
pub(crate) fn save_table(table: &EmbeddingTable<f32>, state: &mut TensorMap) {
    save(table.optimizer(), ITEM, state);
}

/// Resumes with the item table of a model.
pub(crate) fn load_table(table: &mut EmbeddingTable<f32>, from: &Sequential) -> Result<()> {
    load(&from.state, ITEM, |steps, kept| table.resume(from.item.values(), steps, kept))
}

/// Adds the state of an optimizer, with a prefix before its names.
pub(crate) fn save(optimizer: &Optimizer<f32>, name: &str, state: &mut TensorMap) {
    for (kept, values) in optimizer.state() {
        let tensor = (vec![values.len(), 1], values.to_vec());
        state.insert(format!("{STATE}{name}{kept}"), tensor);
    }
    // Exact up to 2^24 steps.
    let steps = optimizer.steps() as f32;
    state.insert(format!("{STATE}{name}{STEPS}"), (vec![1, 1], vec![steps]));
}

const STEPS: &str = "steps";

/// Sets an optimizer to the state with a prefix.
pub(crate) fn load(
    state: &TensorMap,
    name: &str,
    set: impl FnOnce(u64, &[(&str, &[f32])]) -> veridical_nets::Result<()>,
) -> Result<()> {
    let prefix = format!("{STATE}{name}");
    let own = state.iter().filter_map(|(full, (_, values))| {
        let kept = full.strip_prefix(&prefix)?;
        Some((kept, values.as_slice()))
    });
    let (steps, kept): (Vec<_>, Vec<_>) = own.partition(|(kept, _)| *kept == STEPS);
    let steps = steps.first().and_then(|(_, steps)| steps.first()).map_or(0, |&n| n as u64);
    Ok(set(steps, &kept)?)
}
