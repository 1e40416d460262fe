//! Half an iteration with a graph Laplacian: all rows of a table at once.
//!
//! The objective of a table gains lambda_g sum_{j<k} w_jk |x_j - x_k|^2 = lambda_g tr(X'L X), L = W - w, so its
//! rows are coupled: A_j x_j + lambda_g (W_j x_j - sum_k w_jk x_k) = b_j, W_j = sum_k w_jk (GRALS: Rao, Yu,
//! Ravikumar & Dhillon 2015; the GLR baseline of paper 001).
//!
//! Solved by conjugate gradients on the whole table from its current values, preconditioned by the diagonal. Unlike
//! sweeps over rows with fixed neighbors, every step lowers the objective, all rows of a step are independent, and
//! groups of thousands, whose means such sweeps move by a fraction lambda / (lambda_g W_j) per iteration, are no
//! obstacle. `--solver cg` takes `cg-steps` steps per iteration, `--solver cholesky` continues until the residual has
//! fallen by 1e-6.
//!
//! In a graph of shared groups w_jk is the number of groups that j and k share: sum_k w_jk x_k is the sum over j's
//! groups of (their sum - x_j), and edges are never stored.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;
use veridical_core::Progress;
use veridical_data::{Graph, Lists};

use super::rows::{Problem, Scratch, System};
use super::{RUN, Solver};
use crate::sgd::vector::padded;
use crate::{Embedding, Error, Result};

/// The maximum number of steps for an exact solution.
const MOST_STEPS: usize = 500;

/// lambda_g L of one table.
pub(super) struct Laplacian<'a> {
    weight: f32,
    graph: &'a Graph,
    /// W_j.
    degrees: Vec<f32>,
}

impl<'a> Laplacian<'a> {
    /// `None` for a weight of 0.
    pub(super) fn new(
        table: &str,
        n: usize,
        weight: f64,
        graph: Option<&'a Graph>,
    ) -> Result<Option<Self>> {
        if weight == 0.0 {
            return Ok(None);
        }
        let Some(graph) = graph else {
            return Err(Error::unfit(format!(
                "⟨graph-weight-{table}⟩ is {weight}, but that table has no graph"
            )));
        };
        let degrees: Vec<f32> = match graph {
            Graph::Edges { neighbors, weights } => {
                let degree = |j| match weights {
                    None => neighbors.range(j).len() as f32,
                    Some(weights) => weights[neighbors.range(j)].iter().sum(),
                };
                (0..neighbors.len()).map(degree).collect()
            }
            Graph::Groups { of, members } => {
                let others = |g: &u32| members.get(*g as usize).len() as f32 - 1.0;
                of.iter().map(|groups| groups.iter().map(others).sum()).collect()
            }
        };
        if degrees.len() != n {
            let nodes = degrees.len();
            let what = format!("the graph of table `{table}` has {nodes} nodes for {n} rows");
            return Err(Error::unfit(what));
        }
        if degrees.iter().any(|d| !d.is_finite()) {
            return Err(Error::unfit("edge weights must be positive numbers"));
        }
        Ok(Some(Self { weight: weight as f32, graph, degrees }))
    }

    /// out_j += sign lambda_g (W_j x_j - sum_k w_jk x_k), rows of `stride` values.
    fn add(&self, x: &[f32], stride: usize, sign: f32, out: &mut [f32]) {
        let row = |j: u32| &x[j as usize * stride..][..stride];
        let sums = match self.graph {
            Graph::Groups { members, .. } => group_sums(members, x, stride),
            Graph::Edges { .. } => Vec::new(),
        };
        out.par_chunks_exact_mut(stride).enumerate().for_each_init(
            || vec![0.0; stride],
            |near, (j, out)| {
                near.fill(0.0);
                let mut add = |w: f32, row: &[f32]| {
                    near.iter_mut().zip(row).for_each(|(n, x)| *n += w * x);
                };
                let mut own = self.degrees[j];
                match self.graph {
                    Graph::Edges { neighbors, weights } => {
                        for at in neighbors.range(j) {
                            let w = weights.as_ref().map_or(1.0, |weights| weights[at]);
                            add(w, row(neighbors.values()[at]));
                        }
                    }
                    Graph::Groups { of, .. } => {
                        for &g in of.get(j) {
                            add(1.0, &sums[g as usize * stride..][..stride]);
                            own += 1.0; // the sum includes x_j
                        }
                    }
                }
                let scale = sign * self.weight;
                for ((o, x), n) in out.iter_mut().zip(row(j as u32)).zip(near.iter()) {
                    *o += scale * (own * x - n);
                }
            },
        );
    }
}

fn group_sums(members: &Lists, x: &[f32], stride: usize) -> Vec<f32> {
    let mut sums = vec![0.0; members.len() * stride];
    sums.par_chunks_exact_mut(stride).enumerate().for_each(|(g, sum)| {
        let mut exact = vec![0.0f64; stride];
        for &j in members.get(g) {
            let row = &x[j as usize * stride..][..stride];
            exact.iter_mut().zip(row).for_each(|(s, &x)| *s += f64::from(x));
        }
        sum.iter_mut().zip(exact).for_each(|(s, e)| *s = e as f32);
    });
    sums
}

/// Solves for all rows of `table`; returns the sum of the losses before.
pub(super) fn solve(
    problem: &Problem<'_>,
    laplacian: &Laplacian<'_>,
    table: &mut Embedding,
    progress: &Progress,
) -> Result<f64> {
    let (n, dim) = (table.n_rows(), table.dim());
    let stride = padded(dim);
    let zeros = || vec![0.0f32; n * stride];
    let (mut x, mut r, mut diagonal) = (zeros(), zeros(), zeros());
    for (x, row) in x.chunks_exact_mut(stride).zip(table.values().chunks_exact(dim)) {
        x[..dim].copy_from_slice(row);
    }
    let loss = each_row(problem, Kind::Residual, &x, &mut r, &mut diagonal, progress)?;
    laplacian.add(&x, stride, -1.0, &mut r);
    diagonal.par_chunks_exact_mut(stride).zip(&laplacian.degrees).for_each(|(d, w)| {
        d[..dim].iter_mut().for_each(|d| *d += laplacian.weight * w);
        d.iter_mut().for_each(|d| *d = if *d > 0.0 { 1.0 / *d } else { 0.0 });
    });
    let mut p: Vec<f32> = r.iter().zip(&diagonal).map(|(r, d)| r * d).collect();
    let mut rz = inner(&r, &p, stride);
    let first = rz;
    let mut ap = zeros();
    let exact = problem.solver == Solver::Cholesky;
    for _ in 0..if exact { MOST_STEPS } else { problem.steps } {
        if rz <= if exact { 1e-12 * first } else { 0.0 } {
            break;
        }
        each_row(problem, Kind::Product, &p, &mut ap, &mut [], progress)?;
        laplacian.add(&p, stride, 1.0, &mut ap);
        let curvature = inner(&p, &ap, stride);
        if curvature <= 0.0 {
            break;
        }
        let step = (rz / curvature) as f32;
        let rows = x.par_iter_mut().zip(&mut r).zip(&p).zip(&ap);
        rows.with_min_len(4096).for_each(|(((x, r), p), ap)| {
            *x += step * p;
            *r -= step * ap;
        });
        ap.par_iter_mut()
            .zip(&r)
            .zip(&diagonal)
            .with_min_len(4096)
            .for_each(|((z, r), d)| *z = r * d);
        let next = inner(&r, &ap, stride);
        let keep = (next / rz) as f32;
        p.par_iter_mut().zip(&ap).with_min_len(4096).for_each(|(p, z)| *p = z + keep * *p);
        rz = next;
    }
    for (row, x) in table.values_mut().chunks_exact_mut(dim).zip(x.chunks_exact(stride)) {
        row.copy_from_slice(&x[..dim]);
    }
    Ok(loss)
}

/// <a, b> over all rows, in the order of the rows.
fn inner(a: &[f32], b: &[f32], stride: usize) -> f64 {
    let row = |(a, b): (&[f32], &[f32])| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let rows: Vec<f64> = a.par_chunks(stride).zip(b.par_chunks(stride)).map(row).collect();
    rows.iter().sum()
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// b - A v, and the diagonal of A.
    Residual,
    /// A v.
    Product,
}

/// The part of every row without the graph; returns the losses at v if residuals are requested.
fn each_row(
    problem: &Problem<'_>,
    kind: Kind,
    v: &[f32],
    out: &mut [f32],
    diagonal: &mut [f32],
    progress: &Progress,
) -> Result<f64> {
    let stride = padded(problem.fixed.dim());
    let arch = Arch::new();
    let size = RUN * stride;
    let run =
        |scratch: &mut Scratch, (run, (v, out)): (usize, (&[f32], &mut [f32]))| -> Result<f64> {
            progress.check()?;
            Ok(arch.dispatch(RowRange { problem, kind, first: run * RUN, v, out, scratch }))
        };
    let runs = v.par_chunks(size).zip(out.par_chunks_mut(size)).enumerate();
    let losses: Vec<Result<f64>> = runs.map_init(Scratch::default, run).collect();
    if kind == Kind::Residual {
        let dim = problem.fixed.dim();
        let rows = diagonal.par_chunks_exact_mut(stride).enumerate();
        rows.for_each(|(r, out)| problem.diagonal(r, &mut out[..dim]));
    }
    losses.into_iter().sum()
}

struct RowRange<'a, 'b> {
    problem: &'a Problem<'a>,
    kind: Kind,
    first: usize,
    v: &'b [f32],
    out: &'b mut [f32],
    scratch: &'b mut Scratch,
}

impl WithSimd for RowRange<'_, '_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let Self { problem, kind, first, v, out, scratch } = self;
        let stride = padded(problem.fixed.dim());
        let mut loss = 0.0;
        let rows = v.chunks_exact(stride).zip(out.chunks_exact_mut(stride));
        for (r, (v, out)) in (first..).zip(rows) {
            let mut system = System::new(simd, problem, scratch, r);
            match kind {
                Kind::Residual => loss += system.residual(v, out),
                Kind::Product => system.product(v, out),
            }
        }
        loss
    }
}
