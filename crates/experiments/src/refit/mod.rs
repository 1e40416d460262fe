//! Paper 004, section 2: the last layer of a trained network solved on its features, kernel machines of its tangent features, and what
//! is proved about them.

mod approximants;
mod bounds;
mod classify;
mod functions;
mod grid;
mod inequalities;
mod kernels;
mod logistic;
mod mnist;
mod probe;

pub(super) use self::classify::CLASSIFY;
pub(super) use self::functions::FUNCTIONS;
pub(super) use self::inequalities::INEQUALITIES;
pub(super) use self::kernels::KERNELS;
pub(super) use self::mnist::MNIST;
pub(super) use self::probe::TABLE5;

#[cfg(test)]
mod tests {
    use veridical_core::Job;

    use super::*;
    use crate::{Experiment, Outcome, RunOptions};

    fn quick(experiment: Experiment) -> Outcome {
        let outcome = experiment
            .run(&RunOptions { quick: true, data: None, keep: None, job: &Job::silent() })
            .unwrap();
        assert!(outcome.rows.iter().all(|row| row.measured.value.is_finite()));
        outcome
    }

    fn value(outcome: &Outcome, what: &str) -> f64 {
        let row = outcome.rows.iter().find(|row| row.what.contains(what));
        row.map(|row| row.measured.value).unwrap()
    }

    /// Least squares is never worse than the network on the same training points, and by far better for tanh.
    #[test]
    fn functions_run() {
        let outcome = quick(FUNCTIONS);
        assert!(value(&outcome, "tanh, 3 x 128, f1: log10") > 1.0);
        assert_eq!(outcome.charts.len(), 9);
    }

    #[test]
    fn kernels_of_functions_run() {
        let outcome = quick(KERNELS);
        assert!(value(&outcome, "tanh, 3 x 16, f1: log10 of error of network / CK after 40") > 0.5);
        assert_eq!(outcome.charts.len(), 12);
    }

    #[test]
    fn classes_in_the_plane_run() {
        let outcome = quick(CLASSIFY);
        // 96 points are separable: the loss of either kernel falls along the path.
        for kernel in ["CK", "NTK"] {
            let loss = |lambda: &str| {
                value(
                    &outcome,
                    &format!("tanh, 2 x 12, F1: training cross-entropy, {kernel}, lambda {lambda}"),
                )
            };
            assert!(loss("1e-6") < loss("1e-4") && loss("1e-4") < loss("1e-2"));
        }
        assert_eq!(outcome.charts.len(), 6);
    }

    #[test]
    fn inequalities_are_measured() {
        let outcome = quick(INEQUALITIES);
        let counterexample = outcome.rows.last().unwrap();
        assert!((counterexample.measured.value - 15.0).abs() < 1e-9);
        assert_eq!(counterexample.holds, Some(false));
        let failed =
            |row: &&crate::Row| row.holds == Some(false) && !row.what.contains("as printed");
        let failed: Vec<&str> =
            outcome.rows.iter().filter(failed).map(|row| row.what.as_str()).collect();
        assert_eq!(failed, ["counterexample to (59): test loss / training loss"]);
    }

    #[test]
    fn probes_run() {
        let outcome = quick(TABLE5);
        assert!(value(&outcome, "test accuracy, points, pre-trained less random") > 10.0);
    }

    #[test]
    fn subsets_run_on_generated_images() {
        let outcome = quick(MNIST);
        assert_eq!(outcome.rows.iter().filter(|row| row.holds.is_some()).count(), 4);
    }
}
