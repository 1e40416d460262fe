//! A consumer as paper 000, F.2 has it: scikit-learn's logistic regression as it comes, without validation, on
//! random splits of the items into 80 % and 20 %.
//!
//! Crossed design: S splits, the same for all runs, give a score y_rs each. From one table come
//!
//! one split   y_r0, what ten runs on one split spread
//! redrawn     y_rr, another split for every run
//! mean        the mean over s, and components of variance (`veridical_inspect::Scores`)

use rayon::prelude::*;
use veridical::Result;
use veridical_core::{Job, Order, Seed};
use veridical_inspect::{Scores, accuracy, macro_f1};
use veridical_learn::{Logistic, LogisticSettings, OneVsRest};

use super::world::World;

/// Of so many items one is tested.
const TESTED: usize = 5;

/// The defaults of scikit-learn's `LogisticRegression` (lbfgs, tol = 1e-4, max_iter = 100) with this C; its own is 1.
pub fn as_it_comes(c: f64) -> LogisticSettings {
    LogisticSettings { c, tolerance: 1e-4, max_iterations: 100 }
}

/// What is predicted.
#[derive(Clone, Copy, PartialEq)]
pub enum Target {
    /// The first class.
    First,
    /// All classes, each by itself.
    Sets,
}

/// Numbers of the labeled items.
struct Split {
    train: Vec<usize>,
    test: Vec<usize>,
}

/// Splits of the labeled items of a world.
pub struct Evaluator<'a> {
    world: &'a World,
    splits: Vec<Split>,
    job: &'a Job<'a>,
}

/// Scores of runs by splits, in points (0 to 100).
pub struct Evaluated {
    /// Share of right answers; of sets that are exactly right.
    pub accuracy: Vec<Vec<f64>>,
    /// Mean F1 over classes.
    pub macro_f1: Vec<Vec<f64>>,
    /// Accuracy of the first run's model on the other runs.
    pub unretrained: Vec<Vec<f64>>,
}

/// Vectors of a run and their width.
pub type Rows = (Vec<f32>, usize);

impl<'a> Evaluator<'a> {
    pub fn new(world: &'a World, splits: u64, job: &'a Job<'a>) -> Result<Self> {
        let n = world.first.rows.len();
        let split = |seed: u64| {
            let order = Order::new(n as u64, Seed::new(seed)?, "reproduce/split", 0);
            let mut items = (0..n as u64).map(|t| order.at(t) as usize);
            let mut test: Vec<usize> = items.by_ref().take(n / TESTED).collect();
            let mut train: Vec<usize> = items.collect();
            test.sort_unstable();
            train.sort_unstable();
            Ok(Split { train, test })
        };
        Ok(Self { world, splits: (0..splits).map(split).collect::<Result<_>>()?, job })
    }

    /// Scores of all runs. `rows` gives the labeled items of a run.
    pub fn evaluate(
        &self,
        runs: usize,
        rows: impl Fn(usize) -> Result<Rows> + Sync,
        target: Target,
        settings: &LogisticSettings,
    ) -> Result<Evaluated> {
        let first = rows(0)?;
        let fits: Vec<Fit> = self
            .splits
            .par_iter()
            .map(|split| self.fit(&first, split, target, settings))
            .collect::<Result<_>>()?;
        let of_run = |run: usize| -> Result<Vec<[f64; 3]>> {
            self.job.check()?;
            let rows = if run == 0 { first.clone() } else { rows(run)? };
            let of_split = |(split, borrowed): (&Split, &Fit)| -> Result<[f64; 3]> {
                let own =
                    (run > 0).then(|| self.fit(&rows, split, target, settings)).transpose()?;
                let old = self.scores(borrowed, &rows, split, target);
                let new = own.map_or(old, |own| self.scores(&own, &rows, split, target));
                Ok([new[0], new[1], old[0]])
            };
            self.splits.par_iter().zip(&fits).map(of_split).collect()
        };
        let all: Vec<Vec<[f64; 3]>> =
            (0..runs).into_par_iter().map(of_run).collect::<Result<_>>()?;
        let table = |which: usize, from: usize| -> Vec<Vec<f64>> {
            all[from..].iter().map(|run| run.iter().map(|s| 100.0 * s[which]).collect()).collect()
        };
        Ok(Evaluated {
            accuracy: table(0, 0),
            macro_f1: table(1, 0),
            unretrained: table(2, 1.min(runs)),
        })
    }

    fn fit(
        &self,
        rows: &Rows,
        split: &Split,
        target: Target,
        settings: &LogisticSettings,
    ) -> Result<Fit> {
        let (train, world) = (gather(rows, &split.train), self.world);
        let train = veridical_core::Rows::new(&train, rows.1)?;
        Ok(match target {
            Target::First => {
                let labels = pick(&world.first.labels, &split.train);
                let classes = world.first.classes;
                Fit::One(Logistic::fit(train, &labels, classes, settings, None)?)
            }
            Target::Sets => {
                let sets = pick(&world.sets, &split.train);
                Fit::Many(OneVsRest::fit(train, &sets, world.n_classes, settings)?)
            }
        })
    }

    /// Accuracy and macro F1.
    fn scores(&self, fit: &Fit, rows: &Rows, split: &Split, target: Target) -> [f64; 2] {
        let (test, world) = (gather(rows, &split.test), self.world);
        match fit {
            Fit::One(fit) => {
                debug_assert!(target == Target::First);
                let (truth, answer) = (pick(&world.first.labels, &split.test), fit.predict(&test));
                [accuracy(&truth, &answer), macro_f1(&truth, &answer, world.first.classes)]
            }
            Fit::Many(fit) => {
                let (truth, answer) = (pick(&world.sets, &split.test), fit.predict(&test));
                sets_scores(&truth, &answer, world.n_classes)
            }
        }
    }
}

enum Fit {
    One(Logistic),
    Many(OneVsRest),
}

fn gather((rows, dim): &Rows, items: &[usize]) -> Vec<f32> {
    items.iter().flat_map(|&i| &rows[i * dim..][..*dim]).copied().collect()
}

fn pick<T: Clone>(values: &[T], items: &[usize]) -> Vec<T> {
    items.iter().map(|&i| values[i].clone()).collect()
}

/// The share of sets that are exactly right, and the mean F1 of classes that are true or answered somewhere.
fn sets_scores(truth: &[Vec<u32>], answer: &[Vec<u32>], classes: usize) -> [f64; 2] {
    let right = truth.iter().zip(answer).filter(|(a, b)| a == b).count();
    let mut counts = vec![[0.0; 2]; classes]; // right, true + answered
    for (truth, answer) in truth.iter().zip(answer) {
        truth.iter().chain(answer).for_each(|&class| counts[class as usize][1] += 1.0);
        let both = truth.iter().filter(|class| answer.contains(class));
        both.for_each(|&class| counts[class as usize][0] += 1.0);
    }
    let f1: Vec<f64> = counts
        .iter()
        .filter(|[_, seen]| *seen > 0.0)
        .map(|[right, seen]| 2.0 * right / seen)
        .collect();
    [right as f64 / truth.len() as f64, f1.iter().sum::<f64>() / f1.len().max(1) as f64]
}

/// A column of scores: every run on the split `split`.
pub fn one_split(scores: &[Vec<f64>]) -> Vec<f64> {
    scores.iter().map(|run| run[0]).collect()
}

/// Run r on split r, as if the split were drawn anew for every run.
pub fn redrawn(scores: &[Vec<f64>]) -> Vec<f64> {
    scores.iter().enumerate().map(|(r, run)| run[r % run.len()]).collect()
}

/// The mean over splits of every run.
pub fn means(scores: &[Vec<f64>]) -> Vec<f64> {
    Scores::new(scores).runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunOptions;

    fn world() -> World {
        World::new(&RunOptions { quick: true, data: None, keep: None, job: &Job::silent() })
            .unwrap()
    }

    /// `accuracy_score` and `f1_score(average="macro")` of scikit-learn for the indicator matrices; by hand: class 0
    /// 2*1/(2+1), class 1 2*1/(1+1), class 2 0/(0+1).
    #[test]
    fn scores_of_sets_match_scikit_learn() {
        let truth = vec![vec![0, 1], vec![0], vec![]];
        let answer = vec![vec![0, 1], vec![2], vec![]];
        let [exact, f1] = sets_scores(&truth, &answer, 4);
        assert!((exact - 2.0 / 3.0).abs() < 1e-15);
        assert!((f1 - (2.0 / 3.0 + 1.0 + 0.0) / 3.0).abs() < 1e-15, "{f1}");
    }

    /// A coordinate that is the class: everything is right, retrained or not, for both targets.
    #[test]
    fn vectors_that_are_the_class_are_classified_without_error() {
        let (world, job) = (world(), Job::silent());
        let evaluate = Evaluator::new(&world, 3, &job).unwrap();
        let classes = world.first.classes;
        let rows = |_| {
            let row =
                |&class: &u32| (0..classes as u32).map(move |k| f32::from(u8::from(k == class)));
            Ok((world.first.labels.iter().flat_map(row).collect(), classes))
        };
        let settings = LogisticSettings { c: 100.0, ..LogisticSettings::default() };
        for target in [Target::First, Target::Sets] {
            let evaluated = evaluate.evaluate(2, rows, target, &settings).unwrap();
            for scores in [&evaluated.accuracy, &evaluated.macro_f1, &evaluated.unretrained] {
                assert!(scores.iter().flatten().all(|&x| x == 100.0), "{scores:?}");
            }
            assert_eq!((evaluated.accuracy.len(), evaluated.unretrained.len()), (2, 1));
        }
    }

    #[test]
    fn splits_test_a_fifth_and_differ() {
        let (world, job) = (world(), Job::silent());
        let evaluate = Evaluator::new(&world, 2, &job).unwrap();
        let [a, b] = &evaluate.splits[..] else { panic!() };
        assert_eq!(a.test.len(), world.first.rows.len() / 5);
        assert!(a.test.iter().all(|item| !a.train.contains(item)));
        assert_eq!(a.test.len() + a.train.len(), world.first.rows.len());
        assert_ne!(a.test, b.test);
    }
}
