//! BERT encoder (Devlin et al. 2019) under Hugging Face's tensor names.
//!
//! x = LN(word + position + token type 0), dropout; then post-norm transformer blocks with gelu, every row sees all.
//!
//! Word embeddings are not part of the network: their rows are its input. The row of token type 0, the only one that is
//! used, is added to all positions on import; query, key and value are one dense layer here and three tensors in files.

use std::collections::BTreeMap;

use veridical_core::Seed;
use veridical_data::TensorMap;

use super::transformer::{Names, TransformerBlock, drop};
use crate::layers::{Kind, LayerNorm, Mask, Positions};
use crate::{Builder, Error, Float, Net, Result, Shape};

/// Shape and values of a tensor.
type Tensor = (Vec<usize>, Vec<f32>);

/// Sizes of a BERT encoder, as in its `config.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct Bert {
    /// Number of tokens, `vocab_size`.
    pub vocabulary: usize,
    /// Width of the rows, `hidden_size`.
    pub width: usize,
    /// Number of transformer blocks, `num_hidden_layers`.
    pub layers: usize,
    /// Number of attention heads, `num_attention_heads`.
    pub heads: usize,
    /// Width of the feed-forward layers, `intermediate_size`.
    pub intermediate: usize,
    /// Number of positions, `max_position_embeddings`.
    pub positions: usize,
    /// Number of token types, `type_vocab_size`.
    pub types: usize,
    /// Epsilon of the layer norms, `layer_norm_eps`.
    pub eps: f64,
    /// Activation of the feed-forward layers, `hidden_act`.
    pub activation: Kind,
    /// Dropout probability, `hidden_dropout_prob`.
    pub dropout: f64,
}

const NAMES: Names = Names {
    qkv: "attention.self",
    out: "attention.output.dense",
    norms: ["attention.output.LayerNorm", "output.LayerNorm"],
    dense: ["intermediate.dense", "output.dense"],
    deviation: Some(DEVIATION),
    drops_hidden: false,
};
/// Standard deviation of the initialization.
const DEVIATION: f64 = 0.02;
/// Tensors that one dense layer consists of in files.
const PARTS: [&str; 3] = ["query", "key", "value"];

const WORDS: &str = "embeddings.word_embeddings.weight";
const POSITIONS: &str = "embeddings.position_embeddings.weight";
const TYPES: &str = "embeddings.token_type_embeddings.weight";
/// Prefixes of tensors that a file may contain in addition: heads on top of the encoder, and constants.
const BESIDES: [&str; 4] = ["pooler.", "cls.", "embeddings.position_ids", "classifier."];

impl Bert {
    /// Builds the network from word embeddings to contextual rows; `seed` determines its initialization.
    ///
    /// # Errors
    /// A request error if the width is not divisible by the number of heads, or for an invalid dropout probability.
    pub fn build<T: Float>(&self, seed: Seed) -> Result<Net<T>> {
        let d = self.width;
        let mut net = Builder::new(Shape::row(d), seed);
        net.push("embeddings.position_embeddings", Positions::new(self.positions, d))?;
        net.push("embeddings.LayerNorm", LayerNorm::new(d).eps(self.eps))?;
        drop(&mut net, "embeddings.dropout", self.dropout)?;
        let block = TransformerBlock {
            width: d,
            heads: self.heads,
            hidden: self.intermediate,
            mask: Mask::None,
            norm_first: false,
            activation: self.activation,
            dropout: self.dropout,
            eps: self.eps,
        };
        for layer in 0..self.layers {
            block.push_named(&mut net, &format!("encoder.layer.{layer}"), &NAMES)?;
        }
        net.finish()
    }

    /// Imports the weights of an encoder, with or without the prefix `bert.`, and returns the word embeddings,
    /// vocabulary x width. Heads on top of the encoder are ignored.
    ///
    /// # Errors
    /// [`Error::Weights`] lists tensors that are missing, unexpected, or of the wrong shape.
    pub fn import<T: Float>(&self, net: &mut Net<T>, tensors: &TensorMap) -> Result<Tensor> {
        let prefixed = tensors.keys().any(|name| name.starts_with("bert."));
        let plain = |name: &str| {
            let name = name.strip_prefix("module.").unwrap_or(name);
            let name = if prefixed { name.strip_prefix("bert.").unwrap_or(name) } else { name };
            // Names in the first releases.
            name.replace("LayerNorm.gamma", "LayerNorm.weight")
                .replace("LayerNorm.beta", "LayerNorm.bias")
        };
        let given: BTreeMap<String, &Tensor> = tensors
            .iter()
            .map(|(name, tensor)| (plain(name), tensor))
            .filter(|(name, _)| !BESIDES.iter().any(|besides| name.starts_with(besides)))
            .collect();
        self.check(net, &given)?;
        let mut inside = TensorMap::new();
        for named in net.tensors() {
            let values = match split(&named.name) {
                Some(parts) => {
                    parts.iter().flat_map(|part| given[part].1.iter().copied()).collect()
                }
                None => given[&named.name].1.clone(),
            };
            inside.insert(named.name, (named.shape, values));
        }
        if let Some((_, positions)) = inside.get_mut(POSITIONS) {
            for row in positions.chunks_exact_mut(self.width) {
                row.iter_mut().zip(&given[TYPES].1).for_each(|(p, t)| *p += t);
            }
        }
        net.import(&inside, true)?;
        Ok(given[WORDS].clone())
    }

    /// Exports the weights of an encoder with its word embeddings, under Hugging Face's names. The row of token type 0 is
    /// included in the positions, so token types are 0.
    pub fn export<T: Float>(&self, net: &Net<T>, words: Tensor) -> TensorMap {
        let mut outside = TensorMap::new();
        for (name, (mut shape, values)) in net.export() {
            let Some(parts) = split(&name) else {
                outside.insert(name, (shape, values));
                continue;
            };
            shape[0] /= PARTS.len();
            let len = values.len() / PARTS.len();
            for (part, values) in parts.into_iter().zip(values.chunks_exact(len)) {
                outside.insert(part, (shape.clone(), values.to_vec()));
            }
        }
        let types = (vec![self.types, self.width], vec![0.0; self.types * self.width]);
        outside.insert(TYPES.into(), types);
        outside.insert(WORDS.into(), words);
        outside
    }

    /// Names and shapes in files.
    fn expected<T: Float>(&self, net: &Net<T>) -> BTreeMap<String, Vec<usize>> {
        let mut expected = BTreeMap::new();
        for named in net.tensors() {
            let Some(parts) = split(&named.name) else {
                expected.insert(named.name, named.shape);
                continue;
            };
            let mut shape = named.shape;
            shape[0] /= PARTS.len();
            expected.extend(parts.into_iter().map(|part| (part, shape.clone())));
        }
        expected.insert(WORDS.into(), vec![self.vocabulary, self.width]);
        expected.insert(TYPES.into(), vec![self.types, self.width]);
        expected
    }

    fn check<T: Float>(&self, net: &Net<T>, given: &BTreeMap<String, &Tensor>) -> Result<()> {
        let expected = self.expected(net);
        let missing: Vec<String> =
            expected.keys().filter(|name| !given.contains_key(*name)).cloned().collect();
        let extra: Vec<String> =
            given.keys().filter(|name| !expected.contains_key(*name)).cloned().collect();
        let wrong = expected.iter().filter_map(|(name, shape)| {
            let (is, _) = given.get(name).filter(|(is, _)| is != shape)?;
            Some(format!("{name} is {is:?} and should be {shape:?}"))
        });
        let wrong: Vec<String> = wrong.collect();
        match missing.is_empty() && extra.is_empty() && wrong.is_empty() {
            true => Ok(()),
            false => Err(Error::Weights { missing, extra, wrong }),
        }
    }
}

/// The three tensors in files for a tensor of the dense layer of query, key and value.
fn split(name: &str) -> Option<[String; 3]> {
    let (before, kind) = name.split_once("attention.self.")?;
    Some(PARTS.map(|part| format!("{before}attention.self.{part}.{kind}")))
}
