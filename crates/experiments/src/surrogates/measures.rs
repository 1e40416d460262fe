//! What runs measure, by name, and the rows of an experiment made of it.

use std::collections::BTreeMap;

use veridical::Result;
use veridical_core::{Estimate, Rows};
use veridical_inspect::surrogate::{Tau, faithfulness, largest};

use crate::Row;
use crate::lab::over_seeds;

/// What one run measured.
pub type Measures = BTreeMap<String, Estimate>;

/// Notes how a surrogate agrees with the network, under names that begin with `name`.
pub fn compare(
    name: &str,
    network: Rows<'_, f64>,
    surrogate: &[f64],
    labels: &[u32],
    into: &mut Measures,
) -> Result<()> {
    let found = faithfulness(network, Rows::new(surrogate, network.dim())?, labels)?;
    let Tau { correct_class, paper, within_class, class_one } = found.tau;
    let taus = [
        ("tau of the correct class", correct_class),
        ("tau with ties as discordant", paper),
        ("tau within classes", within_class),
        ("tau of P(class 1)", class_one),
    ];
    for (what, tau) in taus {
        into.extend(tau.map(|tau| (format!("{name}: {what}"), tau)));
    }
    let values = [
        ("TAD", found.accuracy_difference),
        ("agreement", found.agreement),
        ("isotonic R^2", found.isotonic_r2),
        ("linear R^2", found.linear_r2),
        ("Pearson", found.pearson),
    ];
    let finite = values.into_iter().filter(|(_, e)| e.value.is_finite());
    into.extend(finite.map(|(what, e)| (format!("{name}: {what}"), e)));
    Ok(())
}

/// Returns the accuracy of scores in points.
pub fn accuracy(scores: Rows<'_, f64>, labels: &[u32]) -> Estimate {
    let right = scores.iter().zip(labels).filter(|(s, y)| largest(s) == **y).count();
    percent(Estimate::share(right as u64, labels.len() as u64))
}

/// Returns a share in percent.
pub fn percent(share: Estimate) -> Estimate {
    Estimate::with_interval(100.0 * share.value, [100.0 * share.low, 100.0 * share.high], share.n)
}

/// A row about what several runs measured: their mean with its interval over seeds; of one run what it measured, with its interval over
/// test examples. `None` if no run has the measure.
pub fn row(
    what: impl Into<String>,
    paper: Option<f64>,
    runs: &[&Measures],
    name: &str,
) -> Option<Row> {
    let found: Vec<Estimate> = runs.iter().filter_map(|run| run.get(name)).copied().collect();
    let measured = match found.as_slice() {
        [] => return None,
        [one] => *one,
        all => over_seeds(&all.iter().map(|e| e.value).collect::<Vec<_>>()),
    };
    Some(Row { paper, ..Row::new(what.into(), measured) })
}

/// The differences of two measures of the same runs.
pub fn differences(runs: &[&Measures], a: &str, b: &str) -> Vec<f64> {
    let one = |run: &&Measures| Some(run.get(a)?.value - run.get(b)?.value);
    runs.iter().filter_map(one).collect()
}

/// The area under the ROC curve: the probability that a positive has the higher score, ties counted half; `None` with one kind only.
pub fn auc(scores: &[f64], is_positive: &[bool]) -> Option<f64> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&i, &j| scores[i].total_cmp(&scores[j]));
    let (mut wins, mut negatives) = (0.0, 0.0);
    for tied in order.chunk_by(|&i, &j| scores[i] == scores[j]) {
        let positive = tied.iter().filter(|&&i| is_positive[i]).count() as f64;
        let negative = tied.len() as f64 - positive;
        wins += positive * (negatives + negative / 2.0);
        negatives += negative;
    }
    let positives = scores.len() as f64 - negatives;
    (positives > 0.0 && negatives > 0.0).then(|| wins / (positives * negatives))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs (positive, negative) of 3 x 2: 1 > 0, 3 > 0, 3 > 2, 2 > 0 are won, 2 = 2 is tied, 1 < 2 is lost.
    #[test]
    fn the_area_counts_pairs() {
        let scores = [1.0, 3.0, 2.0, 0.0, 2.0];
        let positive = [true, true, true, false, false];
        assert_eq!(auc(&scores, &positive), Some(4.5 / 6.0));
        assert_eq!(auc(&scores, &[true; 5]), None);
    }

    #[test]
    fn one_run_keeps_its_interval_and_several_have_one_over_seeds() {
        let of = |value| {
            Measures::from([("tau".to_owned(), Estimate::with_interval(value, [0.0, 1.0], 50))])
        };
        let (a, b) = (of(0.25), of(0.75));
        let one = row("tau", None, &[&a], "tau").unwrap().measured;
        assert_eq!((one.value, one.low, one.seeds), (0.25, 0.0, 1));
        let both = row("tau", Some(0.7), &[&a, &b], "tau").unwrap();
        assert_eq!((both.measured.value, both.measured.seeds, both.paper), (0.5, 2, Some(0.7)));
        assert!(row("tau", None, &[&a], "TAD").is_none());
        assert_eq!(differences(&[&a, &b], "tau", "tau"), [0.0, 0.0]);
    }
}
