//! Documents as word indices.
//!
//! A word is a run of letters and digits (Unicode), including inner apostrophes: `don't` is one word. `<br />` is
//! a space. The vocabulary holds the words that occur at least `min_count` times, by descending count, then by
//! bytes; other words are dropped from the documents.

mod labeled;
mod tfidf;
mod words;

use std::collections::HashMap;

pub use self::labeled::{LabeledTexts, Part};
pub use self::tfidf::{Tfidf, TfidfSettings};
pub use self::words::Vocabulary;
use self::words::for_each_word;
use crate::{Ids, Lists};

/// Tokenized documents with their vocabulary and word counts.
///
/// ```
/// use veridical_data::{Corpus, Ids};
///
/// let texts = ["The cat sat.", "the cat's cat"];
/// let corpus = Corpus::of_texts(Ids::numbered(0, 2), texts.into_iter(), true, 2);
/// assert_eq!(corpus.words, ["cat", "the"]); // twice each; equal counts by bytes
/// assert_eq!(corpus.tokens.get(0), [1, 0]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Corpus {
    /// One id per document, in the order of the input.
    pub docs: Ids,
    /// The vocabulary, by descending count, then by bytes.
    pub words: Vec<String>,
    /// The number of occurrences of each word.
    pub counts: Vec<u64>,
    /// The word indices of every document in order; words outside the vocabulary are dropped.
    pub tokens: Lists,
}

impl Corpus {
    /// Tokenizes documents in memory.
    pub fn of_texts<'a>(
        ids: Ids,
        texts: impl Iterator<Item = &'a str>,
        lowercase: bool,
        min_count: u64,
    ) -> Self {
        let mut builder = CorpusBuilder::default();
        texts.for_each(|text| builder.add(text, lowercase));
        builder.finish(ids, min_count)
    }

    /// Returns the vocabulary, for tokenizing other documents.
    pub fn vocabulary(&self, lowercase: bool) -> Vocabulary {
        Vocabulary::new(self.words.clone(), lowercase)
    }

    /// Returns a note if some documents have no words in the vocabulary.
    pub fn note_empty(&self) -> Option<String> {
        let empty = self.tokens.iter().filter(|list| list.is_empty()).count();
        let all = self.tokens.len();
        (empty > 0).then(|| format!("{empty} of {all} documents have no words in the vocabulary"))
    }
}

/// Builds a corpus document by document: words are numbered by first appearance.
#[derive(Clone, Debug)]
pub struct CorpusBuilder {
    numbers: HashMap<String, u32>,
    counts: Vec<u64>,
    starts: Vec<usize>,
    tokens: Vec<u32>,
}

impl Default for CorpusBuilder {
    fn default() -> Self {
        Self { numbers: HashMap::new(), counts: Vec::new(), starts: vec![0], tokens: Vec::new() }
    }
}

impl CorpusBuilder {
    /// Adds a document.
    pub fn add(&mut self, text: &str, lowercase: bool) {
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

    /// Finishes the corpus with the given document ids; words that occur fewer than `min_count` times are dropped.
    pub fn finish(self, docs: Ids, min_count: u64) -> Corpus {
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
