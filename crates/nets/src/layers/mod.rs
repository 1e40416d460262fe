//! The layers, one file each: formula, forward, backward, taps.

mod activation;
mod conv;
mod linear;
mod patches;

pub use activation::{Activation, Kind};
pub use conv::{Conv2d, ConvInit};
pub(crate) use linear::normal;
pub use linear::{Linear, Parameterisation};
