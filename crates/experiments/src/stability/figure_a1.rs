//! Figure A.1: the last hidden layer of a bidirectional network over film reviews moves from run to run.
//!
//! v = mean over reviews and units of the unbiased variance over runs of a unit's activation, as in figure 1.

use std::path::Path;

use serde::Deserialize;
use veridical::net::text::{Parts, TextNetOptions, TextRecipe};
use veridical::settings::Vocabulary;
use veridical::{Error, Result};
use veridical_core::{Error as CoreError, Order, Seed};
use veridical_nets::EmbeddingTable;
use veridical_nets::fit::{Course, DocumentLearner, first_vectors, fit};

use super::figure1::{
    estimated, mean_square, mean_variance, one_mode, over_runs, quantiles, select, variances,
};
use super::{sd_row, words};
use crate::lab::{self, row};
use crate::{Chart, Experiment, Findings, Row, RunOptions, Series};

pub(crate) const FIGURE_A1: Experiment = Experiment {
    id: ID,
    claim: "Paper 000, figure A.1: over ten trainings of a bidirectional network on IMDB reviews (a) the coordinates of the last \
        hidden layer vary widely while (b) loss and accuracy agree, though less than on MovieLens-1M, and (c) the variances \
        grow as training goes on and have one mode",
    rule: "replicated if (a) the interval of the deviation over runs of a coordinate, relative to its root mean square size, lies \
        above 0.5; (b) that of the deviation of the last epoch's accuracy below 1 point, and that of the deviation of its loss \
        relative to its mean above that of 000-figure1, 0.00292; (c) for successive epochs of 1, 2, 5, 10 the interval of the \
        ratio of variances lies above 1, and the dip test does not reject one mode at 5 %; partly if only some hold; refuted if \
        none. Intervals are 95 %, jackknife over runs, chi-square for loss and accuracy",
    deviations: &[
        "the paper shows pictures and no numbers: the limits are ours, 0.5 and 1 those of 000-figure1",
        "10,000 of the 50,000 reviews; 9,000 to learn from, and the hidden layer is that of the other 1,000",
        "an LSTM of 16 in each direction before the dense layer of 32, the tutorial has 64; the first 128 words of a review; Adam \
         with rate 1e-3 in place of 1e-4, as an epoch is a fifth as long; 10 epochs without early stopping, so that all runs are \
         compared at the same epochs",
        "loss and accuracy are those of the training reviews in the last epoch",
        "one mode: of the variances of 2,000 coordinates drawn at random, which are not independent",
    ],
    config: include_str!("../../../../experiments/000-figureA1/config.toml"),
    run,
};

const ID: &str = "000-figureA1";
/// The upper end of the same interval on MovieLens-1M: row (b) of 000-figure1.
const MOVIES: f64 = 0.002_92;
/// The last hidden layer of the network of paper 000, figure A.6.
const HIDDEN: &str = "relu";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    seeds: u64,
    quick_seeds: u64,
    /// Epochs that are looked at, the last one the end.
    epochs: Vec<u32>,
    quick_epochs: Vec<u32>,
    /// Reviews shown one by one.
    shown: u64,
    /// Coordinates whose variances are tested for one mode.
    modes: usize,
    test_share: f64,
    min_count: u64,
    network: TextRecipe,
}

/// One training.
struct Trained {
    /// The hidden layer after the epochs that are looked at.
    after: Vec<Vec<f32>>,
    /// Loss and accuracy in points of every epoch.
    losses: Vec<f64>,
    accuracies: Vec<f64>,
}

fn run(config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let config: Config = toml::from_str(config)
        .map_err(|e| CoreError::damaged(format!("{ID}: the configuration is damaged: {e}"), ""))?;
    let (seeds, epochs) = match options.quick {
        true => (config.quick_seeds, &config.quick_epochs),
        false => (config.seeds, &config.epochs),
    };
    let division = TextNetOptions {
        test_share: Some(config.test_share),
        validation: None,
        vocabulary: Vocabulary { min_count: Some(config.min_count) },
        ..TextNetOptions::default()
    };
    let texts = words::reviews(options)?;
    let parts = Parts::new(&texts, &division, Path::new(""), config.network.max_length)?;
    let seeds: Vec<u64> = (0..seeds).collect();
    let bar = options.job.progress("training", "models", Some(seeds.len() as u64));
    let trained = lab::side_by_side(&seeds, &bar, |&seed| {
        train(&config.network, &parts, epochs, Seed::new(seed)?, options)
    })?;
    let dim = trained[0].after[0].len() / parts.test.len();
    let mut findings = Findings::default();
    converged(&trained, &mut findings);
    growth(&trained, epochs, &mut findings)?;
    let last: Vec<Vec<f32>> = trained.iter().filter_map(|t| t.after.last().cloned()).collect();
    let relative = over_runs(last.len(), |kept| {
        let kept = select(&last, kept);
        (mean_variance(&kept) / mean_square(&kept)).sqrt()
    })?;
    let what = "(a) sd of a coordinate over runs relative to its size".to_owned();
    findings.rows.push(estimated(what, relative, Some(relative.low > 0.5)));
    let all: Vec<&[f32]> = last.iter().map(|table| &table[..]).collect();
    let all = variances(&all);
    let [dip, p] = one_mode(&all, config.modes)?;
    let what = "(c) dip of the variances of coordinates".to_owned();
    findings.rows.push(estimated(what, dip, None));
    let what = "(c) p of one mode of these variances".to_owned();
    findings.rows.push(estimated(what, p, Some(p.value >= 0.05)));
    shown(&all, dim, config.shown, &mut findings)?;
    Ok(findings)
}

fn train(
    recipe: &TextRecipe,
    parts: &Parts,
    epochs: &[u32],
    seed: Seed,
    options: &RunOptions<'_>,
) -> Result<Trained> {
    let Parts { train, test, classes, vocabulary, .. } = parts;
    let last = epochs.last().copied().unwrap_or(1);
    let recipe = TextRecipe { epochs: last, ..recipe.clone() }.settled(train.len(), None)?;
    let (loss, outputs) = TextRecipe::loss(classes.len());
    let first = first_vectors(vocabulary.words().len() + 1, recipe.dim(), seed);
    let table = EmbeddingTable::new(recipe.dim(), first, &recipe.optimizer())?;
    let settings = recipe.training(loss, train.len());
    let net = recipe.net(outputs, seed)?;
    let words = (table, true);
    let mut learner = DocumentLearner::new(net, settings, words, train, None, classes.len())?;
    let job = options.job.quiet();
    let mut trained = Trained { after: Vec::new(), losses: Vec::new(), accuracies: Vec::new() };
    for epoch in 1..=last {
        // The learner counts its steps, so this goes on where the epoch before ended.
        let course = Course { has_classes: true, ..Course::new(train.len(), epoch, seed) };
        let learned = fit::<Error>(&course, &mut learner, None, None, &job)?;
        trained.losses.extend(learned.loss);
        trained.accuracies.extend(learned.accuracy.map(|share| 100.0 * share));
        if epochs.contains(&epoch) {
            trained.after.push(learner.hidden(HIDDEN, test, &job)?);
        }
    }
    Ok(trained)
}

/// (b)
fn converged(trained: &[Trained], findings: &mut Findings) {
    let last = |of: fn(&Trained) -> &Vec<f64>| -> Vec<f64> {
        trained.iter().filter_map(|t| of(t).last().copied()).collect()
    };
    let (losses, accuracies) = (last(|t| &t.losses), last(|t| &t.accuracies));
    findings.rows.push(row("(b) loss of the last epoch".into(), None, &losses));
    let center = losses.iter().sum::<f64>() / losses.len() as f64;
    let relative: Vec<f64> = losses.iter().map(|loss| loss / center).collect();
    let what = "(b) sd of the last loss over runs, relative to its mean".to_owned();
    let sd = sd_row(what, None, &relative);
    findings.rows.push(Row { holds: Some(sd.measured.low > MOVIES), ..sd });
    findings.rows.push(row("(b) accuracy of the last epoch".into(), None, &accuracies));
    let sd = sd_row("(b) sd of the last accuracy over runs".into(), None, &accuracies);
    findings.rows.push(Row { holds: Some(sd.measured.high < 1.0), ..sd });
    for name in ["loss", "accuracy"] {
        let series = |(seed, trained): (usize, &Trained)| {
            let values = if name == "loss" { &trained.losses } else { &trained.accuracies };
            let points = values.iter().enumerate().map(|(e, &y)| [e as f64 + 1.0, y]);
            Series { name: format!("seed {seed}"), points: points.collect() }
        };
        let series = trained.iter().enumerate().map(series).collect();
        let caption = format!("(b) Training {name} of every run");
        findings.charts.push(Chart::lines(caption, ["epoch", name], series));
    }
}

/// (c)
fn growth(trained: &[Trained], epochs: &[u32], findings: &mut Findings) -> Result<()> {
    let runs = trained.len();
    let tables: Vec<Vec<Vec<f32>>> =
        (0..epochs.len()).map(|at| trained.iter().map(|t| t.after[at].clone()).collect()).collect();
    let mut series = Vec::new();
    for (epoch, tables) in epochs.iter().zip(&tables) {
        let variance = over_runs(runs, |kept| mean_variance(&select(tables, kept)))?;
        let what = format!("(c) variance of a coordinate over runs, epoch {epoch}");
        findings.rows.push(estimated(what, variance, None));
        let size = over_runs(runs, |kept| mean_square(&select(tables, kept)))?;
        let what = format!("(c) mean square of a coordinate, epoch {epoch}");
        findings.rows.push(estimated(what, size, None));
        let all: Vec<usize> = (0..runs).collect();
        let mut all = variances(&select(tables, &all));
        series.push(quantiles(format!("epoch {epoch}"), &mut all));
    }
    for (epochs, pair) in epochs.windows(2).zip(tables.windows(2)) {
        let ratio = over_runs(runs, |kept| {
            mean_variance(&select(&pair[1], kept)) / mean_variance(&select(&pair[0], kept))
        })?;
        let what = format!("(c) variance at epoch {} / epoch {}", epochs[1], epochs[0]);
        findings.rows.push(estimated(what, ratio, Some(ratio.low > 1.0)));
    }
    let caption = "(c) Quantiles of the variances of coordinates over runs".to_owned();
    findings.charts.push(Chart::lines(caption, ["share of coordinates", "variance"], series));
    Ok(())
}

/// (a)
fn shown(variances: &[f64], dim: usize, shown: u64, findings: &mut Findings) -> Result<()> {
    let n = (variances.len() / dim) as u64;
    let order = Order::new(n, Seed::new(0)?, "reproduce/reviews", 0);
    let series = (0..shown.min(n)).map(|t| order.at(t) as usize).map(|review| {
        let of = &variances[review * dim..][..dim];
        let points = of.iter().enumerate().map(|(k, &v)| [k as f64 + 1.0, v]).collect();
        Series { name: format!("review {review}"), points }
    });
    let caption = "(a) Variance over runs of every dimension of some reviews".to_owned();
    let chart = Chart::lines(caption, ["dimension", "variance"], series.collect());
    findings.charts.push(chart);
    Ok(())
}
