//! Loss and gradient of logistic regression, in one pass over the rows.
//!
//! With scores s_i = W (x_i - m) + b for the mean row m (a shift of b alone, but W and b then hardly interact):
//!
//! softmax     L = (1/n) sum_i [log sum_k exp(s_ik) - s_i,y_i],         dL/ds_ik = (p_ik - 1[k = y_i]) / n
//! sigmoid     L = (1/n) sum_ik [log(1 + exp(s_ik)) - s_ik 1[k in Y_i]], the same with p_ik = 1 / (1 + exp(-s_ik))
//! penalty     |W|^2 / (2 C n)
//!
//! The preconditioner inverts q_k (1 - q_k) X'X / n + I / (C n) for every class, q_k its share among the rows: the Hessian
//! where all scores are b, without its blocks between classes. It keeps softmax steps at sum zero over the classes. X'X is
//! estimated from a few thousand rows.
//!
//! Limit: X is read once per evaluation, in blocks that stay in the cache for both products. Blocks are assigned to lanes;
//! threads process lanes, whose results are added in lane order.

use rayon::prelude::*;

use super::kernel::Layout;
use super::lbfgs::Smooth;
use crate::dense::{product, row_major, view};
use crate::eigen;
use crate::exp::exp;

/// Multiply-adds of a product below which a single thread is faster.
const SMALL: usize = 1 << 19;

/// Classes of every example.
pub(super) enum Targets<'a> {
    /// Exactly one class per example.
    Softmax(&'a [u32]),
    /// Any set of classes per example.
    Sigmoid(&'a [Vec<u32>]),
}

/// Rows with their target classes.
pub(super) struct Examples<'a> {
    pub rows: &'a [f32],
    pub dim: usize,
    pub targets: Targets<'a>,
    pub classes: usize,
}

impl Examples<'_> {
    pub(super) fn count(&self) -> usize {
        self.rows.len() / self.dim
    }
}

/// Mean and principal axes of the rows, shared by all penalties.
pub(super) struct Axes {
    mean: Vec<f64>,
    /// Second moments of the centered rows along each axis.
    spread: Vec<f64>,
    /// Principal axes, one per column.
    axes: Vec<f64>,
}

impl Axes {
    pub(super) fn of(rows: &[f32], dim: usize) -> Self {
        let n = rows.len() / dim;
        let mut mean = vec![0.0; dim];
        for row in rows.chunks_exact(dim) {
            mean.iter_mut().zip(row).for_each(|(m, &x)| *m += f64::from(x));
        }
        mean.iter_mut().for_each(|m| *m /= n as f64);
        let stride = n.div_ceil((8 * dim).max(2048));
        let sample: Vec<f64> = rows
            .chunks_exact(dim)
            .step_by(stride)
            .flat_map(|row| row.iter().zip(&mean).map(|(&x, m)| f64::from(x) - m))
            .collect();
        let count = (sample.len() / dim) as f64;
        let sample = view(&sample, dim);
        let moments = product(sample.transpose(), sample);
        let moments: Vec<f64> = row_major(moments.as_ref()).iter().map(|m| m / count).collect();
        let (spread, axes) = eigen(&moments, dim);
        Self { mean, spread, axes }
    }
}

/// Penalized loss; the parameters are W by rows, then b.
pub(super) struct Objective<'a> {
    pub examples: &'a Examples<'a>,
    pub axes: &'a Axes,
    /// Penalty weight 1 / (C n).
    pub penalty: f64,
    /// Share of each class among the examples.
    pub shares: &'a [f64],
}

/// W and b in the layout that the products read.
struct Packed<'a> {
    layout: Layout,
    weights: Vec<f64>,
    intercepts: &'a [f64],
}

/// Loss and gradient with respect to W and b, summed over some rows.
struct Partial {
    loss: f64,
    weights: Vec<f64>,
    intercepts: Vec<f64>,
}

impl Objective<'_> {
    fn widths(&self) -> (usize, usize) {
        (self.examples.dim, self.examples.classes)
    }

    /// Adds the rows from `first` on; the gradient with respect to W is dim x padded classes.
    fn add(
        &self,
        packed: &Packed<'_>,
        rows: &[f32],
        first: usize,
        scores: &mut Vec<f64>,
        sum: &mut Partial,
    ) {
        let (dim, classes) = self.widths();
        let padded = packed.layout.padded();
        scores.resize(rows.len() / dim * padded, 0.0);
        packed.layout.scores(rows, &packed.weights, scores);
        for (r, scores) in scores.chunks_exact_mut(padded).enumerate() {
            let scores = &mut scores[..classes];
            scores.iter_mut().zip(packed.intercepts).for_each(|(s, b)| *s += b);
            sum.loss += match &self.examples.targets {
                Targets::Softmax(labels) => softmax(scores, labels[first + r]),
                Targets::Sigmoid(sets) => sigmoid(scores, &sets[first + r]),
            };
            sum.intercepts.iter_mut().zip(&*scores).for_each(|(sum, g)| *sum += g);
        }
        packed.layout.add_gradient(rows, scores, &mut sum.weights);
    }

    /// Sums over all rows.
    fn sums(&self, w: &[f64], b: &[f64]) -> Partial {
        let (dim, classes) = self.widths();
        let n = self.examples.count();
        let layout = Layout::new(dim, classes);
        let packed = Packed { layout, weights: layout.pack(w), intercepts: b };
        let size = dim * layout.padded();
        let block = (32_768 / dim).next_multiple_of(4).clamp(32, 256);
        let lanes = ((1 << 22) / size).clamp(1, 64);
        let lane = n.div_ceil(lanes).next_multiple_of(block);
        let partial = |(l, rows): (usize, &[f32])| {
            let (weights, intercepts) = (vec![0.0; size], vec![0.0; classes]);
            let mut sum = Partial { loss: 0.0, weights, intercepts };
            let mut scores = Vec::new();
            for (k, rows) in rows.chunks(block * dim).enumerate() {
                self.add(&packed, rows, l * lane + k * block, &mut scores, &mut sum);
            }
            sum
        };
        let rows = self.examples.rows;
        let partials: Vec<Partial> = if rows.len() * classes < SMALL {
            rows.chunks(lane * dim).enumerate().map(partial).collect()
        } else {
            rows.par_chunks(lane * dim).enumerate().map(partial).collect()
        };
        let add = |mut sum: Partial, next: Partial| {
            sum.loss += next.loss;
            sum.weights.iter_mut().zip(next.weights).for_each(|(s, x)| *s += x);
            sum.intercepts.iter_mut().zip(next.intercepts).for_each(|(s, x)| *s += x);
            sum
        };
        // INVARIANT: there is at least one row.
        partials.into_iter().reduce(add).expect("examples")
    }

    /// Softmax is invariant to adding a constant to all scores of a row, and the penalty selects weights that sum to zero over
    /// the classes. Steps stay in that subspace: orthogonal to it only the penalty has curvature, far less than the
    /// preconditioner assumes.
    pub(super) fn to_zero_sum(&self, x: &mut [f64]) {
        if matches!(self.examples.targets, Targets::Sigmoid(_)) {
            return;
        }
        let (dim, classes) = self.widths();
        let (w, b) = x.split_at_mut(dim * classes);
        let mut mean = vec![0.0; dim];
        for w in w.chunks_exact(dim) {
            mean.iter_mut().zip(w).for_each(|(m, w)| *m += w / classes as f64);
        }
        for w in w.chunks_exact_mut(dim) {
            w.iter_mut().zip(&mean).for_each(|(w, m)| *w -= m);
        }
        let mean = b.iter().sum::<f64>() / classes as f64;
        b.iter_mut().for_each(|b| *b -= mean);
    }

    /// Converts the intercepts to rows that are not centered, b - W m; the opposite sign converts back.
    pub(super) fn shift_intercepts(&self, x: &mut [f64], sign: f64) {
        let (dim, classes) = self.widths();
        let (w, b) = x.split_at_mut(dim * classes);
        for (b, w) in b.iter_mut().zip(w.chunks_exact(dim)) {
            *b += sign * w.iter().zip(&self.axes.mean).map(|(w, m)| w * m).sum::<f64>();
        }
    }
}

/// Softmax loss of one example; scores become p - 1[k = label].
fn softmax(scores: &mut [f64], label: u32) -> f64 {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let own = scores[label as usize] - largest;
    scores.iter_mut().for_each(|s| *s = exp(*s - largest));
    let sum: f64 = scores.iter().sum();
    scores.iter_mut().for_each(|s| *s /= sum);
    scores[label as usize] -= 1.0;
    sum.ln() - own
}

/// Sigmoid loss of one example over all classes; scores become p - 1[k in labels].
fn sigmoid(scores: &mut [f64], labels: &[u32]) -> f64 {
    let mut loss: f64 = labels.iter().map(|&l| -scores[l as usize]).sum();
    // Factors are at most 2, so a product of this many is finite, and one logarithm serves them all.
    for scores in scores.chunks_mut(512) {
        let mut product = 1.0;
        for s in scores {
            let small = exp(-s.abs());
            loss += s.max(0.0);
            product *= 1.0 + small;
            *s = if *s >= 0.0 { 1.0 } else { small } / (1.0 + small);
        }
        loss += product.ln();
    }
    labels.iter().for_each(|&l| scores[l as usize] -= 1.0);
    loss
}

impl Smooth for Objective<'_> {
    fn evaluate(&self, x: &[f64], gradient: &mut [f64]) -> f64 {
        let (dim, classes) = self.widths();
        let n = self.examples.count() as f64;
        let mut shifted = x.to_vec();
        self.shift_intercepts(&mut shifted, -1.0);
        let (w, b) = shifted.split_at(dim * classes);
        let sums = self.sums(w, b);
        let padded = sums.weights.len() / dim;
        let (by_w, by_b) = gradient.split_at_mut(dim * classes);
        let mut square = 0.0;
        let classes = by_w.chunks_exact_mut(dim).zip(w.chunks_exact(dim)).enumerate();
        for (k, (out, w)) in classes {
            let (own, sum) = (sums.weights.iter().skip(k).step_by(padded), sums.intercepts[k]);
            for (((out, w), own), mean) in out.iter_mut().zip(w).zip(own).zip(&self.axes.mean) {
                *out = (own - sum * mean) / n + self.penalty * w;
                square += w * w;
            }
            by_b[k] = sum / n;
        }
        sums.loss / n + 0.5 * self.penalty * square
    }

    fn precondition(&self, g: &mut [f64]) {
        let (dim, classes) = self.widths();
        let (w, b) = g.split_at_mut(dim * classes);
        let axes = view(&self.axes.axes, dim);
        let mut along = product(view(w, dim), axes);
        for (k, share) in self.shares.iter().enumerate() {
            let curvature = share * (1.0 - share);
            for (j, spread) in self.axes.spread.iter().enumerate() {
                along[(k, j)] /= curvature * spread.max(0.0) + self.penalty;
            }
            b[k] /= curvature;
        }
        let back = product(along.as_ref(), axes.transpose());
        w.copy_from_slice(&row_major(back.as_ref()));
        self.to_zero_sum(g);
    }
}
