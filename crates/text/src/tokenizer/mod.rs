//! Text as the numbers that a pretrained encoder learned its vectors for: subword tokens.
//!
//! text -> added tokens apart -> normalized -> words -> subwords -> [CLS] subwords [SEP]
//!
//! Two models of subwords, one file each: WordPiece as BERT has it (`wordpiece.rs`), and byte-level BPE as GPT-2 and
//! RoBERTa have it (`bpe.rs`). Files, their meaning and the ids are those of Hugging Face's `tokenizers`
//! (<https://huggingface.co/docs/tokenizers>); `tests/oracles/tokenizer` holds ids that it gave. The one difference: what
//! is punctuation, a mark or a control character follows a newer Unicode than the one built into `tokenizers`.

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

/// Cuts text into the tokens of a pretrained encoder.
#[derive(Debug)]
pub struct Tokenizer {
    /// Tokens that are looked for in the text as it came, and in the normalized text.
    raw: Added,
    normalized: Added,
    normalizer: Normalizer,
    model: Model,
    first: Vec<u32>,
    last: Vec<u32>,
    vocabulary: usize,
}

/// What became of one text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// Tokens, with those that every text gets.
    pub tokens: usize,
    /// Words (WordPiece) or bytes (BPE) outside the vocabulary, in what was kept of the text.
    pub unknown: usize,
    /// Whether the text was longer than the limit.
    pub is_cut: bool,
}

/// From a word to its subwords.
#[derive(Debug)]
enum Model {
    WordPiece(WordPiece),
    Bpe { bpe: Bpe, adds_space: bool },
}

/// Numbers of tokens.
type Ids = HashMap<String, u32>;

/// A stretch of text, or a token found in it.
enum Part<'a> {
    Text(&'a str),
    Token(u32),
}

impl Tokenizer {
    /// Reads `tokenizer.json` or, without it, `vocab.txt` with `tokenizer_config.json`.
    ///
    /// # Errors
    /// [`Error::Missing`](veridical_core::Error::Missing) if none is there,
    /// [`Error::Damaged`](veridical_core::Error::Damaged) for what is not JSON,
    /// [`Error::Unfit`](veridical_core::Error::Unfit) for a kind that is not supported or a vocabulary that contradicts
    /// itself.
    pub fn open<F: Files + ?Sized>(files: &F) -> Result<Self, F::Error> {
        read::open(files)
    }

    /// One more than the largest id: the rows that a table of embeddings must have.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// How many tokens every text gets, `[CLS]` and `[SEP]` for BERT: an encoding is at least as long.
    pub fn n_special(&self) -> usize {
        self.first.len() + self.last.len()
    }

    /// Appends the tokens of a text, `limit` of them at most: what is too long loses its end.
    /// A limit below [`n_special`](Self::n_special) counts as that.
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

    /// Tokens until there are more than `most`.
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

impl Model {
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
