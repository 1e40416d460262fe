//! word2vec's binary form: a line `rows width`, then for every row the word, a space and the values as
//! little-endian f32. The original tool writes a line break after every vector, gensim does not: line breaks
//! before a word are skipped.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use encoding_rs::Encoding;
use parquet::file::reader::Length;

use super::cells::{IdBuilder, IdStyle};
use super::delimited::decompressed;
use super::{
    OnNullId, PartReader, ReadOptions, bare_schema, encoding, refuse_columns, values, words,
};
use crate::format::Compression;
use crate::{Chunk, Dtype, Error, IdKind, Result, TableSchema, storage};

const WORD2VEC: &str = "word2vec";
const MAX_HEADER: u64 = 256;
/// More bytes without a space are not a word.
const MAX_WORD: u64 = 1 << 20;
const FASTTEXT: [u8; 4] = 793_712_314u32.to_le_bytes();

pub(super) struct Word2vecPart {
    path: PathBuf,
    input: BufReader<Box<dyn Read + Send>>,
    encoding: Option<&'static Encoding>,
    /// The word of the first row, read ahead to determine the kind of ids.
    first: Option<String>,
    schema: TableSchema,
    id_style: IdStyle,
    on_null_id: OnNullId,
    n_rows: u64,
    next_row: u64,
    chunk_rows: usize,
}

impl Word2vecPart {
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self> {
        refuse_columns(options, path, WORD2VEC)?;
        let mut input = BufReader::with_capacity(1 << 18, decompressed(path)?);
        let (n_rows, dim) = read_header(path, &mut input)?;
        if n_rows == 0 {
            return Err(Error::no_rows(path));
        }
        if dim == 0 {
            return Err(Error::content(path, format!("the header is `{n_rows} 0`: no values")));
        }
        check_size(path, n_rows, dim)?;
        let mut part = Self {
            path: path.to_owned(),
            input,
            encoding: options.encoding.as_deref().map(encoding::by_name).transpose()?,
            first: None,
            schema: bare_schema(dim, IdKind::Text, Dtype::F32),
            id_style: IdStyle::Text,
            on_null_id: options.on_null_id,
            n_rows,
            next_row: 0,
            chunk_rows: options.chunk_rows(dim),
        };
        let first = part.next_word()?;
        part.id_style = IdStyle::of_word(&first, options.text_ids);
        part.schema.ids = part.id_style.kind();
        part.first = Some(first);
        Ok(part)
    }

    fn malformed(&self, what: impl ToString) -> Error {
        Error::malformed(&self.path, WORD2VEC, what)
    }

    fn next_word(&mut self) -> Result<String> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        let mut bytes = Vec::new();
        let read = (&mut self.input).take(MAX_WORD).read_until(b' ', &mut bytes);
        read.map_err(|e| self.malformed(e))?;
        let row = self.next_row;
        if bytes.pop() != Some(b' ') {
            return Err(self.malformed(match bytes.len() as u64 + 1 {
                MAX_WORD => format!("row {row} has no space after its word"),
                _ => format!("it promises {} rows but ends in row {row}", self.n_rows),
            }));
        }
        let breaks = bytes.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
        let bytes = &bytes[breaks..];
        let word = match self.encoding {
            None => std::str::from_utf8(bytes).ok().map(str::to_owned),
            Some(encoding) => {
                let text = encoding.decode_without_bom_handling_and_without_replacement(bytes);
                text.map(|text| text.into_owned())
            }
        };
        word.ok_or_else(|| {
            let name = self.encoding.map_or("UTF-8", Encoding::name);
            let remedy = "name its encoding with ⟨encoding⟩, for example latin-1";
            Error::content(&self.path, format!("row {row}: the word is not {name}; {remedy}"))
        })
    }

    fn push_values(&mut self, out: &mut Vec<f32>) -> Result<()> {
        let n = self.schema.dim * size_of::<f32>();
        let mut bytes = Vec::with_capacity(n.min(1 << 20));
        let read = (&mut self.input).take(n as u64).read_to_end(&mut bytes);
        read.map_err(|e| self.malformed(e))?;
        if bytes.len() < n {
            let (rows, row) = (self.n_rows, self.next_row);
            return Err(self.malformed(format!("it promises {rows} rows but ends in row {row}")));
        }
        out.extend_from_slice(&values::decode(&bytes, Dtype::F32));
        Ok(())
    }

    fn check_end(&mut self) -> Result<()> {
        let mut rest = Vec::new();
        let read = (&mut self.input).take(3).read_to_end(&mut rest);
        read.map_err(|e| self.malformed(e))?;
        if rest.iter().any(|byte| !byte.is_ascii_whitespace()) {
            return Err(self.malformed(format!("there is data after its {} rows", self.n_rows)));
        }
        Ok(())
    }
}

fn read_header(path: &Path, input: &mut impl BufRead) -> Result<(u64, usize)> {
    let start = input.fill_buf().map_err(|e| Error::malformed(path, WORD2VEC, e))?;
    if start.starts_with(&FASTTEXT) {
        let what = "this is a fastText model, not a table of vectors; use the .vec file beside it";
        return Err(Error::content(path, what));
    }
    if start.starts_with(b"PK") {
        let what = "this looks like a PyTorch file, which is pickle and never read; save it as \
                    safetensors";
        return Err(Error::content(path, what));
    }
    let mut line = Vec::new();
    let read = input.take(MAX_HEADER).read_until(b'\n', &mut line);
    read.map_err(|e: io::Error| Error::malformed(path, WORD2VEC, e))?;
    let header = line.strip_suffix(b"\n").and_then(words::parse_header);
    header.ok_or_else(|| {
        Error::malformed(path, WORD2VEC, "it does not start with a line `rows width`")
    })
}

/// A row has at least a word of one byte, a space and its values.
fn check_size(path: &Path, n_rows: u64, dim: usize) -> Result<()> {
    if Compression::of_name(&path.to_string_lossy().to_ascii_lowercase()).is_some() {
        return Ok(()); // rows are counted as they are read
    }
    let len = storage::open(path)?.len();
    let row = (dim as u64).checked_mul(size_of::<f32>() as u64).and_then(|n| n.checked_add(2));
    let promised = row.and_then(|row| row.checked_mul(n_rows));
    if promised.is_some_and(|promised| promised <= len) {
        return Ok(());
    }
    let what = format!("the header promises {n_rows} x {dim} values but the file has {len} bytes");
    Err(Error::malformed(path, WORD2VEC, what))
}

impl PartReader for Word2vecPart {
    fn schema(&self) -> &TableSchema {
        &self.schema
    }

    fn n_rows(&self) -> Option<u64> {
        Some(self.n_rows)
    }

    fn next_chunk(&mut self) -> Result<Option<Chunk>> {
        let first_row = self.next_row;
        let n = (self.n_rows - first_row).min(self.chunk_rows as u64) as usize;
        if n == 0 {
            return Ok(None);
        }
        let mut ids = IdBuilder::new(self.id_style, self.on_null_id);
        let mut vectors = Vec::new();
        for _ in 0..n {
            let word = self.next_word()?;
            ids.push(&word).map_err(|what| {
                Error::content(&self.path, format!("row {}: {what}", self.next_row))
            })?;
            self.push_values(&mut vectors)?;
            self.next_row += 1;
        }
        if self.next_row == self.n_rows {
            self.check_end()?;
        }
        Ok(Some(Chunk::bare(first_row, ids.finish(first_row, n), vectors.into())))
    }

    fn skip(&mut self, _rows: u64) -> Result<bool> {
        Ok(false)
    }

    fn note(&self) -> Option<String> {
        None
    }
}
