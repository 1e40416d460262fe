//! What was measured, with intervals.
//!
//! One run     mean m over users, standard error e = s / sqrt(n), s the deviation between users; the interval is
//!             m +- t e with the 97.5 % quantile t of Student's law for n - 1 degrees of freedom
//! Seeds       mean of the means of S runs; e^2 = a + b, a the mean of the runs' e^2, b = v / S with the variance v
//!             between their means; degrees of freedom (a + b)^2 / (a^2 / (n - 1) + b^2 / (S - 1)) (Satterthwaite
//!             1946). Users are the same in every run, so a does not shrink with S: the interval speaks of other
//!             users and other seeds. What a user and a seed do together is counted in both parts, so it is rather
//!             too wide than too narrow.

use serde::{Deserialize, Deserializer, Serialize};
use veridical_core::stats::{Moments, student_975};

use super::Protocol;

/// A mean with its 95 % interval; a single user or run has none, and it is infinite (`null` in JSON).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Where the interval begins.
    #[serde(deserialize_with = "below")]
    pub low: f64,
    /// Where it ends.
    #[serde(deserialize_with = "above")]
    pub high: f64,
    /// The standard error.
    #[serde(deserialize_with = "above")]
    pub error: f64,
    /// Users that entered.
    pub users: u64,
    /// Runs that entered.
    pub seeds: u64,
}

fn above<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}

fn below<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NEG_INFINITY))
}

impl Estimate {
    pub(super) fn new(value: f64, error: f64, users: u64) -> Self {
        Self::with_freedom(value, error, users.saturating_sub(1) as f64, users)
    }

    fn with_freedom(value: f64, error: f64, freedom: f64, users: u64) -> Self {
        // Without a deviation at all there is no doubt about the mean, however few the values.
        let half = if error == 0.0 { 0.0 } else { student_975(freedom) * error };
        Self { value, low: value - half, high: value + half, error, users, seeds: 1 }
    }

    fn of(moments: &Moments) -> Self {
        let n = moments.count();
        // The unbiased variance over n; one user alone says nothing about others.
        let error =
            if n > 1 { (moments.variance() / (n - 1) as f64).sqrt() } else { f64::INFINITY };
        Self::new(moments.mean(), error, n)
    }

    /// Over runs that differ in their seeds.
    pub(super) fn over_seeds(runs: &[Self]) -> Option<Self> {
        let first = runs.first()?;
        if runs.len() == 1 {
            return Some(*first);
        }
        let n = runs.len() as f64;
        let mean = |of: &dyn Fn(&Self) -> f64| runs.iter().map(of).sum::<f64>() / n;
        let value = mean(&|run| run.value);
        let between = mean(&|run| (run.value - value).powi(2)) / (n - 1.0);
        let within = mean(&|run| run.error * run.error);
        let users = runs.iter().map(|run| run.users).min().unwrap_or(0);
        let parts =
            within * within / users.saturating_sub(1) as f64 + between * between / (n - 1.0);
        let freedom = if within.is_finite() { (within + between).powi(2) / parts } else { 0.0 };
        let joint = Self::with_freedom(value, (within + between).sqrt(), freedom, users);
        Some(Self { seeds: runs.iter().map(|run| run.seeds).sum(), ..joint })
    }
}

/// One measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// `ndcg@10`, `map`, ...
    pub name: String,
    /// Its mean over users.
    #[serde(flatten)]
    pub estimate: Estimate,
}

/// All measures under one protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProtocolReport {
    /// `full`, `uniform-100`, `popular-100`.
    pub protocol: String,
    /// In the order they are printed.
    pub measures: Vec<Measure>,
}

/// Rankings judged under every protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Full ranking first, if it was asked for so.
    pub protocols: Vec<ProtocolReport>,
}

impl Report {
    pub(super) fn new(protocols: &[Protocol], names: &[String], moments: &[Moments]) -> Self {
        let measures = |moments: &[Moments]| {
            let measure =
                |(name, m): (&String, _)| Measure { name: name.clone(), estimate: Estimate::of(m) };
            names.iter().zip(moments).map(measure).collect()
        };
        let protocols = protocols.iter().zip(moments.chunks_exact(names.len()));
        let report = |(protocol, moments): (&Protocol, _)| ProtocolReport {
            protocol: protocol.to_string(),
            measures: measures(moments),
        };
        Self { protocols: protocols.map(report).collect() }
    }

    /// A measure by the names of its protocol and itself.
    pub fn get(&self, protocol: &str, measure: &str) -> Option<Estimate> {
        let report = self.protocols.iter().find(|report| report.protocol == protocol)?;
        report.measures.iter().find(|m| m.name == measure).map(|m| m.estimate)
    }
}

/// Several runs as one report; `None` for none, or if they measured different things.
pub fn combine(reports: &[Report]) -> Option<Report> {
    let mut combined = reports.first()?.clone();
    for protocol in &mut combined.protocols {
        for measure in &mut protocol.measures {
            let of = |report: &Report| report.get(&protocol.protocol, &measure.name);
            let runs: Vec<Estimate> = reports.iter().map(of).collect::<Option<_>>()?;
            measure.estimate = Estimate::over_seeds(&runs)?;
        }
    }
    Some(combined)
}
