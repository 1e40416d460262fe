//! Data, read from what users have and written so that a killed job loses nothing: vector tables (ids and an
//! n x d float matrix, one row per id), interactions, labels, graphs and documents.
//!
//! - [`TableReader`]: streams a file or folder (Parquet, Arrow IPC, npy, npz, safetensors, CSV/TSV,
//!   word2vec, GloVe) as [`Chunk`]s; no reader allocates by what a header promises.
//! - [`TableWriter`]: writes through `OUTPUT.partial/`, resumable, published by one rename.
//! - [`Table`]: a whole table in memory; [`join`] lines several up on their ids.
//! - [`models`]: a feature map as ONNX, SavedModel or safetensors.
//! - [`storage`]: objects of S3, Google and Azure, written like paths.
//! - [`interactions`]: who did what, under the numbers that trainers use; [`split`] keeps rows back.
//! - [`Labels`] and [`Graph`]: what is known about users and items besides. [`Corpus`]: documents.
//! - [`examples`]: images and numeric rows with classes or numbers to predict.
//! - [`ColumnWriter`]: tables of results. [`run`]: what a training leaves behind.
//! - [`fingerprint`]: BLAKE3 of inputs. [`generate`]: data with planted truth.
//!
//! ```
//! use veridical_data::{ReadOptions, Source, Table, TableReader, generate};
//! use veridical_core::Seed;
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("items.parquet");
//! generate::clusters(100, 8, 3, Seed::new(0)?).save(&path)?;
//!
//! let mut reader = TableReader::open(&Source::from_arg(&path), &ReadOptions::default())?;
//! let first = reader.next_chunk()?.expect("the table has rows");
//! assert_eq!(first.dim(), 8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod columns;
mod error;
pub mod examples;
pub mod fingerprint;
mod format;
pub mod generate;
mod graph;
mod guard;
pub mod interactions;
mod join;
pub mod models;
mod read;
mod records;
pub mod run;
pub mod split;
pub mod storage;
mod table;
#[cfg(test)]
mod testing;
mod text;
mod write;
mod zip;

pub use error::{Error, Result};
pub use format::{Format, Source};
pub use graph::{
    EdgeOptions, Graph, GraphSummary, LabelOptions, Labels, NameOptions, read_names, read_weights,
};
pub use guard::panic_is_guarded;
pub use interactions::{IdMap, Interactions, Lists};
pub use join::{Joined, join, join_named};
pub use read::{OnNan, ReadOptions, TableReader, read_ids};
pub use records::{ColumnMap, RecordFormat};
pub use split::{Short, Split, SplitOptions, SplitOutcome, SplitRule};
pub use table::{Chunk, Dtype, IdKind, Ids, Table, TableSchema};
pub use text::{
    Corpus, Documents, Encoded, LabelledOptions, LabelledTexts, Part, TextOptions, Tokenizer,
    Vocabulary,
};
pub use write::{
    ColumnWriter, Cuts, GROUP_ROWS, IfExists, OutputSchema, Piece, Resumed, TableWriter, Vectors,
    WriteOptions, difference, write_atomically,
};
