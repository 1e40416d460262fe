//! What representations are learned from and what they are: values in memory, without a file in sight.
//!
//! - [`Table`]: a vector table, ids and an n x d matrix of f32; [`join`] lines several up on their ids.
//! - [`Interactions`]: user-item interactions under the numbers that trainers use; [`split`] holds rows out.
//! - [`Labels`] and [`Graph`]: what is known about users and items besides. [`Corpus`]: documents.
//! - [`examples`]: images and numeric rows with classes or numbers to predict.
//! - [`TensorMap`]: tensors by name, as models and checkpoints consist of.
//! - [`Files`]: bytes that belong together, by name, wherever they are.
//! - [`fingerprint`]: BLAKE3 of values. [`generate`]: data with planted truth.
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
pub use split::{Short, Split, SplitOptions, SplitOutcome, SplitRule};
pub use table::{Ids, Table};
pub use tensors::TensorMap;
pub use text::{Corpus, CorpusBuilder, LabelledTexts, Part, Vocabulary};
pub use veridical_core::{Error, Result};
