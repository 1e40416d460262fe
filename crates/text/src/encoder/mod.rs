//! Sentence embeddings from a pretrained encoder, run from the files that sentence-transformers saves.
//!
//! A text t of n tokens has the vector
//!
//! h(t) = g(pool(x_1, .., x_n)),   x = BERT(tokens),   pool = mean or x_1,   g(v) = v/|v| or v
//!
//! (Devlin et al. 2019; Reimers & Gurevych 2019, section 3). The texts of a batch are packed one after the other without padding.

mod read;
#[cfg(test)]
mod tests;

use veridical_core::{Error, Result, Seed};
use veridical_data::Files;
use veridical_nets::{Mode, Net, Workspace};

use self::read::{Parts, Pooling, WEIGHTS};
use crate::place::Place;
use crate::{Encoded, Tokenizer};

/// A pretrained sentence encoder: a BERT with pooling that turns texts into vectors.
///
/// ```
/// use veridical_core::{Error, Seed};
/// use veridical_data::MemoryFiles;
/// use veridical_nets::layers::Kind;
/// use veridical_nets::models::Bert;
/// use veridical_text::{Encoder, Texts};
///
// A small encoder with random weights, in memory; an encoder in a folder is opened the same way.
/// let bert = Bert {
///     vocabulary: 6,
///     width: 8,
///     layers: 1,
///     heads: 2,
///     intermediate: 16,
///     positions: 12,
///     types: 2,
///     eps: 1e-12,
///     activation: Kind::Gelu,
///     dropout: 0.0,
/// };
/// let words = (vec![6, 8], (0..48u8).map(|i| f32::from(i % 7)).collect());
/// let weights = bert.export(&bert.build::<f32>(Seed::new(0)?)?, words);
/// let config = r#"{"vocab_size": 6, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
///     "intermediate_size": 16, "max_position_embeddings": 12}"#;
/// let modules =
///     r#"[{"type": "Transformer", "path": ""}, {"type": "Pooling", "path": "1_Pooling"}]"#;
/// let files = MemoryFiles::default()
///     .with("config.json", config)
///     .with("modules.json", modules)
///     .with("1_Pooling/config.json", r#"{"pooling_mode": "mean"}"#)
///     .with("vocab.txt", "[UNK]\n[CLS]\n[SEP]\ngood\nfilm\n##s\n")
///     .with("tokenizer_config.json", r#"{"do_lower_case": true}"#)
///     .with_tensors("model.safetensors", weights);
/// let encoder = Encoder::open(&files)?;
///
/// let mut texts = Texts::default();
/// for text in ["Good films", "film"] {
///     encoder.tokenize(text, &mut texts);
/// }
/// let mut passes = encoder.passes(16, 64)?;
/// let vectors = encoder.vectors(&texts, &mut passes, |_| Ok::<(), Error>(()))?;
/// assert_eq!((vectors.len(), encoder.dim()), (16, 8));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Encoder {
    tokenizer: Tokenizer,
    lowercase: bool,
    max_length: usize,
    /// Token embeddings, one row per token.
    words: Vec<f32>,
    net: Net<f32>,
    dim: usize,
    pooling: Pooling,
    is_normalized: bool,
    names: Vec<String>,
}

/// Workspace for running texts through the network in batches, with the limits of a batch.
#[derive(Debug)]
pub struct Passes {
    work: Workspace<f32>,
    /// Maximum number of texts and of tokens per batch.
    batch: usize,
    tokens: usize,
}

/// Tokenized texts, stored one after the other.
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
    /// Returns the number of texts.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns whether there are no texts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the tokens of text `i`.
    pub fn tokens(&self, i: usize) -> &[u32] {
        &self.tokens[self.starts[i]..self.starts[i + 1]]
    }

    fn push(&mut self, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
        self.starts.push(self.tokens.len());
    }

    /// Removes all texts.
    pub fn clear(&mut self) {
        self.starts.truncate(1);
        self.tokens.clear();
    }
}

impl Encoder {
    /// Reads an encoder from the files that sentence-transformers saves.
    ///
    /// # Errors
    /// An error names the file that is missing, damaged, unsupported, or inconsistent with the others.
    pub fn open<F: Files + ?Sized>(files: &F) -> Result<Self, F::Error> {
        let parts = Parts::read(files)?;
        Ok(Self::assemble(parts, &Place::of(files, ""), &Place::of(files, WEIGHTS))?)
    }

    fn assemble(parts: Parts, folder: &Place, weights: &Place) -> Result<Self> {
        let Parts {
            config,
            tokenizer,
            tensors,
            pooling,
            is_normalized,
            max_length,
            lowercase,
            names,
        } = parts;
        let bert = config.bert();
        let built = bert.build(Seed::new(0)?);
        let mut net = built.map_err(|e| Error::unfit(e.to_string(), ""))?;
        let words = bert.import(&mut net, &tensors).map_err(|e| weights.unfit(e, ""))?.1;
        drop(tensors);
        let dim = config.hidden_size;
        if let Some(at) = words.iter().position(|x| !x.is_finite()) {
            let what = format!("the vector of token {} has the value {}", at / dim, words[at]);
            return Err(weights.unfit(what, "weights must be finite"));
        }
        if tokenizer.vocabulary() > config.vocab_size {
            let (tokens, known) = (tokenizer.vocabulary(), config.vocab_size);
            let what =
                format!("the tokenizer has {tokens} tokens but the network has {known} embeddings");
            return Err(folder.unfit(what, "use the tokenizer that the model was trained with"));
        }
        let (longest, around) = (config.max_position_embeddings, tokenizer.n_special());
        let max_length = max_length.unwrap_or(longest);
        if !(around + 1..=longest).contains(&max_length) {
            let what = format!(
                "`max_seq_length` is {max_length}, but it must be at least {} ({around} special tokens and one more) and at most \
                 {longest}, the number of positions of the network",
                around + 1
            );
            return Err(folder.unfit(what, ""));
        }
        Ok(Self {
            tokenizer,
            lowercase,
            max_length,
            words,
            net,
            dim,
            pooling,
            is_normalized,
            names,
        })
    }

    /// Returns the embedding dimension of the vectors.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Returns the number of special tokens added to every text, [`Tokenizer::n_special`]; an empty text has no others.
    pub fn n_special(&self) -> usize {
        self.tokenizer.n_special()
    }

    /// Returns the names of all files that can affect a vector; some of them are optional and may not exist.
    pub fn file_names(&self) -> &[String] {
        &self.names
    }

    /// Returns the maximum number of tokens of a text, including special tokens.
    pub fn max_length(&self) -> usize {
        self.max_length
    }

    /// Truncates longer texts at `max_length` tokens.
    ///
    /// # Errors
    /// [`Error::Request`] if the network does not have that many positions, or only special tokens would remain.
    pub fn set_max_length(&mut self, max_length: usize) -> Result<()> {
        let around = self.tokenizer.n_special();
        if max_length <= around {
            let what = format!("⟨max-length {max_length}⟩: every text has {around} special tokens");
            let what = format!("{what}, so it must be at least {}", around + 1);
            return Err(Error::request(what, ""));
        }
        if max_length > self.max_length {
            let most = self.max_length;
            let what = format!("⟨max-length {max_length}⟩: the encoder supports at most {most}");
            return Err(Error::request(what + " tokens", "longer texts are truncated"));
        }
        self.max_length = max_length;
        Ok(())
    }

    /// Tokenizes a text and appends it to `texts`.
    pub fn tokenize(&self, text: &str, texts: &mut Texts) -> Encoded {
        let lower: Option<String> =
            self.lowercase.then(|| text.chars().flat_map(char::to_lowercase).collect());
        let text = lower.as_deref().unwrap_or(text);
        let encoded = self.tokenizer.encode(text, self.max_length, &mut texts.tokens);
        texts.starts.push(texts.tokens.len());
        encoded
    }

    /// Allocates a workspace for batches of up to `batch` texts in up to `memory` mebibytes.
    ///
    /// # Errors
    /// [`Error::Setting`] for a batch size of 0, [`Error::Request`] if the longest text does not fit in memory.
    pub fn passes(&self, batch: usize, memory: usize) -> Result<Passes> {
        if batch == 0 {
            return Err(Error::setting("batch", "1 or more", batch));
        }
        let values = |name: &str| self.net.output_of(name).map_or(0, |shape| shape.values());
        let values = self.dim + self.net.names().map(values).sum::<usize>();
        let (longest, each) = (self.max_length, values * size_of::<f32>());
        let fitting = memory.saturating_mul(1 << 20) / each;
        if fitting < longest {
            let needed = (longest * each).div_ceil(1 << 20);
            let what = format!("⟨memory {memory}⟩: a text of {longest} tokens needs {needed} MiB");
            return Err(Error::request(what, "raise it or truncate texts with ⟨max-length⟩"));
        }
        let tokens = fitting.min(batch.saturating_mul(longest));
        Ok(Passes { work: Workspace::new(&self.net, tokens, None), batch, tokens })
    }

    /// Computes the vectors of the texts, row by row.
    ///
    /// Texts of similar length are batched together; `done` is called with the number of texts finished so far and may stop
    /// the run by returning an error.
    ///
    /// # Errors
    /// The error that `done` returns.
    pub fn vectors<E>(
        &self,
        texts: &Texts,
        passes: &mut Passes,
        mut done: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Vec<f32>, E> {
        let d = self.dim;
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|&i| texts.tokens(i).len());
        let mut vectors = vec![0.0; texts.len() * d];
        let mut batch = Texts::default();
        let mut left = &order[..];
        while !left.is_empty() {
            batch.clear();
            for &i in left.iter().take(passes.batch) {
                let tokens = texts.tokens(i);
                if batch.tokens.len() + tokens.len() > passes.tokens {
                    break;
                }
                batch.push(tokens);
            }
            let now;
            (now, left) = left.split_at(batch.len());
            let rows = self.forward(&batch, &mut passes.work);
            for (&i, range) in now.iter().zip(batch.starts.windows(2)) {
                let to = &mut vectors[i * d..(i + 1) * d];
                self.pool(&rows[range[0] * d..range[1] * d], to);
            }
            done(now.len())?;
        }
        Ok(vectors)
    }

    /// The rows of the last layer, one per token.
    fn forward<'a>(&self, texts: &Texts, work: &'a mut Workspace<f32>) -> &'a [f32] {
        let d = self.dim;
        self.net.forward_sequences(work, &texts.starts, Mode::Frozen, 0, |rows| {
            for (row, &token) in rows.chunks_exact_mut(d).zip(&texts.tokens) {
                let at = token as usize * d;
                row.copy_from_slice(&self.words[at..at + d]);
            }
        });
        work.outputs(&self.net)
    }

    /// Pools the token vectors of a text into one; sums are in f64, in order.
    fn pool(&self, rows: &[f32], to: &mut [f32]) {
        let rows = match self.pooling {
            Pooling::First => &rows[..self.dim],
            Pooling::Mean => rows,
        };
        let mut sums = vec![0.0f64; self.dim];
        for row in rows.chunks_exact(self.dim) {
            sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
        }
        let n = (rows.len() / self.dim) as f64;
        let norm = sums.iter().map(|x| (x / n).powi(2)).sum::<f64>().sqrt();
        // Like PyTorch's `normalize`: a zero vector stays zero.
        let scale = if self.is_normalized { n * norm.max(1e-12) } else { n };
        to.iter_mut().zip(sums).for_each(|(to, sum)| *to = (sum / scale) as f32);
    }
}
