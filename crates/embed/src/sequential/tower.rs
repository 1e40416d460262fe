//! A network that is trained as a part of a model: its steps, and its state in a checkpoint.

use std::ops::Range;

use veridical_data::TensorMap;
use veridical_nets::{Net, Optimiser, OptimiserSettings, Plan, Table, Workspace};

use super::{STATE, Sequential, hand_over, take_over};
use crate::Result;

/// A network with its optimiser.
pub(crate) struct Tower {
    /// What its tensors stand after.
    name: &'static str,
    pub net: Net<f32>,
    pub work: Workspace<f32>,
    plan: Plan,
    ranges: Vec<Range<usize>>,
    optimiser: Optimiser<f32>,
}

impl Tower {
    /// For batches of up to `rows` rows; the gradient at the input is there after a step if `has_table`.
    pub fn new(
        name: &'static str,
        net: Net<f32>,
        rows: usize,
        settings: &OptimiserSettings,
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
            optimiser: Optimiser::new(settings, net.params.len()),
            plan,
            net,
        }
    }

    /// The number of the step, for what is drawn in it.
    pub fn number(&self) -> u32 {
        (self.optimiser.steps() % u64::from(u32::MAX)) as u32
    }

    /// Follows the gradient at the outputs.
    pub fn step(&mut self, lr: f64) {
        let Self { net, work, plan, ranges, optimiser, .. } = self;
        net.backward(work, plan);
        optimiser.step(lr, &mut net.params, &work.grads, ranges);
    }

    /// Adds parameters and state to those of a model.
    pub fn save(&self, nets: &mut TensorMap, state: &mut TensorMap) {
        hand_over(&self.net, self.name, nets);
        save(&self.optimiser, self.name, state);
    }

    /// Goes on from a model.
    pub fn load(&mut self, from: &Sequential) -> Result<()> {
        take_over(&mut self.net, &from.nets, self.name)?;
        load(&from.state, self.name, |steps, kept| self.optimiser.set_state(steps, kept))
    }
}

/// What the state of a table of items stands after; no name of a network begins so.
const ITEM: &str = "table.";

/// Adds the state of a table of items.
pub(crate) fn save_table(table: &Table<f32>, state: &mut TensorMap) {
    save(table.optimiser(), ITEM, state);
}

/// Goes on with the table of items of a model.
pub(crate) fn load_table(table: &mut Table<f32>, from: &Sequential) -> Result<()> {
    load(&from.state, ITEM, |steps, kept| table.resume(from.item.values(), steps, kept))
}

fn save(optimiser: &Optimiser<f32>, name: &str, state: &mut TensorMap) {
    for (kept, values) in optimiser.state() {
        let tensor = (vec![values.len(), 1], values.to_vec());
        state.insert(format!("{STATE}{name}{kept}"), tensor);
    }
    // Exact up to 2^24 steps.
    let steps = optimiser.steps() as f32;
    state.insert(format!("{STATE}{name}{STEPS}"), (vec![1, 1], vec![steps]));
}

const STEPS: &str = "steps";

fn load(
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
