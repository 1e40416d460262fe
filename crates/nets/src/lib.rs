//! Networks with taps, on matrices of faer.

mod elementary;
mod error;
mod float;
mod layer;
pub mod layers;
mod product;
mod shape;
#[cfg(test)]
mod testing;

pub use error::{Error, Result};
pub use float::Float;
pub use layer::{Backward, Factors, Forward, Layer, Mode, Noise, Outer, Scope, Spec};
pub use shape::Shape;
