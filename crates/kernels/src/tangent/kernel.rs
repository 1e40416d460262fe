//! Kernels whose gradients do not fit in memory: band by band, cotangent by cotangent, panel by panel.
//!
//! A band is a panel of rows. The sums of its pairs stay in memory, in f64: the factors of other layers are added first; then for each
//! cotangent, in order, the gradients of the band and of one panel of columns at a time. Every sum has the order of [`Factors::gram`], so the
//! bytes are the same. The kernel of every sample with itself is added up in the order of the samples on the way, and by passes of its
//! own where tiles that are not needed are left out.

use std::ops::Range;

use veridical_core::Job;
use veridical_nets::{Float, Net};

use super::factors::{Factors, Which};
use super::plan::Plan;
use super::scale::Scale;
use super::{Examples, Kind, Path, Settings, Share};
use crate::Result;
use crate::gram::{Gram, Kept, Pairs, Sums, TILE, Tiles, parts, rows_into};

/// The kernel of some samples.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The matrix.
    pub gram: Gram,
    /// What else is known of it.
    pub summary: Summary,
}

/// What is known of a kernel besides its values.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Kernels of the samples with themselves before normalization, of rows and of columns; the second is empty if they are the same.
    pub diagonals: [Vec<f64>; 2],
    /// Share of each layer in the sum of the diagonal of the rows.
    pub shares: Vec<Share>,
    /// Samples, rows first and then columns, whose gradient is 0: their kernel is 0.
    pub zeros: Vec<usize>,
    /// How it was computed.
    pub plan: Plan,
}

impl Summary {
    pub(super) fn new(diagonals: [Vec<f64>; 2], shares: Vec<Share>, plan: Plan) -> Self {
        let all = diagonals.iter().flatten().enumerate();
        let zeros = all.filter(|(_, d)| **d == 0.0).map(|(i, _)| i).collect();
        Self { diagonals, shares, zeros, plan }
    }
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
    let copies = if settings.kind == Kind::Entk { net.outputs() } else { 1 };
    let size = (rows.len() * copies, columns.unwrap_or(rows).len() * copies);
    let mut kept = Kept::new(size, columns.is_none());
    let summary = kernel_into(net, rows, columns, settings, &mut kept, job)?;
    Ok(Kernel { gram: kept.finish(), summary })
}

/// Computes the tiles of a kernel that are needed, in order; the eNTK has a row and a column for every output of every sample.
///
/// # Errors
/// Those of [`kernel`] and of the tiles.
pub fn kernel_into<T: Float, S: Tiles>(
    net: &Net<T>,
    rows: &Examples<'_, T>,
    columns: Option<&Examples<'_, T>>,
    settings: &Settings,
    tiles: &mut S,
    job: &Job<'_>,
) -> Result<Summary, S::Error> {
    let plan = Plan::new(net, rows, columns, settings)?;
    if plan.fits() || settings.kind == Kind::Entk {
        let own = Factors::take(net, rows, &plan, job)?;
        let other = columns.map(|columns| Factors::take(net, columns, &plan, job)).transpose()?;
        own.gram_into(other.as_ref(), tiles, job)?;
        return Ok(own.summary(other.as_ref(), plan));
    }
    let mut bands = Bands::new(net, rows, columns, &plan, job)?;
    let progress = job.progress("kernel", "rows", Some(rows.len() as u64));
    for band in parts(0..rows.len(), plan.panel()) {
        let first = if columns.is_none() { band.start } else { 0 };
        let is_needed = |panel: &Range<usize>| {
            let places = parts(band.clone(), TILE)
                .flat_map(|i| parts(panel.clone(), TILE).map(move |j| (i.start, j.start)));
            places.into_iter().any(|(i, j)| (columns.is_some() || j >= i) && !tiles.has(i, j))
        };
        let others = columns.unwrap_or(rows).len();
        let panels: Vec<Range<usize>> =
            parts(first..others, plan.panel()).filter(is_needed).collect();
        if panels.is_empty() {
            progress.advance(band.len() as u64);
            continue;
        }
        let sums = bands.sums(&band, &panels, job)?;
        rows_into(&sums, band, tiles, &progress)?;
    }
    Ok(bands.finish(job)?)
}

/// The sums of a band, with the scales of both sides.
struct Band {
    sums: Sums,
    size: (usize, usize),
    is_symmetric: bool,
    scales: [Scale; 2],
}

impl Pairs for Band {
    fn size(&self) -> (usize, usize) {
        self.size
    }

    fn is_symmetric(&self) -> bool {
        self.is_symmetric
    }

    fn tile(&self, rows: Range<usize>, columns: Range<usize>, values: &mut [f64]) {
        self.sums.tile(&rows, &columns, values);
        Scale::apply(&self.scales, self.is_symmetric, rows, columns, values);
    }
}

/// The kernel of every sample of one side with itself.
struct Diagonal {
    /// Samples x cotangents.
    values: Vec<f64>,
    /// For each cotangent the number of samples whose gradients were added.
    done: Vec<usize>,
    /// For each layer with gradients its sum by cotangent.
    totals: Vec<Vec<f64>>,
}

impl Diagonal {
    /// Adds the gradients of some samples, if they are the next.
    fn add<T>(&mut self, factors: &Factors<T>, samples: &Range<usize>, cotangent: usize) {
        let m = self.done.len();
        if self.done[cotangent] != samples.start {
            return;
        }
        self.done[cotangent] = samples.end;
        for (layer, totals) in factors.layers.iter().zip(&mut self.totals) {
            for (i, d) in samples.clone().zip(&layer.diagonal) {
                self.values[i * m + cotangent] += d;
                totals[cotangent] += d;
            }
        }
    }
}

/// A kernel that is added up band by band.
struct Bands<'a, T> {
    net: &'a Net<T>,
    rows: &'a Examples<'a, T>,
    columns: Option<&'a Examples<'a, T>>,
    plan: &'a Plan,
    /// Factors of all layers but gradients.
    fixed: [Option<Factors<T>>; 2],
    diagonals: [Diagonal; 2],
}

impl<'a, T: Float> Bands<'a, T> {
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
        let fixed = [Some(take(rows)?), columns.map(take).transpose()?];
        let m = plan.cotangents;
        let gradients = plan.layers.iter().filter(|layer| layer.path == Path::Gradient).count();
        let diagonals = fixed.each_ref().map(|fixed| Diagonal {
            values: fixed.as_ref().map_or_else(Vec::new, Factors::diagonals),
            done: vec![0; m],
            totals: vec![vec![0.0; m]; gradients],
        });
        Ok(Self { net, rows, columns, plan, fixed, diagonals })
    }

    fn others(&self) -> &'a Examples<'a, T> {
        self.columns.unwrap_or(self.rows)
    }

    /// The side that columns belong to.
    fn side(&self) -> usize {
        usize::from(self.columns.is_some())
    }

    fn gradients(
        &self,
        examples: &Examples<'_, T>,
        samples: &Range<usize>,
        cotangent: usize,
        job: &Job<'_>,
    ) -> Result<Factors<T>> {
        let which = Which::Gradients(cotangent);
        Factors::part(self.net, examples, self.plan, samples.clone(), which, job)
    }

    /// Adds up a band and some panels of columns, in rising order.
    fn sums(
        &mut self,
        band: &Range<usize>,
        panels: &[Range<usize>],
        job: &Job<'_>,
    ) -> Result<Band> {
        let (is_symmetric, others) = (self.columns.is_none(), self.others());
        // INVARIANT: there is at least one panel.
        let all = panels[0].start..panels[panels.len() - 1].end;
        let mut sums = Sums::new(band.clone(), all.clone(), is_symmetric);
        if let [Some(own), other] = &self.fixed {
            let other = other.as_ref().unwrap_or(own);
            sums.add(band, &all, |rows, columns, sums| {
                own.add_fixed(other, &rows, &columns, sums);
            });
        }
        for cotangent in 0..self.plan.cotangents {
            let own = self.gradients(self.rows, band, cotangent, job)?;
            self.diagonals[0].add(&own, band, cotangent);
            for panel in panels {
                let is_same = is_symmetric && panel == band;
                let other = match is_same {
                    true => None,
                    false => Some(self.gradients(others, panel, cotangent, job)?),
                };
                if let Some(other) = &other {
                    let side = self.side();
                    self.diagonals[side].add(other, panel, cotangent);
                }
                let other = other.as_ref().unwrap_or(&own);
                sums.add(band, panel, |i, j, sums| {
                    let i = i.start - band.start..i.end - band.start;
                    let j = j.start - panel.start..j.end - panel.start;
                    own.add_gradients(other, &i, &j, 0, sums);
                });
            }
        }
        self.complete(0, if is_symmetric { self.rows.len() } else { band.end }, job)?;
        self.complete(self.side(), others.len(), job)?;
        let (m, normalization) = (self.plan.cotangents, self.plan.settings.normalization);
        let scale = |side: usize| Scale::new(normalization, &self.diagonals[side].values, m);
        let scales = [scale(0), scale(self.side())];
        Ok(Band { sums, size: (self.rows.len(), others.len()), is_symmetric, scales })
    }

    /// Adds the gradients of the samples of a side up to `end` to its diagonal that were not added yet.
    fn complete(&mut self, side: usize, end: usize, job: &Job<'_>) -> Result<()> {
        let examples = if side == 0 { self.rows } else { self.others() };
        for cotangent in 0..self.plan.cotangents {
            let first = self.diagonals[side].done[cotangent];
            for panel in parts(first..end.max(first), self.plan.panel()) {
                let own = self.gradients(examples, &panel, cotangent, job)?;
                self.diagonals[side].add(&own, &panel, cotangent);
            }
        }
        Ok(())
    }

    fn finish(mut self, job: &Job<'_>) -> Result<Summary> {
        self.complete(0, self.rows.len(), job)?;
        if let Some(columns) = self.columns {
            self.complete(1, columns.len(), job)?;
        }
        let m = self.plan.cotangents;
        let mut layers: Vec<(String, Path, f64)> = Vec::new();
        for layer in self.fixed[0].iter().flat_map(|fixed| &fixed.layers) {
            layers.push((layer.name.clone(), layer.path, layer.total(m)));
        }
        let gradients = self.plan.layers.iter().filter(|layer| layer.path == Path::Gradient);
        for (layer, totals) in gradients.zip(&self.diagonals[0].totals) {
            layers.push((layer.name(), layer.path, totals.iter().sum()));
        }
        let whole = |of: &Diagonal| of.values.chunks_exact(m).map(|d| d.iter().sum()).collect();
        let diagonals = self.diagonals.each_ref().map(whole);
        Ok(Summary::new(diagonals, Share::of(layers), self.plan.clone()))
    }
}
