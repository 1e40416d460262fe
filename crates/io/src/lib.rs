//! Bytes: what users have is read and what is learned is written, so that a killed job loses nothing.
//!
//! - [`TableReader`]: streams a file or folder (Parquet, Arrow IPC, npy, npz, safetensors, CSV/TSV,
//!   word2vec, GloVe) as [`Chunk`]s; no reader allocates by what a header promises.
//! - [`TableWriter`]: writes through `OUTPUT.partial/`, resumable, published by one rename.
//! - [`read_table`], [`write_table`]: a whole table; [`interactions`], [`read_labels`], [`read_edges`], [`read_corpus`],
//!   [`examples`]: the other kinds of data.
//! - [`models`]: a feature map as ONNX, SavedModel or safetensors.
//! - [`publish`]: the one way in which output appears, whole or not at all.
//! - [`storage`]: objects of S3, Google and Azure, written like paths.
//! - [`ColumnWriter`]: tables of results. [`run`]: what a training leaves behind.
//! - [`fingerprint`]: BLAKE3 of files.
//!
//! ```
//! use veridical_core::Seed;
//! use veridical_data::generate;
//! use veridical_io::{ReadOptions, Source, TableReader, write_table};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("items.parquet");
//! write_table(&generate::clusters(100, 8, 3, Seed::new(0)?), &path)?;
//!
//! let mut reader = TableReader::open(&Source::from_arg(&path), &ReadOptions::default())?;
//! let first = reader.next_chunk()?.expect("the table has rows");
//! assert_eq!(first.dim(), 8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod columns;
mod error;
pub mod examples;
mod files;
pub mod fingerprint;
mod format;
mod graph;
mod guard;
pub mod interactions;
pub mod models;
mod place;
pub mod publish;
mod read;
mod records;
pub mod run;
pub mod storage;
mod table;
#[cfg(test)]
mod testing;
mod text;
mod write;
mod zip;

pub use error::{Error, Result};
pub use files::FolderFiles;
pub use format::{Format, Source};
pub use graph::{
    EdgeOptions, LabelOptions, read_edges, read_labels, read_names, read_weights, write_graph,
};
pub use place::{Input, Output, path_value};
pub use publish::{Existing, IfExists, Replace, put as write_atomically};
pub use read::{OnNan, ReadOptions, TableReader, read_ids};
pub use records::{ColumnMap, RecordFormat, RecordOptions};
pub use table::{Chunk, Dtype, IdKind, TableSchema, collect_table, read_table, write_table};
pub use text::{
    Documents, LabelledOptions, TextOptions, read_corpus, read_corpus_with, read_labelled,
};
pub use write::{
    ColumnWriter, Cuts, GROUP_ROWS, OutputSchema, ParquetCompression, Piece, Resumed, TableWriter,
    Vectors, WriteOptions, WrittenDtype, difference,
};
