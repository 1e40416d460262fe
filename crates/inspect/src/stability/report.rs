//! The full comparison of tables in memory: join, sanity, geometry, models, consumers, verdict, limits.

use std::collections::HashMap;

use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Error, Estimate, Job, Seed, settings};
use veridical_data::{Passes, Window};
use veridical_features::{FeatureMap, FeatureSpec, Kernel, Normalize, length_scale};
use veridical_learn::NeighborSearch;

use crate::Result;
use crate::stability::compare::Survey;
use crate::stability::drawn::{Drawn, Prepared};
use crate::stability::joined::{Joined, NEW_IDS, NamedTable, TableReport, join};
use crate::stability::runs::sample;
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
    assess(join(tables)?, &Evidence::default(), settings, job)
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
/// let report = assess(join(tables)?, &evidence, &settings, &job)?;
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
    assess_with(joined, evidence, settings, &mut |_| (), job)
}

/// As [`assess`]; `raw` sees every window of the shared rows as it is, once.
///
/// # Errors
/// Those of [`assess`].
pub fn assess_with(
    joined: Joined,
    evidence: &Evidence,
    settings: &Settings,
    raw: &mut dyn FnMut(Window<'_>),
    job: &Job<'_>,
) -> Result<Report> {
    let Joined { runs, reports, missing, extra, new_rows } = joined;
    let runs: &dyn Passes = &*runs;
    let (n, seed) = (runs.n(), settings.samples.seed()?);
    check_limits(&evidence.limits, evidence.labeled.is_some(), reports.len())?;
    settings.check()?;
    check_rows(evidence, n)?;
    let weights = evidence.weights.as_deref();
    let compare_settings = CompareSettings {
        k: settings.samples.k,
        probes: settings.samples.probes,
        pairs: settings.samples.pairs,
        kernel_ids: settings.samples.kernel_ids,
        seed,
        unit: settings.samples.unit(),
    };
    check_spec(evidence.spec.as_ref(), runs)?;
    job.check()?;
    let bar = job.progress("comparing", "steps", Some(STEPS));
    let step = |_: &str| bar.advance(1);
    let median = sample(n, MEDIAN_ROWS, seed, "median");
    let of_new = sample(n, NEW_IDS, seed, "new ids");
    let labeled = evidence.labeled.as_ref().map_or(&[][..], |labeled| &labeled.rows);
    let also = [median.as_slice(), &of_new, labeled];
    let survey = Survey::take(runs, weights, &compare_settings, &also, raw, &step)?;
    job.check()?;
    let (spec, given) = base_spec(evidence.spec.as_ref(), settings, &survey.drawn, &median)?;
    let kernel = KernelAt { kernel: spec.kernel().clone(), length_scale: spec.length_scale() };
    let mut new_ids = NewIdSearch::new(&survey.drawn, &new_rows, &of_new);
    let also = &mut |window: &Prepared<'_>| new_ids.iter_mut().for_each(|new| new.add(window));
    let comparison = survey.compare(runs, weights, &kernel, also, &step)?;
    drop(bar);
    job.check()?;
    let labeled = evidence
        .labeled
        .as_ref()
        .map(|labeled| Labeled { rows: comparison.drawn.places(&labeled.rows), ..labeled.clone() });
    let target_alignment =
        alignments(&comparison.drawn.tables, labeled.as_ref(), settings, &kernel);
    let mut measures = sanity_measures(&reports, &missing, &extra, n)?;
    measures.extend(comparison.measures()?);
    let mut noise_floor = Vec::new();
    if let Some(floor) = &evidence.noise_floor {
        let bar = job.progress("noise floor", "steps", Some(STEPS));
        let step = |_: &str| bar.advance(1);
        let compared = geometry(&*floor.runs, None, &compare_settings, &kernel, &step)?;
        job.check()?;
        noise_floor = floor.reports.iter().map(|report| report.name.clone()).collect();
        for measure in &mut measures {
            measure.floor = floor_of(&compared, noise_floor.len(), measure.key);
        }
    }
    let downstream = match &labeled {
        Some(labeled) => Some(models(&comparison, labeled, &spec, settings, job)?),
        None => None,
    };
    if let Some(downstream) = &downstream {
        measures.extend(metric_measures(downstream)?);
    }
    let consumers = reached(&evidence.consumers, &comparison, &spec, settings)?;
    let gates = gates(&evidence.limits, &measures, downstream.as_ref())?;
    let verdict = verdict(&measures, &gates, &comparison, downstream.as_ref());
    let passed = (!gates.is_empty()).then(|| verdict.is_safe());
    Ok(Report {
        verdict,
        passed,
        gates,
        measures,
        shared_ids: n,
        gone_and_new: missing.iter().zip(&extra).map(|(gone, new)| [*gone, *new]).collect(),
        new_ids: new_ids.map(|new| new.finish(extra.last().copied().unwrap_or(0))),
        noise_floor,
        theory: theory(&comparison, &spec, target_alignment.first()),
        target_alignment,
        downstream,
        consumers,
        changed: changed_items(&comparison, weights, &evidence.names),
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

/// The outcome of every limit; a limit that cannot be measured is an error, never ignored.
fn gates(
    limits: &[Limit],
    measures: &[Measure],
    downstream: Option<&Downstream>,
) -> Result<Vec<Gate>> {
    let gate = |limit: &Limit| {
        let (name, kind) = (limit.kind.limit(), limit.kind);
        let measure = measures.iter().find(|m| m.key == kind.key).ok_or_else(|| {
            let what = format!("{name} limits a measure that was not computed");
            Error::missing(what, "remove the limit")
        })?;
        let estimate = measure.estimate.ok_or_else(|| {
            let what = format!("{name} cannot be measured: {} is undefined for these tables", kind.label);
            Error::unfit(what, "tables of different dimensions, or all equal, have no such measure; remove the limit")
        })?;
        if ["outlier_ids", "norm_outliers"].contains(&kind.key) {
            measurable(limit, estimate.n)?;
        }
        if kind.key.starts_with("metric") && downstream.is_some_and(Downstream::at_chance) {
            let what = format!(
                "{name} cannot be measured: no classifier on these labels beats the most frequent class"
            );
            return Err(Error::unfit(
                what,
                "check that the labels belong to these ids, or remove the limit",
            )
            .into());
        }
        Ok(Gate::new(limit, measure))
    };
    limits.iter().map(gate).collect()
}

/// Checks that a share below the limit can be told from 0 with this many ids.
fn measurable(limit: &Limit, ids: u64) -> Result<()> {
    let [_, least] = Estimate::share(0, ids).interval();
    if limit.value >= least || limit.value <= 0.0 {
        return Ok(());
    }
    // Wilson's upper end of 0 of n is z^2 / (n + z^2).
    let needed = (least * ids as f64 / (1.0 - least) * (1.0 / limit.value - 1.0)).ceil();
    let Limit { kind, value } = limit;
    let what = format!("{} {value} cannot be measured with {ids} ids", kind.limit());
    let why = format!("without a single outlier their share may be up to {least:.4}");
    Err(Error::unfit(what, format!("{why}: use a limit above that, or {needed} ids")).into())
}

/// The number of steps of a comparison.
const STEPS: u64 = 5;

/// Checks that a given spec fits the first table.
fn check_spec(given: Option<&FeatureSpec>, runs: &dyn Passes) -> Result<()> {
    let (takes, dim) = (given.map(FeatureSpec::input_dim), runs.dims()[0]);
    let Some(takes) = takes.filter(|takes| *takes != dim) else { return Ok(()) };
    let name = runs.names()[0].to_owned();
    Err(Error::shape(
        format!("⟨spec⟩ is for vectors of dimension {takes}, {name} has dimension {dim}"),
        format!("make one with `veridical featurize new ⟨data⟩ {name}`"),
    )
    .into())
}

/// The given spec, or one by the median rule on rows of the first table.
fn base_spec(
    given: Option<&FeatureSpec>,
    settings: &Settings,
    drawn: &Drawn,
    median: &[u32],
) -> Result<(FeatureSpec, bool)> {
    let first = &drawn.tables.runs[0];
    if let Some(spec) = given {
        return Ok((spec.clone(), true));
    }
    let rows = first.gather(&drawn.places(median));
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
    comparison: &Comparison,
    labeled: &Labeled,
    spec: &FeatureSpec,
    settings: &Settings,
    job: &Job<'_>,
) -> Result<Downstream> {
    let runs = &comparison.drawn.tables;
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

/// The search for the shared ids nearest to new ones, and to shared ones for comparison.
struct NewIdSearch {
    table: usize,
    new: NeighborSearch,
    kept: NeighborSearch,
}

impl NewIdSearch {
    /// Starts with rows of the last table that the first one lacks; `None` without any.
    fn new(drawn: &Drawn, new_rows: &[f32], kept: &[u32]) -> Option<Self> {
        let last = drawn.tables.runs.last().filter(|_| !new_rows.is_empty())?;
        let rows = last.gather(&drawn.places(kept));
        Some(Self {
            table: drawn.tables.runs.len() - 1,
            new: NeighborSearch::new(new_rows, last.dim, 1, |_| None),
            kept: NeighborSearch::new(&rows, last.dim, 1, |q| Some(kept[q])),
        })
    }

    fn add(&mut self, window: &Prepared<'_>) {
        let (first, rows) = (window.first as u32, window.tables[self.table]);
        self.new.add(first, rows);
        self.kept.add(first, rows);
    }

    fn finish(self, count: usize) -> NewIds {
        let nearest = |search: NeighborSearch| {
            let found = search.finish();
            let cosines = found.iter().filter_map(|best| Some(f64::from(best.first()?.score)));
            Estimate::mean(cosines.collect::<Vec<f64>>())
        };
        NewIds { count, nearest_cosine: nearest(self.new), kept_nearest_cosine: nearest(self.kept) }
    }
}

fn changed_items(
    comparison: &Comparison,
    weights: Option<&[f64]>,
    names: &HashMap<String, String>,
) -> Vec<ChangedItem> {
    let named = |row: u32| {
        let id = comparison.probed.ids.get(&row).cloned().unwrap_or_default();
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
