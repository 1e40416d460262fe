//! The measures that a limit can be set on: one name each, in JSON, budgets, flags and reports.

use serde::Serialize;

use crate::{Comparison, Estimate, PairMeasure};

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
    /// What more of makes its interval narrower; empty for something counted.
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
    /// The kind of a key as a budget or a flag writes it, such as `min-cka`.
    pub fn of_limit(limit: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.limit() == limit)
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
    /// From how much: probes, ids, pairs of ids, runs; 0 for something counted.
    pub from: usize,
    /// Pairs of runs behind it.
    pub pairs: usize,
    /// The same on runs of identical data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<Floor>,
    #[serde(skip)]
    pub(crate) kind: Option<&'static Kind>,
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
    /// # Panics
    /// If there is no such kind.
    pub fn new(key: &'static str, estimate: Option<Estimate>, from: usize, pairs: usize) -> Self {
        let kind = KINDS.iter().find(|kind| kind.key == key);
        assert!(kind.is_some(), "{key} is not a measure");
        Self { key, estimate, from, pairs, floor: None, kind }
    }

    /// What it is.
    pub fn kind(&self) -> &'static Kind {
        // INVARIANT: `new` found it.
        self.kind.expect("a measure has a kind")
    }
}

impl Comparison {
    /// The measures of pairs of runs, in the order of [`KINDS`].
    pub fn measures(&self) -> Vec<Measure> {
        let all: [(&'static str, &PairMeasure, usize); 6] = [
            ("nn_overlap", &self.nn_overlap, self.probes),
            ("cka", &self.cka, self.ids),
            ("kernel_cka", &self.kernel_cka, self.kernel_ids),
            ("procrustes_residual", &self.procrustes_residual, self.ids),
            ("gram_noise", &self.gram_noise, self.gram.pairs),
            ("kernel_noise", &self.kernel_noise, self.kernel.pairs),
        ];
        all.into_iter()
            .map(|(key, measure, from)| {
                Measure::new(key, measure.estimate, from, measure.pairs.len())
            })
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
