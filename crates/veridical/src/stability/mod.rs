//! `veridical stability`: is today's refresh safe to ship?
//!
//! Two or more tables of the same things are joined on their ids and compared: sanity, coordinates, geometry,
//! neighbours, downstream models, consumers. A noise floor, runs on identical data, stands beside every number; a
//! budget of limits makes it a gate.

mod budget;
mod consumers;
mod page;
mod tables;
mod text;

use std::collections::HashMap;
use std::path::PathBuf;

use serde::Serialize;
use veridical_core::stats::sd_interval;
use veridical_core::{Seed, interrupt};
use veridical_data::{LabelOptions, Labels, NameOptions, ReadOptions, read_names, read_weights};
use veridical_features::{FeatureMap, FeatureSpec, Kernel, Normalize, length_scale};
use veridical_inspect::{
    CompareSettings, Comparison, ConsumerReport, Downstream, Estimate, Gate, KernelAt, Labelled,
    Limit, Measure, Runs, TargetAlignment, Theory, Verdict, changed, compare, downstream, floor_of,
    target_alignment, theory, treatments, verdict,
};
use veridical_learn::cosine_neighbours;

pub use self::budget::read_budget;
use self::consumers::Looking;
pub(crate) use self::tables::Loaded;
pub use self::tables::TableReport;
use self::tables::{JoinedRuns, expand, joined};
use crate::recommend::id_map;
use crate::{Error, Observer, Result};

/// Rows for the median rule.
const MEDIAN_ROWS: usize = 2000;
/// Heaviest changed items shown.
const SHOWN_ITEMS: usize = 50;
/// Neighbours shown of each.
const SHOWN_NEIGHBOURS: usize = 5;
/// Limits on a deviation need so many runs.
const RUNS_FOR_SD: usize = 5;
/// New ids whose nearest neighbours are looked at.
const NEW_IDS: usize = 500;

/// What is compared, and how.
#[derive(Clone, Debug)]
pub struct Stability {
    /// Vector tables, run folders or ensembles; the first is the reference.
    pub tables: Vec<PathBuf>,
    /// How tables are read.
    pub read: ReadOptions,
    /// Runs on identical data.
    pub noise_floor: Vec<PathBuf>,
    /// Classes of ids.
    pub labels: Option<PathBuf>,
    /// How they are read.
    pub label_options: LabelOptions,
    /// Leaves classes out that have fewer ids than folds.
    pub drop_rare_classes: bool,
    /// What ids are called.
    pub names: Option<PathBuf>,
    /// How names are read.
    pub name_options: NameOptions,
    /// How much ids weigh.
    pub weights: Option<PathBuf>,
    /// The feature map that consumers use.
    pub spec: Option<FeatureSpec>,
    /// Limits to keep.
    pub limits: Vec<Limit>,
    /// `consumers.toml`.
    pub consumers: Option<PathBuf>,
    /// What else.
    pub settings: Settings,
}

impl Stability {
    /// Compares these tables with default settings and nothing else.
    pub fn new(tables: Vec<PathBuf>) -> Self {
        Self {
            tables,
            read: ReadOptions::default(),
            noise_floor: Vec::new(),
            labels: None,
            label_options: LabelOptions::default(),
            drop_rare_classes: false,
            names: None,
            name_options: NameOptions::default(),
            weights: None,
            spec: None,
            limits: Vec::new(),
            consumers: None,
            settings: Settings::default(),
        }
    }
}

/// Sizes of samples and other settings that have a default.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Neighbours of a probe.
    pub k: usize,
    /// Ids whose neighbours are looked at.
    pub probes: usize,
    /// Pairs of ids whose inner products are looked at.
    pub pairs: usize,
    /// Ids of the kernel matrices.
    pub kernel_ids: usize,
    /// Folds of downstream models.
    pub folds: usize,
    /// Multiples of the dimension that feature maps are tried at.
    pub multiples: Vec<usize>,
    /// Whether rows are divided by their norms first.
    pub unit: bool,
    /// Decides every sample.
    pub seed: Seed,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            k: 10,
            probes: 2000,
            pairs: 1_000_000,
            kernel_ids: 4096,
            folds: 5,
            multiples: vec![2, 4, 8],
            unit: true,
            // INVARIANT: 0 is a seed.
            seed: Seed::new(0).expect("0 is a seed"),
        }
    }
}

/// Ids that the first table lacks and the last one has.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NewIds {
    /// How many.
    pub count: usize,
    /// Cosine to their nearest shared id, mean.
    pub nearest_cosine: Option<Estimate>,
    /// The same for ids that both have.
    pub kept_nearest_cosine: Option<Estimate>,
}

/// An id with its name.
#[derive(Clone, Debug, Serialize)]
pub struct NamedId {
    /// The id.
    pub id: String,
    /// What it is called, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A heavy id whose neighbours changed.
#[derive(Clone, Debug, Serialize)]
pub struct ChangedItem {
    /// Which.
    #[serde(flatten)]
    pub item: NamedId,
    /// Its weight.
    pub weight: f64,
    /// Overlap of its neighbours.
    pub overlap: f64,
    /// Nearest first.
    pub before: Vec<NamedId>,
    /// Nearest first.
    pub after: Vec<NamedId>,
}

/// Everything that was found.
#[derive(Clone, Debug, Serialize)]
pub struct StabilityReport {
    /// What to do, in words.
    pub verdict: Verdict,
    /// Whether all limits were kept; `None` without limits.
    pub passed: Option<bool>,
    /// Every limit.
    pub gates: Vec<Gate>,
    /// Every measure that a limit can be set on.
    pub measures: Vec<Measure>,
    /// The tables.
    pub tables: Vec<TableReport>,
    /// Ids that all of them have.
    pub shared_ids: usize,
    /// For every table: ids of the first that it lacks, and ids that the first lacks.
    pub gone_and_new: Vec<[usize; 2]>,
    /// What new ids look like; `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_ids: Option<NewIds>,
    /// Geometry.
    pub comparison: Comparison,
    /// Tables of the noise floor.
    pub noise_floor: Vec<String>,
    /// Agreement of the kernel with labels, for every table.
    pub target_alignment: Vec<TargetAlignment>,
    /// Models with labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downstream: Option<Downstream>,
    /// Downstream models.
    pub consumers: Vec<ConsumerReport>,
    /// What the paper's bounds say; rates, never part of a verdict.
    pub theory: Theory,
    /// Heaviest changed ids.
    pub changed: Vec<ChangedItem>,
    /// Kernel, length scale and id of the feature map that was used.
    pub kernel: KernelReport,
    /// Decides every sample.
    pub seed: u64,
    /// Whether rows were divided by their norms.
    pub unit: bool,
}

/// The kernel of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct KernelReport {
    /// Its name.
    pub kernel: String,
    /// l.
    pub length_scale: f64,
    /// The spec of the feature map.
    pub spec_id: String,
    /// Whether that spec was given, or made for these tables.
    pub given: bool,
}

/// Compares.
///
/// # Errors
/// [`Error::Usage`] for tables that cannot be compared, or limits that need what is not there.
pub fn stability(request: &Stability, observer: &dyn Observer) -> Result<StabilityReport> {
    let paths = expand(&request.tables);
    if paths.len() < 2 {
        let what = "a comparison needs at least two tables or runs";
        let got =
            paths.first().map_or(String::new(), |path| format!(", got only {}", path.display()));
        return Err(Error::Usage(format!("{what}{got}")));
    }
    check_limits(request, paths.len())?;
    let mut tables = Vec::new();
    for path in &paths {
        tables.push(Loaded::read(path, &request.read, observer)?);
    }
    compared(request, tables, observer)
}

/// Limits that cannot be judged are refused before any work.
pub(crate) fn check_limits(request: &Stability, runs: usize) -> Result<()> {
    for Limit { kind, .. } in &request.limits {
        let limit = kind.limit();
        if kind.key.starts_with("metric") && request.labels.is_none() {
            return Err(Error::Usage(format!(
                "{limit} needs --labels: it is about a model with labels"
            )));
        }
        if kind.key == "metric_sd" && runs < RUNS_FOR_SD {
            let what = format!("needs at least {RUNS_FOR_SD} runs, got {runs}");
            return Err(Error::Usage(format!("{limit} {what}: a deviation of fewer says nothing")));
        }
    }
    Ok(())
}

/// The comparison of tables that were read already.
pub(crate) fn compared(
    request: &Stability,
    tables: Vec<Loaded>,
    observer: &dyn Observer,
) -> Result<StabilityReport> {
    let settings = &request.settings;
    let consumers = request.consumers.as_deref().map(consumers::read_consumers).transpose()?;
    // Consumers are joined with today's table on ids of their own.
    let today = consumers.as_ref().and_then(|_| tables.last().map(|t| t.table.clone()));
    let JoinedRuns { runs, reports, missing, extra, new_rows } = joined(tables, settings.unit)?;
    let (spec, given) = base_spec(request, &runs)?;
    let kernel = KernelAt { kernel: spec.kernel().clone(), length_scale: spec.length_scale() };
    let names = match &request.names {
        Some(path) => read_names(path, &request.name_options)?,
        None => HashMap::new(),
    };
    let weights = weights(request, &runs, observer)?;
    let labelled = labelled(request, &runs, observer)?;
    let compare_settings = CompareSettings {
        k: settings.k,
        probes: settings.probes,
        pairs: settings.pairs,
        kernel_ids: settings.kernel_ids,
        seed: settings.seed,
        kernel: kernel.clone(),
    };
    let comparison = observed(&runs, weights.as_deref(), &compare_settings, "comparing", observer)?;
    let target_alignment = labelled.as_ref().map_or_else(Vec::new, |labelled| {
        let kept = labelled.rows.len().min(settings.kernel_ids);
        let of = |run: &veridical_inspect::Run| {
            let rows = run.gather(&labelled.rows[..kept]);
            target_alignment(&rows, run.dim, &labelled.labels[..kept], &kernel)
        };
        runs.runs.iter().map(of).collect()
    });
    let mut measures = sanity_measures(&reports, &missing, &extra, runs.n());
    measures.extend(comparison.measures());
    let floor = noise_floor(request, &compare_settings, observer)?;
    if let Some((floor, names)) = &floor {
        for measure in &mut measures {
            measure.floor = floor_of(floor, names.len(), measure.key);
        }
    }
    let downstream = match &labelled {
        Some(labelled) => Some(models(&runs, &comparison, labelled, &spec, settings, observer)?),
        None => None,
    };
    if let Some(downstream) = &downstream {
        measures.extend(metric_measures(downstream));
    }
    let verdict = verdict(&measures, &comparison, downstream.as_ref());
    let consumers = match (consumers, today) {
        (Some(consumers), Some(today)) => {
            let features = FeatureMap::new(&spec)?;
            let looking = Looking {
                map: comparison.maps.last(),
                features: Some(&features),
                k: settings.k,
                seed: settings.seed,
                unit: settings.unit,
            };
            let of = |named: &consumers::Named| named.report(&today, &looking, observer);
            consumers.iter().map(of).collect::<Result<_>>()?
        }
        _ => Vec::new(),
    };
    let gates: Vec<Gate> = request
        .limits
        .iter()
        .filter_map(|limit| {
            let measure = measures.iter().find(|m| m.key == limit.kind.key)?;
            Some(Gate::new(limit, measure))
        })
        .collect();
    let passed = (!gates.is_empty()).then(|| gates.iter().all(Gate::is_kept));
    Ok(StabilityReport {
        verdict,
        passed,
        gates,
        measures,
        shared_ids: runs.n(),
        gone_and_new: missing.iter().zip(&extra).map(|(gone, new)| [*gone, *new]).collect(),
        new_ids: new_ids(&runs, &new_rows, settings),
        noise_floor: floor.map_or_else(Vec::new, |(_, names)| names),
        theory: theory(&comparison, &spec, target_alignment.first()),
        target_alignment,
        downstream,
        consumers,
        changed: changed_items(&runs, &comparison, weights.as_deref(), &names),
        comparison,
        kernel: KernelReport {
            kernel: spec.kernel().name().to_owned(),
            length_scale: spec.length_scale(),
            spec_id: spec.spec_id().to_owned(),
            given,
        },
        tables: reports,
        seed: settings.seed.get(),
        unit: settings.unit,
    })
}

fn observed(
    runs: &Runs,
    weights: Option<&[f64]>,
    settings: &CompareSettings,
    what: &str,
    observer: &dyn Observer,
) -> Result<Comparison> {
    interrupt::check()?;
    let bar = observer.progress(what, "steps", Some(5));
    let comparison = compare(runs, weights, settings, &|_| bar.advance(1));
    interrupt::check()?;
    Ok(comparison)
}

fn noise_floor(
    request: &Stability,
    settings: &CompareSettings,
    observer: &dyn Observer,
) -> Result<Option<(Comparison, Vec<String>)>> {
    let paths = expand(&request.noise_floor);
    if paths.is_empty() {
        return Ok(None);
    }
    if paths.len() < 2 {
        let what = "--noise-floor needs at least two runs on identical data";
        return Err(Error::Usage(format!("{what}, got only {}", paths[0].display())));
    }
    let mut tables = Vec::new();
    for path in &paths {
        tables.push(Loaded::read(path, &request.read, observer)?);
    }
    let floor = joined(tables, request.settings.unit)?;
    let names = floor.reports.iter().map(|report| report.name.clone()).collect();
    Ok(Some((observed(&floor.runs, None, settings, "noise floor", observer)?, names)))
}

/// The spec that was given, or that of the median rule on the first table.
fn base_spec(request: &Stability, runs: &Runs) -> Result<(FeatureSpec, bool)> {
    let first = &runs.runs[0];
    if let Some(spec) = &request.spec {
        if spec.input_dim() != first.dim {
            return Err(Error::Usage(format!(
                "--spec is for vectors of {} values, {} has {}; make one with `veridical featurize new --data {}`",
                spec.input_dim(),
                first.name,
                first.dim,
                first.name
            )));
        }
        return Ok((spec.clone(), true));
    }
    let rows = first.gather(&runs.sample(MEDIAN_ROWS, request.settings.seed, "median"));
    let kernel = Kernel::Gaussian;
    let length_scale = length_scale::from_median(&rows, first.dim, &kernel)?;
    let normalize = if request.settings.unit { Normalize::Unit } else { Normalize::None };
    let spec = FeatureSpec::params(first.dim, 4 * first.dim)
        .kernel(kernel)
        .length_scale(length_scale)
        .normalize(normalize)
        .build()?;
    Ok((spec, false))
}

fn weights(request: &Stability, runs: &Runs, observer: &dyn Observer) -> Result<Option<Vec<f64>>> {
    let Some(path) = &request.weights else { return Ok(None) };
    let by_id = read_weights(path, &request.name_options)?;
    let weight = |i| by_id.get(&runs.ids.get(i)).copied();
    let found: Vec<Option<f64>> = (0..runs.n()).map(weight).collect();
    let without = found.iter().filter(|w| w.is_none()).count();
    if without == runs.n() {
        let what = "no id of the tables has a weight there";
        return Err(Error::Usage(format!(
            "{}: {what}; the ids must be those of the tables",
            path.display()
        )));
    }
    if without > 0 {
        observer.note(&format!(
            "{}: {without} of {} ids have no weight, taken as 0",
            path.display(),
            runs.n()
        ));
    }
    let weights: Vec<f64> = found.into_iter().map(|w| w.unwrap_or(0.0)).collect();
    if weights.iter().all(|w| *w == 0.0) {
        return Err(Error::Usage(format!("{}: all weights are 0", path.display())));
    }
    Ok(Some(weights))
}

fn labelled(request: &Stability, runs: &Runs, observer: &dyn Observer) -> Result<Option<Labelled>> {
    let Some(path) = &request.labels else { return Ok(None) };
    let refused = |what: String| Err(Error::Usage(format!("{}: {what}", path.display())));
    let (map, number_of) = id_map(&runs.ids);
    let (labels, notes) = Labels::read(path, &request.label_options, &map)?;
    notes.iter().for_each(|note| observer.note(note));
    let folds = request.settings.folds;
    let mut members = vec![Vec::new(); labels.classes.len()];
    let mut several = 0;
    for (row, &number) in number_of.iter().enumerate() {
        let classes = labels.of.get(number as usize);
        several += usize::from(classes.len() > 1);
        if let Some(&class) = classes.first() {
            members[class as usize].push(row as u32);
        }
    }
    if several > 0 {
        observer.note(&format!("{several} ids have several classes; the first of each is taken"));
    }
    let names = |classes: &[usize]| {
        let shown: Vec<String> =
            classes.iter().take(3).map(|&c| labels.classes.id(c as u32)).collect();
        let more = if classes.len() > 3 { ", .." } else { "" };
        format!("`{}`{more}", shown.join("`, `"))
    };
    let rare: Vec<usize> =
        (0..members.len()).filter(|&c| (1..folds).contains(&members[c].len())).collect();
    if !rare.is_empty() && !request.drop_rare_classes {
        let what = format!("{} have fewer ids than the {folds} folds", names(&rare));
        return refused(format!(
            "{what}; leave them out with --drop-rare-classes, or take fewer --folds"
        ));
    }
    if !rare.is_empty() {
        observer.note(&format!("{} left out: fewer ids than folds", names(&rare)));
    }
    let kept = members.into_iter().filter(|rows| rows.len() >= folds);
    let kept: Vec<Vec<u32>> = kept.collect();
    if kept.len() < 2 {
        return refused("the ids have a single class; labels must tell at least two apart".into());
    }
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    for (class, rows) in (0..).zip(&kept) {
        pairs.extend(rows.iter().map(|&row| (row, class)));
    }
    pairs.sort_unstable();
    let (rows, labels) = pairs.into_iter().unzip();
    Ok(Some(Labelled { rows, labels, classes: kept.len() }))
}

fn models(
    runs: &Runs,
    comparison: &Comparison,
    labelled: &Labelled,
    spec: &FeatureSpec,
    settings: &Settings,
    observer: &dyn Observer,
) -> Result<Downstream> {
    let can_align = !comparison.maps.is_empty();
    let treatments = treatments(spec, &settings.multiples, can_align)?;
    let averages = treatments.iter().filter(|t| t.is_average()).count();
    let fits = (treatments.len() - averages) * runs.runs.len() + averages;
    let bar = observer.progress("downstream models", "runs", Some(fits as u64));
    let done = || bar.advance(1);
    let (folds, seed, maps) = (settings.folds, settings.seed, &comparison.maps);
    Ok(downstream(runs, maps, labelled, &treatments, folds, seed, &done)?)
}

fn sanity_measures(
    tables: &[TableReport],
    missing: &[usize],
    extra: &[usize],
    shared: usize,
) -> Vec<Measure> {
    let share = |part: usize, of: usize| part as f64 / of.max(1) as f64;
    let first = &tables[0].sanity;
    // The worst of the tables after the first.
    let worst = |of: &dyn Fn(&veridical_inspect::Sanity) -> f64| {
        tables[1..].iter().map(|t| of(&t.sanity)).fold(0.0, f64::max)
    };
    let gone = missing.iter().copied().max().unwrap_or(0).max(first.rows - shared);
    let new = extra.iter().zip(tables).map(|(&n, t)| share(n, t.sanity.rows)).fold(0.0, f64::max);
    let before = first.norm_quantiles[2];
    let norm_change = worst(&|s| (s.norm_quantiles[2] / before - 1.0).abs());
    let exact = |key, value: f64| {
        let estimate = value.is_finite().then(|| Estimate::exact(value));
        Measure::new(key, estimate, 0, tables.len() - 1)
    };
    vec![
        exact("shared_ids", 1.0 - share(gone, first.rows)),
        exact("new_ids", new),
        exact("zero_vectors", worst(&|s| share(s.zero_vectors, s.rows))),
        exact("duplicate_vectors", worst(&|s| share(s.duplicate_vectors, s.rows))),
        exact("norm_change", norm_change),
    ]
}

fn metric_measures(downstream: &Downstream) -> Vec<Measure> {
    let Some(raw) = downstream.treatments.first() else { return Vec::new() };
    let (scores, runs) = (&raw.accuracy, raw.accuracy.runs.len());
    let mean = Estimate::mean(scores.runs.iter().copied()).map(|e| e.within(0.0, 1.0));
    let sd = scores.sd.map(|sd| {
        let freedom = runs as f64 - 1.0;
        Estimate { value: sd, interval: sd_interval(sd, freedom), error: f64::NAN, freedom }
    });
    vec![Measure::new("metric", mean, runs, 0), Measure::new("metric_sd", sd, runs, 0)]
}

fn new_ids(runs: &Runs, new_rows: &[f32], settings: &Settings) -> Option<NewIds> {
    let last = runs.runs.last()?;
    let count = new_rows.len() / last.dim;
    if count == 0 {
        return None;
    }
    let nearest = |queries: &[f32], itself: &(dyn Fn(usize) -> Option<u32> + Sync)| {
        let found = cosine_neighbours(&last.rows, queries, last.dim, 1, itself);
        let cosines = found.iter().filter_map(|best| Some(f64::from(best.first()?.score)));
        Estimate::mean(cosines.collect::<Vec<f64>>())
    };
    let stride = count.div_ceil(NEW_IDS).max(1);
    let sampled: Vec<f32> =
        new_rows.chunks_exact(last.dim).step_by(stride).flatten().copied().collect();
    let kept = runs.sample(NEW_IDS, settings.seed, "new ids");
    Some(NewIds {
        count,
        nearest_cosine: nearest(&sampled, &|_| None),
        kept_nearest_cosine: nearest(&last.gather(&kept), &|q| Some(kept[q])),
    })
}

fn changed_items(
    runs: &Runs,
    comparison: &Comparison,
    weights: Option<&[f64]>,
    names: &HashMap<String, String>,
) -> Vec<ChangedItem> {
    let named = |row: u32| {
        let id = runs.ids.get(row as usize);
        NamedId { name: names.get(&id).cloned(), id }
    };
    let list = |rows: &[u32]| rows.iter().take(SHOWN_NEIGHBOURS).map(|&r| named(r)).collect();
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

impl StabilityReport {
    /// Limits that these tables keep, taken as runs on identical data, and the text of a budget.
    pub fn propose_budget(&self) -> (Vec<Limit>, String) {
        budget::proposed(&self.comparison, self.tables.len(), self.seed)
    }

    /// An error that ends a command with exit code 1 if a limit was not kept.
    ///
    /// # Errors
    /// [`Error::GateFailed`] names the limits.
    pub fn gate(&self) -> Result<()> {
        if self.passed != Some(false) {
            return Ok(());
        }
        let broken = self.gates.iter().filter(|gate| !gate.is_kept());
        let broken: Vec<&str> = broken.map(|gate| gate.limit.as_str()).collect();
        let what = format!("{} of {} limits", broken.len(), self.gates.len());
        Err(Error::GateFailed(format!(
            "the gate did not pass: {what} not kept ({})",
            broken.join(", ")
        )))
    }
}
