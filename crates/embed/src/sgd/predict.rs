//! Negative sampling (Mikolov et al. 2013): inputs predict one target among sampled negatives.
//!
//! loss   sum over inputs a: -ln sigma(<a, t_0>) - sum_b ln sigma(-<a, t_b>)
//! step   g_ab = lr ([b = 0] - sigma(<a, t_b>));  t_b <- t_b + sum_a g_ab a,  a <- a + sum_b g_ab t_b
//!
//! All inputs of a position share the same negatives (Ji et al. 2016, "Parallelizing word2vec in shared and
//! distributed memory"): the inner products become a small matrix product, and a position reads and writes each of
//! its rows once instead of once per pair. Gradients use the rows before the step of the position.

use pulp::Simd;

use super::Rows;
use super::vector::{add_combination, padded, products, sigmoid, softplus};
use crate::Embedding;

/// The gathered rows of one position.
#[derive(Debug)]
pub(crate) struct Desk {
    dim: usize,
    stride: usize,
    /// Inputs, padded with zeros.
    inputs: Vec<f32>,
    n_inputs: usize,
    /// The numbers of the targets; the first is the true target, the rest are negatives.
    pub targets: Vec<u32>,
    rows: Vec<f32>,
    /// g by target and input, and by input and target.
    by_target: Vec<f32>,
    by_input: Vec<f32>,
    /// The gradient of an input that is a mean of rows.
    error: Vec<f32>,
}

impl Desk {
    pub fn new(dim: usize) -> Self {
        let stride = padded(dim);
        let empty = || Vec::with_capacity(stride * 16);
        Self {
            dim,
            stride,
            inputs: empty(),
            n_inputs: 0,
            targets: Vec::new(),
            rows: empty(),
            by_target: Vec::new(),
            by_input: Vec::new(),
            error: vec![0.0; stride],
        }
    }

    /// Clears the inputs and targets of the previous position.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.inputs.clear();
        self.n_inputs = 0;
        self.targets.clear();
    }

    /// Adds a row to the inputs.
    #[inline(always)]
    pub fn push_input(&mut self, row: &[f32]) {
        push(&mut self.inputs, row, self.stride);
        self.n_inputs += 1;
    }

    /// Adds a row to the only input, which will become a mean.
    #[inline(always)]
    pub fn sum_input(&mut self, row: &[f32]) {
        if self.inputs.is_empty() {
            self.push_input(row);
        } else {
            self.inputs.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
    }

    /// Multiplies the inputs by a factor.
    #[inline(always)]
    pub fn scale_inputs(&mut self, factor: f32) {
        self.inputs.iter_mut().for_each(|x| *x *= factor);
    }

    /// Multiplies every input by a dropout mask.
    #[inline(always)]
    pub fn mask_inputs(&mut self, mask: &[f32]) {
        for input in self.inputs.chunks_exact_mut(self.stride) {
            input.iter_mut().zip(mask).for_each(|(x, m)| *x *= m);
        }
    }

    /// Updates the targets and prepares the update of the inputs; returns the loss of an input if requested.
    #[inline(always)]
    pub fn predict<S: Simd, R: Rows>(
        &mut self,
        simd: S,
        table: &mut R,
        rate: f32,
        keep: f32,
        measure: bool,
    ) -> Option<f64> {
        self.rows.clear();
        for at in 0..self.targets.len() {
            table.with(
                self.targets[at],
                #[inline(always)]
                |row, _| push(&mut self.rows, row, self.stride),
            );
        }
        let loss = self.gradients(simd, rate, measure);
        let n_inputs = self.n_inputs;
        for (b, &target) in self.targets.iter().enumerate() {
            let g = &self.by_target[b * n_inputs..(b + 1) * n_inputs];
            table.with(
                target,
                #[inline(always)]
                |row, _| {
                    add_combination(simd, row, keep, g, &self.inputs, self.stride);
                },
            );
        }
        loss
    }

    /// As [`predict`](Self::predict), but with fixed targets.
    #[inline(always)]
    pub fn look<S: Simd>(&mut self, simd: S, table: &Embedding, rate: f32) {
        self.rows.clear();
        for &target in &self.targets {
            push(&mut self.rows, table.row(target as usize), self.stride);
        }
        self.gradients(simd, rate, false);
    }

    /// Computes g of every input and target.
    #[inline(always)]
    fn gradients<S: Simd>(&mut self, simd: S, rate: f32, measure: bool) -> Option<f64> {
        let (n_inputs, n_targets) = (self.n_inputs, self.targets.len());
        self.by_target.resize(n_targets * n_inputs, 0.0);
        let n = [n_targets, n_inputs];
        products(simd, &self.rows, &self.inputs, n, self.stride, &mut self.by_target);
        let loss = measure.then(|| self.loss(n_inputs));
        for g in &mut self.by_target {
            *g = -rate * sigmoid(*g);
        }
        for g in &mut self.by_target[..n_inputs] {
            *g += rate;
        }
        self.by_input.resize(n_targets * n_inputs, 0.0);
        for a in 0..n_inputs {
            for (b, g) in self.by_input[a * n_targets..][..n_targets].iter_mut().enumerate() {
                *g = self.by_target[b * n_inputs + a];
            }
        }
        loss
    }

    /// The mean loss of an input; the buffer of g still holds the inner products.
    fn loss(&self, n_inputs: usize) -> f64 {
        let (positive, negative) = self.by_target.split_at(n_inputs);
        let sum: f64 = positive.iter().map(|&x| softplus(-x)).sum::<f64>()
            + negative.iter().map(|&x| softplus(x)).sum::<f64>();
        sum / n_inputs as f64
    }

    /// Masks the update too: dropped coordinates of the inputs do not change.
    #[inline(always)]
    pub fn mask_errors(&mut self, mask: &[f32]) {
        for row in self.rows.chunks_exact_mut(self.stride) {
            row.iter_mut().zip(mask).for_each(|(x, m)| *x *= m);
        }
    }

    /// Updates a row as input number `a`.
    #[inline(always)]
    pub fn move_input<S: Simd>(&self, simd: S, a: usize, row: &mut [f32], keep: f32) {
        let n_targets = self.targets.len();
        let g = &self.by_input[a * n_targets..(a + 1) * n_targets];
        add_combination(simd, row, keep, g, &self.rows, self.stride);
    }

    /// The update of the only input times a factor: the update of each row of a mean.
    #[inline(always)]
    pub fn error<S: Simd>(&mut self, simd: S, factor: f32) -> &[f32] {
        self.error.fill(0.0);
        let g = &self.by_input[..self.targets.len()];
        add_combination(simd, &mut self.error, 0.0, g, &self.rows, self.stride);
        self.error.iter_mut().for_each(|x| *x *= factor);
        &self.error[..self.dim]
    }
}

#[inline(always)]
fn push(rows: &mut Vec<f32>, row: &[f32], stride: usize) {
    rows.extend_from_slice(row);
    for _ in row.len()..stride {
        rows.push(0.0);
    }
}

#[cfg(test)]
mod tests {
    use pulp::Scalar;

    use super::super::TableRows;
    use super::*;

    /// Two inputs, three targets of dimension 2: the step of every row is minus the learning rate times the gradient of
    /// the loss by central differences (accurate to 1e-8; the f32 step to 1e-7 over the learning rate 0.1).
    #[test]
    fn a_step_follows_the_gradient() {
        let simd = Scalar::new();
        let start: [f64; 10] = [0.5, -0.25, 0.8, 0.1, 0.9, -0.6, 0.3, -0.4, 0.7, 0.2];
        let loss = |x: &[f64; 10]| -> f64 {
            let dot = |a: usize, b: usize| x[2 * a] * x[4 + 2 * b] + x[2 * a + 1] * x[5 + 2 * b];
            let softplus = |x: f64| x.exp().ln_1p();
            let one = |a| softplus(-dot(a, 0)) + softplus(dot(a, 1)) + softplus(dot(a, 2));
            one(0) + one(1)
        };
        let rate = 0.1f32;
        let mut x = start.map(|x| x as f32);
        let mut desk = Desk::new(2);
        desk.push_input(&x[..2]);
        desk.push_input(&x[2..4]);
        desk.targets.extend([0, 1, 2]);
        let mut table = TableRows { values: &mut x[4..], dim: 2, bias: &mut [] };
        let measured = desk.predict(simd, &mut table, rate, 1.0, true).unwrap();
        assert!((measured - loss(&start) / 2.0).abs() < 1e-6);
        desk.move_input(simd, 0, &mut x[..2], 1.0);
        desk.move_input(simd, 1, &mut x[2..4], 1.0);
        for k in 0..10 {
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

    #[test]
    fn the_error_of_a_mean_is_its_gradient() {
        let simd = Scalar::new();
        let mut desk = Desk::new(2);
        desk.sum_input(&[0.5, 1.0]);
        desk.sum_input(&[0.1, -2.0]);
        desk.scale_inputs(0.5);
        desk.targets.extend([0, 1]);
        let mut values = [0.3f32, -0.2, 0.7, 0.4];
        let before = values;
        let mut table = TableRows { values: &mut values, dim: 2, bias: &mut [] };
        desk.predict(simd, &mut table, 0.1, 1.0, false);
        let h = [0.3f32, -0.5];
        let score = |t: usize| h[0] * before[2 * t] + h[1] * before[2 * t + 1];
        let g = [0.1 * (1.0 - sigmoid(score(0))), -0.1 * sigmoid(score(1))];
        for (k, &got) in desk.error(simd, 2.0).iter().enumerate() {
            let want = 2.0 * (g[0] * before[k] + g[1] * before[2 + k]);
            assert!((got - want).abs() < 1e-6, "{got} {want}");
        }
    }
}
