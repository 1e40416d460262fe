//! What attributions to training rows are worth: what they say about retraining (`lds`), about wrong labels (`labels`), and whether
//! they survive another seed (`stability`).

mod effects;
mod labels;
mod lds;
mod network;
mod stability;

pub(super) use self::labels::LABELS;
pub(super) use self::lds::{LDS, LDS_5000};
pub(super) use self::network::{Training, World, accuracy, encoded, labels};
pub(super) use self::stability::STABILITY;

#[cfg(test)]
mod tests {
    use veridical_core::Job;

    use super::*;
    use crate::{Experiment, Outcome, RunOptions};

    fn quick(experiment: Experiment) -> Outcome {
        let job = Job::silent();
        let outcome =
            experiment.run(&RunOptions { quick: true, data: None, keep: None, job: &job }).unwrap();
        assert!(outcome.rows.iter().all(|row| row.measured.value.is_finite()));
        outcome
    }

    fn value(outcome: &Outcome, what: &str) -> f64 {
        let row = outcome.rows.iter().find(|row| row.what.contains(what));
        row.map(|row| row.measured.value).unwrap()
    }

    #[test]
    fn effects_are_scored_on_retrained_halves() {
        let outcome = quick(LDS);
        // Five claims for the one set, and every effect alone and averaged.
        assert_eq!(outcome.rows.iter().filter(|row| row.holds.is_some()).count(), 5);
        for effect in ["mass", "removal", "influence", "trak", "fisher", "similarity"] {
            let score = value(&outcome, &format!("LDS of {effect}"));
            assert!((-1.0..=1.0).contains(&score), "{effect}: {score}");
        }
    }

    /// Random scores would find flips with an average precision of about their share, a tenth.
    #[test]
    fn flips_are_found() {
        let outcome = quick(LABELS);
        assert!(value(&outcome, "average precision, removal") > 0.4);
        assert!(value(&outcome, "average precision, 5-fold") > 0.2);
    }

    #[test]
    fn seeds_are_compared() {
        let outcome = quick(STABILITY);
        let alike = value(&outcome, "overlap of the top 10 rows of two seeds, similarity");
        assert!((0.0..=1.0).contains(&alike));
        assert_eq!(outcome.rows.iter().filter(|row| row.holds.is_some()).count(), 2);
    }
}
