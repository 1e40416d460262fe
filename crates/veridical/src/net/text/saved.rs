//! Trained text models, loaded from their run folders: evaluation and prediction.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use veridical_core::Job;
use veridical_core::{Seed, settings};
use veridical_data::examples::Targets;
use veridical_data::{LabeledTexts, Part, Tfidf, Vocabulary, fingerprint};
use veridical_io::run::{self, RunFolder};
use veridical_io::{
    Input, LabeledOptions, Output, ReadOptions, Replace, Source, publish, write_atomically,
};
use veridical_learn::SparseLogistic;
use veridical_nets::fit::{DocumentPasses, Documents};
use veridical_nets::metrics::{McNemar, measures, predicted};
use veridical_nets::{EmbeddingTable, Loss, Net, OptimizerKind, OptimizerSettings};

use super::super::evaluate::{EvaluatedNet, NetEvaluation};
use super::super::metrics;
use super::super::saved::{damaged, part};
use super::material::{Divided, divide, numbers};
use super::options::{METHOD, TextModel, TextRecipe, TextRequest};
use super::tfidf::Classifier;
use super::{EMBEDDING, IDF, INTERCEPTS, TERMS, WORDS};
use crate::evaluate::Evaluate;
use crate::{Error, Result};

/// A run of a text model.
struct SavedText {
    run: RunFolder,
    request: TextRequest,
    seed: u64,
    classes: Vec<String>,
    model: SavedModel,
}

/// What a run has learned.
enum SavedModel {
    Tfidf(Classifier),
    Rnn { vocabulary: Vocabulary, words: EmbeddingTable<f32>, net: Net<f32> },
}

impl SavedText {
    fn open(path: &Path) -> Result<Self> {
        let run = RunFolder::open(path)?;
        let method = super::super::method(&run);
        if method != METHOD {
            let what = format!("is a run of `{method}`, not a text model");
            return Err(Error::request(
                format!("{} {what}", path.display()),
                "train one with `train text`",
            ));
        }
        let request = TextRequest::new(Vec::new(), Some(run.path()))?;
        let classes: Vec<String> = part(&run, "classes")?;
        if classes.len() < 2 {
            return Err(damaged(&run, "`classes` has fewer than two entries"));
        }
        let (_, outputs) = TextRecipe::loss(classes.len());
        let model = match request.model {
            TextModel::Tfidf => SavedModel::tfidf(&run, outputs)?,
            TextModel::Rnn => SavedModel::rnn(&run, &request.recipe, outputs)?,
        };
        let seed = run.document().get("seed").and_then(Value::as_u64).unwrap_or(0);
        Ok(Self { run, request, seed, classes, model })
    }

    /// Returns the loss and the number of outputs.
    fn loss(&self) -> (Loss, usize) {
        TextRecipe::loss(self.classes.len())
    }

    /// Returns the name of the model.
    fn description(&self) -> String {
        match &self.model {
            SavedModel::Tfidf(_) => TextModel::Tfidf.name().into(),
            SavedModel::Rnn { .. } => self.request.recipe.description(),
        }
    }

    /// Returns the outputs for documents, and what is to be said about the documents.
    fn outputs(&self, texts: &[&str], job: &Job<'_>) -> Result<(Vec<f32>, Option<String>)> {
        match &self.model {
            SavedModel::Tfidf(classifier) => {
                let (outputs, unknown) = classifier.outputs(texts)?;
                let n = texts.len();
                let note = || {
                    format!(
                        "{unknown} of {n} documents have no known word: they get the same answer"
                    )
                };
                Ok((outputs, (unknown > 0).then(note)))
            }
            SavedModel::Rnn { vocabulary, words, net } => {
                let most = self.request.recipe.max_length;
                let documents = Documents::new(texts.iter().copied(), vocabulary, most, Vec::new());
                let label = self.run.path().display().to_string();
                let mut passes = DocumentPasses::new(net, documents.most_words(1));
                let outputs = passes.outputs(net, words, &documents, (&label, job))?;
                Ok((outputs, documents.note("documents", most)))
            }
        }
    }
}

impl SavedModel {
    fn tfidf(run: &RunFolder, outputs: usize) -> Result<Self> {
        let (terms, dim, weights) = table(run, TERMS)?;
        let mut tensors = run.model()?;
        let mut tensor = |name: &str, n: usize| {
            let found = tensors.remove(name).filter(|(_, values)| values.len() == n);
            let what = || format!("`{name}` does not match the terms of the run; train it again");
            found.map(|(_, values)| values).ok_or_else(|| broken(run, &what()))
        };
        if dim != outputs {
            return Err(damaged(run, "the table of terms does not match `classes`"));
        }
        let tfidf = Tfidf::new(terms.clone(), tensor(IDF, terms.len())?);
        let fit = SparseLogistic {
            weights,
            intercepts: tensor(INTERCEPTS, outputs)?,
            iterations: 0,
            loss: f64::NAN,
            converged: true,
        };
        Ok(Self::Tfidf(Classifier { tfidf, fit }))
    }

    fn rnn(run: &RunFolder, recipe: &TextRecipe, outputs: usize) -> Result<Self> {
        let mut net = recipe.net(outputs, Seed::new(0)?)?;
        let mut tensors = run.model()?;
        let (names, ..) = table(run, WORDS)?;
        let dim = recipe.dim();
        let shape = [names.len() + 1, dim];
        let Some((_, words)) = tensors
            .remove(EMBEDDING)
            .filter(|(own, values)| *own == shape && values.len() == shape[0] * dim)
        else {
            let what = format!("`{EMBEDDING}` does not match the words of the run; train it again");
            return Err(broken(run, &what));
        };
        net.import(&tensors, true).map_err(|e| broken(run, &e.to_string()))?;
        let rule = OptimizerSettings::of(OptimizerKind::Sgd);
        let words = EmbeddingTable::new(dim, words, &rule)?;
        Ok(Self::Rnn { vocabulary: Vocabulary::new(names, true), words, net })
    }
}

/// The ids, dimension and values of a table of a run.
fn table(run: &RunFolder, name: &str) -> Result<(Vec<String>, usize, Vec<f32>)> {
    let source = Source::Path(run.table(Some(name))?);
    let table = veridical_io::read_table(&source, &ReadOptions::default())?;
    let names = (0..table.n_rows()).map(|row| table.ids.get(row)).collect();
    Ok((names, table.dim, table.vectors))
}

fn broken(run: &RunFolder, what: &str) -> Error {
    Error::request(format!("{}: {what}", run.path().join("model.safetensors").display()), "")
}

/// The documents to evaluate runs on.
struct TestDocuments {
    path: PathBuf,
    texts: LabeledTexts,
    chosen: Vec<usize>,
    fingerprint: String,
    note: Option<String>,
}

impl TestDocuments {
    /// Reads the test documents of the run, from any location; all documents of another table.
    fn read(saved: &SavedText, given: Option<&Path>, job: &Job<'_>) -> Result<Self> {
        let options = &saved.request.options;
        let path = given.or(options.text.as_deref()).map(Path::to_owned).ok_or_else(|| {
            let what = "does not record where its documents are; pass them with ⟨data⟩";
            Error::request(format!("{} {what}", saved.run.path().display()), "")
        })?;
        let mut plain = options.reading();
        plain.records.columns.remove("split");
        let (mut texts, notes) = veridical_io::read_labeled(&path, &plain)?;
        notes.iter().for_each(|note| job.note(note));
        let fingerprint = fingerprint::of_labeled(&texts);
        let recorded = |part: &str| saved.run.document().get(part)?.get("fingerprint")?.as_str();
        let mut chosen: Vec<usize> = (0..texts.texts.len()).collect();
        let all = chosen.len();
        let mut note = None;
        if recorded("data") == Some(&fingerprint) {
            (texts, _) = veridical_io::read_labeled(&path, &options.reading())?;
            let parts = divide(&texts, options, &path)?;
            chosen.retain(|&i| parts[i] == Part::Test);
            if recorded("split") != Some(&fingerprint::of_parts(&parts)) {
                let what = "are split differently than in training; restore the split column";
                return Err(Error::request(
                    format!("the documents of {} {what}", path.display()),
                    "",
                ));
            }
            if chosen.is_empty() {
                chosen = (0..all).collect();
                let what = "which the model was trained on";
                note = Some(format!("there are no test documents: evaluated on all {all}, {what}"));
            }
        } else if given.is_none() {
            let what = "the documents have changed since training";
            return Err(Error::request(
                format!("{}: {what}", path.display()),
                "pass the documents to evaluate on with ⟨data⟩",
            ));
        }
        Ok(Self { path, texts, chosen, fingerprint, note })
    }

    /// Returns the documents, and their classes by the numbers of the run.
    fn documents(&self, saved: &SavedText) -> Result<(Vec<&str>, Targets)> {
        let labels = self.chosen.iter().map(|&i| &self.texts.labels[i]);
        let classes = numbers(labels, &saved.classes, &self.path)?;
        let texts = self.chosen.iter().map(|&i| self.texts.texts[i].as_str()).collect();
        Ok((texts, Targets::Classes(classes)))
    }
}

/// Evaluates text models beside the most frequent class and [`Classifier::usual`], trained on the same documents.
pub(in super::super) fn evaluate(settings: &Evaluate, job: &Job<'_>) -> Result<NetEvaluation> {
    if settings.classes.is_some() {
        let what = "⟨classes⟩ is for networks on images and tables; text models are evaluated on all classes";
        return Err(Error::request(what, ""));
    }
    let (mut notes, mut models): (Vec<String>, Vec<EvaluatedNet>) = (Vec::new(), Vec::new());
    let mut classes: Option<(Vec<String>, PathBuf)> = None;
    let mut baselines: Vec<EvaluatedNet> = Vec::new();
    for path in settings.run.iter().map(|run| run.to_path_buf()) {
        let path = &path;
        let mut folders = run::seeds(path);
        if folders.is_empty() {
            folders.push(path.clone());
        }
        let runs = folders.iter().map(|f| SavedText::open(f)).collect::<Result<Vec<_>>>()?;
        let Some(first) = runs.first() else { continue }; // never empty
        let data = TestDocuments::read(first, settings.data.as_deref(), job)?;
        notes.extend(data.note.clone().filter(|note| !notes.contains(note)));
        let (mut found, mut correct) = (Vec::new(), None);
        for saved in &runs {
            match &classes {
                Some((before, other)) if *before != saved.classes => {
                    let (a, b) = (other.display(), path.display());
                    let what = "have different targets; evaluate them one by one";
                    return Err(Error::request(format!("{a} and {b} {what}"), ""));
                }
                Some(_) => {}
                None => classes = Some((saved.classes.clone(), path.clone())),
            }
            let (texts, targets) = data.documents(saved)?;
            let (outputs, note) = saved.outputs(&texts, job)?;
            notes.extend(note.filter(|note| !notes.contains(note)));
            let (loss, dim) = saved.loss();
            found.push(measures(&outputs, dim, &targets, loss, saved.classes.len())?);
            correct.get_or_insert_with(|| is_correct(&outputs, dim, &targets));
        }
        let seeds = runs.iter().map(|saved| saved.seed).collect();
        let (name, model) = (path.display().to_string(), first.description());
        let (lines, content) = (metrics(first.run.path()), data.fingerprint.clone());
        let mut evaluated = EvaluatedNet::new(name, model, seeds, found, lines, content);
        if settings.baselines.is_none() {
            match beside(first, &data, job)? {
                Some(found) => {
                    let accuracy = |b: &Baseline| b.evaluated.accuracy.map_or(0.0, |e| e.value);
                    let best = found.iter().max_by(|a, b| accuracy(a).total_cmp(&accuracy(b)));
                    evaluated.versus = best.zip(correct).map(|(best, correct)| {
                        McNemar::new(&best.evaluated.name, &correct, &best.correct)
                    });
                    let is_new = |b: &Baseline| {
                        let same = |other: &EvaluatedNet| {
                            (&other.name, &other.fingerprint)
                                == (&b.evaluated.name, &b.evaluated.fingerprint)
                        };
                        !baselines.iter().any(same)
                    };
                    let new: Vec<Baseline> = found.into_iter().filter(is_new).collect();
                    baselines.extend(new.into_iter().map(|baseline| baseline.evaluated));
                }
                None => notes.push(format!(
                    "{}: no baselines, since its training documents are not where they were",
                    path.display()
                )),
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

/// Evaluates the baselines of a run; `None` if its training documents cannot be had.
fn beside(saved: &SavedText, data: &TestDocuments, job: &Job<'_>) -> Result<Option<Vec<Baseline>>> {
    let options = &saved.request.options;
    let recorded = |part: &str| saved.run.document().get(part);
    let is_same = |divided: &Divided| {
        let sections = divided.sections();
        ["data", "split"].iter().all(|part| recorded(part) == sections.get(*part))
    };
    let Some(divided) = Divided::load(options, &Job::silent()).ok().filter(is_same) else {
        return Ok(None);
    };
    let (texts, targets) = data.documents(saved)?;
    let (loss, dim) = saved.loss();
    let (labels, n_classes) = (divided.labels(Part::Train)?, saved.classes.len());
    let baseline = |name: &str, outputs: Vec<f32>| -> Result<Baseline> {
        let found = measures(&outputs, dim, &targets, loss, n_classes)?;
        let evaluated = EvaluatedNet {
            is_baseline: true,
            ..EvaluatedNet::new(
                name.into(),
                name.into(),
                vec![0],
                vec![found],
                Vec::new(),
                data.fingerprint.clone(),
            )
        };
        Ok(Baseline { evaluated, correct: is_correct(&outputs, dim, &targets) })
    };
    let shares = constant(&labels, n_classes, dim);
    let mut found = vec![baseline("majority class", shares.repeat(texts.len()))?];
    if !matches!(saved.model, SavedModel::Tfidf(_)) {
        job.note("fitting the baseline tfidf; without it: ⟨baselines⟩ none");
        let train = divided.texts(Part::Train);
        let usual = Classifier::usual(&train, &labels, n_classes, Seed::new(0)?)?;
        found.push(baseline(TextModel::Tfidf.name(), usual.outputs(&texts)?.0)?);
    }
    Ok(Some(found))
}

/// The outputs whose probabilities are the shares of the classes; a class without documents counts as half of one.
fn constant(labels: &[u32], classes: usize, dim: usize) -> Vec<f32> {
    let mut counts = vec![0.0_f64; classes];
    labels.iter().for_each(|&label| counts[label as usize] += 1.0);
    let logs: Vec<f64> = counts.iter().map(|count| count.max(0.5).ln()).collect();
    match dim {
        1 => vec![(logs[1] - logs[0]) as f32],
        _ => logs.into_iter().map(|x| x as f32).collect(),
    }
}

settings! {
    /// Settings of [`predict`].
    pub struct PredictText {
        /// Run of `train text`
        pub run: Input = Input::default() => [required(), value("RUN")],
        /// Table of documents to classify
        pub text: Input = Input::default() => [required()],
        /// Column with the text
        pub column: Option<String> = None => [otherwise("the column of the run")],
        /// Column with the document ids
        pub id_column: Option<String> = None => [otherwise("`id`, or the row number")],
        /// CSV file to write
        pub out: Output = Output::default() => [required()],
    } with {
        /// Whether existing output is replaced.
        pub replace: Replace,
    }
}

/// Result of [`predict`].
#[derive(Clone, Debug, Serialize)]
pub struct Predicted {
    /// Number of documents.
    pub documents: usize,
    /// Classes with the number of documents predicted for each.
    pub classes: Vec<(String, usize)>,
    /// Notes about the documents.
    pub notes: Vec<String>,
    /// Path of the table.
    pub out: String,
}

/// Classifies new documents and writes a table of predictions.
///
/// # Errors
/// [`Error::Core`] if the run is not a text model, or the table cannot be read or written.
pub fn predict(settings: &PredictText, job: &Job<'_>) -> Result<Predicted> {
    publish::check_new(&settings.out, settings.replace.force)?;
    let saved = SavedText::open(&settings.run)?;
    let LabeledOptions { mut records, .. } = saved.request.options.reading();
    ["label", "split"].iter().for_each(|part| records.columns.remove(part));
    records.columns = records
        .columns
        .with("text", settings.column.as_ref())
        .with("id", settings.id_column.as_ref());
    let options = LabeledOptions { records, without_labels: true };
    let (texts, read) = veridical_io::read_labeled(&settings.text, &options)?;
    read.iter().for_each(|note| job.note(note));
    let all: Vec<&str> = texts.texts.iter().map(String::as_str).collect();
    let (outputs, note) = saved.outputs(&all, job)?;
    let notes: Vec<String> = note.into_iter().collect();
    let (_, dim) = saved.loss();
    let mut table = String::from("id,class,probability\n");
    let mut counts = vec![0; saved.classes.len()];
    for (id, f) in texts.ids.iter().zip(outputs.chunks_exact(dim)) {
        let class = predicted(f);
        counts[class] += 1;
        let (id, name) = (quoted(id), quoted(&saved.classes[class]));
        let _ = writeln!(table, "{id},{name},{:.6}", probability(f, class)); // cannot fail
    }
    write_atomically(&settings.out, table.as_bytes())?;
    let classes = saved.classes.iter().cloned().zip(counts).collect();
    let out = settings.out.display().to_string();
    Ok(Predicted { documents: all.len(), classes, notes, out })
}

/// Returns the probability of a class: softmax of the outputs, or the logistic function of a single output.
fn probability(f: &[f32], class: usize) -> f64 {
    match f {
        [f] => {
            let signed = if class == 1 { f64::from(*f) } else { -f64::from(*f) };
            1.0 / (1.0 + (-signed).exp())
        }
        _ => {
            let of = |x: f32| (f64::from(x) - f64::from(f[class])).exp();
            1.0 / f.iter().map(|&x| of(x)).sum::<f64>()
        }
    }
}

/// Quotes a CSV field if necessary.
fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}
