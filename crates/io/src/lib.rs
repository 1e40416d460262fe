//! Reading and writing files: input data in all supported formats, and outputs that survive a killed job.
//!
//! - [`TableReader`]: streams a file or folder (Parquet, Arrow IPC, npy, npz, safetensors, CSV/TSV,
//!   word2vec, GloVe) as [`Chunk`]s; no reader allocates memory by the size that a header claims.
//! - [`TableWriter`]: writes through `OUTPUT.partial/`, can be resumed, and publishes by one rename.
//! - [`read_table`], [`write_table`]: whole tables; [`interactions`], [`read_labels`], [`read_edges`], [`read_corpus`],
//!   [`examples`]: the other kinds of data.
//! - [`shared`]: tables joined on their ids, read in passes.
//! - [`models`]: exports a feature map as ONNX, SavedModel or safetensors.
//! - [`publish`]: makes output appear whole or not at all. [`publications`]: versions of a table, one of them current.
//! - [`storage`]: objects in S3, Google Cloud Storage and Azure, addressed like paths.
//! - [`ColumnWriter`]: result tables. [`run`]: run folders, the output of training.
//! - [`fingerprint`]: BLAKE3 hashes of files.
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
pub mod publications;
pub mod publish;
mod read;
mod records;
pub mod run;
pub mod shared;
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
    EdgeOptions, LABEL_COLUMN, LabelOptions, read_edges, read_labels, read_labels_of, read_names,
    read_weights, write_graph,
};
pub use place::{IdFiles, Input, Output, path_value};
pub use publish::{Existing, IfExists, Replace, put as write_atomically};
pub use read::{
    NpyRows, OnDuplicateId, OnNan, OnNullId, ReadOptions, StoredMatrix, TableReader, read_array,
    read_ids,
};
pub use records::{ColumnMap, RecordFormat, RecordOptions};
pub use table::{
    Chunk, Dtype, IdKind, TableSchema, collect_rows, collect_table, read_table, write_table,
};
pub use text::{
    Documents, LabeledOptions, TextOptions, read_corpus, read_corpus_with, read_labeled,
};
pub use write::{
    ArrayWriter, ColumnWriter, Cuts, GROUP_ROWS, Number, OutputSchema, ParquetCompression, Piece,
    Resumed, TableWriter, TiledMatrix, Vectors, WriteOptions, WrittenDtype, difference,
};

/// The example of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExample;
