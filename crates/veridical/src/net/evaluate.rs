//! `veridical evaluate` of networks: how often they are right, or how far off.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use veridical_core::Seed;
use veridical_data::run;

use super::fit::metrics;
use super::material::Task;
use super::measure::{Measures, Passes, measures};
use super::saved::Saved;
use super::text;
use crate::{Error, Observer, Result};

/// Which networks to judge, and on what.
#[derive(Clone, Debug)]
pub struct EvaluateNet {
    /// Run folders and ensembles.
    pub runs: Vec<PathBuf>,
    /// Examples; `None`: where each run found its own.
    pub data: Option<PathBuf>,
    /// Only these classes.
    pub classes: Option<String>,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct NetEvaluation {
    /// `classification` or `regression`.
    pub what: &'static str,
    /// Names of the classes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// What to bear in mind.
    pub notes: Vec<String>,
    /// The models in the order they were given.
    pub models: Vec<JudgedNet>,
}

/// One run, or the runs of an ensemble.
#[derive(Clone, Debug, Serialize)]
pub struct JudgedNet {
    /// The folder.
    pub name: String,
    /// The architecture.
    pub model: String,
    /// The seeds of the runs.
    pub seeds: Vec<u64>,
    /// Each run's measures.
    pub runs: Vec<Measures>,
    /// Of the loss over seeds.
    pub loss: Spread,
    /// Of the accuracy over seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<Spread>,
    /// Of the error over seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rmse: Option<Spread>,
    /// `metrics.jsonl` of the first run.
    #[serde(skip)]
    pub(super) metrics: Vec<Value>,
    #[serde(skip)]
    pub(super) fingerprint: String,
}

impl JudgedNet {
    /// From the measures of the runs, one for each seed.
    pub(super) fn new(
        name: String,
        model: String,
        seeds: Vec<u64>,
        runs: Vec<Measures>,
        metrics: Vec<Value>,
        fingerprint: String,
    ) -> Self {
        let spread = |of: fn(&Measures) -> Option<f64>| {
            let values: Option<Vec<f64>> = runs.iter().map(of).collect();
            values.map(|values| Spread::of(values.into_iter()))
        };
        Self {
            loss: Spread::of(runs.iter().map(|m| m.loss)),
            accuracy: spread(|m| m.accuracy.map(|share| share.value)),
            rmse: spread(|m| m.rmse),
            name,
            model,
            seeds,
            runs,
            metrics,
            fingerprint,
        }
    }
}

/// A mean over seeds and the deviation of one seed; none if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The deviation of one seed, estimated without bias of its square.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sd: Option<f64>,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
        Self { mean, sd: (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()) }
    }
}

/// Judges.
///
/// # Errors
/// [`Error::Usage`] if a run is no network, or the data does not fit it.
pub fn evaluate(settings: &EvaluateNet, observer: &dyn Observer) -> Result<NetEvaluation> {
    if settings.runs.iter().any(|run| text::is_text(run)) {
        return text::evaluate(settings, observer);
    }
    let mut notes: Vec<String> = Vec::new();
    let mut models = Vec::new();
    let mut task: Option<(Task, PathBuf)> = None;
    for path in &settings.runs {
        let mut folders = run::seeds(path);
        if folders.is_empty() {
            folders.push(path.clone());
        }
        let runs = folders.iter().map(|folder| Saved::open(folder)).collect::<Result<Vec<_>>>()?;
        let Some(first) = runs.first() else { continue }; // never empty
        match &task {
            Some((before, other)) if *before != first.task => {
                let (a, b) = (other.display(), path.display());
                let what = "predict different things; evaluate them one by one";
                return Err(Error::Usage(format!("{a} and {b} {what}")));
            }
            Some(_) => {}
            None => task = Some((first.task.clone(), path.clone())),
        }
        let (judged, note) = judge(settings, path, &runs, observer)?;
        notes.extend(note.filter(|note| !notes.contains(note)));
        models.push(judged);
    }
    let Some((task, _)) = task else {
        return Err(Error::Usage("name at least one run with --run".into()));
    };
    let (what, classes) = match task {
        Task::Classes(classes) => ("classification", classes),
        Task::Numbers(_) => ("regression", Vec::new()),
    };
    Ok(NetEvaluation { what, classes, notes, models })
}

/// The runs of one ensemble, on the same examples.
fn judge(
    settings: &EvaluateNet,
    name: &Path,
    runs: &[Saved],
    observer: &dyn Observer,
) -> Result<(JudgedNet, Option<String>)> {
    let first = &runs[0];
    let data = first.data(settings.data.as_deref())?;
    let read = first.read(&data, settings.classes.as_deref(), observer)?;
    let content = |part: &str| read.fingerprint.get(part)?.get("fingerprint")?.as_str();
    let fingerprint = content("test").or(content("train")).unwrap_or_default().to_owned();
    let (examples, note) = first.to_judge(read)?;
    let mut found = Vec::new();
    for saved in runs {
        if (saved.task != first.task) || (saved.shape != first.shape) {
            let what = "are of different data; evaluate them one by one";
            return Err(Error::Usage(format!("the runs of {} {what}", name.display())));
        }
        let feed = saved.normalisation.feed(&examples, Seed::new(0)?);
        let label = saved.run.path().display().to_string();
        let outputs =
            Passes::new(&saved.net).outputs(&saved.net, &feed, Some((&label, observer)))?;
        let dim = saved.net.outputs();
        found.push(measures(&outputs, dim, &examples.targets, saved.loss, saved.classes())?);
    }
    let judged = JudgedNet::new(
        name.display().to_string(),
        first.recipe().model.clone(),
        runs.iter().map(|saved| saved.seed).collect(),
        found,
        metrics(first.run.path()),
        fingerprint,
    );
    Ok((judged, note))
}
