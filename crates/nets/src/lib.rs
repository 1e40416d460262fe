//! Networks with taps, on matrices of faer.

mod elementary;
mod error;
mod float;
mod layer;
pub mod layers;
mod net;
mod pass;
mod product;
mod shape;
mod taps;
#[cfg(test)]
mod testing;
mod weights;

pub use error::{Error, Result};
pub use float::Float;
pub use layer::{Backward, Factors, Forward, Layer, Mode, Noise, Outer, Scope, Spec};
pub use net::{Builder, Named, Net, Slot};
pub use pass::{Plan, Workspace};
pub use shape::Shape;
pub use taps::{OuterTap, Tap, TapFactors, Taps};
pub use weights::{Tensor, Tensors};
