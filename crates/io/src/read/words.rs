//! Words with their vectors as text: word2vec (`rows width`, then `word v1 .. vd` per line) and GloVe (the
//! same without the first line).
//!
//! The last d fields of a line are its vector and everything before them is the word, including spaces:
//! GloVe's largest vocabulary has words such as `. . .`.

use std::collections::VecDeque;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use veridical_data::shortened;

use super::cells::{IdBuilder, IdStyle};
use super::delimited::plain_text;
use super::lines::{Text, read_line};
use super::{OnNullId, PartReader, ReadOptions, bare_schema, refuse_columns};
use crate::{Chunk, Dtype, Error, Format, Result, TableSchema};

pub(super) struct WordsPart {
    lines: Lines,
    schema: TableSchema,
    id_style: IdStyle,
    on_null_id: OnNullId,
    /// The number of rows, if the file states it.
    promised: Option<u64>,
    next_row: u64,
    chunk_rows: usize,
    note: Option<String>,
}

impl WordsPart {
    /// GloVe files are checked for a header unless the user named the format.
    pub fn open(path: &Path, format: Format, options: &ReadOptions) -> Result<Self> {
        refuse_columns(options, path, format.name())?;
        let input =
            BufReader::with_capacity(1 << 18, plain_text(path, options.encoding.as_deref())?);
        let mut lines = Lines { path: path.to_owned(), input, ahead: VecDeque::new(), number: 0 };
        let header = match format {
            Format::Word2vec => Some(lines.header()?),
            _ if options.input_format.is_none() => lines.probable_header()?,
            _ => None,
        };
        let note = (format == Format::Glove && header.is_some())
            .then(|| "the first line is a header: read as word2vec text".to_owned());
        if header.is_some() {
            lines.next()?;
        }
        let Some(first) = lines.peek(0)? else { return Err(Error::no_rows(path)) };
        let dim = match header {
            Some((_, dim)) => dim,
            None => numbers_at_the_end(&first),
        };
        if dim == 0 {
            let what = format!("line {} has no numbers after its word", lines.number + 1);
            return Err(Error::content(path, what));
        }
        let row = Row::split(&first, dim).map_err(|what| lines.refused(1, &what))?;
        let word = std::str::from_utf8(row.word).unwrap_or_default();
        let id_style = IdStyle::of_word(word, options.text_ids);
        Ok(Self {
            schema: bare_schema(dim, id_style.kind(), Dtype::F32),
            id_style,
            on_null_id: options.on_null_id,
            lines,
            promised: header.map(|(rows, _)| rows),
            next_row: 0,
            chunk_rows: options.chunk_rows(dim),
            note,
        })
    }

    fn check_count(&self, more: bool) -> Result<()> {
        let seen = self.next_row;
        match self.promised {
            Some(promised) if more || seen != promised => {
                let seen = if more { "more".to_owned() } else { format!("{seen}") };
                let what = format!(
                    "the first line promises {promised} rows but the file has {seen}; it may be cut \
                     off: write it again, or remove the first line and read it with ⟨input-format⟩ \
                     glove"
                );
                Err(Error::content(&self.lines.path, what))
            }
            _ => Ok(()),
        }
    }
}

impl PartReader for WordsPart {
    fn schema(&self) -> &TableSchema {
        &self.schema
    }

    fn n_rows(&self) -> Option<u64> {
        self.promised
    }

    fn next_chunk(&mut self) -> Result<Option<Chunk>> {
        let (first_row, dim) = (self.next_row, self.schema.dim);
        let mut ids = IdBuilder::new(self.id_style, self.on_null_id);
        let mut vectors = Vec::new();
        while self.next_row - first_row < self.chunk_rows as u64 {
            if self.promised == Some(self.next_row) {
                let more = self.lines.peek(0)?.is_some();
                self.check_count(more)?;
                break;
            }
            let Some(line) = self.lines.next()? else {
                self.check_count(false)?;
                break;
            };
            let refused = |what: String| self.lines.refused(0, &what);
            let row = Row::split(&line, dim).map_err(refused)?;
            let word = row.word().map_err(refused)?;
            ids.push(word).map_err(|what| {
                Error::content(&self.lines.path, format!("line {}: {what}", self.lines.number))
            })?;
            row.push_values(dim, &mut vectors).map_err(refused)?;
            self.next_row += 1;
        }
        let n = (self.next_row - first_row) as usize;
        if n == 0 {
            return Ok(None);
        }
        Ok(Some(Chunk::bare(first_row, ids.finish(first_row, n), vectors.into())))
    }

    fn skip(&mut self, _rows: u64) -> Result<bool> {
        Ok(false)
    }

    fn note(&self) -> Option<String> {
        self.note.clone()
    }
}

/// The lines of a file, some of them read ahead; empty ones at the end are skipped.
struct Lines {
    path: PathBuf,
    input: BufReader<Text>,
    ahead: VecDeque<Vec<u8>>,
    /// The number of the line returned last, from 1.
    number: u64,
}

impl Lines {
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        self.peek(0)?;
        self.number += 1;
        Ok(self.ahead.pop_front())
    }

    /// A line that is still to come.
    fn peek(&mut self, ahead: usize) -> Result<Option<Vec<u8>>> {
        while self.ahead.len() <= ahead {
            let Some(line) = self.read()? else { return Ok(None) };
            self.ahead.push_back(line);
        }
        Ok(self.ahead.get(ahead).cloned())
    }

    fn read(&mut self) -> Result<Option<Vec<u8>>> {
        let mut blank = None;
        loop {
            let number = self.number + self.ahead.len() as u64 + 1 + u64::from(blank.is_some());
            let mut line = Vec::new();
            let n = read_line(&mut self.input, &mut line, &self.path, number)?;
            let end = line.trim_ascii_end().len();
            line.truncate(end);
            match blank {
                _ if n == 0 => return Ok(None),
                None if !line.is_empty() => return Ok(Some(line)),
                // Only the end may be blank: an empty row elsewhere is a mistake.
                Some(number) if !line.is_empty() => {
                    let what = format!("line {number} is empty; remove it");
                    return Err(Error::content(&self.path, what));
                }
                _ => blank = blank.or(Some(number)),
            }
        }
    }

    fn refused(&self, ahead: u64, what: &str) -> Error {
        Error::content(&self.path, format!("line {} {what}", self.number + ahead))
    }

    fn header(&mut self) -> Result<(u64, usize)> {
        let Some(first) = self.peek(0)? else { return Err(Error::no_rows(&self.path)) };
        parse_header(&first).ok_or_else(|| {
            let what = "the first line is not the header `rows width` of word2vec";
            let remedy = "without one it is GloVe: read it with ⟨input-format⟩ glove";
            Error::content(&self.path, format!("{what}; {remedy}"))
        })
    }

    /// Two integers are a header if the next line has a word and the stated number of fields.
    fn probable_header(&mut self) -> Result<Option<(u64, usize)>> {
        let Some(first) = self.peek(0)? else { return Ok(None) };
        let Some((rows, dim)) = parse_header(&first) else { return Ok(None) };
        let is_header = match self.peek(1)? {
            Some(second) => dim > 0 && fields(&second).count() > dim,
            None => rows == 0,
        };
        Ok(is_header.then_some((rows, dim)))
    }
}

/// Parses `rows width`.
pub(super) fn parse_header(line: &[u8]) -> Option<(u64, usize)> {
    let mut fields = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let header = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    fields.next().is_none().then_some(header)
}

const BLANKS: [u8; 2] = [b' ', b'\t'];

fn fields(line: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    line.split(|byte| BLANKS.contains(byte)).filter(|field| !field.is_empty())
}

fn number(field: &[u8]) -> Option<f32> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// The first field belongs to the word, whatever it is.
fn numbers_at_the_end(line: &[u8]) -> usize {
    let behind_first = fields(line).count().saturating_sub(1);
    fields(line).rev().take(behind_first).take_while(|field| number(field).is_some()).count()
}

/// The offset of the last `n` fields.
fn start_of_last(line: &[u8], n: usize) -> usize {
    let is_blank = |i: usize| BLANKS.contains(&line[i]);
    let is_start = |&i: &usize| !is_blank(i) && (i == 0 || is_blank(i - 1));
    (0..line.len()).rev().filter(is_start).nth(n - 1).unwrap_or(0)
}

/// A line, split after its word.
struct Row<'a> {
    word: &'a [u8],
    values: &'a [u8],
}

impl<'a> Row<'a> {
    fn split(line: &'a [u8], dim: usize) -> std::result::Result<Self, String> {
        let n = fields(line).count();
        if n <= dim {
            return Err(format!(
                "has {n} fields where a word and {dim} numbers are expected; repair or drop it"
            ));
        }
        let (word, values) = line.split_at(start_of_last(line, dim));
        let word = word.trim_ascii_end();
        let last_of_word = fields(word).next_back().unwrap_or_default();
        if n > dim + 1 && number(last_of_word).is_some_and(f32::is_finite) {
            return Err(format!("has more than {dim} numbers; repair or drop it"));
        }
        Ok(Self { word, values })
    }

    fn word(&self) -> std::result::Result<&'a str, String> {
        std::str::from_utf8(self.word).map_err(|_| {
            "has a word that is not UTF-8; name its encoding with ⟨encoding⟩, for example latin-1"
                .into()
        })
    }

    fn push_values(&self, dim: usize, out: &mut Vec<f32>) -> std::result::Result<(), String> {
        for field in fields(self.values).take(dim) {
            let value = number(field).ok_or_else(|| {
                let text = String::from_utf8_lossy(field);
                format!(
                    "holds `{}` where a number is expected; repair or drop it",
                    shortened(&text)
                )
            })?;
            out.push(value);
        }
        Ok(())
    }
}
