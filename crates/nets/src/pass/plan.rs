//! Which gradients a backward pass computes.

use std::ops::Range;

use crate::Float;
use crate::net::Net;

/// Which gradients a backward pass computes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Whether the parameters of a node get a gradient.
    pub(crate) trained: Vec<bool>,
    /// Whether the gradient at a slot is needed.
    pub(super) needed: Vec<bool>,
    /// Whether the gradient at the output of a node is kept, for taps; empty in training.
    pub(crate) tapped: Vec<bool>,
}

impl Plan {
    /// Plans gradients of the parameters of the nodes for which `is_trained` returns true.
    pub fn new<T: Float>(net: &Net<T>, is_trained: impl Fn(&str) -> bool) -> Self {
        let trained: Vec<bool> = net
            .nodes
            .iter()
            .map(|node| !node.params.is_empty() && is_trained(&node.name))
            .collect();
        let mut needed = vec![false];
        for (node, &trained) in net.nodes.iter().zip(&trained) {
            needed.push(trained || node.reads().any(|slot| needed[slot]));
        }
        Self { trained, needed, tapped: Vec::new() }
    }

    /// Adds the gradient at the input, for an embedding table before the network.
    pub fn with_input<T: Float>(mut self, net: &Net<T>) -> Self {
        self.needed[0] = true;
        for (i, node) in net.nodes.iter().enumerate() {
            self.needed[i + 1] |= node.reads().any(|slot| self.needed[slot]);
        }
        self
    }

    pub(crate) fn needs_input(&self) -> bool {
        self.needed[0]
    }

    /// Plans the gradients at the outputs of the nodes for which `is_wanted` returns true, but none of parameters.
    pub(crate) fn taps<T: Float>(net: &Net<T>, is_wanted: impl Fn(&str) -> bool) -> Self {
        let wanted = Self::new(net, is_wanted);
        Self { trained: vec![false; wanted.trained.len()], tapped: wanted.trained, ..wanted }
    }

    /// Whether the gradient at a slot is kept.
    pub(super) fn keeps(&self, slot: usize) -> bool {
        slot.checked_sub(1).map_or(self.needed[0], |node| self.tapped[node])
    }

    /// Returns the ranges of the parameters that get a gradient.
    pub fn ranges<T: Float>(&self, net: &Net<T>) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (node, _) in net.nodes.iter().zip(&self.trained).filter(|(_, trained)| **trained) {
            match ranges.last_mut() {
                Some(last) if last.end == node.params.start => last.end = node.params.end,
                _ => ranges.push(node.params.clone()),
            }
        }
        ranges
    }
}
