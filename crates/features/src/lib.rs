//! Random Fourier features of learned representations.
//!
//! Kernel  k(x, y) = E cos u.(x - y), gaussian exp(-|x - y|^2 / (2 l^2))   l = `length_scale`
//! Law     u_j of the kernel, gaussian N(0, I / l^2),  j = 0 .. m-1        D = 2m = `output_dim`
//! Map     phi(x) = m^(-1/2) [cos u_0.x, sin u_0.x, ..., cos u_(m-1).x, sin u_(m-1).x]
//!
//! <phi(x), phi(y)> is an unbiased estimate of k(x, y) (Bochner; Rahimi & Recht 2007; paper 000,
//! section 5), with standard deviation sqrt((1 + k(2 delta) - 2 k(delta)^2) / (2m)) for iid
//! directions, and |phi(x)| = 1.
//!
//! **What phi does not do.** Its inner products estimate a kernel of h, which is invariant under rotations of h;
//! phi itself is not invariant. It helps models that are retrained on it. A model that is not retrained after h is
//! refreshed needs the new h aligned to the old one first.
//!
//! ```
//! use veridical_core::Rows;
//! use veridical_features::{FeatureMap, FeatureSpec};
//!
//! let spec = FeatureSpec::params(3, 8).seed(7).length_scale(0.5).build()?;
//! let map = FeatureMap::new(&spec)?;
//! let rows = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]; // two rows of width 3
//! let phi = map.transform(Rows::new(&rows, 3)?)?;
//! assert_eq!(phi.len(), 2 * 8);
//! assert_eq!(spec.spec_id().len(), 64); // names every bit of phi
//! # Ok::<(), veridical_features::Error>(())
//! ```
//!
//! - [`FeatureSpec`]: the small document that determines phi (`docs/format-spec.md`).
//! - [`Kernel`]: the kernel that the inner products estimate.
//! - [`directions`]: how U is drawn: independent, orthogonal, Hadamard or quasi-Monte Carlo (Halton).
//! - [`FeatureMap`]: a spec with its directions drawn, ready to transform rows.
//! - [`length_scale`]: rules that choose l from data.
//! - [`plan`]: the number of directions needed for a given error.

pub mod directions;
mod error;
mod kernel;
pub mod length_scale;
mod normalize;
pub mod plan;
mod spec;
mod transform;

pub use error::Error;
pub use kernel::Kernel;
pub use normalize::{ColumnMoments, Normalize};
pub use spec::{Directions, FeatureSpec, FeatureSpecParams};
pub use transform::{Checked, Cpu, FeatureMap, sincos};

/// The example of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExample;
