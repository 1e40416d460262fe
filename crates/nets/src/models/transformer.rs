//! Transformer blocks, in the form of PyTorch's `TransformerEncoderLayer`.
//!
//! With A(x) = W_o attention(W_qkv x) and F(x) = W_2 sigma(W_1 x), biases omitted,
//!
//! post-norm (Vaswani et al. 2017)  z = LN_1(x + A(x)),  y = LN_2(z + F(z))
//! pre-norm  (Xiong et al. 2020)    z = x + A(LN_1(x)),  y = z + F(LN_2(z))
//!
//! Dropout acts on the attention weights, on A, on F and, as in PyTorch's block, on sigma(..).

use crate::layers::{Activation, Attention, Dropout, Kind, LayerNorm, Linear, LinearInit, Mask};
use crate::{Builder, Float, Result, Slot};

/// A transformer block.
#[derive(Clone, Debug, PartialEq)]
pub struct TransformerBlock {
    /// Width d of the rows.
    pub width: usize,
    /// Number of attention heads.
    pub heads: usize,
    /// Width between W_1 and W_2.
    pub hidden: usize,
    /// Attention mask.
    pub mask: Mask,
    /// Whether layer norms come before attention and dense layers (pre-norm) instead of after the sums (post-norm).
    pub norm_first: bool,
    /// Activation sigma of the feed-forward layers.
    pub activation: Kind,
    /// Dropout probability.
    pub dropout: f64,
    /// Epsilon of the layer norms.
    pub eps: f64,
}

/// Names of the layers of a block.
pub(super) struct Names {
    pub qkv: &'static str,
    pub out: &'static str,
    pub norms: [&'static str; 2],
    pub dense: [&'static str; 2],
    /// Standard deviation of the initialization of W, if it differs from that of PyTorch's block.
    pub deviation: Option<f64>,
    /// Whether sigma(..) has dropout.
    pub drops_hidden: bool,
}

/// PyTorch's names, up to `in_proj_weight` and `in_proj_bias`, which are `in_proj.weight` and `in_proj.bias` here.
const NAMES: Names = Names {
    qkv: "self_attn.in_proj",
    out: "self_attn.out_proj",
    norms: ["norm1", "norm2"],
    dense: ["linear1", "linear2"],
    deviation: None,
    drops_hidden: true,
};

impl TransformerBlock {
    /// Creates a post-norm block with relu, without a mask, and with dropout probability 0.1.
    pub fn new(width: usize, heads: usize, hidden: usize) -> Self {
        let (mask, norm_first, activation) = (Mask::None, false, Kind::Relu);
        Self { width, heads, hidden, mask, norm_first, activation, dropout: 0.1, eps: 1e-5 }
    }

    /// Adds the block after the last layer of a network; `name` is the prefix of the names of its layers.
    ///
    /// # Errors
    /// [`crate::Error`] if the sizes are incompatible or the dropout probability is invalid.
    pub fn push<T: Float>(&self, net: &mut Builder<T>, name: &str) -> Result<Slot> {
        self.push_named(net, name, &NAMES)
    }

    pub(super) fn push_named<T: Float>(
        &self,
        net: &mut Builder<T>,
        prefix: &str,
        names: &Names,
    ) -> Result<Slot> {
        let (d, x) = (self.width, net.last());
        let name = |part: &str| format!("{prefix}.{part}");
        let norm = |net: &mut Builder<T>, i: usize| {
            net.push(&name(names.norms[i]), LayerNorm::new(d).eps(self.eps))
        };
        let dense = |part: &str, inputs: usize, outputs: usize| {
            let layer = Linear::new(inputs, outputs);
            // PyTorch's MultiheadAttention: Glorot & Bengio 2010, uniform, for q, k and v together.
            let glorot = (part == names.qkv)
                .then(|| LinearInit::Uniform((6.0 / (inputs + outputs) as f64).sqrt()));
            match names.deviation.map(LinearInit::Normal).or(glorot) {
                Some(init) => layer.init(init),
                None => layer,
            }
        };
        if self.norm_first {
            norm(net, 0)?;
        }
        net.push(&name(names.qkv), dense(names.qkv, d, 3 * d))?;
        let attention = Attention::new(d, self.heads, self.mask)?.dropout(self.dropout)?;
        net.push(&name("attention"), attention)?;
        net.push(&name(names.out), dense(names.out, d, d))?;
        let a = drop(net, &name("dropout1"), self.dropout)?;
        let mut z = net.add(&name("add1"), x, a, false)?;
        if !self.norm_first {
            z = norm(net, 0)?;
        } else {
            norm(net, 1)?;
        }
        net.push(&name(names.dense[0]), dense(names.dense[0], d, self.hidden))?;
        net.push(&name("activation"), Activation::new(self.activation))?;
        if names.drops_hidden {
            drop(net, &name("dropout"), self.dropout)?;
        }
        net.push(&name(names.dense[1]), dense(names.dense[1], self.hidden, d))?;
        let f = drop(net, &name("dropout2"), self.dropout)?;
        let y = net.add(&name("add2"), z, f, false)?;
        if self.norm_first { Ok(y) } else { norm(net, 1) }
    }
}

/// Adds dropout after the last layer, if the probability is above 0.
pub(super) fn drop<T: Float>(net: &mut Builder<T>, name: &str, p: f64) -> Result<Slot> {
    match p == 0.0 {
        true => Ok(net.last()),
        false => net.push(name, Dropout::new(p)?),
    }
}
