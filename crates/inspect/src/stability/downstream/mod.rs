//! The accuracy of downstream classifiers, for every run, split and treatment.
//!
//! Crossed design: the ids are divided into stratified folds once, and every run and treatment is scored on the same
//! folds (`variance.rs`). Penalty and bandwidth are chosen on a part of the training ids of the first run, per fold
//! and treatment, never on the test fold.
//!
//! retrained     logistic regression with an L2 penalty, k-NN and Nadaraya-Watson fitted on each run
//! not retrained the logistic regression of the first run, applied to the other runs

mod score;
mod treatment;

use rayon::prelude::*;
use serde::Serialize;
use veridical_core::{Estimate, Order, Rows, Seed};
use veridical_learn::{
    LinearMap, Logistic, LogisticSettings, Metric, knn_predict, logistic_path, nadaraya_watson,
};

pub use self::score::{accuracy, macro_f1};
pub use self::treatment::{Treated, Treatment, treatments};
use crate::stability::SharedTables;
use crate::stability::variance::Scores;

/// The penalties to try, as scikit-learn's C, strongest first.
const CS: [f64; 5] = [0.1, 1.0, 10.0, 100.0, 1000.0];
/// The bandwidths to try, in units of the median distance.
const BANDWIDTHS: [f64; 4] = [0.1, 0.2, 0.4, 0.8];
/// The k of the k-NN classifier.
const K: usize = 10;
/// One training id in this many validates penalty and bandwidth.
const VALIDATION: usize = 5;
/// Differences of mean accuracy below this are negligible.
const NEGLIGIBLE: f64 = 0.005;
/// A gain over the most frequent class up to this is chance.
const CHANCE: f64 = 0.01;

/// Labeled ids.
#[derive(Clone, Debug)]
pub struct Labeled {
    /// The row numbers among the shared ids.
    pub rows: Vec<u32>,
    /// The class of each row.
    pub labels: Vec<u32>,
    /// The number of classes.
    pub classes: usize,
}

impl Labeled {
    /// Returns the fraction of the largest class.
    pub fn majority(&self) -> f64 {
        let mut counts = vec![0usize; self.classes];
        self.labels.iter().for_each(|&class| counts[class as usize] += 1);
        counts.iter().copied().max().unwrap_or(0) as f64 / self.labels.len() as f64
    }

    /// The fold of every id: each class is divided among the folds in random order.
    fn folds(&self, folds: usize, seed: Seed) -> Vec<usize> {
        let order = Order::new(self.rows.len() as u64, seed, "folds", 0);
        let mut next = vec![0; self.classes];
        let mut fold = vec![0; self.rows.len()];
        for t in 0..self.rows.len() as u64 {
            let i = order.at(t) as usize;
            let class = self.labels[i] as usize;
            fold[i] = (next[class] + class) % folds;
            next[class] += 1;
        }
        fold
    }
}

/// The scores of a treatment.
#[derive(Clone, Debug, Serialize)]
pub struct TreatmentScores {
    /// The name of the treatment.
    pub treatment: String,
    /// The dimension of the treated vectors.
    pub dim: usize,
    /// The accuracy of logistic regression, retrained on each run.
    pub accuracy: Scores,
    /// The macro F1 of logistic regression, retrained on each run.
    pub macro_f1: Scores,
    /// The accuracy of k-NN with ten neighbors.
    pub knn: Scores,
    /// The accuracy of Nadaraya-Watson.
    pub nadaraya_watson: Scores,
    /// The accuracy of the first run's model on the other runs, not retrained; `None` for averages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unretrained: Option<Scores>,
    /// The C of every fold.
    pub penalties: Vec<f64>,
    /// The mean over runs for every fold, retrained and not, for paired comparisons.
    #[serde(skip)]
    by_fold: [Vec<f64>; 2],
}

/// The recommended treatments.
#[derive(Clone, Debug, Serialize)]
pub struct Recommendation {
    /// The treatment for consumers that retrain on every refresh.
    pub retrained: String,
    /// The mean accuracy of that treatment, retrained.
    pub retrained_accuracy: f64,
    /// The treatment for consumers that do not retrain.
    pub unretrained: String,
    /// The mean accuracy of that treatment, not retrained.
    pub unretrained_accuracy: f64,
    /// The best treatment of all, retrained and not.
    pub best: [String; 2],
}

/// The accuracy of downstream classifiers for all treatments.
#[derive(Clone, Debug, Serialize)]
pub struct Downstream {
    /// The number of labeled ids.
    pub ids: usize,
    /// The number of classes.
    pub classes: usize,
    /// The number of folds.
    pub folds: usize,
    /// The accuracy of the majority class.
    pub majority: f64,
    /// The scores of every treatment, simplest first.
    pub treatments: Vec<TreatmentScores>,
    /// The recommended treatments.
    pub recommendation: Recommendation,
}

impl Downstream {
    /// Whether no treatment beats the most frequent class: by two standard errors over folds, and by a percentage point.
    pub fn at_chance(&self) -> bool {
        self.treatments.iter().all(|t| {
            let gains = t.by_fold[0].iter().map(|accuracy| accuracy - self.majority);
            Estimate::mean(gains).is_none_or(|gain| gain.value <= (2.0 * gain.error).max(CHANCE))
        })
    }
}

/// Scores of one run under a treatment, by fold: logistic accuracy, F1, k-NN, Nadaraya-Watson, not retrained.
type RunScores = [Vec<f64>; 5];

struct Chosen {
    c: f64,
    bandwidth: f64,
    model: Logistic,
}

/// Scores every treatment on every run and fold. `done` is called after each run of a treatment.
///
/// # Errors
/// Those of the feature map.
pub fn downstream(
    runs: &SharedTables,
    maps: &[LinearMap],
    labeled: &Labeled,
    treatments: &[Treatment],
    folds: usize,
    seed: Seed,
    done: &(dyn Fn() + Sync),
) -> Result<Downstream, veridical_features::Error> {
    let fold_of = labeled.folds(folds, seed);
    let treated = Treated::new(runs, maps, &labeled.rows);
    let design = Design { labeled, fold_of: &fold_of, folds };
    let first: Vec<(RunScores, Vec<Chosen>)> = treatments
        .par_iter()
        .map(|treatment| {
            let (rows, dim) = treated.of(treatment, 0)?;
            let chosen = design.choose(&rows, dim)?;
            let scores = design.scores(&rows, dim, &chosen, true)?;
            done();
            Ok((scores, chosen))
        })
        .collect::<Result<_, veridical_features::Error>>()?;
    let others: Vec<(usize, usize)> = (0..treatments.len())
        .filter(|&t| !treatments[t].is_average())
        .flat_map(|t| (1..runs.runs.len()).map(move |r| (t, r)))
        .collect();
    let others: Vec<RunScores> = others
        .par_iter()
        .map(|&(t, r)| {
            let (rows, dim) = treated.of(&treatments[t], r)?;
            let scores = design.scores(&rows, dim, &first[t].1, false)?;
            done();
            Ok(scores)
        })
        .collect::<Result<_, veridical_features::Error>>()?;
    let mut others = others.into_iter();
    let mut all = Vec::new();
    for (treatment, (scores, chosen)) in treatments.iter().zip(first) {
        let mut of_runs = vec![scores];
        if !treatment.is_average() {
            of_runs.extend(others.by_ref().take(runs.runs.len() - 1));
        }
        let table = |which: usize, from: usize| -> Vec<Vec<f64>> {
            of_runs[from..].iter().map(|run| run[which].clone()).collect()
        };
        let unretrained = (of_runs.len() > 1).then(|| table(4, 1));
        all.push(TreatmentScores {
            treatment: treatment.name(),
            dim: treated.of(treatment, 0)?.1,
            accuracy: Scores::new(&table(0, 0)),
            macro_f1: Scores::new(&table(1, 0)),
            knn: Scores::new(&table(2, 0)),
            nadaraya_watson: Scores::new(&table(3, 0)),
            by_fold: [by_fold(&table(0, 0)), unretrained.as_deref().map_or_else(Vec::new, by_fold)],
            unretrained: unretrained.map(|table| Scores::new(&table)),
            penalties: chosen.iter().map(|chosen| chosen.c).collect(),
        });
    }
    let recommendation = recommend(&all);
    Ok(Downstream {
        ids: labeled.rows.len(),
        classes: labeled.classes,
        folds,
        majority: labeled.majority(),
        treatments: all,
        recommendation,
    })
}

fn by_fold(scores: &[Vec<f64>]) -> Vec<f64> {
    let mean = |fold: usize| scores.iter().map(|run| run[fold]).sum::<f64>() / scores.len() as f64;
    (0..scores[0].len()).map(mean).collect()
}

/// The simplest treatment that is as good as the best: its mean loss against the best, paired by fold, is within one
/// standard error or negligible. Averages are excluded because they need all runs.
fn recommend(all: &[TreatmentScores]) -> Recommendation {
    let choose = |which: usize| {
        let offered: Vec<(&TreatmentScores, &Vec<f64>)> = all
            .iter()
            .map(|t| (t, &t.by_fold[which]))
            .filter(|(t, folds)| !folds.is_empty() && !t.treatment.contains("average"))
            .collect();
        let mean = |folds: &[f64]| folds.iter().sum::<f64>() / folds.len() as f64;
        let best = offered.iter().max_by(|a, b| mean(a.1).total_cmp(&mean(b.1)))?;
        let as_good = |(_, folds): &&(&TreatmentScores, &Vec<f64>)| {
            let losses = best.1.iter().zip(folds.iter()).map(|(best, x)| best - x);
            Estimate::mean(losses).is_some_and(|loss| loss.value <= loss.error.max(NEGLIGIBLE))
        };
        let simplest = offered.iter().find(as_good).unwrap_or(best);
        let name = |t: &TreatmentScores| t.treatment.clone();
        Some((name(simplest.0), mean(simplest.1), name(best.0)))
    };
    let (retrained, retrained_accuracy, best) = choose(0).unwrap_or_default();
    let (unretrained, unretrained_accuracy, best_unretrained) = choose(1).unwrap_or_default();
    Recommendation {
        retrained,
        retrained_accuracy,
        unretrained,
        unretrained_accuracy,
        best: [best, best_unretrained],
    }
}

/// The crossed design: the same folds for all runs and treatments.
struct Design<'a> {
    labeled: &'a Labeled,
    fold_of: &'a [usize],
    folds: usize,
}

/// The rows and labels of some ids.
struct Part {
    rows: Vec<f32>,
    labels: Vec<u32>,
}

impl Design<'_> {
    fn part(&self, rows: &[f32], dim: usize, ids: impl Iterator<Item = usize>) -> Part {
        let mut part = Part { rows: Vec::new(), labels: Vec::new() };
        for i in ids {
            part.rows.extend_from_slice(&rows[i * dim..][..dim]);
            part.labels.push(self.labeled.labels[i]);
        }
        part
    }

    fn inside(&self, fold: usize) -> impl Iterator<Item = usize> + Clone + '_ {
        (0..self.fold_of.len()).filter(move |&i| self.fold_of[i] == fold)
    }

    fn outside(&self, fold: usize) -> impl Iterator<Item = usize> + Clone + '_ {
        (0..self.fold_of.len()).filter(move |&i| self.fold_of[i] != fold)
    }

    fn fit(&self, part: &Part, dim: usize, c: f64) -> veridical_core::Result<Logistic> {
        let settings = LogisticSettings { c, ..LogisticSettings::default() };
        Logistic::fit(
            Rows::new(&part.rows, dim)?,
            &part.labels,
            self.labeled.classes,
            &settings,
            None,
        )
    }

    /// Chooses penalty, bandwidth and model of every fold from its training ids.
    fn choose(&self, rows: &[f32], dim: usize) -> veridical_core::Result<Vec<Chosen>> {
        let classes = self.labeled.classes;
        let length_scale = median_distance(rows, dim);
        (0..self.folds)
            .map(|fold| {
                let ids = self.outside(fold).enumerate();
                let pick = |of: fn(usize) -> bool| {
                    let ids = ids.clone().filter(move |&(at, _)| of(at)).map(|(_, i)| i);
                    self.part(rows, dim, ids)
                };
                let fitting = pick(|at| at % VALIDATION != 0);
                let validation = pick(|at| at % VALIDATION == 0);
                let settings = LogisticSettings::default();
                let path = logistic_path(
                    Rows::new(&fitting.rows, dim)?,
                    &fitting.labels,
                    classes,
                    &settings,
                    &CS,
                )?;
                let answers = path.iter().map(|model| model.predict(&validation.rows));
                let c = CS[best(answers.map(|answer| accuracy(&validation.labels, &answer)))];
                let validation_rows = Rows::new(&validation.rows, dim)?;
                let scores = BANDWIDTHS.iter().map(|bandwidth| {
                    let l = bandwidth * length_scale;
                    let (train, labels) = (Rows::new(&fitting.rows, dim)?, &fitting.labels);
                    let answer = nadaraya_watson(train, labels, classes, validation_rows, l)?;
                    Ok(accuracy(&validation.labels, &answer))
                });
                let scores = scores.collect::<veridical_core::Result<Vec<f64>>>()?;
                let bandwidth = BANDWIDTHS[best(scores.into_iter())] * length_scale;
                let model = self.fit(&self.part(rows, dim, self.outside(fold)), dim, c)?;
                Ok(Chosen { c, bandwidth, model })
            })
            .collect()
    }

    fn scores(
        &self,
        rows: &[f32],
        dim: usize,
        chosen: &[Chosen],
        own: bool,
    ) -> veridical_core::Result<RunScores> {
        let classes = self.labeled.classes;
        let mut scores: RunScores = Default::default();
        for (fold, chosen) in chosen.iter().enumerate() {
            let train = self.part(rows, dim, self.outside(fold));
            let test = self.part(rows, dim, self.inside(fold));
            let truth = &test.labels;
            let borrowed = chosen.model.predict(&test.rows);
            let answer = if own {
                borrowed.clone()
            } else {
                self.fit(&train, dim, chosen.c)?.predict(&test.rows)
            };
            let (rows, labels) = (Rows::new(&train.rows, dim)?, &train.labels);
            let tested = Rows::new(&test.rows, dim)?;
            let votes = knn_predict(rows, labels, classes, tested, K, Metric::Cosine)?;
            let smooth = nadaraya_watson(rows, labels, classes, tested, chosen.bandwidth)?;
            scores[0].push(accuracy(truth, &answer));
            scores[1].push(macro_f1(truth, &answer, classes));
            scores[2].push(accuracy(truth, &votes));
            scores[3].push(accuracy(truth, &smooth));
            scores[4].push(accuracy(truth, &borrowed));
        }
        Ok(scores)
    }
}

/// The position of the first maximum.
fn best(scores: impl Iterator<Item = f64>) -> usize {
    let first_largest = |best: (usize, f64), (i, score): (usize, f64)| {
        if score > best.1 { (i, score) } else { best }
    };
    scores.enumerate().fold((0, f64::NEG_INFINITY), first_largest).0
}

/// The median distance of each row to the row n / 2 further on: a scale without all pairs.
fn median_distance(rows: &[f32], dim: usize) -> f64 {
    let n = rows.len() / dim;
    let row = |i: usize| &rows[(i % n) * dim..][..dim];
    let distance = |i: usize| {
        let squares = row(i).iter().zip(row(i + n / 2)).map(|(a, b)| f64::from(a - b).powi(2));
        squares.sum::<f64>().sqrt()
    };
    let mut distances: Vec<f64> = (0..n).map(distance).collect();
    let median = veridical_core::stats::median(&mut distances).unwrap_or(1.0);
    if median > 0.0 { median } else { 1.0 }
}
