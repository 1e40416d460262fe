//! The network architectures of sequential models.

use veridical_core::Seed;
use veridical_nets::layers::{Activation, Direction, Gru, Kind, Linear};
use veridical_nets::{Builder, Net, Shape, models};

use crate::Result;

/// The architecture of the networks of a sequential model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Self-attention (Kang & McAuley 2018).
    Sasrec {
        /// The maximum history length.
        length: usize,
        /// The number of attention blocks.
        blocks: usize,
        /// The number of attention heads per block.
        heads: usize,
    },
    /// A GRU over the history, and a network for items (paper 000, Figure A.2).
    TwoTower {
        /// The maximum history length.
        length: usize,
        /// The hidden size of the GRU and of the dense layers.
        hidden: usize,
    },
}

impl Architecture {
    /// Returns the maximum history length; longer histories keep their last items.
    pub fn length(self) -> usize {
        match self {
            Self::Sasrec { length, .. } | Self::TwoTower { length, .. } => length,
        }
    }

    /// Returns the architecture as numbers, which are stored with a model.
    pub(crate) fn numbers(self) -> Vec<f32> {
        match self {
            Self::Sasrec { length, blocks, heads } => {
                [0, length, blocks, heads].map(|x| x as f32).to_vec()
            }
            Self::TwoTower { length, hidden } => [1, length, hidden].map(|x| x as f32).to_vec(),
        }
    }

    pub(crate) fn from_numbers(numbers: &[f32]) -> Option<Self> {
        let whole = |x: &f32| (*x >= 0.0 && x.fract() == 0.0).then_some(*x as usize);
        let numbers: Vec<usize> = numbers.iter().map(whole).collect::<Option<_>>()?;
        match numbers[..] {
            [0, length, blocks, heads] => Some(Self::Sasrec { length, blocks, heads }),
            [1, length, hidden] => Some(Self::TwoTower { length, hidden }),
            _ => None,
        }
    }

    /// Whether item rows pass through a network before scoring.
    pub(crate) fn has_item_net(self) -> bool {
        matches!(self, Self::TwoTower { .. })
    }

    /// The network from item rows of `dim` values to the vectors used for scoring.
    pub(crate) fn item_net(self, dim: usize, seed: Seed) -> Result<Net<f32>> {
        let mut net = Builder::new(Shape::row(dim), seed);
        if let Self::TwoTower { hidden, .. } = self {
            dense(&mut net, dim, hidden)?;
        }
        Ok(net.finish()?)
    }

    /// The network that reads a history of rows of `dim` values.
    pub(crate) fn user_net(self, dim: usize, dropout: f64, seed: Seed) -> Result<Net<f32>> {
        match self {
            Self::Sasrec { length, blocks, heads } => {
                let sizes = models::Sasrec { width: dim, heads, blocks, length, dropout };
                Ok(sizes.build(seed)?)
            }
            Self::TwoTower { hidden, .. } => {
                let mut net = Builder::new(Shape::row(dim), seed);
                net.push("gru", Gru::new(dim, hidden, Direction::Forward))?;
                dense(&mut net, hidden, hidden)?;
                Ok(net.finish()?)
            }
        }
    }
}

/// A dense layer with a sigmoid, and a linear one.
fn dense(net: &mut Builder<f32>, inputs: usize, hidden: usize) -> Result<()> {
    net.push("dense1", Linear::new(inputs, hidden))?;
    net.push("sigmoid", Activation::new(Kind::Sigmoid))?;
    net.push("dense2", Linear::new(hidden, hidden))?;
    Ok(())
}
