//! The linear datamodeling score: do attributions order what networks answer that were trained on random halves of the rows?

use serde::{Deserialize, Serialize};
use serde_json::json;
use veridical::Result;
use veridical_core::{Error as CoreError, Estimate, Rows, Seed};
use veridical_inspect::attribute::Effect;
use veridical_inspect::surrogate::log_odds;
use veridical_inspect::validate::{DatamodelScore, datamodel_score, half_subsets};

use super::effects::effects;
use super::network::{Training, World, accuracy, labels};
use crate::lab::{self, row};
use crate::{Chart, Experiment, Findings, Row, RunOptions, Series, queue};

const CLAIM: &str = "Paper 004, section 1, explains decisions by the terms of a kernel machine (equation 3). Do they predict what retraining \
    changes? The influence of the same machine and the removal of rows from kernel ridge do so better than the terms, and better than TRAK";

const RULE: &str = "replicated if, for every data set, the 95 % interval over base networks of the mean LDS lies below 0.35 for mass, and \
    those of the differences removal - mass, influence - mass, removal - trak and influence - trak (of the same base network) lie above \
    0; partly if only some of these hold; refuted if none. Fisher, similarity and the ensemble are reported without a claim";

const DEVIATIONS: &[&str] = &[
    "the paper measures faithfulness to the network, not to retraining: the question is ours, the measure that of Park et al. 2023",
    "mlp:64,64 on 784 pixels, relu, Adam 1e-3, batches of 32, 40 epochs; 50 random halves, two seeds each; the margin of the label of 100 \
     test images (50 at n = 5,000)",
    "five base networks at n = 1,000 and three at n = 5,000; all are compared with the same retrainings, so the intervals do not hold the \
     chance of the halves",
    "penalties are the defaults of `explain`, never chosen on the score; mass is equation 3 of the machine that is fitted to the labels on \
     trNTK0, whose influence stands beside it",
];

pub(crate) const LDS: Experiment = Experiment {
    id: "lds",
    claim: CLAIM,
    rule: RULE,
    deviations: DEVIATIONS,
    config: include_str!("../../../../experiments/lds/config.toml"),
    run,
};

/// The same with five times the rows.
pub(crate) const LDS_5000: Experiment = Experiment {
    id: "lds-5000",
    claim: CLAIM,
    rule: RULE,
    deviations: DEVIATIONS,
    config: include_str!("../../../../experiments/lds-5000/config.toml"),
    run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    subsets: usize,
    quick_subsets: usize,
    seeds: u64,
    training: Training,
    quick_training: Training,
    set: Vec<SetConfig>,
    quick_set: Vec<SetConfig>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetConfig {
    data: String,
    n: usize,
    queries: usize,
    networks: u64,
}

/// The largest mean LDS of mass that the claim allows.
const LOW: f64 = 0.35;
/// Seeds of base networks begin here, those of retrainings at 0.
const BASE: u64 = 1000;

/// What is kept of a base network.
#[derive(Serialize, Deserialize)]
struct Base {
    accuracy: f64,
    /// For each effect the sums over the rows of each half, queries x halves.
    sums: Vec<Vec<f64>>,
}

fn run(config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let config: Config = toml::from_str(config)
        .map_err(|e| CoreError::damaged(format!("lds: the configuration is damaged: {e}"), ""))?;
    let sets = if options.quick { &config.quick_set } else { &config.set };
    let mut findings = Findings::default();
    for set in sets {
        study(&config, set, options, &mut findings)?;
    }
    Ok(findings)
}

fn study(
    config: &Config,
    set: &SetConfig,
    options: &RunOptions<'_>,
    findings: &mut Findings,
) -> Result<()> {
    let (training, count) = match options.quick {
        true => (&config.quick_training, config.quick_subsets),
        false => (&config.training, config.subsets),
    };
    let name = format!("{}, n = {}", set.data, set.n);
    let world = World::new(&set.data, set.n, set.queries, options)?;
    let (own, asked) = (labels(&world.train), labels(&world.queries));
    let halves = half_subsets(set.n, count, Seed::new(0)?)?;
    let margins = |logits: &[f64]| -> Vec<f64> {
        let each = logits.chunks_exact(world.classes).zip(asked);
        each.map(|(logits, &y)| log_odds(logits, y)).collect()
    };
    let key = |part: &str, at: usize, seed: u64| {
        json!({ "lds": part, "data": set.data, "n": set.n, "queries": set.queries, "training": training,
            "halves": count, "at": at, "seed": seed, "quick": options.quick })
    };
    let jobs: Vec<(usize, u64)> =
        (0..config.seeds).flat_map(|seed| (0..count).map(move |half| (half, seed))).collect();
    let bar =
        options.job.progress(&format!("halves of {name}"), "networks", Some(jobs.len() as u64));
    let retrained = lab::side_by_side(&jobs, &bar, |&(half, seed)| {
        let done = queue::once(options.keep, &key("half", half, seed), || {
            let job = options.job;
            // Another initialization for every half: nothing but its rows may order the answers.
            let seed = seed * count as u64 + half as u64;
            let net = world.trained(&halves[half], own, training, seed, job)?;
            Ok(margins(&world.logits(&net, &world.queries, job)?))
        })?;
        Ok(done.value)
    })?;
    drop(bar);
    let outputs: Vec<Vec<f64>> = retrained.chunks_exact(count).map(<[Vec<f64>]>::concat).collect();
    let all: Vec<u32> = (0..set.n as u32).collect();
    let networks: Vec<u64> = (0..set.networks).collect();
    let bar = options.job.progress(&format!("effects on {name}"), "networks", Some(set.networks));
    let bases = lab::side_by_side(&networks, &bar, |&network| {
        let done = queue::once(options.keep, &key("base", 0, network), || {
            let net = world.trained(&all, own, training, BASE + network, options.job)?;
            let logits = world.logits(&net, &world.queries, options.job)?;
            let accuracy = accuracy(&logits, asked);
            let sums = effects(&world, &net, options.job)?;
            Ok(Base {
                accuracy,
                sums: sums.iter().map(|all| sums_of(all, &halves, set.n)).collect(),
            })
        })?;
        Ok(done.value)
    })?;
    drop(bar);
    report(&name, &bases, &outputs, set.queries, findings)
}

/// Sums of effects over the rows of each half, queries x halves.
fn sums_of(effects: &[f64], halves: &[Vec<u32>], n: usize) -> Vec<f64> {
    let sum = |row: &[f64], half: &[u32]| half.iter().map(|&i| row[i as usize]).sum::<f64>();
    effects.chunks_exact(n).flat_map(|row| halves.iter().map(move |half| sum(row, half))).collect()
}

/// The score of sums that were taken before: each half is one row with the sum as its effect.
fn scored(sums: &[f64], outputs: &[Vec<f64>], queries: usize) -> Result<DatamodelScore> {
    let halves = sums.len() / queries;
    let single: Vec<Vec<u32>> = (0..halves as u32).map(|half| vec![half]).collect();
    let outputs: Result<Vec<Rows<'_, f64>>> =
        outputs.iter().map(|of| Ok(Rows::new(of, queries)?)).collect();
    Ok(datamodel_score(Rows::new(sums, halves)?, &single, &outputs?)?)
}

fn report(
    name: &str,
    bases: &[Base],
    outputs: &[Vec<f64>],
    queries: usize,
    findings: &mut Findings,
) -> Result<()> {
    let accuracies: Vec<f64> = bases.iter().map(|base| 100.0 * base.accuracy).collect();
    findings.rows.push(row(format!("{name}: accuracy of the base networks, %"), None, &accuracies));
    let mut means = Vec::new();
    let mut ceiling = None;
    for (e, effect) in Effect::ALL.into_iter().enumerate() {
        let mut of = Vec::new();
        for base in bases {
            let found = scored(&base.sums[e], outputs, queries)?;
            ceiling = found.ceiling;
            of.push(found.score.map_or(f64::NAN, |score| score.value));
        }
        let mut found = row(format!("{name}: LDS of {}", effect.name()), None, &of);
        if effect == Effect::Mass {
            found.holds = Some(found.measured.high < LOW);
        }
        findings.rows.push(found);
        let mean: Vec<f64> = (0..bases[0].sums[e].len())
            .map(|at| bases.iter().map(|base| base.sums[e][at]).sum::<f64>() / bases.len() as f64)
            .collect();
        if let Some(score) = scored(&mean, outputs, queries)?.score {
            let what =
                format!("{name}: LDS of {}, mean effects of all base networks", effect.name());
            findings.rows.push(Row::new(what, score));
        }
        means.push(of);
    }
    if let Some(ceiling) = ceiling {
        let what = format!("{name}: the largest LDS that two seeds leave possible");
        findings.rows.push(Row::new(what, Estimate::point(ceiling, 1)));
    }
    let at = |effect: Effect| &means[Effect::ALL.iter().position(|e| *e == effect).unwrap_or(0)];
    for (a, b) in [
        (Effect::Removal, Effect::Mass),
        (Effect::Influence, Effect::Mass),
        (Effect::Removal, Effect::Trak),
        (Effect::Influence, Effect::Trak),
    ] {
        let gains: Vec<f64> = at(a).iter().zip(at(b)).map(|(a, b)| a - b).collect();
        let what = format!("{name}: LDS of {} less that of {}", a.name(), b.name());
        let mut gain = row(what, None, &gains);
        gain.holds = Some(gain.measured.low > 0.0);
        findings.rows.push(gain);
    }
    let bars = Effect::ALL.into_iter().zip(&means).enumerate().map(|(e, (effect, of))| {
        let points = of.iter().map(|score| [e as f64, *score]).collect();
        Series { name: effect.name().into(), points }
    });
    let axes = ["effect, in the order of the legend", "LDS of each base network"];
    let caption = format!("{name}: how well effects order retrainings");
    findings.charts.push(Chart::points(caption, axes, bars.collect()));
    Ok(())
}
