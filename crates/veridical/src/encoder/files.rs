//! The folder of a sentence encoder, as sentence-transformers saves it.
//!
//! | file | says |
//! |---|---|
//! | `config.json` | the sizes of the network |
//! | `model.safetensors` | its weights, under Hugging Face's names |
//! | `tokenizer.json`, or `vocab.txt` with `tokenizer_config.json` | the tokens of a text |
//! | `modules.json` | what follows the network: pooling, unit length |
//! | `1_Pooling/config.json` | how the vectors of tokens become one |
//! | `sentence_bert_config.json`, optional | the longest text |

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use veridical_data::run::read_tensors;
use veridical_data::{Tokenizer, fingerprint, storage};
use veridical_nets::layers::Kind;
use veridical_nets::models::Bert;
use veridical_nets::{Tensor, Tensors};

use crate::{Error, Result};

const CONFIG: &str = "config.json";
pub(super) const WEIGHTS: &str = "model.safetensors";
const MODULES: &str = "modules.json";
const POOLING: &str = "config.json";
const SENTENCE: &str = "sentence_bert_config.json";
/// All files that may decide a vector.
const DECIDING: [&str; 7] =
    [CONFIG, WEIGHTS, MODULES, SENTENCE, "tokenizer.json", "vocab.txt", "tokenizer_config.json"];

/// A document has so many bytes at most.
const MAX_BYTES: u64 = 16 << 20;

/// What the files say, checked one by one; `Encoder` checks them against each other.
pub(super) struct Files {
    pub config: Config,
    pub tokenizer: Tokenizer,
    pub tensors: Tensors,
    pub pooling: Pooling,
    pub is_normalized: bool,
    /// Tokens of the longest text, if they say.
    pub max_length: Option<usize>,
    pub lowercase: bool,
}

/// The sizes of a BERT.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Config {
    model_type: Option<String>,
    pub hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    #[serde(default = "gelu")]
    hidden_act: String,
    #[serde(default = "eps")]
    layer_norm_eps: f64,
    pub max_position_embeddings: usize,
    pub vocab_size: usize,
    #[serde(default = "two")]
    type_vocab_size: usize,
    position_embedding_type: Option<String>,
    #[serde(default)]
    is_decoder: bool,
}

fn gelu() -> String {
    "gelu".into()
}

const fn eps() -> f64 {
    1e-12
}

const fn two() -> usize {
    2
}

/// How the vectors of a text's tokens become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pooling {
    /// Their mean.
    Mean,
    /// The first, that of [CLS].
    First,
}

#[derive(Deserialize)]
struct Module {
    #[serde(rename = "type")]
    kind: String,
    path: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Sentence {
    max_seq_length: Option<usize>,
    do_lower_case: Option<bool>,
}

impl Files {
    pub fn read(folder: &Path) -> Result<Self> {
        if !folder.is_dir() {
            let what = match folder.exists() {
                true => "is not a folder",
                false => "does not exist",
            };
            return Err(Error::Usage(format!(
                "--encoder {}: {what}; name the folder of an encoder, as sentence-transformers saves it",
                folder.display()
            )));
        }
        let config: Config = document(&folder.join(CONFIG), "it holds the sizes of the network")?;
        config.check(&folder.join(CONFIG))?;
        let (pooling, is_normalized) = modules(folder, config.hidden_size)?;
        let sentence = match folder.join(SENTENCE) {
            path if path.exists() => document(&path, "")?,
            _ => Sentence::default(),
        };
        Ok(Self {
            config,
            tokenizer: Tokenizer::open(folder)?,
            tensors: weights(folder)?,
            pooling,
            is_normalized,
            max_length: sentence.max_seq_length,
            lowercase: sentence.do_lower_case == Some(true),
        })
    }
}

/// Name and fingerprint of every file that may decide a vector.
pub(super) fn fingerprints(folder: &Path) -> Result<Map<String, Value>> {
    let modules: Vec<Module> = document(&folder.join(MODULES), "")?;
    let poolings = modules.into_iter().map(|module| format!("{}/{POOLING}", module.path));
    let names = DECIDING.into_iter().map(str::to_owned).chain(poolings);
    let mut found = Map::new();
    for name in names {
        let path = folder.join(name.trim_start_matches('/'));
        if path.is_file() {
            found.insert(name, fingerprint::of_file(&path)?.into());
        }
    }
    Ok(found)
}

fn refused(path: &Path, what: impl AsRef<str>) -> Error {
    Error::Usage(format!("{}: {}", path.display(), what.as_ref()))
}

/// Reads JSON; `why` it is needed, for those who lack it.
fn document<T: DeserializeOwned>(path: &Path, why: &str) -> Result<T> {
    if !path.is_file() {
        return Err(missing(path, why));
    }
    let bytes = storage::read(path, MAX_BYTES)?;
    serde_json::from_slice(&bytes).map_err(|e| match e.classify() {
        serde_json::error::Category::Data => {
            refused(path, format!("{e}; take the file that belongs to the model"))
        }
        _ => refused(path, format!("not readable as JSON: {e}; copy the file once more")),
    })
}

fn missing(path: &Path, why: &str) -> Error {
    let what = format!(
        "is missing; {why}: copy the whole folder of the encoder, as sentence-transformers saves it"
    );
    refused(path, what)
}

impl Config {
    /// The network of these sizes.
    pub fn bert(&self) -> Bert {
        Bert {
            vocabulary: self.vocab_size,
            width: self.hidden_size,
            layers: self.num_hidden_layers,
            heads: self.num_attention_heads,
            intermediate: self.intermediate_size,
            positions: self.max_position_embeddings,
            types: self.type_vocab_size,
            eps: self.layer_norm_eps,
            activation: Kind::Gelu,
            dropout: 0.0,
        }
    }

    fn check(&self, path: &Path) -> Result<()> {
        let kind = self.model_type.as_deref().unwrap_or("bert");
        if kind != "bert" {
            let what = format!(
                "`model_type` is `{kind}`; only bert can be run (MiniLM, BERT, bge, e5, gte)"
            );
            return Err(refused(path, what));
        }
        if self.hidden_act != "gelu" {
            let what = format!("`hidden_act` is `{}`; only gelu can be run", self.hidden_act);
            return Err(refused(path, what));
        }
        if let Some(positions) =
            self.position_embedding_type.as_deref().filter(|kind| *kind != "absolute")
        {
            let what =
                format!("`position_embedding_type` is `{positions}`; only absolute can be run");
            return Err(refused(path, what));
        }
        if self.is_decoder {
            return Err(refused(path, "`is_decoder` is true; only encoders can be run"));
        }
        let sizes = [
            ("hidden_size", self.hidden_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("intermediate_size", self.intermediate_size),
            ("max_position_embeddings", self.max_position_embeddings),
            ("vocab_size", self.vocab_size),
            ("type_vocab_size", self.type_vocab_size),
        ];
        if let Some((name, size)) = sizes.iter().find(|(_, size)| !(1..=1 << 24).contains(size)) {
            return Err(refused(
                path,
                format!("`{name}` is {size}; it must be from 1 to 16777216"),
            ));
        }
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            let (d, heads) = (self.hidden_size, self.num_attention_heads);
            let what = format!(
                "{d} values (`hidden_size`) do not divide into {heads} heads (`num_attention_heads`)"
            );
            return Err(refused(path, what));
        }
        if !(self.layer_norm_eps > 0.0 && self.layer_norm_eps < 1.0) {
            let what =
                format!("`layer_norm_eps` is {}; it must be between 0 and 1", self.layer_norm_eps);
            return Err(refused(path, what));
        }
        Ok(())
    }
}

/// Pooling, and whether vectors get unit length.
fn modules(folder: &Path, width: usize) -> Result<(Pooling, bool)> {
    let path = folder.join(MODULES);
    let modules: Vec<Module> = document(&path, "it says how the vectors of tokens become one")?;
    let kinds: Vec<&str> =
        modules.iter().map(|module| module.kind.rsplit('.').next().unwrap_or_default()).collect();
    let is_normalized = match kinds[..] {
        ["Transformer", "Pooling"] => false,
        ["Transformer", "Pooling", "Normalize"] => true,
        _ => {
            let what = format!(
                "the modules are {}; only Transformer, Pooling and perhaps Normalize can be run",
                kinds.join(", ")
            );
            return Err(refused(&path, what));
        }
    };
    if !modules[0].path.is_empty() {
        let inner = folder.join(&modules[0].path);
        let what = format!("the network is in {}; move its files here", inner.display());
        return Err(refused(&path, what + " and set its `path` to \"\""));
    }
    let path = folder.join(&modules[1].path).join(POOLING);
    let settings = document(&path, "it says how the vectors of tokens become one")?;
    Ok((pooling(&path, &settings, width)?, is_normalized))
}

fn pooling(path: &Path, settings: &Map<String, Value>, width: usize) -> Result<Pooling> {
    let dim = settings.get("word_embedding_dimension").or(settings.get("embedding_dimension"));
    if let Some(dim) = dim.filter(|dim| dim.as_u64() != Some(width as u64)) {
        let what = format!("pools vectors of {dim} values, the network has {width}");
        return Err(refused(path, what + "; take the files of one model"));
    }
    // Newer files name the kind, older ones have a flag for each.
    let kinds: Vec<&str> = match settings.get("pooling_mode") {
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        Some(kind) => kind.as_str().into_iter().collect(),
        None => {
            let flags = settings.iter().filter(|(_, value)| value.as_bool() == Some(true));
            flags.filter_map(|(name, _)| name.strip_prefix("pooling_mode_")).collect()
        }
    };
    match kinds[..] {
        ["mean" | "mean_tokens"] => Ok(Pooling::Mean),
        ["cls" | "cls_token"] => Ok(Pooling::First),
        _ => {
            let what =
                format!("the pooling is `{}`; only mean and cls can be run", kinds.join(", "));
            Err(refused(path, what))
        }
    }
}

fn weights(folder: &Path) -> Result<Tensors> {
    let path = folder.join(WEIGHTS);
    if !path.is_file() {
        let other = |name: &str| folder.join(name).is_file();
        if other("pytorch_model.bin") || other("model.safetensors.index.json") {
            let what = "is missing; the weights are in another form: save them as one file, in Python with \
                        SentenceTransformer(FOLDER).save(NEW_FOLDER, safe_serialization=True)";
            return Err(refused(&path, what));
        }
        return Err(missing(&path, "it holds the weights"));
    }
    let tensors = read_tensors(&path)?;
    let tensor = |(name, (shape, values))| (name, Tensor { shape, values });
    Ok(tensors.into_iter().map(tensor).collect())
}
