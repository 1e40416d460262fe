//! Documents as numbers of words.
//!
//! A word is a run of letters and digits (Unicode), with apostrophes inside kept: `don't` is one word. `<br />` is
//! a space. The vocabulary holds the words that occur at least `min_count` times, by falling count, then by
//! bytes; other words are left out of the documents.

mod documents;
mod labelled;
mod stream;
mod tokenizer;
mod words;

use std::collections::HashMap;
use std::path::Path;

use arrow_array::{Int64Array, StringArray};

use self::documents::DocId;
pub use self::labelled::{LabelledOptions, LabelledTexts, Part};
pub use self::stream::Documents;
pub use self::tokenizer::{Encoded, Tokenizer};
pub use self::words::Vocabulary;
use self::words::for_each_word;
use crate::{Error, Ids, Lists, RecordFormat, Result};

/// Documents, their words and how often each occurs.
#[derive(Clone, Debug, PartialEq)]
pub struct Corpus {
    /// One id per document, in the order of the input.
    pub docs: Ids,
    /// The vocabulary: by falling count, then by bytes.
    pub words: Vec<String>,
    /// How often each word occurs.
    pub counts: Vec<u64>,
    /// The words of every document in their order, as numbers; words outside the vocabulary are left out.
    pub tokens: Lists,
}

/// How documents are read.
#[derive(Clone, Debug)]
pub struct TextOptions {
    /// The column of a table that holds the documents; otherwise by its name.
    pub column: Option<String>,
    /// The column that names them; otherwise by its name, or rows are numbered.
    pub id_column: Option<String>,
    /// Words are compared in lower case.
    pub lowercase: bool,
    /// Rarer words are left out.
    pub min_count: u64,
    /// Encoding of text; UTF-8 unless named.
    pub encoding: Option<String>,
    /// Whether a table of text begins with the names of its columns; otherwise seen from the first line.
    pub has_header: Option<bool>,
    /// The format of the files; otherwise by their endings. Text is one document per line.
    pub format: Option<RecordFormat>,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self {
            column: None,
            id_column: None,
            lowercase: true,
            min_count: 5,
            encoding: None,
            has_header: None,
            format: None,
        }
    }
}

impl Corpus {
    /// Reads documents: one per line of a text file, one per row of a column, or one per file of a folder of
    /// `.txt` files.
    ///
    /// # Errors
    /// [`Error::Content`] for what cannot be read, and if no document has a word that is kept.
    pub fn read(path: &Path, options: &TextOptions) -> Result<(Self, Vec<String>)> {
        let mut builder = Builder::default();
        let mut notes = documents::read(path, options, &mut |id, text| {
            builder.add(id, text, options.lowercase);
            Ok(())
        })?;
        if builder.ids.is_empty() {
            return Err(Error::no_rows(path));
        }
        let ids = doc_ids(std::mem::take(&mut builder.ids), options, path, &mut notes)?;
        let corpus = builder.finish(ids, options.min_count);
        if corpus.tokens.values().is_empty() {
            let (n, least) = (corpus.docs.len(), options.min_count);
            let what = format!("none of {n} documents has a word that occurs {least} times");
            return Err(Error::content(path, format!("{what}; lower --min-count")));
        }
        notes.extend(corpus.note_empty());
        Ok((corpus, notes))
    }

    /// Reads documents under the vocabulary of an earlier corpus, to infer their vectors.
    ///
    /// # Errors
    /// As [`read`](Self::read), except that documents may all be without a known word.
    pub fn read_with(
        path: &Path,
        options: &TextOptions,
        vocabulary: &Vocabulary,
    ) -> Result<(Self, Vec<String>)> {
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
        let corpus = Self { docs, words, counts, tokens: Lists::from_raw(starts, tokens) };
        notes.extend(corpus.note_empty());
        Ok((corpus, notes))
    }

    /// From documents in memory.
    pub fn of_texts<'a>(
        ids: Ids,
        texts: impl Iterator<Item = &'a str>,
        lowercase: bool,
        min_count: u64,
    ) -> Self {
        let mut builder = Builder::default();
        texts.for_each(|text| builder.add(DocId::Row(0), text, lowercase));
        builder.finish(ids, min_count)
    }

    /// The words under their numbers, to read other documents by.
    pub fn vocabulary(&self, lowercase: bool) -> Vocabulary {
        Vocabulary::new(self.words.clone(), lowercase)
    }

    fn note_empty(&self) -> Option<String> {
        let empty = self.tokens.iter().filter(|list| list.is_empty()).count();
        let all = self.tokens.len();
        (empty > 0).then(|| format!("{empty} of {all} documents have no word of the vocabulary"))
    }
}

/// Documents as they come: words are numbered by their first appearance.
struct Builder {
    ids: Vec<DocId<String>>,
    numbers: HashMap<String, u32>,
    counts: Vec<u64>,
    starts: Vec<usize>,
    tokens: Vec<u32>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            ids: Vec::new(),
            numbers: HashMap::new(),
            counts: Vec::new(),
            starts: vec![0],
            tokens: Vec::new(),
        }
    }
}

impl Builder {
    fn add(&mut self, id: DocId<&str>, text: &str, lowercase: bool) {
        self.ids.push(id.to_owned_id());
        for_each_word(text, lowercase, |word| {
            let number = match self.numbers.get(word) {
                Some(&number) => number,
                None => {
                    self.counts.push(0);
                    let number = self.counts.len() as u32 - 1;
                    self.numbers.insert(word.to_owned(), number);
                    number
                }
            };
            self.counts[number as usize] += 1;
            self.tokens.push(number);
        });
        self.starts.push(self.tokens.len());
    }

    fn finish(self, docs: Ids, min_count: u64) -> Corpus {
        let count = |number: u32| self.counts[number as usize];
        let mut kept: Vec<(String, u32)> =
            self.numbers.into_iter().filter(|(_, number)| count(*number) >= min_count).collect();
        kept.sort_unstable_by(|a, b| count(b.1).cmp(&count(a.1)).then_with(|| a.0.cmp(&b.0)));
        let mut place = vec![u32::MAX; self.counts.len()];
        kept.iter().enumerate().for_each(|(at, (_, number))| place[*number as usize] = at as u32);
        let (mut starts, mut tokens) = (Vec::with_capacity(self.starts.len()), self.tokens);
        let (mut end, mut next) = (0, 0);
        for boundary in self.starts {
            while next < boundary {
                let word = place[tokens[next] as usize];
                if word != u32::MAX {
                    tokens[end] = word;
                    end += 1;
                }
                next += 1;
            }
            starts.push(end);
        }
        tokens.truncate(end);
        let counts = kept.iter().map(|(_, number)| count(*number)).collect();
        let words = kept.into_iter().map(|(word, _)| word).collect();
        Corpus { docs, words, counts, tokens: Lists::from_raw(starts, tokens) }
    }
}

/// The ids of documents. Where they repeat, documents are numbered instead, unless the user chose the column.
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
        if let Some(column) = &options.id_column {
            let what = format!("--id-column {column}: `{id}` names more than one document");
            return Err(Error::content(path, what));
        }
        notes.push(format!("ids repeat (`{id}`): documents are numbered from 0 instead"));
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
