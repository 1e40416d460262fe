//! Where does a wrong behavior come from?
//!
//! - [`trace`]: incidents are known: the training rows that are like them and not like the good decisions of the same class, as a group if
//!   there is one; [`removal_check`]: what leaving the group out does to a kernel machine.
//! - [`check`]: suspect training rows are given: the queries whose nearest rows they are, against what chance would flag.
//! - [`scan`]: nothing is known: where one would look first. It never accuses.
//!
//! Evidence comes from incidents or suspects. A search without either finds something in clean data too, so it ends in a ranking.

mod check;
mod removal;
mod scan;
mod split;
mod trace;

pub use check::{VoteCheck, VoteSettings, check};
pub use removal::{RemovalCheck, removal_check};
pub use scan::{ClassScan, Scan, ScannedRow, scan};
pub use split::{Split, smallest_error, split};
pub use trace::{Trace, TraceSettings, Traced, trace};
