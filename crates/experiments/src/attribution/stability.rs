//! Do the explanations of one decision name the same rows when the network is trained again with another seed?

use serde::{Deserialize, Serialize};
use serde_json::json;
use veridical::Result;
use veridical_core::{Error as CoreError, Rows};
use veridical_inspect::attribute::{Effect, agreement, top};

use super::effects::effects;
use super::network::{Training, World, accuracy, labels};
use crate::lab::{self, row};
use crate::{Experiment, Findings, Row, RunOptions, queue};

pub(crate) const STABILITY: Experiment = Experiment {
    id: "stability-of-explanations",
    claim: "Ten trainings that differ in the seed alone agree on most of the ten rows that support a decision by the tangent kernel and \
        by the influence of its machine, and on fewer by TRAK",
    rule: "replicated if, on both data sets, the 95 % interval over decisions of the mean overlap of the top ten rows of two seeds lies \
        above 0.6 for similarity and for influence, and above that of TRAK; partly if only some of these hold; refuted if none. Other \
        effects and the share of rows that 80 % of the seeds name are reported without a claim",
    deviations: &[
        "no paper claims this: it is what `explain` says about stable rows (after Nguyen et al. 2023, attributions drowned by the noise \
         of training)",
        "1,000 rows, mlp:64,64 as in `lds`; ten seeds; the margin of the label of 100 test images",
        "similarity looks for rows alike whatever their labels; all other effects name the rows that raise the margin most",
    ],
    config: include_str!("../../../../experiments/stability-of-explanations/config.toml"),
    run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    data: Vec<String>,
    quick_data: Vec<String>,
    n: usize,
    quick_n: usize,
    queries: usize,
    quick_queries: usize,
    seeds: u64,
    quick_seeds: u64,
    top: usize,
    training: Training,
    quick_training: Training,
}

/// The least overlap that the claim allows.
const HIGH: f64 = 0.6;

/// What is kept of a network.
#[derive(Serialize, Deserialize)]
struct Named {
    accuracy: f64,
    /// For each effect and query the rows with the largest values, largest first.
    top: Vec<Vec<Vec<u32>>>,
}

fn run(config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let config: Config = toml::from_str(config).map_err(|e| {
        let what = format!("stability-of-explanations: the configuration is damaged: {e}");
        CoreError::damaged(what, "")
    })?;
    let (data, n, queries, seeds, training) = match options.quick {
        true => (
            &config.quick_data,
            config.quick_n,
            config.quick_queries,
            config.quick_seeds,
            &config.quick_training,
        ),
        false => (&config.data, config.n, config.queries, config.seeds, &config.training),
    };
    let mut findings = Findings::default();
    for name in data {
        let world = World::new(name, n, queries, options)?;
        let seeds: Vec<u64> = (0..seeds).collect();
        let bar =
            options.job.progress(&format!("seeds on {name}"), "networks", Some(seeds.len() as u64));
        let found = lab::side_by_side(&seeds, &bar, |&seed| {
            let key = json!({ "stability-of-explanations": name, "n": n, "queries": queries, "seed": seed,
                "top": config.top, "training": training, "quick": options.quick });
            let done = queue::once(options.keep, &key, || {
                let all: Vec<u32> = (0..n as u32).collect();
                let net = world.trained(&all, labels(&world.train), training, seed, options.job)?;
                let logits = world.logits(&net, &world.queries, options.job)?;
                let accuracy = accuracy(&logits, labels(&world.queries));
                let effects = effects(&world, &net, options.job)?;
                let top =
                    |of: &Vec<f64>| of.chunks_exact(n).map(|row| top(row, config.top)).collect();
                Ok(Named { accuracy, top: effects.iter().map(top).collect() })
            })?;
            Ok(done.value)
        })?;
        drop(bar);
        report(name, n, config.top, &found, &mut findings)?;
    }
    Ok(findings)
}

/// Values whose largest are the rows that were kept, in their order.
fn ranks(top: &[Vec<u32>], n: usize) -> Vec<f64> {
    let mut values = vec![0.0; top.len() * n];
    for (row, top) in values.chunks_exact_mut(n).zip(top) {
        top.iter().rev().zip(1..).for_each(|(&i, rank)| row[i as usize] = f64::from(rank));
    }
    values
}

fn report(
    name: &str,
    n: usize,
    top: usize,
    found: &[Named],
    findings: &mut Findings,
) -> Result<()> {
    let accuracies: Vec<f64> = found.iter().map(|one| 100.0 * one.accuracy).collect();
    findings.rows.push(row(format!("{name}: accuracy on the queries, %"), None, &accuracies));
    let mut of_trak = None;
    // TRAK first: the claim compares with it.
    let order = [Effect::Trak, Effect::Similarity, Effect::Influence].into_iter().chain([
        Effect::Removal,
        Effect::Mass,
        Effect::Fisher,
    ]);
    for effect in order {
        let at = Effect::ALL.iter().position(|e| *e == effect).unwrap_or(0);
        let runs: Vec<Vec<f64>> = found.iter().map(|one| ranks(&one.top[at], n)).collect();
        let runs: Result<Vec<Rows<'_, f64>>> =
            runs.iter().map(|run| Ok(Rows::new(run, n)?)).collect();
        let agreed = agreement(&runs?, top)?;
        let Some(overlap) = agreed.overlap else { continue };
        let holds = match (effect, of_trak) {
            (Effect::Similarity | Effect::Influence, Some(trak)) => {
                Some(overlap.low > HIGH && overlap.low > trak)
            }
            _ => None,
        };
        if effect == Effect::Trak {
            of_trak = Some(overlap.high);
        }
        let what = format!("{name}: overlap of the top {top} rows of two seeds, {}", effect.name());
        findings.rows.push(Row { holds, ..Row::new(what, overlap) });
        if let Some(share) = agreed.stable_share {
            let what =
                format!("{name}: share of the top {top} rows that are stable, {}", effect.name());
            findings.rows.push(Row::new(what, share));
        }
    }
    Ok(())
}
