//! Comparison of the geometry of two or more embeddings of the same ids.

use std::collections::HashMap;

use serde::Serialize;
use veridical_core::{Error, Estimate, Result, Seed};
use veridical_data::{Passes, Window};
use veridical_learn::{LinearMap, NeighborSearch, Scored};

use crate::stability::coordinates::{Coordinates, SAMPLED, coordinates};
use crate::stability::drawn::{self, Draw, Drawn, Prepared};
use crate::stability::kernel::{KernelAt, kernel_cka};
use crate::stability::linear::{Linear, LinearSums};
use crate::stability::neighbors::{Decile, by_decile, draw_probes, overlaps};
use crate::stability::outliers::{Counted, Expected, Outliers, Rows};
use crate::stability::pairs::{PAIR_IDS, PairSpread, spreads};
use crate::stability::run_pairs::{PairValue, all_pairs, over_pairs};
use crate::stability::runs::sample;

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
    /// Whether rows are divided by their norms first.
    pub unit: bool,
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
    /// The share of ids that moved further than the bulk predicts; undefined for unequal dimensions.
    pub outlier_ids: PairMeasure,
    /// The share of ids whose norm changed unlike the others'.
    pub norm_outliers: PairMeasure,
    /// The ids of the first and the last run that moved alone; `None` for unequal dimensions.
    pub outliers: Option<Outliers>,
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
    /// The rows of all samples.
    #[serde(skip)]
    pub drawn: Drawn,
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
    /// The ids of the probes and of their neighbors, by row number.
    pub ids: HashMap<u32, String>,
}

/// Compares at least two runs of at least four shared ids in two passes over their rows; `step` is called with the name of each
/// step.
///
/// # Errors
/// [`Error::Request`] for fewer than two runs, [`Error::Unfit`] for fewer than four shared ids, [`Error::Shape`] for weights that
/// do not match the shared ids, [`Error::Setting`] for sample sizes of 0 or a k that is not below the number of ids, and those of
/// reading the rows.
pub fn geometry(
    source: &dyn Passes,
    weights: Option<&[f64]>,
    settings: &CompareSettings,
    kernel: &KernelAt,
    step: &dyn Fn(&str),
) -> Result<Comparison> {
    let survey = Survey::take(source, weights, settings, &[], &mut |_| (), step)?;
    survey.compare(source, weights, kernel, &mut |_| (), step)
}

/// What the first pass over the shared rows leaves: the linear comparison of every two runs, and the rows of all samples.
pub struct Survey<'a> {
    settings: &'a CompareSettings,
    linear: Vec<Linear>,
    probes: Vec<u32>,
    coordinates: Vec<u32>,
    pairs: Vec<u32>,
    kernel: Vec<u32>,
    /// The rows of all samples, and the others that were asked for.
    pub drawn: Drawn,
}

impl<'a> Survey<'a> {
    /// Passes over the rows, and keeps those of all samples and of `also`; `raw` sees every window as it is.
    ///
    /// # Errors
    /// Those of [`geometry`].
    pub fn take(
        source: &dyn Passes,
        weights: Option<&[f64]>,
        settings: &'a CompareSettings,
        also: &[&[u32]],
        raw: &mut dyn FnMut(Window<'_>),
        step: &dyn Fn(&str),
    ) -> Result<Self> {
        check(source, weights, settings)?;
        step("moments");
        let (n, dims, seed) = (source.n(), source.dims(), settings.seed);
        let probes = draw_probes(n, weights, settings.probes, seed);
        let coordinates = sample(n, SAMPLED, seed, "coordinates");
        let pairs = sample(n, PAIR_IDS, seed, "pairs");
        let kernel = sample(n, settings.kernel_ids, seed, "kernel");
        let own = [&probes, &coordinates, &pairs, &kernel].map(Vec::as_slice);
        let mut draw = Draw::new(source, own.into_iter().chain(also.iter().copied()));
        let two = all_pairs(dims.len());
        let mut sums: Vec<LinearSums> =
            two.iter().map(|&[a, b]| LinearSums::new(dims[a], dims[b])).collect();
        drawn::visit(source, settings.unit, &mut |window| {
            raw(window.raw);
            draw.add(window);
            for (sums, &[a, b]) in sums.iter_mut().zip(&two) {
                sums.add(window.first, window.tables[a], window.tables[b]);
            }
            Ok(())
        })?;
        let linear = sums.into_iter().map(LinearSums::finish).collect();
        Ok(Self { settings, linear, probes, coordinates, pairs, kernel, drawn: draw.finish() })
    }

    /// Passes over the rows again and completes the comparison; `also` sees every window.
    ///
    /// # Errors
    /// Those of reading the rows.
    pub fn compare(
        self,
        source: &dyn Passes,
        weights: Option<&[f64]>,
        kernel: &KernelAt,
        also: &mut dyn FnMut(&Prepared<'_>),
        step: &dyn Fn(&str),
    ) -> Result<Comparison> {
        let Self { settings, linear, probes, coordinates: moved, pairs, kernel: ids, drawn } = self;
        let (n, dims, k) = (source.n(), source.dims(), settings.k);
        let two = all_pairs(dims.len());
        let maps = maps_to_first(&linear, &dims);
        step("coordinates");
        let moved = drawn.places(&moved);
        let coordinates = (!maps.is_empty()).then(|| coordinates(&drawn.tables, &moved, &maps));
        step("pairs of ids");
        let pairs = drawn.places(&pairs);
        let [gram, kernel_values] =
            spreads(&drawn.tables, &pairs, kernel, settings.pairs, settings.seed);
        step("kernel matrices");
        let kernel_cka = kernel_cka(&drawn.tables, &drawn.places(&ids), kernel);
        step("neighbors");
        let mut counted: Vec<Option<Counted>> = two
            .iter()
            .zip(&linear)
            .map(|(&runs, linear)| {
                let expected = expected(&drawn, &moved, runs, linear.map.as_ref()?, settings.seed);
                Some(Counted::new(expected))
            })
            .collect();
        let at = drawn.places(&probes);
        let mut searches: Vec<NeighborSearch> = drawn
            .tables
            .runs
            .iter()
            .map(|run| NeighborSearch::new(&run.gather(&at), run.dim, k, |q| Some(probes[q])))
            .collect();
        let mut ids_of: HashMap<u32, String> = HashMap::new();
        drawn::visit(source, settings.unit, &mut |window| {
            for (search, rows) in searches.iter_mut().zip(window.tables) {
                search.add(window.first as u32, rows);
            }
            remember(&mut ids_of, &searches, &probes, window);
            for (counted, &[a, b]) in counted.iter_mut().zip(&two) {
                if let Some(counted) = counted {
                    counted.add(window, [a, b], dims[a]);
                }
            }
            also(window);
            Ok(())
        })?;
        let neighbors: Vec<Vec<Vec<Scored>>> =
            searches.into_iter().map(NeighborSearch::finish).collect();
        let mut overlap = vec![0.0; probes.len()];
        let pair_overlap = two.iter().map(|&[a, b]| {
            let values = overlaps(&neighbors[a], &neighbors[b]);
            overlap.iter_mut().zip(&values).for_each(|(sum, x)| *sum += x / two.len() as f64);
            // Every id is a probe: no sampling error.
            let estimate = Estimate::mean(values).map(|e| {
                let all = probes.len() == n;
                if all { Estimate::exact(e.value, e.n) } else { e.within(0.0, 1.0) }
            });
            PairValue::new([a, b], estimate)
        });
        let nn_overlap = PairMeasure::new(pair_overlap.collect());
        let measure = |of: &dyn Fn(&Linear) -> Option<Estimate>| {
            let value = |(&runs, linear): (&[usize; 2], &Linear)| PairValue::new(runs, of(linear));
            PairMeasure::new(two.iter().zip(&linear).map(value).collect())
        };
        let mean =
            |of: &dyn Fn(&Linear) -> f64| linear.iter().map(of).sum::<f64>() / two.len() as f64;
        let degrees = |linear: &Linear| {
            linear.cosines.last().map_or(f64::NAN, |c| c.clamp(-1.0, 1.0).acos().to_degrees())
        };
        let mean_cosine =
            |l: &Linear| l.cosines.iter().sum::<f64>() / l.cosines.len().max(1) as f64;
        let outliers: Vec<Option<Outliers>> =
            counted.into_iter().map(|counted| counted.map(Counted::finish)).collect();
        let shares = |of: &dyn Fn(&Outliers) -> Estimate| {
            let value = |(&runs, found): (&[usize; 2], &Option<Outliers>)| {
                PairValue::new(runs, found.as_ref().map(of))
            };
            let mut measure = PairMeasure::new(two.iter().zip(&outliers).map(value).collect());
            measure.estimate = measure.estimate.map(|e| match two.len() {
                1 => outliers[0].as_ref().map_or(e, |found| of(found).with_seeds(2)),
                _ => e.within(0.0, 1.0),
            });
            measure
        };
        let (outlier_ids, norm_outliers) = (shares(&|o| o.share), shares(&|o| o.norms));
        let first_and_last = two.iter().position(|pair| *pair == [0, dims.len() - 1]);
        let angles = Angles { mean_cosine: mean(&mean_cosine), largest_degrees: mean(&degrees) };
        Ok(Comparison {
            ids: n,
            k,
            probes: probes.len(),
            coordinates,
            gram_noise: PairMeasure::new(gram.ratios.clone()),
            kernel_noise: PairMeasure::new(kernel_values.ratios.clone()),
            gram,
            kernel: kernel_values,
            deciles: weights.map_or_else(Vec::new, |w| by_decile(w, &probes, &overlap, dims.len())),
            dims,
            nn_overlap,
            chance_overlap: k as f64 / (n - 1) as f64,
            cka: measure(&|l| l.cka),
            kernel_cka: PairMeasure::new(kernel_cka),
            kernel_ids: ids.len(),
            procrustes_residual: measure(&|l| l.residual),
            outlier_ids,
            norm_outliers,
            outliers: first_and_last.and_then(|at| outliers.into_iter().nth(at)?),
            angles,
            spectra: linear.iter().map(|l| l.spectra).fold(0.0, f64::max),
            probed: Probed { rows: probes, neighbors, overlap, ids: ids_of },
            maps,
            drawn,
        })
    }
}

/// The rotation that takes each run to the first; empty for unequal dimensions.
fn maps_to_first(linear: &[Linear], dims: &[usize]) -> Vec<LinearMap> {
    if dims.iter().any(|dim| *dim != dims[0]) {
        return Vec::new();
    }
    // The pairs with the first run come first.
    let to_first = linear.iter().take(dims.len() - 1).filter_map(|l| l.map.clone());
    std::iter::once(LinearMap::identity(dims[0])).chain(to_first).collect()
}

/// What the bulk of the drawn ids predicts for two runs.
fn expected(
    drawn: &Drawn,
    places: &[u32],
    runs: [usize; 2],
    map: &LinearMap,
    seed: Seed,
) -> Expected {
    let rows = runs.map(|run| drawn.tables.runs[run].gather(places));
    let norms = runs.map(|run| -> Vec<f32> {
        places.iter().map(|&at| drawn.norms[run][at as usize]).collect()
    });
    let sample =
        Rows { dim: map.output_dim(), rows: [&rows[0], &rows[1]], norms: [&norms[0], &norms[1]] };
    Expected::of(sample, map, seed)
}

/// Notes the ids of probes and of their neighbors that are in this window.
fn remember(
    ids: &mut HashMap<u32, String>,
    searches: &[NeighborSearch],
    probes: &[u32],
    window: &Prepared<'_>,
) {
    let first = window.first as u32;
    let here = first..first + window.ids.len() as u32;
    let found = searches.iter().flat_map(|search| {
        (0..probes.len()).flat_map(move |q| search.found(q).map(|scored| scored.number))
    });
    for row in found.chain(probes.iter().copied()).filter(|row| here.contains(row)) {
        ids.entry(row).or_insert_with(|| window.ids.get((row - first) as usize));
    }
}

/// Checks that the runs have a geometry to compare.
fn check(source: &dyn Passes, weights: Option<&[f64]>, settings: &CompareSettings) -> Result<()> {
    let (n, names, dims) = (source.n(), source.names(), source.dims());
    if dims.len() < 2 {
        let what = format!("a comparison needs at least two runs, got {}", dims.len());
        return Err(Error::request(what, ""));
    }
    if n < LEAST {
        return Err(Error::unfit(format!("{n} shared ids, but HSIC needs at least {LEAST}"), ""));
    }
    if let Some(at) = dims.iter().position(|dim| *dim == 0) {
        return Err(Error::shape(format!("{} has vectors of dimension 0", names[at]), ""));
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
    // With k of n - 1 neighbors both tables name the same ids, whatever they are.
    if 2 * k >= n {
        let most = (n - 1) / 2;
        let must_be = format!(
            "at most {most}: the tables share {n} ids, and more neighbors than half of them say nothing"
        );
        return Err(Error::setting("k", must_be, *k));
    }
    Ok(())
}
