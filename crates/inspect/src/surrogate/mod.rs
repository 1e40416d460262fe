//! Does a kernel machine decide as the network does, and which kernel is the cheapest that does?
//!
//! - [`fit`]: a machine of a Gram matrix that imitates the labels or the network itself.
//! - [`faithfulness`]: how the two agree on held-out queries: rank correlations, agreement, divergence, shared errors.
//! - [`recommend`]: the cheapest kernel whose faithfulness reaches the best one's.
//!
//! A faithful surrogate orders queries as the network does. That says nothing about what retraining would change (validate it), nor
//! about where an incident comes from (trace it), and a surrogate of clean data need not follow the network under attack.

mod faithfulness;
mod fit;
mod recommend;

pub(crate) use faithfulness::at_least;
pub use faithfulness::{ErrorOverlap, Faithfulness, Tau, faithfulness, largest, log_odds};
pub use fit::{FitSettings, Machine, Surrogate, Target, fit};
pub use recommend::{Candidate, Recommendation, recommend};
