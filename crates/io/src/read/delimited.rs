//! CSV and TSV: a column of ids, then one column per coordinate, or one column of lists.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use csv::StringRecord;
use veridical_data::Ids;
use veridical_data::shortened;

use super::{PartReader, ReadOptions, encoding};
use crate::columns;
use crate::format::Compression;
use crate::{Chunk, Dtype, Error, IdKind, Result, TableSchema, storage};

pub(super) struct DelimitedPart {
    path: PathBuf,
    reader: csv::Reader<Box<dyn Read + Send>>,
    layout: Layout,
    schema: TableSchema,
    /// The first row, read ahead to determine the column types.
    first: Option<StringRecord>,
    next_row: u64,
    chunk_rows: usize,
    note: Option<String>,
}

/// The roles of the columns.
struct Layout {
    names: Vec<String>,
    id: Option<usize>,
    vectors: VectorColumns,
    kept: Vec<usize>,
}

enum VectorColumns {
    /// One column per coordinate.
    Wide(Vec<usize>),
    /// One column of lists such as `[0.1, 0.2]` or `0.1 0.2`.
    List(usize),
}

impl DelimitedPart {
    pub fn open(path: &Path, delimiter: u8, options: &ReadOptions) -> Result<Self> {
        let (reader, names, first) = open(path, delimiter, options)?;
        let layout = Layout::choose(names, &first, path, options)?;
        let id_kind = match layout.id {
            None => IdKind::RowNumber,
            Some(i) if !options.text_ids && is_integer(&first[i]) => IdKind::Int,
            Some(_) => IdKind::Text,
        };
        let kept = layout.kept.iter().map(|&i| Field::new(&layout.names[i], DataType::Utf8, true));
        let kept = kept.collect();
        let mut values = Vec::new();
        layout.read_vector(&first, &mut values, path, None)?;
        let dim = values.len();
        let note = (options.id_column.is_none() || options.vector_column.is_none())
            .then(|| layout.describe(dim));
        Ok(Self {
            path: path.to_owned(),
            reader,
            layout,
            schema: TableSchema { dim, ids: id_kind, dtype: Dtype::F32, kept },
            first: Some(first),
            next_row: 0,
            chunk_rows: options.chunk_rows(dim),
            note,
        })
    }

    fn next_record(&mut self) -> Result<Option<StringRecord>> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        next_record(&mut self.reader, &self.path)
    }
}

impl PartReader for DelimitedPart {
    fn schema(&self) -> &TableSchema {
        &self.schema
    }

    fn n_rows(&self) -> Option<u64> {
        None
    }

    fn next_chunk(&mut self) -> Result<Option<Chunk>> {
        let first_row = self.next_row;
        let dim = self.schema.dim;
        let mut vectors = Vec::new();
        let mut ids = IdBuilder::new(self.schema.ids);
        let mut kept: Vec<Vec<String>> = vec![Vec::new(); self.layout.kept.len()];
        let mut n = 0;
        while n < self.chunk_rows {
            let Some(record) = self.next_record()? else { break };
            self.layout.read_vector(&record, &mut vectors, &self.path, Some(dim))?;
            if let Some(i) = self.layout.id {
                ids.push(&record[i]).map_err(|what| {
                    Error::content(&self.path, format!("line {}: {what}", line(&record)))
                })?;
            }
            for (column, &i) in kept.iter_mut().zip(&self.layout.kept) {
                column.push(record[i].to_owned());
            }
            n += 1;
        }
        if n == 0 {
            return Ok(None);
        }
        self.next_row += n as u64;
        let kept = kept.into_iter().map(|column| Arc::new(StringArray::from(column)) as ArrayRef);
        Ok(Some(Chunk {
            first_row,
            ids: ids.finish(first_row, n),
            vectors: vectors.into(),
            kept: kept.collect(),
            row_numbers: None,
            zeroed: None,
        }))
    }

    fn skip(&mut self, _rows: u64) -> Result<bool> {
        Ok(false)
    }

    fn note(&self) -> Option<String> {
        self.note.clone()
    }
}

impl Layout {
    fn choose(
        names: Vec<String>,
        first: &StringRecord,
        path: &Path,
        options: &ReadOptions,
    ) -> Result<Self> {
        let find = |name: &str, flag: &str| {
            names.iter().position(|n| n == name).ok_or_else(|| {
                let names = names.join("`, `");
                Error::content(
                    path,
                    format!("{flag}: there is no column `{name}`; the columns are `{names}`"),
                )
            })
        };
        let id = match &options.id_column {
            Some(name) => Some(find(name, "⟨id-column⟩")?),
            None => {
                let columns: Vec<_> = names.iter().map(String::as_str).enumerate().collect();
                columns::default_id(&columns, path)?
            }
        };
        if id.is_none() && names[0].is_empty() {
            let what = "the first column has no name, like an index written by pandas";
            let remedy = "call it `id` in the first line, or write the file without it";
            return Err(Error::content(path, format!("{what}; {remedy}")));
        }
        let kept = options.keep_columns.iter().map(|name| find(name, "⟨keep-columns⟩"));
        let kept = kept.collect::<Result<Vec<_>>>()?;
        let vectors = match &options.vector_column {
            Some(name) => VectorColumns::List(find(name, "⟨vector-column⟩")?),
            None => {
                let rest: Vec<usize> =
                    (0..names.len()).filter(|i| Some(*i) != id && !kept.contains(i)).collect();
                match rest[..] {
                    [] => return Err(Error::content(path, "no column is left for the vectors")),
                    [only] if is_list(&first[only]) => VectorColumns::List(only),
                    _ => VectorColumns::Wide(rest),
                }
            }
        };
        Ok(Self { names, id, vectors, kept })
    }

    fn describe(&self, dim: usize) -> String {
        let vectors = match &self.vectors {
            VectorColumns::List(i) => format!("column `{}`", self.names[*i]),
            VectorColumns::Wide(columns) => {
                let name = |i: Option<&usize>| i.map_or("", |&i| self.names[i].as_str());
                format!("{dim} columns `{}` to `{}`", name(columns.first()), name(columns.last()))
            }
        };
        let ids = self.id.map_or("row numbers".into(), |i| format!("column `{}`", self.names[i]));
        format!("vectors from {vectors}, ids from {ids}")
    }

    /// Appends the vector of one record.
    fn read_vector(
        &self,
        record: &StringRecord,
        out: &mut Vec<f32>,
        path: &Path,
        dim: Option<usize>,
    ) -> Result<()> {
        let refused = |column: usize, text: &str| {
            let what =
                "where a number is expected; name the column in ⟨keep-columns⟩, or remove it";
            let place = format!("line {}, column `{}`", line(record), self.names[column]);
            Err(Error::content(path, format!("{place} holds `{}` {what}", shortened(text))))
        };
        match &self.vectors {
            VectorColumns::Wide(columns) => {
                for &column in columns {
                    match parse(&record[column]) {
                        Some(value) => out.push(value),
                        None => return refused(column, &record[column]),
                    }
                }
            }
            &VectorColumns::List(column) => {
                let before = out.len();
                for text in list_items(&record[column]) {
                    match parse(text) {
                        Some(value) => out.push(value),
                        None => return refused(column, text),
                    }
                }
                let got = out.len() - before;
                if got == 0 || dim.is_some_and(|dim| dim != got) {
                    let want =
                        dim.map_or(String::new(), |dim| format!(" where earlier rows have {dim}"));
                    let what = "every vector must have the same length; repair the row";
                    let line = line(record);
                    return Err(Error::content(
                        path,
                        format!("line {line} has {got} values{want}; {what}"),
                    ));
                }
            }
        }
        Ok(())
    }
}

type Opened = (csv::Reader<Box<dyn Read + Send>>, Vec<String>, StringRecord);

/// The reader, the column names and the first row.
fn open(path: &Path, delimiter: u8, options: &ReadOptions) -> Result<Opened> {
    let input = plain_text(path, options.encoding.as_deref())?;
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(!options.no_header)
        .from_reader(input);
    let names: Vec<String> = if !options.no_header {
        let header = reader.headers().map_err(|e| failed(&e, path))?;
        if let [only] = &header.iter().collect::<Vec<_>>()[..]
            && let Some(other) = [';', '\t', ','].into_iter().find(|c| only.contains(*c))
        {
            let what = format!("the columns seem to be separated by `{}`", other.escape_default());
            let remedy = "use .csv for commas and .tsv for tabs";
            return Err(Error::content(path, format!("{what}; {remedy}")));
        }
        let is_index = header.get(0).is_some_and(str::is_empty); // reported with its own remedy
        if !is_index && !header.is_empty() && header.iter().all(|name| parse(name).is_some()) {
            let what = "the first line holds numbers, not column names; pass ⟨no-header⟩";
            return Err(Error::content(path, what));
        }
        header.iter().map(|name| name.trim_start_matches('\u{feff}').to_owned()).collect()
    } else {
        Vec::new()
    };
    let Some(first) = next_record(&mut reader, path)? else {
        return Err(Error::no_rows(path));
    };
    let names =
        if options.no_header { (0..first.len()).map(|i| i.to_string()).collect() } else { names };
    Ok((reader, names, first))
}

/// Reads the file as UTF-8.
pub(crate) fn plain_text(path: &Path, encoding: Option<&str>) -> Result<Box<dyn Read + Send>> {
    let input = decompressed(path)?;
    match encoding {
        None => Ok(input),
        Some(name) => Ok(Box::new(encoding::Transcode::new(input, encoding::by_name(name)?))),
    }
}

pub(crate) fn decompressed(path: &Path) -> Result<Box<dyn Read + Send>> {
    let file = BufReader::with_capacity(1 << 20, storage::open(path)?);
    Ok(match Compression::of_name(&path.to_string_lossy().to_ascii_lowercase()) {
        None => Box::new(file),
        Some(Compression::Gzip) => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
        Some(Compression::Xz) => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(file)),
        Some(Compression::Zstd) => {
            let decoder = zstd::stream::read::Decoder::with_buffer(file);
            Box::new(decoder.map_err(|e| Error::read(path, "decompress", e))?)
        }
    })
}

fn next_record(
    reader: &mut csv::Reader<Box<dyn Read + Send>>,
    path: &Path,
) -> Result<Option<StringRecord>> {
    let mut record = StringRecord::new();
    let more = reader.read_record(&mut record).map_err(|e| failed(&e, path))?;
    Ok(more.then_some(record))
}

pub(crate) fn failed(error: &csv::Error, path: &Path) -> Error {
    let line = error.position().map_or(0, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            let what = "repair the line, or quote fields that contain the separator";
            Error::content(
                path,
                format!("line {line} has {len} fields where {expected_len} are expected; {what}"),
            )
        }
        csv::ErrorKind::Utf8 { .. } => Error::content(
            path,
            format!(
                "line {line} is not UTF-8; name its encoding with ⟨encoding⟩, for example latin-1"
            ),
        ),
        csv::ErrorKind::Io(e) => Error::malformed(path, "text", e),
        other => Error::malformed(path, "text", format!("{other:?}")),
    }
}

fn line(record: &StringRecord) -> u64 {
    record.position().map_or(0, csv::Position::line)
}

/// Parses a number; an empty field is a missing value.
fn parse(text: &str) -> Option<f32> {
    let text = text.trim();
    if text.is_empty() {
        return Some(f32::NAN);
    }
    text.parse().ok()
}

fn is_list(text: &str) -> bool {
    parse(text).is_none() && list_items(text).all(|item| parse(item).is_some())
}

fn list_items(text: &str) -> impl Iterator<Item = &str> {
    let inner = text.trim().trim_start_matches(['[', '(']).trim_end_matches([']', ')']);
    inner.split([' ', ',', ';', '\t', '\n', '\r']).filter(|item| !item.is_empty())
}

/// Whether the text is a canonical integer: `7`, not `07` or `+7`.
pub(super) fn is_integer(text: &str) -> bool {
    text.parse::<i64>().is_ok_and(|id| id.to_string() == text)
}

/// Collects ids.
pub(super) enum IdBuilder {
    None,
    Int(Vec<i64>),
    Text(Vec<String>),
}

impl IdBuilder {
    pub fn new(kind: IdKind) -> Self {
        match kind {
            IdKind::RowNumber => Self::None,
            IdKind::Int => Self::Int(Vec::new()),
            IdKind::Text => Self::Text(Vec::new()),
        }
    }

    pub fn push(&mut self, text: &str) -> std::result::Result<(), String> {
        match self {
            Self::None => {}
            Self::Int(_) if !is_integer(text) => {
                let id = shortened(text);
                return Err(format!(
                    "the id `{id}` is not an integer, unlike the first one; pass ⟨text-ids⟩ to read all ids as text"
                ));
            }
            Self::Int(ids) => ids.extend(text.parse::<i64>().ok()),
            Self::Text(_) if text.is_empty() => {
                return Err("the id is missing; fill it in or drop the row".into());
            }
            Self::Text(ids) => ids.push(text.to_owned()),
        }
        Ok(())
    }

    pub fn finish(self, first_row: u64, n: usize) -> Ids {
        match self {
            Self::None => Ids::numbered(first_row, n),
            Self::Int(ids) => Ids::Int(Int64Array::from(ids)),
            Self::Text(ids) => Ids::Text(StringArray::from(ids)),
        }
    }
}

/// Reads the ids of a delimited file: its id column, or its only column.
pub(super) fn read_ids(path: &Path, delimiter: u8, options: &ReadOptions) -> Result<Ids> {
    let (mut reader, names, first) = open(path, delimiter, options)?;
    let name = options.id_column.as_deref().unwrap_or("id");
    let column = names.iter().position(|n| n == name).or((names.len() == 1).then_some(0));
    let column = column.ok_or_else(|| {
        let what =
            format!("there is no column `{name}` to name the rows; choose one with ⟨id-column⟩");
        Error::content(path, what)
    })?;
    let mut ids = vec![first[column].to_owned()];
    while let Some(record) = next_record(&mut reader, path)? {
        ids.push(record[column].to_owned());
    }
    Ok(from_texts(ids, options))
}

/// Reads one id per line.
pub(super) fn read_lines(path: &Path, options: &ReadOptions) -> Result<Ids> {
    let mut text = String::new();
    plain_text(path, options.encoding.as_deref())?
        .read_to_string(&mut text)
        .map_err(|e| Error::read(path, "read", e))?;
    if let Some(line) = text.lines().position(str::is_empty) {
        let what = format!("line {}: the id is missing; fill it in or drop the line", line + 1);
        return Err(Error::content(path, what));
    }
    Ok(from_texts(text.lines().map(str::to_owned).collect(), options))
}

fn from_texts(ids: Vec<String>, options: &ReadOptions) -> Ids {
    if options.text_ids || !ids.iter().all(|id| is_integer(id)) {
        return Ids::Text(StringArray::from(ids));
    }
    Ids::Int(ids.iter().filter_map(|id| id.parse::<i64>().ok()).collect())
}
