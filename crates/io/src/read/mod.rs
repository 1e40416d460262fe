//! Streaming readers: one per format behind one trait, then parts, row numbers, ids from a second
//! file and the policies for missing ids, for values that are NaN, infinite or missing, and for ids that repeat, which are
//! applied in this order.

mod arrow;
mod cells;
mod delimited;
mod duplicates;
mod encoding;
mod folder;
mod lines;
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
pub(crate) use self::delimited::{decompressed, plain_text};
use self::duplicates::Duplicates;
pub(crate) use self::duplicates::first_repeated;
use self::folder::Part;
pub(crate) use self::folder::is_skipped;
pub(crate) use self::lines::{CsvRecords, Text, line_of, read_line, with_first_line};
pub use self::npy::{NpyRows, read_array};
pub(crate) use self::npz::Sparse;
pub use self::safetensors::StoredMatrix;
pub(crate) use self::safetensors::tensors;
use crate::columns;
use crate::{Chunk, Dtype, Error, Format, IdFiles, IdKind, Result, Source, TableSchema, storage};

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

choices! {
    /// What to do with a row that has no id.
    pub enum OnNullId {
        /// Stop and report the row
        Error = "error",
        /// Drop the row
        Skip = "skip",
    }
}

choices! {
    /// What to do with an id that occurs more than once.
    pub enum OnDuplicateId {
        /// Stop and report the rows, where ids must be unique
        Error = "error",
        /// Keep its first row
        First = "first",
        /// Replace its rows by their mean, at the place of the first
        Mean = "mean",
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
        /// Column of the vectors, or the columns of their coordinates: `dim_*`, `x,y,z`
        pub vector_column: Option<String> = None => [otherwise("the only list of floats, else numbered columns")],
        /// Tensor of a safetensors file or array of an npz file
        pub tensor: Option<String> = None => [otherwise("`vectors`, or the only matrix of floats")],
        /// File that names the rows of a table without ids: one id per line, CSV or Parquet; once for all tables or once per table
        pub ids: IdFiles = IdFiles::default() => [value("PATH")],
        /// Read ids as text even if they are integers
        pub text_ids: bool = false => [switch()],
        /// The first line of CSV and TSV is data; columns are called 0, 1, 2, ...
        pub no_header: bool = false => [switch()],
        /// Encoding of CSV, TSV, word2vec and GloVe
        pub encoding: Option<String> = None => [otherwise("utf-8")],
        /// What to do with values that are NaN, infinite or missing
        pub on_nan: OnNan = OnNan::Error => [value("WHAT")],
        /// What to do with rows that have no id
        pub on_null_id: OnNullId = OnNullId::Error => [detail(), value("WHAT")],
        /// What to do with ids that occur more than once
        pub on_duplicate_id: OnDuplicateId = OnDuplicateId::Error => [detail(), value("WHAT")],
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
            on_null_id,
            on_duplicate_id,
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
            "on_null_id": on_null_id.name(),
            "on_duplicate_id": on_duplicate_id.name(),
        })
    }

    /// Returns the options for table `i` of `n`, counted from 0: ⟨ids⟩ is for all tables if it was given once, else for
    /// one table each, in order.
    ///
    /// # Errors
    /// [`Error::Core`] if it was given another number of times.
    pub fn of_table(&self, i: usize, n: usize) -> Result<Self> {
        Ok(Self { ids: self.ids.of_table(i, n)?, ..self.clone() })
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
    duplicates: Option<Duplicates>,
    skipped_rows: u64,
    zeroed_values: u64,
    without_id: u64,
    repeated: u64,
    notes: Vec<String>,
    pending_skip: u64,
    /// Rows before this one are read but not returned.
    skip_until: u64,
}

impl TableReader {
    /// Opens a table and inspects its first part.
    ///
    /// # Errors
    /// [`Error::Read`] or [`Error::Store`] for a file that does not exist, [`Error::Malformed`] for damaged bytes,
    /// [`Error::Content`] if ids or vectors cannot be identified.
    pub fn open(source: &Source, options: &ReadOptions) -> Result<Self> {
        storage::explained(|| Self::open_source(source, options, false))
    }

    /// Opens table `i` of `n`. If ⟨ids⟩ was given once, it names the rows of those tables that have no ids, and does not
    /// concern the others; a file for this table alone must be needed.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open) and of [`ReadOptions::of_table`].
    pub fn open_one_of(
        source: &Source,
        options: &ReadOptions,
        (i, n): (usize, usize),
    ) -> Result<Self> {
        let for_all = options.ids.iter().count() <= 1;
        let options = options.of_table(i, n)?;
        storage::explained(|| Self::open_source(source, &options, for_all))
    }

    /// With `one_of`, ⟨ids⟩ does not concern a table that has ids.
    fn open_source(source: &Source, options: &ReadOptions, one_of: bool) -> Result<Self> {
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
            duplicates: None,
            skipped_rows: 0,
            zeroed_values: 0,
            without_id: 0,
            repeated: 0,
            notes,
            pending_skip: 0,
            skip_until: 0,
        };
        let mut options = options.clone();
        if one_of && reader.schema.ids != IdKind::RowNumber {
            options.ids = IdFiles::default();
        }
        reader.name_rows(&options)?;
        if options.text_ids && reader.schema.ids == IdKind::Int {
            reader.schema.ids = IdKind::Text;
        }
        if reader.schema.ids != IdKind::RowNumber {
            reader.duplicates = Duplicates::new(source, &options)?;
        }
        Ok(reader)
    }

    fn name_rows(&mut self, options: &ReadOptions) -> Result<()> {
        if let Some(path) = options.ids.only()? {
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

    /// Returns whether the rows are named by a file, ⟨ids⟩.
    pub fn is_named_by_file(&self) -> bool {
        self.row_ids.is_some()
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

    /// Returns what was dropped, merged or replaced so far, as warnings for the user.
    pub fn warnings(&self) -> Vec<String> {
        let merged = match self.options.on_duplicate_id {
            OnDuplicateId::Mean => "were merged into its mean",
            _ => "were skipped",
        };
        let all = [
            (self.without_id, "rows without an id were skipped".to_owned()),
            (self.skipped_rows, "rows with values that are not finite numbers were skipped".into()),
            (self.zeroed_values, "values that are not finite numbers were set to 0".into()),
            (self.repeated, format!("rows that repeat an id {merged}")),
        ];
        all.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect()
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
        if self.duplicates.is_some() {
            self.skip_until = self.skip_until.max(self.rows_read()) + rows;
        } else {
            self.pending_skip += rows;
        }
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
            chunk.first_row += self.base;
            if let Some(row_ids) = &self.row_ids {
                chunk.ids = row_ids.slice(chunk.first_row, chunk.n_rows())?;
            } else if self.schema.ids == IdKind::RowNumber {
                chunk.ids = Ids::numbered(chunk.first_row, chunk.n_rows());
            }
            if self.schema.ids == IdKind::Text {
                chunk.ids = columns::to_text(chunk.ids);
            }
            self.add_partition_columns(&mut chunk);
            let chunk = self.drop_without_id(chunk)?;
            let mut chunk = self.check_finite(chunk)?;
            if let Some(duplicates) = &mut self.duplicates {
                let (rest, repeats) = duplicates.resolve(chunk, self.schema.dim)?;
                chunk = rest;
                self.repeated += repeats;
            }
            // Rows that a resumed job passes over count for the ids that repeat.
            if self.skip_until > 0 {
                let passed = chunk.numbers().take_while(|&row| row < self.skip_until).count();
                chunk = chunk.slice(passed, chunk.n_rows() - passed);
            }
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
        let is_text = self.options.text_ids && got.ids == IdKind::Int && want.ids == IdKind::Text;
        let same_ids = self.row_ids.is_some() || got.ids == want.ids || is_text;
        if !same_ids {
            let kinds = format!("ids are {:?} where earlier files have {:?}", got.ids, want.ids);
            return refused(format!("{kinds} (⟨text-ids⟩ reads all of them as text)"));
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

    /// Drops rows without an id; readers leave them in only if they are to be dropped.
    fn drop_without_id(&mut self, chunk: Chunk) -> Result<Chunk> {
        if columns::first_null(&chunk.ids).is_none() {
            return Ok(chunk);
        }
        let ids = chunk.ids.to_array();
        let good: Vec<bool> = (0..ids.len()).map(|i| ids.is_valid(i)).collect();
        self.without_id += ids.null_count() as u64;
        keep_rows(&chunk, &good, self.schema.dim)
    }

    /// Applies the policy for values that are NaN, infinite or missing.
    fn check_finite(&mut self, chunk: Chunk) -> Result<Chunk> {
        let dim = self.schema.dim;
        let Some(bad) = values::first_not_finite(&chunk.vectors) else { return Ok(chunk) };
        match self.options.on_nan {
            OnNan::Error => {
                let (row, column) = (chunk.row_number(bad / dim) - self.base, bad % dim);
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
        o if o.id_column.is_some() && o.ids.is_empty() => "⟨id-column⟩",
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

/// The column of a file of ids: the one that was named, the only one, or the one that is called like an id.
fn id_file_column(names: &[&str], options: &ReadOptions, path: &Path) -> Result<usize> {
    let found = match &options.id_column {
        Some(name) => columns::find(names, name, "⟨id-column⟩", path)?,
        None if names.len() == 1 => Some(0),
        None => {
            let columns: Vec<_> = names.iter().copied().enumerate().collect();
            columns::default_id(&columns, path)?
        }
    };
    found.or((names.len() == 1).then_some(0)).ok_or_else(|| {
        let name = options.id_column.as_deref().unwrap_or("id");
        let what =
            format!("there is no column `{name}` to name the rows; choose one with ⟨id-column⟩");
        Error::content(path, what)
    })
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
