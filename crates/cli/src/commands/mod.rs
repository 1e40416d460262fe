//! One file per verb: it turns flags into settings and results into text.

pub mod align;
pub mod classifier;
pub mod completions;
pub mod data;
pub mod demo;
pub mod evaluate;
pub mod explain;
pub mod featurize;
pub mod forensics;
pub mod kernel;
pub mod man;
pub mod net;
pub mod predict;
pub mod recommend;
pub mod refit_head;
pub mod refresh;
#[cfg(feature = "experiments")]
pub mod reproduce;
pub mod similar;
pub mod stability;
pub mod text;
pub mod train;
pub mod tune;
pub mod vectors;
