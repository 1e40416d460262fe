//! Table 1 with fair baselines: penalties chosen on training items, the median length scale, every treatment, and the
//! same with each user's order shuffled.
//!
//! Folds, k-NN, Nadaraya-Watson and components of variance are those of `veridical stability`.

use serde::Deserialize;
use veridical::{Error, Result};
use veridical_core::Seed;
use veridical_features::FeatureSpec;
use veridical_inspect::{Scores, Treatment, TreatmentScores, downstream, treatments};

use super::ensemble::Ensemble;
use super::study::{FIRST_GENRE, OPTIMIZER, SEQUENCES, Scale, Study};
use super::world::World;
use super::{phi, sd_row};
use crate::lab::row;
use crate::{Experiment, Findings, Row, RunOptions};

pub(crate) const FAIR: Experiment = Experiment {
    id: "000-table1-fair",
    claim: "Paper 000, table 1, with fair baselines: phi of equal dimension is better than h, and spreads less over runs; \
        a consumer that does not retrain is helped by it",
    rule: "with C chosen on training items and the median length scale, iid directions: replicated if the 95 % interval \
        of the accuracy of phi_32 less that of h, paired over runs, lies above 0, the chi-square intervals of their \
        deviations lie apart with that of phi below, and the accuracy of a model that is not retrained, phi_32 less h, \
        lies above 0; partly if only some hold; refuted if none. Other treatments and the shuffled order are reported \
        without a claim",
    deviations: &[
        SEQUENCES,
        OPTIMIZER,
        FIRST_GENRE,
        "C in 0.1 .. 1000 is chosen per fold on a fifth of the training items of the first run, for every treatment",
        "five folds by class in the place of random splits",
        "the shuffled order is the same for all runs",
    ],
    config: include_str!("../../../../experiments/000-table1-fair/config.toml"),
    run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    scale: Scale,
    folds: usize,
    /// Dimensions of phi in units of d, above 1.
    multiples: Vec<usize>,
    settings: toml::Table,
}

fn run(config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let config: Config = toml::from_str(config).map_err(|e| {
        Error::damaged(format!("000-table1-fair: the configuration is damaged: {e}"), "")
    })?;
    let study = Study::new(&config.scale, &config.settings, options)?;
    let world = World::new(options)?;
    let mut findings = Findings::default();
    findings.notes.push(world.described());

    let ensemble = Ensemble::of(&world, &study.train(&world, &[])?);
    let d = ensemble.dim();
    let length_scale = ensemble.median_distance(&world)?;
    let base = FeatureSpec::params(d, d).length_scale(length_scale).build()?;
    let mut all = treatments(&base, &config.multiples, true)?;
    all.push(Treatment::Features(phi(d, d, 1.0, 0)?));
    let found = scores(&world, &ensemble, &all, config.folds, options)?;
    for (at, scores) in found.iter().enumerate() {
        let sigma = if at + 1 == found.len() { ", sigma 1" } else { "" };
        report(&format!("{}{sigma}", scores.treatment), scores, &mut findings);
    }
    claims(d, &found, &mut findings);

    let world = world.shuffled()?;
    let ensemble = Ensemble::of(&world, &study.train(&world, &[])?);
    let length_scale = ensemble.median_distance(&world)?;
    let wide = config.multiples.last().map_or(d, |multiple| multiple * d);
    let few = [
        Treatment::Raw,
        Treatment::Aligned,
        Treatment::AlignedAverage,
        Treatment::Features(phi(d, d, length_scale, 0)?),
        Treatment::AlignedFeatures(phi(d, wide, length_scale, 0)?),
    ];
    for scores in scores(&world, &ensemble, &few, config.folds, options)? {
        report(&format!("{}, shuffled order", scores.treatment), &scores, &mut findings);
    }
    Ok(findings)
}

fn scores(
    world: &World,
    ensemble: &Ensemble,
    all: &[Treatment],
    folds: usize,
    options: &RunOptions<'_>,
) -> Result<Vec<TreatmentScores>> {
    let runs = ensemble.runs.runs.len() as u64;
    let jobs = all.iter().map(|t| if t.is_average() { 1 } else { runs }).sum();
    let bar = options.job.progress("evaluating", "runs", Some(jobs));
    let Ensemble { runs, maps } = ensemble;
    let done = || bar.advance(1);
    Ok(downstream(runs, maps, &world.first, all, folds, Seed::new(0)?, &done)?.treatments)
}

fn points(scores: &Scores) -> Vec<f64> {
    scores.runs.iter().map(|x| 100.0 * x).collect()
}

fn report(name: &str, scores: &TreatmentScores, findings: &mut Findings) {
    let all = [
        ("accuracy", Some(&scores.accuracy)),
        ("macro F1", Some(&scores.macro_f1)),
        ("accuracy of 10 neighbors", Some(&scores.knn)),
        ("accuracy of Nadaraya-Watson", Some(&scores.nadaraya_watson)),
        ("accuracy, not retrained", scores.unretrained.as_ref()),
    ];
    for (measure, of) in all {
        let Some(values) = of.map(points) else { continue };
        findings.rows.push(row(format!("{measure}, {name}"), None, &values));
        if values.len() > 1 {
            findings.rows.push(sd_row(format!("sd of {measure}, {name}"), None, &values));
        }
    }
    if let Some(parts) = scores.accuracy.components {
        findings.notes.push(format!(
            "{name}: variance of accuracy in squared points: runs {:.3}, folds {:.3}, both together {:.3}; C {:?}",
            1e4 * parts.run,
            1e4 * parts.split,
            1e4 * parts.interaction,
            scores.penalties,
        ));
    }
}

fn claims(d: usize, found: &[TreatmentScores], findings: &mut Findings) {
    let get = |name: &str| found.iter().find(|scores| scores.treatment == name);
    let (Some(h), Some(phi)) = (get("raw"), get(&format!("phi iid D={d}"))) else { return };
    let accuracies = Some([h, phi].map(|t| points(&t.accuracy)));
    let old = h.unretrained.as_ref().zip(phi.unretrained.as_ref());
    let unretrained = old.map(|(h, phi)| [h, phi].map(points));
    for (measure, both) in [("accuracy", accuracies), ("accuracy, not retrained", unretrained)] {
        let Some([h, phi]) = both else { continue };
        let values: Vec<f64> = phi.iter().zip(&h).map(|(phi, h)| phi - h).collect();
        let gain = row(format!("{measure}, phi_{d} - h"), None, &values);
        findings.rows.push(Row { holds: Some(gain.measured.low > 0.0), ..gain });
    }
    let sd = |of: &TreatmentScores| sd_row(String::new(), None, &points(&of.accuracy));
    let (of_h, of_phi) = (sd(h), sd(phi));
    let holds = Some(of_phi.measured.high < of_h.measured.low);
    let what = format!("sd of accuracy, phi_{d}, wholly below that of h");
    findings.rows.push(Row { what, holds, ..of_phi });
}
