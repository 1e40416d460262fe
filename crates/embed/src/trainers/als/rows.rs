//! Half an iteration: every row of one table independently, with the other table fixed.
//!
//! Row x minimizes sum_k w_k (t_k / w_k - <x, y_k>)^2 + x'G x over its entries k, up to a constant, so
//! A x = b with A = G + sum_k w_k y_k y_k', b = sum_k t_k y_k.
//!
//! feedback   w_k      t_k                             G
//! implicit   a r_k    1 + a r_k (0 for r_k = 0)       Y'Y + lambda I      (Hu, Koren & Volinsky 2008)
//! explicit   1        r_k - mean                      lambda I
//!
//! Conjugate gradients start from the current row and never form A: a product A p costs d^2 + 2 n d (Takacs,
//! Pilaszy & Tikk 2011). The rows y_k are gathered once, padded to whole SIMD vectors, and read from the first-level
//! cache in pieces: inner products of a piece, then its weighted sum.
//!
//! Limit: loads, 1.25 per fused multiply-add in both halves, two per cycle.

use pulp::{Simd, WithSimd};
use veridical_learn::solve_spd;

use super::side::Side;
use super::{Feedback, Solver};
use crate::Embedding;
use crate::sgd::vector::{add_combination, dot, padded, products};

/// Rows that are kept gathered; longer lists are gathered again for every product.
const GATHERED: usize = 1024;
/// Rows of a piece: at 128 values 16 KiB, half of a first-level cache.
const PIECE: usize = 32;

/// The least-squares problem of the rows of one table.
#[derive(Clone, Copy)]
pub(super) struct Problem<'a> {
    pub side: &'a Side,
    pub fixed: &'a Embedding,
    /// Y'Y with padded rows; empty for explicit feedback.
    pub gram: &'a [f32],
    pub feedback: Feedback,
    pub alpha: f32,
    pub decay: f32,
    pub scaled_decay: bool,
    pub solver: Solver,
    pub steps: usize,
}

impl Problem<'_> {
    /// (w, t) of an entry.
    #[inline(always)]
    pub(super) fn entry(&self, value: f32) -> (f32, f32) {
        match self.feedback {
            Feedback::Explicit => (1.0, value),
            Feedback::Implicit => {
                let weight = self.alpha * value;
                (weight, if weight > 0.0 { 1.0 + weight } else { 0.0 })
            }
        }
    }

    /// lambda of a row with n entries.
    pub(super) fn lambda(&self, n: usize) -> f32 {
        if self.scaled_decay { self.decay * n as f32 } else { self.decay }
    }

    /// out = the diagonal of A of row `r`.
    pub(super) fn diagonal(&self, r: usize, out: &mut [f32]) {
        let (columns, values) = self.side.row(r);
        let stride = padded(out.len());
        for (i, out) in out.iter_mut().enumerate() {
            let dense = self.gram.get(i * stride + i).copied().unwrap_or(0.0);
            *out = self.lambda(columns.len()) + dense;
        }
        for (&c, &value) in columns.iter().zip(values) {
            let weight = self.entry(value).0;
            let row = self.fixed.row(c as usize);
            out.iter_mut().zip(row).for_each(|(out, y)| *out += weight * y * y);
        }
    }

    /// The loss of an entry with score s, minus the loss of a missing entry.
    #[inline(always)]
    fn loss(&self, value: f32, s: f32) -> f64 {
        let (weight, target) = self.entry(value);
        let (weight, target, s) = (f64::from(weight), f64::from(target), f64::from(s));
        match self.feedback {
            Feedback::Explicit => (target - s).powi(2),
            // c (1 - s)^2 - s^2, with c = t
            Feedback::Implicit if target > 0.0 => target * (1.0 - s).powi(2) - s * s,
            Feedback::Implicit => weight * s * s,
        }
    }
}

/// Scratch memory for the solution of rows in sequence.
#[derive(Default)]
pub(super) struct Scratch {
    y: Vec<f32>,
    scores: Vec<f32>,
    x: Vec<f32>,
    r: Vec<f32>,
    p: Vec<f32>,
    ap: Vec<f32>,
}

/// Solves a run of rows that begins at `first`; returns the sum of the losses before.
pub(super) struct Solve<'a, 'b> {
    pub problem: &'a Problem<'a>,
    pub scratch: &'b mut Scratch,
    pub first: usize,
    pub rows: &'b mut [f32],
}

impl WithSimd for Solve<'_, '_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let Self { problem, scratch, first, rows } = self;
        let dim = problem.fixed.dim();
        let mut loss = 0.0;
        for (r, row) in (first..).zip(rows.chunks_exact_mut(dim)) {
            let mut system = System::new(simd, problem, scratch, r);
            loss += match problem.solver {
                Solver::Cg => system.by_cg(row),
                Solver::Cholesky => system.by_cholesky(row),
            };
        }
        loss
    }
}

/// A x = b of one row.
pub(super) struct System<'a, 'b, S> {
    simd: S,
    problem: &'a Problem<'a>,
    columns: &'a [u32],
    values: &'a [f32],
    lambda: f32,
    stride: usize,
    scratch: &'b mut Scratch,
}

impl<'a, 'b, S: Simd> System<'a, 'b, S> {
    #[inline(always)]
    pub(super) fn new(
        simd: S,
        problem: &'a Problem<'a>,
        scratch: &'b mut Scratch,
        r: usize,
    ) -> Self {
        let (columns, values) = problem.side.row(r);
        let stride = padded(problem.fixed.dim());
        let lambda = problem.lambda(columns.len());
        for vector in [&mut scratch.x, &mut scratch.r, &mut scratch.p, &mut scratch.ap] {
            vector.resize(stride, 0.0);
        }
        let mut system = Self { simd, problem, columns, values, lambda, stride, scratch };
        if columns.len() <= GATHERED {
            system.gather(columns);
        }
        system
    }

    #[inline(always)]
    fn gather(&mut self, columns: &[u32]) {
        let fixed = self.problem.fixed;
        let dim = fixed.dim();
        let size = columns.len() * self.stride;
        if self.scratch.y.len() < size {
            self.scratch.y.resize(size, 0.0);
        }
        for (out, &c) in self.scratch.y.chunks_exact_mut(self.stride).zip(columns) {
            out[..dim].copy_from_slice(fixed.row(c as usize));
        }
    }

    /// out += sum_k f(value_k, <y_k, v>) y_k.
    #[inline(always)]
    fn add_entries(&mut self, v: &[f32], out: &mut [f32], mut f: impl FnMut(f32, f32) -> f32) {
        let stride = self.stride;
        let again = self.columns.len() > GATHERED;
        for (columns, values) in self.columns.chunks(GATHERED).zip(self.values.chunks(GATHERED)) {
            if again {
                self.gather(columns);
            }
            let y = &self.scratch.y[..columns.len() * stride];
            for (y, values) in y.chunks(PIECE * stride).zip(values.chunks(PIECE)) {
                self.scratch.scores.resize(PIECE, 0.0);
                let scores = &mut self.scratch.scores[..values.len()];
                products(self.simd, v, y, stride, scores);
                scores.iter_mut().zip(values).for_each(|(s, &value)| *s = f(value, *s));
                add_combination(self.simd, out, 1.0, scores, 1, y, stride);
            }
        }
    }

    /// out = G v.
    #[inline(always)]
    fn fill_dense(&self, v: &[f32], out: &mut [f32]) {
        if self.problem.gram.is_empty() {
            out.iter_mut().zip(v).for_each(|(o, v)| *o = self.lambda * v);
        } else {
            let dim = self.problem.fixed.dim();
            out.iter_mut().zip(v).for_each(|(o, v)| *o = self.lambda * v);
            add_combination(self.simd, out, 1.0, &v[..dim], 1, self.problem.gram, self.stride);
        }
    }

    /// r = b - A x; returns the loss at x.
    #[inline(always)]
    pub(super) fn residual(&mut self, x: &[f32], r: &mut [f32]) -> f64 {
        self.fill_dense(x, r);
        let mut loss = 0.0;
        if !self.problem.gram.is_empty() {
            let dense = dot(self.simd, x, r) - self.lambda * dot(self.simd, x, x);
            loss = f64::from(dense);
        }
        r.iter_mut().for_each(|r| *r = -*r);
        let problem = self.problem;
        self.add_entries(x, r, |value, s| {
            loss += problem.loss(value, s);
            let (weight, target) = problem.entry(value);
            target - weight * s
        });
        loss
    }

    /// out = A p.
    #[inline(always)]
    pub(super) fn product(&mut self, p: &[f32], out: &mut [f32]) {
        self.fill_dense(p, out);
        let problem = self.problem;
        self.add_entries(p, out, |value, s| problem.entry(value).0 * s);
    }

    #[inline(always)]
    fn by_cg(&mut self, row: &mut [f32]) -> f64 {
        let simd = self.simd;
        let dim = row.len();
        let take = |vector: &mut Vec<f32>| std::mem::take(vector);
        let (mut x, mut r) = (take(&mut self.scratch.x), take(&mut self.scratch.r));
        let (mut p, mut ap) = (take(&mut self.scratch.p), take(&mut self.scratch.ap));
        x[..dim].copy_from_slice(row);
        let loss = self.residual(&x, &mut r);
        p.copy_from_slice(&r);
        let mut rr = dot(simd, &r, &r);
        for _ in 0..self.problem.steps {
            if rr < 1e-20 {
                break;
            }
            self.product(&p, &mut ap);
            let curvature = dot(simd, &p, &ap);
            if curvature <= 0.0 {
                break;
            }
            let step = rr / curvature;
            for (((x, r), p), ap) in x.iter_mut().zip(&mut r).zip(&p).zip(&ap) {
                *x += step * p;
                *r -= step * ap;
            }
            let next = dot(simd, &r, &r);
            let keep = next / rr;
            p.iter_mut().zip(&r).for_each(|(p, r)| *p = r + keep * *p);
            rr = next;
        }
        row.copy_from_slice(&x[..dim]);
        (self.scratch.x, self.scratch.r, self.scratch.p, self.scratch.ap) = (x, r, p, ap);
        loss
    }

    fn by_cholesky(&mut self, row: &mut [f32]) -> f64 {
        let dim = row.len();
        let problem = self.problem;
        let mut x = std::mem::take(&mut self.scratch.x);
        let mut r = std::mem::take(&mut self.scratch.r);
        x[..dim].copy_from_slice(row);
        let loss = self.residual(&x, &mut r);
        (self.scratch.x, self.scratch.r) = (x, r);
        let mut matrix = vec![0.0; dim * dim];
        if !problem.gram.is_empty() {
            let gram = problem.gram.chunks_exact(self.stride);
            for (out, row) in matrix.chunks_exact_mut(dim).zip(gram) {
                out.iter_mut().zip(row).for_each(|(a, &g)| *a = f64::from(g));
            }
        }
        let mut right = vec![0.0; dim];
        let mut y = vec![0.0; dim];
        for (&c, &value) in self.columns.iter().zip(self.values) {
            let (weight, target) = problem.entry(value);
            let (weight, target) = (f64::from(weight), f64::from(target));
            y.iter_mut().zip(problem.fixed.row(c as usize)).for_each(|(y, &x)| *y = x.into());
            for (i, out) in matrix.chunks_exact_mut(dim).enumerate() {
                let wy = weight * y[i];
                out[..=i].iter_mut().zip(&y).for_each(|(a, y)| *a += wy * y);
            }
            right.iter_mut().zip(&y).for_each(|(b, y)| *b += target * y);
        }
        // Without lambda on the diagonal, rows without entries would be singular.
        (0..dim).for_each(|i| matrix[i * dim + i] += f64::from(self.lambda));
        let solution = solve_spd(&mut matrix, &right);
        row.iter_mut().zip(solution).for_each(|(x, s)| *x = s as f32);
        loss
    }
}
