//! 2D convolution (strictly speaking a cross-correlation).
//!
//! y[o] at (oy, ox) = b[o] + sum over ky, kx, c of W[o, ky, kx, c] x[oy s + ky - p, ox s + kx - p, c]
//!
//! Computed as a product: y = A W' with the [`Windows`] of x as rows of A, a block of rows at a time so that A
//! stays in the cache. Backward: dW = dy' A and dx = dy W, scattered to the positions that the windows were gathered
//! from; for stride 1, dx is itself a convolution, of dy with the flipped weights, which avoids the scatter.
//! Small images with many channels are one product over the whole batch: each of its strips reads only part of the weights.
//! 3 x 3 windows with stride 1 and many channels take fewer multiplications with Winograd tiles ([`Tiles`]).
//! Depthwise convolutions (one channel per group) are loops over channels.
//!
//! With a_p the row of A at position p, the gradient of one sample is dW = sum_p dy_p a_p'.

mod depthwise;
#[cfg(test)]
mod tests;

use rayon::prelude::*;
use veridical_core::{Seed, Stream};

use super::linear::{column_sums, normal, uniform};
use super::patches::Windows;
use super::winograd::Tiles;
use crate::float::wide;
use crate::layer::take;
use crate::product::{Matrix, divided, strided, whole};
use crate::{
    Backward, Error, Factors, Float, Forward, Layer, Mode, Outer, Result, Scope, Shape, Spec,
};

/// Values per block of A: it stays in the L2 cache.
const BLOCK: usize = 1 << 17;
/// Rows per block are a multiple of this.
const GRAIN: usize = 16;
/// Images with at most this many positions are processed as one batch,
const FEW_POSITIONS: usize = 64;
/// if there are at least this many weights, so that reading them for every chunk of samples would be costly.
const MANY_WEIGHTS: usize = 1 << 16;

/// Initialization of the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvInit {
    /// PyTorch's default: uniform in +-1/sqrt(fan-in).
    Uniform,
    /// He initialization (He et al. 2015): N(0, 2 / fan-in), as in CIFAR ResNets.
    He,
}

/// 2D convolution.
///
/// ```
/// use veridical_nets::layers::Conv2d;
/// use veridical_nets::{Layer, Shape};
///
/// let conv = Conv2d::new(3, 16, 3).stride(2).padding(1);
/// let output = Layer::<f32>::output(&conv, Shape::image(32, 32, 3))?;
/// assert_eq!(output, Shape::image(16, 16, 16));
/// # Ok::<(), veridical_nets::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Conv2d {
    inputs: usize,
    outputs: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    groups: usize,
    bias: bool,
    init: ConvInit,
}

impl Conv2d {
    /// Creates a convolution with windows of `kernel` x `kernel`, stride 1, no padding and a bias.
    pub fn new(inputs: usize, outputs: usize, kernel: usize) -> Self {
        let init = ConvInit::Uniform;
        Self { inputs, outputs, kernel, stride: 1, padding: 0, groups: 1, bias: true, init }
    }

    /// Sets the stride.
    pub fn stride(self, stride: usize) -> Self {
        Self { stride, ..self }
    }

    /// Sets the zero padding around the image.
    pub fn padding(self, padding: usize) -> Self {
        Self { padding, ..self }
    }

    /// Sets the number of groups of channels that do not mix; as many groups as inputs is a depthwise convolution.
    pub fn groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }

    /// Removes the bias.
    pub fn without_bias(self) -> Self {
        Self { bias: false, ..self }
    }

    /// Sets the initialization of the weights.
    pub fn init(self, init: ConvInit) -> Self {
        Self { init, ..self }
    }

    /// Values per row of A in one group.
    fn row(&self) -> usize {
        self.kernel * self.kernel * self.inputs / self.groups
    }

    fn weights(&self) -> usize {
        self.outputs * self.row()
    }

    fn is_depthwise(&self) -> bool {
        self.groups > 1 && self.groups == self.inputs && self.outputs == self.inputs
    }

    fn windows(&self, input: Shape, output: Shape) -> Windows {
        let Self { kernel, stride, padding, groups, .. } = *self;
        Windows { input, output, kernel, stride, padding, groups }
    }

    /// The Winograd tiles that give the same result with fewer multiplications, where that is faster.
    fn tiles(&self, input: Shape, output: Shape) -> Option<Tiles> {
        let Self { kernel, stride, padding, groups, .. } = *self;
        let scope = Layer::<f64>::scope(self, input, Mode::Frozen);
        let tiles = Tiles { input, output, padding, scope };
        (kernel == 3 && stride == 1 && groups == 1 && tiles.pay()).then_some(tiles)
    }

    /// Rows per block of A.
    fn block_rows(&self) -> usize {
        (BLOCK / (self.row() * self.groups)).next_multiple_of(GRAIN).clamp(4 * GRAIN, 4096)
    }

    /// Computes y = A W' for rows of A, group by group.
    fn apply<T: Float>(&self, patches: &[T], rows: usize, weight: &[T], y: &mut [T]) {
        let (k, out) = (self.row(), self.outputs / self.groups);
        for g in 0..self.groups {
            let a = Matrix::strided(patches, rows, k * self.groups, g * k, k);
            let w = Matrix::rows(&weight[g * out * k..], out, k);
            strided(y, self.outputs, g * out, self.bias, a, w.transposed());
        }
    }

    /// Computes dW = dy' A, or adds it from the second block on.
    fn weigh<T: Float>(&self, patches: &[T], rows: usize, dy: &[T], add: bool, dweight: &mut [T]) {
        let (k, out) = (self.row(), self.outputs / self.groups);
        for g in 0..self.groups {
            let a = Matrix::strided(patches, rows, k * self.groups, g * k, k);
            let delta = Matrix::strided(dy, rows, self.outputs, g * out, out);
            whole(&mut dweight[g * out * k..], add, T::ONE, delta.transposed(), a);
        }
    }

    /// Computes dA = dy W, group by group.
    fn spread<T: Float>(&self, dy: &[T], rows: usize, weight: &[T], dpatches: &mut [T]) {
        let (k, out) = (self.row(), self.outputs / self.groups);
        for g in 0..self.groups {
            let delta = Matrix::strided(dy, rows, self.outputs, g * out, out);
            let w = Matrix::rows(&weight[g * out * k..], out, k);
            strided(dpatches, k * self.groups, g * k, false, delta, w);
        }
    }

    /// The windows of dy whose products with the flipped weights are dx, for stride 1 and one group.
    fn turned(&self, input: Shape, output: Shape) -> Option<Windows> {
        let fits = self.stride == 1 && self.groups == 1 && self.padding < self.kernel;
        let padding = (self.kernel - 1).checked_sub(self.padding)?;
        let Self { kernel, .. } = *self;
        fits.then_some(Windows {
            input: output,
            output: input,
            kernel,
            stride: 1,
            padding,
            groups: 1,
        })
    }

    /// Flips the weights: W'[c, ky, kx, o] = W[o, k-1-ky, k-1-kx, c], as rows of c.
    fn turn<T: Float>(&self, weight: &[T], turned: &mut [T]) {
        let (taps, c) = (self.kernel * self.kernel, self.inputs);
        for (o, filter) in weight.chunks_exact(taps * c).enumerate() {
            for (t, channels) in filter.chunks_exact(c).enumerate() {
                for (i, &w) in channels.iter().enumerate() {
                    turned[(i * taps + taps - 1 - t) * self.outputs + o] = w;
                }
            }
        }
    }

    fn forward_tiles<T: Float>(&self, tiles: &Tiles, pass: Forward<'_, T>) {
        let Forward { n, params, x, y, scratch, .. } = pass;
        let (weight, bias) = params.split_at(self.weights());
        fill_bias(y, bias);
        tiles.forward(n, weight, x, self.bias, y, scratch);
    }

    fn backward_tiles<T: Float>(&self, tiles: &Tiles, pass: Backward<'_, T>) {
        let Backward { n, params, x, dy, dx, dparams, scratch, .. } = pass;
        let weight = &params[..self.weights()];
        let Some(dparams) = dparams else {
            return tiles.backward(n, weight, x, dy, dx, None, scratch);
        };
        let (dweight, dbias) = dparams.split_at_mut(self.weights());
        tiles.backward(n, weight, x, dy, dx, Some(dweight), scratch);
        if self.bias {
            column_sums(dy, dbias);
        }
    }

    /// A few samples on one thread, a block of rows at a time.
    fn forward_samples<T: Float>(&self, pass: Forward<'_, T>) {
        let Forward { n, input, output, params, x, y, scratch, .. } = pass;
        let windows = self.windows(input, output);
        let (weight, bias) = params.split_at(self.weights());
        let (width, rows) = (windows.row(), n * output.positions());
        let block = self.block_rows();
        for first in (0..rows).step_by(block) {
            let rows = block.min(rows - first);
            let y = &mut y[first * self.outputs..][..rows * self.outputs];
            fill_bias(y, bias);
            if windows.is_identity() {
                self.apply(&x[first * width..], rows, weight, y);
                continue;
            }
            let patches = take(scratch, rows * width);
            windows.gather(x, first, patches);
            self.apply(patches, rows, weight, y);
        }
    }

    fn backward_samples<T: Float>(&self, pass: Backward<'_, T>) {
        let Backward { n, input, output, params, x, dy, dx, mut dparams, scratch, .. } = pass;
        let windows = self.windows(input, output);
        let weight = &params[..self.weights()];
        let (width, rows) = (windows.row(), n * output.positions());
        let turned = self.turned(input, output);
        let mut dx = dx;
        if let (Some(dx), None) = (&mut dx, turned) {
            dx.fill(T::ZERO);
        }
        let block = self.block_rows();
        for first in (0..rows).step_by(block) {
            let rows = block.min(rows - first);
            let dy = &dy[first * self.outputs..][..rows * self.outputs];
            if let Some(dparams) = &mut dparams {
                let dweight = &mut dparams[..self.weights()];
                if windows.is_identity() {
                    self.weigh(&x[first * width..], rows, dy, first > 0, dweight);
                } else {
                    let patches = take(scratch, rows * width);
                    windows.gather(x, first, patches);
                    self.weigh(patches, rows, dy, first > 0, dweight);
                }
            }
            if let (Some(dx), None) = (&mut dx, turned) {
                let dpatches = take(scratch, rows * width);
                self.spread(dy, rows, weight, dpatches);
                scatter(&windows, dpatches, first, dx);
            }
        }
        if let (Some(dparams), true) = (dparams, self.bias) {
            column_sums(dy, &mut dparams[self.weights()..]);
        }
        if let (Some(dx), Some(windows)) = (dx, turned) {
            self.backward_turned(windows, n, weight, dy, dx, scratch);
        }
    }

    /// Computes dx as a convolution of dy.
    fn backward_turned<T: Float>(
        &self,
        windows: Windows,
        n: usize,
        weight: &[T],
        dy: &[T],
        dx: &mut [T],
        scratch: &mut Vec<T>,
    ) {
        let (width, rows) = (windows.row(), n * windows.output.positions());
        let block = (BLOCK / width).next_multiple_of(GRAIN).clamp(4 * GRAIN, 4096);
        let scratch = take(scratch, self.weights() + block * width);
        let (turned, patches) = scratch.split_at_mut(self.weights());
        self.turn(weight, turned);
        let turned = Matrix::rows(turned, self.inputs, width).transposed();
        for first in (0..rows).step_by(block) {
            let rows = block.min(rows - first);
            let dx = &mut dx[first * self.inputs..][..rows * self.inputs];
            if windows.is_identity() {
                whole(dx, false, T::ONE, Matrix::rows(&dy[first * width..], rows, width), turned);
                continue;
            }
            let patches = &mut patches[..rows * width];
            windows.gather(dy, first, patches);
            whole(dx, false, T::ONE, Matrix::rows(patches, rows, width), turned);
        }
    }

    /// A of the whole batch, gathered on all threads.
    fn gather_all<'r, T: Float>(
        windows: &Windows,
        n: usize,
        x: &[T],
        scratch: &'r mut Vec<T>,
    ) -> &'r mut [T] {
        let width = windows.row();
        let patches = take(scratch, n * windows.output.positions() * width);
        let block = (BLOCK / width).max(GRAIN);
        patches.par_chunks_mut(block * width).enumerate().for_each(|(b, patches)| {
            windows.gather(x, b * block, patches);
        });
        patches
    }

    fn forward_batch<T: Float>(&self, pass: Forward<'_, T>) {
        let Forward { n, input, output, params, x, y, scratch, .. } = pass;
        let windows = self.windows(input, output);
        let (weight, bias) = params.split_at(self.weights());
        let (width, rows) = (windows.row(), n * output.positions());
        fill_bias(y, bias);
        let patches = Self::gather_all(&windows, n, x, scratch);
        let weight = Matrix::rows(weight, self.outputs, width).transposed();
        divided(y, self.bias, T::ONE, Matrix::rows(patches, rows, width), weight);
    }

    fn backward_batch<T: Float>(&self, pass: Backward<'_, T>) {
        let Backward { n, input, output, params, x, dy, dx, dparams, scratch, .. } = pass;
        let windows = self.windows(input, output);
        let weight = &params[..self.weights()];
        let (width, rows) = (windows.row(), n * output.positions());
        let delta = Matrix::rows(dy, rows, self.outputs);
        if let Some(dparams) = dparams {
            let (dweight, dbias) = dparams.split_at_mut(self.weights());
            let patches = Self::gather_all(&windows, n, x, scratch);
            divided(dweight, false, T::ONE, delta.transposed(), Matrix::rows(patches, rows, width));
            if self.bias {
                column_sums(dy, dbias);
            }
        }
        let Some(dx) = dx else { return };
        let dpatches = take(scratch, rows * width);
        divided(dpatches, false, T::ONE, delta, Matrix::rows(weight, self.outputs, width));
        let per_sample = output.positions() * width;
        dx.par_chunks_mut(input.values()).zip(dpatches.par_chunks(per_sample)).for_each(
            |(dx, dpatches)| {
                dx.fill(T::ZERO);
                scatter(&windows, dpatches, 0, dx);
            },
        );
    }
}

/// [`Windows::scatter`], vectorized.
fn scatter<T: Float>(windows: &Windows, patches: &[T], first: usize, dx: &mut [T]) {
    wide(
        #[inline(always)]
        move || windows.scatter(patches, first, dx),
    );
}

fn fill_bias<T: Float>(y: &mut [T], bias: &[T]) {
    if !bias.is_empty() {
        y.chunks_exact_mut(bias.len()).for_each(|row| row.copy_from_slice(bias));
    }
}

impl<T: Float> Layer<T> for Conv2d {
    fn output(&self, input: Shape) -> Result<Shape> {
        let refuse = |what: String| Err(Error::Shape { layer: "convolution".into(), what });
        let Self { kernel, stride, padding, groups, .. } = *self;
        if kernel == 0
            || stride == 0
            || groups == 0
            || !self.inputs.is_multiple_of(groups.max(1))
            || !self.outputs.is_multiple_of(groups.max(1))
        {
            return refuse(
                "kernel and stride must be at least 1, and the channels divisible by the groups"
                    .into(),
            );
        }
        if input.channels != self.inputs {
            return refuse(format!("expects {} channels, got {input}", self.inputs));
        }
        let size =
            |size: usize| (size + 2 * padding).checked_sub(kernel).map(|rest| rest / stride + 1);
        match (size(input.height), size(input.width)) {
            (Some(height), Some(width)) => Ok(Shape::image(height, width, self.outputs)),
            _ => refuse(format!("windows of {kernel} x {kernel} do not fit into {input}")),
        }
    }

    fn parameters(&self) -> Vec<Spec> {
        let (k, own) = (self.kernel, self.inputs / self.groups);
        let weight = Spec { name: "weight", shape: vec![self.outputs, own, k, k] };
        let bias = self.bias.then(|| Spec { name: "bias", shape: vec![self.outputs] });
        std::iter::once(weight).chain(bias).collect()
    }

    fn initialize(&self, params: &mut [T], _: &mut [T], seed: Seed, name: &str) {
        let stream = Stream::new(seed, &format!("init/{name}"));
        let fan_in = self.row() as f64;
        match self.init {
            ConvInit::Uniform => uniform(params, stream, 1.0 / fan_in.sqrt()),
            ConvInit::He => {
                let (weight, bias) = params.split_at_mut(self.weights());
                normal(weight, stream, (2.0 / fan_in).sqrt());
                bias.fill(T::ZERO);
            }
        }
    }

    fn scope(&self, input: Shape, _: Mode) -> Scope {
        let few = input.positions() <= FEW_POSITIONS * self.stride * self.stride;
        match few && self.groups == 1 && self.weights() >= MANY_WEIGHTS {
            true => Scope::Batch,
            false => Scope::Samples,
        }
    }

    fn forward(&self, pass: Forward<'_, T>) {
        if self.is_depthwise() {
            return depthwise::forward(self, pass);
        }
        if let Some(tiles) = self.tiles(pass.input, pass.output) {
            return self.forward_tiles(&tiles, pass);
        }
        match Layer::<T>::scope(self, pass.input, pass.mode) {
            Scope::Batch => self.forward_batch(pass),
            Scope::Samples => self.forward_samples(pass),
        }
    }

    fn backward(&self, pass: Backward<'_, T>) {
        if self.is_depthwise() {
            return depthwise::backward(self, pass);
        }
        if let Some(tiles) = self.tiles(pass.input, pass.output) {
            return self.backward_tiles(&tiles, pass);
        }
        match Layer::<T>::scope(self, pass.input, pass.mode) {
            Scope::Batch => self.backward_batch(pass),
            Scope::Samples => self.backward_samples(pass),
        }
    }

    fn factors(&self, input: Shape) -> Factors {
        // INVARIANT: the network has computed the output shape of this input before.
        let positions = Layer::<T>::output(self, input).map_or(0, Shape::positions);
        let (inputs, outputs) = (self.row(), self.outputs / self.groups);
        Factors::Outer(Outer { positions, groups: self.groups, inputs, outputs, bias: self.bias })
    }

    fn tap_input(&self, input: Shape, n: usize, x: &[T], a: &mut Vec<T>) -> bool {
        let Ok(output) = Layer::<T>::output(self, input) else { return false };
        let windows = self.windows(input, output);
        if windows.is_identity() && self.groups == 1 {
            return false;
        }
        a.resize(n * output.positions() * windows.row(), T::ZERO);
        windows.gather(x, 0, a);
        true
    }

    /// Reorders from out, in, ky, kx to out, ky, kx, in.
    fn import(&self, which: usize, values: &mut Vec<T>) {
        if which == 0 {
            *values = swapped(values, self.inputs / self.groups, self.kernel * self.kernel);
        }
    }

    fn export(&self, which: usize, values: &mut Vec<T>) {
        if which == 0 {
            *values = swapped(values, self.kernel * self.kernel, self.inputs / self.groups);
        }
    }
}

/// Transposes every a x b matrix.
fn swapped<T: Float>(values: &[T], a: usize, b: usize) -> Vec<T> {
    let mut out = Vec::with_capacity(values.len());
    for matrix in values.chunks_exact(a * b) {
        for j in 0..b {
            out.extend((0..a).map(|i| matrix[i * b + j]));
        }
    }
    out
}
