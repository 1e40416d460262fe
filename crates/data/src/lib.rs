//! The data that representations are learned from, and the representations themselves: values in memory, no file access.
//!
//! - [`VectorTable`]: a vector table, ids and an n x d matrix of f32; [`join`] aligns several tables by id.
//! - [`Passes`]: the rows that several tables share, read window by window.
//! - [`Interactions`]: user-item interactions, indexed as trainers need them; [`split`] holds out validation and test rows.
//! - [`Labels`] and [`Graph`]: side information about users and items. [`Corpus`]: tokenized documents; [`Tfidf`]: their sparse vectors.
//! - [`examples`]: images and numeric rows with classes or regression targets.
//! - [`TensorMap`]: named tensors, the content of models and checkpoints.
//! - [`Files`]: a set of named files, on disk, in a remote store or in memory.
//! - [`fingerprint`]: BLAKE3 hashes of values. [`generate`]: synthetic data with planted truth;
//!   [`poison`]: faults planted in images.
//!
//! ```
//! use veridical_core::Seed;
//! use veridical_data::{generate, join};
//!
//! let table = generate::clusters(100, 8, 3, Seed::new(0)?);
//! let turned = generate::rotated(&table, Seed::new(1)?);
//! let joined = join(vec![table, turned])?;
//! assert_eq!(joined.tables[1].n_rows(), 100);
//! # Ok::<(), veridical_core::Error>(())
//! ```

mod cell;
mod checkpoints;
pub mod examples;
mod files;
pub mod fingerprint;
pub mod generate;
mod graph;
mod interactions;
mod join;
pub mod passes;
pub mod poison;
pub mod split;
mod table;
mod tensors;
mod text;

pub use cell::{Cell, shortened};
pub use checkpoints::{Checkpoint, Checkpoints, NamedTensor, named};
pub use files::{Files, MemoryFiles};
pub use graph::{Graph, GraphSummary, Labels};
pub use interactions::{IdMap, Interactions, Interner, Lists};
pub use join::{Joined, join, join_named, places};
pub use passes::{Passes, StoredRows, Window};
pub use split::{Short, Split, SplitOptions, SplitOutcome, SplitRule};
pub use table::{Ids, VectorTable};
pub use tensors::TensorMap;
pub use text::{Corpus, CorpusBuilder, LabeledTexts, Part, Tfidf, TfidfSettings, Vocabulary};
pub use veridical_core::{Error, Result};

/// The example of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExample;
