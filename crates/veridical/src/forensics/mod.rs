//! `veridical forensics`: the training rows behind wrong decisions.
//!
//! - [`trace()`]: incidents are known; the rows behind them, against shuffled incidents, and whether training without them helps.
//! - [`check()`]: suspect rows are given; the decisions that rest on them, against chance.
//! - [`scan()`]: nothing is known; where to look first, without a verdict.

mod check;
mod check_page;
mod page;
mod scan;
mod scan_page;
mod trace;

pub use self::check::{Check, CheckedQuery, Checking, check};
pub use self::scan::{Scan, Scanned, ScannedClass, Scanning, scan};
pub use self::trace::{State, Trace, TracedRow, Tracing, trace};
