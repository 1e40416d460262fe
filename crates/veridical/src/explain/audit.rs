//! `veridical explain audit`: does a kernel machine decide as the network does, and which kernel is the cheapest that does?
//!
//! Every kernel is fitted twice: to the labels, which is what removal, influence and label errors need, and to the network's logits,
//! whose parts add up to what the network says. Faithfulness is measured on queries with labels
//! ([`veridical_inspect::surrogate`]). The cost that the recommendation weighs is the planned number of operations, which no clock
//! changes; seconds go to the log. Kernels that differ by their normalization share one set of factors.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Job, Seed, settings};
use veridical_inspect::surrogate::{
    Candidate, Faithfulness, FitSettings, Recommendation, Target, faithfulness, fit, largest,
    log_odds, recommend,
};
use veridical_io::{Input, Output};
use veridical_kernels::tangent::Kind;

use super::{Kernels, Limits, Subject, SubjectSettings, matrix, runs};
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
        /// Limits from a file: lines such as `min-tau = 0.5`
        pub budget: Option<Input> = None
            => [heading("Limits (exit code 1 if one is not met)"), value("FILE")],
        /// Smallest tau of the correct class of the recommended kernel
        pub min_tau: Option<f64> = None
            => [heading("Limits (exit code 1 if one is not met)"), at_least(-1.0), at_most(1.0)],
        /// Smallest share of queries that the recommended kernel puts into the network's class
        pub min_agreement: Option<f64> = None
            => [heading("Limits (exit code 1 if one is not met)"), value("SHARE"), at_least(0.0), at_most(1.0)],
        /// Largest difference of accuracy between the recommended kernel and the network, in points
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
    /// Bytes of the factors that it is computed from.
    pub bytes: f64,
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
    let limits = Limits::read(settings.budget.as_deref())?;
    let run = runs(&settings.subject.run).swap_remove(0);
    let mut subject = Subject::open(&run, &settings.subject, None, job)?;
    subject.needs_classes("an audit")?;
    subject.check_classes()?;
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
    let mut notes = subject.notes.clone();
    let mut begun = Instant::now();
    subject.all_kernels(&kinds, &settings.subject, None, job, |kind, found| {
        let Kernels { train, queries, shares, operations, bytes, zeros } = found;
        let taken = begun.elapsed();
        if let Some(note) = subject.says_zeros(&zeros).filter(|note| !notes.contains(note)) {
            notes.push(note);
        }
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
                bytes,
            });
        }
        let [kernel, all] = [taken, begun.elapsed()].map(|time| time.as_secs_f64());
        job.note(&format!("{kind}: {kernel:.1} s, and {:.1} s for its machines", all - kernel));
        begun = Instant::now();
        Ok(())
    })?;
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
        notes,
        classes: subject.classes.clone(),
        labels,
    };
    audit.check(settings, &limits, &run)?;
    Ok(audit)
}

impl Audit {
    /// Checks the limits on the recommended kernel.
    fn check(&mut self, settings: &AuditSettings, limits: &Limits, run: &Path) -> Result<()> {
        let min_tau = limits.or(settings.min_tau, "min-tau");
        let min_agreement = limits.or(settings.min_agreement, "min-agreement");
        let max_tad = limits.or(settings.max_tad, "max-tad");
        if [min_tau, min_agreement, max_tad].iter().all(Option::is_none) {
            return Ok(());
        }
        let Some(Audited { faithfulness: found, kernel, .. }) = self.chosen() else {
            let what = format!("no tau of {} can be measured, so no limit can hold", run.display());
            return Err(Error::request(what, "pass more queries, of more than one class"));
        };
        let mut broken = Vec::new();
        let tau = found.tau.correct_class.map_or(f64::NAN, |tau| tau.value);
        if let Some(least) = min_tau.filter(|least| tau.is_nan() || tau < *least) {
            broken.push(format!("tau of {kernel} is {tau:.3}, the limit is {least}"));
        }
        let agreement = found.agreement.value;
        if let Some(least) = min_agreement.filter(|least| agreement < *least) {
            broken.push(format!(
                "{kernel} agrees on {agreement:.3} of the queries, the limit is {least}"
            ));
        }
        let points = found.accuracy_difference.value.abs();
        if let Some(most) = max_tad.filter(|most| points > *most) {
            broken.push(format!("accuracies differ by {points:.2} points, the limit is {most}"));
        }
        (self.passed, self.broken) = (Some(broken.is_empty()), broken);
        Ok(())
    }
}
