//! Does training with SSE make embeddings more stable, and does a warm start?
//!
//! Ensembles of item2vec that differ in one setting, compared among themselves: overlap of ten nearest neighbors,
//! debiased CKA, Procrustes residual, and accuracy of logistic regression over the runs, retrained and not. A
//! difference of two ensembles has the errors of both, se^2 = se_a^2 + se_b^2.

use serde::Deserialize;
use veridical::{Error, Result};
use veridical_core::{Estimate, Seed};
use veridical_embed::Model;
use veridical_features::Kernel;
use veridical_inspect::{
    CompareSettings, Comparison, Downstream, KernelAt, Treatment, downstream, geometry,
};

use super::ensemble::{self, Ensemble, Trained};
use super::world::World;
use crate::lab::{self, Settings, row};
use crate::{Experiment, Findings, Row, RunOptions};

pub(crate) const QUESTIONS: Experiment = Experiment {
    id: "000-sse-warm-start",
    claim: "Two questions that papers 000 and 001 leave open: runs of item2vec agree more when they are trained with SSE \
        (paper 001), and when they start from one earlier run's vectors",
    rule: "a variant makes embeddings more stable if the 95 % interval of its neighbor overlap less that of plain \
        training lies above 0 and its accuracy is not lower by more than 0.5 points (lower end of the interval); \
        `replicated` if that holds for every variant of SSE and of warm start, `partly` for some, `refuted` for none. \
        CKA, residuals, deviations of accuracy and consumers that do not retrain are reported without a claim",
    deviations: &[
        "data and trainer are those of 000-table1; SSE-SE with the same p for inputs and targets",
        "a warm start goes through the whole schedule of rates once more, with seeds that no cold run has",
        "`items alone` hands on item vectors, context vectors begin at 0; `both tables` hands on both",
    ],
    config: include_str!("../../../../experiments/000-sse-warm-start/config.toml"),
    run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    seeds: u64,
    quick_seeds: u64,
    quick_epochs: u32,
    folds: usize,
    /// Neighbors.
    k: usize,
    /// Pairs of items, and items of kernel matrices.
    sampled: usize,
    settings: toml::Table,
    variant: Vec<Variant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    name: String,
    #[serde(default)]
    start: Start,
    #[serde(default)]
    settings: toml::Table,
}

/// What a run begins with.
#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Start {
    /// Drawn vectors.
    #[default]
    Cold,
    /// The item vectors of plain run 0.
    Items,
    /// Both of its tables.
    Both,
}

/// Points of accuracy that more stability may cost.
const NEGLIGIBLE: f64 = 0.5;

struct Measured {
    comparison: Comparison,
    downstream: Downstream,
}

fn run(config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let config: Config = toml::from_str(config).map_err(|e| {
        Error::damaged(format!("000-sse-warm-start: the configuration is damaged: {e}"), "")
    })?;
    let world = World::new(options)?;
    let mut findings = Findings::default();
    let mut plain: Option<(Model, Measured)> = None;
    for variant in &config.variant {
        let start = match (&plain, variant.start) {
            (Some((model, _)), Start::Both) => Some(model.clone()),
            (Some((model, _)), Start::Items) => Some(ensemble::items_alone(model)?),
            _ => None,
        };
        let trained = train(&config, variant, &world, start.as_ref(), options)?;
        let measured = measure(&config, &world, &Ensemble::of(&world, &trained))?;
        report(&variant.name, &measured, &mut findings);
        match &plain {
            None => plain = trained.into_iter().next().map(|first| (first.model, measured)),
            Some((model, of_plain)) => {
                verdict(&variant.name, &measured, of_plain, &mut findings);
                if variant.start != Start::Cold {
                    let first = refreshed(&config, &world, model, &trained)?;
                    report(
                        &format!("{}, with the run they start from", variant.name),
                        &first,
                        &mut findings,
                    );
                }
            }
        }
    }
    Ok(findings)
}

fn train(
    config: &Config,
    variant: &Variant,
    world: &World,
    start: Option<&Model>,
    options: &RunOptions<'_>,
) -> Result<Vec<Trained>> {
    let mut given = config.settings.clone();
    given.extend(variant.settings.clone());
    let mut settings: Settings = lab::grid(&given).swap_remove(0);
    if options.quick {
        settings.insert("epochs".into(), config.quick_epochs.into());
    }
    let last = settings.get("epochs").and_then(serde_json::Value::as_u64).unwrap_or(1) as u32;
    let seeds = if options.quick { config.quick_seeds } else { config.seeds };
    // A warm run must not repeat the draws of the run it starts from.
    let first = if start.is_some() { seeds } else { 0 };
    ensemble::train(world, &settings, start, first..first + seeds, &[last], options)
}

/// The run that the others start from, first, and then these.
fn refreshed(
    config: &Config,
    world: &World,
    start: &Model,
    trained: &[Trained],
) -> Result<Measured> {
    let Model::Items { item, .. } = start else {
        return Err(Error::request("item2vec did not give vectors of items", ""));
    };
    let tables = std::iter::once(item.values().to_vec())
        .chain(trained.iter().filter_map(|t| t.after.last().cloned()));
    measure(config, world, &Ensemble::new(&world.data.items, tables, true))
}

fn measure(config: &Config, world: &World, ensemble: &Ensemble) -> Result<Measured> {
    let seed = Seed::new(0)?;
    let settings = CompareSettings {
        k: config.k,
        probes: ensemble.runs.n(),
        pairs: config.sampled,
        kernel_ids: config.sampled.min(1024),
        seed,
        unit: false, // they are already
    };
    let kernel = KernelAt { kernel: Kernel::Gaussian, length_scale: 1.0 };
    let comparison = geometry(&ensemble.runs, None, &settings, &kernel, &|_| ())?;
    let treatments = [Treatment::Raw, Treatment::Aligned];
    let (maps, folds) = (&ensemble.maps, config.folds);
    let downstream =
        downstream(&ensemble.runs, maps, &world.first, &treatments, folds, seed, &|| ())?;
    Ok(Measured { comparison, downstream })
}

fn points(values: &[f64]) -> Vec<f64> {
    values.iter().map(|x| 100.0 * x).collect()
}

fn report(name: &str, measured: &Measured, findings: &mut Findings) {
    let Measured { comparison, downstream } = measured;
    let runs = comparison.dims.len() as u64;
    let all = [
        ("neighbor overlap", &comparison.nn_overlap),
        ("debiased CKA", &comparison.cka),
        ("Procrustes residual", &comparison.procrustes_residual),
        ("noise of inner products over their spread", &comparison.gram_noise),
    ];
    let mut push = |what: String, estimate: Option<Estimate>| {
        findings.rows.extend(estimate.map(|estimate| of_runs(what, estimate, runs)));
    };
    for (what, measure) in all {
        push(format!("{what}, {name}"), measure.estimate);
    }
    if let Some(coordinates) = &comparison.coordinates {
        push(format!("sd of coordinates over their size, {name}"), coordinates.relative_sd);
    }
    for scores in &downstream.treatments {
        let what = &scores.treatment;
        let accuracy = points(&scores.accuracy.runs);
        if what == "raw" {
            findings.rows.push(row(format!("accuracy, {name}"), None, &accuracy));
            let sd = 100.0 * scores.accuracy.sd.map_or(0.0, |sd| sd.value);
            let sd = Estimate::sd(sd, runs as f64 - 1.0, runs);
            findings.rows.push(of_runs(format!("sd of accuracy, {name}"), sd, runs));
        }
        if let Some(scores) = &scores.unretrained {
            let what = format!("accuracy, not retrained, {what}, {name}");
            findings.rows.push(row(what, None, &points(&scores.runs)));
        }
    }
}

/// More stable, and not worse.
fn verdict(name: &str, measured: &Measured, plain: &Measured, findings: &mut Findings) {
    let seeds = measured.comparison.dims.len() as u64;
    let overlaps = [measured, plain].map(|m| m.comparison.nn_overlap.estimate);
    let [Some(a), Some(b)] = overlaps else { return };
    let overlap = difference(a, b);
    let of = |m: &Measured| {
        let raw = m.downstream.treatments.iter().find(|t| t.treatment == "raw");
        raw.and_then(|t| Estimate::mean(points(&t.accuracy.runs)))
    };
    let (Some(a), Some(b)) = (of(measured), of(plain)) else { return };
    let accuracy = difference(a, b);
    findings.rows.push(of_runs(format!("accuracy, {name} - plain"), accuracy, seeds));
    let holds = Some(overlap.low > 0.0 && accuracy.low > -NEGLIGIBLE);
    let row = of_runs(format!("neighbor overlap, {name} - plain"), overlap, seeds);
    findings.rows.push(Row { holds, ..row });
}

/// A row about so many runs.
fn of_runs(what: String, estimate: Estimate, runs: u64) -> Row {
    let measured = Estimate { n: runs, seeds: runs, ..estimate };
    Row::new(what, measured)
}

/// a - b of independent estimates, with the fewer degrees of freedom.
fn difference(a: Estimate, b: Estimate) -> Estimate {
    let freedom = a.freedom.min(b.freedom);
    Estimate::new(a.value - b.value, a.error.hypot(b.error), freedom, a.n.min(b.n))
}
