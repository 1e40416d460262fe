//! Gram matrices of vectors and of networks' tangent features, and machines that learn from them (paper 004, sections 1 and 2).
//!
//! - [`gram`]: inner products and kernels of all pairs, by tiles of a fixed size and order.
//! - [`tangent`]: the tangent kernels of a network from the taps of its layers.
//! - [`project`]: sketches of gradients, where exact factors are too large.
//! - [`machine`]: ridge with every row removed in turn, the kernel GLM, conjugate gradients, support vectors.

mod error;
pub mod gram;
pub mod machine;
pub mod project;
pub mod tangent;

pub use error::{Error, Result};

/// The example of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExample;
