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
//! the last to the first: with the rows of inputs and targets in one list, all that input a needs comes after it.

use pulp::Simd;

use super::Rows;
use super::vector::{add_combination, padded, products, scaled_sigmoids, softplus};

/// The gathered rows of one position.
#[derive(Debug)]
pub(crate) struct Desk {
    dim: usize,
    stride: usize,
    /// Inputs and then targets, padded with zeros.
    rows: Vec<f32>,
    n_inputs: usize,
    /// The numbers of the targets; the first is the true target, the rest are negatives.
    pub targets: Vec<u32>,
    /// Inner products of every input with all rows after it.
    products: Vec<f32>,
    /// Scores of an input, and g of every input; padded.
    scores: Vec<f32>,
    g: Vec<f32>,
    /// g by target and input.
    by_target: Vec<f32>,
    /// The coefficients of the update of every input, for all rows after it.
    by_input: Vec<f32>,
    /// The update of an input that is a mean of rows.
    error: Vec<f32>,
}

impl Desk {
    pub fn new(dim: usize) -> Self {
        let stride = padded(dim);
        Self {
            dim,
            stride,
            rows: Vec::with_capacity(stride * 16),
            n_inputs: 0,
            targets: Vec::new(),
            products: Vec::new(),
            scores: Vec::new(),
            g: Vec::new(),
            by_target: Vec::new(),
            by_input: Vec::new(),
            error: vec![0.0; stride],
        }
    }

    /// Clears the inputs and targets of the previous position.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.rows.clear();
        self.n_inputs = 0;
        self.targets.clear();
    }

    /// Adds a row to the inputs.
    #[inline(always)]
    pub fn push_input(&mut self, row: &[f32]) {
        push(&mut self.rows, row, self.stride);
        self.n_inputs += 1;
    }

    /// Adds a row to the only input, which will become a mean.
    #[inline(always)]
    pub fn sum_input(&mut self, row: &[f32]) {
        if self.rows.is_empty() {
            self.push_input(row);
        } else {
            self.rows.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
    }

    /// Multiplies the inputs by a factor.
    #[inline(always)]
    pub fn scale_inputs(&mut self, factor: f32) {
        self.rows.iter_mut().for_each(|x| *x *= factor);
    }

    /// Multiplies every row so far by a dropout mask: the inputs, before the targets are gathered.
    #[inline(always)]
    pub fn mask(&mut self, mask: &[f32]) {
        for row in self.rows.chunks_exact_mut(self.stride) {
            row.iter_mut().zip(mask).for_each(|(x, m)| *x *= m);
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
        for at in 0..self.targets.len() {
            table.with(
                self.targets[at],
                #[inline(always)]
                |row, _| push(&mut self.rows, row, self.stride),
            );
        }
        let loss = self.gradients(simd, rate, measure);
        let n = self.n_inputs;
        for (&target, g) in self.targets.iter().zip(self.by_target.chunks_exact(n)) {
            table.with(
                target,
                #[inline(always)]
                |row, _| add_combination(simd, row, keep, g, &self.rows, self.stride),
            );
        }
        loss
    }

    /// As [`predict`](Self::predict), but with fixed targets, which `row` returns; returns the loss of an input.
    #[inline(always)]
    pub fn look<'t, S: Simd>(
        &mut self,
        simd: S,
        row: impl Fn(u32) -> &'t [f32],
        rate: f32,
        measure: bool,
    ) -> Option<f64> {
        for &target in &self.targets {
            push(&mut self.rows, row(target), self.stride);
        }
        self.gradients(simd, rate, measure)
    }

    /// Computes all coefficients; returns the mean loss of an input if requested.
    #[inline(always)]
    fn gradients<S: Simd>(&mut self, simd: S, rate: f32, measure: bool) -> Option<f64> {
        let (n, m, stride) = (self.n_inputs, self.targets.len(), self.stride);
        let (width, all) = (padded(m), n + m);
        self.products.resize(n * all, 0.0);
        for a in 0..n {
            let (row, after) = self.rows[a * stride..].split_at(stride);
            let (count, products_of) = (all - 1 - a, &mut self.products[a * all..]);
            products(simd, row, after, [1, count], stride, &mut products_of[..count]);
        }
        self.scores.resize(width, 0.0);
        self.g.resize(n * width, 0.0);
        self.by_input.resize(n * all, 0.0);
        let mut loss = 0.0;
        for a in (0..n).rev() {
            let later = n - 1 - a;
            let (with_inputs, with_targets) = self.products[a * all..].split_at(later);
            self.scores[..m].copy_from_slice(&with_targets[..m]);
            let (g, of_later) = self.g[a * width..].split_at_mut(width);
            add_combination(simd, &mut self.scores, 1.0, with_inputs, of_later, width);
            if measure {
                let negatives = self.scores[1..m].iter().map(|&x| softplus(x)).sum::<f64>();
                loss += softplus(-self.scores[0]) + negatives;
            }
            scaled_sigmoids(simd, &self.scores, -rate, g);
            g[0] += rate;
            g[m..].fill(0.0);
            let (of_inputs, of_targets) = self.by_input[a * all..].split_at_mut(later);
            products(simd, g, of_later, [1, later], width, of_inputs);
            of_targets[..m].copy_from_slice(&g[..m]);
        }
        self.by_target.clear();
        for b in 0..m {
            self.by_target.extend(self.g.iter().skip(b).step_by(width));
        }
        measure.then_some(loss / n as f64)
    }

    /// The coefficients of an input for the rows after it, and these.
    #[inline(always)]
    fn update(&self, a: usize) -> (&[f32], &[f32]) {
        let all = self.n_inputs + self.targets.len();
        (&self.by_input[a * all..][..all - 1 - a], &self.rows[(a + 1) * self.stride..])
    }

    /// Updates a row as input number `a`.
    #[inline(always)]
    pub fn move_input<S: Simd>(&self, simd: S, a: usize, row: &mut [f32], keep: f32) {
        let (coefficients, rows) = self.update(a);
        add_combination(simd, row, keep, coefficients, rows, self.stride);
    }

    /// The only input.
    pub fn input(&self) -> &[f32] {
        &self.rows[..self.dim]
    }

    /// g of the targets, for the only input.
    pub fn gains(&self) -> &[f32] {
        &self.g[..self.targets.len()]
    }

    /// The update of the only input: the update of each row of a mean.
    #[inline(always)]
    pub fn error<S: Simd>(&mut self, simd: S) -> &[f32] {
        let mut error = std::mem::take(&mut self.error);
        self.move_input(simd, 0, &mut error, 0.0);
        self.error = error;
        &self.error[..self.dim]
    }
}

#[inline(always)]
fn push(rows: &mut Vec<f32>, row: &[f32], stride: usize) {
    let at = rows.len();
    rows.extend_from_slice(row);
    rows.resize(at + stride, 0.0);
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
        desk.push_input(&x[..2]);
        desk.targets.extend([0, 1, 2]);
        let mut table = TableRows { values: &mut x[2..], dim: 2, bias: &mut [] };
        let measured = desk.predict(simd, &mut table, rate, 1.0, true).unwrap();
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
        inputs.iter().for_each(|input| desk.push_input(input));
        desk.targets.extend([2, 0, 1]);
        let mut table = TableRows { values: &mut together, dim: 3, bias: &mut [] };
        let loss = desk.predict(simd, &mut table, 0.1, 1.0, true).unwrap();
        let mut losses = 0.0;
        for (a, input) in inputs.iter().enumerate().rev() {
            let mut one = Desk::new(3);
            one.push_input(input);
            one.targets.extend([2, 0, 1]);
            let mut table = TableRows { values: &mut apart, dim: 3, bias: &mut [] };
            losses += one.predict(simd, &mut table, 0.1, 1.0, true).unwrap();
            let (mut moved, mut alone) = (*input, *input);
            desk.move_input(simd, a, &mut moved, 1.0);
            one.move_input(simd, 0, &mut alone, 1.0);
            moved.iter().zip(alone).for_each(|(a, b)| assert!((a - b).abs() < 1e-6));
        }
        assert!((loss - losses / 3.0).abs() < 1e-6);
        together.iter().zip(apart).for_each(|(a, b)| assert!((a - b).abs() < 1e-6, "{a} {b}"));
    }

    #[test]
    fn the_error_of_a_mean_is_its_gradient_and_fixed_targets_stay() {
        let simd = Scalar::new();
        let mut desk = Desk::new(2);
        desk.sum_input(&[0.5, 1.0]);
        desk.sum_input(&[0.1, -2.0]);
        desk.scale_inputs(0.5);
        desk.targets.extend([0, 1]);
        let values = vec![0.3f32, -0.2, 0.7, 0.4];
        let before = values.clone();
        let table = Embedding::new(2, values);
        desk.look(simd, |target| table.row(target as usize), 0.1, false);
        let h = [0.3f32, -0.5];
        let score = |t: usize| h[0] * before[2 * t] + h[1] * before[2 * t + 1];
        let g = [0.1 * (1.0 - sigmoid(score(0))), -0.1 * sigmoid(score(1))];
        for (k, &got) in desk.error(simd).iter().enumerate() {
            let want = g[0] * before[k] + g[1] * before[2 + k];
            assert!((got - want).abs() < 1e-6, "{got} {want}");
        }
        assert_eq!(table.values(), before);
    }
}
