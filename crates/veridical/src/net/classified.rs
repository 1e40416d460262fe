//! Evaluation of classifiers of documents and of vectors, beside the most frequent class and the textbook classifier, both
//! trained on the same rows; McNemar's test compares a run with the best of them.

use std::path::{Path, PathBuf};

use veridical_core::Job;
use veridical_data::examples::Targets;
use veridical_io::run::{self, RunFolder};
use veridical_nets::Loss;
use veridical_nets::metrics::{McNemar, measures, predicted};

use super::evaluate::{EvaluatedNet, NetEvaluation};
use super::metrics;
use crate::evaluate::Evaluate;
use crate::{Error, Result};

/// A trained classifier.
pub(super) trait Classifies: Sized {
    /// What it is applied to.
    type Inputs;

    /// Loads it from a run folder.
    fn open(path: &Path) -> Result<Self>;
    /// Returns the run folder.
    fn run(&self) -> &RunFolder;
    /// Returns the random seed of the run.
    fn seed(&self) -> u64;
    /// Returns the names of the classes.
    fn classes(&self) -> &[String];
    /// Returns the name of the model.
    fn description(&self) -> String;
    /// Returns the loss and the number of outputs.
    fn loss(&self) -> (Loss, usize);
    /// Returns the test set of the run, or all of other data.
    fn test(&self, settings: &Evaluate, job: &Job<'_>) -> Result<Test<Self::Inputs>>;
    /// Returns the outputs for inputs, and what is to be said about the inputs.
    fn outputs(&self, inputs: &Self::Inputs, job: &Job<'_>) -> Result<(Vec<f32>, Option<String>)>;
    /// Returns what baselines need; `None` if the training data cannot be had.
    fn baselines(&self, inputs: &Self::Inputs, job: &Job<'_>) -> Result<Option<Baselines>>;
}

/// Labeled inputs to evaluate on.
pub(super) struct Test<I> {
    pub inputs: I,
    pub targets: Targets,
    pub fingerprint: String,
    pub note: Option<String>,
}

/// What baselines need.
pub(super) struct Baselines {
    /// Classes of the training data.
    pub labels: Vec<u32>,
    /// Name and outputs of the textbook classifier, unless the run is one.
    pub usual: Option<(&'static str, Vec<f32>)>,
}

/// Evaluates classifiers of one kind.
pub(super) fn evaluate<C: Classifies>(settings: &Evaluate, job: &Job<'_>) -> Result<NetEvaluation> {
    if settings.classes.is_some() {
        let what = "⟨classes⟩ is for networks on images and tables; these models are evaluated on all classes";
        return Err(Error::request(what, ""));
    }
    let (mut notes, mut models): (Vec<String>, Vec<EvaluatedNet>) = (Vec::new(), Vec::new());
    let mut classes: Option<(Vec<String>, PathBuf)> = None;
    let mut baselines: Vec<EvaluatedNet> = Vec::new();
    let mut note = |note: Option<String>| notes.extend(note.filter(|note| !notes.contains(note)));
    for path in settings.run.iter().map(|run| run.to_path_buf()) {
        let path = &path;
        let mut folders = run::seeds(path);
        if folders.is_empty() {
            folders.push(path.clone());
        }
        let runs = folders.iter().map(|folder| C::open(folder)).collect::<Result<Vec<_>>>()?;
        let Some(first) = runs.first() else { continue }; // never empty
        for saved in &runs {
            match &classes {
                Some((before, other)) if before != saved.classes() => {
                    let (a, b) = (other.display(), path.display());
                    let what = "have different classes; evaluate them one by one";
                    return Err(Error::request(format!("{a} and {b} {what}"), ""));
                }
                Some(_) => {}
                None => classes = Some((saved.classes().to_vec(), path.clone())),
            }
        }
        let test = first.test(settings, job)?;
        note(test.note.clone());
        let ((loss, dim), n_classes) = (first.loss(), first.classes().len());
        let (mut found, mut correct) = (Vec::new(), None);
        for saved in &runs {
            let (outputs, about) = saved.outputs(&test.inputs, job)?;
            note(about);
            found.push(measures(&outputs, dim, &test.targets, loss, n_classes)?);
            correct.get_or_insert_with(|| is_correct(&outputs, dim, &test.targets));
        }
        let seeds = runs.iter().map(Classifies::seed).collect();
        let (name, lines) = (path.display().to_string(), metrics(first.run().path()));
        let content = test.fingerprint.clone();
        let mut evaluated =
            EvaluatedNet::new(name, first.description(), seeds, found, lines, content);
        if settings.baselines.is_none() {
            match beside(first, &test, job)? {
                Some(found) => {
                    let accuracy = |b: &Baseline| b.evaluated.accuracy.map_or(0.0, |e| e.value);
                    let best = found.iter().max_by(|a, b| accuracy(a).total_cmp(&accuracy(b)));
                    evaluated.versus = best.zip(correct).map(|(best, correct)| {
                        McNemar::new(&best.evaluated.name, &correct, &best.correct)
                    });
                    let key = |of: &EvaluatedNet| (of.name.clone(), of.fingerprint.clone());
                    for Baseline { evaluated, .. } in found {
                        if !baselines.iter().any(|known| key(known) == key(&evaluated)) {
                            baselines.push(evaluated);
                        }
                    }
                }
                None => note(Some(format!(
                    "{}: no baselines, since its training data is not where it was",
                    path.display()
                ))),
            }
        }
        models.push(evaluated);
    }
    let Some((classes, _)) = classes else {
        return Err(Error::missing("pass at least one run with ⟨run⟩", ""));
    };
    models.extend(baselines);
    Ok(NetEvaluation { what: "classification", classes, notes, models })
}

/// Which examples are classified correctly.
fn is_correct(outputs: &[f32], dim: usize, targets: &Targets) -> Vec<bool> {
    let Targets::Classes(labels) = targets else { return Vec::new() };
    let rows = outputs.chunks_exact(dim).zip(labels);
    rows.map(|(f, &label)| predicted(f) == label as usize).collect()
}

/// A baseline with the examples that it has right.
struct Baseline {
    evaluated: EvaluatedNet,
    correct: Vec<bool>,
}

/// Evaluates the baselines of a run; `None` if its training data cannot be had.
fn beside<C: Classifies>(
    saved: &C,
    test: &Test<C::Inputs>,
    job: &Job<'_>,
) -> Result<Option<Vec<Baseline>>> {
    let Some(Baselines { labels, usual }) = saved.baselines(&test.inputs, job)? else {
        return Ok(None);
    };
    let ((loss, dim), n_classes) = (saved.loss(), saved.classes().len());
    let baseline = |name: &str, outputs: Vec<f32>| -> Result<Baseline> {
        let found = vec![measures(&outputs, dim, &test.targets, loss, n_classes)?];
        let content = test.fingerprint.clone();
        let evaluated =
            EvaluatedNet::new(name.into(), name.into(), vec![0], found, Vec::new(), content);
        let correct = is_correct(&outputs, dim, &test.targets);
        Ok(Baseline { evaluated: EvaluatedNet { is_baseline: true, ..evaluated }, correct })
    };
    let n = match &test.targets {
        Targets::Classes(labels) => labels.len(),
        Targets::Numbers { dim, values } => values.len() / dim,
    };
    let mut found = vec![baseline("majority class", constant(&labels, n_classes, dim).repeat(n))?];
    if let Some((name, outputs)) = usual {
        found.push(baseline(name, outputs)?);
    }
    Ok(Some(found))
}

/// The outputs whose probabilities are the shares of the classes; a class without examples counts as half of one.
fn constant(labels: &[u32], classes: usize, dim: usize) -> Vec<f32> {
    let mut counts = vec![0.0_f64; classes];
    labels.iter().for_each(|&label| counts[label as usize] += 1.0);
    let logs: Vec<f64> = counts.iter().map(|count| count.max(0.5).ln()).collect();
    match dim {
        1 => vec![(logs[1] - logs[0]) as f32],
        _ => logs.into_iter().map(|x| x as f32).collect(),
    }
}
