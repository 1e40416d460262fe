//! The cheapest kernel that is faithful enough: of all kernels whose interval of tau reaches the best tau less a tolerance, the one
//! that takes the fewest operations, which no clock changes; on ties the one with the higher tau.

use serde::Serialize;
use veridical_core::Estimate;

/// A kernel that was audited.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// The name of the kernel.
    pub name: String,
    /// tau of the correct class.
    pub tau: Option<Estimate>,
    /// What it costs: the number of operations, in billions.
    pub cost: f64,
}

/// What to use, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// The recommended kernel.
    pub kernel: String,
    /// The kernel with the highest tau.
    pub best: String,
    /// Kernels whose interval reaches the best tau less the tolerance, cheapest first.
    pub faithful: Vec<String>,
    /// The reason in a sentence.
    pub reason: String,
}

/// Recommends one of the candidates; `None` if no tau is defined.
///
/// ```
/// use veridical_core::Estimate;
/// use veridical_inspect::surrogate::{Candidate, recommend};
///
/// let of = |name: &str, tau, cost| {
///     let tau = Some(Estimate::with_interval(tau, [tau - 0.02, tau + 0.02], 500));
///     Candidate { name: name.to_owned(), tau, cost }
/// };
/// let audited = [of("trntk", 0.92, 30.0), of("ck", 0.91, 0.1), of("em", 0.7, 0.05)];
/// assert_eq!(recommend(&audited, 0.0).expect("taus").kernel, "ck");
/// ```
pub fn recommend(candidates: &[Candidate], tolerance: f64) -> Option<Recommendation> {
    let measured: Vec<(&Candidate, Estimate)> = candidates
        .iter()
        .filter_map(|c| c.tau.filter(|tau| tau.value.is_finite()).map(|tau| (c, tau)))
        .collect();
    let (best, top) = measured.iter().max_by(|a, b| a.1.value.total_cmp(&b.1.value))?;
    // Without an interval the value itself has to reach.
    let reach = |tau: &Estimate| if tau.high.is_finite() { tau.high } else { tau.value };
    let floor = top.value - tolerance;
    let mut faithful: Vec<&(&Candidate, Estimate)> =
        measured.iter().filter(|(_, tau)| reach(tau) >= floor).collect();
    faithful.sort_by(|a, b| a.0.cost.total_cmp(&b.0.cost).then(b.1.value.total_cmp(&a.1.value)));
    let (chosen, tau) = faithful.first()?;
    let reason = if chosen.name == best.name {
        format!(
            "{} has the highest tau, {:.3}, and none as faithful is cheaper",
            best.name, top.value
        )
    } else {
        format!(
            "with a tau of {:.3} its interval reaches that of {}, which has {:.3}, and takes {:.3} GFLOP instead of {:.3}",
            tau.value, best.name, top.value, chosen.cost, best.cost
        )
    };
    Some(Recommendation {
        kernel: chosen.name.clone(),
        best: best.name.clone(),
        faithful: faithful.iter().map(|(c, _)| c.name.clone()).collect(),
        reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str, tau: f64, half: f64, cost: f64) -> Candidate {
        let tau = Some(Estimate::with_interval(tau, [tau - half, tau + half], 100));
        Candidate { name: name.to_owned(), tau, cost }
    }

    #[test]
    fn the_cheapest_that_reaches_the_best_is_recommended() {
        let audited = [
            candidate("best", 0.9, 0.01, 100.0),
            candidate("close", 0.88, 0.01, 10.0),
            candidate("cheap", 0.5, 0.05, 1.0),
        ];
        let of = |tolerance| recommend(&audited, tolerance).unwrap();
        assert_eq!(of(0.0).kernel, "best");
        assert_eq!(of(0.01).kernel, "close");
        assert_eq!(of(0.01).faithful, ["close", "best"]);
        assert_eq!(of(0.5).kernel, "cheap");
        let none = Candidate { tau: None, ..audited[0].clone() };
        assert_eq!(recommend(&[none], 0.1), None);
    }
}
