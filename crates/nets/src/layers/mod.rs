//! Layers, one file each: formula, forward, backward, taps.

mod activation;
mod attention;
mod conv;
mod dropout;
mod flatten;
mod layer_norm;
mod linear;
mod norm;
mod patches;
mod pool;
mod positions;
mod recurrent;
mod sequence_pool;
mod shortcut;
mod winograd;

pub use activation::{Activation, Kind};
pub use attention::{Attention, Mask};
pub use conv::{Conv2d, ConvInit};
pub use dropout::Dropout;
pub use flatten::Flatten;
pub use layer_norm::LayerNorm;
pub(crate) use linear::normal;
pub use linear::{Linear, LinearInit, Parameterization};
pub use norm::BatchNorm;
pub use pool::{AveragePool, GlobalAverage, MaxPool};
pub use positions::Positions;
pub use recurrent::{Cell, Direction, Gru, GruCell, Lstm, LstmCell, Recurrent};
pub use sequence_pool::SequencePool;
pub use shortcut::PadShortcut;
