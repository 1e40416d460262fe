//! Networks compared with PyTorch, and properties of all of them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod layers;
mod models;
mod optimizers;
mod oracle;
mod recurrent;
mod transformers;
