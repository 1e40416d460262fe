//! Negative sampling (Mikolov et al. 2013): inputs predict one target among sampled negatives.
//!
//! loss   sum over inputs a: -ln sigma(<a, t_0>) - sum_b ln sigma(-<a, t_b>)
//! step   input after input: g_b = lr ([b = 0] - sigma(<a, t_b>));  a <- a + sum_b g_b t_b,  t_b <- t_b + g_b a
//!
//! All inputs of a position share the same negatives (Ji et al. 2016, "Parallelizing word2vec in shared and
//! distributed memory"), so a position reads and writes each of its rows once instead of once per pair. But every input
//! sees the targets as the inputs before it have left them, as in the word2vec code: with one step for all inputs at the
//! same targets, a small matrix product, vectors of 100 dimensions came out worse (`experiments/item2vec-gensim`).

use pulp::Simd;

use super::Rows;
use super::vector::{add_combination, exchange, padded, products, scaled_sigmoids, softplus};
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
    /// The rows of the targets, which the inputs update, and as they were.
    rows: Vec<f32>,
    before: Vec<f32>,
    /// The scores of the targets for one input, and g; padded to whole blocks of sigmoids.
    scores: Vec<f32>,
    g: Vec<f32>,
    /// The update of every input.
    errors: Vec<f32>,
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
            before: empty(),
            scores: Vec::new(),
            g: Vec::new(),
            errors: empty(),
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
        self.before.clone_from(&self.rows);
        let loss = self.inputs(simd, rate, measure);
        let rows = self.rows.chunks_exact(self.stride).zip(self.before.chunks_exact(self.stride));
        for (&target, (now, before)) in self.targets.iter().zip(rows) {
            // A negative that was drawn twice gets both updates.
            table.with(
                target,
                #[inline(always)]
                |row, _| {
                    let change = now.iter().zip(before).map(|(now, before)| now - before);
                    row.iter_mut().zip(change).for_each(|(x, change)| *x = keep * *x + change);
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
        debug_assert_eq!(self.n_inputs, 1, "the vector that is fitted");
        self.first_scores(simd);
        self.errors.resize(self.stride, 0.0);
        self.weigh(rate);
        let g = &self.g[..self.targets.len()];
        add_combination(simd, &mut self.errors, 0.0, g, &self.rows, self.stride);
    }

    /// The scores of the targets for the first input.
    #[inline(always)]
    fn first_scores<S: Simd>(&mut self, simd: S) {
        let n = self.targets.len();
        self.scores.clear();
        self.scores.resize(n.next_multiple_of(8), 0.0);
        let scores = &mut self.scores[..n];
        products(simd, &self.inputs[..self.stride], &self.rows, [1, n], self.stride, scores);
    }

    /// Computes g of the scores.
    #[inline(always)]
    fn weigh(&mut self, rate: f32) {
        self.g.resize(self.scores.len(), 0.0);
        scaled_sigmoids(&self.scores, rate, &mut self.g);
        self.g[0] += rate;
    }

    /// Steps of all inputs, one after the other; returns the mean loss of an input if requested.
    #[inline(always)]
    fn inputs<S: Simd>(&mut self, simd: S, rate: f32, measure: bool) -> Option<f64> {
        let (n, stride) = (self.targets.len(), self.stride);
        self.first_scores(simd);
        self.errors.resize(self.inputs.len(), 0.0);
        let mut loss = 0.0;
        for a in 0..self.n_inputs {
            if measure {
                let negatives = self.scores[1..n].iter().map(|&x| softplus(x)).sum::<f64>();
                loss += softplus(-self.scores[0]) + negatives;
            }
            self.weigh(rate);
            let after = (a + 1) % self.n_inputs; // after the last one the scores are not used
            let inputs = [a, after].map(|a| &self.inputs[a * stride..(a + 1) * stride]);
            let error = &mut self.errors[a * stride..(a + 1) * stride];
            exchange(simd, inputs, &mut self.rows, error, &self.g[..n], &mut self.scores[..n]);
        }
        measure.then_some(loss / self.n_inputs as f64)
    }

    /// Masks the update too: dropped coordinates of the inputs do not change.
    #[inline(always)]
    pub fn mask_errors(&mut self, mask: &[f32]) {
        for error in self.errors.chunks_exact_mut(self.stride) {
            error.iter_mut().zip(mask).for_each(|(x, m)| *x *= m);
        }
    }

    /// Updates a row as input number `a`.
    #[inline(always)]
    pub fn move_input(&self, a: usize, row: &mut [f32], keep: f32) {
        let error = &self.errors[a * self.stride..(a + 1) * self.stride];
        row.iter_mut().zip(error).for_each(|(x, e)| *x = keep * *x + e);
    }

    /// The update of the only input: the update of each row of a mean.
    #[inline(always)]
    pub fn error(&self) -> &[f32] {
        &self.errors[..self.dim]
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
        desk.move_input(0, &mut x[..2], 1.0);
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

    /// Several inputs are several positions of one input each, with the same targets.
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
        for (a, input) in inputs.iter().enumerate() {
            let mut one = Desk::new(3);
            one.push_input(input);
            one.targets.extend([2, 0, 1]);
            let mut table = TableRows { values: &mut apart, dim: 3, bias: &mut [] };
            losses += one.predict(simd, &mut table, 0.1, 1.0, true).unwrap();
            let (mut moved, mut alone) = (*input, *input);
            desk.move_input(a, &mut moved, 1.0);
            one.move_input(0, &mut alone, 1.0);
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
        desk.look(simd, &table, 0.1);
        let h = [0.3f32, -0.5];
        let score = |t: usize| h[0] * before[2 * t] + h[1] * before[2 * t + 1];
        let g = [0.1 * (1.0 - sigmoid(score(0))), -0.1 * sigmoid(score(1))];
        for (k, &got) in desk.error().iter().enumerate() {
            let want = g[0] * before[k] + g[1] * before[2 + k];
            assert!((got - want).abs() < 1e-6, "{got} {want}");
        }
        assert_eq!(table.values(), before);
    }
}
