//! Metrics with confidence intervals: over users for one run, over users and random seeds for several ([`Estimate`]).

use serde::{Deserialize, Serialize};
use veridical_core::Estimate;
use veridical_core::stats::Moments;

use super::Protocol;

/// One metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// The name: `ndcg@10`, `map`, ...
    pub name: String,
    /// The mean over users with its confidence interval.
    #[serde(flatten)]
    pub estimate: Estimate,
}

/// All metrics under one protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProtocolReport {
    /// The name of the protocol: `full`, `uniform-100`, `popular-100`.
    pub protocol: String,
    /// The metrics in the order they are printed.
    pub measures: Vec<Measure>,
}

/// The evaluation of rankings under every protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The protocols in the order of the settings.
    pub protocols: Vec<ProtocolReport>,
}

impl Report {
    pub(super) fn new(protocols: &[Protocol], names: &[String], moments: &[Moments]) -> Self {
        let measures = |moments: &[Moments]| {
            let measure = |(name, m): (&String, _)| Measure {
                name: name.clone(),
                estimate: Estimate::of_moments(m),
            };
            names.iter().zip(moments).map(measure).collect()
        };
        let protocols = protocols.iter().zip(moments.chunks_exact(names.len()));
        let report = |(protocol, moments): (&Protocol, _)| ProtocolReport {
            protocol: protocol.to_string(),
            measures: measures(moments),
        };
        Self { protocols: protocols.map(report).collect() }
    }

    /// Returns a metric by the name of its protocol and its own name.
    pub fn get(&self, protocol: &str, measure: &str) -> Option<Estimate> {
        let report = self.protocols.iter().find(|report| report.protocol == protocol)?;
        report.measures.iter().find(|m| m.name == measure).map(|m| m.estimate)
    }
}

/// The metrics of every user under one protocol; NaN where a metric is not defined for a user.
#[derive(Clone, Debug, PartialEq)]
pub struct ByUser {
    pub(super) names: Vec<String>,
    /// The metrics of a user, one user after the other.
    pub(super) values: Vec<f32>,
}

impl ByUser {
    /// Estimates the mean over users of the difference to another model that ranked for the same users; `None` if they are not
    /// the same, or have not that metric.
    pub fn difference(&self, other: &Self, measure: &str) -> Option<Estimate> {
        let at = self.names.iter().position(|name| name == measure)?;
        let same = self.names == other.names && self.values.len() == other.values.len();
        let width = self.names.len();
        let own = self.values.iter().skip(at).step_by(width);
        let theirs = other.values.iter().skip(at).step_by(width);
        let mut moments = Moments::default();
        let differences = own.zip(theirs).map(|(a, b)| f64::from(*a) - f64::from(*b));
        differences.filter(|d| !d.is_nan()).for_each(|d| moments.push(d));
        (same && moments.count() > 0).then(|| Estimate::of_moments(&moments))
    }
}

/// Combines the reports of several runs; `None` if there are none, or if they have different metrics.
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
