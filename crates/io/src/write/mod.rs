//! Writes a table so that it appears whole or not at all, and so that a killed job can be resumed.
//!
//! Rows arrive in pieces of a fixed size ([`TableWriter::cuts`]), are split into groups of
//! [`GROUP_ROWS`] and, for folders, into parts of `rows_per_part`, always at the same absolute row
//! numbers: the bytes depend on the rows alone. After every group the journal records how much of the
//! file is valid; see [`partial`](self::partial).

mod append;
mod array;
mod arrow;
mod columns;
mod delimited;
mod npy;
mod npz;
mod parquet;
mod partial;
mod safetensors;
mod spool;
mod tiled;
mod words;

use std::path::Path;
use std::sync::Arc;

use ::arrow_array::{ArrayRef, FixedSizeListArray, Float16Array, Float32Array, RecordBatch};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, Field, Schema};
use half::{bf16, f16};
use serde_json::{Value, json};
use veridical_core::{Cancel, Error as Core, choices, settings};
use veridical_data::Ids;

pub use self::array::{ArrayWriter, Number};
pub use self::columns::ColumnWriter;
pub use self::partial::difference;
use self::partial::{Journal, Partial};
pub use self::tiled::TiledMatrix;
use crate::format::is_index;
use crate::publish::{Existing, IfExists, Lock};
use crate::{Dtype, Error, Format, IdKind, Output, Result, Source};

/// The number of rows in a row group.
pub const GROUP_ROWS: usize = 65_536;
/// Bytes of vectors in a piece.
const PIECE_BYTES: usize = 8 << 20;

/// The schema of a table to be written.
#[derive(Clone, Debug)]
pub struct OutputSchema {
    /// The dimension of the vectors.
    pub dim: usize,
    /// F32 or F16; Bf16 where the format supports it.
    pub dtype: Dtype,
    /// The kind of ids.
    pub ids: IdKind,
    /// The columns copied from the input.
    pub kept: Vec<Field>,
    /// Key-value metadata stored with the table, where the format supports it.
    pub metadata: Vec<(String, String)>,
}

impl OutputSchema {
    /// The Arrow schema: `id`, `vector`, then the copied columns.
    fn arrow(&self) -> Schema {
        let id = if self.ids == IdKind::Text { DataType::Utf8 } else { DataType::Int64 };
        let item = Arc::new(Field::new("item", self.item_type(), false));
        let vector = DataType::FixedSizeList(item, self.dim as i32);
        let mut fields = vec![Field::new("id", id, false), Field::new("vector", vector, false)];
        fields.extend(self.kept.iter().cloned());
        Schema::new_with_metadata(
            fields,
            self.metadata.iter().cloned().collect::<std::collections::HashMap<_, _>>(),
        )
    }

    fn item_type(&self) -> DataType {
        if self.dtype == Dtype::F16 { DataType::Float16 } else { DataType::Float32 }
    }
}

/// Vectors to write, row-major.
#[derive(Clone, Debug)]
pub enum Vectors {
    /// 32-bit floats.
    F32(ScalarBuffer<f32>),
    /// 16-bit floats.
    F16(ScalarBuffer<f16>),
}

impl Vectors {
    fn values(&self) -> ArrayRef {
        match self {
            Self::F32(values) => Arc::new(Float32Array::new(values.clone(), None)),
            Self::F16(values) => Arc::new(Float16Array::new(values.clone(), None)),
        }
    }

    /// The values as little-endian bytes, in pieces of bounded size; f32 values are rounded to `dtype` if
    /// that is bf16.
    fn for_each_bytes(&self, dtype: Dtype, mut put: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        const VALUES: usize = 1 << 14;
        let mut bytes = Vec::with_capacity(4 * VALUES);
        match self {
            Self::F32(values) => {
                for values in values.chunks(VALUES) {
                    bytes.clear();
                    if dtype == Dtype::Bf16 {
                        let rounded = values.iter().map(|&x| bf16::from_f32(x));
                        rounded.for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
                    } else {
                        values.iter().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
                    }
                    put(&bytes)?;
                }
            }
            Self::F16(values) => {
                for values in values.chunks(VALUES) {
                    bytes.clear();
                    values.iter().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
                    put(&bytes)?;
                }
            }
        }
        Ok(())
    }

    /// Value `i` as f32.
    fn get(&self, i: usize) -> f32 {
        match self {
            Self::F32(values) => values[i],
            Self::F16(values) => values[i].to_f32(),
        }
    }
}

/// Rows to be written.
#[derive(Clone, Debug)]
pub struct Piece {
    /// One id per row.
    pub ids: Ids,
    /// The vectors, row-major.
    pub vectors: Vectors,
    /// The columns copied from the input.
    pub kept: Vec<ArrayRef>,
    /// The number of input rows consumed by this piece.
    pub input_rows: u64,
}

impl Piece {
    fn n_rows(&self) -> usize {
        self.ids.len()
    }

    fn batch(&self, schema: &OutputSchema, arrow: &Arc<Schema>) -> Result<RecordBatch> {
        let internal = |e: arrow_schema::ArrowError| {
            Error::from(Core::shape(format!("rows do not fit the output: {e}"), ""))
        };
        let item = Arc::new(Field::new("item", schema.item_type(), false));
        let list =
            FixedSizeListArray::try_new(item, schema.dim as i32, self.vectors.values(), None);
        let mut columns: Vec<ArrayRef> =
            vec![self.ids.to_array(), Arc::new(list.map_err(internal)?)];
        columns.extend(self.kept.iter().cloned());
        RecordBatch::try_new(Arc::clone(arrow), columns).map_err(internal)
    }
}

choices! {
    /// How the pages of Parquet are compressed.
    pub enum ParquetCompression {
        /// No compression
        None = "none",
        /// Zstandard
        Zstd = "zstd",
    }
}

settings! {
    /// How to write a table.
    pub struct WriteOptions in "Writing" {
        /// Columns to copy to the output, separated by commas
        pub keep_columns: Vec<String> = Vec::new() => [by_comma(), value("A,B")],
        /// Number type of the written vectors; bf16 for safetensors only
        pub dtype: WrittenDtype = WrittenDtype::F32 => [value("DTYPE")],
        /// Write a folder of files with N rows each
        pub rows_per_part: Option<u64> = None => [at_least(1.0)],
        /// Format of the files of a folder
        pub format: Option<Format> = None => [value("FORMAT"), needs(&["rows-per-part"]), otherwise("parquet")],
        /// Compression of Parquet
        pub compression: ParquetCompression = ParquetCompression::None => [value("WHAT")],
        /// Write npy although it cannot hold the ids
        pub drop_ids: bool = false => [switch()],
        /// Folder for unfinished output to an object store
        pub staging: Option<Output> = None => [value("DIR"), otherwise("the user's cache")],
    } with {
        /// What to do about an existing output.
        pub existing: Existing,
    }
}

choices! {
    /// A number type that tables are written in.
    pub enum WrittenDtype {
        /// IEEE single
        F32 = "f32",
        /// IEEE half
        F16 = "f16",
        /// bfloat16, safetensors only
        Bf16 = "bf16",
    }
}

impl From<WrittenDtype> for Dtype {
    fn from(dtype: WrittenDtype) -> Self {
        match dtype {
            WrittenDtype::F32 => Self::F32,
            WrittenDtype::F16 => Self::F16,
            WrittenDtype::Bf16 => Self::Bf16,
        }
    }
}

impl WriteOptions {
    /// Returns every option that affects the output, by name. Dropped ids and the staging folder do not change the written
    /// rows; what to do about existing output is decided anew by every process. Copied columns and the number type are
    /// part of the output schema.
    pub fn describe(&self) -> Value {
        // Without `..`: a forgotten option does not compile.
        let Self {
            keep_columns: _,
            dtype: _,
            rows_per_part,
            format,
            compression,
            drop_ids: _,
            staging: _,
            existing: _,
        } = self;
        json!({
            "rows_per_part": rows_per_part,
            "format": format.map(Format::extension),
            "zstd": *compression == ParquetCompression::Zstd,
        })
    }
}

/// The progress of an unfinished job.
#[derive(Clone, Debug)]
pub struct Resumed {
    /// The number of input rows consumed.
    pub input_rows: u64,
    /// The number of rows written.
    pub output_rows: u64,
    /// The state that the job had stored for itself.
    pub tally: Value,
    /// Whether only the final rename was missing, so that nothing is left to do.
    pub finished: bool,
}

/// Encodes one file.
trait Encoder: Send {
    /// Appends rows.
    fn write(&mut self, piece: &Piece) -> Result<()>;
    /// Ends a group: everything so far is flushed to the operating system. Returns the valid length of the
    /// file, and the state needed to resume from there.
    fn end_group(&mut self) -> Result<(u64, Value)>;
    /// Completes the file.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// Where a valid file ends, and the state to resume from.
struct Continue<'a> {
    bytes: u64,
    state: &'a Value,
}

/// Where rows are split: into pieces of a power of two rows that depends on the output alone, groups of
/// [`GROUP_ROWS`] and parts of a folder.
#[derive(Clone, Copy, Debug)]
pub struct Cuts {
    piece_rows: usize,
    rows_per_part: u64,
    /// Rows in the current group and part.
    group_rows: usize,
    part_rows: u64,
}

impl Cuts {
    fn new(dim: usize, rows_per_part: Option<u64>, part_rows: u64) -> Self {
        let fitting = PIECE_BYTES / (dim * size_of::<f32>());
        let piece_rows = (1 << fitting.max(1).ilog2()).clamp(64, GROUP_ROWS);
        // Jobs are resumed at the end of a group.
        Self {
            piece_rows,
            rows_per_part: rows_per_part.unwrap_or(u64::MAX),
            group_rows: 0,
            part_rows,
        }
    }

    /// Returns the number of rows that the next piece must have, unless the input ends before.
    pub fn next_rows(&self) -> usize {
        let left_in_part =
            usize::try_from(self.rows_per_part - self.part_rows).unwrap_or(usize::MAX);
        self.piece_rows.min(GROUP_ROWS - self.group_rows).min(left_in_part)
    }

    /// Records that a piece of `n` rows was taken.
    pub fn advance(&mut self, n: usize) {
        self.group_rows += n;
        self.part_rows += n as u64;
        if self.part_ends() {
            self.part_rows = 0;
            self.group_rows = 0;
        }
        self.group_rows %= GROUP_ROWS;
    }

    fn part_ends(&self) -> bool {
        self.part_rows == self.rows_per_part
    }

    fn at_group_end(&self) -> bool {
        self.group_rows == 0
    }
}

/// Writes a table to a file, a folder or stdout.
pub struct TableWriter {
    schema: Arc<OutputSchema>,
    options: WriteOptions,
    encoder: Option<Box<dyn Encoder>>,
    /// After the encoder: the lock is released when nothing is written any more.
    target: Target,
    at: Journal,
    cuts: Cuts,
    resumed: Option<Resumed>,
}

enum Target {
    Stream,
    Disk { partial: Box<Partial>, lock: Lock, format: Format },
}

impl TableWriter {
    /// Rejects an output that [`create`](Self::create) would reject, as far as this is known before
    /// the table is: for jobs that process their input for long before they write.
    ///
    /// # Errors
    /// The errors of [`create`](Self::create).
    pub fn check(output: &Source, options: &WriteOptions) -> Result<()> {
        let Some(path) = output.path() else { return Ok(()) };
        output_format(path, options)?;
        partial_of(path, options)?.check(options.existing.if_exists())
    }

    /// Starts or resumes a job. `job` describes it (spec, options, fingerprints of the inputs): a
    /// job can only be resumed if the description is the same.
    ///
    /// # Errors
    /// [`veridical_core::Error::Exists`] if `options` do not allow to replace an existing `output` or if
    /// another job is writing it, [`veridical_core::Error::Request`] if the format cannot store the table.
    pub fn create(
        output: &Source,
        schema: OutputSchema,
        options: &WriteOptions,
        job: Value,
    ) -> Result<Self> {
        let Some(path) = output.path() else { return Self::to_stdout(schema, options) };
        let format = output_format(path, options)?;
        check_format(path, format, &schema, options)?;
        let partial = partial_of(path, options)?;
        let (lock, journal) = partial.begin(job, options.existing.if_exists())?;
        let resumed = journal.as_ref().map(|journal| Resumed {
            input_rows: journal.input_rows,
            output_rows: journal.output_rows,
            tally: journal.tally.clone(),
            finished: journal.finished,
        });
        let mut writer = Self {
            cuts: Cuts::new(schema.dim, options.rows_per_part, 0),
            schema: Arc::new(schema),
            options: options.clone(),
            target: Target::Disk { partial: Box::new(partial), lock, format },
            encoder: None,
            at: Journal::default(),
            resumed,
        };
        if let Some(journal) = journal {
            writer.take_up(journal)?;
        }
        Ok(writer)
    }

    fn to_stdout(schema: OutputSchema, options: &WriteOptions) -> Result<Self> {
        if options.existing.if_exists() == IfExists::Resume {
            let hint = "write to a file instead of `-`";
            return Err(Core::request("a stream cannot be resumed", hint).into());
        }
        if schema.dtype == Dtype::Bf16 {
            return refused(Path::new("-"), BF16_REFUSED);
        }
        if options.rows_per_part.is_some() {
            let what = "⟨rows-per-part⟩ needs a folder to write to, not `-`";
            return Err(Core::request(what, "").into());
        }
        let encoder: Box<dyn Encoder> = Box::new(arrow::StreamEncoder::stdout(&schema)?);
        Ok(Self {
            cuts: Cuts::new(schema.dim, None, 0),
            schema: Arc::new(schema),
            options: options.clone(),
            target: Target::Stream,
            encoder: Some(encoder),
            at: Journal::default(),
            resumed: None,
        })
    }

    /// Returns the progress of the job that this one resumes, if any.
    pub fn resumed(&self) -> Option<&Resumed> {
        self.resumed.as_ref()
    }

    /// Returns whether an interrupted job can be resumed; a stream cannot.
    pub fn is_resumable(&self) -> bool {
        matches!(self.target, Target::Disk { .. })
    }

    /// Returns where the coming rows are split.
    pub fn cuts(&self) -> Cuts {
        self.cuts
    }

    /// Writes the next piece; `tally` is the state of the job, stored for a process that resumes it.
    ///
    /// # Errors
    /// [`Error::Write`] if writing fails.
    pub fn write_noting(&mut self, piece: Piece, tally: Value) -> Result<()> {
        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            None => self.encoder.insert(self.target.open(
                self.at.part,
                &self.schema,
                &self.options,
                None,
            )?),
        };
        encoder.write(&piece)?;
        let n = piece.n_rows();
        self.cuts.advance(n);
        self.at.part_rows += n as u64;
        self.at.output_rows += n as u64;
        self.at.input_rows = piece.input_rows;
        self.at.tally = tally;
        if self.cuts.at_group_end() {
            (self.at.bytes, self.at.encoder) = encoder.end_group()?;
            if self.options.rows_per_part == Some(self.at.part_rows) {
                self.end_part()?;
            }
            if let Target::Disk { partial, .. } = &self.target {
                partial.note(&self.at)?;
            }
        }
        Ok(())
    }

    /// Writes the next piece without storing any state of the job.
    ///
    /// # Errors
    /// The errors of [`write_noting`](Self::write_noting).
    pub fn write(&mut self, piece: Piece) -> Result<()> {
        self.write_noting(piece, Value::Null)
    }

    /// Completes the output and publishes it; an upload to a store can be canceled between two parts.
    ///
    /// # Errors
    /// [`Error::Write`] if writing fails, [`veridical_core::Error::Unfit`] if no row was written.
    pub fn finish(mut self, cancel: &Cancel) -> Result<()> {
        let done = self.resumed.as_ref().is_some_and(|resumed| resumed.finished);
        if !done && self.at.output_rows == 0 {
            return Err(Core::unfit("no rows remain to be written", "").into());
        }
        if !done && (self.encoder.is_some() || self.at.part_rows > 0) {
            if let Some(encoder) = &mut self.encoder {
                encoder.end_group()?;
            }
            self.end_part()?;
        }
        if let Target::Disk { partial, lock, .. } = &mut self.target {
            self.at.finished = true;
            if !done {
                partial.note(&self.at)?;
            }
            partial.publish(lock, cancel)?;
        }
        Ok(())
    }

    /// Removes everything written so far: the input was bad, so resuming would not help.
    pub fn abandon(mut self) {
        self.encoder = None;
        if let Target::Disk { partial, .. } = &self.target {
            partial.remove();
        }
    }

    fn end_part(&mut self) -> Result<()> {
        if let Some(encoder) = self.encoder.take() {
            encoder.finish()?;
        }
        if let Target::Disk { partial, format, .. } = &self.target {
            partial.end_part(self.at.part, *format)?;
        }
        self.at.part += 1;
        self.at.part_rows = 0;
        self.at.bytes = 0;
        self.at.encoder = Value::Null;
        Ok(())
    }

    fn take_up(&mut self, journal: Journal) -> Result<()> {
        if !journal.finished && journal.part_rows > 0 {
            let from = Continue { bytes: journal.bytes, state: &journal.encoder };
            self.encoder =
                Some(self.target.open(journal.part, &self.schema, &self.options, Some(from))?);
        }
        self.cuts = Cuts::new(self.schema.dim, self.options.rows_per_part, journal.part_rows);
        self.at = journal;
        Ok(())
    }
}

impl Target {
    /// Opens the file of a part, new or where it was left.
    fn open(
        &self,
        part: u64,
        schema: &Arc<OutputSchema>,
        options: &WriteOptions,
        from: Option<Continue<'_>>,
    ) -> Result<Box<dyn Encoder>> {
        let Self::Disk { partial, format, .. } = self else {
            // INVARIANT: a stream has its encoder from the start.
            unreachable!("a stream is opened when it is created");
        };
        let path = partial.writing(part, *format, from.is_some())?;
        let schema = Arc::clone(schema);
        Ok(match format {
            Format::Parquet => Box::new(parquet::ParquetEncoder::open(
                &path,
                schema,
                options.compression == ParquetCompression::Zstd,
                from,
            )?),
            Format::Arrow => Box::new(arrow::FileEncoder::open(&path, schema, from)?),
            Format::Npy => Box::new(npy::NpyEncoder::open(&path, &schema, from)?),
            Format::Npz => Box::new(npz::NpzEncoder::open(&path, &schema, from)?),
            Format::Safetensors => {
                Box::new(safetensors::SafetensorsEncoder::open(&path, schema, from)?)
            }
            Format::Csv => Box::new(delimited::DelimitedEncoder::open(&path, b',', &schema, from)?),
            Format::Tsv => {
                Box::new(delimited::DelimitedEncoder::open(&path, b'\t', &schema, from)?)
            }
            Format::Word2vec | Format::Word2vecBinary | Format::Glove => {
                Box::new(words::WordsEncoder::open(&path, *format, &schema, from)?)
            }
        })
    }
}

fn partial_of(path: &Path, options: &WriteOptions) -> Result<Partial> {
    Partial::new(path, options.rows_per_part.is_some(), options.staging.as_deref())
}

/// The format of the files to write.
fn output_format(path: &Path, options: &WriteOptions) -> Result<Format> {
    if options.rows_per_part == Some(0) {
        return Err(Core::setting("rows-per-part", "at least 1", 0).into());
    }
    if options.rows_per_part.is_some() {
        return Ok(options.format.unwrap_or(Format::Parquet));
    }
    let by_name = Format::of_path(path)
        .map_err(|e| Core::request(e.to_string(), "or write a folder with ⟨rows-per-part⟩ N"))?;
    if options.format.is_some_and(|format| format != by_name) {
        return refused(
            path,
            "⟨format⟩ is for folders; the format of a single file follows from its extension",
        );
    }
    Ok(by_name)
}

const BF16_REFUSED: &str = "of all formats safetensors alone holds bf16; write .safetensors, or pass \
                            ⟨dtype⟩ f16";

/// The error for a rejected request, split into what and hint.
fn refused<T>(path: &Path, what: &str) -> Result<T> {
    let (what, hint) = what.split_once("; ").unwrap_or((what, ""));
    Err(Core::request(format!("{}: {what}", path.display()), hint).into())
}

/// Rejects tables that a format cannot store.
fn check_format(
    path: &Path,
    format: Format,
    schema: &OutputSchema,
    options: &WriteOptions,
) -> Result<()> {
    let refused = |what: &str| refused(path, what);
    let has_columns = matches!(format, Format::Parquet | Format::Arrow) || format.is_delimited();
    if !has_columns && !schema.kept.is_empty() {
        return refused(
            "this format has no columns, so ⟨keep-columns⟩ cannot be written; write .parquet",
        );
    }
    if format == Format::Npy && schema.ids != IdKind::RowNumber && !options.drop_ids {
        return refused(
            "npy holds no ids; write .parquet or .safetensors, or drop them with ⟨drop-ids⟩",
        );
    }
    if is_index(path) && options.rows_per_part.is_none() {
        return refused("an index is read but not written; write .safetensors");
    }
    if format.is_compressible()
        && Format::from_name(&path.extension().unwrap_or_default().to_string_lossy()).is_none()
        && options.rows_per_part.is_none()
    {
        return refused(
            "compressed text is read but not written; write .csv and compress it afterwards",
        );
    }
    if schema.dtype == Dtype::Bf16 && format != Format::Safetensors {
        return refused(BF16_REFUSED);
    }
    if schema.dtype != Dtype::F32 && format == Format::Word2vecBinary {
        return refused("word2vec binary holds f32 only; leave out ⟨dtype⟩");
    }
    if options.compression == ParquetCompression::Zstd && format != Format::Parquet {
        return refused("⟨compression⟩ is for Parquet");
    }
    let is_coordinate = |name: &str| {
        let number = name.strip_prefix('v').and_then(|k| k.parse::<usize>().ok());
        format.is_delimited() && number.is_some_and(|k| k < schema.dim)
    };
    let is_own = |name: &str| ["id", "vector"].contains(&name) || is_coordinate(name);
    if let Some(field) = schema.kept.iter().find(|field| is_own(field.name())) {
        return refused(&format!(
            "the output has its own column `{}`; leave it out of ⟨keep-columns⟩",
            field.name()
        ));
    }
    if i32::try_from(schema.dim).is_err() {
        return refused("rows are too wide");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
