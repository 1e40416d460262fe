//! Veridical: learned representations you can trust.
//!
//! One function per verb of the command line: it takes typed settings and returns a result that serializes to the
//! JSON the command prints. Nothing here reads arguments or writes to a terminal.
//!
//! - [`train`], [`tune`]: train embeddings into run folders; tune hyperparameters on validation data.
//! - [`evaluate`], [`recommend`], [`similar`]: evaluate on held-out interactions, recommend items, find neighbors.
//! - [`net`]: train, evaluate and refit neural networks on images, tables, vectors and text.
//! - [`explain`]: the training rows behind decisions, and how far to trust that.
//! - [`forensics`]: the training rows behind incidents.
//! - [`kernel`]: Gram matrices of networks and of vectors, tangent features on disk.
//! - [`predict`]: apply a run of any kind to new inputs.
//! - [`prepare`]: describe, split and generate data, build graphs, embed documents.
//! - [`encoder`]: sentence embeddings from a pretrained encoder.
//! - [`align`]: align one vector table to the coordinate frame of another.
//! - [`featurize`]: create, describe, plan, check, apply and export a feature spec.
//! - [`stability`]: compare tables before shipping a refresh; [`refresh`]: the daily job that publishes one.
//! - [`guard`]: what every verb checks before it starts.
//! - [`vectors`]: inspect vector tables and convert between formats.
//! - [`demo`]: all of it on generated data.
//!
//! ```
//! use veridical::featurize::{self, NewSpec};
//!
//! let spec = featurize::new_spec(&NewSpec { input_dim: Some(128), ..NewSpec::default() })?;
//! assert_eq!(spec.output_dim(), 4 * 128);
//! # Ok::<(), veridical::Error>(())
//! ```

pub mod align;
pub mod config;
pub mod demo;
pub mod encoder;
mod error;
pub mod evaluate;
pub mod explain;
pub mod featurize;
pub mod forensics;
pub mod guard;
pub mod kernel;
pub mod net;
mod pipeline;
pub mod predict;
pub mod prepare;
pub mod recommend;
pub mod refresh;
pub mod settings;
pub mod similar;
pub mod stability;
pub mod train;
pub mod tune;
pub mod vectors;

pub use error::{Error, Result, flags};
pub use pipeline::{JobOptions, Tally};
pub use veridical_core as core;
pub use veridical_data as data;
pub use veridical_embed as embed;
pub use veridical_features as features;
pub use veridical_inspect as inspect;
pub use veridical_io as io;
pub use veridical_kernels as kernels;
pub use veridical_learn as learn;
pub use veridical_nets as nets;
pub use veridical_text as text;

/// The programs of `docs/rust.md`, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rust.md")]
pub struct RustGuide;

/// The example of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExample;
