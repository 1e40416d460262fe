//! What was measured, with intervals: over users for one run, over users and seeds for several ([`Estimate`]).

use serde::{Deserialize, Serialize};
use veridical_core::Estimate;
use veridical_core::stats::Moments;

use super::Protocol;

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
