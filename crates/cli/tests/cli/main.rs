//! Tests of the command-line program, one module per promise. They share one binary: each would link the whole program
//! again.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod align;
mod architecture;
mod bad_input;
mod bad_nets;
mod bad_training;
mod bad_usage;
mod classifier;
mod common;
mod config;
mod determinism;
mod docs;
mod encoder;
mod evaluation;
mod explain;
mod export;
mod faults;
mod forensics;
mod json_documents;
mod kernel;
mod kernel_machines;
mod maps;
mod nets;
mod outputs;
mod pages;
mod plan;
mod prefix;
mod real_data;
mod refresh;
mod resume;
mod sequences;
mod shell;
mod stability;
mod streams;
mod table_forms;
mod text;
mod training;
mod verbs;
