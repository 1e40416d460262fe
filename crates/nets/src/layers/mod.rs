//! The layers, one file each: formula, forward, backward, taps.

mod activation;
mod conv;
mod linear;
mod norm;
mod patches;
mod shortcut;

pub use activation::{Activation, Kind};
pub use conv::{Conv2d, ConvInit};
pub use linear::{Linear, Parameterisation};
pub use norm::BatchNorm;
pub use shortcut::PadShortcut;
