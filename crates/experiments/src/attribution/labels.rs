//! Wrong labels found from one training, against networks that are trained on the other rows.
//!
//! A share of the labels is flipped and a network learns all of them. Scores of a row:
//!   removal      largest output of kernel ridge on trNTK for another class less that for the label, without the row
//!   5-fold       the same of the log-probabilities of a network that was trained without the fold of the row, or less the probability
//!                of the label alone (the self-confidence of confident learning; Northcutt et al. 2021): the better of both
//!   own loss     the cross-entropy of the row under the network that has learned it
//! Average precision: rows in the order of the score, flipped ones are relevant.

use serde::{Deserialize, Serialize};
use serde_json::json;
use veridical::Result;
use veridical_core::{Error as CoreError, Job, Order, Rows, Seed};
use veridical_inspect::labels::{average_precision, left_out_scores, one_hot, plant, suspects};
use veridical_inspect::surrogate::log_odds;
use veridical_kernels::machine::{Ridge, softmax};
use veridical_kernels::tangent::Kind;

use super::effects::Kernels;
use super::network::{Training, World, accuracy, labels};
use crate::lab::{self, row};
use crate::{Chart, Experiment, Findings, RunOptions, Series, queue};

pub(crate) const LABELS: Experiment = Experiment {
    id: "labels",
    claim: "Wrong labels are found from one trained network, by leaving every row out of kernel ridge on its tangent kernel, at no lower \
        average precision than by five retrainings",
    rule: "replicated if, for every data set and share of flips, the 95 % interval over seeds of the difference of the average precision \
        (removal less the better of the two scores of 5-fold retraining, on the same flips) lies above 0; partly if only some do; \
        refuted if none does. The loss of the network itself and the accuracies are reported without a claim",
    deviations: &[
        "no paper claims this: it is the promise of `explain labels`",
        "2,000 rows; mlp:64,64, Adam 1e-3, batches of 32, 40 epochs, so that the network learns wrong labels too; the same network in \
         every fold; lambda is one mean diagonal",
        "Sentiment140: vectors of all-MiniLM-L6-v2; its labels come from emoticons and are wrong in places that nobody has marked, \
         which counts against every score alike",
        "the better of two scores is taken for the retrainings only",
    ],
    config: include_str!("../../../../experiments/labels/config.toml"),
    run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    data: Vec<String>,
    quick_data: Vec<String>,
    n: usize,
    quick_n: usize,
    shares: Vec<f64>,
    quick_shares: Vec<f64>,
    seeds: u64,
    quick_seeds: u64,
    folds: usize,
    training: Training,
    quick_training: Training,
}

/// Test rows, for the accuracy of the network.
const QUERIES: usize = 500;

/// Average precisions of one draw of flips, and the accuracies of the network that learned them.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Found {
    removal: f64,
    margin: f64,
    confidence: f64,
    loss: f64,
    train: f64,
    test: f64,
}

impl Found {
    fn folds(&self) -> f64 {
        self.margin.max(self.confidence)
    }
}

fn run(config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let config: Config = toml::from_str(config).map_err(|e| {
        CoreError::damaged(format!("labels: the configuration is damaged: {e}"), "")
    })?;
    let (data, n, shares, seeds, training) = match options.quick {
        true => (
            &config.quick_data,
            config.quick_n,
            &config.quick_shares,
            config.quick_seeds,
            &config.quick_training,
        ),
        false => (&config.data, config.n, &config.shares, config.seeds, &config.training),
    };
    let mut findings = Findings::default();
    for name in data {
        let queries = if options.quick { n } else { QUERIES };
        let world = World::new(name, n, queries, options)?;
        let jobs: Vec<(f64, u64)> =
            shares.iter().flat_map(|&share| (0..seeds).map(move |seed| (share, seed))).collect();
        let bar =
            options.job.progress(&format!("flips in {name}"), "draws", Some(jobs.len() as u64));
        let found = lab::side_by_side(&jobs, &bar, |&(share, seed)| {
            let key = json!({ "labels": name, "n": n, "share": share, "seed": seed, "folds": config.folds,
                "training": training, "quick": options.quick });
            let done = queue::once(options.keep, &key, || {
                one(&world, share, seed, config.folds, training, options.job)
            })?;
            Ok(done.value)
        })?;
        drop(bar);
        report(name, shares, &found, seeds as usize, &mut findings);
    }
    Ok(findings)
}

fn one(
    world: &World,
    share: f64,
    seed: u64,
    folds: usize,
    training: &Training,
    job: &Job<'_>,
) -> Result<Found> {
    let (n, classes) = (world.train.n(), world.classes);
    let planted = plant(labels(&world.train), classes, share, Seed::new(seed)?)?;
    let given = &planted.labels;
    let all: Vec<u32> = (0..n as u32).collect();
    let net = world.trained(&all, given, training, seed, job)?;
    let own = world.logits(&net, &world.train, job)?;
    let test = world.logits(&net, &world.queries, job)?;
    let kernel = Kernels::of_train_alone(world, &net, Kind::Trntk, job)?;
    let targets = one_hot(given, classes)?;
    let lambda = kernel.lambda();
    let ridge = Ridge::fit(kernel.of_train()?, Rows::new(&targets, classes)?, lambda, None)?;
    let left_out = left_out_scores(&ridge, &targets);
    let ranked = suspects(Rows::new(&left_out, classes)?, given);
    let is_planted = |row: u32| planted.rows.binary_search(&row).is_ok();
    let removal = average_precision(ranked.iter().map(|suspect| is_planted(suspect.row)));
    let outside = by_folds(world, given, seed, folds, training, job)?;
    // Strongest first; the earlier row on ties.
    let ranking = |score: &dyn Fn(usize) -> f64| {
        let scores: Vec<f64> = (0..n).map(score).collect();
        let mut order = all.clone();
        order.sort_by(|&a, &b| scores[b as usize].total_cmp(&scores[a as usize]).then(a.cmp(&b)));
        average_precision(order.into_iter().map(is_planted))
    };
    let of = |logits: &'_ [f64], i: usize| logits[i * classes..][..classes].to_vec();
    let margin = ranking(&|i| {
        let logits = of(&outside, i);
        let label = given[i] as usize;
        let others = logits.iter().enumerate().filter(|(c, _)| *c != label);
        others.fold(f64::NEG_INFINITY, |m, (_, x)| m.max(*x)) - logits[label]
    });
    let confidence = ranking(&|i| -softmax(&of(&outside, i), classes)[given[i] as usize]);
    let loss = ranking(&|i| -log_odds(&of(&own, i), given[i]));
    let (train, test) = (accuracy(&own, given), accuracy(&test, labels(&world.queries)));
    Ok(Found { removal, margin, confidence, loss, train, test })
}

/// The logits of every row under a network that was trained without its fold.
fn by_folds(
    world: &World,
    given: &[u32],
    seed: u64,
    folds: usize,
    training: &Training,
    job: &Job<'_>,
) -> Result<Vec<f64>> {
    let (n, classes) = (world.train.n(), world.classes);
    let order = Order::new(n as u64, Seed::new(seed)?, "experiment/folds", 0);
    let mut fold_of = vec![0; n];
    (0..n as u64).for_each(|t| fold_of[order.at(t) as usize] = t as usize % folds);
    let mut logits = vec![0.0; n * classes];
    for fold in 0..folds {
        let others: Vec<u32> = (0..n as u32).filter(|&i| fold_of[i as usize] != fold).collect();
        let own: Vec<usize> = (0..n).filter(|&i| fold_of[i] == fold).collect();
        let net = world.trained(&others, given, training, seed, job)?;
        let found = world.logits(&net, &world.train.subset(&own), job)?;
        for (&i, found) in own.iter().zip(found.chunks_exact(classes)) {
            logits[i * classes..][..classes].copy_from_slice(found);
        }
    }
    Ok(logits)
}

fn report(name: &str, shares: &[f64], found: &[Found], seeds: usize, findings: &mut Findings) {
    type Of = fn(&Found) -> f64;
    let kinds: [(&str, Of); 3] = [
        ("removal from kernel ridge", |f| f.removal),
        ("5-fold retraining, the better score", Found::folds),
        ("the loss of the network itself", |f| f.loss),
    ];
    let mut lines: Vec<Series> =
        kinds.iter().map(|(kind, _)| Series { name: (*kind).into(), points: Vec::new() }).collect();
    for (share, found) in shares.iter().zip(found.chunks_exact(seeds)) {
        let at = format!("{name}, {} % flipped", 100.0 * share);
        let all = |of: Of| -> Vec<f64> { found.iter().map(of).collect() };
        for ((kind, of), line) in kinds.iter().zip(&mut lines) {
            let one = row(format!("{at}: average precision, {kind}"), None, &all(*of));
            line.points.push([100.0 * share, one.measured.value]);
            findings.rows.push(one);
        }
        let mut gain = row(
            format!("{at}: removal less 5-fold retraining"),
            None,
            &all(|f| f.removal - f.folds()),
        );
        gain.holds = Some(gain.measured.low > 0.0);
        findings.rows.push(gain);
        let accuracies: [(&str, Of); 2] = [
            ("accuracy on the given labels, %", |f| 100.0 * f.train),
            ("accuracy on test rows, %", |f| 100.0 * f.test),
        ];
        for (what, of) in accuracies {
            findings.rows.push(row(format!("{at}: {what}"), None, &all(of)));
        }
    }
    let axes = ["labels flipped, %", "average precision, mean over seeds"];
    findings.charts.push(Chart::lines(format!("{name}: flipped labels found"), axes, lines));
}
