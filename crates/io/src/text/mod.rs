//! Reads documents.

mod documents;
mod labeled;
mod stream;

use std::path::Path;

use arrow_array::{Int64Array, StringArray};
use veridical_data::{Corpus, CorpusBuilder, Ids, Lists, Vocabulary};

use self::documents::DocId;
pub use self::labeled::{LabeledOptions, read_labeled};
pub use self::stream::Documents;
use crate::{Error, RecordOptions, Result};

/// Options for reading documents.
#[derive(Clone, Debug)]
pub struct TextOptions {
    /// How the files are read; the columns of a table are `text`, the documents, and `id`. Without
    /// ids, rows are numbered. A file of format text has one document per line.
    pub records: RecordOptions,
    /// Whether words are converted to lower case.
    pub lowercase: bool,
    /// The minimum count of a word; rarer words are dropped.
    pub min_count: u64,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self { records: RecordOptions::default(), lowercase: true, min_count: 5 }
    }
}

/// Reads documents: one per line of a text file, one per row of a column, or one per file of a folder of
/// `.txt` files. Also returns notes for the user.
///
/// ```
/// use veridical_io::{TextOptions, read_corpus};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("reviews.txt");
/// std::fs::write(&path, "A good film\nA bad film\n")?;
/// let options = TextOptions { min_count: 2, ..TextOptions::default() };
///
/// let (corpus, notes) = read_corpus(&path, &options)?;
/// assert_eq!(corpus.words, ["a", "film"]);
/// assert_eq!(notes, ["one document per line, numbered from 0"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Content`] for input that cannot be read, and if no document has a word in the vocabulary.
pub fn read_corpus(path: &Path, options: &TextOptions) -> Result<(Corpus, Vec<String>)> {
    let (mut ids, mut builder) = (Vec::new(), CorpusBuilder::default());
    let mut notes = documents::read(path, options, &mut |id, text| {
        ids.push(id.to_owned_id());
        builder.add(text, options.lowercase);
        Ok(())
    })?;
    if ids.is_empty() {
        return Err(Error::no_rows(path));
    }
    let ids = doc_ids(ids, options, path, &mut notes)?;
    let corpus = builder.finish(ids, options.min_count);
    if corpus.tokens.values().is_empty() {
        let (n, least) = (corpus.docs.len(), options.min_count);
        let what = format!("none of {n} documents has a word that occurs {least} times");
        return Err(Error::content(path, format!("{what}; lower ⟨min-count⟩")));
    }
    notes.extend(corpus.note_empty());
    Ok((corpus, notes))
}

/// Reads documents with the vocabulary of an earlier corpus, to infer their vectors.
///
/// # Errors
/// The errors of [`read_corpus`], except that documents need not have known words.
pub fn read_corpus_with(
    path: &Path,
    options: &TextOptions,
    vocabulary: &Vocabulary,
) -> Result<(Corpus, Vec<String>)> {
    let (mut ids, mut starts, mut tokens) = (Vec::new(), vec![0], Vec::new());
    let mut notes = documents::read(path, options, &mut |id, text| {
        ids.push(id.to_owned_id());
        vocabulary.push_tokens(text, &mut tokens);
        starts.push(tokens.len());
        Ok(())
    })?;
    if ids.is_empty() {
        return Err(Error::no_rows(path));
    }
    let docs = doc_ids(ids, options, path, &mut notes)?;
    let mut counts = vec![0; vocabulary.words().len()];
    tokens.iter().for_each(|&word| counts[word as usize] += 1);
    let words = vocabulary.words().to_vec();
    let corpus = Corpus { docs, words, counts, tokens: Lists::from_raw(starts, tokens) };
    notes.extend(corpus.note_empty());
    Ok((corpus, notes))
}

/// The ids of documents. Duplicate ids are replaced by numbers, unless the user chose the column.
fn doc_ids(
    ids: Vec<DocId<String>>,
    options: &TextOptions,
    path: &Path,
    notes: &mut Vec<String>,
) -> Result<Ids> {
    let n = ids.len();
    let mut seen = std::collections::HashSet::new();
    let repeated = ids.iter().find(|id| !seen.insert(*id)).map(DocId::shown);
    if let Some(id) = repeated {
        if let Some(column) = options.records.columns.of_role(&documents::ID_ROLE) {
            let what = format!("⟨id-column⟩ {column}: `{id}` names more than one document");
            return Err(Error::content(path, what));
        }
        notes.push(format!("duplicate ids (`{id}`): documents are numbered from 0 instead"));
        return Ok(Ids::numbered(0, n));
    }
    let integers: Option<Vec<i64>> = ids.iter().map(DocId::integer).collect();
    Ok(match integers {
        Some(integers) => Ids::Int(Int64Array::from(integers)),
        None => Ids::Text(StringArray::from_iter_values(ids.iter().map(DocId::shown))),
    })
}

#[cfg(test)]
mod tests;
