//! Is it safe to replace an old embedding table by a new one?
//!
//! - [`compare`]: everything below for tables in memory, as one [`Report`]; [`assess`]: the same with labels, weights,
//!   limits and consumers.
//! - [`sanity()`]: checks of a single table before any geometry.
//! - [`geometry`]: coordinates, inner products, kernels, neighbors, CKA, Procrustes, with confidence intervals.
//! - [`downstream()`]: the loss of accuracy of classifiers, retrained and not, for every treatment of the vectors.
//! - [`consumer()`]: the effect of today's vectors on a model that was trained on an earlier table.
//! - [`change_points()`]: the days on which a series of measures changed.
//! - [`verdict()`], [`Gate`]: a summary sentence, and the outcome of limits.
//!
//! Everything is invariant under a rotation of one table, except coordinates, which are compared to show that.

mod change_points;
mod changed;
mod compare;
pub mod consumers;
mod coordinates;
#[cfg(test)]
mod coverage;
#[cfg(test)]
mod damage;
mod downstream;
mod drawn;
mod gate;
#[cfg(test)]
mod grid;
mod hsic;
mod joined;
mod kernel;
mod linear;
pub mod measures;
mod neighbors;
mod outliers;
mod pairs;
mod report;
pub mod run_pairs;
mod runs;
mod sanity;
mod theory;
#[cfg(test)]
mod twins;
mod variance;
mod verdict;

pub use change_points::change_points;
pub use changed::{Changed, changed};
pub use compare::{Angles, CompareSettings, Comparison, PairMeasure, Probed, geometry};
pub use consumers::{Consumer, ConsumerReport, ConsumerVerdict, consumer};
pub use coordinates::Coordinates;
pub use downstream::{
    Downstream, Labeled, Treated, Treatment, TreatmentScores, accuracy, downstream, macro_f1,
    treatments,
};
pub use drawn::Drawn;
pub use gate::{Gate, Limit, Outcome, floor_of, propose, propose_from};
pub use joined::{Joined, LEAST_IDS, NEW_IDS, NamedTable, NewRows, TableReport, join};
pub use kernel::{KernelAt, TargetAlignment, target_alignment};
pub use linear::{Linear, linear};
pub use measures::{Floor, Harm, Kind, Measure};
pub use neighbors::Decile;
pub use outliers::{NORM_FACTOR, OutlierId, Outliers};
pub use pairs::PairSpread;
pub use report::{
    ChangedItem, Evidence, KernelReport, NamedId, NewIds, Report, Samples, Settings, assess,
    assess_with, check_limits, compare,
};
pub use run_pairs::PairValue;
pub use runs::{SharedRows, SharedTables};
pub use sanity::{Sanity, SanityCount, sanity};
pub use theory::{Theory, theory};
pub use variance::{Components, Scores};
pub use verdict::{Answer, Aspect, Level, OUTLIERS_UNSTABLE, Verdict, verdict};
