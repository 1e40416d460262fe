//! Neural networks with taps, on faer's matrix products: explicit layers that train fast on a CPU and expose, for every
//! sample and layer, the layer's input a and the gradient delta of each output at the layer's output.
//!
//! - [`layers`]: one file each, generic over f32 and f64; [`Layer`] is their common interface.
//! - [`NetConfig`]: architectures by name; [`Builder`]: any other graph of layers; [`Net`]: layers with their parameters.
//! - [`Feed`]: the input pipeline; [`Trainer`]: steps of an [`Optimizer`] on a [`Loss`], with a [`Schedule`].
//! - [`Taps`]: a and delta; [`Workspace::activations`]: the output of any layer.
//! - [`fit`](mod@fit): the training loop, on examples or documents; [`metrics`]: evaluation of a network.
//! - [`Net::export`] and [`Net::import`]: weights under PyTorch's names; [`refit()`]: solving for the last layer.
//!
//! Work is split by size alone, so every result has the same bytes on any number of threads.
//!
//! ```
//! use veridical_core::Seed;
//! use veridical_nets::{NetConfig, Shape, TapFactors, Taps};
//!
//! let net = NetConfig::new("mlp:16".parse()?, Shape::row(3), 2).build::<f64>(Seed::new(0)?)?;
//! let samples = [0.1, 0.2, 0.3, -0.5, 0.0, 1.0];
// The tangent kernel of the two samples for output 0, layer by layer: (a . a')(delta . delta') for the weights and
// delta . delta' for the bias. No gradient is materialized.
//! let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
//! let mut kernel = 0.0;
//! Taps::new(&net, 2).take(2, &[0], |slot| slot.copy_from_slice(&samples), |tap| {
//!     let TapFactors::Outer(layer) = &tap.factors else { return };
//!     let mut scratch = Vec::new();
//!     let a = layer.inputs(0..2, &mut scratch);
//!     let (a0, a1) = a.split_at(a.len() / 2);
//!     kernel += (dot(a0, a1) + 1.0) * dot(layer.delta_of(0), layer.delta_of(1));
//! });
//! assert!(kernel > 0.0);
//! # Ok::<(), veridical_nets::Error>(())
//! ```

mod elementary;
mod error;
mod feed;
pub mod fit;
mod float;
mod layer;
pub mod layers;
mod loss;
pub mod metrics;
pub mod models;
mod net;
mod optimizer;
mod pass;
mod product;
pub mod ranking;
mod refit;
mod schedule;
mod sequences;
mod shape;
mod table;
mod taps;
#[cfg(test)]
mod testing;
mod trainer;
mod transpose;
mod weights;

pub use error::{Error, Result};
pub use feed::{Augmentation, Feed, Values, moments};
pub use float::Float;
pub use layer::{Backward, Factors, Forward, Layer, Mode, Noise, Outer, Part, Scope, Spec};
pub use loss::{Loss, Target, correct};
pub use models::{Architecture, Init, NetConfig};
pub use net::{Builder, Named, Net, Slot};
pub use optimizer::{Kind as OptimizerKind, Optimizer, OptimizerSettings, clip};
pub use pass::{Plan, Workspace};
pub use refit::{Head, MOST_ROWS, Refit, RefitMethod, RefitPoint, RefitSettings, refit};
pub use schedule::{Curve, Schedule};
pub use sequences::Sequences;
pub use shape::Shape;
pub use table::{Addend, EmbeddingTable, RowGradient};
pub use taps::{InputTap, OuterTap, Tap, TapFactors, TapKind, TappedLayer, Taps};
pub use trainer::{Trainer, TrainerSettings};

/// The example of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExample;
