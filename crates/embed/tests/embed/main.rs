//! Trainers, models and evaluation through the public API.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod conformance;
mod evaluate;
mod rank;
mod sequential;
mod sgd;
mod stored;
