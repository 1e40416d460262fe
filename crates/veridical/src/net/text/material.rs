//! Training data of a text model: split documents, with words as vocabulary indices.
//!
//! Vocabulary and classes come from the training documents. One seeded shuffle splits what a split column does not.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use veridical_core::{Error as CoreError, Job, Order, Seed};
use veridical_data::{Corpus, Ids, LabeledTexts, Part, Vocabulary, fingerprint};
use veridical_io::run::RunFolder;
use veridical_io::{ReadOptions, Source};
use veridical_nets::fit::Documents;

use super::options::{TEST_SHARE, TextNetOptions};
use crate::{Error, Result};

/// Labeled documents, divided into parts; the classes are those of the training documents.
pub(super) struct Divided {
    path: PathBuf,
    texts: LabeledTexts,
    /// Part of each document.
    pub of: Vec<Part>,
    /// Names of the classes.
    pub classes: Vec<String>,
}

impl Divided {
    /// Reads and divides the documents of a training.
    pub fn load(options: &TextNetOptions, job: &Job<'_>) -> Result<Self> {
        let Some(path) = &options.text else {
            let what =
                "training a text model needs labeled documents; pass a table with ⟨text⟩ FILE";
            return Err(Error::request(what, ""));
        };
        let (texts, notes) = veridical_io::read_labeled(path, &options.reading())?;
        notes.iter().for_each(|note| job.note(note));
        Self::new(texts, options, path)
    }

    /// Divides documents read from `path`.
    pub fn new(texts: LabeledTexts, options: &TextNetOptions, path: &Path) -> Result<Self> {
        let of = divide(&texts, options, path)?;
        let train: Vec<usize> = (0..of.len()).filter(|&i| of[i] == Part::Train).collect();
        if train.is_empty() {
            let what = "no training documents remain";
            return Err(CoreError::unfit(format!("{}: {what}", path.display()), "").into());
        }
        let classes = classes(train.iter().map(|&i| &texts.labels[i]));
        if let [only] = classes.as_slice() {
            let what = format!("every training document has the label `{only}`");
            let what = format!("{}: {what}", path.display());
            return Err(CoreError::unfit(what, "classification needs at least two classes").into());
        }
        Ok(Self { path: path.to_owned(), texts, of, classes })
    }

    /// The documents of a part.
    pub fn texts(&self, part: Part) -> Vec<&str> {
        let of = self.of.iter().zip(&self.texts.texts);
        of.filter(|(own, _)| **own == part).map(|(_, text)| text.as_str()).collect()
    }

    /// The class numbers of the documents of a part.
    pub fn labels(&self, part: Part) -> Result<Vec<u32>> {
        let of = self.of.iter().zip(&self.texts.labels);
        let labels = of.filter(|(own, _)| **own == part).map(|(_, label)| label);
        numbers(labels, &self.classes, &self.path)
    }

    /// Sections of `run.json` about the data.
    pub fn sections(&self) -> Map<String, Value> {
        let rows = |part: Part| self.of.iter().filter(|&&own| own == part).count();
        let [train, validation, test] = [Part::Train, Part::Validation, Part::Test].map(rows);
        let data = json!({
            "rows": self.texts.texts.len(), "fingerprint": fingerprint::of_labeled(&self.texts),
        });
        let split = json!({
            "rows": { "train": train, "validation": validation, "test": test },
            "fingerprint": fingerprint::of_parts(&self.of),
        });
        Map::from_iter([
            ("data".to_owned(), data),
            ("split".to_owned(), split),
            ("classes".to_owned(), json!(self.classes)),
        ])
    }
}

/// Training data of a recurrent network with everything derived from it.
pub(super) struct Material {
    pub classes: Vec<String>,
    pub vocabulary: Vocabulary,
    pub train: Documents,
    pub validation: Option<Documents>,
    /// Pretrained word embeddings: their dimension, and the vectors of all words followed by a zero vector.
    pub vectors: Option<(usize, Vec<f32>)>,
    /// Sections of `run.json` about the data.
    pub sections: Map<String, Value>,
}

impl Material {
    pub fn load(options: &TextNetOptions, max_length: usize, job: &Job<'_>) -> Result<Self> {
        let divided = Divided::load(options, job)?;
        let mut sections = divided.sections();
        let Parts { classes, vocabulary, train, validation, .. } =
            Parts::of(divided, options, max_length)?;
        observer_note(job, train.note("training documents", max_length));
        let vectors = match &options.vectors {
            None => None,
            Some(path) => {
                let (width, values, content) = vectors(path, vocabulary.words(), job)?;
                sections.insert("vectors".into(), content.into());
                Some((width, values))
            }
        };
        let validation = (!validation.is_empty()).then_some(validation);
        Ok(Self { classes, vocabulary, train, validation, vectors, sections })
    }
}

/// Training, validation and test documents as word indices; vocabulary and classes come from the training documents.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Part of each document.
    pub of: Vec<Part>,
    /// Names of the classes.
    pub classes: Vec<String>,
    /// Vocabulary of the training documents.
    pub vocabulary: Vocabulary,
    /// Training documents.
    pub train: Documents,
    /// Validation documents, for early stopping.
    pub validation: Documents,
    /// Test documents.
    pub test: Documents,
}

impl Parts {
    /// Splits documents read from `path`, and encodes the first `max_length` known words of each.
    ///
    /// # Errors
    /// Invalid fractions, an empty part, a label that does not occur in training, or an empty vocabulary.
    pub fn new(
        texts: &LabeledTexts,
        options: &TextNetOptions,
        path: &Path,
        max_length: usize,
    ) -> Result<Self> {
        Self::of(Divided::new(texts.clone(), options, path)?, options, max_length)
    }

    fn of(divided: Divided, options: &TextNetOptions, max_length: usize) -> Result<Self> {
        let vocabulary = vocabulary(&divided.texts(Part::Train), options, &divided.path)?;
        let documents = |part: Part| {
            let (texts, labels) = (divided.texts(part), divided.labels(part)?);
            Ok::<_, Error>(Documents::new(texts.into_iter(), &vocabulary, max_length, labels))
        };
        let train = documents(Part::Train)?;
        let (validation, test) = (documents(Part::Validation)?, documents(Part::Test)?);
        let Divided { of, classes, .. } = divided;
        Ok(Self { of, classes, vocabulary, train, validation, test })
    }
}

fn observer_note(job: &Job<'_>, note: Option<String>) {
    if let Some(note) = note {
        job.note(&note);
    }
}

/// Assigns each document to a part.
pub(super) fn divide(
    texts: &LabeledTexts,
    options: &TextNetOptions,
    path: &Path,
) -> Result<Vec<Part>> {
    let share = |flag: &str, given: Option<f64>, usual: f64| {
        let share = given.unwrap_or(usual);
        match (0.0..1.0).contains(&share) {
            true => Ok(share),
            false => {
                let what =
                    format!("⟨{flag}⟩ must be a fraction of at least 0 and below 1, got {share}");
                Err(Error::request(what, ""))
            }
        }
    };
    let validation = share("validation", options.validation, 0.0)?;
    let test = share("test-share", options.test_share, TEST_SHARE)?;
    let seed = Seed::new(options.split_seed.unwrap_or(0))?;
    let n = texts.texts.len();
    let mut parts = match texts.parts.is_empty() {
        false if options.test_share.is_some() => {
            let what = "⟨test-share⟩ and ⟨split-column⟩ contradict each other; leave one out";
            return Err(Error::request(what, ""));
        }
        false => texts.parts.clone(),
        true => drawn(vec![Part::Train; n], Part::Test, test, seed, "test-share", path)?,
    };
    if validation > 0.0 {
        if parts.contains(&Part::Validation) {
            let what = "⟨validation⟩ is set, but ⟨split-column⟩ already names validation documents";
            return Err(Error::request(what, "leave ⟨validation⟩ out"));
        }
        parts = drawn(parts, Part::Validation, validation, seed, "validation", path)?;
    }
    Ok(parts)
}

/// Moves a random fraction of the training documents to another part.
fn drawn(
    mut parts: Vec<Part>,
    part: Part,
    share: f64,
    seed: Seed,
    flag: &str,
    path: &Path,
) -> Result<Vec<Part>> {
    let from: Vec<usize> = (0..parts.len()).filter(|&i| parts[i] == Part::Train).collect();
    let count = (share * from.len() as f64).round() as usize;
    if share > 0.0 && (count == 0 || count == from.len()) {
        let what = format!("⟨{flag}⟩ {share} of {} documents is {count}", from.len());
        return Err(Error::request(
            format!("{}: {what}", path.display()),
            "each part needs at least one",
        ));
    }
    let order = Order::new(from.len() as u64, seed, flag, 0);
    (0..count).for_each(|t| parts[from[order.at(t as u64) as usize]] = part);
    Ok(parts)
}

/// Returns the sorted labels: numbers by value, others by bytes.
pub(in super::super) fn classes<'a>(labels: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut classes: Vec<String> = labels.cloned().collect();
    classes.sort_unstable();
    classes.dedup();
    let number = |label: &String| label.parse::<i64>().ok();
    if classes.iter().all(|label| number(label).is_some()) {
        classes.sort_by_key(|label| number(label));
    }
    classes
}

/// Converts labels to class indices.
pub(super) fn numbers<'a>(
    labels: impl Iterator<Item = &'a String>,
    classes: &[String],
    path: &Path,
) -> Result<Vec<u32>> {
    let places: HashMap<&String, u32> = classes.iter().zip(0..).collect();
    let number = |label: &String| {
        places.get(label).copied().ok_or_else(|| {
            let known: Vec<&str> = classes.iter().take(12).map(String::as_str).collect();
            let what = format!(
                "label `{label}` does not occur in the training documents ({})",
                known.join(", ")
            );
            Error::request(format!("{}: {what}", path.display()), "")
        })
    };
    labels.map(number).collect()
}

/// Builds the vocabulary: words of the training documents that occur often enough.
fn vocabulary(train: &[&str], options: &TextNetOptions, path: &Path) -> Result<Vocabulary> {
    let least = options.min_count();
    let ids = Ids::numbered(0, train.len());
    let corpus = Corpus::of_texts(ids, train.iter().copied(), true, least);
    if corpus.words.is_empty() {
        let what = format!(
            "none of the {} training documents has a word that occurs {least} times",
            train.len()
        );
        return Err(Error::request(format!("{}: {what}", path.display()), "lower ⟨min-count⟩"));
    }
    Ok(corpus.vocabulary(true))
}

/// Returns the word embeddings, zeros where one is missing and after the last word, and their fingerprint.
fn vectors(path: &Path, words: &[String], job: &Job<'_>) -> Result<(usize, Vec<f32>, String)> {
    let file = match RunFolder::is_run(path) {
        true => RunFolder::open(path)?.table(Some("word"))?,
        false => path.to_owned(),
    };
    let table = veridical_io::read_table(&Source::Path(file), &ReadOptions::default())?;
    let rows: HashMap<String, usize> = (0..table.n_rows()).map(|r| (table.ids.get(r), r)).collect();
    let mut values = vec![0.0; (words.len() + 1) * table.dim];
    let mut without = 0;
    for (word, values) in words.iter().zip(values.chunks_exact_mut(table.dim)) {
        match rows.get(word) {
            Some(&row) => values.copy_from_slice(table.row(row)),
            None => without += 1,
        }
    }
    let all = words.len();
    if without == all {
        let example = table.ids.get(0);
        let what = format!("has no vector for any of the {all} words of the documents");
        return Err(Error::request(
            format!("⟨vectors⟩ {} {what}", path.display()),
            format!("its ids are such as `{example}`"),
        ));
    }
    if without > 0 {
        job.note(&format!(
            "{without} of {all} words have no vector in ⟨vectors⟩ and are set to zeros"
        ));
    }
    Ok((table.dim, values, fingerprint::of_table(&table)))
}
