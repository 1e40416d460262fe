//! The layers, one file each: formula, forward, backward, taps.

mod activation;
mod conv;
mod dropout;
mod flatten;
mod linear;
mod norm;
mod patches;
mod pool;
mod recurrent;
mod sequence_pool;
mod shortcut;
mod winograd;

pub use activation::{Activation, Kind};
pub use conv::{Conv2d, ConvInit};
pub use dropout::Dropout;
pub use flatten::Flatten;
pub(crate) use linear::normal;
pub use linear::{Linear, Parameterisation};
pub use norm::BatchNorm;
pub use pool::{AveragePool, GlobalAverage, MaxPool};
pub use recurrent::{Cell, Direction, Gru, GruCell, Lstm, LstmCell, Recurrent};
pub use sequence_pool::SequencePool;
pub use shortcut::PadShortcut;
