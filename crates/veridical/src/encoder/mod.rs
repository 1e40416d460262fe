//! Vectors of sentences from a pretrained encoder, run from the files that sentence-transformers saves.
//!
//! A text t of n tokens has the vector
//!
//! h(t) = g(pool(x_1, .., x_n)),   x = BERT(tokens),   pool = mean or x_1,   g(v) = v/|v| or v
//!
//! (Devlin et al. 2019; Reimers & Gurevych 2019, section 3). Texts of a pass are packed one after the other without padding.

mod embed;
mod files;

use std::path::Path;

use veridical_core::Seed;
use veridical_data::{Encoded, Tokenizer};
use veridical_nets::{Mode, Net, Workspace};

pub use self::embed::{EmbedSentences, EmbeddedSentences, embed_sentences};
use self::files::{Files, Pooling};
use crate::{Error, Result};

/// A network that turns texts into vectors.
#[derive(Debug)]
pub struct Encoder {
    tokenizer: Tokenizer,
    lowercase: bool,
    max_length: usize,
    /// One row per token.
    words: Vec<f32>,
    net: Net<f32>,
    dim: usize,
    pooling: Pooling,
    is_normalized: bool,
}

/// Texts as tokens, one after the other.
#[derive(Clone, Debug)]
pub struct Texts {
    starts: Vec<usize>,
    tokens: Vec<u32>,
}

impl Default for Texts {
    fn default() -> Self {
        Self { starts: vec![0], tokens: Vec::new() }
    }
}

impl Texts {
    /// How many.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tokens of text `i`.
    pub fn tokens(&self, i: usize) -> &[u32] {
        &self.tokens[self.starts[i]..self.starts[i + 1]]
    }

    fn push(&mut self, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
        self.starts.push(self.tokens.len());
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.starts.truncate(1);
        self.tokens.clear();
    }
}

impl Encoder {
    /// Reads an encoder from its folder.
    ///
    /// # Errors
    /// One for each file that is missing, damaged, of a kind that cannot be run, or does not fit the others.
    pub fn open(folder: &Path) -> Result<Self> {
        let Files { config, tokenizer, tensors, pooling, is_normalized, max_length, lowercase } =
            Files::read(folder)?;
        let path = folder.join(files::WEIGHTS);
        let refused = |what: String| Error::Usage(format!("{}: {what}", path.display()));
        let bert = config.bert();
        let mut net = bert.build(Seed::new(0)?)?;
        let words = bert.import(&mut net, &tensors).map_err(|e| refused(e.to_string()))?.values;
        drop(tensors);
        let dim = config.hidden_size;
        if let Some(at) = words.iter().position(|x| !x.is_finite()) {
            let what = format!("the vector of token {} has the value {}", at / dim, words[at]);
            return Err(refused(format!("{what}; weights must be finite")));
        }
        if tokenizer.vocabulary() > config.vocab_size {
            return Err(Error::Usage(format!(
                "{}: the tokenizer has {} tokens, the network knows {}; take the tokenizer that the model was trained with",
                folder.display(),
                tokenizer.vocabulary(),
                config.vocab_size
            )));
        }
        let longest = config.max_position_embeddings;
        let max_length = max_length.unwrap_or(longest);
        if !(tokenizer.n_special() + 1..=longest).contains(&max_length) {
            return Err(Error::Usage(format!(
                "{}: texts of {max_length} tokens (`max_seq_length`) cannot be: the network has {longest} positions, and \
                 {} tokens go around a text",
                folder.display(),
                tokenizer.n_special()
            )));
        }
        Ok(Self { tokenizer, lowercase, max_length, words, net, dim, pooling, is_normalized })
    }

    /// How many values a vector has.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// How many tokens a text may have, with those around it.
    pub fn max_length(&self) -> usize {
        self.max_length
    }

    /// Cuts longer texts at `max_length` tokens.
    ///
    /// # Errors
    /// [`Error::Usage`] if the network has not so many positions, or no room is left for the text.
    pub fn set_max_length(&mut self, max_length: usize) -> Result<()> {
        let around = self.tokenizer.n_special();
        if max_length <= around {
            let what = format!("--max-length {max_length}: {around} tokens go around every text");
            return Err(Error::Usage(format!("{what}, so it must be {} or more", around + 1)));
        }
        if max_length > self.max_length {
            let what =
                format!("--max-length {max_length}: the encoder was made for {}", self.max_length);
            return Err(Error::Usage(format!("{what} tokens at most; longer texts are cut there")));
        }
        self.max_length = max_length;
        Ok(())
    }

    /// Appends a text as tokens.
    pub fn tokenize(&self, text: &str, texts: &mut Texts) -> Encoded {
        let lower: Option<String> =
            self.lowercase.then(|| text.chars().flat_map(char::to_lowercase).collect());
        let text = lower.as_deref().unwrap_or(text);
        let encoded = self.tokenizer.encode(text, self.max_length, &mut texts.tokens);
        texts.starts.push(texts.tokens.len());
        encoded
    }

    /// The bytes that a pass needs for every token.
    fn bytes_per_token(&self) -> usize {
        let values = |name: &str| self.net.output_of(name).map_or(0, |shape| shape.values());
        let values: usize = self.net.names().map(values).sum();
        (values + self.dim) * size_of::<f32>()
    }

    /// The vectors of texts, row by row.
    fn vectors(&self, texts: &Texts, work: &mut Workspace<f32>) -> Vec<f32> {
        let d = self.dim;
        self.net.forward_sequences(work, &texts.starts, Mode::Frozen, 0, |rows| {
            for (row, &token) in rows.chunks_exact_mut(d).zip(&texts.tokens) {
                let at = token as usize * d;
                row.copy_from_slice(&self.words[at..at + d]);
            }
        });
        let outputs = work.outputs(&self.net);
        let mut vectors = Vec::with_capacity(texts.len() * d);
        for range in texts.starts.windows(2) {
            let rows = &outputs[range[0] * d..range[1] * d];
            vectors.extend(self.pooled(rows));
        }
        vectors
    }

    /// One vector from those of a text's tokens; sums in f64, in order.
    fn pooled(&self, rows: &[f32]) -> impl Iterator<Item = f32> {
        let mut vector = vec![0.0f64; self.dim];
        let rows = match self.pooling {
            Pooling::First => &rows[..self.dim],
            Pooling::Mean => rows,
        };
        for row in rows.chunks_exact(self.dim) {
            vector.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
        }
        let n = (rows.len() / self.dim) as f64;
        let norm = vector.iter().map(|x| (x / n).powi(2)).sum::<f64>().sqrt();
        // As PyTorch's `normalize`: a vector of zeros stays one.
        let scale = if self.is_normalized { n * norm.max(1e-12) } else { n };
        vector.into_iter().map(move |x| (x / scale) as f32)
    }
}
