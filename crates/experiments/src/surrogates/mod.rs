//! Paper 004, section 1: kernel machines that imitate a network, what they cost, and where its decisions come from.
//!
//! - `table1`: small networks of two classes; `table2`: the kernels of one network side by side; `table3`, `trace`: a network that
//!   learned from poisoned images (`poison`); `table4`: costs and residuals; `robustness`: noise and attacks.
//! - Shared: `images`, `networks`, `kernels` (Gram matrices), `sgd` (the authors' fit), `measures` (from runs to rows).

mod images;
mod kernels;
mod measures;
mod networks;
mod poison;
mod robustness;
mod sgd;
mod table1;
mod table2;
mod table3;
mod table4;
mod trace;

pub(super) use self::robustness::ROBUSTNESS;
pub(super) use self::table1::TABLE1;
pub(super) use self::table2::TABLE2;
pub(super) use self::table3::TABLE3;
pub(super) use self::table4::TABLE4;
pub(super) use self::trace::TRACE;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use veridical_core::Job;

    use super::*;
    use crate::{Experiment, Outcome, RunOptions};

    fn quick(experiment: Experiment, keep: Option<&Path>) -> Outcome {
        let job = Job::silent();
        let outcome =
            experiment.run(&RunOptions { quick: true, data: None, keep, job: &job }).unwrap();
        for row in &outcome.rows {
            assert!(row.measured.value.is_finite(), "{}: {}", row.what, row.measured.value);
        }
        outcome
    }

    fn value(outcome: &Outcome, what: &str) -> f64 {
        let found = outcome.rows.iter().find(|row| row.what == what);
        found.unwrap_or_else(|| panic!("no row `{what}`")).measured.value
    }

    /// Every network has its rows; the taus are correlations.
    #[test]
    fn small_networks_are_imitated() {
        let outcome = quick(TABLE1, None);
        for network in ["MLP (MNIST2)", "CNN (MNIST2)", "CNN (FMNIST2)", "CNN (CIFAR2)"] {
            let tau = value(&outcome, &format!("{network}: tau of P(class 1), SGD fit"));
            assert!((-1.0..=1.0).contains(&tau));
        }
    }

    /// Fitted to the network, the unnormalized trace kernel is nearly the network.
    #[test]
    fn kernels_stand_side_by_side() {
        let outcome = quick(TABLE2, None);
        let [network, labels] = ["network", "labels"]
            .map(|fit| value(&outcome, &format!("trNTK0, {fit} fit: tau of the correct class")));
        assert!(network > labels && network > 0.8, "{network} {labels}");
    }

    /// Poisoned generated images lead to their origin, and both experiments read the same trainings.
    #[test]
    fn poison_is_voted_and_traced() {
        let folder = tempfile::tempdir().unwrap();
        let (table, traced) =
            (quick(TABLE3, Some(folder.path())), quick(TRACE, Some(folder.path())));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
        assert!(value(&table, "MNIST, 5 %: trNTK: precision, %") > 80.0);
        assert!(value(&traced, "MNIST, 5 %: trNTK: AUC of the contrast") > 0.8);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
        let [a, b] = ["004-table3", "004-trace"]
            .map(|id| std::fs::read_to_string(format!("{folder}/{id}/config.toml")).unwrap());
        assert_eq!(a, b);
    }

    #[test]
    fn projections_are_measured() {
        let outcome = quick(TABLE4, None);
        let what = "MLP 784-512-512-10 (MNIST), sjlt:4096: rms sqrt(F)";
        // Var of a cosine is at most 2 / F.
        assert!(value(&outcome, what) < 2.0, "{}", value(&outcome, what));
    }

    #[test]
    fn machines_meet_changed_images() {
        let outcome = quick(ROBUSTNESS, None);
        let [clean, attacked] = ["clean", "PGD 0.2"]
            .map(|change| value(&outcome, &format!("{change}: accuracy of the network, %")));
        assert!(attacked <= clean, "{attacked} {clean}");
    }
}
