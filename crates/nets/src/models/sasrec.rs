//! The body of SASRec (Kang & McAuley 2018, section III), as pmixer/SASRec.pytorch computes it.
//!
//! x = sqrt(d) E[item] + P[position], dropout; then blocks
//!
//! q = LN_1(x),  x <- q + W_o attention(W_q q, W_k x, W_v x),  z = LN_2(x),  x <- z + W_2 relu(W_1 z), dropout after W_1 and W_2
//!
//! with causal attention, and a final LN. Sequences end at the last position, eps is 1e-8. The network's input is E[item]: the
//! table is not part of it. Initialization is Glorot & Bengio's (2010) normal, as in SASRec.pytorch.
//!
//! Names are those of SASRec.pytorch, with q and [k v] separate where its `in_proj_weight` has all three.

use veridical_core::Seed;

use super::RELU;
use super::transformer::drop;
use crate::layers::{Attention, LayerNorm, Linear, LinearInit, Mask, Positions};
use crate::{Builder, Float, Net, Result, Shape};

/// Sizes of SASRec.
#[derive(Clone, Debug, PartialEq)]
pub struct Sasrec {
    /// Embedding dimension d.
    pub width: usize,
    /// Number of attention heads.
    pub heads: usize,
    /// Number of blocks.
    pub blocks: usize,
    /// Maximum length of a sequence.
    pub length: usize,
    /// Dropout probability.
    pub dropout: f64,
}

const EPS: f64 = 1e-8;

/// Standard deviation of Glorot initialization.
fn deviation(inputs: usize, outputs: usize) -> f64 {
    (2.0 / (inputs + outputs) as f64).sqrt()
}

impl Sasrec {
    /// Builds the network from item embeddings to rows that are scored against items; `seed` determines its initialization.
    ///
    /// # Errors
    /// A request error if the width is not divisible by the number of heads, or for an invalid dropout probability.
    pub fn build<T: Float>(&self, seed: Seed) -> Result<Net<T>> {
        let d = self.width;
        let mut net = Builder::new(Shape::row(d), seed);
        let positions = Positions::new(self.length, d)
            .from_end()
            .scale((d as f64).sqrt())
            // SASRec.pytorch has one more row, for padding.
            .deviation(deviation(self.length + 1, d));
        net.push("pos_emb", positions)?;
        drop(&mut net, "emb_dropout", self.dropout)?;
        for block in 0..self.blocks {
            self.block(&mut net, block)?;
        }
        net.push("last_layernorm", LayerNorm::new(d).eps(EPS))?;
        net.finish()
    }

    fn block<T: Float>(&self, net: &mut Builder<T>, block: usize) -> Result<()> {
        let d = self.width;
        let x = net.last();
        let dense = |outputs: usize, of: usize| {
            Linear::new(d, outputs).init(LinearInit::Normal(deviation(d, of)))
        };
        let attention = |part: &str| format!("attention_layers.{block}.{part}");
        let forward = |part: &str| format!("forward_layers.{block}.{part}");
        let norm = || LayerNorm::new(d).eps(EPS);
        let rest = net.push(&format!("attention_layernorms.{block}"), norm())?;
        let q = net.push(&attention("q"), dense(d, 3 * d))?;
        let kv = net.after(x, &attention("kv"), dense(2 * d, 3 * d))?;
        net.join(&attention("qkv"), q, kv)?;
        let heads = Attention::new(d, self.heads, Mask::Causal)?.dropout(self.dropout)?;
        net.push(&attention("attention"), heads)?;
        let a = net.push(&attention("out_proj"), dense(d, d))?;
        net.add(&attention("add"), rest, a, false)?;
        let z = net.push(&format!("forward_layernorms.{block}"), norm())?;
        net.push(&forward("conv1"), dense(d, d))?;
        net.push(&forward("relu"), RELU)?;
        drop(net, &forward("dropout1"), self.dropout)?;
        net.push(&forward("conv2"), dense(d, d))?;
        let f = drop(net, &forward("dropout2"), self.dropout)?;
        net.add(&forward("add"), z, f, false)?;
        Ok(())
    }
}
