//! The networks of models of sequences, by a few numbers.

use veridical_core::Seed;
use veridical_nets::{Net, models};

use crate::Result;

/// What the networks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Self-attention (Kang & McAuley 2018).
    Sasrec {
        /// The longest history that is read.
        length: usize,
        /// Layers of attention.
        blocks: usize,
        /// Heads of each.
        heads: usize,
    },
}

impl Architecture {
    /// The longest history that is read; of longer ones the last items.
    pub fn length(self) -> usize {
        match self {
            Self::Sasrec { length, .. } => length,
        }
    }

    /// As numbers, to be kept with a model.
    pub(crate) fn numbers(self) -> Vec<f32> {
        match self {
            Self::Sasrec { length, blocks, heads } => {
                [0, length, blocks, heads].map(|x| x as f32).to_vec()
            }
        }
    }

    pub(crate) fn from_numbers(numbers: &[f32]) -> Option<Self> {
        let whole = |x: &f32| (*x >= 0.0 && x.fract() == 0.0).then_some(*x as usize);
        let numbers: Vec<usize> = numbers.iter().map(whole).collect::<Option<_>>()?;
        match numbers[..] {
            [0, length, blocks, heads] => Some(Self::Sasrec { length, blocks, heads }),
            _ => None,
        }
    }

    /// The network that reads rows of `dim` values.
    pub(crate) fn user_net(self, dim: usize, dropout: f64, seed: Seed) -> Result<Net<f32>> {
        match self {
            Self::Sasrec { length, blocks, heads } => {
                let sizes = models::Sasrec { width: dim, heads, blocks, length, dropout };
                Ok(sizes.build(seed)?)
            }
        }
    }
}
