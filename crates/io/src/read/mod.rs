//! Streaming readers: one per format behind one trait, then parts, row numbers, ids from a second
//! file and the policy for values that are NaN, infinite or missing.

mod arrow;
mod delimited;
mod encoding;
mod folder;
mod npy;
mod npz;
mod safetensors;
mod values;
mod word2vec;
mod words;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use arrow_array::{Array, ArrayRef, BooleanArray, StringArray};
use arrow_schema::{DataType, Field};
use serde_json::{Value, json};
use veridical_core::{Error as Core, choices, settings};
use veridical_data::Ids;

pub(crate) use self::arrow::ColumnBatches;
pub(crate) use self::delimited::{decompressed, failed as csv_failed, plain_text};
use self::folder::Part;
pub(crate) use self::folder::is_skipped;
pub(crate) use self::npz::Sparse;
pub(crate) use self::safetensors::tensors;
use crate::{Chunk, Dtype, Error, Format, IdKind, Input, Result, Source, TableSchema, storage};

choices! {
    /// What to do with a value that is NaN, infinite or missing.
    pub enum OnNan {
        /// Stop and report its position
        Error = "error",
        /// Drop the row
        Skip = "skip",
        /// Replace it by 0
        Zero = "zero",
    }
}

settings! {
    /// Options for reading a table.
    pub struct ReadOptions in "Reading" {
        /// Format of the input
        pub input_format: Option<Format> = None => [value("FORMAT"), otherwise("by file extension")],
        /// Table of a run folder
        pub table: Option<String> = None => [otherwise("item, or the first")],
        /// Column of the ids
        pub id_column: Option<String> = None => [otherwise("`id`, or the only `*_id`")],
        /// Column of the vectors
        pub vector_column: Option<String> = None => [otherwise("the only list of floats")],
        /// Tensor of a safetensors file or array of an npz file
        pub tensor: Option<String> = None => [otherwise("`vectors`, or the only matrix of floats")],
        /// File that names the rows of a table without ids: one id per line, CSV or Parquet
        pub ids: Option<Input> = None,
        /// Read ids of CSV, TSV, word2vec and GloVe as text even if they look like integers
        pub text_ids: bool = false => [switch()],
        /// The first line of CSV and TSV is data; columns are called 0, 1, 2, ...
        pub no_header: bool = false => [switch()],
        /// Encoding of CSV, TSV, word2vec and GloVe
        pub encoding: Option<String> = None => [otherwise("utf-8")],
        /// What to do with values that are NaN, infinite or missing
        pub on_nan: OnNan = OnNan::Error => [value("WHAT")],
        /// Rows to read at once; never changes a result
        pub chunk_rows: Option<usize> = None => [at_least(1.0)],
    } besides {
        /// Columns to copy to the output.
        pub keep_columns: Vec<String>,
    }
}

/// Bytes of vectors in a chunk by default.
const CHUNK_BYTES: usize = 8 << 20;

impl ReadOptions {
    /// Returns every option that affects what is read, by name: a job is resumed only if they are the same. The file of
    /// ids is identified by its content ([`fingerprint`](crate::fingerprint)), and `chunk_rows` does not affect what is read.
    pub fn describe(&self) -> Value {
        // Without `..`: a forgotten option does not compile.
        let Self {
            input_format,
            table,
            id_column,
            vector_column,
            tensor,
            keep_columns,
            ids: _,
            text_ids,
            no_header,
            encoding,
            on_nan,
            chunk_rows: _,
        } = self;
        json!({
            "input_format": input_format.map(Format::extension),
            "table": table,
            "id_column": id_column,
            "vector_column": vector_column,
            "tensor": tensor,
            "keep_columns": keep_columns,
            "text_ids": text_ids,
            "has_header": !no_header,
            "encoding": encoding,
            "on_nan": match on_nan {
                OnNan::Error => "Error",
                OnNan::Skip => "Skip",
                OnNan::Zero => "Zero",
            },
        })
    }

    fn chunk_rows(&self, dim: usize) -> usize {
        let fitting = CHUNK_BYTES / (size_of::<f32>() * dim.max(1));
        self.chunk_rows.unwrap_or(fitting).clamp(1, crate::GROUP_ROWS)
    }
}

/// One part of a table. Chunks have row numbers relative to the part.
trait PartReader: Send {
    fn schema(&self) -> &TableSchema;
    /// Rows in the part, if the format states it.
    fn n_rows(&self) -> Option<u64>;
    fn next_chunk(&mut self) -> Result<Option<Chunk>>;
    /// Skips the next `rows` rows, which exist, without decoding them; false if the format
    /// does not allow it.
    fn skip(&mut self, rows: u64) -> Result<bool>;
    /// A note for the user on how the part is read.
    fn note(&self) -> Option<String>;
    /// The value of `key` in the metadata of the file.
    fn metadata(&self, _key: &str) -> Option<String> {
        None
    }
}

/// Streams a table from a file, a folder or stdin.
///
/// Rows come in a fixed order (files by path), in chunks; their size never changes what is read.
pub struct TableReader {
    schema: TableSchema,
    options: ReadOptions,
    source: Source,
    parts: VecDeque<Part>,
    current: Box<dyn PartReader>,
    current_part: Part,
    /// Rows of the parts before the current one.
    base: u64,
    /// Rows of the current part that were read.
    position: u64,
    row_ids: Option<RowIds>,
    partition_columns: Vec<Option<String>>,
    n_rows: Option<u64>,
    skipped_rows: u64,
    zeroed_values: u64,
    notes: Vec<String>,
    pending_skip: u64,
}

impl TableReader {
    /// Opens a table and inspects its first part.
    ///
    /// # Errors
    /// [`Error::Read`] or [`Error::Store`] for a file that does not exist, [`Error::Malformed`] for damaged bytes,
    /// [`Error::Content`] if ids or vectors cannot be identified.
    pub fn open(source: &Source, options: &ReadOptions) -> Result<Self> {
        storage::explained(|| Self::open_source(source, options))
    }

    fn open_source(source: &Source, options: &ReadOptions) -> Result<Self> {
        if options.chunk_rows == Some(0) {
            return Err(Core::setting("chunk-rows", "at least 1", 0).into());
        }
        if let Some(name) = repeated(&options.keep_columns) {
            return Err(Core::request(format!("⟨keep-columns⟩ names `{name}` twice"), "").into());
        }
        let mut parts: VecDeque<Part> = folder::parts(source, options)?.into();
        let (first, partition_columns, file_options, current) = loop {
            // INVARIANT: `parts` rejects a folder without files, and an empty last one is an error.
            let first = parts.pop_front().expect("a source has at least one part");
            let (partition_columns, file_options) = first.split_kept(options);
            match open_part(&first, &file_options) {
                Err(Error::NoRows { .. }) if !parts.is_empty() => {}
                opened => break (first, partition_columns, file_options, opened?),
            }
        };
        let mut schema = current.schema().clone();
        schema.kept = merge_kept(&options.keep_columns, &partition_columns, &schema.kept);
        let notes: Vec<String> = current.note().into_iter().collect();
        let n_rows = if parts.is_empty() { current.n_rows() } else { None };

        let mut reader = Self {
            schema,
            options: file_options,
            source: source.clone(),
            parts,
            current,
            current_part: first,
            base: 0,
            position: 0,
            row_ids: None,
            partition_columns,
            n_rows,
            skipped_rows: 0,
            zeroed_values: 0,
            notes,
            pending_skip: 0,
        };
        reader.name_rows(options)?;
        Ok(reader)
    }

    fn name_rows(&mut self, options: &ReadOptions) -> Result<()> {
        if let Some(path) = &options.ids {
            if self.schema.ids != IdKind::RowNumber {
                let what = "⟨ids⟩ is for tables without ids, but this one has an id column";
                return Err(Error::content(self.source.to_string(), what));
            }
            let ids = RowIds::load(path, options)?;
            self.schema.ids = ids.kind();
            self.row_ids = Some(ids);
        } else if self.schema.ids == IdKind::RowNumber {
            self.notes.push(
                "the table has no ids: rows are numbered from 0 (⟨ids⟩ FILE names them)".into(),
            );
        }
        Ok(())
    }

    /// Returns the source of the table.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Returns the schema of the table.
    pub fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// Returns the number of rows of the table, if the format states it.
    pub fn n_rows(&self) -> Option<u64> {
        self.n_rows
    }

    /// Returns the value of `key` in the metadata of the first file; only Parquet and Arrow have metadata.
    pub fn metadata(&self, key: &str) -> Option<String> {
        self.current.metadata(key)
    }

    /// Returns the number of rows dropped and of values set to 0 so far because they were NaN, infinite or missing.
    pub fn replaced(&self) -> (u64, u64) {
        (self.skipped_rows, self.zeroed_values)
    }

    /// Returns the number of rows read so far, including dropped ones.
    pub fn rows_read(&self) -> u64 {
        self.base + self.position
    }

    /// Returns the files of a source, in the order in which they are read; an index is followed by the files it refers
    /// to.
    ///
    /// # Errors
    /// [`Error::Read`] if a folder cannot be listed, [`Error::Content`] for a bad index.
    pub fn files(source: &Source, options: &ReadOptions) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for part in folder::parts(source, options)? {
            if part.format == Some(Format::Safetensors) {
                files.extend(safetensors::files(&part.path, options)?);
            } else if part.format.is_some() {
                files.push(part.path);
            }
        }
        Ok(files)
    }

    /// Returns notes for the user on how the table is read.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Skips the next `rows` rows, as a resumed job does.
    pub fn skip_rows(&mut self, rows: u64) {
        self.pending_skip += rows;
    }

    /// Returns the next rows, or `None` after the last.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open), and those of bad values under [`OnNan::Error`].
    pub fn next_chunk(&mut self) -> Result<Option<Chunk>> {
        storage::explained(|| self.read_chunk())
    }

    fn read_chunk(&mut self) -> Result<Option<Chunk>> {
        loop {
            self.pass_over_pending()?;
            let Some(mut chunk) = self.current.next_chunk()? else {
                if !self.next_part()? {
                    return Ok(None);
                }
                continue;
            };
            self.position += chunk.n_rows() as u64;
            let passed = self.pending_skip.min(chunk.n_rows() as u64);
            self.pending_skip -= passed;
            chunk = chunk.slice(passed as usize, chunk.n_rows() - passed as usize);
            if chunk.n_rows() == 0 {
                continue;
            }
            let row_in_part = chunk.first_row;
            chunk.first_row += self.base;
            if let Some(row_ids) = &self.row_ids {
                chunk.ids = row_ids.slice(chunk.first_row, chunk.n_rows())?;
            } else if self.schema.ids == IdKind::RowNumber {
                chunk.ids = Ids::numbered(chunk.first_row, chunk.n_rows());
            }
            self.add_partition_columns(&mut chunk);
            let chunk = self.check_finite(chunk, row_in_part)?;
            if chunk.n_rows() > 0 {
                return Ok(Some(chunk));
            }
        }
    }

    /// Skips the rows of a resumed job without decoding them, where the format allows it.
    fn pass_over_pending(&mut self) -> Result<()> {
        while let (1.., Some(rows)) = (self.pending_skip, self.current.n_rows()) {
            let here = self.pending_skip.min(rows - self.position);
            if !self.current.skip(here)? {
                break;
            }
            self.position += here;
            self.pending_skip -= here;
            if self.pending_skip > 0 && !self.next_part()? {
                break;
            }
        }
        Ok(())
    }

    /// Advances to the next part; false after the last.
    fn next_part(&mut self) -> Result<bool> {
        let (part, next) = loop {
            let Some(part) = self.parts.pop_front() else {
                return self.check_named_rows().map(|()| false);
            };
            match open_part(&part, &self.options) {
                Err(Error::NoRows { .. }) => {}
                opened => break (part, opened?),
            }
        };
        let (want, got) = (&self.schema, next.schema());
        let refused = |what: String| {
            Err(Error::content(
                &part.path,
                format!("{what}; all files of a folder must have the same schema"),
            ))
        };
        if got.dim != want.dim {
            return refused(format!(
                "vectors have {} values where earlier files have {}",
                got.dim, want.dim
            ));
        }
        let same_ids = self.row_ids.is_some() || got.ids == want.ids;
        if !same_ids {
            let kinds = format!("ids are {:?} where earlier files have {:?}", got.ids, want.ids);
            return refused(format!("{kinds} (⟨text-ids⟩ reads those of CSV as text)"));
        }
        for (got, want) in got.kept.iter().zip(self.file_kept()) {
            if got.data_type() != want.data_type() {
                let (name, got, want) = (got.name(), got.data_type(), want.data_type());
                return refused(format!(
                    "column `{name}` is {got} where earlier files have {want}"
                ));
            }
        }
        self.base += self.position;
        self.position = 0;
        self.current = next;
        self.current_part = part;
        Ok(true)
    }

    /// The copied columns that come from the files, not from the path.
    fn file_kept(&self) -> impl Iterator<Item = &Field> {
        let columns = self.schema.kept.iter().zip(&self.partition_columns);
        columns.filter(|(_, partition)| partition.is_none()).map(|(field, _)| field)
    }

    fn check_named_rows(&self) -> Result<()> {
        let (rows, named) = (self.base + self.position, self.row_ids.as_ref().map(RowIds::len));
        match named {
            Some(named) if named != rows => Err(Error::content(
                self.source.to_string(),
                format!(
                    "the table has {rows} rows but ⟨ids⟩ names {named}; the numbers must match"
                ),
            )),
            _ => Ok(()),
        }
    }

    fn add_partition_columns(&self, chunk: &mut Chunk) {
        if self.partition_columns.iter().all(Option::is_none) {
            return;
        }
        let n = chunk.n_rows();
        let mut from_file = std::mem::take(&mut chunk.kept).into_iter();
        let column = |key: &Option<String>| -> Option<ArrayRef> {
            let Some(key) = key else { return from_file.next() };
            let value = self.current_part.partition(key);
            Some(std::sync::Arc::new(StringArray::from_iter(std::iter::repeat_n(value, n))))
        };
        chunk.kept = self.partition_columns.iter().map_while(column).collect();
    }

    /// Applies the policy for values that are NaN, infinite or missing.
    fn check_finite(&mut self, chunk: Chunk, row_in_part: u64) -> Result<Chunk> {
        let dim = self.schema.dim;
        let Some(bad) = values::first_not_finite(&chunk.vectors) else { return Ok(chunk) };
        match self.options.on_nan {
            OnNan::Error => {
                let (row, column) = (row_in_part + (bad / dim) as u64, bad % dim);
                let value = chunk.vectors[bad];
                let what = match (value.is_nan(), self.schema.dtype) {
                    (true, _) => "NaN or missing",
                    (false, Dtype::F64) => "infinite, or too large for f32",
                    (false, _) => "infinite",
                };
                Err(Error::content(
                    self.current_part.path.clone(),
                    format!(
                        "row {row}, column {column} is {what}; repair it, or pass ⟨on-nan⟩ skip to \
                         drop such rows or ⟨on-nan⟩ zero to replace it by 0"
                    ),
                ))
            }
            OnNan::Zero => {
                let bad_in = |row: &[f32]| row.iter().filter(|x| !x.is_finite()).count() as u32;
                let zeroed: Vec<u32> = chunk.vectors.chunks_exact(dim).map(bad_in).collect();
                let replace = |&x: &f32| if x.is_finite() { x } else { 0.0 };
                let vectors = chunk.vectors.iter().map(replace).collect();
                let chunk = Chunk { vectors, zeroed: Some(zeroed), ..chunk };
                self.zeroed_values += chunk.zeroed_values();
                Ok(chunk)
            }
            OnNan::Skip => {
                let good: Vec<bool> = chunk
                    .vectors
                    .chunks_exact(dim)
                    .map(|row| row.iter().all(|x| x.is_finite()))
                    .collect();
                self.skipped_rows += good.iter().filter(|good| !**good).count() as u64;
                keep_rows(&chunk, &good, dim)
            }
        }
    }
}

/// The rows marked in `good`.
fn keep_rows(chunk: &Chunk, good: &[bool], dim: usize) -> Result<Chunk> {
    let mask = BooleanArray::from(good.to_vec());
    let filter = |array: &dyn Array| {
        arrow_select::filter::filter(array, &mask)
            .map_err(|e| Error::from(Core::shape(format!("cannot drop rows: {e}"), "")))
    };
    let rows = chunk.vectors.chunks_exact(dim).zip(good).filter(|(_, good)| **good);
    let ids = filter(&chunk.ids.to_array())?;
    Ok(Chunk {
        first_row: chunk.first_row,
        // INVARIANT: filtering keeps the type of the ids.
        ids: Ids::from_array(&ids).expect("filtered ids keep their type"),
        vectors: rows.flat_map(|(row, _)| row).copied().collect(),
        kept: chunk.kept.iter().map(|column| filter(column)).collect::<Result<_>>()?,
        row_numbers: Some(
            (0..good.len()).filter(|&i| good[i]).map(|i| chunk.row_number(i)).collect(),
        ),
        zeroed: None,
    })
}

fn merge_kept(
    names: &[String],
    partition_columns: &[Option<String>],
    from_file: &[Field],
) -> Vec<Field> {
    let mut from_file = from_file.iter();
    let field = |(name, partition): (&String, &Option<String>)| match partition {
        Some(_) => Some(Field::new(name, DataType::Utf8, true)),
        None => from_file.next().cloned(),
    };
    names.iter().zip(partition_columns).map_while(field).collect()
}

fn open_part(part: &Part, options: &ReadOptions) -> Result<Box<dyn PartReader>> {
    let path: &Path = &part.path;
    Ok(match part.format {
        None => Box::new(arrow::StreamPart::stdin(options)?),
        Some(Format::Parquet) => {
            crate::run::check_table(path)?;
            Box::new(arrow::ParquetPart::open(path, options)?)
        }
        Some(Format::Arrow) => arrow::open_ipc(path, options)?,
        Some(Format::Npy) => Box::new(npy::NpyPart::open(path, options)?),
        Some(Format::Npz) => Box::new(npz::NpzPart::open(path, options)?),
        Some(Format::Safetensors) => Box::new(safetensors::SafetensorsPart::open(path, options)?),
        Some(Format::Csv) => Box::new(delimited::DelimitedPart::open(path, b',', options)?),
        Some(Format::Tsv) => Box::new(delimited::DelimitedPart::open(path, b'\t', options)?),
        Some(format @ (Format::Word2vec | Format::Glove)) => {
            Box::new(words::WordsPart::open(path, format, options)?)
        }
        Some(Format::Word2vecBinary) => Box::new(word2vec::Word2vecPart::open(path, options)?),
    })
}

fn repeated(names: &[String]) -> Option<&String> {
    names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)).map(|(_, name)| name)
}

/// Rejects columns requested from a format without columns.
fn refuse_columns(options: &ReadOptions, path: &Path, format: &str) -> Result<()> {
    let asked = match options {
        o if !o.keep_columns.is_empty() => "⟨keep-columns⟩",
        o if o.id_column.is_some() && o.ids.is_none() => "⟨id-column⟩",
        o if o.vector_column.is_some() => "⟨vector-column⟩",
        _ => return Ok(()),
    };
    Err(Error::content(path, format!("{asked}: {format} files have no columns")))
}

/// Ids from a separate file.
struct RowIds {
    ids: Ids,
    path: PathBuf,
}

/// Reads ids from a separate file: one per line, or a column of CSV, TSV or Parquet.
///
/// # Errors
/// [`Error::Read`], [`Error::Malformed`] and [`Error::Content`] as for a table.
pub fn read_ids(path: &Path, options: &ReadOptions) -> Result<Ids> {
    match Format::of_path(path) {
        Ok(Format::Parquet) => arrow::parquet_ids(path, options),
        Ok(Format::Csv) => delimited::read_ids(path, b',', options),
        Ok(Format::Tsv) => delimited::read_ids(path, b'\t', options),
        _ => delimited::read_lines(path, options),
    }
}

impl RowIds {
    fn load(path: &Path, options: &ReadOptions) -> Result<Self> {
        Ok(Self { ids: read_ids(path, options)?, path: path.to_owned() })
    }

    fn kind(&self) -> IdKind {
        match self.ids {
            Ids::Int(_) => IdKind::Int,
            Ids::Text(_) => IdKind::Text,
        }
    }

    fn len(&self) -> u64 {
        self.ids.len() as u64
    }

    fn slice(&self, first: u64, n: usize) -> Result<Ids> {
        if first + n as u64 > self.len() {
            let what =
                format!("names {} rows but the table has more; the numbers must match", self.len());
            return Err(Error::content(&self.path, what));
        }
        Ok(match &self.ids {
            Ids::Int(ids) => Ids::Int(ids.slice(first as usize, n)),
            Ids::Text(ids) => Ids::Text(ids.slice(first as usize, n)),
        })
    }
}

/// Schema of a table without columns.
fn bare_schema(dim: usize, ids: IdKind, dtype: Dtype) -> TableSchema {
    TableSchema { dim, ids, dtype, kept: Vec::new() }
}

#[cfg(test)]
mod tests;
