//! Networks with taps, on matrices of faer.

mod elementary;
mod error;
mod float;
mod layer;
pub mod layers;
mod loss;
mod optimiser;
mod product;
mod schedule;
mod shape;
#[cfg(test)]
mod testing;

pub use error::{Error, Result};
pub use float::Float;
pub use layer::{Backward, Factors, Forward, Layer, Mode, Noise, Outer, Scope, Spec};
pub use loss::{Loss, Target, correct};
pub use optimiser::{Kind as OptimiserKind, Optimiser, OptimiserSettings, clip};
pub use schedule::{Curve, Schedule};
pub use shape::Shape;
