//! Veridical: learned representations you can trust.
//!
//! One function per verb of the command line: plain settings in, a result out that serialises to the
//! JSON the command prints. Nothing here reads arguments or writes to a terminal.
//!
//! - [`train`], [`tune`]: learn embeddings into run folders, with settings that were chosen fairly.
//! - [`evaluate`], [`recommend`], [`similar`]: what they are worth, and what they say.
//! - [`net`]: networks from images and tables, and what they are worth.
//! - [`prepare`]: look at data, divide it, generate some, build graphs.
//! - [`align`]: turn one table into the frame of another.
//! - [`featurize`]: make, describe, apply and export a feature spec.
//! - [`stability`]: whether a refresh is safe to ship; [`refresh`]: the daily job that ships it.
//! - [`vectors`]: look at tables and convert them.
//! - [`demo`]: a generated example of all of it.
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
pub mod featurize;
pub mod net;
mod pipeline;
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
pub use veridical_learn as learn;
pub use veridical_nets as nets;
pub use veridical_text as text;
