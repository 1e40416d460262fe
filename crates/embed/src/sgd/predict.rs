//! Negative sampling (Mikolov et al. 2013): inputs predict one target among sampled negatives.
//!
//! loss   sum over inputs a: -ln sigma(<a, t_0>) - sum_b ln sigma(-<a, t_b>)
//! step   input after input: g_ab = lr ([b = 0] - sigma(<a, t_b>));  a <- a + sum_b g_ab t_b,  t_b <- t_b + g_ab a
//!
//! All inputs of a position share the same negatives (Ji et al. 2016, "Parallelizing word2vec in shared and
//! distributed memory"), so a position reads and writes each of its rows once instead of once per pair. But every input
//! sees the targets as the inputs before it have left them, as in the word2vec code: with one step for all inputs at the
//! same targets vectors of 100 dimensions are worse (`experiments/item2vec-gensim`).
//!
//! The targets after some inputs are t_b + sum_a g_ab a, so with the inner products of the inputs among themselves
//!
//! score   <a, t_b> + sum over a' before a: <a, a'> g_a'b
//! update  a <- a + sum_b g_ab t_b + sum over a' before a: (sum_b g_ab g_a'b) a'
//!
//! the rows enter small matrix products alone, and what is sequential are a few numbers per input. Inputs are taken from
//! the last to the first: with the rows of inputs and targets in one list, all that input a needs comes after it. An input
//! moves as soon as its g is known, so that the processor has work while the next input waits for its sigmoid.

use pulp::Simd;

use super::Rows;
use super::vector::{add_combination, copy_padded, padded, products, sigmoids, softplus};

/// Bytes of a cache line.
const LINE: usize = 64;

/// The gathered rows of one position.
#[derive(Debug)]
pub(crate) struct Desk {
    dim: usize,
    stride: usize,
    /// Inputs and then targets, padded with zeros, from `start` on: the beginning of a cache line.
    rows: Vec<f32>,
    start: usize,
    n_rows: usize,
    n_inputs: usize,
    /// The numbers of the targets; the first is the true target, the rest are negatives.
    pub targets: Vec<u32>,
    /// By input: numbers for the inputs, up to column `side`, and for the targets. Those of the rows after the input
    /// are without a gap.
    side: usize,
    /// Inner products of the input with every row after it; those with the targets become scores.
    products: Vec<f32>,
    /// What the input is updated by: coefficients of the inputs after it, and g.
    coefficients: Vec<f32>,
    /// By target: lr if it is the true one, and lr or 0 beyond the last.
    gains: [Vec<f32>; 2],
    /// The update of an input.
    error: Vec<f32>,
    /// The dropout mask, or empty.
    mask: Vec<f32>,
}

impl Desk {
    pub fn new(dim: usize) -> Self {
        let stride = padded(dim);
        Self {
            dim,
            stride,
            rows: Vec::new(),
            start: 0,
            n_rows: 0,
            n_inputs: 0,
            targets: Vec::new(),
            side: 0,
            products: Vec::new(),
            coefficients: Vec::new(),
            gains: Default::default(),
            error: vec![0.0; stride],
            mask: Vec::new(),
        }
    }

    /// Clears the inputs and targets of the previous position.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.n_rows = 0;
        self.n_inputs = 0;
        self.targets.clear();
        self.mask.clear();
    }

    /// Adds a row to the inputs.
    #[inline(always)]
    pub fn push_input<S: Simd>(&mut self, simd: S, row: &[f32]) {
        self.push(simd, row);
        self.n_inputs += 1;
    }

    /// Adds a row to the only input, which will become a mean.
    #[inline(always)]
    pub fn sum_input<S: Simd>(&mut self, simd: S, row: &[f32]) {
        if self.n_rows == 0 {
            self.push_input(simd, row);
        } else {
            self.inputs_mut().iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
    }

    /// Multiplies the inputs by a factor.
    #[inline(always)]
    pub fn scale_inputs(&mut self, factor: f32) {
        self.inputs_mut().iter_mut().for_each(|x| *x *= factor);
    }

    /// Multiplies the inputs, and later their updates, by a dropout mask.
    #[inline(always)]
    pub fn mask(&mut self, mask: &[f32]) {
        let stride = self.stride;
        for row in self.inputs_mut().chunks_exact_mut(stride) {
            row.iter_mut().zip(mask).for_each(|(x, m)| *x *= m);
        }
        self.mask.extend_from_slice(mask);
    }

    /// Gathers the rows of the targets, and makes everything ready for the [`step`](Self::step) of every input.
    #[inline(always)]
    pub fn gather<S: Simd, R: Rows>(&mut self, simd: S, table: &mut R, rate: f32) {
        for at in 0..self.targets.len() {
            table.with(
                self.targets[at],
                #[inline(always)]
                |row, _| self.push(simd, row),
            );
        }
        self.prepare(simd, rate);
    }

    /// As [`gather`](Self::gather), with fixed targets, which `row` returns.
    #[inline(always)]
    pub fn look<'t, S: Simd>(&mut self, simd: S, row: impl Fn(u32) -> &'t [f32], rate: f32) {
        for at in 0..self.targets.len() {
            self.push(simd, row(self.targets[at]));
        }
        self.prepare(simd, rate);
    }

    /// Computes all inner products.
    #[inline(always)]
    fn prepare<S: Simd>(&mut self, simd: S, rate: f32) {
        let (n, m, stride) = (self.n_inputs, self.targets.len(), self.stride);
        self.side = padded(n);
        let (side, width) = (self.side, self.width());
        if self.products.len() < n * width {
            self.products.resize(n * width, 0.0);
            self.coefficients.resize(n * width, 0.0);
        }
        let rows = &self.rows[self.start..][..self.n_rows * stride];
        for a in 0..n {
            let (row, after) = rows[a * stride..].split_at(stride);
            let later = n - 1 - a;
            let products_of = &mut self.products[a * width..][side - later..side + m];
            products(simd, row, after, stride, products_of);
        }
        let [of_true, of_all] = &mut self.gains;
        of_true.resize(width - side, 0.0);
        of_true[0] = rate;
        of_all.resize(width - side, 0.0);
        of_all.iter_mut().enumerate().for_each(|(b, x)| *x = if b < m { rate } else { 0.0 });
    }

    /// Computes g of input `a`, after that of all inputs after it; returns its loss if requested, or 0.
    #[inline(always)]
    pub fn step<S: Simd>(&mut self, simd: S, a: usize, measure: bool) -> f64 {
        let (later, m) = (self.n_inputs - 1 - a, self.targets.len());
        let (side, width, vectors) = (self.side, self.width(), m.div_ceil(S::F32_LANES));
        let (with_inputs, scores) = self.products[a * width..][..width].split_at_mut(side);
        let with_inputs = &with_inputs[side - later..];
        let (own, of_later) = self.coefficients[a * width..].split_at_mut(width);
        let (of_inputs, g) = own.split_at_mut(side);
        let of_later = &of_later[..later * width];
        let of_inputs = &mut of_inputs[side - later..];
        let (scores_on_vectors, g) = (S::as_mut_simd_f32s(scores).0, S::as_mut_simd_f32s(g).0);
        let [of_true, of_all] = [&self.gains[0], &self.gains[1]].map(
            #[inline(always)]
            |of| S::as_simd_f32s(of).0,
        );
        for k in 0..vectors {
            // The nearest comes last: its g is the last to be known.
            let mut score = scores_on_vectors[k];
            for (&c, g) in with_inputs.iter().zip(of_later.chunks_exact(width)).rev() {
                let g = S::as_simd_f32s(&g[side..]).0[k];
                score = simd.mul_add_e_f32s(simd.splat_f32s(c), g, score);
            }
            scores_on_vectors[k] = score;
            let sigma = sigmoids(simd, score);
            g[k] = simd.sub_f32s(of_true[k], simd.mul_f32s(of_all[k], sigma));
        }
        for (c, g_later) in of_inputs.iter_mut().zip(of_later.chunks_exact(width)) {
            let g_later = S::as_simd_f32s(&g_later[side..]).0;
            let mut sum = simd.splat_f32s(0.0);
            for k in 0..vectors {
                sum = simd.mul_add_e_f32s(g[k], g_later[k], sum);
            }
            *c = simd.reduce_sum_f32s(sum);
        }
        if !measure {
            return 0.0;
        }
        softplus(-scores[0]) + scores[1..m].iter().map(|&x| softplus(x)).sum::<f64>()
    }

    /// Updates a row as input number `a`, after its [`step`](Self::step).
    #[inline(always)]
    pub fn move_input<S: Simd>(&mut self, simd: S, a: usize, row: &mut [f32], keep: f32) {
        if self.mask.is_empty() {
            self.add_update(simd, a, row, keep);
        } else {
            add(row, keep, self.error(simd, a));
        }
    }

    /// The update of input number `a`.
    #[inline(always)]
    pub fn error<S: Simd>(&mut self, simd: S, a: usize) -> &[f32] {
        let mut error = std::mem::take(&mut self.error);
        self.add_update(simd, a, &mut error, 0.0);
        error.iter_mut().zip(&self.mask).for_each(|(x, m)| *x *= m);
        self.error = error;
        &self.error[..self.dim]
    }

    #[inline(always)]
    fn add_update<S: Simd>(&self, simd: S, a: usize, row: &mut [f32], keep: f32) {
        let (later, m) = (self.n_inputs - 1 - a, self.targets.len());
        let coefficients = &self.coefficients[a * self.width()..];
        let coefficients = &coefficients[self.side - later..self.side + m];
        let after = &self.rows[self.start + (a + 1) * self.stride..];
        add_combination(simd, row, keep, coefficients, 1, after, self.stride);
    }

    /// Updates the targets, after the [`step`](Self::step) of every input.
    #[inline(always)]
    pub fn move_targets<S: Simd, R: Rows>(&self, simd: S, table: &mut R, keep: f32) {
        let (width, inputs) = (self.width(), &self.rows[self.start..]);
        for (b, &target) in self.targets.iter().enumerate() {
            let g = &self.coefficients[self.side + b..self.n_inputs * width];
            table.with(
                target,
                #[inline(always)]
                |row, _| add_combination(simd, row, keep, g, width, inputs, self.stride),
            );
        }
    }

    /// The only input.
    pub fn input(&self) -> &[f32] {
        &self.rows[self.start..][..self.dim]
    }

    /// g of the targets, for the only input.
    pub fn gains(&self) -> &[f32] {
        &self.coefficients[self.side..][..self.targets.len()]
    }

    /// The number of inputs; a mean is one.
    pub fn n_inputs(&self) -> usize {
        self.n_inputs
    }

    /// Numbers per input.
    #[inline(always)]
    fn width(&self) -> usize {
        self.side + padded(self.targets.len())
    }

    #[inline(always)]
    fn inputs_mut(&mut self) -> &mut [f32] {
        &mut self.rows[self.start..][..self.n_inputs * self.stride]
    }

    #[inline(always)]
    fn push<S: Simd>(&mut self, simd: S, row: &[f32]) {
        let at = self.start + self.n_rows * self.stride;
        if self.rows.len() < at + self.stride {
            self.grow();
        }
        let at = self.start + self.n_rows * self.stride;
        copy_padded(simd, row, &mut self.rows[at..at + self.stride]);
        self.n_rows += 1;
    }

    /// Makes room for more rows.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let values = (2 * self.n_rows).max(16) * self.stride;
        let slack = LINE / size_of::<f32>() - 1;
        let mut rows = vec![0.0; values + slack];
        let start = rows.as_ptr().align_offset(LINE).min(slack);
        let used = self.n_rows * self.stride;
        rows[start..start + used].copy_from_slice(&self.rows[self.start..][..used]);
        (self.rows, self.start) = (rows, start);
    }
}

/// row <- keep row + error.
#[inline(always)]
pub(crate) fn add(row: &mut [f32], keep: f32, error: &[f32]) {
    row.iter_mut().zip(error).for_each(|(x, e)| *x = keep * *x + e);
}

#[cfg(test)]
mod tests {
    use pulp::Scalar;

    use super::super::TableRows;
    use super::super::vector::sigmoid;
    use super::*;
    use crate::Embedding;

    /// One input, three targets of dimension 2: the step of every row is minus the learning rate times the gradient of
    /// the loss by central differences (accurate to 1e-8; the f32 step to 1e-7 over the learning rate 0.1).
    #[test]
    fn a_step_follows_the_gradient() {
        let simd = Scalar::new();
        let start: [f64; 8] = [0.5, -0.25, 0.9, -0.6, 0.3, -0.4, 0.7, 0.2];
        let loss = |x: &[f64; 8]| -> f64 {
            let dot = |b: usize| x[0] * x[2 + 2 * b] + x[1] * x[3 + 2 * b];
            let softplus = |x: f64| x.exp().ln_1p();
            softplus(-dot(0)) + softplus(dot(1)) + softplus(dot(2))
        };
        let rate = 0.1f32;
        let mut x = start.map(|x| x as f32);
        let mut desk = Desk::new(2);
        desk.push_input(simd, &x[..2]);
        desk.targets.extend([0, 1, 2]);
        let mut table = TableRows { values: &mut x[2..], dim: 2, bias: &mut [] };
        desk.gather(simd, &mut table, rate);
        let measured = desk.step(simd, 0, true);
        desk.move_targets(simd, &mut table, 1.0);
        assert!((measured - loss(&start)).abs() < 1e-6);
        desk.move_input(simd, 0, &mut x[..2], 1.0);
        for k in 0..8 {
            let shifted = |h: f64| {
                let mut x = start;
                x[k] += h;
                loss(&x)
            };
            let gradient = (shifted(1e-4) - shifted(-1e-4)) / 2e-4;
            let got = (f64::from(x[k]) - start[k]) / -f64::from(rate);
            assert!((got - gradient).abs() < 1e-5, "coordinate {k}: {got} {gradient}");
        }
    }

    /// Several inputs are several positions of one input each, with the same targets, from the last to the first.
    #[test]
    fn inputs_are_taken_one_after_the_other() {
        let simd = Scalar::new();
        let inputs = [[0.5f32, -0.25, 1.0], [0.8, 0.1, -0.5], [-0.3, 0.6, 0.2]];
        let start = [0.9f32, -0.6, 0.1, 0.3, -0.4, 0.2, 0.7, 0.2, -0.8];
        let (mut together, mut apart) = (start, start);
        let mut desk = Desk::new(3);
        inputs.iter().for_each(|input| desk.push_input(simd, input));
        desk.targets.extend([2, 0, 1]);
        let mut table = TableRows { values: &mut together, dim: 3, bias: &mut [] };
        desk.gather(simd, &mut table, 0.1);
        for (a, input) in inputs.iter().enumerate().rev() {
            let mut one = Desk::new(3);
            one.push_input(simd, input);
            one.targets.extend([2, 0, 1]);
            let mut others = TableRows { values: &mut apart, dim: 3, bias: &mut [] };
            one.gather(simd, &mut others, 0.1);
            let losses = [desk.step(simd, a, true), one.step(simd, 0, true)];
            assert!((losses[0] - losses[1]).abs() < 1e-6);
            one.move_targets(simd, &mut others, 1.0);
            let (mut moved, mut alone) = (*input, *input);
            desk.move_input(simd, a, &mut moved, 1.0);
            one.move_input(simd, 0, &mut alone, 1.0);
            moved.iter().zip(alone).for_each(|(a, b)| assert!((a - b).abs() < 1e-6));
        }
        desk.move_targets(simd, &mut table, 1.0);
        together.iter().zip(apart).for_each(|(a, b)| assert!((a - b).abs() < 1e-6, "{a} {b}"));
    }

    #[test]
    fn the_error_of_a_mean_is_its_gradient_and_fixed_targets_stay() {
        let simd = Scalar::new();
        let mut desk = Desk::new(2);
        desk.sum_input(simd, &[0.5, 1.0]);
        desk.sum_input(simd, &[0.1, -2.0]);
        desk.scale_inputs(0.5);
        desk.targets.extend([0, 1]);
        let values = vec![0.3f32, -0.2, 0.7, 0.4];
        let before = values.clone();
        let table = Embedding::new(2, values);
        desk.look(simd, |target| table.row(target as usize), 0.1);
        desk.step(simd, 0, false);
        let h = [0.3f32, -0.5];
        let score = |t: usize| h[0] * before[2 * t] + h[1] * before[2 * t + 1];
        let g = [0.1 * (1.0 - sigmoid(score(0))), -0.1 * sigmoid(score(1))];
        for (k, &got) in desk.error(simd, 0).iter().enumerate() {
            let want = g[0] * before[k] + g[1] * before[2 + k];
            assert!((got - want).abs() < 1e-6, "{got} {want}");
        }
        assert_eq!(table.values(), before);
    }
}
