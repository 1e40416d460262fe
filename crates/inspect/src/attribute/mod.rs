//! Which training rows does a decision rest on?
//!
//! - [`Effect`]: what "rest on" may mean: [`mass`], removal, influence, [`dual`] (TRAK and empirical Fisher), similarity.
//! - [`concentration`], [`lorenz`]: do few rows carry most of it?
//! - [`top`], [`agreement`]: the rows to show, and which of them stay from seed to seed.
//!
//! Effects answer different questions: mass says how the surrogate's logit adds up, removal and influence what the machine would
//! answer without a row, similarity which rows look alike. Only validation against retraining says how far to trust them.

mod concentration;
mod effects;
mod stability;

pub use concentration::{Concentration, concentration, gini, lorenz, rows_for_half};
pub use effects::{Effect, dual, margins, mass};
pub use stability::{Agreement, Stable, agreement, top};
