//! One file per verb: arguments to settings, results to text.

pub mod completions;
pub mod demo;
pub mod featurize;
pub mod man;
pub mod reproduce;
pub mod vectors;
