//! Which training labels are wrong?
//!
//! - [`suspects`]: rows whose own label the fit to the other rows contradicts, with the label it suggests.
//! - [`confident_joint`]: about how many labels are wrong, class by class.
//! - [`plant`], [`calibrate`]: flips of known rows, and how far down the list they and the real errors are.
//! - [`average_precision`]: how well a score finds rows that are known.

mod calibrate;
mod joint;
mod score;

pub use calibrate::{Calibration, CurvePoint, Planted, average_precision, calibrate, plant};
pub use joint::{ConfidentJoint, confident_joint};
pub use score::{Suspect, left_out_scores, one_hot, suspects};
