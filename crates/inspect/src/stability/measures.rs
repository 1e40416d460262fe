//! The measures that a limit can be set on: one name each, in JSON, budgets, flags and reports.

use serde::Serialize;
use veridical_core::{Error, Estimate, Result};

use crate::stability::{Comparison, PairMeasure};

/// Which way a measure does harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Harm {
    /// Small values are bad: a limit is a minimum.
    Low,
    /// Large values are bad: a limit is a maximum.
    High,
}

/// What a measure is.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name in JSON; `_` becomes `-` in flags and budgets.
    pub key: &'static str,
    /// In a sentence.
    pub label: &'static str,
    /// Which way it does harm.
    pub harm: Harm,
    /// What its estimate's `n` counts and more of makes the interval narrower; empty for something counted.
    pub from: &'static str,
    /// One line for a person who sees it for the first time.
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

/// All of them, in the order of reports.
pub static KINDS: [Kind; 13] = [
    kind(
        "shared_ids",
        "ids kept",
        Harm::Low,
        "",
        "share of the reference's ids that are still there",
    ),
    kind(
        "new_ids",
        "new ids",
        Harm::High,
        "",
        "share of today's ids that the reference does not have",
    ),
    kind(
        "zero_vectors",
        "zero vectors",
        Harm::High,
        "",
        "share of today's rows that are all zeros",
    ),
    kind(
        "duplicate_vectors",
        "repeated vectors",
        Harm::High,
        "",
        "share of today's rows that repeat another row exactly",
    ),
    kind(
        "norm_change",
        "change of the norm",
        Harm::High,
        "",
        "how far the median length of a vector moved, relative to the reference",
    ),
    kind(
        "nn_overlap",
        "neighbours kept",
        Harm::Low,
        "probes",
        "share of an id's nearest neighbours that are the same in both",
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
        "the same for the kernel, which looks at near ids more closely",
    ),
    kind(
        "procrustes_residual",
        "left after alignment",
        Harm::High,
        "ids",
        "what the best rotation leaves unexplained, relative to the size of the table",
    ),
    kind(
        "gram_noise",
        "noise of inner products",
        Harm::High,
        "pairs of ids",
        "how far an inner product moves, in units of the spread between pairs",
    ),
    kind(
        "kernel_noise",
        "noise of kernel values",
        Harm::High,
        "pairs of ids",
        "how far a kernel value moves, in units of the spread between pairs",
    ),
    kind(
        "metric",
        "accuracy, retrained",
        Harm::Low,
        "runs",
        "accuracy of a logistic regression that is trained anew on the vectors as they are",
    ),
    kind(
        "metric_sd",
        "spread of the accuracy",
        Harm::High,
        "runs",
        "deviation over runs of the accuracy of a model that is retrained on each of them",
    ),
];

impl Kind {
    /// The kind of a key as JSON writes it, such as `cka`.
    ///
    /// # Errors
    /// [`Error::Request`] names the nearest key there is.
    pub fn of_key(key: &str) -> Result<&'static Self> {
        KINDS.iter().find(|kind| kind.key == key).ok_or_else(|| {
            let nearest = nearest(key, KINDS.iter().map(|kind| kind.key.to_owned()));
            Error::request(
                format!("there is no measure `{key}`"),
                format!("did you mean `{nearest}`?"),
            )
        })
    }

    /// The kind of a limit as a budget or a flag writes it, such as `min-cka`.
    ///
    /// # Errors
    /// [`Error::Request`] names the nearest limit there is.
    pub fn of_limit(limit: &str) -> Result<&'static Self> {
        KINDS.iter().find(|kind| kind.limit() == limit).ok_or_else(|| {
            let nearest = nearest(limit, KINDS.iter().map(Self::limit));
            Error::request(
                format!("there is no limit `{limit}`"),
                format!("did you mean `{nearest}`?"),
            )
        })
    }

    /// How a limit on it is called: `min-cka`, `max-gram-noise`.
    pub fn limit(&self) -> String {
        let side = if self.harm == Harm::Low { "min" } else { "max" };
        format!("{side}-{}", self.key.replace('_', "-"))
    }

    /// The end of an interval that does harm.
    pub fn harmful(&self, [low, high]: [f64; 2]) -> f64 {
        if self.harm == Harm::Low { low } else { high }
    }
}

/// A measured value of a kind.
#[derive(Clone, Debug, Serialize)]
pub struct Measure {
    /// [`Kind::key`].
    pub key: &'static str,
    /// The value with its interval; `None` if it is undefined for these tables.
    pub estimate: Option<Estimate>,
    /// Pairs of runs behind it.
    pub pairs: usize,
    /// The same on runs of identical data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<Floor>,
    #[serde(skip)]
    kind: &'static Kind,
}

/// What a measure is where nothing but the training was repeated.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Floor {
    /// Mean over pairs with its interval.
    pub estimate: Estimate,
    /// The 99 % quantile over pairs, at the harmful side.
    pub quantile: f64,
    /// Runs and pairs of them.
    pub runs: usize,
    /// See `runs`.
    pub pairs: usize,
}

impl Measure {
    /// A value of the kind with this key.
    ///
    /// # Errors
    /// [`Error::Request`] if there is no such kind.
    pub fn new(key: &str, estimate: Option<Estimate>, pairs: usize) -> Result<Self> {
        let kind = Kind::of_key(key)?;
        Ok(Self { key: kind.key, estimate, pairs, floor: None, kind })
    }

    /// What it is.
    pub const fn kind(&self) -> &'static Kind {
        self.kind
    }
}

impl Comparison {
    /// The measures of pairs of runs, in the order of [`KINDS`].
    ///
    /// # Errors
    /// None, as long as [`KINDS`] names them all.
    pub fn measures(&self) -> Result<Vec<Measure>> {
        let all: [(&'static str, &PairMeasure); 6] = [
            ("nn_overlap", &self.nn_overlap),
            ("cka", &self.cka),
            ("kernel_cka", &self.kernel_cka),
            ("procrustes_residual", &self.procrustes_residual),
            ("gram_noise", &self.gram_noise),
            ("kernel_noise", &self.kernel_noise),
        ];
        all.into_iter()
            .map(|(key, measure)| Measure::new(key, measure.estimate, measure.pairs.len()))
            .collect()
    }

    /// The pairs behind the measure of a key.
    pub fn pairs_of(&self, key: &str) -> Option<&PairMeasure> {
        match key {
            "nn_overlap" => Some(&self.nn_overlap),
            "cka" => Some(&self.cka),
            "kernel_cka" => Some(&self.kernel_cka),
            "procrustes_residual" => Some(&self.procrustes_residual),
            "gram_noise" => Some(&self.gram_noise),
            "kernel_noise" => Some(&self.kernel_noise),
            _ => None,
        }
    }
}

/// The name that is fewest edits away (Levenshtein 1966).
fn nearest(word: &str, names: impl Iterator<Item = String>) -> String {
    names.min_by_key(|name| edits(word, name)).unwrap_or_default()
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
        let told = |e: Error| e.to_string();
        assert_eq!(
            told(Kind::of_limit("min-ckaa").unwrap_err()),
            "there is no limit `min-ckaa`; did you mean `min-cka`?"
        );
        assert_eq!(
            told(Measure::new("cka ", None, 0).unwrap_err()),
            "there is no measure `cka `; did you mean `cka`?"
        );
        for kind in &KINDS {
            assert_eq!(Kind::of_limit(&kind.limit()).unwrap(), kind);
            assert_eq!(Kind::of_key(kind.key).unwrap(), kind);
        }
    }
}
