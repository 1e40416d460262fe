//! Networks that read text, opened again: how often they are right, and what they say of new documents.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use veridical_core::Seed;
use veridical_data::run::{self, RunFolder};
use veridical_data::{
    LabelledOptions, LabelledTexts, Part, ReadOptions, Source, Table as DataTable, Vocabulary,
    fingerprint, write_atomically,
};
use veridical_nets::{Loss, Net, OptimiserKind, OptimiserSettings, Table};

use super::super::evaluate::{EvaluateNet, JudgedNet, NetEvaluation};
use super::super::fit::metrics;
use super::super::measure::{measures, predicted};
use super::super::saved::{damaged, part};
use super::super::weights;
use super::learner::Passes;
use super::material::{Documents, divide, numbers};
use super::options::{TextRecipe, TextRequest, layer_of};
use super::{EMBEDDING, METHOD, WORDS};
use crate::{Error, Observer, Result};

/// A run that reads text.
struct SavedText {
    run: RunFolder,
    request: TextRequest,
    seed: u64,
    classes: Vec<String>,
    vocabulary: Vocabulary,
    words: Table<f32>,
    net: Net<f32>,
    loss: Loss,
}

impl SavedText {
    fn open(path: &Path) -> Result<Self> {
        let run = RunFolder::open(path)?;
        let method = super::super::method(&run);
        if method != METHOD {
            let what = format!("is a run of `{method}`, not one that reads text");
            return Err(Error::Usage(format!(
                "{} {what}; train one with `train text`",
                path.display()
            )));
        }
        let request = TextRequest::new(&[layer_of(run.path())?])?;
        let classes: Vec<String> = part(&run, "classes")?;
        let (loss, outputs) = TextRecipe::loss(classes.len());
        let mut net = request.recipe.net(outputs, Seed::new(0)?)?;
        let mut tensors = weights::tensors(&run.model()?);
        let model = run.path().join("model.safetensors");
        let broken = |what: String| Error::Usage(format!("{}: {what}", model.display()));
        let table =
            DataTable::load(&Source::Path(run.table(Some(WORDS))?), &ReadOptions::default())?;
        let names = (0..table.n_rows()).map(|row| table.ids.get(row)).collect();
        let dim = request.recipe.dim();
        let Some(words) = tensors.remove(EMBEDDING).filter(|t| {
            t.shape == [table.n_rows() + 1, dim] && t.values.len() == (table.n_rows() + 1) * dim
        }) else {
            let what = format!("`{EMBEDDING}` does not fit the words of the run");
            return Err(broken(format!("{what}; train it again")));
        };
        net.import(&tensors, true).map_err(|e| broken(e.to_string()))?;
        let rule = OptimiserSettings::of(OptimiserKind::Sgd);
        let words = Table::new(dim, words.values, &rule)?;
        let seed = run.document().get("seed").and_then(Value::as_u64).unwrap_or(0);
        let vocabulary = Vocabulary::new(names, true);
        if classes.len() < 2 {
            return Err(damaged(&run, "`classes` has fewer than two"));
        }
        Ok(Self { run, request, seed, classes, vocabulary, words, net, loss })
    }

    /// Outputs of documents.
    fn outputs(&self, documents: &Documents, observer: &dyn Observer) -> Result<Vec<f32>> {
        let label = self.run.path().display().to_string();
        let mut passes = Passes::new(&self.net, documents.most_words(1));
        passes.outputs(&self.net, &self.words, documents, Some((&label, observer)))
    }
}

/// The documents to judge runs on, as they were read.
struct ToJudge {
    path: PathBuf,
    texts: LabelledTexts,
    chosen: Vec<usize>,
    fingerprint: String,
    note: Option<String>,
}

impl ToJudge {
    /// The part to test on of the run's own documents, wherever they are; all documents of another table.
    fn read(saved: &SavedText, given: Option<&Path>, observer: &dyn Observer) -> Result<Self> {
        let options = &saved.request.options;
        let path = given.map(Path::to_owned).or_else(|| options.text.clone()).ok_or_else(|| {
            let what = "does not say where its documents are; name them with --data";
            Error::Usage(format!("{} {what}", saved.run.path().display()))
        })?;
        let plain = LabelledOptions { split_column: None, ..options.reading() };
        let (mut texts, notes) = LabelledTexts::read(&path, &plain)?;
        notes.iter().for_each(|note| observer.note(note));
        let fingerprint = fingerprint::of_labelled(&texts);
        let recorded = |part: &str| saved.run.document().get(part)?.get("fingerprint")?.as_str();
        let mut chosen: Vec<usize> = (0..texts.texts.len()).collect();
        let all = chosen.len();
        let mut note = None;
        if recorded("data") == Some(&fingerprint) {
            (texts, _) = LabelledTexts::read(&path, &options.reading())?;
            let parts = divide(&texts, options, &path)?;
            chosen.retain(|&i| parts[i] == Part::Test);
            if recorded("split") != Some(&fingerprint::of_parts(&parts)) {
                let what = "are for something else than in the training; restore the column";
                return Err(Error::Usage(format!("the documents of {} {what}", path.display())));
            }
            if chosen.is_empty() {
                chosen = (0..all).collect();
                let what = "which the network has learnt from";
                note = Some(format!("no document is to test on: judged on all {all}, {what}"));
            }
        } else if given.is_none() {
            let what = "the documents are not those of the training any more";
            return Err(Error::Usage(format!(
                "{}: {what}; name those to judge on with --data",
                path.display()
            )));
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

/// Judges runs that read text.
pub(in super::super) fn evaluate(
    settings: &EvaluateNet,
    observer: &dyn Observer,
) -> Result<NetEvaluation> {
    if settings.classes.is_some() {
        let what = "--classes is for networks on images and tables; text is judged on all classes";
        return Err(Error::Usage(what.into()));
    }
    let (mut notes, mut models): (Vec<String>, Vec<JudgedNet>) = (Vec::new(), Vec::new());
    let mut classes: Option<(Vec<String>, PathBuf)> = None;
    for path in &settings.runs {
        let mut folders = run::seeds(path);
        if folders.is_empty() {
            folders.push(path.clone());
        }
        let runs = folders.iter().map(|f| SavedText::open(f)).collect::<Result<Vec<_>>>()?;
        let Some(first) = runs.first() else { continue }; // never empty
        let data = ToJudge::read(first, settings.data.as_deref(), observer)?;
        notes.extend(data.note.clone().filter(|note| !notes.contains(note)));
        let mut found = Vec::new();
        for saved in &runs {
            match &classes {
                Some((before, other)) if *before != saved.classes => {
                    let (a, b) = (other.display(), path.display());
                    let what = "predict different things; evaluate them one by one";
                    return Err(Error::Usage(format!("{a} and {b} {what}")));
                }
                Some(_) => {}
                None => classes = Some((saved.classes.clone(), path.clone())),
            }
            let documents = data.documents(saved)?;
            let most = saved.request.recipe.max_length;
            let note = documents.note("documents", most);
            notes.extend(note.filter(|note| !notes.contains(note)));
            let outputs = saved.outputs(&documents, observer)?;
            let (dim, targets) = (saved.net.outputs(), &documents.targets);
            found.push(measures(&outputs, dim, targets, saved.loss, saved.classes.len())?);
        }
        let seeds = runs.iter().map(|saved| saved.seed).collect();
        let (name, model) = (path.display().to_string(), first.request.recipe.name());
        let lines = metrics(first.run.path());
        models.push(JudgedNet::new(name, model, seeds, found, lines, data.fingerprint));
    }
    let Some((classes, _)) = classes else {
        return Err(Error::Usage("name at least one run with --run".into()));
    };
    Ok(NetEvaluation { what: "classification", classes, notes, models })
}

/// Documents to tell apart by a run.
#[derive(Clone, Debug)]
pub struct PredictText {
    /// The run.
    pub run: PathBuf,
    /// A table of documents.
    pub text: PathBuf,
    /// The column of the documents; otherwise as the run was trained.
    pub column: Option<String>,
    /// The column of their ids.
    pub id_column: Option<String>,
    /// The table to write: id, class, probability.
    pub out: PathBuf,
}

/// What was said of documents.
#[derive(Clone, Debug, Serialize)]
pub struct Predicted {
    /// How many documents.
    pub documents: usize,
    /// Classes, and how many documents were taken for each.
    pub classes: Vec<(String, usize)>,
    /// What to bear in mind.
    pub notes: Vec<String>,
    /// The table.
    pub out: String,
}

/// Tells new documents apart and writes a table of them.
///
/// # Errors
/// [`Error::Usage`] if the run does not read text, or the table cannot be read or written.
pub fn predict(settings: &PredictText, observer: &dyn Observer) -> Result<Predicted> {
    let saved = SavedText::open(&settings.run)?;
    let own = saved.request.options.reading();
    let mut options = LabelledOptions { split_column: None, without_labels: true, ..own };
    options.label_column = None;
    options.text.column = settings.column.clone().or(options.text.column);
    options.text.id_column = settings.id_column.clone().or(options.text.id_column);
    let (texts, read) = LabelledTexts::read(&settings.text, &options)?;
    read.iter().for_each(|note| observer.note(note));
    let most = saved.request.recipe.max_length;
    let all = texts.texts.iter().map(String::as_str);
    let documents = Documents::new(all, &saved.vocabulary, most, Vec::new());
    let notes: Vec<String> = documents.note("documents", most).into_iter().collect();
    let outputs = saved.outputs(&documents, observer)?;
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

/// The softmax of the outputs, or the logistic function of one, at a class.
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

/// A field of CSV.
fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}
