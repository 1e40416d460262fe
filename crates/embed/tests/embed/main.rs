//! Trainers, models and judges through the public face.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod conformance;
mod evaluate;
mod rank;
mod sequential;
mod sgd;
