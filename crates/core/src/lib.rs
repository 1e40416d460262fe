//! The foundation of Veridical: random numbers that are identical on every machine, and the
//! services (threads, progress, cancellation, errors) that every job uses.
//!
//! - [`Seed`] and [`Stream`]: named, counter-based random streams; every draw has an address.
//! - [`elementary`]: ln, sin and cos built from IEEE operations only, so their bits are portable.
//! - [`Rows`]: a slice with its width, checked once; [`SparseRows`]: a sparse matrix by rows.
//! - [`orthogonal`]: Gram-Schmidt with a fixed order of summation.
//! - [`stats`]: moments and medians that do not depend on chunking; [`Estimate`]: a value with its confidence interval.
//! - [`ranks`]: rank correlations with intervals, isotonic regression.
//! - [`Job`]: progress reporting and cancellation of long computations; [`threads`]: the number of threads they run on.
//! - [`mod@settings`]: the settings of a computation, each defined once.
//! - [`Error`]: what can go wrong, grouped by who can fix it; [`exit`]: the exit codes of the command line.
//!
//! ```
//! use veridical_core::{Seed, Stream};
//!
//! let negatives = Stream::new(Seed::new(7)?, "negatives");
//! // Draw 3 of sample 41 in epoch 2: the same number whichever thread asks, in whatever order.
//! let u = negatives.at(2, 41).uniform(3);
//! assert!((0.0..1.0).contains(&u));
//! # Ok::<(), veridical_core::Error>(())
//! ```

pub mod distributions;
mod draws;
pub mod elementary;
pub mod error;
pub mod estimate;
pub mod exit;
mod hash;
mod job;
pub mod orthogonal;
mod pace;
pub mod philox;
pub mod ranks;
mod rows;
mod sample;
pub mod settings;
mod sparse;
pub mod stats;
pub mod stopping;
mod stream;
pub mod threads;

pub use draws::{Alias, AliasLists, Draws, Order, threshold};
pub use error::{Error, Result};
pub use estimate::Estimate;
pub use hash::splitmix;
pub use job::{Cancel, Job, Meter, Observer, Progress, Silent};
pub use pace::Pace;
pub use rows::Rows;
pub use sample::RowSample;
pub use sparse::SparseRows;
pub use stream::{Place, Seed, Stream};

/// The example of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExample;
