//! Networks that read text, opened again: how often they are right, and what they say of new documents.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use veridical_core::Job;
use veridical_core::{Seed, settings};
use veridical_data::{LabelledTexts, Part, Vocabulary, fingerprint};
use veridical_io::run::{self, RunFolder};
use veridical_io::{
    Input, LabelledOptions, Output, ReadOptions, Replace, Source, publish, write_atomically,
};
use veridical_nets::fit::{DocumentPasses, Documents};
use veridical_nets::metrics::{measures, predicted};
use veridical_nets::{Loss, Net, OptimiserKind, OptimiserSettings, Table};

use super::super::evaluate::{JudgedNet, NetEvaluation};
use super::super::metrics;
use super::super::saved::{damaged, part};
use super::material::{divide, numbers};
use super::options::{TextRecipe, TextRequest};
use super::{EMBEDDING, METHOD, WORDS};
use crate::evaluate::Evaluate;
use crate::{Error, Result};

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
            let what = format!("`{EMBEDDING}` does not fit the words of the run");
            return Err(broken(format!("{what}; train it again")));
        };
        net.import(&tensors, true).map_err(|e| broken(e.to_string()))?;
        let rule = OptimiserSettings::of(OptimiserKind::Sgd);
        let words = Table::new(dim, words, &rule)?;
        let seed = run.document().get("seed").and_then(Value::as_u64).unwrap_or(0);
        let vocabulary = Vocabulary::new(names, true);
        if classes.len() < 2 {
            return Err(damaged(&run, "`classes` has fewer than two"));
        }
        Ok(Self { run, request, seed, classes, vocabulary, words, net, loss })
    }

    /// Outputs of documents.
    fn outputs(&self, documents: &Documents, job: &Job<'_>) -> Result<Vec<f32>> {
        let label = self.run.path().display().to_string();
        let mut passes = DocumentPasses::new(&self.net, documents.most_words(1));
        Ok(passes.outputs(&self.net, &self.words, documents, (&label, job))?)
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
    fn read(saved: &SavedText, given: Option<&Path>, job: &Job<'_>) -> Result<Self> {
        let options = &saved.request.options;
        let path = given.or(options.text.as_deref()).map(Path::to_owned).ok_or_else(|| {
            let what = "does not say where its documents are; name them with ⟨data⟩";
            Error::request(format!("{} {what}", saved.run.path().display()), "")
        })?;
        let mut plain = options.reading();
        plain.records.columns.remove("split");
        let (mut texts, notes) = veridical_io::read_labelled(&path, &plain)?;
        notes.iter().for_each(|note| job.note(note));
        let fingerprint = fingerprint::of_labelled(&texts);
        let recorded = |part: &str| saved.run.document().get(part)?.get("fingerprint")?.as_str();
        let mut chosen: Vec<usize> = (0..texts.texts.len()).collect();
        let all = chosen.len();
        let mut note = None;
        if recorded("data") == Some(&fingerprint) {
            (texts, _) = veridical_io::read_labelled(&path, &options.reading())?;
            let parts = divide(&texts, options, &path)?;
            chosen.retain(|&i| parts[i] == Part::Test);
            if recorded("split") != Some(&fingerprint::of_parts(&parts)) {
                let what = "are for something else than in the training; restore the column";
                return Err(Error::request(
                    format!("the documents of {} {what}", path.display()),
                    "",
                ));
            }
            if chosen.is_empty() {
                chosen = (0..all).collect();
                let what = "which the network has learnt from";
                note = Some(format!("no document is to test on: judged on all {all}, {what}"));
            }
        } else if given.is_none() {
            let what = "the documents are not those of the training any more";
            return Err(Error::request(
                format!("{}: {what}", path.display()),
                "name those to judge on with ⟨data⟩",
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

/// Judges runs that read text.
pub(in super::super) fn evaluate(settings: &Evaluate, job: &Job<'_>) -> Result<NetEvaluation> {
    if settings.classes.is_some() {
        let what = "⟨classes⟩ is for networks on images and tables; text is judged on all classes";
        return Err(Error::request(what, ""));
    }
    let (mut notes, mut models): (Vec<String>, Vec<JudgedNet>) = (Vec::new(), Vec::new());
    let mut classes: Option<(Vec<String>, PathBuf)> = None;
    for path in settings.run.iter().map(|run| run.to_path_buf()) {
        let path = &path;
        let mut folders = run::seeds(path);
        if folders.is_empty() {
            folders.push(path.clone());
        }
        let runs = folders.iter().map(|f| SavedText::open(f)).collect::<Result<Vec<_>>>()?;
        let Some(first) = runs.first() else { continue }; // never empty
        let data = ToJudge::read(first, settings.data.as_deref(), job)?;
        notes.extend(data.note.clone().filter(|note| !notes.contains(note)));
        let mut found = Vec::new();
        for saved in &runs {
            match &classes {
                Some((before, other)) if *before != saved.classes => {
                    let (a, b) = (other.display(), path.display());
                    let what = "predict different things; evaluate them one by one";
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
        models.push(JudgedNet::new(name, model, seeds, found, lines, data.fingerprint));
    }
    let Some((classes, _)) = classes else {
        return Err(Error::missing("name at least one run with ⟨run⟩", ""));
    };
    Ok(NetEvaluation { what: "classification", classes, notes, models })
}

settings! {
    /// Documents to classify by a run.
    pub struct PredictText {
        /// A run of `train text`
        pub run: Input = Input::default() => [required(), value("RUN")],
        /// A table of documents
        pub text: Input = Input::default() => [required()],
        /// Column of the documents
        pub column: Option<String> = None => [otherwise("as the run was trained")],
        /// Column of their ids
        pub id_column: Option<String> = None => [otherwise("`id`, or the number of the row")],
        /// The CSV file to write
        pub out: Output = Output::default() => [required()],
    } with {
        /// What to do about an earlier output.
        pub replace: Replace,
    }
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
/// [`Error::Core`] if the run does not read text, or the table cannot be read or written.
pub fn predict(settings: &PredictText, job: &Job<'_>) -> Result<Predicted> {
    publish::check_new(&settings.out, settings.replace.force)?;
    let saved = SavedText::open(&settings.run)?;
    let LabelledOptions { mut records, .. } = saved.request.options.reading();
    ["label", "split"].iter().for_each(|part| records.columns.remove(part));
    records.columns = records
        .columns
        .with("text", settings.column.as_ref())
        .with("id", settings.id_column.as_ref());
    let options = LabelledOptions { records, without_labels: true };
    let (texts, read) = veridical_io::read_labelled(&settings.text, &options)?;
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
