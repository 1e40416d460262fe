//! What changed between two representations, does it matter, and what do decisions rest on? One folder per question:
//!
//! - [`stability`]: is it safe to replace an old table by a new one? [`stability::compare`] answers with a
//!   [`stability::Report`]: sanity, geometry, neighbors, downstream models, consumers, a verdict, limits.
//! - [`surrogate`]: does a kernel machine decide as the network does?
//! - [`attribute`]: which training rows does a decision rest on?
//! - [`validate`]: do attributions predict what retraining shows?
//! - [`labels`]: which training labels are wrong?
//! - [`forensics`]: where does a wrong behavior come from?
//! - [`align`]: which linear map takes a new table to the coordinates of an old one, and how good is it?

pub mod align;
pub mod attribute;
mod error;
pub mod forensics;
pub mod labels;
pub mod stability;
pub mod surrogate;
pub mod validate;

pub use error::{Error, Result};
pub use stability::{
    Angles, Answer, Aspect, Changed, CompareSettings, Comparison, Components, Consumer,
    ConsumerReport, ConsumerVerdict, Coordinates, Decile, Downstream, Floor, Gate, Harm, KernelAt,
    Kind, Labeled, Level, Limit, Linear, Measure, Outcome, PairMeasure, PairSpread, PairValue,
    Probed, Sanity, Scores, SharedRows, SharedTables, TargetAlignment, Theory, Treated, Treatment,
    TreatmentScores, Verdict, accuracy, change_points, changed, consumer, consumers, downstream,
    floor_of, geometry, linear, macro_f1, measures, propose, propose_from, run_pairs, sanity,
    target_alignment, theory, treatments, verdict,
};

/// The example of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExample;
