//! Forward and backward through a network.
//!
//! Runs of nodes that treat samples independently are computed in chunks of samples, each chunk through the whole run
//! while its values are in the cache; nodes that need the whole batch come in between. A batch of a given size is always split
//! into the same chunks, each with its own gradient sum, and these are added in order: the bytes do not depend on the number
//! of threads. A chunk holds whole sequences; without sequences every sample is its own sequence.

mod chunks;
mod plan;
mod slots;
#[cfg(test)]
mod tests;
mod workspace;

use std::ops::Range;

use rayon::prelude::*;

use self::chunks::{Batch, chunks, cut};
pub use self::plan::Plan;
use self::slots::{accumulate, add, join, part, pass_on};
pub use self::workspace::Workspace;
use crate::float::wide;
use crate::layer::take;
use crate::net::{Net, Node, Op};
use crate::{Backward, Float, Forward, Mode, Noise, Scope};

/// Maximum number of chunks of a batch.
const CHUNKS: usize = 8;
/// Parameters whose chunk gradients are added at once by one thread.
const SUM: usize = 1 << 14;

impl<T: Float> Net<T> {
    /// Splits the nodes into runs that treat samples independently and single nodes that need the batch.
    fn segments(&self, work: &Workspace<T>) -> Vec<(Range<usize>, Scope)> {
        let mut segments: Vec<(Range<usize>, Scope)> = Vec::new();
        for (i, node) in self.nodes.iter().enumerate() {
            let scope = node.scope(work.mode(i));
            match segments.last_mut() {
                Some((range, Scope::Samples)) if scope == Scope::Samples => range.end = i + 1,
                _ => segments.push((i..i + 1, scope)),
            }
        }
        segments
    }

    /// Computes the outputs of `n` samples that `fill` writes; `step` determines the random numbers.
    ///
    /// # Panics
    /// If the workspace is too small for n samples.
    pub fn forward(
        &self,
        work: &mut Workspace<T>,
        n: usize,
        mode: Mode,
        step: u32,
        fill: impl FnOnce(&mut [T]),
    ) {
        work.starts.clear();
        work.starts.extend(0..=n);
        self.forward_started(work, mode, step, fill);
    }

    /// Computes the outputs of packed sequences, whose rows `fill` writes: sequence i has rows
    /// `starts[i] .. starts[i + 1]`.
    ///
    /// # Panics
    /// If the workspace is too small, if a sequence is empty, or if the first does not start at 0.
    pub fn forward_sequences(
        &self,
        work: &mut Workspace<T>,
        starts: &[usize],
        mode: Mode,
        step: u32,
        fill: impl FnOnce(&mut [T]),
    ) {
        assert!(starts.first() == Some(&0) && starts.is_sorted_by(|a, b| a < b), "starts ascend");
        work.starts.clear();
        work.starts.extend_from_slice(starts);
        self.forward_started(work, mode, step, fill);
    }

    fn forward_started(
        &self,
        work: &mut Workspace<T>,
        mode: Mode,
        step: u32,
        fill: impl FnOnce(&mut [T]),
    ) {
        let n = work.starts[work.starts.len() - 1];
        assert!(n > 0 && n <= work.capacity, "{n} samples in a workspace for {}", work.capacity);
        (work.mode, work.step) = (mode, step);
        work.chunks = chunks(&work.starts);
        fill(&mut work.slots[0][..n * self.input().values()]);
        for (range, scope) in self.segments(work) {
            match scope {
                Scope::Samples => self.forward_samples(range, work),
                Scope::Batch => self.forward_batch(range.start, work),
            }
        }
    }

    /// One node that needs the whole batch.
    fn forward_batch(&self, number: usize, work: &mut Workspace<T>) {
        let node = &self.nodes[number];
        // INVARIANT: sums treat samples independently.
        let Some(layer) = node.layer() else { return };
        let mode = work.mode(number);
        let (n, out) = (work.count(self, node.from), work.len(self, number + 1));
        let batch = Batch { starts: &work.starts, singles: &work.singles };
        let (before, after) = work.slots.split_at_mut(number + 1);
        layer.forward(Forward {
            n,
            sequences: batch.sequences(self.is_pooled(node.from), &batch.all()),
            input: node.input,
            output: node.output,
            mode,
            params: &self.params[node.params.clone()],
            buffers: &self.buffers[node.buffers.clone()],
            x: &before[node.from][..n * node.input.values()],
            y: &mut after[0][..out],
            kept: &mut work.kept[number],
            noise: Noise { stream: node.stream, step: work.step, first: 0 },
            scratch: &mut work.scratches[0],
        });
    }

    fn forward_samples(&self, range: Range<usize>, work: &mut Workspace<T>) {
        let step = work.step;
        let modes: Vec<Mode> = range.clone().map(|i| work.mode(i)).collect();
        let batch = Batch { starts: &work.starts, singles: &work.singles };
        let (before, after) = work.slots.split_at_mut(range.start + 1);
        let before = &*before;
        let mut outs: Vec<Vec<&mut [T]>> = work.chunks.iter().map(|_| Vec::new()).collect();
        for (node, slot) in self.nodes[range.clone()].iter().zip(after) {
            let len = |chunk| batch.span(node.is_pooled, chunk).len() * node.output.values();
            let parts = cut(slot, work.chunks.iter().map(len));
            outs.iter_mut().zip(parts).for_each(|(outs, part)| outs.push(part));
        }
        let tasks = outs.into_par_iter().zip(&work.chunks).zip(&mut work.scratches);
        tasks.for_each(|((mut outs, chunk), scratch)| {
            for (k, node) in self.nodes[range.clone()].iter().enumerate() {
                let (done, rest) = outs.split_at_mut(k);
                let view = |slot: usize| match slot.checked_sub(range.start + 1) {
                    Some(own) => &*done[own],
                    None => {
                        let (span, len) =
                            (batch.span(self.is_pooled(slot), chunk), self.shape(slot).values());
                        &before[slot][span.start * len..span.end * len]
                    }
                };
                let y = &mut *rest[0];
                let is_pooled = self.is_pooled(node.from);
                let span = batch.span(is_pooled, chunk);
                match &node.op {
                    Op::Add { other, relu } => add(view(node.from), view(*other), *relu, y),
                    Op::Join { other } => {
                        join(view(node.from), view(*other), node.input.values(), y);
                    }
                    Op::Layer(layer) => layer.forward(Forward {
                        n: span.len(),
                        sequences: batch.sequences(is_pooled, chunk),
                        input: node.input,
                        output: node.output,
                        mode: modes[k],
                        params: &self.params[node.params.clone()],
                        buffers: &self.buffers[node.buffers.clone()],
                        x: view(node.from),
                        y,
                        kept: &mut [],
                        noise: Noise { stream: node.stream, step, first: span.start },
                        scratch,
                    }),
                }
            }
        });
    }

    /// Updates running statistics after a forward pass in training.
    pub fn settle(&mut self, work: &Workspace<T>) {
        for (i, (node, kept)) in self.nodes.iter().zip(&work.kept).enumerate() {
            let is_moving = work.mode(i) == Mode::Training && !node.buffers.is_empty();
            if let (Some(layer), true) = (node.layer(), is_moving) {
                layer.settle(kept, &mut self.buffers[node.buffers.clone()]);
            }
        }
    }

    /// Computes the gradient of the parameters, in `work.grads`, from the gradient at the output.
    pub fn backward(&self, work: &mut Workspace<T>, plan: &Plan) {
        // Whether a gradient has been written to a slot.
        let mut written = vec![false; self.nodes.len() + 1];
        written[self.nodes.len()] = true;
        for (range, scope) in self.segments(work).into_iter().rev() {
            match scope {
                Scope::Samples => self.backward_samples(range, work, plan, &mut written),
                Scope::Batch => self.backward_batch(range.start, work, plan, &mut written),
            }
        }
        self.sum_chunks(work, plan);
    }

    fn backward_batch(
        &self,
        number: usize,
        work: &mut Workspace<T>,
        plan: &Plan,
        written: &mut [bool],
    ) {
        let node = &self.nodes[number];
        // INVARIANT: sums treat samples independently.
        let Some(layer) = node.layer() else { return };
        if !plan.needed[number + 1] || !written[number + 1] {
            return; // not needed, or its output was not read
        }
        let mode = work.mode(number);
        let (from, to) = (work.delta_of[node.from], work.delta_of[number + 1]);
        let dy = std::mem::take(&mut work.deltas[to]);
        let (n, out) = (work.count(self, node.from), work.len(self, number + 1));
        let batch = Batch { starts: &work.starts, singles: &work.singles };
        let len = n * node.input.values();
        let adds = written[node.from];
        let wanted = plan.needed[node.from];
        let dx = match (wanted, adds) {
            (false, _) => None,
            (true, false) => Some(&mut work.deltas[from][..len]),
            (true, true) => Some(take(&mut work.spares[0], len)),
        };
        layer.backward(Backward {
            n,
            sequences: batch.sequences(self.is_pooled(node.from), &batch.all()),
            input: node.input,
            output: node.output,
            mode,
            params: &self.params[node.params.clone()],
            buffers: &self.buffers[node.buffers.clone()],
            x: &work.slots[node.from][..len],
            y: &work.slots[number + 1][..out],
            dy: &dy[..out],
            dx,
            dparams: plan.trained[number].then(|| &mut work.grads[node.params.clone()]),
            tapped: None,
            kept: &work.kept[number],
            noise: Noise { stream: node.stream, step: work.step, first: 0 },
            scratch: &mut work.scratches[0],
        });
        if wanted && adds {
            accumulate(&mut work.deltas[from][..len], &work.spares[0][..len]);
        }
        written[node.from] |= wanted;
        work.deltas[to] = dy;
    }

    /// Offsets of the chunk gradients of a node: only nodes that treat samples independently have any.
    fn chunk_places(&self, work: &Workspace<T>) -> (Vec<Range<usize>>, usize) {
        let mut end = 0;
        let place = |(i, node): (usize, &Node<T>)| {
            let first = end;
            if node.scope(work.mode(i)) == Scope::Samples {
                end += node.params.len();
            }
            first..end
        };
        let places = self.nodes.iter().enumerate().map(place).collect();
        (places, end)
    }

    fn backward_samples(
        &self,
        range: Range<usize>,
        work: &mut Workspace<T>,
        plan: &Plan,
        written: &mut [bool],
    ) {
        let step = work.step;
        let modes: Vec<Mode> = range.clone().map(|i| work.mode(i)).collect();
        let batch = Batch { starts: &work.starts, singles: &work.singles };
        let (places, total) = self.chunk_places(work);
        if work.chunk_grads.first().is_some_and(|grads| grads.len() < total) {
            work.chunk_grads.iter_mut().for_each(|grads| grads.resize(total, T::ZERO));
        }
        // Views of the gradients that these nodes read and write, by the index of their list.
        let mut lists: Vec<Option<usize>> = vec![None; work.deltas.len()];
        for i in range.clone() {
            for slot in self.nodes[i].reads().chain([i + 1]) {
                lists[work.delta_of[slot]] = Some(slot);
            }
        }
        let mut views: Vec<Vec<Option<&mut [T]>>> =
            work.chunks.iter().map(|_| Vec::new()).collect();
        for (delta, slot) in work.deltas.iter_mut().zip(lists) {
            match slot {
                None => views.iter_mut().for_each(|views| views.push(None)),
                Some(slot) => {
                    let (is_pooled, values) = (self.is_pooled(slot), self.shape(slot).values());
                    let len = |chunk| batch.span(is_pooled, chunk).len() * values;
                    let parts = cut(delta, work.chunks.iter().map(len));
                    views.iter_mut().zip(parts).for_each(|(views, part)| views.push(Some(part)));
                }
            }
        }
        let (slots, delta_of, before) = (&work.slots, &work.delta_of, &*written);
        let mut none: Vec<Vec<T>> = Vec::new();
        let grads = if work.chunk_grads.is_empty() {
            none.resize(CHUNKS, Vec::new());
            &mut none
        } else {
            &mut work.chunk_grads
        };
        let scratches = work.scratches.iter_mut().zip(&mut work.spares).collect::<Vec<_>>();
        // Views of what the layers of the range write for their taps.
        let mut tapped: Vec<Vec<&mut [T]>> = work.chunks.iter().map(|_| Vec::new()).collect();
        for (node, values) in self.nodes[range.clone()].iter().zip(&mut work.tapped[range.clone()])
        {
            let is_pooled = self.is_pooled(node.from);
            let per_row = node.layer().map_or(0, |layer| layer.tapped());
            let per_row = if values.is_empty() { 0 } else { per_row };
            let len = |chunk| batch.span(is_pooled, chunk).len() * per_row;
            let parts = cut(values, work.chunks.iter().map(len));
            tapped.iter_mut().zip(parts).for_each(|(views, part)| views.push(part));
        }
        let tasks = views.into_par_iter().zip(tapped).zip(&work.chunks).zip(scratches).zip(grads);
        tasks.for_each(|((((mut views, mut tapped), chunk), (scratch, spare)), grads)| {
            let mut written = before.to_vec();
            let value = |slot: usize| {
                let (span, len) =
                    (batch.span(self.is_pooled(slot), chunk), self.shape(slot).values());
                &slots[slot][span.start * len..span.end * len]
            };
            for i in range.clone().rev() {
                if !plan.needed[i + 1] || !written[i + 1] {
                    continue;
                }
                let node = &self.nodes[i];
                // INVARIANT: the views of all slots of the range were created above, and dy is put back.
                let dy = views[delta_of[i + 1]].take().expect("a view of the gradient");
                match &node.op {
                    Op::Add { relu, .. } => {
                        let mask = relu.then(|| value(i + 1));
                        for slot in node.reads().filter(|&slot| plan.needed[slot]) {
                            let dx =
                                views[delta_of[slot]].as_mut().expect("a view of the gradient");
                            pass_on(dy, mask, written[slot], dx);
                            written[slot] = true;
                        }
                    }
                    Op::Join { .. } => {
                        let mut first = 0;
                        for slot in node.reads() {
                            let width = self.shape(slot).values();
                            if plan.needed[slot] {
                                let dx =
                                    views[delta_of[slot]].as_mut().expect("a view of the gradient");
                                part(dy, node.output.values(), first, written[slot], dx, width);
                                written[slot] = true;
                            }
                            first += width;
                        }
                    }
                    Op::Layer(layer) => {
                        let wanted = plan.needed[node.from];
                        let mut own = if wanted { views[delta_of[node.from]].take() } else { None };
                        let adds = wanted && written[node.from];
                        let is_pooled = self.is_pooled(node.from);
                        let span = batch.span(is_pooled, chunk);
                        let dx = match (&mut own, adds) {
                            (Some(_), true) => Some(take(spare, span.len() * node.input.values())),
                            (Some(own), false) => Some(&mut **own),
                            (None, _) => None,
                        };
                        let tapped = std::mem::take(&mut tapped[i - range.start]);
                        let tapped = (!tapped.is_empty()).then_some(tapped);
                        if dx.is_none() && tapped.is_none() && !plan.trained[i] {
                            views[delta_of[i + 1]] = Some(dy);
                            continue;
                        }
                        layer.backward(Backward {
                            n: span.len(),
                            sequences: batch.sequences(is_pooled, chunk),
                            input: node.input,
                            output: node.output,
                            mode: modes[i - range.start],
                            params: &self.params[node.params.clone()],
                            buffers: &self.buffers[node.buffers.clone()],
                            x: value(node.from),
                            y: value(i + 1),
                            dy,
                            dx,
                            dparams: plan.trained[i].then(|| &mut grads[places[i].clone()]),
                            tapped,
                            kept: &[],
                            noise: Noise { stream: node.stream, step, first: span.start },
                            scratch,
                        });
                        if let Some(own) = own {
                            if adds {
                                accumulate(own, &spare[..own.len()]);
                            }
                            views[delta_of[node.from]] = Some(own);
                            written[node.from] = true;
                        }
                    }
                }
                views[delta_of[i + 1]] = Some(dy);
            }
        });
        for i in range.rev() {
            if !plan.needed[i + 1] || !written[i + 1] {
                continue;
            }
            for slot in self.nodes[i].reads() {
                written[slot] |= plan.needed[slot];
            }
        }
    }

    /// Adds the gradients of the chunks, in order.
    fn sum_chunks(&self, work: &mut Workspace<T>, plan: &Plan) {
        let (places, _) = self.chunk_places(work);
        let chunks = work.chunks.len();
        for (i, node) in self.nodes.iter().enumerate() {
            if !plan.trained[i] || places[i].is_empty() {
                continue;
            }
            let parts: Vec<&[T]> =
                work.chunk_grads[..chunks].iter().map(|grads| &grads[places[i].clone()]).collect();
            let sums = work.grads[node.params.clone()].par_chunks_mut(SUM).enumerate();
            let parts = parts.as_slice();
            sums.for_each(|(b, sum)| {
                wide(
                    #[inline(always)]
                    move || {
                        let at = b * SUM;
                        sum.copy_from_slice(&parts[0][at..][..sum.len()]);
                        for part in &parts[1..] {
                            let part = &part[at..][..sum.len()];
                            for (sum, &g) in sum.iter_mut().zip(part) {
                                *sum += g;
                            }
                        }
                    },
                );
            });
        }
    }
}
