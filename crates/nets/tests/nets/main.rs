//! Networks against PyTorch, and what must hold of all of them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod layers;
mod models;
mod optimisers;
mod oracle;
mod recurrent;
mod transformers;
