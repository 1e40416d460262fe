//! The ground Veridical stands on: randomness that means the same on every machine, and the few
//! services (threads, progress, interruption, exit codes) that every job needs.
//!
//! - [`Seed`] and [`Stream`]: named, counter-based random streams; every draw has an address.
//! - [`elementary`]: ln, sin and cos built from IEEE operations only, so their bits are portable.
//! - [`orthogonal`]: Gram-Schmidt with a fixed order of summation.
//! - [`stats`]: moments and medians that do not depend on chunking.
//! - [`progress`], [`interrupt`], [`threads`], [`exit`]: how a job talks to the outside.
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

mod draws;
pub mod elementary;
mod error;
pub mod exit;
pub mod interrupt;
pub mod orthogonal;
pub mod philox;
pub mod progress;
mod sample;
pub mod stats;
mod stream;
pub mod threads;

pub use draws::{Alias, AliasLists, Draws, Order, threshold};
pub use error::Error;
pub use sample::RowSample;
pub use stream::{Place, Seed, Stream};
