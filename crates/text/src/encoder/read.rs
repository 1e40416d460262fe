//! The files of a sentence encoder, as sentence-transformers saves them.
//!
//! | file | content |
//! |---|---|
//! | `config.json` | sizes of the network |
//! | `model.safetensors` | weights, under Hugging Face's names |
//! | `tokenizer.json`, or `vocab.txt` with `tokenizer_config.json` | tokenizer |
//! | `modules.json` | what follows the network: pooling, normalization |
//! | `1_Pooling/config.json` | how token vectors are pooled into one |
//! | `sentence_bert_config.json`, optional | maximum length of a text |

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use veridical_core::Result;
use veridical_data::{Files, TensorMap};
use veridical_nets::layers::Kind;
use veridical_nets::models::Bert;

use crate::Tokenizer;
use crate::place::Place;

const CONFIG: &str = "config.json";
pub(super) const WEIGHTS: &str = "model.safetensors";
const MODULES: &str = "modules.json";
const POOLING: &str = "config.json";
const SENTENCE: &str = "sentence_bert_config.json";
/// All files that can affect a vector, besides those of the modules.
const DECIDING: [&str; 7] =
    [CONFIG, WEIGHTS, MODULES, SENTENCE, "tokenizer.json", "vocab.txt", "tokenizer_config.json"];
/// Weights in formats that are not supported.
const OTHER_WEIGHTS: [&str; 2] = ["pytorch_model.bin", "model.safetensors.index.json"];

/// Maximum number of bytes of a JSON document.
const MAX_BYTES: u64 = 16 << 20;

/// Contents of the files, each validated on its own; `Encoder` checks that they are consistent.
pub(super) struct Parts {
    pub config: Config,
    pub tokenizer: Tokenizer,
    pub tensors: TensorMap,
    pub pooling: Pooling,
    pub is_normalized: bool,
    /// Maximum number of tokens of a text, if it is configured.
    pub max_length: Option<usize>,
    pub lowercase: bool,
    /// Names of all files that can affect a vector.
    pub names: Vec<String>,
}

/// Sizes of a BERT.
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

/// How the token vectors of a text are pooled into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pooling {
    /// Mean of the token vectors.
    Mean,
    /// Vector of the first token, [CLS].
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

impl Parts {
    pub fn read<F: Files + ?Sized>(files: &F) -> Result<Self, F::Error> {
        let config: Config = needed(files, CONFIG, "it holds the sizes of the network")?;
        config.check(&Place::of(files, CONFIG))?;
        let modules: Vec<Module> = needed(files, MODULES, POOLS)?;
        let is_normalized = is_normalized(files, &modules)?;
        let pooling = {
            let name = modules[1].file(POOLING);
            let settings = needed(files, &name, POOLS)?;
            pooling(&Place::of(files, &name), &settings, config.hidden_size)?
        };
        let sentence: Sentence = document(files, SENTENCE)?.unwrap_or_default();
        // The config of the network is named `/config.json`: jobs that were started under that name can be resumed.
        let of_modules = modules.iter().map(|module| format!("{}/{POOLING}", module.path));
        Ok(Self {
            config,
            tokenizer: Tokenizer::open(files)?,
            tensors: weights(files)?,
            pooling,
            is_normalized,
            max_length: sentence.max_seq_length,
            lowercase: sentence.do_lower_case == Some(true),
            names: DECIDING.into_iter().map(str::to_owned).chain(of_modules).collect(),
        })
    }
}

const POOLS: &str = "it specifies the pooling";

/// Reads a JSON file, if it exists.
fn document<T: DeserializeOwned, F: Files + ?Sized>(
    files: &F,
    name: &str,
) -> Result<Option<T>, F::Error> {
    let Some(bytes) = files.read(name, MAX_BYTES)? else { return Ok(None) };
    let read = serde_json::from_slice(&bytes).map_err(|e| {
        let place = Place::of(files, name);
        match e.classify() {
            serde_json::error::Category::Data => {
                place.unfit(e, "use the file that belongs to the model")
            }
            _ => place.damaged(format!("not readable as JSON: {e}"), "copy the file again"),
        }
    });
    Ok(Some(read?))
}

/// Reads a JSON file that must exist; the error for a missing file includes `why` it is needed.
fn needed<T: DeserializeOwned, F: Files + ?Sized>(
    files: &F,
    name: &str,
    why: &str,
) -> Result<T, F::Error> {
    document(files, name)?.ok_or_else(|| missing(files, name, why))
}

fn missing<F: Files + ?Sized>(files: &F, name: &str, why: &str) -> F::Error {
    let hint =
        format!("{why}: copy the whole folder of the encoder, as sentence-transformers saves it");
    Place::of(files, name).missing("is missing", hint).into()
}

impl Config {
    /// Returns the network of these sizes.
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

    fn check(&self, place: &Place) -> Result<()> {
        let kind = self.model_type.as_deref().unwrap_or("bert");
        if kind != "bert" {
            let what = format!("`model_type` is `{kind}`");
            return Err(place.unfit(what, "only bert is supported (MiniLM, BERT, bge, e5, gte)"));
        }
        if self.hidden_act != "gelu" {
            let what = format!("`hidden_act` is `{}`", self.hidden_act);
            return Err(place.unfit(what, "only gelu is supported"));
        }
        if let Some(positions) =
            self.position_embedding_type.as_deref().filter(|kind| *kind != "absolute")
        {
            let what = format!("`position_embedding_type` is `{positions}`");
            return Err(place.unfit(what, "only absolute is supported"));
        }
        if self.is_decoder {
            return Err(place.unfit("`is_decoder` is true", "only encoders are supported"));
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
            let what = format!("`{name}` is {size}");
            return Err(place.unfit(what, "it must be from 1 to 16777216"));
        }
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            let (d, heads) = (self.hidden_size, self.num_attention_heads);
            let what =
                format!("`hidden_size` {d} is not divisible by `num_attention_heads` {heads}");
            return Err(place.unfit(what, ""));
        }
        if !(self.layer_norm_eps > 0.0 && self.layer_norm_eps < 1.0) {
            let what = format!("`layer_norm_eps` is {}", self.layer_norm_eps);
            return Err(place.unfit(what, "it must be between 0 and 1"));
        }
        Ok(())
    }
}

impl Module {
    /// The path of a file in the module's folder.
    fn file(&self, name: &str) -> String {
        match self.path.trim_end_matches('/') {
            "" => name.to_owned(),
            folder => format!("{folder}/{name}"),
        }
    }
}

/// Returns whether vectors are normalized to unit length, from the modules that follow the network.
fn is_normalized<F: Files + ?Sized>(files: &F, modules: &[Module]) -> Result<bool> {
    let place = Place::of(files, MODULES);
    let kinds: Vec<&str> =
        modules.iter().map(|module| module.kind.rsplit('.').next().unwrap_or_default()).collect();
    let is_normalized = match kinds[..] {
        ["Transformer", "Pooling"] => false,
        ["Transformer", "Pooling", "Normalize"] => true,
        _ => {
            let what = format!("the modules are {}", kinds.join(", "));
            let hint = "only Transformer, Pooling and optionally Normalize are supported";
            return Err(place.unfit(what, hint));
        }
    };
    let folder = &modules[0].path;
    if !folder.is_empty() {
        let what = format!("the network is in {}", files.shown(folder));
        return Err(place.unfit(what, "move its files here and set its `path` to \"\""));
    }
    Ok(is_normalized)
}

fn pooling(place: &Place, settings: &Map<String, Value>, width: usize) -> Result<Pooling> {
    let dim = settings.get("word_embedding_dimension").or(settings.get("embedding_dimension"));
    if let Some(dim) = dim.filter(|dim| dim.as_u64() != Some(width as u64)) {
        let what = format!("pools vectors of {dim} values, the network has {width}");
        return Err(place.unfit(what, "use the files of a single model"));
    }
    // Newer files name the kind of pooling, older ones have a flag for each.
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
            let what = format!("the pooling is `{}`", kinds.join(", "));
            Err(place.unfit(what, "only mean and cls are supported"))
        }
    }
}

fn weights<F: Files + ?Sized>(files: &F) -> Result<TensorMap, F::Error> {
    let Some(tensors) = files.tensors(WEIGHTS)? else {
        for other in OTHER_WEIGHTS {
            if files.has(other)? {
                let hint = "the weights are in another format: save them as one file, in Python with \
                            SentenceTransformer(FOLDER).save(NEW_FOLDER, safe_serialization=True)";
                return Err(Place::of(files, WEIGHTS).missing("is missing", hint).into());
            }
        }
        return Err(missing(files, WEIGHTS, "it holds the weights"));
    };
    Ok(tensors)
}
