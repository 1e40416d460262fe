//! `veridical evaluate` for networks: accuracy for classification, RMSE for regression.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use veridical_core::settings::Settings as _;
use veridical_core::{Estimate, Job, Seed};
use veridical_io::run;
use veridical_nets::metrics::{McNemar, Measures, Passes, measures};

use super::material::Task;
use super::saved::Saved;
use super::{classifier, metrics, text};
use crate::evaluate::Evaluate;
use crate::{Error, Result};

/// Returns whether a run is a network, on examples or on text, or a classifier.
pub fn is_network(run: &Path) -> bool {
    super::is_net(run) || text::is_text(run) || classifier::is_classifier(run)
}

/// Result of [`evaluate`].
#[derive(Clone, Debug, Serialize)]
pub struct NetEvaluation {
    /// Task: `classification` or `regression`.
    pub what: &'static str,
    /// Names of the classes; empty for regression.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// Caveats about the numbers.
    pub notes: Vec<String>,
    /// Results per model, in the order given, followed by the baselines of text models.
    pub models: Vec<EvaluatedNet>,
}

/// Evaluation of one run, or of the runs of an ensemble.
#[derive(Clone, Debug, Serialize)]
pub struct EvaluatedNet {
    /// Run folder.
    pub name: String,
    /// Architecture.
    pub model: String,
    /// Random seeds of the runs.
    pub seeds: Vec<u64>,
    /// Metrics of each run.
    pub runs: Vec<Measures>,
    /// Mean loss over seeds; its interval covers the choice of seeds and is absent for a single run.
    pub loss: Estimate,
    /// Mean accuracy over seeds; its interval covers the choice of examples and seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<Estimate>,
    /// Mean RMSE over seeds; its interval covers the choice of seeds and is absent for a single run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rmse: Option<Estimate>,
    /// Standard deviation of the loss over seeds; `None` for a single run, like those below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_sd: Option<Estimate>,
    /// Standard deviation of the accuracy over seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy_sd: Option<Estimate>,
    /// Standard deviation of the RMSE over seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rmse_sd: Option<Estimate>,
    /// Whether this is a baseline, trained on the same examples.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_baseline: bool,
    /// Comparison of the first run with the best baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versus: Option<McNemar>,
    /// Lines of `metrics.jsonl` of the first run.
    #[serde(skip)]
    pub(super) metrics: Vec<Value>,
    #[serde(skip)]
    pub(super) fingerprint: String,
}

impl EvaluatedNet {
    /// Aggregates the metrics of runs that differ by seed.
    pub(super) fn new(
        name: String,
        model: String,
        seeds: Vec<u64>,
        runs: Vec<Measures>,
        metrics: Vec<Value>,
        fingerprint: String,
    ) -> Self {
        let all =
            |of: fn(&Measures) -> Option<f64>| runs.iter().map(of).collect::<Option<Vec<_>>>();
        let n = runs.first().map_or(0, |m| m.n as u64);
        let losses: Vec<f64> = runs.iter().map(|m| m.loss).collect();
        let shares: Option<Vec<Estimate>> = runs.iter().map(|m| m.accuracy).collect();
        let accuracies = all(|m| m.accuracy.map(|share| share.value));
        let errors = all(|m| m.rmse);
        Self {
            loss: over_seeds(&losses, n),
            accuracy: shares
                .and_then(|shares| Estimate::over_seeds(&shares).map(|e| e.within(0.0, 1.0))),
            rmse: errors.as_deref().map(|errors| over_seeds(errors, n)),
            loss_sd: sd(&losses),
            accuracy_sd: accuracies.as_deref().and_then(sd),
            rmse_sd: errors.as_deref().and_then(sd),
            name,
            model,
            seeds,
            runs,
            is_baseline: false,
            versus: None,
            metrics,
            fingerprint,
        }
    }
}

/// Mean over seeds with an interval from the spread of the values.
fn over_seeds(values: &[f64], n: u64) -> Estimate {
    Estimate { n, ..Estimate::of_runs(values) }
}

/// Standard deviation over seeds, from the unbiased variance; `None` for a single run.
fn sd(values: &[f64]) -> Option<Estimate> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    let runs = values.len() as u64;
    let sd = |sd: f64| Estimate::sd(sd, n - 1.0, runs).with_seeds(runs);
    (runs > 1).then(|| sd((squares / (n - 1.0)).sqrt()))
}

/// Evaluates networks on test data.
///
/// # Errors
/// [`Error::Core`] if a run is not a network, or the data does not match it.
pub fn evaluate(settings: &Evaluate, job: &Job<'_>) -> Result<NetEvaluation> {
    settings.check()?;
    let foreign = [
        (settings.what.is_some(), "ranking and ratings are"),
        (settings.interactions.is_some(), "⟨interactions⟩ is"),
        (settings.baselines.as_ref().is_some_and(|names| names != &["none"]), "⟨baselines⟩ is"),
    ];
    if let Some((_, what)) = foreign.into_iter().find(|(given, _)| *given) {
        let run = settings.run.iter().find(|run| is_network(run));
        let run = run.map(ToString::to_string).unwrap_or_default();
        return Err(Error::request(
            format!("{run} is a network"),
            format!("{what} for embeddings, see ⟨data⟩"),
        ));
    }
    if settings.run.iter().any(|run| text::is_text(run)) {
        return text::evaluate(settings, job);
    }
    if settings.run.iter().any(|run| classifier::is_classifier(run)) {
        return classifier::evaluate(settings, job);
    }
    let mut notes: Vec<String> = Vec::new();
    let mut models = Vec::new();
    let mut task: Option<(Task, PathBuf)> = None;
    for path in settings.run.iter().map(|run| run.to_path_buf()) {
        let path = &path;
        let mut folders = run::seeds(path);
        if folders.is_empty() {
            folders.push(path.clone());
        }
        let runs = folders.iter().map(|folder| Saved::open(folder)).collect::<Result<Vec<_>>>()?;
        let Some(first) = runs.first() else { continue }; // never empty
        match &task {
            Some((before, other)) if *before != first.task => {
                let (a, b) = (other.display(), path.display());
                let what = "have different targets; evaluate them one by one";
                return Err(Error::request(format!("{a} and {b} {what}"), ""));
            }
            Some(_) => {}
            None => task = Some((first.task.clone(), path.clone())),
        }
        let (evaluated, note) = evaluate_ensemble(settings, path, &runs, job)?;
        notes.extend(note.filter(|note| !notes.contains(note)));
        models.push(evaluated);
    }
    let Some((task, _)) = task else {
        return Err(Error::missing("pass at least one run with ⟨run⟩", ""));
    };
    let (what, classes) = match task {
        Task::Classes(classes) => ("classification", classes),
        Task::Numbers(_) => ("regression", Vec::new()),
    };
    Ok(NetEvaluation { what, classes, notes, models })
}

/// Evaluates the runs of one ensemble on the same examples.
fn evaluate_ensemble(
    settings: &Evaluate,
    name: &Path,
    runs: &[Saved],
    job: &Job<'_>,
) -> Result<(EvaluatedNet, Option<String>)> {
    let first = &runs[0];
    let data = first.data(settings.data.as_deref())?;
    let labels = settings.labels.as_deref();
    let read = first.read(&data, settings.classes.as_deref(), labels, job)?;
    let content = |part: &str| read.fingerprint.get(part)?.get("fingerprint")?.as_str();
    let fingerprint = content("test").or(content("train")).unwrap_or_default().to_owned();
    let (examples, note) = first.test_set(read)?;
    let mut found = Vec::new();
    for saved in runs {
        if (saved.task != first.task) || (saved.shape != first.shape) {
            let what = "were trained on different data; evaluate them one by one";
            return Err(Error::request(format!("the runs of {} {what}", name.display()), ""));
        }
        let feed = saved.normalization.feed(&examples, Seed::new(0)?);
        let label = saved.run.path().display().to_string();
        let outputs = Passes::new(&saved.net).outputs(&saved.net, &feed, (&label, job))?;
        let dim = saved.net.outputs();
        found.push(measures(&outputs, dim, &examples.targets, saved.loss, saved.classes())?);
    }
    let evaluated = EvaluatedNet::new(
        name.display().to_string(),
        first.recipe().model.clone(),
        runs.iter().map(|saved| saved.seed).collect(),
        found,
        metrics(first.run.path()),
        fingerprint,
    );
    Ok((evaluated, note))
}
