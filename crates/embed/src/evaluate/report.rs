//! What was measured, with intervals.
//!
//! One run     mean m over users, interval m +- 1.96 s / sqrt(n), s the deviation between users
//! Seeds       mean of the means; squared standard error = mean of the runs' s^2 / n + v / S, v the variance
//!             between the means of S runs. Users are the same in every run, so the first term does not
//!             shrink with S: the interval speaks of other users and other seeds.

use serde::{Deserialize, Serialize};
use veridical_core::stats::Moments;

use super::Protocol;

/// The 97.5 % quantile of the normal law.
const Z: f64 = 1.959_963_984_540_054;

/// A mean with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Where the interval begins.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
    /// Users that entered.
    pub users: u64,
    /// Runs that entered.
    pub seeds: u64,
}

impl Estimate {
    pub(super) fn new(value: f64, error: f64, users: u64) -> Self {
        Self { value, low: value - Z * error, high: value + Z * error, users, seeds: 1 }
    }

    fn of(moments: &Moments) -> Self {
        let n = moments.count();
        // The unbiased variance over n; one user alone says nothing about others.
        let error =
            if n > 1 { (moments.variance() / (n - 1) as f64).sqrt() } else { f64::INFINITY };
        Self::new(moments.mean(), error, n)
    }

    fn error(&self) -> f64 {
        (self.high - self.low) / (2.0 * Z)
    }

    /// Over runs that differ in their seeds.
    pub(super) fn over_seeds(runs: &[Self]) -> Option<Self> {
        let first = runs.first()?;
        if runs.len() == 1 {
            return Some(*first);
        }
        let n = runs.len() as f64;
        let value = runs.iter().map(|run| run.value).sum::<f64>() / n;
        let between = runs.iter().map(|run| (run.value - value).powi(2)).sum::<f64>() / (n - 1.0);
        let within = runs.iter().map(|run| run.error().powi(2)).sum::<f64>() / n;
        let error = (within + between / n).sqrt();
        let users = runs.iter().map(|run| run.users).min().unwrap_or(0);
        Some(Self {
            seeds: runs.iter().map(|run| run.seeds).sum(),
            ..Self::new(value, error, users)
        })
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
