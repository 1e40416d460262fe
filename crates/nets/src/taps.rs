//! Taps: for every sample and every layer, the layer's input a and the gradient delta of an output at the layer's output.
//!
//! The gradient of output f_c of sample i with respect to the weights of a layer is sum_p delta_ip a_ip' over positions
//! p (one for dense layers), so the tangent kernel of a dense layer is (a_i . a_j)(delta_i . delta_j) (paper 004, section 2)
//! and no gradient is ever formed. Statistics of batch norm are frozen: in training mode samples see each other.
//!
//! One forward pass serves all outputs; each output costs a backward pass without the gradients of parameters.

use std::ops::Range;

use rayon::prelude::*;

use crate::net::Net;
use crate::pass::{Plan, Workspace};
use crate::{Backward, Factors, Float, Layer, Mode, Noise, Outer, Shape};

/// What is handed out for one layer and one output.
#[derive(Debug)]
pub struct Tap<'a, T> {
    /// The layer.
    pub name: &'a str,
    /// The coordinate of the network's output.
    pub output: usize,
    /// How many samples.
    pub n: usize,
    /// The two factors, or the gradients themselves where they are small.
    pub factors: TapFactors<'a, T>,
}

/// The two factors, or the gradients themselves.
#[derive(Debug)]
pub enum TapFactors<'a, T> {
    /// a and delta.
    Outer(OuterTap<'a, T>),
    /// The gradient of all parameters of the layer, n x parameters: scales and shifts of batch norm.
    Direct(&'a [T]),
}

/// a and delta of one layer.
#[derive(Debug)]
pub struct OuterTap<'a, T> {
    /// The sizes.
    pub sizes: Outer,
    /// n x positions x groups x outputs: the gradient of the weights is sum_p delta_p a_p', that of a bias
    /// `bias_scale` sum_p delta_p / `weight_scale`.
    pub delta: &'a [T],
    /// What delta was multiplied with besides the gradient at the output of the layer.
    pub weight_scale: T,
    /// What the gradient at the output is multiplied with for the bias.
    pub bias_scale: T,
    x: &'a [T],
    input: Shape,
    layer: &'a dyn Layer<T>,
}

impl<T: Float> OuterTap<'_, T> {
    /// The input a of some samples, samples x positions x groups x inputs; `room` holds it where it must be gathered
    /// (windows of a convolution).
    pub fn inputs<'r>(&'r self, samples: Range<usize>, room: &'r mut Vec<T>) -> &'r [T] {
        let len = self.input.values();
        let x = &self.x[samples.start * len..samples.end * len];
        match self.layer.tap_input(self.input, samples.len(), x, room) {
            true => room,
            false => x,
        }
    }

    /// delta of one sample, positions x groups x outputs.
    pub fn delta_of(&self, sample: usize) -> &[T] {
        let len = self.sizes.positions * self.sizes.groups * self.sizes.outputs;
        &self.delta[sample * len..][..len]
    }

    /// The gradient of one sample, in the order of the layer's parameters: for checks, and where it is small.
    pub fn gradient(&self, sample: usize) -> Vec<T> {
        let Outer { positions, groups, inputs, outputs, bias } = self.sizes;
        let mut room = Vec::new();
        let a = self.inputs(sample..sample + 1, &mut room);
        let delta = self.delta_of(sample);
        let mut weight = vec![T::ZERO; groups * outputs * inputs];
        let mut sums = vec![T::ZERO; if bias { groups * outputs } else { 0 }];
        for p in 0..positions {
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

/// Takes taps of a network, batch by batch, in memory that depends on the size of a batch alone.
#[derive(Debug)]
pub struct Taps<'a, T> {
    net: &'a Net<T>,
    work: Workspace<T>,
    plan: Plan,
    scaled: Vec<T>,
    direct: Vec<T>,
}

impl<'a, T: Float> Taps<'a, T> {
    /// For batches of up to `capacity` samples.
    pub fn new(net: &'a Net<T>, capacity: usize) -> Self {
        let plan = Plan::taps(net);
        let work = Workspace::new(net, capacity, Some(&plan));
        Self { net, work, plan, scaled: Vec::new(), direct: Vec::new() }
    }

    /// Hands the taps of `n` samples, which `fill` writes, to `sink`: for each of `outputs`, every layer with
    /// parameters from first to last.
    ///
    /// # Panics
    /// If there is no room for n samples or no such output.
    pub fn take(
        &mut self,
        n: usize,
        outputs: &[usize],
        fill: impl FnOnce(&mut [T]),
        mut sink: impl FnMut(Tap<'_, T>),
    ) {
        let net = self.net;
        let width = net.outputs();
        net.forward(&mut self.work, n, Mode::Frozen, 0, fill);
        for &output in outputs {
            assert!(output < width, "output {output} of {width}");
            let (_, gradient) = self.work.output_gradient(net);
            gradient.fill(T::ZERO);
            gradient.iter_mut().skip(output).step_by(width).for_each(|g| *g = T::ONE);
            net.backward(&mut self.work, &self.plan);
            for number in 0..net.nodes.len() {
                if let Some(tap) = self.tap(number, n, output) {
                    sink(tap);
                }
            }
        }
    }

    /// What the nodes put out for the samples of the last call, for probes.
    pub fn activations(&self, name: &str) -> Option<&[T]> {
        self.work.activations(self.net, name)
    }

    fn tap(&mut self, number: usize, n: usize, output: usize) -> Option<Tap<'_, T>> {
        let node = &self.net.nodes[number];
        let layer = node.layer()?;
        let x = &self.work.slots[node.from][..n * node.input.values()];
        let dy = self.work.delta(self.net, number + 1);
        let factors = match node.factors() {
            Factors::None => return None,
            Factors::Direct => {
                let count = node.params.len();
                self.direct.resize(n * count, T::ZERO);
                let y = &self.work.slots[number + 1];
                let (i, o) = (node.input.values(), node.output.values());
                self.direct.par_chunks_mut(count).enumerate().for_each(|(s, gradients)| {
                    let pass = Backward {
                        n: 1,
                        input: node.input,
                        output: node.output,
                        mode: Mode::Frozen,
                        params: &self.net.params[node.params.clone()],
                        buffers: &self.net.buffers[node.buffers.clone()],
                        x: &x[s * i..][..i],
                        y: &y[s * o..][..o],
                        dy: &dy[s * o..][..o],
                        dx: None,
                        dparams: None,
                        kept: &[],
                        noise: Noise { stream: node.stream, step: 0, first: s },
                        room: &mut Vec::new(),
                    };
                    layer.sample_gradients(pass, gradients);
                });
                TapFactors::Direct(&self.direct)
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
                    x,
                    input,
                    layer,
                })
            }
        };
        Some(Tap { name: &node.name, output, n, factors })
    }
}
