//! Activations and gradients of one pass, and which of them share memory.

use std::ops::Range;

use super::CHUNKS;
use super::chunks::Batch;
use super::plan::Plan;
use crate::net::{Net, Node};
use crate::{Float, Mode, Sequences};

/// Activations and gradients of one pass over up to `capacity` samples.
///
/// A step does not allocate memory once the workspace exists.
#[derive(Debug)]
pub struct Workspace<T> {
    pub(super) capacity: usize,
    /// Offsets of the sequences of the last forward pass, ending with the number of rows.
    pub(super) starts: Vec<usize>,
    /// 0, 1, .. : each sample as its own sequence.
    pub(super) singles: Vec<usize>,
    /// The sequences of each chunk.
    pub(super) chunks: Vec<Range<usize>>,
    pub(super) mode: Mode,
    /// Nodes whose statistics are frozen even in training: their parameters are not trained.
    pub(super) still: Vec<bool>,
    pub(super) step: u32,
    /// Values of the slots.
    pub(crate) slots: Vec<Vec<T>>,
    /// Gradients at the slots: several slots of one size share a list.
    pub(super) deltas: Vec<Vec<T>>,
    /// The list of each slot.
    pub(crate) delta_of: Vec<usize>,
    pub(super) kept: Vec<Vec<T>>,
    /// What the backward pass of each node writes for its taps.
    pub(crate) tapped: Vec<Vec<T>>,
    pub(super) scratches: Vec<Vec<T>>,
    pub(super) spares: Vec<Vec<T>>,
    /// Gradient of the parameters after a backward pass.
    pub grads: Vec<T>,
    pub(super) chunk_grads: Vec<Vec<T>>,
}

impl<T: Float> Workspace<T> {
    /// Allocates a workspace for batches of up to `capacity` samples; `plan` is required for backward passes.
    pub fn new(net: &Net<T>, capacity: usize, plan: Option<&Plan>) -> Self {
        let slots = 0..=net.nodes.len();
        let lens: Vec<usize> = slots.clone().map(|slot| net.shape(slot).values()).collect();
        let kinds: Vec<_> = slots.map(|slot| (lens[slot], net.is_pooled(slot))).collect();
        let delta_of = match plan {
            None => Vec::new(),
            Some(plan) => share(net, &kinds, |slot| !plan.tapped.is_empty() && plan.keeps(slot)),
        };
        let mut sizes = Vec::new();
        for (slot, &list) in delta_of.iter().enumerate() {
            if list == sizes.len() {
                sizes.push(lens[slot]);
            }
        }
        let zeros = |n: usize| vec![T::ZERO; n];
        let has_gradients = plan.is_some_and(|plan| plan.trained.contains(&true));
        let grads = if has_gradients { net.params.len() } else { 0 };
        let kept = |node: &Node<T>| node.layer().map_or(0, |layer| layer.kept(node.input));
        let tapped = |(i, node): (usize, &Node<T>)| {
            let is_tapped = plan.is_some_and(|plan| plan.tapped.get(i) == Some(&true));
            let per_row = node.layer().map_or(0, |layer| layer.tapped());
            zeros(if is_tapped { capacity * per_row } else { 0 })
        };
        Self {
            capacity,
            starts: vec![0],
            singles: (0..=capacity).collect(),
            chunks: Vec::new(),
            mode: Mode::Frozen,
            still: still(net, plan),
            step: 0,
            slots: lens.iter().map(|len| zeros(len * capacity)).collect(),
            deltas: sizes.iter().map(|len| zeros(len * capacity)).collect(),
            delta_of,
            kept: net.nodes.iter().map(|node| zeros(kept(node))).collect(),
            tapped: net.nodes.iter().enumerate().map(tapped).collect(),
            scratches: vec![Vec::new(); CHUNKS],
            spares: vec![Vec::new(); CHUNKS],
            grads: zeros(grads),
            chunk_grads: if has_gradients { vec![Vec::new(); CHUNKS] } else { Vec::new() },
        }
    }

    /// Returns the largest batch that fits.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Number of samples in a slot.
    pub(crate) fn count(&self, net: &Net<T>, slot: usize) -> usize {
        if net.is_pooled(slot) { self.starts.len() - 1 } else { self.starts[self.starts.len() - 1] }
    }

    /// Number of values in a slot.
    pub(super) fn len(&self, net: &Net<T>, slot: usize) -> usize {
        self.count(net, slot) * net.shape(slot).values()
    }

    /// Returns the division of the rows of the last forward pass into sequences.
    pub fn sequences(&self) -> Sequences<'_> {
        Sequences::new(&self.starts)
    }

    /// Returns the outputs and the gradient at the outputs, which must be set before a backward pass.
    pub fn output_gradient(&mut self, net: &Net<T>) -> (&[T], &mut [T]) {
        let slot = net.nodes.len();
        let len = self.len(net, slot);
        let list = self.delta_of[slot];
        (&self.slots[slot][..len], &mut self.deltas[list][..len])
    }

    /// Returns the outputs of the last forward pass, n x outputs.
    pub fn outputs(&self, net: &Net<T>) -> &[T] {
        self.values(net, net.nodes.len())
    }

    /// The values of a slot after a forward pass.
    pub(crate) fn values(&self, net: &Net<T>, slot: usize) -> &[T] {
        &self.slots[slot][..self.len(net, slot)]
    }

    /// Returns the gradient at the input after a backward pass with [`Plan::with_input`].
    pub fn input_gradient(&self, net: &Net<T>) -> &[T] {
        self.delta(net, 0)
    }

    /// Returns the output of a node in the last forward pass, n samples.
    pub fn activations(&self, net: &Net<T>, name: &str) -> Option<&[T]> {
        let node = net.nodes.iter().position(|node| node.name == name)?;
        Some(self.values(net, node + 1))
    }

    pub(crate) fn delta(&self, net: &Net<T>, slot: usize) -> &[T] {
        &self.deltas[self.delta_of[slot]][..self.len(net, slot)]
    }

    /// Division of the values of a slot into sequences; one sample each where the slot is pooled.
    pub(crate) fn samples(&self, net: &Net<T>, slot: usize) -> Sequences<'_> {
        let batch = Batch { starts: &self.starts, singles: &self.singles };
        batch.sequences(net.is_pooled(slot), &batch.all())
    }

    /// Mode of the pass for a node.
    pub(super) fn mode(&self, node: usize) -> Mode {
        if self.still[node] { Mode::Frozen } else { self.mode }
    }
}

/// Nodes with statistics whose parameters are not trained.
fn still<T: Float>(net: &Net<T>, plan: Option<&Plan>) -> Vec<bool> {
    let trained = |i: usize| plan.is_none_or(|plan| plan.trained[i]);
    net.nodes.iter().enumerate().map(|(i, node)| !node.buffers.is_empty() && !trained(i)).collect()
}

/// Determines which slots can share a list for their gradients: a gradient is live from the last node that reads its slot to
/// the node that wrote it; only equal sizes share, so that chunks of different slots never overlap. Lists of slots that `keeps` holds
/// are not used again.
fn share<T: Float>(
    net: &Net<T>,
    kinds: &[(usize, bool)],
    keeps: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let mut list_of = vec![usize::MAX; kinds.len()];
    let mut sizes: Vec<(usize, bool)> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut give = |slot: usize, free: &mut Vec<usize>, list_of: &mut Vec<usize>| {
        if list_of[slot] != usize::MAX {
            return;
        }
        let found = free.iter().position(|&list| sizes[list] == kinds[slot]);
        list_of[slot] = match found {
            Some(at) => free.swap_remove(at),
            None => {
                sizes.push(kinds[slot]);
                sizes.len() - 1
            }
        };
    };
    for (number, node) in net.nodes.iter().enumerate().rev() {
        give(number + 1, &mut free, &mut list_of);
        for slot in node.reads() {
            give(slot, &mut free, &mut list_of);
        }
        if !keeps(number + 1) {
            free.push(list_of[number + 1]);
        }
    }
    // Lists are numbered by the first slot that uses them, as the sizes are collected.
    let mut renumbered = vec![usize::MAX; sizes.len()];
    let mut next = 0;
    for list in &mut list_of {
        if renumbered[*list] == usize::MAX {
            renumbered[*list] = next;
            next += 1;
        }
        *list = renumbered[*list];
    }
    list_of
}
