//! Trained text models, loaded from their run folders.

use std::path::{Path, PathBuf};

use serde_json::Value;
use veridical_core::{Job, Seed};
use veridical_data::examples::Targets;
use veridical_data::{Ids, LabeledTexts, Part, Tfidf, Vocabulary, fingerprint};
use veridical_io::run::RunFolder;
use veridical_io::{LabeledOptions, ReadOptions, Source};
use veridical_learn::SparseLogistic;
use veridical_nets::fit::{DocumentPasses, Documents};
use veridical_nets::{EmbeddingTable, Loss, Net, OptimizerKind, OptimizerSettings};

use super::super::apply::{Inputs, Layer, chosen};
use super::super::classified::{self, Baselines, Classifies, Test};
use super::super::evaluate::NetEvaluation;
use super::super::saved::{damaged, part};
use super::material::{Divided, divide, numbers};
use super::options::{METHOD, TextModel, TextRecipe, TextRequest};
use super::tfidf::Classifier;
use super::{EMBEDDING, IDF, INTERCEPTS, TERMS, WORDS};
use crate::evaluate::Evaluate;
use crate::{Error, Result};

/// A run of a text model.
pub(crate) struct SavedText {
    pub(super) run: RunFolder,
    pub(super) request: TextRequest,
    seed: u64,
    pub classes: Vec<String>,
    pub(super) model: SavedModel,
}

/// What a run has learned.
pub(super) enum SavedModel {
    Tfidf(Classifier),
    Rnn { vocabulary: Vocabulary, words: EmbeddingTable<f32>, net: Net<f32> },
}

impl SavedText {
    pub fn open(path: &Path) -> Result<Self> {
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

    /// Returns the outputs for documents, and what is to be said about the documents.
    pub fn outputs(&self, texts: &[&str], job: &Job<'_>) -> Result<(Vec<f32>, Option<String>)> {
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

impl SavedText {
    /// Reads documents without labels.
    pub fn read(&self, path: &Path, inputs: &Inputs, job: &Job<'_>) -> Result<(Ids, Vec<String>)> {
        let LabeledOptions { mut records, .. } = self.request.options.reading();
        ["label", "split"].iter().for_each(|part| records.columns.remove(part));
        records.columns = records
            .columns
            .with("text", inputs.column.as_ref())
            .with("id", inputs.id_column.as_ref());
        let options = LabeledOptions { records, without_labels: true };
        let (LabeledTexts { ids, texts, .. }, notes) = veridical_io::read_labeled(path, &options)?;
        notes.iter().for_each(|note| job.note(note));
        Ok((Ids::of_texts(ids), texts))
    }

    /// Returns the values of a hidden layer for documents: its dimension, a row per document, and what is to be said about the
    /// documents.
    pub fn hidden(
        &self,
        layer: Option<&str>,
        texts: &[&str],
        job: &Job<'_>,
    ) -> Result<(usize, Vec<f32>, Option<String>)> {
        let run = self.run.path();
        let SavedModel::Rnn { vocabulary, words, net } = &self.model else {
            let what =
                format!("{} is a regression on words, which has no hidden layers", run.display());
            return Err(Error::request(what, "train with ⟨model⟩ rnn"));
        };
        let Layer { name, dim } = chosen(net, layer, run)?;
        if let Some(name) = name.as_deref().filter(|name| net.is_of_sequences(name) != Some(true)) {
            let pooled: Vec<&str> =
                net.names().filter(|name| net.is_of_sequences(name) == Some(true)).collect();
            let what = format!("the layer `{name}` of {} has values for every word", run.display());
            let hint = format!("choose one with values for documents: {}", pooled.join(", "));
            return Err(Error::request(what, hint));
        }
        let most = self.request.recipe.max_length;
        let documents = Documents::new(texts.iter().copied(), vocabulary, most, Vec::new());
        let mut passes = DocumentPasses::new(net, documents.most_words(1));
        let label = run.display().to_string();
        let report = (label.as_str(), job);
        let values = match &name {
            Some(name) => passes.hidden(net, words, &documents, name, report)?,
            None => passes.values(net, words, &documents, report, |work| net.features(work))?,
        };
        Ok((dim, values, documents.note("documents", most)))
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
pub(in super::super) struct TestDocuments {
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

    /// Returns the documents.
    fn texts(&self) -> Vec<&str> {
        self.chosen.iter().map(|&i| self.texts.texts[i].as_str()).collect()
    }

    /// Returns the classes of the documents by the numbers of the run.
    fn targets(&self, saved: &SavedText) -> Result<Targets> {
        let labels = self.chosen.iter().map(|&i| &self.texts.labels[i]);
        Ok(Targets::Classes(numbers(labels, &saved.classes, &self.path)?))
    }
}

impl Classifies for SavedText {
    type Inputs = TestDocuments;

    fn open(path: &Path) -> Result<Self> {
        Self::open(path)
    }

    fn run(&self) -> &RunFolder {
        &self.run
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn description(&self) -> String {
        match &self.model {
            SavedModel::Tfidf(_) => TextModel::Tfidf.name().into(),
            SavedModel::Rnn { .. } => self.request.recipe.description(),
        }
    }

    fn loss(&self) -> (Loss, usize) {
        TextRecipe::loss(self.classes.len())
    }

    fn test(&self, settings: &Evaluate, job: &Job<'_>) -> Result<Test<TestDocuments>> {
        if settings.labels.is_some() {
            let what = "⟨labels⟩ are for vectors; the labels of documents are a column of ⟨data⟩";
            return Err(Error::request(what, ""));
        }
        let inputs = TestDocuments::read(self, settings.data.as_deref(), job)?;
        let targets = inputs.targets(self)?;
        let (fingerprint, note) = (inputs.fingerprint.clone(), inputs.note.clone());
        Ok(Test { inputs, targets, fingerprint, note })
    }

    fn outputs(&self, inputs: &TestDocuments, job: &Job<'_>) -> Result<(Vec<f32>, Option<String>)> {
        self.outputs(&inputs.texts(), job)
    }

    fn baselines(&self, inputs: &TestDocuments, job: &Job<'_>) -> Result<Option<Baselines>> {
        let recorded = |part: &str| self.run.document().get(part);
        let is_same = |divided: &Divided| {
            let sections = divided.sections();
            ["data", "split"].iter().all(|part| recorded(part) == sections.get(*part))
        };
        let divided = Divided::load(&self.request.options, &Job::silent()).ok();
        let Some(divided) = divided.filter(is_same) else { return Ok(None) };
        let (labels, classes) = (divided.labels(Part::Train)?, self.classes.len());
        if matches!(self.model, SavedModel::Tfidf(_)) {
            return Ok(Some(Baselines { labels, usual: None }));
        }
        job.note("fitting the baseline tfidf; without it: ⟨baselines⟩ none");
        let train = divided.texts(Part::Train);
        let usual = Classifier::usual(&train, &labels, classes, Seed::new(0)?)?;
        let usual = Some((TextModel::Tfidf.name(), usual.outputs(&inputs.texts())?.0));
        Ok(Some(Baselines { labels, usual }))
    }
}

/// Evaluates text models beside the most frequent class and [`Classifier::usual`], trained on the same documents.
pub(in super::super) fn evaluate(settings: &Evaluate, job: &Job<'_>) -> Result<NetEvaluation> {
    classified::evaluate::<SavedText>(settings, job)
}
