//! The layers, one file each: formula, forward, backward, taps.

mod linear;

pub use linear::{Linear, Parameterisation};
