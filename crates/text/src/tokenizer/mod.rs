//! Subword tokenizers: text as the token ids that a pretrained encoder was trained on.
//!
//! text -> added tokens split off -> normalized -> words -> subwords -> [CLS] subwords [SEP]
//!
//! Two subword models, one file each: WordPiece as in BERT (`wordpiece.rs`), and byte-level BPE as in GPT-2 and
//! RoBERTa (`bpe.rs`). File formats, their meaning and the ids are those of Hugging Face's `tokenizers`
//! (<https://huggingface.co/docs/tokenizers>); `tests/oracles/tokenizer` holds ids computed by it. The only difference: the
//! classes of punctuation, marks and control characters follow a newer Unicode version than the one built into `tokenizers`.

mod added;
mod bpe;
mod normalize;
mod read;
mod wordpiece;
mod words;

use std::collections::HashMap;

use veridical_core::Result;
use veridical_data::Files;

use self::added::Added;
use self::bpe::Bpe;
use self::normalize::Normalizer;
use self::wordpiece::WordPiece;

/// Splits text into the tokens of a pretrained encoder.
///
/// ```
/// use veridical_data::MemoryFiles;
/// use veridical_text::Tokenizer;
///
/// let files = MemoryFiles::default()
///     .with("vocab.txt", "[UNK]\n[CLS]\n[SEP]\nfilm\n##s\n")
///     .with("tokenizer_config.json", r#"{"do_lower_case": true}"#);
/// let tokenizer = Tokenizer::open(&files)?;
/// assert_eq!((tokenizer.vocabulary(), tokenizer.n_special()), (5, 2));
///
/// let mut ids = Vec::new();
/// let encoded = tokenizer.encode("FILMS films", 4, &mut ids); // truncated to 4 tokens
/// assert_eq!((ids, encoded.is_cut), (vec![1, 3, 4, 2], true)); // [CLS] film ##s [SEP]
/// # Ok::<(), veridical_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Tokenizer {
    /// Added tokens that are matched in the original text, and in the normalized text.
    raw: Added,
    normalized: Added,
    normalizer: Normalizer,
    model: SubwordModel,
    first: Vec<u32>,
    last: Vec<u32>,
    vocabulary: usize,
}

/// Statistics of one encoded text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// Number of tokens, including special tokens.
    pub tokens: usize,
    /// Number of words (WordPiece) or bytes (BPE) outside the vocabulary, in the part of the text that was kept.
    pub unknown: usize,
    /// Whether the text was truncated at the limit.
    pub is_cut: bool,
}

/// Model that splits a word into subwords.
#[derive(Debug)]
enum SubwordModel {
    WordPiece(WordPiece),
    Bpe { bpe: Bpe, adds_space: bool },
}

/// Ids of tokens.
type Ids = HashMap<String, u32>;

/// A stretch of text, or an added token found in it.
enum Part<'a> {
    Text(&'a str),
    Token(u32),
}

impl Tokenizer {
    /// Reads `tokenizer.json` or, without it, `vocab.txt` with `tokenizer_config.json`.
    ///
    /// # Errors
    /// [`Error::Missing`](veridical_core::Error::Missing) if neither exists,
    /// [`Error::Damaged`](veridical_core::Error::Damaged) for invalid JSON,
    /// [`Error::Unfit`](veridical_core::Error::Unfit) for an unsupported kind of tokenizer or a vocabulary that contradicts
    /// itself.
    pub fn open<F: Files + ?Sized>(files: &F) -> Result<Self, F::Error> {
        read::open(files)
    }

    /// Returns one more than the largest id: the number of rows that an embedding table must have.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Returns the number of special tokens added to every text, such as `[CLS]` and `[SEP]` for BERT.
    ///
    /// An encoding is never shorter.
    pub fn n_special(&self) -> usize {
        self.first.len() + self.last.len()
    }

    /// Appends the tokens of a text to `ids`, truncating the end of the text at `limit` tokens.
    ///
    /// A limit below [`n_special`](Self::n_special) counts as that number.
    pub fn encode(&self, text: &str, limit: usize, ids: &mut Vec<u32>) -> Encoded {
        let start = ids.len();
        ids.extend_from_slice(&self.first);
        let most = ids.len() + limit.saturating_sub(self.n_special());
        let mut unknown = 0;
        self.push(text, most, ids, &mut unknown);
        let is_cut = ids.len() > most;
        ids.truncate(most);
        ids.extend_from_slice(&self.last);
        Encoded { tokens: ids.len() - start, unknown, is_cut }
    }

    /// Appends tokens until there are more than `most`.
    fn push(&self, text: &str, most: usize, ids: &mut Vec<u32>, unknown: &mut usize) {
        for part in self.raw.split(text) {
            let text = match part {
                Part::Text(text) => self.normalizer.apply(text),
                Part::Token(id) => {
                    ids.push(id);
                    continue;
                }
            };
            for part in self.normalized.split(&text) {
                match part {
                    Part::Text(text) => self.model.push(text, most, ids, unknown),
                    Part::Token(id) => ids.push(id),
                }
            }
            if ids.len() > most {
                return;
            }
        }
    }
}

impl SubwordModel {
    fn push(&self, text: &str, most: usize, ids: &mut Vec<u32>, unknown: &mut usize) {
        match self {
            Self::WordPiece(model) => {
                let mut words = words::of_bert(text);
                while ids.len() <= most
                    && let Some(word) = words.next()
                {
                    model.push(word, ids, unknown);
                }
            }
            Self::Bpe { bpe, adds_space } => {
                let spaced = (*adds_space && !text.starts_with(' ')).then(|| format!(" {text}"));
                let mut words = words::of_bytes(spaced.as_deref().unwrap_or(text));
                while ids.len() <= most
                    && let Some(word) = words.next()
                {
                    bpe.push(word, ids, unknown);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
