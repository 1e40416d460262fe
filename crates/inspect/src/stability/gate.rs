//! Limits and their outcomes: passed, failed or undecided.
//!
//! The harmful end of the 95 % interval is compared with the limit. Both ends on the good side: passed; both on the bad
//! side: failed; otherwise: undecided, which counts as failed. An interval narrows as 1 / sqrt(n), so about
//! n (half width / distance to the limit)^2 probes decide.

use serde::Serialize;
use veridical_core::stats::quantile;
use veridical_core::{Error, Estimate, Result};

use crate::stability::Comparison;
use crate::stability::measures::{Floor, Harm, Kind, Measure};

/// The outcome of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Even the harmful end of the interval is within the limit.
    Passed,
    /// Even the harmless end of the interval is beyond the limit.
    Failed,
    /// The interval contains the limit, or the measure is undefined.
    Undecided,
}

/// A limit on a measure.
///
/// ```
/// use veridical_inspect::stability::{Gate, Limit, Measure, Outcome};
///
/// let limit = Limit::new("min-cka", 0.95)?;
/// // A measure without a value never passes.
/// let gate = Gate::new(&limit, &Measure::new("cka", None, 1)?);
/// assert_eq!(gate.outcome, Outcome::Undecided);
/// assert!(Limit::new("min-ckaa", 0.95).is_err());
/// # Ok::<(), veridical_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The measure that is limited.
    pub kind: &'static Kind,
    /// The smallest or largest allowed value.
    pub value: f64,
}

impl Limit {
    /// Makes a limit from a name such as `min-cka`.
    ///
    /// # Errors
    /// [`Error::Request`] for an unknown name, [`Error::Setting`] for a value that is not finite or outside the range of the
    /// measure.
    pub fn new(name: &str, value: f64) -> Result<Self> {
        let kind = Kind::of_limit(name)?;
        let [least, most] = kind.range();
        let must_be = match (least.is_finite(), most.is_finite()) {
            _ if value.is_finite() && (least..=most).contains(&value) => {
                return Ok(Self { kind, value });
            }
            (true, true) => format!("a number from {least} to {most}"),
            (true, false) => format!("a number of at least {least}"),
            _ => "a finite number".to_owned(),
        };
        Err(Error::setting(name.to_owned(), must_be, value))
    }
}

/// A limit with its outcome.
#[derive(Clone, Debug, Serialize)]
pub struct Gate {
    /// The name of the limit, from [`Kind::limit`].
    pub limit: String,
    /// The allowed value.
    pub allowed: f64,
    /// The measured value.
    pub estimate: Option<Estimate>,
    /// The outcome.
    pub outcome: Outcome,
    /// The number of probes, ids or runs that would decide, if it is undecided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed: Option<u64>,
    /// The unit that `needed` counts.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub from: &'static str,
}

impl Gate {
    /// Compares a measure with its limit.
    pub fn new(limit: &Limit, measure: &Measure) -> Self {
        let Limit { kind, value: allowed } = *limit;
        let outcome = measure.estimate.map_or(Outcome::Undecided, |estimate| {
            let kept = |x: f64| if kind.harm == Harm::Low { x >= allowed } else { x <= allowed };
            match estimate.interval().map(kept) {
                [true, true] => Outcome::Passed,
                [false, false] => Outcome::Failed,
                _ => Outcome::Undecided,
            }
        });
        let needed = measure.estimate.filter(|_| outcome == Outcome::Undecided).and_then(|e| {
            let half = (e.value - kind.harmful(e.interval())).abs();
            let ratio = half / (e.value - allowed).abs();
            let needed = e.n as f64 * ratio * ratio * 1.1; // with a margin of a tenth
            (needed.is_finite() && needed < 1e15).then_some(needed.ceil() as u64)
        });
        let (limit, estimate, from) = (kind.limit(), measure.estimate, kind.from);
        Self { limit, allowed, estimate, outcome, needed, from }
    }

    /// Whether the limit is passed.
    pub fn is_kept(&self) -> bool {
        self.outcome == Outcome::Passed
    }

    /// Returns the limit and the measured value in a few words: `min-cka 0.9 (0.853)`.
    pub fn short(&self) -> String {
        let found = self.estimate.map_or("undefined".to_owned(), |e| format!("{:.3}", e.value));
        let doubt = if self.outcome == Outcome::Undecided { ", undecided" } else { "" };
        format!("{} {} ({found}{doubt})", self.limit, self.allowed)
    }

    /// Returns a one-line summary: the limit and the measured value.
    pub fn sentence(&self) -> String {
        let Self { limit, allowed, estimate, outcome, .. } = self;
        let word = match outcome {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::Undecided => "UNDECIDED",
        };
        let found = estimate.map_or("undefined for these tables".to_owned(), |e| {
            let [low, high] = e.interval();
            if low == high {
                format!("{:.4}", e.value)
            } else {
                format!("{:.4} [{low:.4}, {high:.4}]", e.value)
            }
        });
        let more = self
            .needed
            .map_or_else(String::new, |n| format!("; about {n} {} would decide", self.from));
        format!("{word:<9} {limit} {allowed}: {found}{more}")
    }
}

/// The fraction of pairs beyond a floor or a budget.
const TAIL: f64 = 0.01;

/// Returns the noise floor of a measure of pairs of runs, from runs on identical data.
pub fn floor_of(floor: &Comparison, runs: usize, key: &str) -> Option<Floor> {
    let measure = floor.pairs_of(key)?;
    let kind = Kind::of_key(key).ok()?;
    let mut values: Vec<f64> =
        measure.pairs.iter().map(|p| p.estimate.map(|e| e.value)).collect::<Option<_>>()?;
    let pairs = values.len();
    let quantile = harmful_quantile(kind, &mut values)?;
    Some(Floor { estimate: measure.estimate?, quantile, runs, pairs })
}

/// Proposes the limit that 99 % of pairs of runs on identical data pass with the harmful ends of their intervals.
pub fn propose(floor: &Comparison, kind: &'static Kind) -> Option<Limit> {
    let pairs = &floor.pairs_of(kind.key)?.pairs;
    let ends = pairs.iter().map(|p| p.estimate.map(|e| kind.harmful(e.interval())));
    propose_from(ends.collect::<Option<_>>()?, kind)
}

/// Proposes the limit that 99 % of these harmful ends of intervals pass.
pub fn propose_from(mut ends: Vec<f64>, kind: &'static Kind) -> Option<Limit> {
    let value = harmful_quantile(kind, &mut ends)?;
    // Rounded to four digits toward the lenient side, so that the worst pair itself passes.
    let rounded = match kind.harm {
        Harm::Low => (value * 1e4).floor() / 1e4,
        Harm::High => (value * 1e4).ceil() / 1e4,
    };
    let [least, most] = kind.range();
    Some(Limit { kind, value: rounded.clamp(least, most) })
}

/// The quantile; the worst value of too few to have one beyond it, so that none of those that make a limit breaks it.
fn harmful_quantile(kind: &Kind, values: &mut [f64]) -> Option<f64> {
    let is_few = TAIL * values.len() as f64 <= 1.0;
    let tail = if is_few { 0.0 } else { TAIL };
    quantile(values, if kind.harm == Harm::Low { tail } else { 1.0 - tail })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(limit: &str, allowed: f64, estimate: Option<Estimate>) -> Gate {
        let limit = Limit::new(limit, allowed).unwrap();
        Gate::new(&limit, &Measure::new(limit.kind.key, estimate, 1).unwrap())
    }

    #[test]
    fn few_pairs_all_meet_the_limit_that_they_make() {
        let kind = Kind::of_key("nn_overlap").unwrap();
        let few: Vec<f64> = (0..45).map(|i| 0.5 + f64::from(i) / 100.0).collect();
        assert_eq!(propose_from(few, kind).unwrap().value, 0.5);
        let many: Vec<f64> = (0..1001).map(|i| 0.5 + f64::from(i) / 10_000.0).collect();
        assert_eq!(propose_from(many, kind).unwrap().value, 0.501);
    }

    #[test]
    fn both_ends_decide() {
        let at = |value| Some(Estimate::with_interval(value, [value - 0.1, value + 0.1], 100));
        let outcome = |limit, allowed, value| gate(limit, allowed, at(value)).outcome;
        assert_eq!(outcome("min-nn-overlap", 0.5, 0.7), Outcome::Passed);
        assert_eq!(outcome("min-nn-overlap", 0.5, 0.55), Outcome::Undecided);
        assert_eq!(outcome("min-nn-overlap", 0.5, 0.3), Outcome::Failed);
        assert_eq!(outcome("max-gram-noise", 0.5, 0.3), Outcome::Passed);
        assert_eq!(outcome("max-gram-noise", 0.5, 0.7), Outcome::Failed);
        assert_eq!(gate("min-cka", 0.5, None).outcome, Outcome::Undecided);
        // Half width 0.1 at a distance of 0.05: four times as many, plus a tenth.
        assert_eq!(gate("min-nn-overlap", 0.5, at(0.55)).needed, Some(440));
        assert!(
            gate("min-nn-overlap", 0.5, at(0.55)).sentence().contains("440 probes would decide")
        );
    }

    #[test]
    fn a_limit_outside_the_range_of_its_measure_is_refused() {
        let refused = |name: &str, value| Limit::new(name, value).unwrap_err().to_string();
        assert_eq!(refused("min-cka", 2.0), "⟨min-cka⟩ must be a number from -1 to 1, got 2");
        assert_eq!(
            refused("min-nn-overlap", -0.1),
            "⟨min-nn-overlap⟩ must be a number from 0 to 1, got -0.1"
        );
        assert_eq!(
            refused("max-new-ids", 5.0),
            "⟨max-new-ids⟩ must be a number from 0 to 1, got 5"
        );
        assert_eq!(
            refused("max-gram-noise", -1.0),
            "⟨max-gram-noise⟩ must be a number of at least 0, got -1"
        );
        for value in [f64::NAN, f64::INFINITY] {
            assert!(refused("max-norm-change", value).contains("at least 0, got "));
        }
        for (name, value) in [("min-cka", -0.01), ("min-shared-ids", 1.0), ("max-norm-change", 7.0)]
        {
            assert_eq!(Limit::new(name, value).unwrap().value, value);
        }
    }

    #[test]
    fn counted_values_have_no_doubt() {
        assert_eq!(
            gate("min-shared-ids", 0.9, Some(Estimate::exact(0.9, 100))).outcome,
            Outcome::Passed
        );
        assert_eq!(
            gate("max-zero-vectors", 0.0, Some(Estimate::exact(0.1, 100))).outcome,
            Outcome::Failed
        );
    }
}
