//! Do attributions predict what retraining shows?
//!
//! - [`half_subsets`]: the training rows of the retrainings.
//! - [`datamodel_score`]: the linear datamodeling score, with the ceiling that seeds leave.
//! - [`removal_curve`]: how far removing the top rows moves a decision, against removing random ones.
//!
//! Retrained outputs are computed elsewhere, once, and serve every method of attribution.

mod lds;
mod removal;

pub use lds::{DatamodelScore, datamodel_score, half_subsets};
pub use removal::{CurvePoint, RemovalCurve, Retrained, removal_curve};
