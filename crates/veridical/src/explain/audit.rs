//! `veridical explain audit`: does a kernel machine decide as the network does, and which kernel is the cheapest that does?
//!
//! Every kernel is fitted twice: to the labels, which is what removal, influence and label errors need, and to the network's logits,
//! whose parts add up to what the network says. Faithfulness is measured on queries with labels
//! ([`veridical_inspect::surrogate`]). The cost that the recommendation weighs is the planned number of operations, which no clock
//! changes.

use std::path::Path;

use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Job, Seed, settings};
use veridical_inspect::surrogate::{
    Candidate, Faithfulness, FitSettings, Recommendation, Target, faithfulness, fit, largest,
    log_odds, recommend,
};
use veridical_io::{Input, Output};
use veridical_kernels::tangent::Kind;

use super::{Kernels, Subject, SubjectSettings, matrix, runs};
use crate::{Error, Result};

settings! {
    /// Settings of [`audit`].
    pub struct AuditSettings {
        /// Kernels to compare: trntk, trntk0, pntk, rand-trntk:M, em, ck, ck-cos
        pub kernels: Vec<String> = ["trntk", "trntk0", "pntk", "rand-trntk:2", "em", "ck"].map(String::from).to_vec()
            => [value("NAME,NAME"), by_comma()],
        /// How far below the best tau a cheaper kernel may lie to be recommended
        pub tolerance: f64 = 0.01 => [detail(), at_least(0.0)],
        /// Queries with labels: a folder or a table as the training data
        pub queries: Option<Input> = None => [value("FILE_OR_FOLDER"), otherwise("the test set")],
        /// HTML report to write
        pub html: Option<Output> = None,
        /// Smallest tau of the correct class of the best kernel
        pub min_tau: Option<f64> = None
            => [heading("Limits (exit code 1 if one is not met)"), at_least(-1.0), at_most(1.0)],
        /// Smallest share of queries that the best kernel puts into the network's class
        pub min_agreement: Option<f64> = None
            => [heading("Limits (exit code 1 if one is not met)"), value("SHARE"), at_least(0.0), at_most(1.0)],
        /// Largest difference of accuracy between the best kernel and the network, in points
        pub max_tad: Option<f64> = None
            => [heading("Limits (exit code 1 if one is not met)"), value("POINTS"), at_least(0.0)],
    } with {
        /// Run, data and rows.
        pub subject: SubjectSettings,
    }
}

/// One kernel fitted to one target.
#[derive(Clone, Debug, Serialize)]
pub struct Audited {
    /// The kernel.
    pub kernel: String,
    /// What the machine was fitted to: `labels` or `network`.
    pub fit: &'static str,
    /// The chosen penalty.
    pub lambda: f64,
    /// How it agrees with the network.
    pub faithfulness: Faithfulness,
    /// Share of every layer in the trace of the kernel.
    pub shares: Vec<(String, f64)>,
    /// Log-odds of the label, of network and machine, query by query.
    #[serde(skip)]
    pub(crate) odds: Vec<[f64; 2]>,
    /// Floating-point operations of the kernel, in billions.
    pub cost: f64,
}

/// Result of [`audit`].
#[derive(Clone, Debug, Serialize)]
pub struct Audit {
    /// The run.
    pub run: String,
    /// Training rows that were used, in words.
    pub rows: String,
    /// What the queries are.
    pub queries: String,
    /// Number of queries.
    pub n: usize,
    /// Accuracy of the network on them.
    pub accuracy: f64,
    /// Every kernel with every target.
    pub audited: Vec<Audited>,
    /// The kernel to use, by the fit to labels.
    pub recommendation: Option<Recommendation>,
    /// Limits that are not met, in words.
    pub broken: Vec<String>,
    /// Whether all limits are met; null without limits.
    pub passed: Option<bool>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    #[serde(skip)]
    pub(crate) classes: Vec<String>,
    #[serde(skip)]
    pub(crate) labels: Vec<u32>,
}

impl Audit {
    /// Returns the answer in a sentence.
    pub fn answer(&self) -> String {
        let Some(Recommendation { kernel, reason, .. }) = &self.recommendation else {
            return format!("No kernel of {} has a rank correlation with the network.", self.run);
        };
        let gate = if self.broken.is_empty() {
            String::new()
        } else {
            format!("{}. ", self.broken.join("; "))
        };
        format!("{gate}Use {kernel}: {reason}.")
    }

    /// The recommended kernel, fitted to labels.
    pub(crate) fn chosen(&self) -> Option<&Audited> {
        let kernel = &self.recommendation.as_ref()?.kernel;
        self.audited.iter().find(|audited| audited.kernel == *kernel && audited.fit == "labels")
    }
}

/// Compares kernel machines with the network they explain.
///
/// # Errors
/// As [`explain`](super::explain()); queries need labels.
pub fn audit(settings: &AuditSettings, job: &Job<'_>) -> Result<Audit> {
    settings.check()?;
    let kinds = settings.kernels.iter().map(|name| name.trim().parse::<Kind>());
    let kinds = kinds.collect::<std::result::Result<Vec<_>, _>>()?;
    let run = runs(&settings.subject.run).swap_remove(0);
    let mut subject = Subject::open(&run, &settings.subject, None, job)?;
    if let Some(path) = settings.queries.as_deref() {
        subject.ask_labeled(path, job)?;
    }
    let classes = subject.classes.len();
    let labels = subject.query_labels().to_vec();
    if labels.is_empty() {
        let what = "an audit needs queries with labels";
        return Err(Error::request(what, "pass data with a test set, or ⟨queries⟩ with labels"));
    }
    let [own, logits] = subject.logits(job)?;
    let network = matrix(&logits, classes)?;
    let right = network.iter().zip(&labels).filter(|(f, y)| largest(f) == **y).count();
    let seed = Seed::new(settings.subject.seed)?;
    let n = subject.rows.len();
    let mut audited = Vec::new();
    for kind in &kinds {
        let Kernels { train, queries, shares, operations } =
            subject.kernels(kind.clone(), &settings.subject, job)?;
        let (k, q) = (matrix(&train, n)?, matrix(&queries, n)?);
        let by_labels = Target::Labels { labels: subject.labels(), classes, weights: None };
        let targets = [
            ("labels", by_labels, FitSettings::labels(seed)),
            ("network", Target::Network(matrix(&own, classes)?), FitSettings::network(seed)),
        ];
        for (name, target, fitting) in targets {
            let fitted = fit(k, target, &fitting, job)?;
            let machine = fitted.logits(q)?;
            let machine = matrix(&machine, classes)?;
            let pairs = network.iter().zip(machine.iter()).zip(&labels);
            audited.push(Audited {
                kernel: kind.to_string(),
                fit: name,
                lambda: fitted.choice.lambda,
                faithfulness: faithfulness(network, machine, &labels)?,
                shares: shares.clone(),
                odds: pairs.map(|((f, g), &y)| [log_odds(f, y), log_odds(g, y)]).collect(),
                cost: operations / 1e9,
            });
        }
    }
    let candidates: Vec<Candidate> = audited
        .iter()
        .filter(|audited| audited.fit == "labels")
        .map(|audited| Candidate {
            name: audited.kernel.clone(),
            tau: audited.faithfulness.tau.correct_class,
            cost: audited.cost,
        })
        .collect();
    let mut audit = Audit {
        run: run.display().to_string(),
        rows: subject.says_rows(),
        queries: subject.query_source.clone(),
        n: labels.len(),
        accuracy: right as f64 / labels.len() as f64,
        audited,
        recommendation: recommend(&candidates, settings.tolerance),
        broken: Vec::new(),
        passed: None,
        notes: subject.notes.clone(),
        classes: subject.classes.clone(),
        labels,
    };
    audit.check(settings, &run)?;
    Ok(audit)
}

impl Audit {
    /// Checks the limits on the recommended kernel.
    fn check(&mut self, settings: &AuditSettings, run: &Path) -> Result<()> {
        let limits = [settings.min_tau, settings.min_agreement, settings.max_tad];
        if limits.iter().all(Option::is_none) {
            return Ok(());
        }
        let Some(Audited { faithfulness: found, kernel, .. }) = self.chosen() else {
            let what = format!("no tau of {} can be measured, so no limit can hold", run.display());
            return Err(Error::request(what, "pass more queries, of more than one class"));
        };
        let mut broken = Vec::new();
        let tau = found.tau.correct_class.map_or(f64::NAN, |tau| tau.value);
        if let Some(least) = settings.min_tau.filter(|least| tau.is_nan() || tau < *least) {
            broken.push(format!("tau of {kernel} is {tau:.3}, the limit is {least}"));
        }
        let agreement = found.agreement.value;
        if let Some(least) = settings.min_agreement.filter(|least| agreement < *least) {
            broken.push(format!(
                "{kernel} agrees on {agreement:.3} of the queries, the limit is {least}"
            ));
        }
        let points = found.accuracy_difference.value.abs();
        if let Some(most) = settings.max_tad.filter(|most| points > *most) {
            broken.push(format!("accuracies differ by {points:.2} points, the limit is {most}"));
        }
        (self.passed, self.broken) = (Some(broken.is_empty()), broken);
        Ok(())
    }
}
