//! What changed between representations of the same things, and whether it matters.
//!
//! - [`sanity()`]: what is wrong with a table before its geometry is looked at.
//! - [`compare()`]: coordinates, inner products, kernels, neighbours, CKA, Procrustes, with intervals.
//!
//! Everything is unchanged by a rotation of one table, but for coordinates, which are there to show that.

mod compare;
mod coordinates;
pub mod estimate;
mod hsic;
mod kernel;
mod linear;
mod neighbours;
mod pairs;
mod runs;
mod sanity;

pub use compare::{Angles, CompareSettings, Comparison, PairMeasure, Probed, compare};
pub use coordinates::Coordinates;
pub use estimate::{Estimate, PairValue};
pub use kernel::{KernelAt, TargetAlignment, target_alignment};
pub use linear::{Linear, linear};
pub use neighbours::Decile;
pub use pairs::PairSpread;
pub use runs::{Run, Runs};
pub use sanity::{Sanity, sanity};
