//! The measures that can have a limit, with one name each in JSON, budgets, flags and reports.

use serde::Serialize;
use veridical_core::{Error, Estimate, Result};

use crate::stability::{Comparison, PairMeasure};

/// The harmful direction of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Harm {
    /// Small values are bad: a limit is a minimum.
    Low,
    /// Large values are bad: a limit is a maximum.
    High,
}

/// A kind of measure.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// The name in JSON; `_` becomes `-` in flags and budgets.
    pub key: &'static str,
    /// The label in reports.
    pub label: &'static str,
    /// The harmful direction.
    pub harm: Harm,
    /// What the estimate's `n` counts, more of which narrows the interval; empty for exact counts.
    pub from: &'static str,
    /// A one-line explanation for new users.
    pub meaning: &'static str,
}

const fn kind(
    key: &'static str,
    label: &'static str,
    harm: Harm,
    from: &'static str,
    meaning: &'static str,
) -> Kind {
    Kind { key, label, harm, from, meaning }
}

/// All kinds, in the order of reports.
pub static KINDS: [Kind; 15] = [
    kind("shared_ids", "ids kept", Harm::Low, "", "share of the reference's ids that still exist"),
    kind(
        "new_ids",
        "new ids",
        Harm::High,
        "",
        "share of today's ids that the reference does not have",
    ),
    kind("zero_vectors", "zero vectors", Harm::High, "", "share of today's rows that are zero"),
    kind(
        "duplicate_vectors",
        "repeated vectors",
        Harm::High,
        "",
        "share of today's rows that are exact duplicates of another row",
    ),
    kind(
        "norm_change",
        "norm change",
        Harm::High,
        "",
        "relative change of the median norm of a vector",
    ),
    kind(
        "nn_overlap",
        "neighbors kept",
        Harm::Low,
        "probes",
        "share of an id's nearest neighbors that are the same in both",
    ),
    kind(
        "cka",
        "linear CKA",
        Harm::Low,
        "ids",
        "agreement of the two Gram matrices, 1 for equal geometry, 0 for unrelated tables",
    ),
    kind(
        "kernel_cka",
        "kernel CKA",
        Harm::Low,
        "ids",
        "CKA of the kernel matrices, which emphasizes near ids",
    ),
    kind(
        "procrustes_residual",
        "alignment residual",
        Harm::High,
        "ids",
        "residual after the best rotation, relative to the norm of the table",
    ),
    kind(
        "outlier_ids",
        "ids that moved alone",
        Harm::High,
        "ids",
        "share of ids that moved further than the bulk of ids like them, after alignment",
    ),
    kind(
        "norm_outliers",
        "norms that changed alone",
        Harm::High,
        "ids",
        "share of ids whose norm changed by more than a factor of 2 of the median change",
    ),
    kind(
        "gram_noise",
        "noise of inner products",
        Harm::High,
        "ids",
        "sd of an inner product over runs, in units of the sd between pairs",
    ),
    kind(
        "kernel_noise",
        "noise of kernel values",
        Harm::High,
        "ids",
        "sd of a kernel value over runs, in units of the sd between pairs",
    ),
    kind(
        "metric",
        "accuracy, retrained",
        Harm::Low,
        "runs",
        "accuracy of a logistic regression retrained on the raw vectors",
    ),
    kind(
        "metric_sd",
        "sd of the accuracy",
        Harm::High,
        "runs",
        "sd over runs of the accuracy of a model retrained on each run",
    ),
];

impl Kind {
    /// Returns the kind with a JSON key such as `cka`.
    ///
    /// # Errors
    /// [`Error::Request`] suggests a similar key, or lists all.
    pub fn of_key(key: &str) -> Result<&'static Self> {
        KINDS.iter().find(|kind| kind.key == key).ok_or_else(|| {
            let names = KINDS.iter().map(|kind| kind.key.to_owned()).collect();
            Error::request(format!("there is no measure `{key}`"), suggestion(key, names))
        })
    }

    /// Returns the kind of a limit with a budget or flag name such as `min-cka`.
    ///
    /// # Errors
    /// [`Error::Request`] suggests a similar limit, or lists all.
    pub fn of_limit(limit: &str) -> Result<&'static Self> {
        KINDS.iter().find(|kind| kind.limit() == limit).ok_or_else(|| {
            let names = KINDS.iter().map(Self::limit).collect();
            Error::request(format!("there is no limit `{limit}`"), suggestion(limit, names))
        })
    }

    /// Returns the least and the largest value that a limit on it can have: outside, every table or none would pass.
    pub fn range(&self) -> [f64; 2] {
        match self.key {
            "shared_ids" | "new_ids" | "zero_vectors" | "duplicate_vectors" | "nn_overlap"
            | "outlier_ids" | "norm_outliers" | "metric" | "metric_sd" => [0.0, 1.0],
            "cka" | "kernel_cka" => [-1.0, 1.0], // debiased, so that unrelated tables may have a value below 0
            "norm_change" | "procrustes_residual" | "gram_noise" | "kernel_noise" => {
                [0.0, f64::INFINITY]
            }
            _ => [f64::NEG_INFINITY, f64::INFINITY],
        }
    }

    /// Returns the name of a limit on it: `min-cka`, `max-gram-noise`.
    pub fn limit(&self) -> String {
        let side = if self.harm == Harm::Low { "min" } else { "max" };
        format!("{side}-{}", self.key.replace('_', "-"))
    }

    /// Returns the harmful end of an interval.
    pub fn harmful(&self, [low, high]: [f64; 2]) -> f64 {
        if self.harm == Harm::Low { low } else { high }
    }
}

/// A measured value of a kind.
#[derive(Clone, Debug, Serialize)]
pub struct Measure {
    /// The key of its kind, [`Kind::key`].
    pub key: &'static str,
    /// The value with its interval; `None` if it is undefined for these tables.
    pub estimate: Option<Estimate>,
    /// The number of pairs of runs behind it.
    pub pairs: usize,
    /// The noise floor: the measure on runs of identical data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<Floor>,
    #[serde(skip)]
    kind: &'static Kind,
}

/// The noise floor of a measure: its values when only the training is repeated.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Floor {
    /// The mean over pairs with its interval.
    pub estimate: Estimate,
    /// The 99 % quantile over pairs, on the harmful side.
    pub quantile: f64,
    /// The number of runs.
    pub runs: usize,
    /// The number of pairs of runs.
    pub pairs: usize,
}

impl Measure {
    /// Makes a measure of the kind with this key.
    ///
    /// # Errors
    /// [`Error::Request`] for an unknown key.
    pub fn new(key: &str, estimate: Option<Estimate>, pairs: usize) -> Result<Self> {
        let kind = Kind::of_key(key)?;
        Ok(Self { key: kind.key, estimate, pairs, floor: None, kind })
    }

    /// Returns the kind of the measure.
    pub const fn kind(&self) -> &'static Kind {
        self.kind
    }
}

impl Comparison {
    /// Returns the measures of pairs of runs, in the order of [`KINDS`].
    ///
    /// # Errors
    /// None, as long as [`KINDS`] contains them all.
    pub fn measures(&self) -> Result<Vec<Measure>> {
        let all: [(&'static str, &PairMeasure); 8] = [
            ("nn_overlap", &self.nn_overlap),
            ("cka", &self.cka),
            ("kernel_cka", &self.kernel_cka),
            ("procrustes_residual", &self.procrustes_residual),
            ("outlier_ids", &self.outlier_ids),
            ("norm_outliers", &self.norm_outliers),
            ("gram_noise", &self.gram_noise),
            ("kernel_noise", &self.kernel_noise),
        ];
        all.into_iter()
            .map(|(key, measure)| Measure::new(key, measure.estimate, measure.pairs.len()))
            .collect()
    }

    /// Returns the values of pairs of runs behind the measure of a key.
    pub fn pairs_of(&self, key: &str) -> Option<&PairMeasure> {
        match key {
            "nn_overlap" => Some(&self.nn_overlap),
            "cka" => Some(&self.cka),
            "kernel_cka" => Some(&self.kernel_cka),
            "procrustes_residual" => Some(&self.procrustes_residual),
            "outlier_ids" => Some(&self.outlier_ids),
            "norm_outliers" => Some(&self.norm_outliers),
            "gram_noise" => Some(&self.gram_noise),
            "kernel_noise" => Some(&self.kernel_noise),
            _ => None,
        }
    }
}

/// Suggests the name with the smallest edit distance (Levenshtein 1966), if at most a third of its letters differ; else lists
/// all names.
fn suggestion(word: &str, names: Vec<String>) -> String {
    let nearest = names.iter().min_by_key(|name| edits(word, name));
    match nearest.filter(|name| 3 * edits(word, name) <= name.len().max(word.len())) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("there are {}", names.join(", ")),
    }
}

fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_between_words() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest() {
        let message = |e: Error| e.to_string();
        assert_eq!(
            message(Kind::of_limit("min-ckaa").unwrap_err()),
            "there is no limit `min-ckaa`; did you mean `min-cka`?"
        );
        assert_eq!(
            message(Measure::new("cka ", None, 0).unwrap_err()),
            "there is no measure `cka `; did you mean `cka`?"
        );
        // `min-` alone makes nothing similar.
        for unrelated in ["min-foo", "max-drift", "latency", "min-", ""] {
            let refused = message(Kind::of_limit(unrelated).unwrap_err());
            assert!(!refused.contains("did you mean"), "{refused}");
            let start =
                format!("there is no limit `{unrelated}`; there are min-shared-ids, max-new-ids, ");
            assert!(refused.starts_with(&start) && refused.ends_with("max-metric-sd"), "{refused}");
        }
        assert!(
            message(Kind::of_limit("max-cka").unwrap_err()).ends_with("did you mean `min-cka`?")
        );
        for kind in &KINDS {
            assert_eq!(Kind::of_limit(&kind.limit()).unwrap(), kind);
            assert_eq!(Kind::of_key(kind.key).unwrap(), kind);
        }
    }
}
