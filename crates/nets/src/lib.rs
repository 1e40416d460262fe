//! Networks with taps, on matrices of faer.

mod elementary;
mod error;
mod feed;
mod float;
mod layer;
pub mod layers;
mod loss;
pub mod models;
mod net;
mod optimiser;
mod pass;
mod product;
mod refit;
mod schedule;
mod shape;
mod taps;
#[cfg(test)]
mod testing;
mod trainer;
mod weights;

pub use error::{Error, Result};
pub use feed::{Augmentation, Feed, Values, moments};
pub use float::Float;
pub use layer::{Backward, Factors, Forward, Layer, Mode, Noise, Outer, Scope, Spec};
pub use loss::{Loss, Target, correct};
pub use models::{Architecture, Init, Model};
pub use net::{Builder, Named, Net, Slot};
pub use optimiser::{Kind as OptimiserKind, Optimiser, OptimiserSettings, clip};
pub use pass::{Plan, Workspace};
pub use refit::{Head, Refit, RefitMethod, RefitPoint, RefitSettings, refit};
pub use schedule::{Curve, Schedule};
pub use shape::Shape;
pub use taps::{OuterTap, Tap, TapFactors, Taps};
pub use trainer::{Trainer, TrainerSettings};
pub use weights::{Tensor, Tensors};
