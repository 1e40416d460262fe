//! What the experiments share: trainings side by side, settings chosen on validation, intervals over seeds.
//!
//! Interval of a mean over n seeds: mean +- t(n - 1, 0.975) s / sqrt(n), s the deviation between seeds.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use veridical::{Error, Result};
use veridical_core as core;
use veridical_core::stats::student_975;
use veridical_core::{Estimate, Job, Progress, Seed, threads};
use veridical_data::{Interactions, Split};
use veridical_embed::evaluate::{self, Protocol, Task};
use veridical_embed::fit::{FitSettings, Fitted, Nowhere, fit};
use veridical_embed::{Graphs, Input, Method, Model, Trainer};

use crate::Row;

/// The settings of a training.
pub type Settings = Map<String, Value>;

/// What is learned from, and how it is evaluated.
pub struct Problem {
    pub data: Interactions,
    /// By name; `""` has none.
    pub graphs: BTreeMap<String, Graphs>,
    pub evaluated: Evaluated,
}

/// How a model is evaluated.
#[derive(Clone, Copy)]
pub enum Evaluated {
    /// Root mean squared error of ratings.
    Rmse,
    /// Measures of full rankings, by their names, at these lengths.
    Ranking(&'static [&'static str], &'static [usize]),
}

impl Evaluated {
    /// What is measured, under the names of the tables.
    pub fn measures(self) -> &'static [&'static str] {
        match self {
            Self::Rmse => &["RMSE"],
            Self::Ranking(names, _) => names,
        }
    }

    /// 1 if more is better, -1 if less is.
    pub const fn sign(self) -> f64 {
        match self {
            Self::Rmse => -1.0,
            Self::Ranking(..) => 1.0,
        }
    }
}

impl Problem {
    pub fn new(data: Interactions, graphs: Vec<(String, Graphs)>, evaluated: Evaluated) -> Self {
        let mut graphs: BTreeMap<String, Graphs> = graphs.into_iter().collect();
        graphs.insert(String::new(), Graphs::default());
        Self { data, graphs, evaluated }
    }

    /// The measures of a model on the `relevant` rows; what was learned from is not ranked.
    pub fn evaluate(
        &self,
        model: &Model,
        train: &[u32],
        relevant: &[u32],
        job: &Job<'_>,
    ) -> Result<Vec<f64>> {
        let data = &self.data;
        match self.evaluated {
            Evaluated::Rmse => {
                let of = |values: &[u32]| -> Vec<u32> {
                    relevant.iter().map(|&r| values[r as usize]).collect()
                };
                let rating = data.rating.as_deref().unwrap_or_default();
                let rating: Vec<f32> = relevant.iter().map(|&r| rating[r as usize]).collect();
                let report = evaluate::ratings(model, &of(&data.user), &of(&data.item), &rating)?;
                Ok(vec![report.rmse.value])
            }
            Evaluated::Ranking(names, ks) => {
                let parts = [train, &[], relevant];
                Ok(ranked(model, data, parts, names, ks, &[Protocol::Full], job)?.swap_remove(0))
            }
        }
    }
}

/// Measures of the rankings of the third part of the rows, by protocol; what was learned from (the first part) and what is aside (the
/// second) is not ranked.
pub fn ranked(
    model: &Model,
    data: &Interactions,
    [train, aside, relevant]: [&[u32]; 3],
    names: &[&str],
    ks: &[usize],
    protocols: &[Protocol],
    job: &Job<'_>,
) -> veridical_embed::Result<Vec<Vec<f64>>> {
    let sequences = data.sequences(&[train, aside].concat());
    let [train, aside, relevant] = [train, aside, relevant].map(|rows| data.by_user(rows));
    let (sequences, aside) = (Some(&sequences), Some(&aside));
    let task = Task { train: &train, sequences, aside, relevant: &relevant, keep_history: false };
    let settings =
        evaluate::Settings { ks: ks.to_vec(), protocols: protocols.to_vec(), seed: Seed::new(0)? };
    let report = evaluate::ranking(&*model.scorer()?, &task, &settings, job)?;
    let value = |protocol: &Protocol, name: &str| {
        let found = report.get(&protocol.to_string(), name).map(|estimate| estimate.value);
        let missing = || core::Error::missing(format!("there is no measure `{name}`"), "");
        Ok(found.ok_or_else(missing)?)
    };
    protocols.iter().map(|p| names.iter().map(|name| value(p, name)).collect()).collect()
}

/// Trains to the last epoch, or until the loss has settled; `each` sees the number of epochs done, the loss and the trainer after
/// every epoch. Nobody is told.
pub fn epochs(
    trainer: &mut dyn Trainer,
    job: &Job<'_>,
    each: impl FnMut(u32, Option<f64>, &dyn Trainer) -> Result<()>,
) -> Result<Fitted> {
    fit(trainer, FitSettings::default(), None, None::<&Nowhere>, None, &job.quiet(), each)
}

/// One training.
#[derive(Clone, Copy)]
pub struct Fit<'a> {
    pub problem: &'a Problem,
    pub method: Method,
    pub settings: &'a Settings,
    pub graphs: &'a str,
    pub rows: &'a [u32],
    pub seed: u64,
    pub job: &'a Job<'a>,
}

impl Fit<'_> {
    /// Trains; `each` as in [`epochs`].
    pub fn run(
        &self,
        each: impl FnMut(u32, Option<f64>, &dyn Trainer) -> Result<()>,
    ) -> Result<Model> {
        let Self { problem, method, settings, rows, seed, .. } = *self;
        let graphs = problem.graphs.get(self.graphs).ok_or_else(|| {
            let what = format!("the configuration is damaged: there is no graph `{}`", self.graphs);
            core::Error::damaged(what, "")
        })?;
        let input = Input::of(&problem.data, rows);
        let mut trainer = method.trainer(settings, input, graphs, Seed::new(seed)?)?;
        epochs(&mut *trainer, self.job, each)?;
        Ok(trainer.into_model())
    }
}

/// The best of several settings on validation, with the number of epochs in its place.
#[derive(Clone, Debug)]
pub struct Choice {
    pub settings: Settings,
    /// The measure on validation, the last of the problem's.
    pub value: f64,
}

/// Trains on the training rows and looks at validation after every `every` epochs. `None` if it diverged.
///
/// Only for schedules whose rate does not depend on how many epochs follow.
pub fn validate(fit: &Fit<'_>, validation: &[u32], every: u32) -> Result<Option<Choice>> {
    let (problem, sign) = (fit.problem, fit.problem.evaluated.sign());
    let mut best: Option<Choice> = None;
    let outcome = fit.run(|epochs, _, trainer| {
        if epochs % every == 0 {
            let values = problem.evaluate(trainer.model(), fit.rows, validation, fit.job)?;
            let value = values.last().copied().unwrap_or(f64::NAN);
            if best.as_ref().is_none_or(|best| sign * value > sign * best.value) {
                let mut settings = fit.settings.clone();
                if settings.contains_key("epochs") {
                    settings.insert("epochs".into(), epochs.into());
                }
                best = Some(Choice { settings, value });
            }
        }
        Ok(())
    });
    match outcome {
        Ok(_) => Ok(best),
        Err(Error::Embed(error)) if error.is_diverged() => Ok(None),
        Err(error) => Err(error),
    }
}

/// [`threads::side_by_side`] with a bar that counts jobs.
///
/// # Errors
/// The error of the first job that failed.
pub fn side_by_side<J: Sync, T: Send>(
    jobs: &[J],
    bar: &Progress,
    work: impl Fn(&J) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    threads::side_by_side(jobs, |job| {
        let result = work(job);
        bar.advance(1);
        result
    })
}

/// Every combination of the values that stand in lists.
pub fn grid(given: &toml::Table) -> Vec<Settings> {
    let mut all = vec![Settings::new()];
    for (name, value) in given {
        let values = match value {
            toml::Value::Array(values) => values.clone(),
            one => vec![one.clone()],
        };
        all = all
            .into_iter()
            .flat_map(|settings| {
                values.iter().map(move |value| {
                    let mut settings = settings.clone();
                    // INVARIANT: numbers, booleans and names.
                    let value = serde_json::to_value(value).expect("a TOML value is a JSON value");
                    settings.insert(name.clone(), value);
                    settings
                })
            })
            .collect();
    }
    all
}

/// Training and validation rows together: what the last word is learned from.
pub fn learned(split: &Split) -> Vec<u32> {
    let mut rows = [&split.train[..], &split.validation].concat();
    rows.sort_unstable();
    rows
}

/// t(n - 1, 0.975) for n = 2, 3, ...: `scipy.stats.t.ppf(0.975, n - 1)`.
const T: [f64; 9] = [12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622];

/// The mean over seeds with its 95 % interval; one seed alone has none.
pub fn over_seeds(values: &[f64]) -> Estimate {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 {
        return Estimate::point(mean, values.len() as u64);
    }
    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let t = T.get(values.len() - 2).copied().unwrap_or_else(|| student_975(n - 1.0));
    let half = t * (variance / n).sqrt();
    between(mean, [mean - half, mean + half], values.len())
}

/// A value of so many seeds with its interval.
pub fn between(value: f64, interval: [f64; 2], seeds: usize) -> Estimate {
    Estimate::with_interval(value, interval, seeds as u64).with_seeds(seeds as u64)
}

/// A row about a mean over seeds.
pub fn row(what: String, paper: Option<f64>, values: &[f64]) -> Row {
    Row { paper, ..Row::new(what, over_seeds(values)) }
}

/// The deviation of `a` over that of `b`, values of the same seeds, with its 95 % interval for pairs of normal
/// values (Pitman 1939; Morgan 1939): for the ratio w of variances and the correlation r of n pairs,
///
/// w (K -+ sqrt(K^2 - 1)),  K = 1 + 2 (1 - r^2) t(n - 2, 0.975)^2 / (n - 2).
///
/// `None` if all of one side are equal.
pub fn sd_ratio(a: &[f64], b: &[f64]) -> Option<Estimate> {
    let n = a.len() as f64;
    let mean = |x: &[f64]| x.iter().sum::<f64>() / n;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let product = |x: &[f64], of_x: f64, y: &[f64], of_y: f64| {
        x.iter().zip(y).map(|(x, y)| (x - of_x) * (y - of_y)).sum::<f64>()
    };
    let (aa, bb) = (product(a, mean_a, a, mean_a), product(b, mean_b, b, mean_b));
    if aa == 0.0 || bb == 0.0 {
        return None;
    }
    let w = aa / bb;
    let r2 = product(a, mean_a, b, mean_b).powi(2) / (aa * bb);
    let k = 1.0 + 2.0 * (1.0 - r2).max(0.0) * student_975(n - 2.0).powi(2) / (n - 2.0);
    // 1 / (k + root) is k - root, without its rounding.
    let wide = k + (k * k - 1.0).max(0.0).sqrt();
    Some(between(w.sqrt(), [(w / wide).sqrt(), (w * wide).sqrt()], a.len()))
}

#[cfg(test)]
mod tests {
    use veridical_core::Stream;

    use super::*;

    /// 500 samples of ten pairs with deviations 3 and 1 and correlation 0.6: the level 0.95 within four binomial
    /// errors, 0.039.
    #[test]
    fn ratios_of_deviations_are_covered_at_their_level() {
        let stream = Stream::new(Seed::new(0).unwrap(), "ratios");
        let covered = (0..500).filter(|&draw| {
            let mut normal = [0.0; 20];
            stream.at(0, draw).fill_normals(&mut normal);
            let (x, y) = normal.split_at(10);
            let a: Vec<f64> = x.iter().map(|x| 3.0 * x).collect();
            let b: Vec<f64> = x.iter().zip(y).map(|(x, y)| 0.6 * x + 0.8 * y).collect();
            let [low, high] = sd_ratio(&a, &b).unwrap().interval();
            low <= 3.0 && 3.0 <= high
        });
        let share = covered.count() as f64 / 500.0;
        assert!((share - 0.95).abs() < 0.039, "{share}");
    }

    #[test]
    fn lists_are_combined_and_single_values_kept() {
        let given: toml::Table =
            toml::from_str("dim = 4\nlr = [0.1, 0.2]\ndropout = [0.0, 0.5, 0.9]").unwrap();
        let all = grid(&given);
        assert_eq!(all.len(), 6);
        assert!(all.iter().all(|settings| settings["dim"] == 4));
        let distinct: std::collections::BTreeSet<String> =
            all.iter().map(|settings| Value::Object(settings.clone()).to_string()).collect();
        assert_eq!(distinct.len(), 6);
    }

    /// 1, 2, 3, 4, 5: mean 3, s = sqrt(2.5), 2.7764 sqrt(2.5 / 5) = 1.96321.
    #[test]
    fn intervals_follow_student() {
        let Estimate { value, low, high, n, seeds, .. } = over_seeds(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((value - 3.0).abs() < 1e-12 && (n, seeds) == (5, 5));
        assert!((high - 4.963_21).abs() < 1e-4 && (low - 1.036_79).abs() < 1e-4, "{low} {high}");
        assert_eq!(over_seeds(&[7.0]), Estimate::point(7.0, 1));
    }
}
