//! What changed between representations of the same things, and whether it matters.
//!
//! - [`sanity()`]: what is wrong with a table before its geometry is looked at.
//! - [`compare()`]: coordinates, inner products, kernels, neighbours, CKA, Procrustes, with intervals.
//! - [`downstream()`]: what models with labels lose, retrained and not, for every treatment of the vectors.
//! - [`consumer()`]: what today's vectors do to a model that was trained on an earlier table.
//! - [`verdict()`], [`Gate`]: a sentence, and whether limits are kept.
//!
//! Everything is unchanged by a rotation of one table, but for coordinates, which are there to show that.

mod changed;
mod compare;
pub mod consumers;
mod coordinates;
mod downstream;
pub mod estimate;
mod gate;
mod hsic;
mod kernel;
mod linear;
pub mod measures;
mod neighbours;
mod pairs;
mod runs;
mod sanity;
mod theory;
mod variance;
mod verdict;

pub use changed::{Changed, changed};
pub use compare::{Angles, CompareSettings, Comparison, PairMeasure, Probed, compare};
pub use consumers::{Consumer, ConsumerReport, ConsumerVerdict, consumer};
pub use coordinates::Coordinates;
pub use downstream::{
    Downstream, Labelled, Treated, Treatment, TreatmentScores, accuracy, downstream, macro_f1,
    treatments,
};
pub use estimate::{Estimate, PairValue};
pub use gate::{Gate, Limit, Outcome, floor_of, propose};
pub use kernel::{KernelAt, TargetAlignment, target_alignment};
pub use linear::{Linear, linear};
pub use measures::{Floor, Harm, Kind, Measure};
pub use neighbours::Decile;
pub use pairs::PairSpread;
pub use runs::{Run, Runs};
pub use sanity::{Sanity, sanity};
pub use theory::{Theory, theory};
pub use variance::{Components, Scores};
pub use verdict::{Aspect, Level, Verdict, verdict};
