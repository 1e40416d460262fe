//! CSV and TSV: a column of ids, then one column per coordinate, or one column of lists.
//!
//! The separator is that of the file extension, or another one (`,` `;` tab `|`) if the first line has none of it. A
//! first column without a name that counts the rows from 0 is the index that pandas writes: it is left out, and that it
//! counts is checked to the last row.

use std::collections::VecDeque;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use arrow_schema::{DataType, Field};
use csv::StringRecord;
use veridical_data::{Ids, shortened};

use super::cells::{self, IdBuilder, IdStyle};
use super::lines::{CsvRecords, Text, line_of, read_line, with_first_line};
use super::{OnNullId, PartReader, ReadOptions, encoding};
use crate::columns::{self, Asked, Candidate, Coordinates};
use crate::format::Compression;
use crate::{Chunk, Dtype, Error, Result, TableSchema, storage};

/// Rows read ahead at most in search of the first id.
const AHEAD: usize = 1024;

pub(super) struct DelimitedPart {
    path: PathBuf,
    reader: CsvRecords,
    layout: Layout,
    id_style: IdStyle,
    on_null_id: OnNullId,
    schema: TableSchema,
    /// The first rows, read ahead to determine what the columns hold.
    ahead: VecDeque<StringRecord>,
    next_row: u64,
    chunk_rows: usize,
    note: Option<String>,
}

/// The roles of the columns.
struct Layout {
    names: Vec<String>,
    id: Option<usize>,
    /// The index of pandas, which must be the row number.
    index: Option<usize>,
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
    pub fn open(path: &Path, separator: u8, options: &ReadOptions) -> Result<Self> {
        let Opened { mut reader, names, first, mut notes } = open(path, separator, options)?;
        let layout = Layout::choose(names, &first, path, options)?;
        let mut values = Vec::new();
        layout.read_vector(&first, &mut values, path, None)?;
        let mut ahead = VecDeque::from([first]);
        let mut id_style = IdStyle::None;
        if let Some(id) = layout.id {
            while options.on_null_id == OnNullId::Skip
                && ahead.len() < AHEAD
                && ahead.iter().all(|record| record[id].is_empty())
                && let Some(record) = next_record(&mut reader, path)?
            {
                ahead.push_back(record);
            }
            let first = ahead.iter().map(|record| &record[id]).find(|id| !id.is_empty());
            id_style = IdStyle::of(first.unwrap_or_default(), options.text_ids);
        }
        let kept = layout.kept.iter().map(|&i| Field::new(&layout.names[i], DataType::Utf8, true));
        let kept = kept.collect();
        let dim = values.len();
        if options.id_column.is_none() || options.vector_column.is_none() {
            notes.push(layout.describe(dim));
        }
        if layout.index.is_some() {
            let what = "the first column is the row number, an index of pandas: left out";
            notes.push(what.into());
        }
        notes.extend(id_style.note().map(str::to_owned));
        Ok(Self {
            path: path.to_owned(),
            reader,
            layout,
            id_style,
            on_null_id: options.on_null_id,
            schema: TableSchema { dim, ids: id_style.kind(), dtype: Dtype::F32, kept },
            ahead,
            next_row: 0,
            chunk_rows: options.chunk_rows(dim),
            note: (!notes.is_empty()).then(|| notes.join("; ")),
        })
    }

    fn next_record(&mut self) -> Result<Option<StringRecord>> {
        match self.ahead.pop_front() {
            Some(record) => Ok(Some(record)),
            None => next_record(&mut self.reader, &self.path),
        }
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
        let mut ids = IdBuilder::new(self.id_style, self.on_null_id);
        let mut kept: Vec<Vec<String>> = vec![Vec::new(); self.layout.kept.len()];
        let mut n = 0;
        while n < self.chunk_rows {
            let Some(record) = self.next_record()? else { break };
            self.layout.read_vector(&record, &mut vectors, &self.path, Some(dim))?;
            self.layout.check_index(&record, first_row + n as u64, &self.path)?;
            if let Some(i) = self.layout.id {
                ids.push(&record[i]).map_err(|what| {
                    Error::content(&self.path, format!("line {}: {what}", line_of(&record)))
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

/// What to do about a first column without a name.
const UNNAMED_REMEDY: &str = "if it holds the ids, pass ⟨id-column⟩ 'Unnamed: 0', else name the coordinates with \
                              ⟨vector-column⟩, as in 'dim_*'";

impl Layout {
    fn choose(
        names: Vec<String>,
        first: &StringRecord,
        path: &Path,
        options: &ReadOptions,
    ) -> Result<Self> {
        let columns = Columns { names: names.iter().map(String::as_str).collect(), first, path };
        let id = match &options.id_column {
            Some(name) => Some(columns.find(name, "⟨id-column⟩")?),
            None => {
                let named: Vec<_> = columns.names.iter().copied().enumerate().collect();
                columns::default_id(&named, path)?
            }
        };
        let kept = options.keep_columns.iter().map(|name| columns.find(name, "⟨keep-columns⟩"));
        let kept = kept.collect::<Result<Vec<_>>>()?;
        let taken: Vec<usize> = kept.iter().copied().chain(id).collect();
        let mut index = None;
        let vectors = match &options.vector_column {
            Some(name) => match columns::asked(&columns.names, name, &taken, path)? {
                Some(Asked::One(column)) => VectorColumns::List(column),
                Some(Asked::Several(columns)) => VectorColumns::Wide(columns),
                None => return Err(columns.unknown(name, "⟨vector-column⟩")),
            },
            None => {
                index = columns.index(&taken)?;
                let is_free = |i: &usize| !taken.contains(i) && index != Some(*i);
                columns.vectors((0..names.len()).filter(is_free).collect(), id.is_some())?
            }
        };
        Ok(Self { names, id, index, vectors, kept })
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

    /// A column that is left out as an index of pandas must be one.
    fn check_index(&self, record: &StringRecord, row: u64, path: &Path) -> Result<()> {
        match self.index {
            Some(index) if record[index].trim().parse() != Ok(row) => {
                let what =
                    "the first column looks like the index of pandas but is not the row number";
                let line = line_of(record);
                Err(Error::content(path, format!("line {line}: {what} {row}; {UNNAMED_REMEDY}")))
            }
            _ => Ok(()),
        }
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
            let place = format!("line {}, column `{}`", line_of(record), self.names[column]);
            Err(Error::content(path, format!("{place} holds {}", not_a_number(text))))
        };
        match &self.vectors {
            VectorColumns::Wide(columns) => {
                for &column in columns {
                    match cells::number(&record[column]) {
                        Some(value) => out.push(value),
                        None => return refused(column, &record[column]),
                    }
                }
            }
            &VectorColumns::List(column) => {
                let before = out.len();
                for text in cells::items(&record[column]) {
                    match cells::number(text) {
                        Some(value) => out.push(value),
                        None => return refused(column, text),
                    }
                }
                let got = out.len() - before;
                if got == 0 || dim.is_some_and(|dim| dim != got) {
                    let want =
                        dim.map_or(String::new(), |dim| format!(" where earlier rows have {dim}"));
                    let what = "every vector must have the same length; repair the row";
                    let line = line_of(record);
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

/// What is wrong with a cell, and the way out.
fn not_a_number(text: &str) -> String {
    let shown = shortened(text.trim());
    if cells::has_decimal_comma(text) {
        return format!("`{shown}`, a number with a decimal comma; write it with a decimal point");
    }
    format!(
        "`{shown}` where a number is expected; choose the coordinates with ⟨vector-column⟩, as in \
         'dim_*', or remove the column"
    )
}

/// The columns of a file, with its first row.
struct Columns<'a> {
    names: Vec<&'a str>,
    first: &'a StringRecord,
    path: &'a Path,
}

impl Columns<'_> {
    fn refused(&self, what: impl Into<String>) -> Error {
        Error::content(self.path, what)
    }

    fn find(&self, name: &str, flag: &str) -> Result<usize> {
        columns::find(&self.names, name, flag, self.path)?.ok_or_else(|| self.unknown(name, flag))
    }

    fn unknown(&self, name: &str, flag: &str) -> Error {
        let names = self.names.join("`, `");
        self.refused(format!("{flag}: there is no column `{name}`; the columns are `{names}`"))
    }

    /// The index of pandas: a first column without a name that counts from 0.
    fn index(&self, taken: &[usize]) -> Result<Option<usize>> {
        if !columns::is_unnamed(self.names[0]) || taken.contains(&0) || self.names.len() == 1 {
            return Ok(None);
        }
        if self.first[0].trim() == "0" {
            return Ok(Some(0));
        }
        let what = "the first column has no name, like the index of pandas, but does not count the rows from 0";
        Err(self.refused(format!("{what}; {UNNAMED_REMEDY}")))
    }

    /// The vectors, among the columns that have no other role.
    fn vectors(&self, rest: Vec<usize>, has_id: bool) -> Result<VectorColumns> {
        if rest.is_empty() {
            return Err(self.refused("no column is left for the vectors"));
        }
        let is_number = |i: usize| cells::number(&self.first[i]).is_some();
        let candidates: Vec<Candidate<'_>> = rest
            .iter()
            .map(|&place| Candidate { place, name: self.names[place], is_number: is_number(place) })
            .collect();
        let found = columns::coordinates(&candidates);
        let family: &[usize] = match &found {
            Coordinates::Family(columns) => columns,
            _ => &[],
        };
        let is_list = |&i: &usize| cells::is_list(&self.first[i]) && !family.contains(&i);
        let lists: Vec<usize> = rest.iter().copied().filter(is_list).collect();
        match lists[..] {
            [only] if matches!(found, Coordinates::Numbers(_)) => {
                return Ok(VectorColumns::List(only));
            }
            [] => {}
            // Two columns of decimal commas look like two columns of lists.
            [first, _, ..] if lists.iter().all(|&i| cells::has_decimal_comma(&self.first[i])) => {
                return Err(self.refused_cell(first, ""));
            }
            _ => {
                let names: Vec<&str> =
                    lists.iter().chain(family.first()).map(|&i| self.names[i]).collect();
                let names = names.join("`, `");
                let what = format!("several columns could be the vectors: `{names}`");
                return Err(self.refused(format!("{what}; choose one with ⟨vector-column⟩")));
            }
        }
        let columns = match found {
            Coordinates::Family(columns) => columns,
            Coordinates::Numbers(_) => rest.clone(),
            Coordinates::Unclear(what) => return Err(self.refused(what)),
        };
        let is_wanted = |i: &usize| !has_id || columns.contains(i);
        let other = rest.iter().find(|&i| !is_number(*i) && is_wanted(i));
        if let Some(&other) = other {
            let remedy = format!("; if it holds the ids, pass ⟨id-column⟩ '{}'", self.names[other]);
            return Err(self.refused_cell(other, if has_id { "" } else { &remedy }));
        }
        if !has_id {
            self.refuse_hidden_ids(&columns)?;
        }
        Ok(VectorColumns::Wide(columns))
    }

    /// A cell of the first row that is not a number.
    fn refused_cell(&self, column: usize, remedy: &str) -> Error {
        let place = format!("line {}, column `{}`", line_of(self.first), self.names[column]);
        self.refused(format!("{place} holds {}{remedy}", not_a_number(&self.first[column])))
    }

    /// Under the header 0, 1, 2, ... a first column of integers beside floats may well be ids.
    fn refuse_hidden_ids(&self, columns: &[usize]) -> Result<()> {
        let is_float = |&&i: &&usize| self.first[i].contains(['.', 'e', 'E']);
        let [first, rest @ ..] = columns else { return Ok(()) };
        if !is_counted(&self.names)
            || rest.is_empty()
            || !cells::is_integer(self.first[*first].trim())
            || !rest.iter().all(|i| is_float(&i))
        {
            return Ok(());
        }
        let what = "column `0` holds integers and the others hold floats";
        let remedy = "if these are the ids, pass ⟨id-column⟩ 0, else ⟨vector-column⟩ '*'";
        Err(self.refused(format!("{what}; {remedy}")))
    }
}

/// Whether the names are 0, 1, 2, ...
fn is_counted(names: &[&str]) -> bool {
    names.len() > 1 && names.iter().enumerate().all(|(i, name)| *name == i.to_string())
}

struct Opened {
    reader: CsvRecords,
    names: Vec<String>,
    /// The first row.
    first: StringRecord,
    notes: Vec<String>,
}

fn open(path: &Path, expected: u8, options: &ReadOptions) -> Result<Opened> {
    let input = plain_text(path, options.encoding.as_deref())?;
    let (input, line) = with_first_line(path, input)?;
    let mut notes = Vec::new();
    let separator = separator(&line, expected);
    if separator != expected {
        let shown = char::from(separator).escape_default();
        notes.push(format!("columns are separated by `{shown}`"));
    }
    let mut reader = CsvRecords::new(input, separator, true);
    let Some(mut first) = next_record(&mut reader, path)? else {
        return Err(Error::no_rows(path));
    };
    let names: Vec<String> = if options.no_header {
        (0..first.len()).map(|i| i.to_string()).collect()
    } else {
        let header = first;
        first = match next_record(&mut reader, path)? {
            Some(first) => first,
            None => return Err(Error::no_rows(path)),
        };
        let names: Vec<&str> = header.iter().collect();
        let is_number = |name: &&str| cells::number(name).is_some();
        if is_counted(&names) {
            let last = names.len() - 1;
            notes.push(format!(
                "the first line, 0 to {last}, are column names as pandas writes them"
            ));
        } else if !names[0].is_empty() && names.iter().all(is_number) {
            let what = "the first line holds numbers, not column names; pass ⟨no-header⟩";
            return Err(Error::content(path, what));
        }
        names.into_iter().map(str::to_owned).collect()
    };
    Ok(Opened { reader, names, first, notes })
}

/// The expected separator if the line has it outside quotes, else the most frequent other one.
fn separator(line: &[u8], expected: u8) -> u8 {
    let mut counts = [(b',', 0), (b';', 0), (b'\t', 0), (b'|', 0)];
    let mut is_quoted = false;
    for &byte in line {
        is_quoted ^= byte == b'"';
        for (separator, count) in &mut counts {
            *count += usize::from(!is_quoted && byte == *separator);
        }
    }
    let most = counts.into_iter().rev().max_by_key(|(_, count)| *count).filter(|(_, n)| *n > 0);
    match counts.iter().any(|(separator, count)| *separator == expected && *count > 0) {
        true => expected,
        false => most.map_or(expected, |(separator, _)| separator),
    }
}

/// Reads the file as UTF-8.
pub(crate) fn plain_text(path: &Path, encoding: Option<&str>) -> Result<Text> {
    let input = decompressed(path)?;
    match encoding {
        None => Ok(input),
        Some(name) => Ok(Box::new(encoding::Transcode::new(input, encoding::by_name(name)?))),
    }
}

pub(crate) fn decompressed(path: &Path) -> Result<Text> {
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

fn next_record(reader: &mut CsvRecords, path: &Path) -> Result<Option<StringRecord>> {
    let mut record = StringRecord::new();
    Ok(reader.advance(&mut record, path)?.then_some(record))
}

/// Reads the ids of a delimited file: its id column, or its only column.
pub(super) fn read_ids(path: &Path, separator: u8, options: &ReadOptions) -> Result<Ids> {
    let Opened { mut reader, names, first, .. } = open(path, separator, options)?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let column = super::id_file_column(&names, options, path)?;
    let mut ids = Vec::new();
    let mut next = Some(first);
    while let Some(record) = next {
        let id = given(&record[column], options)
            .map_err(|what| Error::content(path, format!("line {}: {what}", line_of(&record))))?;
        ids.push(id);
        next = next_record(&mut reader, path)?;
    }
    Ok(cells::whole_file(ids, options.text_ids))
}

/// Reads one id per line.
pub(super) fn read_lines(path: &Path, options: &ReadOptions) -> Result<Ids> {
    let mut input =
        BufReader::with_capacity(1 << 18, plain_text(path, options.encoding.as_deref())?);
    let (mut line, mut ids) = (Vec::new(), Vec::new());
    for number in 1.. {
        line.clear();
        if read_line(&mut input, &mut line, path, number)? == 0 {
            break;
        }
        let refused = |what: &str| Error::content(path, format!("line {number}{what}"));
        let bytes = line.strip_suffix(b"\n").unwrap_or(&line);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let id = std::str::from_utf8(bytes).map_err(|_| {
            refused(" is not UTF-8; name its encoding with ⟨encoding⟩, for example latin-1")
        })?;
        ids.push(given(id, options).map_err(|what| refused(&format!(": {what}")))?);
    }
    Ok(cells::whole_file(ids, options.text_ids))
}

/// An id that may be missing only if such rows are skipped.
fn given(id: &str, options: &ReadOptions) -> std::result::Result<Option<String>, &'static str> {
    match id.is_empty() {
        true if options.on_null_id == OnNullId::Error => Err(columns::MISSING),
        is_missing => Ok((!is_missing).then(|| id.to_owned())),
    }
}
