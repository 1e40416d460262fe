//! Paper 000, the stability of pretrained representations, on MovieLens-1M.

mod ensemble;
mod evaluate;
mod fair;
mod figure1;
mod figure_a1;
mod modes;
mod questions;
mod sensitivity;
mod spread;
mod study;
mod table1;
mod task2;
mod words;
mod world;

use veridical::Result;
use veridical_core::Estimate;
use veridical_features::{Directions, FeatureSpec};
use veridical_inspect::Scores;

pub(super) use self::fair::FAIR;
pub(super) use self::figure_a1::FIGURE_A1;
pub(super) use self::figure1::FIGURE1;
pub(super) use self::questions::QUESTIONS;
pub(super) use self::sensitivity::{FIGURE_A3, FIGURE_A4};
pub(super) use self::spread::SPREAD;
pub(super) use self::table1::TABLE1;
pub(super) use self::task2::TASK2;
pub(super) use self::words::TABLE_A1;
use crate::Row;

/// The deviation over runs with its chi-square interval.
fn sd_row(what: String, paper: Option<f64>, values: &[f64]) -> Row {
    let scores: Vec<Vec<f64>> = values.iter().map(|&x| vec![x]).collect();
    let sd = Scores::new(&scores).sd.map_or(0.0, |sd| sd.value);
    let (freedom, runs) = ((values.len() as f64 - 1.0).max(1.0), values.len() as u64);
    let measured = Estimate::sd(sd, freedom, runs).with_seeds(runs);
    Row { paper, ..Row::new(what, measured) }
}

/// phi of unit rows with iid directions u ~ N(0, I / l^2), as the paper draws them.
fn phi(d: usize, output_dim: usize, length_scale: f64, seed: u64) -> Result<FeatureSpec> {
    let params = FeatureSpec::params(d, output_dim).seed(seed).length_scale(length_scale);
    Ok(params.directions(Directions::Iid).build()?)
}

#[cfg(test)]
mod tests {
    use veridical_core::Job;

    use super::*;
    use crate::{Experiment, Outcome, RunOptions};

    fn quick(experiment: Experiment) -> Outcome {
        experiment
            .run(&RunOptions { quick: true, data: None, keep: None, job: &Job::silent() })
            .unwrap()
    }

    fn value(outcome: &Outcome, what: &str) -> f64 {
        let row = outcome.rows.iter().find(|row| row.what == what);
        row.unwrap_or_else(|| panic!("{what} is missing")).measured.value
    }

    /// Everything finite, and every interval around its value.
    fn sound(outcome: &Outcome) {
        for row in &outcome.rows {
            let Estimate { value, low, high, .. } = row.measured;
            assert!(value.is_finite(), "{}", row.what);
            assert!(low <= value && value <= high, "{}: {low} {high}", row.what);
        }
        assert!(outcome.rows.iter().any(|row| row.holds.is_some()));
    }

    /// In a shop with planted clusters: a rotation costs a consumer that does not retrain, alignment repairs it, and
    /// the same seeds give the same bytes.
    #[test]
    fn table_1_runs_on_a_generated_shop() {
        let outcome = quick(TABLE1);
        sound(&outcome);
        let raw = value(&outcome, "accuracy, not retrained, raw h");
        let aligned = value(&outcome, "accuracy, not retrained, aligned h");
        assert!(aligned > raw + 10.0, "{aligned} {raw}");
        let [one, again] = [&outcome, &quick(TABLE1)].map(|o| serde_json::to_string(o).unwrap());
        assert_eq!(one, again);
    }

    /// Rotation is no explanation, so the deviation of converged regressions is that of h itself.
    #[test]
    fn explanations_of_the_spread_run_on_a_generated_shop() {
        let outcome = quick(SPREAD);
        sound(&outcome);
        assert_eq!(outcome.rows.iter().filter(|row| row.holds.is_some()).count(), 1);
    }

    #[test]
    fn fair_baselines_run_on_a_generated_shop() {
        let outcome = quick(FAIR);
        sound(&outcome);
        let of = |name: &str| value(&outcome, &format!("accuracy, {name}"));
        assert!(of("not retrained, aligned") > of("not retrained, raw") + 10.0);
        // The same model up to a rotation, but for where the regression stops.
        assert!((of("aligned") - of("raw")).abs() < 2.0);
    }

    #[test]
    fn figure_1_runs_on_a_generated_shop() {
        let outcome = quick(FIGURE1);
        sound(&outcome);
        let of = |kind| {
            value(
                &outcome,
                &format!(
                    "(a) sd of a coordinate over runs relative to its size, unit rows, {kind}"
                ),
            )
        };
        assert!(of("aligned") < of("raw"), "{} {}", of("aligned"), of("raw"));
        assert_eq!(outcome.charts.len(), 6);
    }

    /// Warm runs begin with the same coordinates, so the model of the run they start from still works on them.
    #[test]
    fn questions_run_on_a_generated_shop() {
        let outcome = quick(QUESTIONS);
        sound(&outcome);
        let of = |name| value(&outcome, &format!("sd of coordinates over their size, {name}"));
        assert!(of("warm start, both tables") < 0.5 * of("plain"));
    }

    #[test]
    fn figures_a_run_on_a_generated_shop() {
        sound(&quick(FIGURE_A3));
        let outcome = quick(FIGURE_A4);
        sound(&outcome);
        assert_eq!(outcome.rows.iter().filter(|row| row.holds.is_some()).count(), 9);
    }

    /// Other pretrainings and other towers give other values; the same seeds the same bytes.
    #[test]
    fn two_towers_run_on_a_generated_shop() {
        let outcome = quick(TASK2);
        sound(&outcome);
        let sd = |name: &str| value(&outcome, &format!("sd of recall@5, 100 sampled, {name}"));
        assert!(sd("h") > 0.0 && sd("h of one pretraining, towers of other seeds") > 0.0);
        let [one, again] = [&outcome, &quick(TASK2)].map(|o| {
            let rows: Vec<_> = o.rows.iter().map(|row| (&row.what, row.measured)).collect();
            serde_json::to_string(&rows).unwrap()
        });
        assert_eq!(one, again);
    }

    #[test]
    fn hidden_layers_of_networks_run_on_generated_topics() {
        let outcome = quick(FIGURE_A1);
        sound(&outcome);
        assert_eq!(outcome.rows.iter().filter(|row| row.holds.is_some()).count(), 6);
    }

    /// Half of the words of a document are of the topic of its label: more than chance is easy.
    #[test]
    fn readers_of_words_learn_generated_topics() {
        let outcome = quick(TABLE_A1);
        sound(&outcome);
        for name in ["h", "learned vectors"] {
            let right = value(&outcome, &format!("accuracy, {name}, d = 32"));
            assert!(right > 70.0, "{name}: {right}");
        }
    }
}
