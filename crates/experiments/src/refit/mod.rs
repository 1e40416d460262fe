//! Paper 004, section 2's recipe: the last layer of a trained network solved on its features.

mod functions;
mod mnist;

pub(super) use self::functions::FUNCTIONS;
pub(super) use self::mnist::MNIST;

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

    /// Least squares is never worse than the network on the same training points, and by far better for tanh.
    #[test]
    fn functions_run() {
        let outcome = quick(FUNCTIONS);
        assert!(outcome.rows.iter().all(|row| row.measured.value.is_finite()));
        let gain = |what: &str| {
            outcome
                .rows
                .iter()
                .find(|row| row.what.contains(what))
                .map(|row| row.measured.value)
                .unwrap()
        };
        assert!(gain("tanh, 3 x 128, f1: log10") > 1.0);
        assert_eq!(outcome.charts.len(), 9);
    }

    #[test]
    fn subsets_run_on_generated_images() {
        let outcome = quick(MNIST);
        assert!(outcome.rows.iter().all(|row| row.measured.value.is_finite()));
        assert_eq!(outcome.rows.iter().filter(|row| row.holds.is_some()).count(), 4);
    }
}
