//! One file per verb: arguments to settings, results to text.

pub mod demo;
pub mod featurize;
pub mod reproduce;
pub mod vectors;
