//! Comparison of the geometry of two or more embeddings of the same ids.

use serde::Serialize;
use veridical_core::{Error, Estimate, Result, Seed};
use veridical_learn::{LinearMap, Scored};

use crate::stability::coordinates::{Coordinates, coordinates};
use crate::stability::kernel::{KernelAt, kernel_cka};
use crate::stability::linear::{Linear, linear};
use crate::stability::neighbors::{Decile, by_decile, draw_probes, nearest, overlaps};
use crate::stability::pairs::{PairSpread, spreads};
use crate::stability::run_pairs::{PairValue, all_pairs, over_pairs};
use crate::stability::{SharedRows, SharedTables};

/// The fewest ids for which HSIC_1 is defined.
const LEAST: usize = 4;

/// The settings of a comparison of runs.
#[derive(Clone, Debug)]
pub struct CompareSettings {
    /// The number of nearest neighbors of a probe.
    pub k: usize,
    /// The number of ids whose neighbors are compared.
    pub probes: usize,
    /// The number of pairs of ids whose inner products are compared.
    pub pairs: usize,
    /// The number of ids of the kernel matrices.
    pub kernel_ids: usize,
    /// The random seed of all samples.
    pub seed: Seed,
    /// The kernel with its length scale.
    pub kernel: KernelAt,
}

/// A statistic of pairs of runs, with its mean over pairs.
#[derive(Clone, Debug, Serialize)]
pub struct PairMeasure {
    /// The mean over pairs; `None` if it is undefined for one.
    #[serde(flatten)]
    pub estimate: Option<Estimate>,
    /// The value of every pair.
    pub pairs: Vec<PairValue>,
}

impl PairMeasure {
    fn new(pairs: Vec<PairValue>) -> Self {
        Self { estimate: over_pairs(&pairs), pairs }
    }

    /// Returns the mean over pairs; NaN if it is undefined.
    pub fn value(&self) -> f64 {
        self.estimate.map_or(f64::NAN, |e| e.value)
    }
}

/// Principal angles between the column spaces of two runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Angles {
    /// The mean of the cosines, over pairs of runs.
    pub mean_cosine: f64,
    /// The largest angle in degrees, mean over pairs of runs.
    pub largest_degrees: f64,
}

/// The comparison of the geometry of runs.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The number of shared ids.
    pub ids: usize,
    /// The embedding dimension of each table.
    pub dims: Vec<usize>,
    /// The number of nearest neighbors per probe.
    pub k: usize,
    /// The number of probes.
    pub probes: usize,
    /// The change of coordinates; `None` for unequal dimensions.
    pub coordinates: Option<Coordinates>,
    /// The spread of inner products over sampled pairs of ids.
    pub gram: PairSpread,
    /// The spread of kernel values over the same pairs.
    pub kernel: PairSpread,
    /// The ratio noise / spread of inner products.
    pub gram_noise: PairMeasure,
    /// The ratio noise / spread of kernel values.
    pub kernel_noise: PairMeasure,
    /// The nearest-neighbor overlap at k.
    pub nn_overlap: PairMeasure,
    /// The expected overlap of two independent tables.
    pub chance_overlap: f64,
    /// The overlap by decile of weight; empty without weights.
    pub deciles: Vec<Decile>,
    /// The debiased linear CKA.
    pub cka: PairMeasure,
    /// The debiased kernel CKA.
    pub kernel_cka: PairMeasure,
    /// The number of ids of the kernel matrices.
    pub kernel_ids: usize,
    /// The residual of orthogonal Procrustes; undefined for unequal dimensions.
    pub procrustes_residual: PairMeasure,
    /// The principal angles between runs.
    pub angles: Angles,
    /// The largest distance between the spectra of two runs.
    pub spectra: f64,
    /// The probes by row, their neighbors in every run, and their overlap, mean over pairs.
    #[serde(skip)]
    pub probed: Probed,
    /// The rotation that takes each run to the first; empty for unequal dimensions.
    #[serde(skip)]
    pub maps: Vec<LinearMap>,
}

/// The probes with their nearest neighbors.
#[derive(Clone, Debug, Default)]
pub struct Probed {
    /// The row numbers of the probes among the shared ids.
    pub rows: Vec<u32>,
    /// The neighbors of every probe, for every run.
    pub neighbors: Vec<Vec<Vec<Scored>>>,
    /// The overlap of every probe, mean over pairs of runs.
    pub overlap: Vec<f64>,
}

/// Compares at least two runs of at least four shared ids; `step` is called with the name of each step.
///
/// # Errors
/// [`Error::Request`] for fewer than two runs, [`Error::Unfit`] for fewer than four shared ids, [`Error::Shape`] for rows or
/// weights that do not match the shared ids, [`Error::Setting`] for sample sizes of 0.
pub fn geometry(
    runs: &SharedTables,
    weights: Option<&[f64]>,
    settings: &CompareSettings,
    step: &dyn Fn(&str),
) -> Result<Comparison> {
    check(runs, weights, settings)?;
    let two = all_pairs(runs.runs.len());
    step("neighbors");
    let k = settings.k.min(runs.n() - 1);
    let probes = draw_probes(runs, weights, settings.probes, settings.seed);
    let neighbors: Vec<_> = runs.runs.iter().map(|run| nearest(run, &probes, k)).collect();
    let mut overlap = vec![0.0; probes.len()];
    let pair_overlap = two.iter().map(|&[a, b]| {
        let values = overlaps(&neighbors[a], &neighbors[b]);
        overlap.iter_mut().zip(&values).for_each(|(sum, x)| *sum += x / two.len() as f64);
        // Every id is a probe: no sampling error.
        let estimate = Estimate::mean(values).map(|e| {
            let all = probes.len() == runs.n();
            if all { Estimate::exact(e.value, e.n) } else { e.within(0.0, 1.0) }
        });
        PairValue::new([a, b], estimate)
    });
    let nn_overlap = PairMeasure::new(pair_overlap.collect());
    step("moments");
    let tables: Vec<Linear> =
        two.iter().map(|&[a, b]| linear(&runs.runs[a], &runs.runs[b])).collect();
    let measure = |of: &dyn Fn(&Linear) -> Option<Estimate>| {
        let value = |(&runs, linear): (&[usize; 2], &Linear)| PairValue::new(runs, of(linear));
        PairMeasure::new(two.iter().zip(&tables).map(value).collect())
    };
    let mean = |of: &dyn Fn(&Linear) -> f64| tables.iter().map(of).sum::<f64>() / two.len() as f64;
    let degrees = |linear: &Linear| {
        linear.cosines.last().map_or(f64::NAN, |c| c.clamp(-1.0, 1.0).acos().to_degrees())
    };
    let mean_cosine = |l: &Linear| l.cosines.iter().sum::<f64>() / l.cosines.len().max(1) as f64;
    let maps: Vec<LinearMap> = if runs.same_width() {
        let identity = LinearMap::identity(runs.runs[0].dim);
        // The pairs with the first run come first.
        let to_first = tables.iter().take(runs.runs.len() - 1).filter_map(|l| l.map.clone());
        std::iter::once(identity).chain(to_first).collect()
    } else {
        Vec::new()
    };
    step("coordinates");
    let coordinates = (!maps.is_empty()).then(|| coordinates(runs, &maps, settings.seed));
    step("pairs of ids");
    let [gram, kernel] = spreads(runs, &settings.kernel, settings.pairs, settings.seed);
    step("kernel matrices");
    let sample = runs.sample(settings.kernel_ids, settings.seed, "kernel");
    let kernel_cka = PairMeasure::new(kernel_cka(runs, &sample, &settings.kernel));
    Ok(Comparison {
        ids: runs.n(),
        dims: runs.runs.iter().map(|run| run.dim).collect(),
        k,
        probes: probes.len(),
        coordinates,
        gram_noise: PairMeasure::new(gram.ratios.clone()),
        kernel_noise: PairMeasure::new(kernel.ratios.clone()),
        gram,
        kernel,
        deciles: weights
            .map_or_else(Vec::new, |w| by_decile(w, &probes, &overlap, runs.runs.len())),
        nn_overlap,
        chance_overlap: k as f64 / (runs.n() - 1) as f64,
        cka: measure(&|l| l.cka),
        kernel_cka,
        kernel_ids: sample.len(),
        procrustes_residual: measure(&|l| l.residual),
        angles: Angles { mean_cosine: mean(&mean_cosine), largest_degrees: mean(&degrees) },
        spectra: tables.iter().map(|l| l.spectra).fold(0.0, f64::max),
        probed: Probed { rows: probes, neighbors, overlap },
        maps,
    })
}

/// Checks that the runs have a geometry to compare.
fn check(runs: &SharedTables, weights: Option<&[f64]>, settings: &CompareSettings) -> Result<()> {
    let n = runs.n();
    if runs.runs.len() < 2 {
        let what = format!("a comparison needs at least two runs, got {}", runs.runs.len());
        return Err(Error::request(what, ""));
    }
    if n < LEAST {
        return Err(Error::unfit(format!("{n} shared ids, but HSIC needs at least {LEAST}"), ""));
    }
    for SharedRows { name, dim, rows } in &runs.runs {
        if *dim == 0 || rows.len() != n * dim {
            let what = format!("{name} has {} values for {n} ids of dimension {dim}", rows.len());
            return Err(Error::shape(what, ""));
        }
    }
    if let Some(weights) = weights.filter(|weights| weights.len() != n) {
        return Err(Error::shape(format!("{} weights for {n} ids", weights.len()), ""));
    }
    let CompareSettings { k, probes, pairs, kernel_ids, .. } = settings;
    for (name, size) in [("k", k), ("probes", probes), ("pairs", pairs), ("kernel-ids", kernel_ids)]
    {
        if *size == 0 {
            return Err(Error::setting(name, "at least 1", 0));
        }
    }
    Ok(())
}
