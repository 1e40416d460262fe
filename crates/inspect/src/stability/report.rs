//! The full comparison of tables in memory: join, sanity, geometry, models, consumers, verdict, limits.

use std::collections::HashMap;

use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Error, Estimate, Job, Seed, settings};
use veridical_features::{FeatureMap, FeatureSpec, Kernel, Normalize, length_scale};
use veridical_learn::cosine_neighbors;

use crate::Result;
use crate::stability::joined::{Joined, NamedTable, TableReport, join};
use crate::stability::{
    CompareSettings, Comparison, Consumer, ConsumerReport, Downstream, Gate, KernelAt, Labeled,
    Limit, Measure, Sanity, SharedRows, SharedTables, TargetAlignment, Theory, Verdict, changed,
    consumer, downstream, floor_of, geometry, target_alignment, theory, treatments, verdict,
};

/// The number of rows for the median rule of the length scale.
const MEDIAN_ROWS: usize = 2000;
/// The number of changed items shown, by weight.
const SHOWN_ITEMS: usize = 50;
/// The number of neighbors shown per item.
const SHOWN_NEIGHBORS: usize = 5;
/// The fewest runs for a limit on an sd.
const RUNS_FOR_SD: usize = 5;
/// The number of new ids whose nearest neighbors are searched.
const NEW_IDS: usize = 500;

settings! {
    /// The sizes and the random seed of all samples.
    pub struct Samples in "Samples" {
        /// Nearest neighbors of a probe
        pub k: usize = 10 => [value("K"), at_least(1.0)],
        /// Ids whose neighbors are compared
        pub probes: usize = 2000 => [at_least(2.0)],
        /// Pairs of ids whose inner products are compared
        pub pairs: usize = 1_000_000 => [at_least(100.0)],
        /// Ids of the kernel matrices
        pub kernel_ids: usize = 4096 => [at_least(100.0), at_most(20_000.0)],
        /// Compare raw vectors instead of unit vectors
        pub keep_norms: bool = false => [switch()],
        /// Random seed of all samples
        pub seed: u64 = 0,
    }
}

impl Samples {
    /// Whether rows are divided by their norms first.
    pub const fn unit(&self) -> bool {
        !self.keep_norms
    }

    /// Returns the random seed of all samples.
    ///
    /// # Errors
    /// [`Error::Setting`] for a seed above 2^53 - 1.
    pub fn seed(&self) -> veridical_core::Result<Seed> {
        Seed::new(self.seed)
    }
}

settings! {
    /// The settings of a comparison of tables.
    pub struct Settings {
        /// Cross-validation folds of the classifiers
        pub folds: usize = 5 => [detail(), at_least(2.0), at_most(100.0)],
        /// Output dimensions of feature maps to try, as multiples of the embedding dimension
        pub multiples: Vec<usize> = vec![2, 4, 8] => [detail(), by_comma(), value("N,..")],
    } with {
        /// The sizes and the random seed of all samples.
        pub samples: Samples,
    }
}

/// Optional data beside the tables; rows are those of the shared ids.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The weight of every shared id.
    pub weights: Option<Vec<f64>>,
    /// The classes of shared ids.
    pub labeled: Option<Labeled>,
    /// The display names of ids.
    pub names: HashMap<String, String>,
    /// Runs on identical data, for the noise floor.
    pub noise_floor: Option<Joined>,
    /// The feature map that consumers use; by default one for the median distance of the first table.
    pub spec: Option<FeatureSpec>,
    /// The limits to check.
    pub limits: Vec<Limit>,
    /// The downstream models that were trained on earlier tables.
    pub consumers: Vec<Consumer>,
}

/// The ids of the last table that the first one lacks.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NewIds {
    /// The number of new ids.
    pub count: usize,
    /// The mean cosine to their nearest shared id.
    pub nearest_cosine: Option<Estimate>,
    /// The mean cosine of shared ids to their nearest shared id.
    pub kept_nearest_cosine: Option<Estimate>,
}

/// An id with its name.
#[derive(Clone, Debug, Serialize)]
pub struct NamedId {
    /// The id.
    pub id: String,
    /// The display name, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// An id of large weight whose neighbors changed.
#[derive(Clone, Debug, Serialize)]
pub struct ChangedItem {
    /// The id.
    #[serde(flatten)]
    pub item: NamedId,
    /// The weight of the id.
    pub weight: f64,
    /// The overlap of its neighbors.
    pub overlap: f64,
    /// The neighbors in the first run, nearest first.
    pub before: Vec<NamedId>,
    /// The neighbors in the last run, nearest first.
    pub after: Vec<NamedId>,
}

/// The kernel of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct KernelReport {
    /// The name of the kernel.
    pub kernel: String,
    /// The length scale l.
    pub length_scale: f64,
    /// The id of the spec of the feature map.
    pub spec_id: String,
    /// Whether the spec was given, rather than derived from these tables.
    pub given: bool,
}

/// The result of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The recommendation in words.
    pub verdict: Verdict,
    /// Whether all limits passed; `None` without limits.
    pub passed: Option<bool>,
    /// The outcome of every limit.
    pub gates: Vec<Gate>,
    /// The measures that can have a limit.
    pub measures: Vec<Measure>,
    /// The names and sanity checks of the tables.
    pub tables: Vec<TableReport>,
    /// The number of ids that all tables share.
    pub shared_ids: usize,
    /// For every table, the number of ids of the first table that it lacks, and of its ids that the first table lacks.
    pub gone_and_new: Vec<[usize; 2]>,
    /// The new ids; `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_ids: Option<NewIds>,
    /// The comparison of the geometry.
    pub comparison: Comparison,
    /// The names of the tables of the noise floor.
    pub noise_floor: Vec<String>,
    /// The agreement of the kernel with labels, for every table.
    pub target_alignment: Vec<TargetAlignment>,
    /// The accuracy of classifiers on labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downstream: Option<Downstream>,
    /// The reports on consumers.
    pub consumers: Vec<ConsumerReport>,
    /// The paper's bounds; these are rates, and never part of a verdict.
    pub theory: Theory,
    /// The ids of largest weight whose neighbors changed.
    pub changed: Vec<ChangedItem>,
    /// The kernel, length scale and spec id of the feature map that was used.
    pub kernel: KernelReport,
    /// The random seed of all samples.
    pub seed: u64,
    /// Whether rows were divided by their norms.
    pub unit: bool,
}

/// Compares tables; the first one is the reference.
///
/// # Errors
/// Those of [`join`] and [`assess`].
///
/// ```
/// use veridical_core::Job;
/// use veridical_data::{Ids, VectorTable};
/// use veridical_inspect::stability::{NamedTable, Samples, Settings, compare};
///
/// let job = Job::silent();
/// let vectors: Vec<f32> = (0..240u32).map(|i| (i * i % 101) as f32 - 50.0).collect();
/// let rotated: Vec<f32> = vectors.chunks(3).flat_map(|row| [row[2], row[0], -row[1]]).collect();
/// let table = |vectors| VectorTable { ids: Ids::numbered(0, 80), dim: 3, vectors };
/// let tables = vec![
///     NamedTable::new("monday", table(vectors), &job)?,
///     NamedTable::new("tuesday", table(rotated), &job)?,
/// ];
/// let samples = Samples { pairs: 1000, ..Samples::default() };
/// let settings = Settings { samples, ..Settings::default() };
/// let report = compare(tables, &settings, &job)?;
/// // A rotation keeps all neighbors.
/// assert_eq!(report.comparison.nn_overlap.value(), 1.0);
/// # Ok::<(), veridical_inspect::Error>(())
/// ```
pub fn compare(tables: Vec<NamedTable>, settings: &Settings, job: &Job<'_>) -> Result<Report> {
    assess(join(tables, settings.samples.unit())?, &Evidence::default(), settings, job)
}

/// Compares joined tables with optional labels, weights, limits and consumers.
///
/// ```
/// use veridical_core::Job;
/// use veridical_data::{Ids, VectorTable};
/// use veridical_inspect::stability::{Evidence, Limit, NamedTable, Samples, Settings, join, assess};
///
/// let job = Job::silent();
/// let vectors: Vec<f32> = (0..240u32).map(|i| (i * i % 101) as f32 - 50.0).collect();
/// let reversed: Vec<f32> = vectors.iter().rev().copied().collect();
/// let table = |vectors| VectorTable { ids: Ids::numbered(0, 80), dim: 3, vectors };
/// let tables = vec![
///     NamedTable::new("monday", table(vectors), &job)?,
///     NamedTable::new("tuesday", table(reversed), &job)?,
/// ];
/// let samples = Samples { pairs: 1000, ..Samples::default() };
/// let settings = Settings { samples, ..Settings::default() };
/// let limits = vec![Limit::new("min-nn-overlap", 0.9)?];
/// let evidence = Evidence { limits, ..Evidence::default() };
/// let report = assess(join(tables, settings.samples.unit())?, &evidence, &settings, &job)?;
/// // Reversed rows belong to other ids, so neighbors are not kept.
/// assert_eq!(report.passed, Some(false));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Setting`] for sample sizes of 0, [`Error::Missing`] and [`Error::Request`] for limits without the data they
/// need, [`Error::Shape`] for weights, labels or a spec that do not match the tables, those of a feature map, and
/// [`Error::Interrupted`] if the user interrupts.
pub fn assess(
    joined: Joined,
    evidence: &Evidence,
    settings: &Settings,
    job: &Job<'_>,
) -> Result<Report> {
    let Joined { runs, reports, missing, extra, new_rows } = joined;
    check_limits(&evidence.limits, evidence.labeled.is_some(), runs.runs.len())?;
    settings.check()?;
    check_rows(evidence, runs.n())?;
    let (spec, given) = base_spec(evidence.spec.as_ref(), settings, &runs)?;
    let kernel = KernelAt { kernel: spec.kernel().clone(), length_scale: spec.length_scale() };
    let weights = evidence.weights.as_deref();
    let compare_settings = CompareSettings {
        k: settings.samples.k,
        probes: settings.samples.probes,
        pairs: settings.samples.pairs,
        kernel_ids: settings.samples.kernel_ids,
        seed: settings.samples.seed()?,
        kernel: kernel.clone(),
    };
    let comparison = observed(&runs, weights, &compare_settings, "comparing", job)?;
    let target_alignment = alignments(&runs, evidence.labeled.as_ref(), settings, &kernel);
    let mut measures = sanity_measures(&reports, &missing, &extra, runs.n())?;
    measures.extend(comparison.measures()?);
    let mut noise_floor = Vec::new();
    if let Some(floor) = &evidence.noise_floor {
        let compared = observed(&floor.runs, None, &compare_settings, "noise floor", job)?;
        noise_floor = floor.reports.iter().map(|report| report.name.clone()).collect();
        for measure in &mut measures {
            measure.floor = floor_of(&compared, noise_floor.len(), measure.key);
        }
    }
    let downstream = match &evidence.labeled {
        Some(labeled) => Some(models(&runs, &comparison, labeled, &spec, settings, job)?),
        None => None,
    };
    if let Some(downstream) = &downstream {
        measures.extend(metric_measures(downstream)?);
    }
    let verdict = verdict(&measures, &comparison, downstream.as_ref());
    let consumers = reached(&evidence.consumers, &comparison, &spec, settings)?;
    let gates = gates(&evidence.limits, &measures)?;
    let passed = (!gates.is_empty()).then(|| gates.iter().all(Gate::is_kept));
    Ok(Report {
        verdict,
        passed,
        gates,
        measures,
        shared_ids: runs.n(),
        gone_and_new: missing.iter().zip(&extra).map(|(gone, new)| [*gone, *new]).collect(),
        new_ids: new_ids(&runs, &new_rows, settings.samples.seed()?),
        noise_floor,
        theory: theory(&comparison, &spec, target_alignment.first()),
        target_alignment,
        downstream,
        consumers,
        changed: changed_items(&runs, &comparison, weights, &evidence.names),
        comparison,
        kernel: KernelReport {
            kernel: spec.kernel().name().to_owned(),
            length_scale: spec.length_scale(),
            spec_id: spec.spec_id().to_owned(),
            given,
        },
        tables: reports,
        seed: settings.samples.seed,
        unit: settings.samples.unit(),
    })
}

/// Checks, before any work, that all limits can be measured.
///
/// # Errors
/// [`Error::Missing`] for a limit on a classifier without labels, [`Error::Request`] for one on an sd of too few runs.
pub fn check_limits(limits: &[Limit], with_labels: bool, runs: usize) -> Result<(), Error> {
    for Limit { kind, .. } in limits {
        let limit = kind.limit();
        if kind.key.starts_with("metric") && !with_labels {
            let what = format!("{limit} needs ⟨labels⟩: it limits the accuracy of a classifier");
            return Err(Error::missing(what, ""));
        }
        if kind.key == "metric_sd" && runs < RUNS_FOR_SD {
            let what = format!("needs at least {RUNS_FOR_SD} runs, got {runs}");
            let why = "the sd of fewer runs is meaningless";
            return Err(Error::request(format!("{limit} {what}: {why}"), ""));
        }
    }
    Ok(())
}

/// Checks that weights and labels match the `n` shared ids.
fn check_rows(evidence: &Evidence, n: usize) -> Result<()> {
    if let Some(weights) = evidence.weights.as_ref().filter(|weights| weights.len() != n) {
        let what = format!("{} weights for {n} shared ids", weights.len());
        return Err(Error::shape(what, "pass one per shared id").into());
    }
    let Some(Labeled { rows, labels, classes }) = &evidence.labeled else { return Ok(()) };
    let known = rows.iter().all(|&row| (row as usize) < n)
        && labels.iter().all(|&class| (class as usize) < *classes);
    if rows.len() != labels.len() || rows.is_empty() || !known {
        let what = format!("{} labels for {} of {n} shared ids", labels.len(), rows.len());
        return Err(
            Error::shape(what, "pass one class, below the number of classes, per row").into()
        );
    }
    Ok(())
}

/// The outcome of every limit; a limit without a measure is an error, never ignored.
fn gates(limits: &[Limit], measures: &[Measure]) -> Result<Vec<Gate>> {
    let gate = |limit: &Limit| {
        let measure = measures.iter().find(|m| m.key == limit.kind.key).ok_or_else(|| {
            let what = format!("{} limits a measure that was not computed", limit.kind.limit());
            Error::missing(what, "remove the limit")
        })?;
        Ok(Gate::new(limit, measure))
    };
    limits.iter().map(gate).collect()
}

fn observed(
    runs: &SharedTables,
    weights: Option<&[f64]>,
    settings: &CompareSettings,
    what: &str,
    job: &Job<'_>,
) -> Result<Comparison> {
    job.check()?;
    let bar = job.progress(what, "steps", Some(5));
    let comparison = geometry(runs, weights, settings, &|_| bar.advance(1))?;
    job.check()?;
    Ok(comparison)
}

/// The given spec, or one by the median rule on the first table.
fn base_spec(
    given: Option<&FeatureSpec>,
    settings: &Settings,
    runs: &SharedTables,
) -> Result<(FeatureSpec, bool)> {
    let first = &runs.runs[0];
    if let Some(spec) = given {
        if spec.input_dim() != first.dim {
            let (takes, SharedRows { name, dim, .. }) = (spec.input_dim(), first);
            return Err(Error::shape(
                format!("⟨spec⟩ is for vectors of dimension {takes}, {name} has dimension {dim}"),
                format!("make one with `veridical featurize new ⟨data⟩ {name}`"),
            )
            .into());
        }
        return Ok((spec.clone(), true));
    }
    let rows = first.gather(&runs.sample(MEDIAN_ROWS, settings.samples.seed()?, "median"));
    let kernel = Kernel::Gaussian;
    let length_scale =
        length_scale::from_median(veridical_core::Rows::new(&rows, first.dim)?, &kernel)?;
    let normalize = if settings.samples.unit() { Normalize::Unit } else { Normalize::None };
    let spec = FeatureSpec::params(first.dim, 4 * first.dim)
        .kernel(kernel)
        .length_scale(length_scale)
        .normalize(normalize)
        .build()?;
    Ok((spec, false))
}

/// The agreement of the kernel with labels, for every run.
fn alignments(
    runs: &SharedTables,
    labeled: Option<&Labeled>,
    settings: &Settings,
    kernel: &KernelAt,
) -> Vec<TargetAlignment> {
    labeled.map_or_else(Vec::new, |labeled| {
        let kept = labeled.rows.len().min(settings.samples.kernel_ids);
        let of = |run: &SharedRows| {
            let rows = run.gather(&labeled.rows[..kept]);
            target_alignment(&rows, run.dim, &labeled.labels[..kept], kernel)
        };
        runs.runs.iter().map(of).collect()
    })
}

fn models(
    runs: &SharedTables,
    comparison: &Comparison,
    labeled: &Labeled,
    spec: &FeatureSpec,
    settings: &Settings,
    job: &Job<'_>,
) -> Result<Downstream> {
    let can_align = !comparison.maps.is_empty();
    let treatments = treatments(spec, &settings.multiples, can_align)?;
    let averages = treatments.iter().filter(|t| t.is_average()).count();
    let fits = (treatments.len() - averages) * runs.runs.len() + averages;
    let bar = job.progress("downstream models", "runs", Some(fits as u64));
    let done = || bar.advance(1);
    let (folds, seed, maps) = (settings.folds, settings.samples.seed()?, &comparison.maps);
    Ok(downstream(runs, maps, labeled, &treatments, folds, seed, &done)?)
}

/// The effect of today's vectors on consumers.
fn reached(
    consumers: &[Consumer],
    comparison: &Comparison,
    spec: &FeatureSpec,
    settings: &Settings,
) -> Result<Vec<ConsumerReport>> {
    if consumers.is_empty() {
        return Ok(Vec::new());
    }
    let features = FeatureMap::new(spec)?;
    let map = comparison.maps.last();
    let (k, seed) = (settings.samples.k, settings.samples.seed()?);
    let of = |one: &Consumer| consumer(one, map, Some(&features), k, seed);
    Ok(consumers.iter().map(of).collect::<Result<_, _>>()?)
}

fn sanity_measures(
    tables: &[TableReport],
    missing: &[usize],
    extra: &[usize],
    shared: usize,
) -> Result<Vec<Measure>> {
    let share = |part: usize, of: usize| part as f64 / of.max(1) as f64;
    let first = &tables[0].sanity;
    // The maximum over the tables after the first.
    let worst =
        |of: &dyn Fn(&Sanity) -> f64| tables[1..].iter().map(|t| of(&t.sanity)).fold(0.0, f64::max);
    let gone = missing.iter().copied().max().unwrap_or(0).max(first.rows - shared);
    let new = extra.iter().zip(tables).map(|(&n, t)| share(n, t.sanity.rows)).fold(0.0, f64::max);
    let before = first.norm_quantiles[2];
    let norm_change = worst(&|s| (s.norm_quantiles[2] / before - 1.0).abs());
    let exact = |(key, value, counted): (&'static str, f64, usize)| {
        let exact = || Estimate::exact(value, counted as u64).with_seeds(tables.len() as u64);
        Ok(Measure::new(key, value.is_finite().then(exact), tables.len() - 1)?)
    };
    let rows = tables[1..].iter().map(|table| table.sanity.rows).sum();
    let values = [
        ("shared_ids", 1.0 - share(gone, first.rows), first.rows),
        ("new_ids", new, rows),
        ("zero_vectors", worst(&|s| share(s.zero_vectors, s.rows)), rows),
        ("duplicate_vectors", worst(&|s| share(s.duplicate_vectors, s.rows)), rows),
        ("norm_change", norm_change, rows),
    ];
    values.into_iter().map(exact).collect()
}

fn metric_measures(downstream: &Downstream) -> Result<Vec<Measure>> {
    let Some(raw) = downstream.treatments.first() else { return Ok(Vec::new()) };
    let (scores, runs) = (&raw.accuracy, raw.accuracy.runs.len() as u64);
    let mean = Estimate::mean(scores.runs.iter().copied());
    let mean = mean.map(|e| e.within(0.0, 1.0).with_seeds(runs));
    Ok(vec![Measure::new("metric", mean, 0)?, Measure::new("metric_sd", scores.sd, 0)?])
}

fn new_ids(runs: &SharedTables, new_rows: &[f32], seed: Seed) -> Option<NewIds> {
    let last = runs.runs.last()?;
    let count = new_rows.len() / last.dim;
    if count == 0 {
        return None;
    }
    let nearest = |queries: &[f32], itself: &(dyn Fn(usize) -> Option<u32> + Sync)| {
        let found = cosine_neighbors(&last.rows, queries, last.dim, 1, itself);
        let cosines = found.iter().filter_map(|best| Some(f64::from(best.first()?.score)));
        Estimate::mean(cosines.collect::<Vec<f64>>())
    };
    let stride = count.div_ceil(NEW_IDS).max(1);
    let sampled: Vec<f32> =
        new_rows.chunks_exact(last.dim).step_by(stride).flatten().copied().collect();
    let kept = runs.sample(NEW_IDS, seed, "new ids");
    Some(NewIds {
        count,
        nearest_cosine: nearest(&sampled, &|_| None),
        kept_nearest_cosine: nearest(&last.gather(&kept), &|q| Some(kept[q])),
    })
}

fn changed_items(
    runs: &SharedTables,
    comparison: &Comparison,
    weights: Option<&[f64]>,
    names: &HashMap<String, String>,
) -> Vec<ChangedItem> {
    let named = |row: u32| {
        let id = runs.ids.get(row as usize);
        NamedId { name: names.get(&id).cloned(), id }
    };
    let list = |rows: &[u32]| rows.iter().take(SHOWN_NEIGHBORS).map(|&r| named(r)).collect();
    let items = changed(comparison, weights, SHOWN_ITEMS).into_iter();
    items
        .map(|found| ChangedItem {
            item: named(found.row),
            weight: found.weight,
            overlap: found.overlap,
            before: list(&found.before),
            after: list(&found.after),
        })
        .collect()
}
