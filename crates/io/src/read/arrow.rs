//! Parquet and Arrow IPC (file and stream), through the arrow crates.

use std::collections::HashMap;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::reader::{FileReader, StreamDecoder, read_footer_length};
use arrow_ipc::root_as_footer;
use arrow_schema::{DataType, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::Length;
use parquet::file::statistics::Statistics;
use veridical_data::Ids;

use super::{OnNullId, PartReader, ReadOptions};
use crate::columns::{self, Chosen};
use crate::guard::guard;
use crate::storage::{self, InputFile};
use crate::{Chunk, Error, IdKind, Result, TableSchema};

const PARQUET: &str = "Parquet";
const IPC: &str = "Arrow IPC";
/// Rows decoded first to determine the width of a list column.
const FIRST_ROWS: usize = 64;
const STDIN_BYTES: usize = 1 << 20;
/// Rows of narrow columns that are decoded at once.
const BATCH_ROWS: usize = 1 << 15;

/// Turns record batches into chunks.
struct Decoder {
    path: PathBuf,
    chosen: Chosen,
    on_null_id: OnNullId,
    schema: TableSchema,
    /// The metadata of the file.
    metadata: HashMap<String, String>,
    /// Rows decoded so far.
    next_row: u64,
}

impl Decoder {
    /// `first` determines the width of the vectors; it is decoded again as a chunk later.
    fn new(
        path: &Path,
        schema: &Schema,
        chosen: Chosen,
        on_null_id: OnNullId,
        first: Option<&RecordBatch>,
    ) -> Result<Self> {
        let kept = chosen.kept.iter().map(|&i| columns::kept_field(schema.field(i))).collect();
        let Some(first) = first else {
            return Err(Error::no_rows(path));
        };
        let dim = chosen.vectors.width(first, path)?;
        let metadata = schema.metadata().clone().into();
        let schema = TableSchema { dim, ids: chosen.id_kind, dtype: chosen.dtype, kept };
        Ok(Self { path: path.to_owned(), chosen, on_null_id, schema, metadata, next_row: 0 })
    }

    fn chunk(&mut self, batch: &RecordBatch) -> Result<Chunk> {
        let (path, first_row) = (self.path.as_path(), self.next_row);
        let Chosen { vectors, id, id_kind, .. } = &self.chosen;
        let vectors = vectors.decode(batch, self.schema.dim, path, first_row)?;
        let ids = match id {
            Some(i) => {
                columns::decode_ids(batch.column(*i), *id_kind, self.on_null_id, path, first_row)?
            }
            None => Ids::numbered(first_row, batch.num_rows()),
        };
        self.check_index(batch)?;
        let kept = self.chosen.kept.iter().zip(&self.schema.kept);
        let kept = kept.map(|(&i, field)| columns::kept_column(batch.column(i), field, path));
        let kept = kept.collect::<Result<Vec<ArrayRef>>>()?;
        self.next_row += batch.num_rows() as u64;
        Ok(Chunk { first_row, ids, vectors, kept, row_numbers: None, zeroed: None })
    }

    /// A column that is left out as an index of pandas must be one.
    fn check_index(&self, batch: &RecordBatch) -> Result<()> {
        let Some(index) = self.chosen.index else { return Ok(()) };
        let numbers = arrow_cast::cast(batch.column(index), &DataType::Int64)
            .map_err(|e| Error::malformed(&self.path, "columnar", e))?;
        let numbers = numbers.as_primitive::<Int64Type>();
        let rows = (self.next_row..).take(numbers.len());
        let Some((row, _)) = rows.zip(numbers).find(|(row, n)| *n != Some(*row as i64)) else {
            return Ok(());
        };
        let name = batch.schema_ref().field(index).name().clone();
        Err(Error::content(
            &self.path,
            format!(
                "row {row}: column `{name}` looks like the index of pandas but is not the row number; \
                 name the column of the ids with ⟨id-column⟩ and the coordinates with ⟨vector-column⟩"
            ),
        ))
    }
}

pub(super) struct ParquetPart {
    file: InputFile,
    decoder: Decoder,
    reader: Option<ParquetRecordBatchReader>,
    n_rows: u64,
    chunk_rows: usize,
    projection: Vec<usize>,
}

impl ParquetPart {
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self> {
        guard(path, PARQUET, || {
            let file = storage::open(path)?;
            let builder = parquet_builder(path, file.again(path)?)?;
            let n_rows = u64::try_from(builder.metadata().file_metadata().num_rows())
                .map_err(|_| Error::malformed(path, PARQUET, "the number of rows is negative"))?;
            let schema = builder.schema().clone();
            let mut chosen = columns::choose(&schema, options, path)?;
            widen_ids(&mut chosen, &schema, |id| parquet_exceeds(path, &file, &builder, id))?;
            let projection = chosen.projection();
            let mask = ProjectionMask::roots(builder.parquet_schema(), projection.iter().copied());
            let mut head = builder
                .with_projection(mask)
                .with_batch_size(FIRST_ROWS)
                .with_limit(FIRST_ROWS)
                .build()
                .map_err(|e| Error::malformed(path, PARQUET, e))?;
            let first = head.next().transpose().map_err(|e| Error::malformed(path, PARQUET, e))?;
            let first = first.filter(|batch| batch.num_rows() > 0);
            let projected =
                schema.project(&projection).map_err(|e| Error::malformed(path, PARQUET, e))?;
            let (chosen, on_null_id) = (chosen.projected(), options.on_null_id);
            let decoder = Decoder::new(path, &projected, chosen, on_null_id, first.as_ref())?;
            let chunk_rows = options.chunk_rows(decoder.schema.dim);
            Ok(Self { file, decoder, reader: None, n_rows, chunk_rows, projection })
        })
    }

    /// The reader from the current row on.
    fn reader(&self) -> Result<ParquetRecordBatchReader> {
        let path = &self.decoder.path;
        let builder = parquet_builder(path, self.file.again(path)?)?;
        let mask = ProjectionMask::roots(builder.parquet_schema(), self.projection.iter().copied());
        builder
            .with_projection(mask)
            .with_batch_size(self.chunk_rows)
            .with_offset(self.decoder.next_row as usize)
            .build()
            .map_err(|e| Error::malformed(path, PARQUET, e))
    }
}

/// Unsigned ids become text if some do not fit 64-bit integers, which `exceeds` finds out.
fn widen_ids(
    chosen: &mut Chosen,
    schema: &Schema,
    exceeds: impl FnOnce(usize) -> Result<bool>,
) -> Result<()> {
    let Some(id) = chosen.id.filter(|_| chosen.id_kind == IdKind::Int) else { return Ok(()) };
    let data_type = schema.field(id).data_type();
    if columns::may_exceed(data_type) && exceeds(id)? {
        chosen.id_kind = IdKind::Text;
        columns::id_note(data_type, IdKind::Text).iter().for_each(|note| chosen.say(note));
    }
    Ok(())
}

/// Whether a column of unsigned integers has values above 2^63 - 1: by the statistics of all row groups, else by the
/// values of the column.
fn parquet_exceeds(
    path: &Path,
    file: &InputFile,
    builder: &ParquetRecordBatchReaderBuilder<InputFile>,
    column: usize,
) -> Result<bool> {
    let leaves = builder.parquet_schema();
    let leaf = (0..leaves.num_columns()).find(|&leaf| leaves.get_column_root_idx(leaf) == column);
    let largest = |group: &RowGroupMetaData| {
        let found = group.column(leaf?).statistics()?;
        match found {
            // The bits are those of unsigned integers.
            Statistics::Int64(values) if !found.is_min_max_deprecated() => {
                values.max_opt().copied()
            }
            _ => None,
        }
    };
    let groups = builder.metadata().row_groups().iter().filter(|group| group.num_rows() > 0);
    let largest: Option<Vec<i64>> = groups.map(largest).collect();
    if let Some(largest) = largest {
        return Ok(largest.iter().any(|&bits| bits < 0));
    }
    let failed = |e: &dyn std::fmt::Display| Error::malformed(path, PARQUET, e);
    let again = parquet_builder(path, file.again(path)?)?;
    let mask = ProjectionMask::roots(again.parquet_schema(), [column]);
    let reader = again.with_projection(mask).with_batch_size(BATCH_ROWS).build();
    for batch in reader.map_err(|e| failed(&e))? {
        if columns::exceeds(batch.map_err(|e| failed(&e))?.column(0)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn parquet_builder(
    path: &Path,
    file: InputFile,
) -> Result<ParquetRecordBatchReaderBuilder<InputFile>> {
    ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| Error::malformed(path, PARQUET, e))
}

impl PartReader for ParquetPart {
    fn schema(&self) -> &TableSchema {
        &self.decoder.schema
    }

    fn n_rows(&self) -> Option<u64> {
        Some(self.n_rows)
    }

    fn next_chunk(&mut self) -> Result<Option<Chunk>> {
        let path = self.decoder.path.clone();
        guard(&path, PARQUET, || {
            let mut reader = match self.reader.take() {
                Some(reader) => reader,
                None => self.reader()?,
            };
            let batch =
                reader.next().transpose().map_err(|e| Error::malformed(&path, PARQUET, e))?;
            self.reader = Some(reader);
            let Some(batch) = batch.filter(|batch| batch.num_rows() > 0) else {
                return check_end(&path, PARQUET, self.decoder.next_row, self.n_rows);
            };
            self.decoder.chunk(&batch).map(Some)
        })
    }

    fn skip(&mut self, rows: u64) -> Result<bool> {
        self.decoder.next_row += rows;
        self.reader = None;
        Ok(true)
    }

    fn note(&self) -> Option<String> {
        self.decoder.chosen.note.clone()
    }

    fn metadata(&self, key: &str) -> Option<String> {
        self.decoder.metadata.get(key).cloned()
    }
}

fn check_end(path: &Path, format: &'static str, seen: u64, promised: u64) -> Result<Option<Chunk>> {
    if seen == promised {
        return Ok(None);
    }
    Err(Error::malformed(path, format, format!("it promises {promised} rows but holds {seen}")))
}

/// Reads the ids of a Parquet file without looking for vectors.
pub(super) fn parquet_ids(path: &Path, options: &ReadOptions) -> Result<Ids> {
    guard(path, PARQUET, || {
        let builder = parquet_builder(path, storage::open(path)?)?;
        let schema = builder.schema().clone();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let column = super::id_file_column(&names, options, path)?;
        let mask = ProjectionMask::roots(builder.parquet_schema(), [column]);
        let reader = builder
            .with_projection(mask)
            .build()
            .map_err(|e| Error::malformed(path, PARQUET, e))?;
        let batches: std::result::Result<Vec<RecordBatch>, _> = reader.collect();
        let batches = batches.map_err(|e| Error::malformed(path, PARQUET, e))?;
        let parts: Vec<&dyn Array> = batches.iter().map(|b| b.column(0).as_ref()).collect();
        if parts.is_empty() {
            return Err(Error::content(path, "it names no rows"));
        }
        let all =
            arrow_select::concat::concat(&parts).map_err(|e| Error::malformed(path, PARQUET, e))?;
        let field = schema.field(column);
        let kind = columns::id_kind(field.data_type()).ok_or_else(|| {
            let what = format!("column `{}` is neither integer nor text", field.name());
            Error::content(path, format!("{what}; choose another one with ⟨id-column⟩"))
        })?;
        let kind = if options.text_ids || columns::exceeds(&all) { IdKind::Text } else { kind };
        columns::decode_ids(&all, kind, options.on_null_id, path, 0)
    })
}

/// Batches from an IPC file, an IPC stream in a file, or stdin.
enum Batches {
    File(Box<FileReader<BufReader<InputFile>>>),
    Stream(Box<StreamBatches>),
}

impl Batches {
    fn next(&mut self, path: &Path) -> Result<Option<RecordBatch>> {
        match self {
            Self::File(reader) => {
                reader.next().transpose().map_err(|e| Error::malformed(path, IPC, e))
            }
            Self::Stream(stream) => stream.next(path),
        }
    }

    /// The next batch that has rows.
    fn next_filled(&mut self, path: &Path) -> Result<Option<RecordBatch>> {
        loop {
            match self.next(path)? {
                Some(batch) if batch.num_rows() == 0 => {}
                other => return Ok(other),
            }
        }
    }
}

/// A stream decoded as its bytes arrive, so that stated lengths are not trusted.
struct StreamBatches {
    input: Box<dyn Read + Send>,
    decoder: StreamDecoder,
    buffer: Buffer,
    /// The last bytes received.
    tail: Vec<u8>,
    at_end: bool,
}

/// The marker at the end of a stream. Without it the writer was interrupted: half a table must not pass
/// for a whole one.
const END_OF_STREAM: [u8; 8] = [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0];

impl StreamBatches {
    fn new(input: Box<dyn Read + Send>) -> Self {
        Self {
            input,
            decoder: StreamDecoder::new(),
            buffer: Buffer::from(&[0u8; 0]),
            tail: Vec::new(),
            at_end: false,
        }
    }

    fn schema(&mut self, path: &Path) -> Result<Arc<Schema>> {
        while self.decoder.schema().is_none() {
            if self.buffer.is_empty() && !self.fill(path)? {
                let what = "it ends before its schema; expected an Arrow IPC stream";
                return Err(Error::malformed(path, IPC, what));
            }
            // One byte at a time until the schema is known: a batch must not be consumed with it.
            let mut byte = self.buffer.slice_with_length(0, 1);
            self.decoder.decode(&mut byte).map_err(|e| Error::malformed(path, IPC, e))?;
            self.buffer.advance(1);
        }
        // INVARIANT: the loop ends once a schema is decoded.
        Ok(self.decoder.schema().expect("the schema was decoded"))
    }

    fn fill(&mut self, path: &Path) -> Result<bool> {
        let mut bytes = Vec::with_capacity(STDIN_BYTES);
        self.input
            .by_ref()
            .take(STDIN_BYTES as u64)
            .read_to_end(&mut bytes)
            .map_err(|e| Error::read(path, "read", e))?;
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(END_OF_STREAM.len())..]);
        self.tail.drain(..self.tail.len().saturating_sub(END_OF_STREAM.len()));
        self.buffer = Buffer::from_vec(bytes);
        Ok(!self.buffer.is_empty())
    }

    fn next(&mut self, path: &Path) -> Result<Option<RecordBatch>> {
        loop {
            if self.buffer.is_empty() && !self.at_end {
                self.at_end = !self.fill(path)?;
            }
            if self.at_end {
                self.decoder.finish().map_err(|e| Error::malformed(path, IPC, e))?;
                if self.tail != END_OF_STREAM {
                    let what = "the stream has no end marker: its writer failed or was interrupted";
                    return Err(Error::malformed(path, IPC, what));
                }
                return Ok(None);
            }
            let batch = self.decoder.decode(&mut self.buffer);
            if let Some(batch) = batch.map_err(|e| Error::malformed(path, IPC, e))? {
                return Ok(Some(batch));
            }
        }
    }
}

/// An IPC table. Batches are split to the size of chunks.
pub(super) struct StreamPart {
    decoder: Decoder,
    batches: Batches,
    /// The rest of the current batch, all columns.
    rest: Option<RecordBatch>,
    chunk_rows: usize,
}

impl StreamPart {
    pub fn stdin(options: &ReadOptions) -> Result<Self> {
        Self::stream(Path::new("-"), Box::new(std::io::stdin()), options)
    }

    fn stream(path: &Path, input: Box<dyn Read + Send>, options: &ReadOptions) -> Result<Self> {
        guard(path, IPC, || {
            let mut stream = StreamBatches::new(input);
            let schema = stream.schema(path)?;
            Self::new(path, &schema, Batches::Stream(Box::new(stream)), options)
        })
    }

    fn new(
        path: &Path,
        schema: &Schema,
        mut batches: Batches,
        options: &ReadOptions,
    ) -> Result<Self> {
        let mut chosen = columns::choose(schema, options, path)?;
        // Stdin is read once: there, larger ids are refused.
        if path != Path::new("-") {
            widen_ids(&mut chosen, schema, |id| ipc_exceeds(path, id))?;
        }
        let first = batches.next_filled(path)?;
        let decoder = Decoder::new(path, schema, chosen, options.on_null_id, first.as_ref())?;
        let chunk_rows = options.chunk_rows(decoder.schema.dim);
        Ok(Self { decoder, batches, rest: first, chunk_rows })
    }
}

impl PartReader for StreamPart {
    fn schema(&self) -> &TableSchema {
        &self.decoder.schema
    }

    fn n_rows(&self) -> Option<u64> {
        None
    }

    fn next_chunk(&mut self) -> Result<Option<Chunk>> {
        let path = self.decoder.path.clone();
        guard(&path, IPC, || {
            let batch = match self.rest.take() {
                Some(batch) => batch,
                None => match self.batches.next_filled(&path)? {
                    Some(batch) => batch,
                    None => return Ok(None),
                },
            };
            let n = batch.num_rows().min(self.chunk_rows);
            if n < batch.num_rows() {
                self.rest = Some(batch.slice(n, batch.num_rows() - n));
            }
            self.decoder.chunk(&batch.slice(0, n)).map(Some)
        })
    }

    fn skip(&mut self, _rows: u64) -> Result<bool> {
        Ok(false)
    }

    fn note(&self) -> Option<String> {
        self.decoder.chosen.note.clone()
    }

    fn metadata(&self, key: &str) -> Option<String> {
        self.decoder.metadata.get(key).cloned()
    }
}

/// Opens an IPC table.
pub(super) fn open_ipc(path: &Path, options: &ReadOptions) -> Result<Box<dyn PartReader>> {
    guard(path, IPC, || {
        let (schema, batches) = ipc_batches(path)?;
        Ok(Box::new(StreamPart::new(path, &schema, batches, options)?) as Box<_>)
    })
}

/// Opens an IPC file or an IPC stream in a file; they differ in their first bytes.
fn ipc_batches(path: &Path) -> Result<(Arc<Schema>, Batches)> {
    let mut file = storage::open(path)?;
    let mut magic = [0; 6];
    let is_file = file.read_exact(&mut magic).is_ok() && &magic == b"ARROW1";
    file.seek(SeekFrom::Start(0)).map_err(|e| Error::read(path, "read", e))?;
    if !is_file {
        let mut stream = StreamBatches::new(Box::new(file));
        let schema = stream.schema(path)?;
        return Ok((schema, Batches::Stream(Box::new(stream))));
    }
    check_footer(&mut file).map_err(|what| Error::malformed(path, IPC, what))?;
    let reader = FileReader::try_new(BufReader::new(file), None)
        .map_err(|e| Error::malformed(path, IPC, e))?;
    Ok((reader.schema(), Batches::File(Box::new(reader))))
}

/// Whether a column of unsigned integers has values above 2^63 - 1.
fn ipc_exceeds(path: &Path, column: usize) -> Result<bool> {
    let (_, mut batches) = ipc_batches(path)?;
    while let Some(batch) = batches.next_filled(path)? {
        if columns::exceeds(batch.column(column)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Some columns of a file, batch by batch.
pub(crate) struct ColumnBatches {
    path: PathBuf,
    format: &'static str,
    batches: Columnar,
    /// The columns of a batch, as positions in the schema of the file.
    places: Vec<usize>,
}

enum Columnar {
    Parquet(ParquetRecordBatchReader),
    Ipc(Batches),
}

impl ColumnBatches {
    /// Opens Parquet or IPC; `choose` selects columns of the schema, ascending.
    pub fn open(
        path: &Path,
        is_parquet: bool,
        choose: impl FnOnce(&Schema) -> Result<Vec<usize>>,
    ) -> Result<Self> {
        let format = if is_parquet { PARQUET } else { IPC };
        let (batches, places) = guard(path, format, || {
            if !is_parquet {
                let (schema, batches) = ipc_batches(path)?;
                choose(&schema)?;
                return Ok((Columnar::Ipc(batches), (0..schema.fields().len()).collect()));
            }
            let builder = parquet_builder(path, storage::open(path)?)?;
            let places = choose(builder.schema())?;
            let mask = ProjectionMask::roots(builder.parquet_schema(), places.iter().copied());
            let reader = builder.with_projection(mask).with_batch_size(BATCH_ROWS).build();
            let reader = reader.map_err(|e| Error::malformed(path, PARQUET, e))?;
            Ok((Columnar::Parquet(reader), places))
        })?;
        Ok(Self { path: path.to_owned(), format, batches, places })
    }

    /// The position of a column of the file in a batch.
    pub fn place(&self, column: usize) -> Option<usize> {
        self.places.binary_search(&column).ok()
    }

    /// The next rows, or `None` after the last.
    pub fn next(&mut self) -> Result<Option<RecordBatch>> {
        let (path, format) = (&self.path, self.format);
        guard(path, format, || match &mut self.batches {
            Columnar::Parquet(reader) => {
                reader.next().transpose().map_err(|e| Error::malformed(path, format, e))
            }
            Columnar::Ipc(batches) => batches.next_filled(path),
        })
    }
}

/// Checks the footer of an IPC file against the size of the file: the decoder allocates memory
/// for a batch before it reads it.
fn check_footer(file: &mut InputFile) -> std::result::Result<(), String> {
    const TRAILER: u64 = 10; // the length of the footer and ARROW1
    let len = Length::len(file);
    let mut read_back = |from_end: u64, bytes: &mut [u8]| {
        let start = len.checked_sub(from_end).ok_or("it is cut off")?;
        file.seek(SeekFrom::Start(start))
            .and_then(|_| file.read_exact(bytes))
            .map_err(|e| e.to_string())
    };
    let mut trailer = [0; TRAILER as usize];
    read_back(TRAILER, &mut trailer)?;
    let footer_len = read_footer_length(trailer).map_err(|e| e.to_string())?;
    if TRAILER + footer_len as u64 > len {
        return Err(format!("the footer promises {footer_len} bytes but the file has {len}"));
    }
    let mut footer = vec![0; footer_len];
    read_back(TRAILER + footer_len as u64, &mut footer)?;
    let footer = root_as_footer(&footer).map_err(|e| e.to_string())?;
    let batches = footer.recordBatches().into_iter().flatten();
    for block in batches.chain(footer.dictionaries().into_iter().flatten()) {
        let parts = [block.offset(), i64::from(block.metaDataLength()), block.bodyLength()];
        let end = parts.iter().try_fold(0u64, |end, &n| end.checked_add(u64::try_from(n).ok()?));
        if end.is_none_or(|end| end > len) {
            return Err("the footer promises a batch beyond the end of the file".into());
        }
    }
    Ok(())
}
