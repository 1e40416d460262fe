//! Taps: for every sample and every layer, the layer's input a and the gradient delta of an output at the layer's output.
//!
//! The gradient of output f_c of sample i with respect to the weights of a layer is sum_p delta_ip a_ip' over positions
//! p (one for dense layers), so the tangent kernel of a dense layer is (a_i . a_j)(delta_i . delta_j) (paper 004, section 2)
//! and no gradient is ever materialized. Statistics of batch norm are frozen: in training mode samples are not independent.
//!
//! One forward pass serves all outputs; each output costs one backward pass without the gradients of parameters.
//!
//! For packed sequences a sample is a whole sequence: the gradient of an output of one of its rows, or of the pooled
//! sequence, is the sum over all rows of the sequence. For an embedding table before the network, the taps are the gradients
//! at the input: each row belongs to the id of that row.

use std::ops::Range;

use rayon::prelude::*;

use crate::net::Net;
use crate::pass::{Plan, Workspace};
use crate::{Backward, Factors, Float, Layer, Mode, Noise, Outer, Sequences, Shape};

/// The tap of one layer and one output.
#[derive(Debug)]
pub struct Tap<'a, T> {
    /// Name of the layer.
    pub name: &'a str,
    /// Index of the network's output.
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
    samples: Sequences<'a>,
    x: &'a [T],
    input: Shape,
    layer: &'a dyn Layer<T>,
}

impl<T: Float> OuterTap<'_, T> {
    /// The rows of some samples.
    fn rows(&self, samples: Range<usize>) -> Range<usize> {
        let first = self.samples.part(0..samples.start).rows();
        first..first + self.samples.part(samples).rows()
    }

    /// Returns the input a of some samples, rows x positions x groups x inputs; `scratch` holds it where it must be gathered
    /// (windows of a convolution).
    pub fn inputs<'r>(&'r self, samples: Range<usize>, scratch: &'r mut Vec<T>) -> &'r [T] {
        let len = self.input.values();
        let rows = self.rows(samples);
        let x = &self.x[rows.start * len..rows.end * len];
        match self.layer.tap_input(self.input, rows.len(), x, scratch) {
            true => scratch,
            false => x,
        }
    }

    /// Returns delta of one sample, rows x positions x groups x outputs.
    pub fn delta_of(&self, sample: usize) -> &[T] {
        let len = self.sizes.positions * self.sizes.groups * self.sizes.outputs;
        let rows = self.rows(sample..sample + 1);
        &self.delta[rows.start * len..rows.end * len]
    }

    /// Returns the gradient of one sample, in the order of the layer's parameters, for checks and small layers.
    pub fn gradient(&self, sample: usize) -> Vec<T> {
        let Outer { positions, groups, inputs, outputs, bias } = self.sizes;
        let mut scratch = Vec::new();
        let a = self.inputs(sample..sample + 1, &mut scratch);
        let delta = self.delta_of(sample);
        let mut weight = vec![T::ZERO; groups * outputs * inputs];
        let mut sums = vec![T::ZERO; if bias { groups * outputs } else { 0 }];
        let rows = self.rows(sample..sample + 1).len();
        for p in 0..rows * positions {
            for g in 0..groups {
                let a = &a[(p * groups + g) * inputs..][..inputs];
                for o in 0..outputs {
                    let delta = delta[(p * groups + g) * outputs + o];
                    let row = &mut weight[(g * outputs + o) * inputs..][..inputs];
                    row.iter_mut().zip(a).for_each(|(w, &a)| *w += delta * a);
                    if bias {
                        sums[g * outputs + o] += delta;
                    }
                }
            }
        }
        let scale = self.bias_scale / self.weight_scale;
        weight.extend(sums.into_iter().map(|sum| sum * scale));
        weight
    }
}

/// Computes taps of a network batch by batch, in memory that depends on the batch size alone.
#[derive(Debug)]
pub struct Taps<'a, T> {
    net: &'a Net<T>,
    work: Workspace<T>,
    plan: Plan,
    scaled: Vec<T>,
    rows: Vec<usize>,
    direct: Vec<T>,
}

impl<'a, T: Float> Taps<'a, T> {
    /// Creates taps for batches of up to `capacity` samples.
    pub fn new(net: &'a Net<T>, capacity: usize) -> Self {
        let plan = Plan::taps(net);
        let work = Workspace::new(net, capacity, Some(&plan));
        Self { net, work, plan, scaled: Vec::new(), rows: Vec::new(), direct: Vec::new() }
    }

    /// Adds the gradient at the input: the taps of an embedding table before the network.
    pub fn with_input(self) -> Self {
        let plan = self.plan.with_input(self.net);
        Self { plan, ..self }
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
        self.net.forward(&mut self.work, n, Mode::Frozen, 0, fill);
        let rows: Vec<usize> = (0..n).collect();
        self.emit(&rows, outputs, sink);
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
        mut sink: impl FnMut(Tap<'_, T>),
    ) {
        self.net.forward_sequences(&mut self.work, starts, Mode::Frozen, 0, fill);
        assert_eq!(rows.len(), starts.len() - 1, "a row for each sequence");
        let pooled: Vec<usize> = (0..rows.len()).collect();
        let is_pooled = self.net.is_pooled(self.net.nodes.len());
        self.emit(if is_pooled { &pooled } else { rows }, outputs, &mut sink);
    }

    /// Passes on the taps of the outputs of some rows.
    fn emit(&mut self, rows: &[usize], outputs: &[usize], mut sink: impl FnMut(Tap<'_, T>)) {
        let net = self.net;
        let width = net.outputs();
        let needs_input = self.plan.needs_input();
        for &output in outputs {
            assert!(output < width, "output {output} of {width}");
            let (_, gradient) = self.work.output_gradient(net);
            gradient.fill(T::ZERO);
            rows.iter().for_each(|row| gradient[row * width + output] = T::ONE);
            net.backward(&mut self.work, &self.plan);
            if needs_input {
                let factors = TapFactors::Rows(self.work.input_gradient(net));
                sink(Tap { name: "", output, samples: self.work.sequences(), factors });
            }
            for number in 0..net.nodes.len() {
                if let Some(tap) = self.tap(number, output) {
                    sink(tap);
                }
            }
        }
    }

    /// Returns the output of a node for the samples of the last call, for probes.
    pub fn activations(&self, name: &str) -> Option<&[T]> {
        self.work.activations(self.net, name)
    }

    fn tap(&mut self, number: usize, output: usize) -> Option<Tap<'_, T>> {
        let node = &self.net.nodes[number];
        let layer = node.layer()?;
        let x = self.work.values(self.net, node.from);
        let dy = self.work.delta(self.net, number + 1);
        let samples = self.work.samples(self.net, node.from);
        let factors = match node.factors() {
            Factors::None => return None,
            Factors::Direct => {
                let count = node.params.len();
                self.direct.resize(samples.len() * count, T::ZERO);
                let y = self.work.values(self.net, number + 1);
                let out = self.work.samples(self.net, number + 1);
                let (i, o) = (node.input.values(), node.output.values());
                self.direct.par_chunks_mut(count).enumerate().for_each(|(s, gradients)| {
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
                        kept: &[],
                        noise: Noise { stream: node.stream, step: 0, first: rows.start },
                        scratch: &mut Vec::new(),
                    });
                });
                TapFactors::Direct(&self.direct)
            }
            Factors::Rows => {
                layer.tap_rows(samples, &mut self.rows);
                TapFactors::Added { rows: &self.rows, delta: dy }
            }
            Factors::Outer(sizes) => {
                let weight_scale = layer.tap_scale();
                let mut delta = dy;
                if weight_scale != T::ONE {
                    self.scaled.clear();
                    self.scaled.extend(dy.iter().map(|&d| d * weight_scale));
                    delta = &self.scaled;
                }
                let bias_scale = layer.tap_bias_scale();
                let input = node.input;
                TapFactors::Outer(OuterTap {
                    sizes,
                    delta,
                    weight_scale,
                    bias_scale,
                    samples,
                    x,
                    input,
                    layer,
                })
            }
        };
        Some(Tap { name: &node.name, output, samples, factors })
    }
}
