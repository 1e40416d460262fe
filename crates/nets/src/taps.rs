//! Taps: for every sample and every layer, the layer's input a and the gradient delta of an output at the layer's output.
//!
//! The gradient of output f_c of sample i with respect to the weights of a layer is sum_p delta_ip a_ip' over positions
//! p (one for dense layers), so the tangent kernel of a dense layer is (a_i . a_j)(delta_i . delta_j) (paper 004, section 2)
//! and no gradient is ever materialized. Statistics of batch norm are frozen: in training mode samples are not independent.
//!
//! delta belongs to a cotangent v, which may differ from sample to sample: it is the gradient of v_i . f(x_i), and f_c is the one with
//! v = e_c. One forward pass ([`Taps::forward`]) serves all cotangents, a is handed over once ([`Taps::inputs`]), and every cotangent
//! costs one backward pass without the gradients of parameters ([`Taps::pull`]), which ends at the first layer that is wanted
//! ([`Taps::only`]).
//!
//! For packed sequences a sample is a whole sequence: the gradient of an output of one of its rows, or of the pooled
//! sequence, is the sum over all rows of the sequence. For an embedding table before the network, the taps are the gradients
//! at the input: each row belongs to the id of that row.

use std::ops::Range;

use rayon::prelude::*;

use crate::net::{Net, Node};
use crate::pass::{Plan, Workspace};
use crate::product::{Matrix, whole};
use crate::{Backward, Factors, Float, Layer, Mode, Noise, Outer, Part, Sequences, Shape};

/// The tap of one layer and one cotangent.
#[derive(Debug)]
pub struct Tap<'a, T> {
    /// Name of the layer.
    pub name: &'a str,
    /// Name of the part of the layer, for layers with several ([`Factors::Parts`]); empty for others.
    pub part: &'static str,
    /// Index of the network's output; 0 for other cotangents.
    pub output: usize,
    /// Division of the rows at the layer's input into samples.
    pub samples: Sequences<'a>,
    /// The two factors, or the gradients themselves where they are small.
    pub factors: TapFactors<'a, T>,
}

/// The two factors of the gradients of a layer, or the gradients themselves.
#[derive(Debug)]
pub enum TapFactors<'a, T> {
    /// The factors a and delta.
    Outer(OuterTap<'a, T>),
    /// Gradients of all parameters of the layer, samples x parameters, as for the scales and shifts of norms.
    Direct(&'a [T]),
    /// Gradients of the rows of the batch, for a table whose rows were selected by the ids of the input.
    Rows(&'a [T]),
    /// Gradients of the rows of the batch, for a table of the network whose rows were added to them.
    Added {
        /// For each row of the batch, the row of the table.
        rows: &'a [usize],
        /// Gradients, rows x values.
        delta: &'a [T],
    },
}

/// What the taps of a layer, or of a part of it, are made of.
#[derive(Clone, Debug, PartialEq)]
pub struct TappedLayer {
    /// Name of the layer; empty for the table before the network.
    pub name: String,
    /// Name of the part of the layer; empty for layers with one.
    pub part: &'static str,
    /// Form of the gradient.
    pub kind: TapKind,
    /// Whether the layer reads one row per sequence instead of all.
    pub is_pooled: bool,
}

/// Form of the gradient of one sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TapKind {
    /// A sum of products of a and delta.
    Outer(Outer),
    /// The gradients of so many parameters.
    Direct(usize),
    /// Rows of so many values.
    Rows(usize),
}

/// The input a of one layer, the same for all cotangents.
#[derive(Debug)]
pub struct InputTap<'a, T> {
    /// Name of the layer.
    pub name: &'a str,
    /// Name of the part of the layer; empty for layers with one.
    pub part: &'static str,
    /// Sizes of the outer product.
    pub sizes: Outer,
    /// The number rho that a bias adds to a, as in \[a, rho\]: `bias_scale` / `weight_scale`, 0 without a bias.
    pub bias: T,
    source: Source<'a, T>,
}

impl<'a, T: Float> InputTap<'a, T> {
    /// Returns the division of the rows into samples.
    pub fn samples(&self) -> Sequences<'a> {
        self.source.samples
    }

    /// Returns the input a of some samples, rows x positions x groups x inputs; `scratch` holds it where it must be gathered.
    pub fn inputs<'r>(&'r self, samples: Range<usize>, scratch: &'r mut Vec<T>) -> &'r [T] {
        self.source.inputs(samples, scratch)
    }
}

/// Where a comes from.
#[derive(Clone, Copy, Debug)]
struct Source<'a, T> {
    samples: Sequences<'a>,
    x: &'a [T],
    y: &'a [T],
    /// Values of a row of y.
    outputs: usize,
    input: Shape,
    part: Option<usize>,
    layer: &'a dyn Layer<T>,
}

impl<T: Float> Source<'_, T> {
    /// The rows of some samples.
    fn rows(&self, samples: Range<usize>) -> Range<usize> {
        let first = self.samples.part(0..samples.start).rows();
        first..first + self.samples.part(samples).rows()
    }

    fn inputs<'r>(&'r self, samples: Range<usize>, scratch: &'r mut Vec<T>) -> &'r [T] {
        let len = self.input.values();
        let rows = self.rows(samples.clone());
        let x = &self.x[rows.start * len..rows.end * len];
        let is_gathered = match self.part {
            None => self.layer.tap_input(self.input, rows.len(), x, scratch),
            Some(part) => {
                let y = &self.y[rows.start * self.outputs..rows.end * self.outputs];
                self.layer.tap_part(part, self.samples.part(samples), y, scratch)
            }
        };
        if is_gathered { scratch } else { x }
    }
}

/// The factors a and delta of one layer.
#[derive(Debug)]
pub struct OuterTap<'a, T> {
    /// Sizes of the outer product.
    pub sizes: Outer,
    /// Gradients delta, rows x positions x groups x outputs: the gradient of the weights is sum_p delta_p a_p', that of a bias
    /// `bias_scale` sum_p delta_p / `weight_scale`.
    pub delta: &'a [T],
    /// Factor in delta besides the gradient at the output of the layer.
    pub weight_scale: T,
    /// Factor from the gradient at the output to the gradient of the bias.
    pub bias_scale: T,
    /// Where the weight and the bias begin in the parameters of the layer.
    pub places: [usize; 2],
    source: Source<'a, T>,
}

impl<T: Float> OuterTap<'_, T> {
    /// Returns the input a of some samples, rows x positions x groups x inputs; `scratch` holds it where it must be gathered
    /// (windows of a convolution).
    pub fn inputs<'r>(&'r self, samples: Range<usize>, scratch: &'r mut Vec<T>) -> &'r [T] {
        self.source.inputs(samples, scratch)
    }

    /// Returns the division of the rows into samples.
    pub fn samples(&self) -> Sequences<'_> {
        self.source.samples
    }

    /// Returns delta of one sample, rows x positions x groups x outputs.
    pub fn delta_of(&self, sample: usize) -> &[T] {
        let len = self.sizes.positions * self.sizes.groups * self.sizes.outputs;
        let rows = self.source.rows(sample..sample + 1);
        &self.delta[rows.start * len..rows.end * len]
    }

    /// Returns the gradient of one sample: that of the weight, then that of the bias.
    pub fn gradient(&self, sample: usize) -> Vec<T> {
        let mut gradient = vec![T::ZERO; self.sizes.parameters()];
        self.gradients_into(sample..sample + 1, &mut gradient);
        gradient
    }

    /// Writes the gradients of some samples, samples x parameters: that of the weight, then that of the bias.
    ///
    /// # Panics
    /// If `out` has another size.
    pub fn gradients_into(&self, samples: Range<usize>, out: &mut [T]) {
        let count = self.sizes.parameters();
        assert_eq!(out.len(), samples.len() * count, "a gradient for each sample");
        let each = out.par_chunks_mut(count).zip(samples);
        each.for_each_init(Vec::new, |scratch, (out, sample)| {
            let a = self.inputs(sample..sample + 1, scratch);
            self.write(a, self.delta_of(sample), out);
        });
    }

    /// Writes sum_p delta_p a_p' group by group, and the gradient of the bias.
    fn write(&self, a: &[T], delta: &[T], out: &mut [T]) {
        let Outer { groups, inputs, outputs, .. } = self.sizes;
        let rows = delta.len() / (groups * outputs);
        let (weight, bias) = out.split_at_mut(groups * outputs * inputs);
        if outputs == 1 && groups > 1 {
            // Depthwise: one filter per channel.
            weight.fill(T::ZERO);
            for (a, delta) in a.chunks_exact(groups * inputs).zip(delta.chunks_exact(groups)) {
                for ((w, a), &d) in
                    weight.chunks_exact_mut(inputs).zip(a.chunks_exact(inputs)).zip(delta)
                {
                    w.iter_mut().zip(a).for_each(|(w, &a)| *w += d * a);
                }
            }
        } else {
            for (g, weight) in weight.chunks_exact_mut(outputs * inputs).enumerate() {
                let a = Matrix::strided(a, rows, groups * inputs, g * inputs, inputs);
                let delta = Matrix::strided(delta, rows, groups * outputs, g * outputs, outputs);
                whole(weight, false, T::ONE, delta.transposed(), a);
            }
        }
        if !bias.is_empty() {
            let scale = self.bias_scale / self.weight_scale;
            bias.fill(T::ZERO);
            for delta in delta.chunks_exact(bias.len()) {
                bias.iter_mut().zip(delta).for_each(|(b, &d)| *b += d);
            }
            bias.iter_mut().for_each(|b| *b *= scale);
        }
    }
}

/// Computes taps of a network batch by batch, in memory that depends on the batch size alone.
#[derive(Debug)]
pub struct Taps<'a, T> {
    net: &'a Net<T>,
    work: Workspace<T>,
    plan: Plan,
    /// The rows of the batch whose outputs are those of the samples.
    outputs: Vec<usize>,
    scaled: Vec<T>,
    rows: Vec<usize>,
    direct: Vec<T>,
}

impl<'a, T: Float> Taps<'a, T> {
    /// Creates taps of all layers, for batches of up to `capacity` samples, or rows of packed sequences.
    pub fn new(net: &'a Net<T>, capacity: usize) -> Self {
        Self::planned(net, capacity, Plan::taps(net, |_| true))
    }

    /// Creates taps of the layers for which `is_wanted` returns true: a backward pass ends at the first of them.
    pub fn only(net: &'a Net<T>, capacity: usize, is_wanted: impl Fn(&str) -> bool) -> Self {
        Self::planned(net, capacity, Plan::taps(net, is_wanted))
    }

    fn planned(net: &'a Net<T>, capacity: usize, plan: Plan) -> Self {
        let work = Workspace::new(net, capacity, Some(&plan));
        let (outputs, scaled, rows, direct) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { net, work, plan, outputs, scaled, rows, direct }
    }

    /// Adds the gradient at the input: the taps of an embedding table before the network.
    pub fn with_input(self) -> Self {
        Self::planned(self.net, self.work.capacity(), self.plan.with_input(self.net))
    }

    /// Lists the layers with taps, in the order in which a sink receives them.
    pub fn layers(&self) -> Vec<TappedLayer> {
        let width = self.net.input().values();
        let input = TappedLayer {
            name: String::new(),
            part: "",
            kind: TapKind::Rows(width),
            is_pooled: false,
        };
        let mut layers: Vec<_> = self.plan.needs_input().then_some(input).into_iter().collect();
        for node in self.wanted().map(|number| &self.net.nodes[number]) {
            let of = |part, kind| {
                let is_pooled = self.net.is_pooled(node.from);
                TappedLayer { name: node.name.clone(), part, kind, is_pooled }
            };
            match node.factors() {
                Factors::None => {}
                Factors::Outer(sizes) => layers.push(of("", TapKind::Outer(sizes))),
                Factors::Parts(parts) => {
                    layers.extend(parts.iter().map(|p| of(p.name, TapKind::Outer(p.sizes))));
                }
                Factors::Rows => layers.push(of("", TapKind::Rows(node.output.values()))),
                Factors::Direct => layers.push(of("", TapKind::Direct(node.params.len()))),
            }
        }
        layers
    }

    /// The numbers of the nodes that are wanted.
    fn wanted(&self) -> impl Iterator<Item = usize> {
        self.plan.tapped.iter().enumerate().filter(|(_, wanted)| **wanted).map(|(number, _)| number)
    }

    /// Computes the outputs of `n` samples, which `fill` writes.
    ///
    /// # Panics
    /// If n exceeds the capacity.
    pub fn forward(&mut self, n: usize, fill: impl FnOnce(&mut [T])) {
        self.net.forward(&mut self.work, n, Mode::Frozen, 0, fill);
        self.outputs.clear();
        self.outputs.extend(0..n);
    }

    /// Computes the outputs of packed sequences: those of row `rows[i]` of the batch for sequence i, or of the whole sequence if
    /// the network pools.
    ///
    /// # Panics
    /// If the rows exceed the capacity, or there is not one row per sequence.
    pub fn forward_sequences(
        &mut self,
        starts: &[usize],
        rows: &[usize],
        fill: impl FnOnce(&mut [T]),
    ) {
        self.net.forward_sequences(&mut self.work, starts, Mode::Frozen, 0, fill);
        assert_eq!(rows.len(), starts.len() - 1, "a row for each sequence");
        self.outputs.clear();
        match self.net.is_pooled(self.net.nodes.len()) {
            true => self.outputs.extend(0..rows.len()),
            false => self.outputs.extend_from_slice(rows),
        }
    }

    /// Returns the outputs of the samples of the last forward pass, samples x outputs.
    pub fn outputs(&self) -> Vec<T> {
        let (all, width) = (self.work.outputs(self.net), self.net.outputs());
        self.outputs.iter().flat_map(|row| &all[row * width..][..width]).copied().collect()
    }

    /// Passes the inputs a of the last forward pass to `sink`: every layer that has them, from first to last.
    pub fn inputs(&self, mut sink: impl FnMut(InputTap<'_, T>)) {
        for number in self.wanted() {
            let node = &self.net.nodes[number];
            let Some(layer) = node.layer() else { continue };
            let mut hand = |part: &'static str, sizes: Outer, which| {
                let rho = layer.tap_bias_scale() / layer.tap_scale();
                let bias = if sizes.bias { rho } else { T::ZERO };
                let source = self.source(number, node, layer, which);
                sink(InputTap { name: &node.name, part, sizes, bias, source });
            };
            match node.factors() {
                Factors::Outer(sizes) => hand("", sizes, None),
                Factors::Parts(parts) => {
                    for (which, part) in parts.into_iter().enumerate() {
                        hand(part.name, part.sizes, Some(which));
                    }
                }
                Factors::None | Factors::Rows | Factors::Direct => {}
            }
        }
    }

    fn source<'s>(
        &'s self,
        number: usize,
        node: &Node<T>,
        layer: &'s dyn Layer<T>,
        part: Option<usize>,
    ) -> Source<'s, T> {
        Source {
            samples: self.work.samples(self.net, node.from),
            x: self.work.values(self.net, node.from),
            y: self.work.values(self.net, number + 1),
            outputs: node.output.values(),
            input: node.input,
            part,
            layer,
        }
    }

    /// Passes the taps of the samples of the last forward pass for one cotangent, samples x outputs, to `sink`: every layer with
    /// parameters from first to last. It is the tap of v_i . f(x_i), with one backward pass.
    ///
    /// # Panics
    /// If the cotangent has another size.
    pub fn pull(&mut self, cotangent: &[T], sink: impl FnMut(Tap<'_, T>)) {
        let (width, count) = (self.net.outputs(), self.outputs.len());
        assert_eq!(cotangent.len(), count * width, "a cotangent for each sample");
        let (_, gradient) = self.work.output_gradient(self.net);
        gradient.fill(T::ZERO);
        for (row, v) in self.outputs.iter().zip(cotangent.chunks_exact(width)) {
            gradient[row * width..][..width].copy_from_slice(v);
        }
        self.emit(0, sink);
    }

    /// Passes the taps of `n` samples, which `fill` writes, to `sink`: for each of `outputs`, every layer with parameters from
    /// first to last.
    ///
    /// # Panics
    /// If n exceeds the capacity, or an output does not exist.
    pub fn take(
        &mut self,
        n: usize,
        outputs: &[usize],
        fill: impl FnOnce(&mut [T]),
        sink: impl FnMut(Tap<'_, T>),
    ) {
        self.forward(n, fill);
        self.pull_outputs(outputs, sink);
    }

    /// Passes the taps of packed sequences to `sink`.
    ///
    /// The outputs are those of row `rows[i]` of the batch for sequence i, or of the whole sequence if the network pools. Before
    /// the layers of each output, `sink` receives the gradient at the input, under the name of the input, which is empty.
    ///
    /// # Panics
    /// If the rows exceed the capacity, an output does not exist, or there is not one row per sequence.
    pub fn take_sequences(
        &mut self,
        starts: &[usize],
        rows: &[usize],
        outputs: &[usize],
        fill: impl FnOnce(&mut [T]),
        sink: impl FnMut(Tap<'_, T>),
    ) {
        self.forward_sequences(starts, rows, fill);
        self.pull_outputs(outputs, sink);
    }

    /// Passes on the taps of some outputs.
    fn pull_outputs(&mut self, outputs: &[usize], mut sink: impl FnMut(Tap<'_, T>)) {
        let width = self.net.outputs();
        for &output in outputs {
            assert!(output < width, "output {output} of {width}");
            let (_, gradient) = self.work.output_gradient(self.net);
            gradient.fill(T::ZERO);
            self.outputs.iter().for_each(|row| gradient[row * width + output] = T::ONE);
            self.emit(output, &mut sink);
        }
    }

    /// Passes on the taps for the gradient at the output.
    fn emit(&mut self, output: usize, mut sink: impl FnMut(Tap<'_, T>)) {
        let net = self.net;
        net.backward(&mut self.work, &self.plan);
        if self.plan.needs_input() {
            let factors = TapFactors::Rows(self.work.input_gradient(net));
            sink(Tap { name: "", part: "", output, samples: self.work.sequences(), factors });
        }
        for number in 0..net.nodes.len() {
            if self.plan.tapped[number] {
                self.tap(number, output, &mut sink);
            }
        }
    }

    /// Returns the output of a node for the samples of the last call, for probes.
    pub fn activations(&self, name: &str) -> Option<&[T]> {
        self.work.activations(self.net, name)
    }

    fn tap(&mut self, number: usize, output: usize, sink: &mut impl FnMut(Tap<'_, T>)) {
        let node = &self.net.nodes[number];
        let Some(layer) = node.layer() else { return };
        let mut direct = std::mem::take(&mut self.direct);
        let mut scaled = std::mem::take(&mut self.scaled);
        let mut rows = std::mem::take(&mut self.rows);
        let dy = self.work.delta(self.net, number + 1);
        let samples = self.work.samples(self.net, node.from);
        let mut hand = |part, factors: TapFactors<'_, T>| {
            sink(Tap { name: &node.name, part, output, samples, factors })
        };
        match node.factors() {
            Factors::None => {}
            Factors::Direct => {
                self.write_direct(number, &mut direct);
                hand("", TapFactors::Direct(&direct));
            }
            Factors::Rows => {
                layer.tap_rows(samples, &mut rows);
                hand("", TapFactors::Added { rows: &rows, delta: dy });
            }
            Factors::Outer(sizes) => {
                let weight_scale = layer.tap_scale();
                let mut delta = dy;
                if weight_scale != T::ONE {
                    scaled.clear();
                    scaled.extend(dy.iter().map(|&d| d * weight_scale));
                    delta = &scaled;
                }
                let bias_scale = layer.tap_bias_scale();
                let places = [0, sizes.groups * sizes.outputs * sizes.inputs];
                let source = self.source(number, node, layer, None);
                let outer = OuterTap { sizes, delta, weight_scale, bias_scale, places, source };
                hand("", TapFactors::Outer(outer));
            }
            Factors::Parts(parts) => {
                let per_row = layer.tapped();
                let kept = &self.work.tapped[number][..samples.rows() * per_row];
                for (which, Part { name, sizes, places, delta: first }) in
                    parts.into_iter().enumerate()
                {
                    let len = sizes.groups * sizes.outputs;
                    scaled.clear();
                    scaled.extend(
                        kept.chunks_exact(per_row).flat_map(|row| &row[first..][..len]).copied(),
                    );
                    let source = self.source(number, node, layer, Some(which));
                    let (weight_scale, bias_scale) = (T::ONE, T::ONE);
                    let delta = &scaled;
                    let outer = OuterTap { sizes, delta, weight_scale, bias_scale, places, source };
                    hand(name, TapFactors::Outer(outer));
                }
            }
        }
        (self.direct, self.scaled, self.rows) = (direct, scaled, rows);
    }

    /// The gradients of all parameters of a layer, sample by sample.
    fn write_direct(&self, number: usize, direct: &mut Vec<T>) {
        let node = &self.net.nodes[number];
        let Some(layer) = node.layer() else { return };
        let x = self.work.values(self.net, node.from);
        let y = self.work.values(self.net, number + 1);
        let dy = self.work.delta(self.net, number + 1);
        let samples = self.work.samples(self.net, node.from);
        let out = self.work.samples(self.net, number + 1);
        let count = node.params.len();
        direct.resize(samples.len() * count, T::ZERO);
        let (i, o) = (node.input.values(), node.output.values());
        direct.par_chunks_mut(count).enumerate().for_each(|(s, gradients)| {
            let (rows, out) = (samples.range(s), out.range(s));
            layer.backward(Backward {
                n: rows.len(),
                sequences: samples.part(s..s + 1),
                input: node.input,
                output: node.output,
                mode: Mode::Frozen,
                params: &self.net.params[node.params.clone()],
                buffers: &self.net.buffers[node.buffers.clone()],
                x: &x[rows.start * i..rows.end * i],
                y: &y[out.start * o..out.end * o],
                dy: &dy[out.start * o..out.end * o],
                dx: None,
                dparams: Some(gradients),
                tapped: None,
                kept: &[],
                noise: Noise { stream: node.stream, step: 0, first: rows.start },
                scratch: &mut Vec::new(),
            });
        });
    }
}
