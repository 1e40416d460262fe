//! What a text run learned from, and its recurrent network in parts: for explanations, which go back to the training documents.

use std::path::Path;

use veridical_core::Job;
use veridical_data::{LabeledTexts, Part, Vocabulary};
use veridical_io::LabeledOptions;
use veridical_io::run::RunFolder;
use veridical_nets::{EmbeddingTable, Net};

use super::material::{Divided, numbers};
use super::saved::{SavedModel, SavedText};
use crate::{Error, Result};

/// A recurrent network with what turns documents into its inputs.
#[derive(Clone, Copy)]
pub(crate) struct Recurrent<'a> {
    pub net: &'a Net<f32>,
    pub words: &'a EmbeddingTable<f32>,
    pub vocabulary: &'a Vocabulary,
    /// Words of a document that are read.
    pub most: usize,
}

/// Documents of one part: their rows in the table, their texts and classes.
pub(crate) struct LearnedTexts {
    pub rows: Vec<usize>,
    pub texts: Vec<String>,
    pub labels: Vec<u32>,
}

impl SavedText {
    /// Returns the folder of the run.
    pub fn folder(&self) -> &RunFolder {
        &self.run
    }

    /// Returns the recurrent network, and refuses a regression on words.
    pub fn recurrent(&self) -> Result<Recurrent<'_>> {
        match &self.model {
            SavedModel::Rnn { vocabulary, words, net } => {
                let most = self.request.recipe.max_length;
                Ok(Recurrent { net, words, vocabulary, most })
            }
            SavedModel::Tfidf(_) => {
                let what = format!(
                    "{} is a regression on words: its weights are its explanation, and it has no tangent kernel",
                    self.run.path().display()
                );
                Err(Error::request(what, "train with ⟨model⟩ rnn"))
            }
        }
    }

    /// Reads the training, validation and test documents of the run, which must be those of the training.
    pub fn learned_from(&self, given: Option<&Path>, job: &Job<'_>) -> Result<[LearnedTexts; 3]> {
        let options = &self.request.options;
        let run = self.run.path().display();
        let path = given.or(options.text.as_deref()).ok_or_else(|| {
            let what = format!("{run} does not record where its documents are");
            Error::request(what, "pass them with ⟨data⟩")
        })?;
        let (texts, notes) = veridical_io::read_labeled(path, &options.reading())?;
        notes.iter().for_each(|note| job.note(note));
        let all = texts.texts.clone();
        let divided = Divided::new(texts, options, path)?;
        let sections = divided.sections();
        let is_same = |part: &str| self.run.document().get(part) == sections.get(part);
        if !["data", "split", "classes"].into_iter().all(is_same) {
            let what = format!("the documents of {} are not those of {run}", path.display());
            return Err(Error::request(what, "pass with ⟨data⟩ what the network was trained on"));
        }
        let of = |part: Part| -> Result<LearnedTexts> {
            let rows: Vec<usize> = (0..all.len()).filter(|&row| divided.of[row] == part).collect();
            let texts = rows.iter().map(|&row| all[row].clone()).collect();
            Ok(LearnedTexts { rows, texts, labels: divided.labels(part)? })
        };
        Ok([of(Part::Train)?, of(Part::Validation)?, of(Part::Test)?])
    }

    /// Reads documents with labels, of any part.
    pub fn labeled(&self, path: &Path, job: &Job<'_>) -> Result<(Vec<String>, Vec<u32>)> {
        let LabeledOptions { mut records, .. } = self.request.options.reading();
        records.columns.remove("split");
        let options = LabeledOptions { records, without_labels: false };
        let (LabeledTexts { texts, labels, .. }, notes) =
            veridical_io::read_labeled(path, &options)?;
        notes.iter().for_each(|note| job.note(note));
        let labels = numbers(labels.iter(), &self.classes, path)?;
        Ok((texts, labels))
    }
}
