//! The layers, one file each: formula, forward, backward, taps.

mod conv;
mod linear;
mod patches;

pub use conv::{Conv2d, ConvInit};
pub use linear::{Linear, Parameterisation};
