//! All numbers of one pass, and which of them share room.

use std::ops::Range;

use super::CHUNKS;
use super::chunks::Batch;
use super::plan::Plan;
use crate::net::{Net, Node};
use crate::{Float, Mode, Sequences};

/// All numbers of one pass over up to `capacity` samples. Nothing is allocated in a step once they are there.
#[derive(Debug)]
pub struct Workspace<T> {
    pub(super) capacity: usize,
    /// Where the sequences of the last forward pass begin, and the end of the last one.
    pub(super) starts: Vec<usize>,
    /// 0, 1, .. : each sample a sequence by itself.
    pub(super) singles: Vec<usize>,
    /// The sequences of each chunk.
    pub(super) chunks: Vec<Range<usize>>,
    pub(super) mode: Mode,
    /// Nodes whose statistics stay as they are even in training: their parameters are not trained.
    pub(super) still: Vec<bool>,
    pub(super) step: u32,
    /// Values of the slots.
    pub(crate) slots: Vec<Vec<T>>,
    /// Gradients at the slots: several slots of one size share a list.
    pub(super) deltas: Vec<Vec<T>>,
    /// The list of each slot.
    pub(crate) delta_of: Vec<usize>,
    pub(super) kept: Vec<Vec<T>>,
    pub(super) rooms: Vec<Vec<T>>,
    pub(super) spares: Vec<Vec<T>>,
    /// The gradient of the parameters after a backward pass.
    pub grads: Vec<T>,
    pub(super) chunk_grads: Vec<Vec<T>>,
}

impl<T: Float> Workspace<T> {
    /// Room for batches of up to `capacity` samples; `plan` if there are backward passes.
    pub fn new(net: &Net<T>, capacity: usize, plan: Option<&Plan>) -> Self {
        let slots = 0..=net.nodes.len();
        let lens: Vec<usize> = slots.clone().map(|slot| net.shape(slot).values()).collect();
        let kinds: Vec<_> = slots.map(|slot| (lens[slot], net.is_pooled(slot))).collect();
        let delta_of = match plan {
            None => Vec::new(),
            Some(plan) if plan.taps => (0..lens.len()).collect(),
            Some(_) => share(net, &kinds),
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
            rooms: vec![Vec::new(); CHUNKS],
            spares: vec![Vec::new(); CHUNKS],
            grads: zeros(grads),
            chunk_grads: if has_gradients { vec![Vec::new(); CHUNKS] } else { Vec::new() },
        }
    }

    /// The largest batch.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many samples stand in a slot.
    pub(crate) fn count(&self, net: &Net<T>, slot: usize) -> usize {
        if net.is_pooled(slot) { self.starts.len() - 1 } else { self.starts[self.starts.len() - 1] }
    }

    /// How many numbers stand in a slot.
    pub(super) fn len(&self, net: &Net<T>, slot: usize) -> usize {
        self.count(net, slot) * net.shape(slot).values()
    }

    /// How the rows of the last forward pass divide into sequences.
    pub fn sequences(&self) -> Sequences<'_> {
        Sequences::new(&self.starts)
    }

    /// The outputs, and the gradient there, to be set before a backward pass.
    pub fn output_gradient(&mut self, net: &Net<T>) -> (&[T], &mut [T]) {
        let slot = net.nodes.len();
        let len = self.len(net, slot);
        let list = self.delta_of[slot];
        (&self.slots[slot][..len], &mut self.deltas[list][..len])
    }

    /// The outputs of the last forward pass, n x outputs.
    pub fn outputs(&self, net: &Net<T>) -> &[T] {
        self.values(net, net.nodes.len())
    }

    /// What stands in a slot after a forward pass.
    pub(crate) fn values(&self, net: &Net<T>, slot: usize) -> &[T] {
        &self.slots[slot][..self.len(net, slot)]
    }

    /// The gradient at the input after a backward pass of a plan that wants it ([`Plan::with_input`]).
    pub fn input_gradient(&self, net: &Net<T>) -> &[T] {
        self.delta(net, 0)
    }

    /// What a node has put out in the last forward pass, n samples.
    pub fn activations(&self, net: &Net<T>, name: &str) -> Option<&[T]> {
        let node = net.nodes.iter().position(|node| node.name == name)?;
        Some(self.values(net, node + 1))
    }

    pub(crate) fn delta(&self, net: &Net<T>, slot: usize) -> &[T] {
        &self.deltas[self.delta_of[slot]][..self.len(net, slot)]
    }

    /// How what stands in a slot divides into sequences; one each where the slot is pooled.
    pub(crate) fn samples(&self, net: &Net<T>, slot: usize) -> Sequences<'_> {
        let batch = Batch { starts: &self.starts, singles: &self.singles };
        batch.sequences(net.is_pooled(slot), &batch.all())
    }

    /// What the pass is for, as a node sees it.
    pub(super) fn mode(&self, node: usize) -> Mode {
        if self.still[node] { Mode::Frozen } else { self.mode }
    }
}

/// Nodes with statistics and no training.
fn still<T: Float>(net: &Net<T>, plan: Option<&Plan>) -> Vec<bool> {
    let trained = |i: usize| plan.is_none_or(|plan| plan.trained[i]);
    net.nodes.iter().enumerate().map(|(i, node)| !node.buffers.is_empty() && !trained(i)).collect()
}

/// Which slots can share a list for their gradients: a gradient lives from the last node that reads its slot to the node that
/// wrote it; only equal sizes share, so that chunks of different slots never overlap.
fn share<T: Float>(net: &Net<T>, kinds: &[(usize, bool)]) -> Vec<usize> {
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
        free.push(list_of[number + 1]);
    }
    // Lists are numbered by the first slot that has them, as the sizes are collected.
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
