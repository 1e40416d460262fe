//! Every table, figure, theorem and claim of the papers, and what answers it: `experiments/claims.toml`.

use serde::Deserialize;
use veridical::{Error, Result};

/// The file, as it was when this was compiled.
const FILE: &str = include_str!("../../../experiments/claims.toml");

/// The papers, in the order of the book.
pub const PAPERS: [(&str, &str); 5] = [
    ("000", "Featurizing pretrained representations with random Fourier features"),
    ("001", "Stochastic shared embeddings"),
    ("002", "Quadratic models and nearly-kernel prediction (talk)"),
    ("003", "Feature learning by one gradient step, and the limits of kernels (slides)"),
    (
        "004",
        "Kernel surrogates, conjugate-kernel regression, distribution shift, PCA probes, spectra",
    ),
];

/// Something that a paper claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The paper, one of [`PAPERS`].
    pub paper: String,
    /// Where the claim is in the paper, such as `Table 1, task 1`.
    pub source: String,
    /// What the paper claims, in one sentence.
    pub says: String,
    /// The numbers that the paper reports, if it reports any.
    pub reported: Option<String>,
    /// How the claim is answered.
    pub answer: Answer,
}

/// How a claim is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// By an experiment.
    Experiment {
        /// The id of the experiment.
        id: String,
        /// The rows of its result that hold our numbers for this claim.
        rows: Vec<String>,
    },
    /// By an experiment that comes with a later capability.
    Planned(String),
    /// Not at all, for this reason.
    NotRun(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    claim: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    paper: String,
    source: String,
    says: String,
    reported: Option<String>,
    experiment: Option<String>,
    #[serde(default)]
    rows: Vec<String>,
    planned: Option<String>,
    reason: Option<String>,
}

/// Returns every claim, in the order of the papers.
///
/// # Errors
/// A file that cannot be parsed, and a claim without exactly one of experiment, plan and reason: it is named.
///
/// ```
/// let claims = veridical_experiments::claims()?;
/// assert!(claims.iter().any(|claim| claim.source.starts_with("Table 1")));
/// # Ok::<(), veridical::Error>(())
/// ```
pub fn claims() -> Result<Vec<Claim>> {
    parse(FILE)
}

fn parse(text: &str) -> Result<Vec<Claim>> {
    let damaged = |what: String| Error::damaged(format!("experiments/claims.toml: {what}"), "");
    let file: File = toml::from_str(text).map_err(|e| damaged(e.to_string()))?;
    file.claim.into_iter().map(|entry| Claim::of(entry).map_err(damaged)).collect()
}

impl Claim {
    fn of(entry: Entry) -> Result<Self, String> {
        let Entry { paper, source, says, reported, experiment, rows, planned, reason } = entry;
        let name = format!("the claim `{source}` of paper {paper}");
        let answer = match (experiment, planned, reason) {
            (Some(_), None, None) if rows.is_empty() => {
                return Err(format!("{name} has an experiment and no rows of its result"));
            }
            (Some(id), None, None) => Answer::Experiment { id, rows },
            (None, Some(plan), None) => Answer::Planned(plan),
            (None, None, Some(reason)) => Answer::NotRun(reason),
            (None, None, None) => {
                return Err(format!(
                    "{name} has neither an experiment nor a reason why it is not run"
                ));
            }
            _ => return Err(format!("{name} has more than one of experiment, planned and reason")),
        };
        let known = PAPERS.iter().any(|(id, _)| *id == paper);
        let claim = Self { paper, source, says, reported, answer };
        if known { Ok(claim) } else { Err(format!("{name}: there is no such paper")) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::REGISTRY;

    #[test]
    fn every_claim_has_an_experiment_or_a_reason_and_a_name_of_its_own() {
        let claims = claims().unwrap();
        let names: BTreeSet<_> = claims.iter().map(|c| (&c.paper, &c.source)).collect();
        assert_eq!(names.len(), claims.len(), "two claims have one name");
        assert!(claims.is_sorted_by_key(|claim| &claim.paper));
    }

    #[test]
    fn every_experiment_answers_a_claim_and_every_claim_names_an_experiment() {
        let claims = claims().unwrap();
        let named: BTreeSet<&str> = claims
            .iter()
            .filter_map(|claim| match &claim.answer {
                Answer::Experiment { id, .. } => Some(id.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(named, REGISTRY.iter().map(|experiment| experiment.id).collect());
    }

    #[test]
    fn a_claim_without_experiment_or_reason_is_named() {
        let entry = "[[claim]]\npaper = \"000\"\nsource = \"Table 9\"\nsays = \"it works\"\n";
        let refused = |text: String| parse(&text).unwrap_err().to_string();
        let name = "experiments/claims.toml: the claim `Table 9` of paper 000";
        assert_eq!(
            refused(entry.into()),
            format!("{name} has neither an experiment nor a reason why it is not run")
        );
        assert_eq!(
            refused(format!("{entry}reason = \"\"\nplanned = \"\"\n")),
            format!("{name} has more than one of experiment, planned and reason")
        );
        assert_eq!(
            refused(format!("{entry}experiment = \"000-table1\"\n")),
            format!("{name} has an experiment and no rows of its result")
        );
        assert_eq!(
            refused(entry.replace("\"000\"", "\"009\"") + "reason = \"\"\n"),
            "experiments/claims.toml: the claim `Table 9` of paper 009: there is no such paper"
        );
    }
}
