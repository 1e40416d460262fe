//! The layers, one file each: formula, forward, backward, taps.

mod activation;
mod linear;

pub use activation::{Activation, Kind};
pub use linear::{Linear, Parameterisation};
