//! Tests of the facade, as one program.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod library;
mod resnet20;
