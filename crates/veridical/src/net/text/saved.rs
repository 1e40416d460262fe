//! Trained text models, loaded from their run folders: evaluation and prediction.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use veridical_core::Job;
use veridical_core::{Seed, settings};
use veridical_data::{LabeledTexts, Part, Vocabulary, fingerprint};
use veridical_io::run::{self, RunFolder};
use veridical_io::{
    Input, LabeledOptions, Output, ReadOptions, Replace, Source, publish, write_atomically,
};
use veridical_nets::fit::{DocumentPasses, Documents};
use veridical_nets::metrics::{measures, predicted};
use veridical_nets::{EmbeddingTable, Loss, Net, OptimizerKind, OptimizerSettings};

use super::super::evaluate::{EvaluatedNet, NetEvaluation};
use super::super::metrics;
use super::super::saved::{damaged, part};
use super::material::{divide, numbers};
use super::options::{TextRecipe, TextRequest};
use super::{EMBEDDING, METHOD, WORDS};
use crate::evaluate::Evaluate;
use crate::{Error, Result};

/// A run of a text model.
struct SavedText {
    run: RunFolder,
    request: TextRequest,
    seed: u64,
    classes: Vec<String>,
    vocabulary: Vocabulary,
    words: EmbeddingTable<f32>,
    net: Net<f32>,
    loss: Loss,
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
        let (loss, outputs) = TextRecipe::loss(classes.len());
        let mut net = request.recipe.net(outputs, Seed::new(0)?)?;
        let mut tensors = run.model()?;
        let model = run.path().join("model.safetensors");
        let broken = |what: String| Error::request(format!("{}: {what}", model.display()), "");
        let table = veridical_io::read_table(
            &Source::Path(run.table(Some(WORDS))?),
            &ReadOptions::default(),
        )?;
        let names = (0..table.n_rows()).map(|row| table.ids.get(row)).collect();
        let dim = request.recipe.dim();
        let shape = [table.n_rows() + 1, dim];
        let Some((_, words)) = tensors
            .remove(EMBEDDING)
            .filter(|(own, values)| *own == shape && values.len() == shape[0] * dim)
        else {
            let what = format!("`{EMBEDDING}` does not match the words of the run");
            return Err(broken(format!("{what}; train it again")));
        };
        net.import(&tensors, true).map_err(|e| broken(e.to_string()))?;
        let rule = OptimizerSettings::of(OptimizerKind::Sgd);
        let words = EmbeddingTable::new(dim, words, &rule)?;
        let seed = run.document().get("seed").and_then(Value::as_u64).unwrap_or(0);
        let vocabulary = Vocabulary::new(names, true);
        if classes.len() < 2 {
            return Err(damaged(&run, "`classes` has fewer than two entries"));
        }
        Ok(Self { run, request, seed, classes, vocabulary, words, net, loss })
    }

    /// Returns the outputs of the network for documents.
    fn outputs(&self, documents: &Documents, job: &Job<'_>) -> Result<Vec<f32>> {
        let label = self.run.path().display().to_string();
        let mut passes = DocumentPasses::new(&self.net, documents.most_words(1));
        Ok(passes.outputs(&self.net, &self.words, documents, (&label, job))?)
    }
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

    fn documents(&self, saved: &SavedText) -> Result<Documents> {
        let labels = self.chosen.iter().map(|&i| &self.texts.labels[i]);
        let classes = numbers(labels, &saved.classes, &self.path)?;
        let texts = self.chosen.iter().map(|&i| self.texts.texts[i].as_str());
        let most = saved.request.recipe.max_length;
        Ok(Documents::new(texts, &saved.vocabulary, most, classes))
    }
}

/// Evaluates text models.
pub(in super::super) fn evaluate(settings: &Evaluate, job: &Job<'_>) -> Result<NetEvaluation> {
    if settings.classes.is_some() {
        let what = "⟨classes⟩ is for networks on images and tables; text models are evaluated on all classes";
        return Err(Error::request(what, ""));
    }
    let (mut notes, mut models): (Vec<String>, Vec<EvaluatedNet>) = (Vec::new(), Vec::new());
    let mut classes: Option<(Vec<String>, PathBuf)> = None;
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
        let mut found = Vec::new();
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
            let documents = data.documents(saved)?;
            let most = saved.request.recipe.max_length;
            let note = documents.note("documents", most);
            notes.extend(note.filter(|note| !notes.contains(note)));
            let outputs = saved.outputs(&documents, job)?;
            let (dim, targets) = (saved.net.outputs(), &documents.targets);
            found.push(measures(&outputs, dim, targets, saved.loss, saved.classes.len())?);
        }
        let seeds = runs.iter().map(|saved| saved.seed).collect();
        let (name, model) = (path.display().to_string(), first.request.recipe.name());
        let lines = metrics(first.run.path());
        models.push(EvaluatedNet::new(name, model, seeds, found, lines, data.fingerprint));
    }
    let Some((classes, _)) = classes else {
        return Err(Error::missing("pass at least one run with ⟨run⟩", ""));
    };
    Ok(NetEvaluation { what: "classification", classes, notes, models })
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
    let most = saved.request.recipe.max_length;
    let all = texts.texts.iter().map(String::as_str);
    let documents = Documents::new(all, &saved.vocabulary, most, Vec::new());
    let notes: Vec<String> = documents.note("documents", most).into_iter().collect();
    let outputs = saved.outputs(&documents, job)?;
    let mut table = String::from("id,class,probability\n");
    let mut counts = vec![0; saved.classes.len()];
    for (id, f) in texts.ids.iter().zip(outputs.chunks_exact(saved.net.outputs())) {
        let class = predicted(f);
        counts[class] += 1;
        let (id, name) = (quoted(id), quoted(&saved.classes[class]));
        let _ = writeln!(table, "{id},{name},{:.6}", probability(f, class)); // cannot fail
    }
    write_atomically(&settings.out, table.as_bytes())?;
    let classes = saved.classes.iter().cloned().zip(counts).collect();
    let out = settings.out.display().to_string();
    Ok(Predicted { documents: documents.len(), classes, notes, out })
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
