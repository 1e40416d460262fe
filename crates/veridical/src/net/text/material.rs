//! Documents as a network takes them: divided, their words as numbers.
//!
//! Words and classes are those of the documents that are learnt from. One seeded shuffle divides what no column divides.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Map, Value, json};
use veridical_core::{Order, Seed};
use veridical_data::examples::Targets;
use veridical_data::run::RunFolder;
use veridical_data::{
    Corpus, Ids, LabelledTexts, Part, ReadOptions, Source, Table, Vocabulary, fingerprint,
};

use super::options::TextNetOptions;
use crate::{Error, Observer, Result};

/// The share to test on, unless chosen.
const TEST_SHARE: f64 = 0.1;

/// Documents as numbers of words, with their classes.
#[derive(Clone, Debug)]
pub(super) struct Documents {
    /// Where the words of each begin, and the end of the last.
    starts: Vec<usize>,
    words: Vec<u32>,
    pub targets: Targets,
    /// How many were longer than what is read,
    pub cut: usize,
    /// and how many have no word of the vocabulary.
    pub unknown: usize,
}

impl Documents {
    /// Reads the first `most` known words of each; a document without any is the one word after the last.
    pub fn new<'a>(
        texts: impl Iterator<Item = &'a str>,
        vocabulary: &Vocabulary,
        most: usize,
        classes: Vec<u32>,
    ) -> Self {
        let targets = Targets::Classes(classes);
        let mut new = Self { starts: vec![0], words: Vec::new(), targets, cut: 0, unknown: 0 };
        for text in texts {
            let mut words = vocabulary.tokenize(text);
            new.cut += usize::from(words.len() > most);
            words.truncate(most);
            if words.is_empty() {
                new.unknown += 1;
                words.push(vocabulary.words().len() as u32);
            }
            new.words.extend(words);
            new.starts.push(new.words.len());
        }
        new
    }

    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The words of one.
    pub fn words(&self, i: usize) -> &[u32] {
        &self.words[self.starts[i]..self.starts[i + 1]]
    }

    /// How many words the `n` longest have together.
    pub fn most_words(&self, n: usize) -> usize {
        let mut lengths: Vec<usize> = (0..self.len()).map(|i| self.words(i).len()).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths.iter().take(n).sum()
    }

    /// What there is to say about them.
    pub fn note(&self, what: &str, most: usize) -> Option<String> {
        let all = self.len();
        let cut = format!("{} of {all} {what} are longer than --max-length {most}", self.cut);
        let cut = (self.cut > 0).then(|| format!("{cut}: their first {most} words are read"));
        let unknown = format!("{} of {all} {what} have no known word", self.unknown);
        let unknown = (self.unknown > 0).then_some(unknown);
        let notes: Vec<String> = cut.into_iter().chain(unknown).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}

/// Everything a training needs to know about its data.
pub(super) struct Material {
    pub classes: Vec<String>,
    pub vocabulary: Vocabulary,
    pub train: Documents,
    pub validation: Option<Documents>,
    /// Vectors that were given: their width, and those of all words with one of zeros after the last.
    pub vectors: Option<(usize, Vec<f32>)>,
    /// The sections of `run.json`.
    pub sections: Map<String, Value>,
}

impl Material {
    pub fn load(
        options: &TextNetOptions,
        max_length: usize,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let Some(path) = &options.text else {
            let what = "text is learnt from documents with labels; name a table with --text FILE";
            return Err(Error::Usage(what.into()));
        };
        let (texts, notes) = LabelledTexts::read(path, &options.reading())?;
        notes.iter().for_each(|note| observer.note(note));
        let parts = divide(&texts, options, path)?;
        let of =
            |part: Part| -> Vec<usize> { (0..parts.len()).filter(|&i| parts[i] == part).collect() };
        let [train, validation, test] = [Part::Train, Part::Validation, Part::Test].map(of);
        if train.is_empty() {
            let what = "no document is left to learn from";
            return Err(Error::Usage(format!("{}: {what}", path.display())));
        }
        let classes = classes(train.iter().map(|&i| &texts.labels[i]));
        if let [only] = classes.as_slice() {
            let what = format!("every document to learn from has the label `{only}`");
            return Err(Error::Usage(format!(
                "{}: {what}; there is nothing to tell apart",
                path.display()
            )));
        }
        let vocabulary = vocabulary(&texts, &train, options, path)?;
        let documents = |of: &[usize]| {
            let labels = of.iter().map(|&i| &texts.labels[i]);
            let numbers = numbers(labels, &classes, path)?;
            let texts = of.iter().map(|&i| texts.texts[i].as_str());
            Ok::<_, Error>(Documents::new(texts, &vocabulary, max_length, numbers))
        };
        let learnt = documents(&train)?;
        observer_note(observer, learnt.note("documents to learn from", max_length));
        let kept = (!validation.is_empty()).then(|| documents(&validation)).transpose()?;
        numbers(test.iter().map(|&i| &texts.labels[i]), &classes, path)?; // before hours of training
        let mut sections = Map::new();
        sections.insert(
            "data".into(),
            json!({ "rows": texts.texts.len(), "fingerprint": fingerprint::of_labelled(&texts) }),
        );
        let rows =
            json!({ "train": train.len(), "validation": validation.len(), "test": test.len() });
        sections.insert(
            "split".into(),
            json!({ "rows": rows, "fingerprint": fingerprint::of_parts(&parts) }),
        );
        sections.insert("classes".into(), json!(classes));
        let vectors = match &options.vectors {
            None => None,
            Some(path) => {
                let (width, values, content) = vectors(path, vocabulary.words(), observer)?;
                sections.insert("vectors".into(), content.into());
                Some((width, values))
            }
        };
        Ok(Self { classes, vocabulary, train: learnt, validation: kept, vectors, sections })
    }
}

fn observer_note(observer: &dyn Observer, note: Option<String>) {
    if let Some(note) = note {
        observer.note(&note);
    }
}

/// What each document is for.
pub(super) fn divide(
    texts: &LabelledTexts,
    options: &TextNetOptions,
    path: &Path,
) -> Result<Vec<Part>> {
    let share = |flag: &str, given: Option<f64>, usual: f64| {
        let share = given.unwrap_or(usual);
        match (0.0..1.0).contains(&share) {
            true => Ok(share),
            false => {
                let what = format!("--{flag} must be a share from 0 to below 1, got {share}");
                Err(Error::Usage(what))
            }
        }
    };
    let validation = share("validation", options.validation, 0.0)?;
    let test = share("test-share", options.test_share, TEST_SHARE)?;
    let seed = Seed::new(options.split_seed.unwrap_or(0))?;
    let n = texts.texts.len();
    let mut parts = match texts.parts.is_empty() {
        false if options.test_share.is_some() => {
            let what = "--test-share and --split-column contradict each other; leave one out";
            return Err(Error::Usage(what.into()));
        }
        false => texts.parts.clone(),
        true => drawn(vec![Part::Train; n], Part::Test, test, seed, "test-share", path)?,
    };
    if validation > 0.0 {
        if parts.contains(&Part::Validation) {
            let what = "--validation, but --split-column names documents for validation already";
            return Err(Error::Usage(format!("{what}; leave --validation out")));
        }
        parts = drawn(parts, Part::Validation, validation, seed, "validation", path)?;
    }
    Ok(parts)
}

/// A share of the documents to learn from becomes another part.
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
        let what = format!("--{flag} {share} of {} documents is {count}", from.len());
        return Err(Error::Usage(format!(
            "{}: {what}; both parts need one at least",
            path.display()
        )));
    }
    let order = Order::new(from.len() as u64, seed, flag, 0);
    (0..count).for_each(|t| parts[from[order.at(t as u64) as usize]] = part);
    Ok(parts)
}

/// The labels there are: numbers by their size, others by their bytes.
pub(super) fn classes<'a>(labels: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut classes: Vec<String> = labels.cloned().collect();
    classes.sort_unstable();
    classes.dedup();
    let number = |label: &String| label.parse::<i64>().ok();
    if classes.iter().all(|label| number(label).is_some()) {
        classes.sort_by_key(|label| number(label));
    }
    classes
}

/// Labels as numbers of classes.
pub(super) fn numbers<'a>(
    labels: impl Iterator<Item = &'a String>,
    classes: &[String],
    path: &Path,
) -> Result<Vec<u32>> {
    let places: HashMap<&String, u32> = classes.iter().zip(0..).collect();
    let number = |label: &String| {
        places.get(label).copied().ok_or_else(|| {
            let known: Vec<&str> = classes.iter().take(12).map(String::as_str).collect();
            let what =
                format!("label `{label}` is none of those learnt from ({})", known.join(", "));
            Error::Usage(format!("{}: {what}", path.display()))
        })
    };
    labels.map(number).collect()
}

/// The words of the documents to learn from that occur often enough.
pub(super) fn vocabulary(
    texts: &LabelledTexts,
    train: &[usize],
    options: &TextNetOptions,
    path: &Path,
) -> Result<Vocabulary> {
    let least = options.min_count();
    let chosen = train.iter().map(|&i| texts.texts[i].as_str());
    let ids = Ids::Int((0..train.len() as i64).collect::<Vec<_>>().into());
    let corpus = Corpus::of_texts(ids, chosen, true, least);
    if corpus.words.is_empty() {
        let what =
            format!("none of {} documents has a word that occurs {least} times", train.len());
        return Err(Error::Usage(format!("{}: {what}; lower --min-count", path.display())));
    }
    Ok(corpus.vocabulary(true))
}

/// The vectors of words, zeros where there is none and after the last, and their fingerprint.
fn vectors(
    path: &Path,
    words: &[String],
    observer: &dyn Observer,
) -> Result<(usize, Vec<f32>, String)> {
    let file = match RunFolder::is_run(path) {
        true => RunFolder::open(path)?.table(Some("word"))?,
        false => path.to_owned(),
    };
    let table = Table::load(&Source::Path(file), &ReadOptions::default())?;
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
        return Err(Error::Usage(format!(
            "--vectors {} {what}; its ids are such as `{example}`",
            path.display()
        )));
    }
    if without > 0 {
        observer
            .note(&format!("{without} of {all} words have no vector in --vectors and get zeros"));
    }
    Ok((table.dim, values, fingerprint::of_table(&table)))
}
