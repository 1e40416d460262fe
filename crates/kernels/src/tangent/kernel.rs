//! Kernels whose gradients do not fit in memory: cotangent by cotangent, panel by panel.
//!
//! The sums of all pairs stay in memory, in f64. The factors of other layers are added first; then for each cotangent, in order, the
//! gradients of two panels of samples at a time. Every sum has the order of [`Factors::gram`], so the bytes are the same.

use std::ops::Range;

use veridical_core::Job;
use veridical_nets::{Float, Net};

use super::factors::{Factors, Which};
use super::plan::Plan;
use super::scale::Scale;
use super::{Examples, Kind, Path, Settings, Share};
use crate::Result;
use crate::gram::{Gram, Pairs, Sums, gram};

/// The kernel of some samples.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The matrix.
    pub gram: Gram,
    /// Kernels of the samples with themselves before normalization, of rows and of columns; the second is empty if they are the same.
    pub diagonals: [Vec<f64>; 2],
    /// Share of each layer in the sum of the diagonal of the rows.
    pub shares: Vec<Share>,
    /// Samples, rows first and then columns, whose gradient is 0: their kernel is 0.
    pub zeros: Vec<usize>,
    /// How it was computed.
    pub plan: Plan,
}

/// Computes the kernel of rows and columns, or of all pairs of rows, in the memory that the settings allow.
///
/// # Errors
/// A request error if the settings do not suit the network or the examples, unsuitable data if an activation or a gradient is not
/// finite, or an interruption by the user.
pub fn kernel<T: Float>(
    net: &Net<T>,
    rows: &Examples<'_, T>,
    columns: Option<&Examples<'_, T>>,
    settings: &Settings,
    job: &Job<'_>,
) -> Result<Kernel> {
    let plan = Plan::new(net, rows, columns, settings)?;
    if plan.fits() || settings.kind == Kind::Entk {
        return whole(net, rows, columns, plan, job);
    }
    let mut passes = Passes::new(net, rows, columns, &plan, job)?;
    for cotangent in 0..plan.cotangents {
        passes.add(cotangent, job)?;
    }
    let Passes { sums, diagonals, mut totals, fixed, m, .. } = passes;
    let scale = |d: &[f64]| Scale::new(settings.normalization, d, m);
    let scales = [scale(&diagonals[0]), scale(&diagonals[usize::from(columns.is_some())])];
    let gram = gram(&Scaled { sums: &sums, scales }, job)?;
    let total: f64 = totals.iter().sum();
    totals.iter_mut().for_each(|t| *t = if total > 0.0 { *t / total } else { 0.0 });
    let shares = fixed.into_iter().zip(totals);
    let shares = shares.map(|((layer, path), share)| Share { layer, path, share }).collect();
    let whole = |d: &Vec<f64>| d.chunks_exact(m).map(|d| d.iter().sum()).collect();
    let diagonals = [whole(&diagonals[0]), whole(&diagonals[1])];
    Ok(Kernel { gram, zeros: zeros(&diagonals), diagonals, shares, plan })
}

/// All factors at once.
fn whole<T: Float>(
    net: &Net<T>,
    rows: &Examples<'_, T>,
    columns: Option<&Examples<'_, T>>,
    plan: Plan,
    job: &Job<'_>,
) -> Result<Kernel> {
    let own = Factors::take(net, rows, &plan, job)?;
    let other = columns.map(|columns| Factors::take(net, columns, &plan, job)).transpose()?;
    let gram = own.gram(other.as_ref(), job)?;
    let diagonals = [own.diagonal(), other.map_or_else(Vec::new, |other| other.diagonal())];
    Ok(Kernel { gram, zeros: zeros(&diagonals), diagonals, shares: own.shares(), plan })
}

/// The samples without a gradient.
fn zeros([rows, columns]: &[Vec<f64>; 2]) -> Vec<usize> {
    let all = rows.iter().chain(columns).enumerate();
    all.filter(|(_, d)| **d == 0.0).map(|(i, _)| i).collect()
}

/// Sums with the scales of both sides.
struct Scaled<'a> {
    sums: &'a Sums,
    scales: [Scale; 2],
}

impl Pairs for Scaled<'_> {
    fn size(&self) -> (usize, usize) {
        self.sums.size()
    }

    fn is_symmetric(&self) -> bool {
        self.sums.is_symmetric()
    }

    fn tile(&self, rows: Range<usize>, columns: Range<usize>, values: &mut [f64]) {
        self.sums.tile(rows.clone(), columns.clone(), values);
        Scale::apply(&self.scales, self.is_symmetric(), rows, columns, values);
    }
}

/// A kernel that is added up in several passes.
struct Passes<'a, T> {
    net: &'a Net<T>,
    rows: &'a Examples<'a, T>,
    columns: Option<&'a Examples<'a, T>>,
    plan: &'a Plan,
    m: usize,
    sums: Sums,
    /// Of rows and columns, samples x cotangents.
    diagonals: [Vec<f64>; 2],
    /// The layers in the order of their sums.
    fixed: Vec<(String, Path)>,
    /// Parts of the diagonal of the rows.
    totals: Vec<f64>,
}

impl<'a, T: Float> Passes<'a, T> {
    /// Adds all layers but gradients.
    fn new(
        net: &'a Net<T>,
        rows: &'a Examples<'a, T>,
        columns: Option<&'a Examples<'a, T>>,
        plan: &'a Plan,
        job: &Job<'_>,
    ) -> Result<Self> {
        let take = |examples: &Examples<'_, T>| {
            Factors::part(net, examples, plan, 0..examples.len(), Which::Fixed, job)
        };
        let own = take(rows)?;
        let other = columns.map(take).transpose()?;
        let others = other.as_ref().unwrap_or(&own);
        let size = (own.n, others.n);
        let mut sums = Sums::new(size, columns.is_none());
        sums.add(&(0..size.0), &(0..size.1), |rows, columns, sums| {
            own.add_fixed(others, &rows, &columns, sums);
        });
        let m = plan.cotangents;
        let diagonals = [own.diagonals(), other.as_ref().map_or_else(Vec::new, Factors::diagonals)];
        let mut totals: Vec<f64> = own.layers.iter().map(|l| l.diagonal.iter().sum()).collect();
        let mut fixed: Vec<_> = own.layers.iter().map(|l| (l.name.clone(), l.path)).collect();
        let gradients = plan.layers.iter().filter(|layer| layer.path == Path::Gradient);
        fixed.extend(gradients.map(|layer| (layer.name(), layer.path)));
        totals.resize(fixed.len(), 0.0);
        Ok(Self { net, rows, columns, plan, m, sums, diagonals, fixed, totals })
    }

    /// Adds the gradients of one cotangent.
    fn add(&mut self, cotangent: usize, job: &Job<'_>) -> Result<()> {
        let panel = self.plan.panel();
        let panels = |n: usize| (0..n).step_by(panel).map(move |i| i..(i + panel).min(n));
        let take = |examples: &Examples<'_, T>, part: &Range<usize>| {
            let which = Which::Gradients(cotangent);
            Factors::part(self.net, examples, self.plan, part.clone(), which, job)
        };
        let others = self.columns.unwrap_or(self.rows);
        for rows in panels(self.rows.len()) {
            let own = take(self.rows, &rows)?;
            self.note(&own, 0, &rows, cotangent);
            for columns in panels(others.len()) {
                if self.columns.is_none() && columns.start < rows.start {
                    continue;
                }
                let is_same = self.columns.is_none() && columns == rows;
                let other = if is_same { None } else { Some(take(others, &columns)?) };
                if let (Some(other), true, 0) = (&other, self.columns.is_some(), rows.start) {
                    self.note(other, 1, &columns, cotangent);
                }
                let other = other.as_ref().unwrap_or(&own);
                self.sums.add(&rows, &columns, |i, j, sums| {
                    let i = i.start - rows.start..i.end - rows.start;
                    let j = j.start - columns.start..j.end - columns.start;
                    own.add_gradients(other, &i, &j, 0, sums);
                });
            }
        }
        Ok(())
    }

    /// Adds the diagonal of one side.
    fn note(
        &mut self,
        factors: &Factors<T>,
        side: usize,
        samples: &Range<usize>,
        cotangent: usize,
    ) {
        let first = self.fixed.len() - factors.layers.len();
        for (k, layer) in factors.layers.iter().enumerate() {
            if side == 0 {
                self.totals[first + k] += layer.diagonal.iter().sum::<f64>();
            }
            for (i, d) in samples.clone().zip(&layer.diagonal) {
                self.diagonals[side][i * self.m + cotangent] += d;
            }
        }
    }
}
