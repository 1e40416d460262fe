//! NumPy's npz: a zip archive of npy files. Vectors are the array `vectors` (or `--tensor`, or the only
//! matrix of floats), ids the array `ids` of integers or of text (`<U`, `S`).
//!
//! Arrays are streamed, stored or deflated, and their checksums are verified on the way. Arrays of Python
//! objects are pickles and never read.

use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use arrow_array::{Int64Array, StringArray};
use arrow_buffer::ScalarBuffer;
use veridical_data::Ids;

use super::npy::{Array, ArrayShape, Header, read_header};
use super::values::integer;
use super::{PartReader, ReadOptions, bare_schema, refuse_columns};
use crate::storage::{self, InputFile};
use crate::zip::{self, Entry, EntryReader};
use crate::{Chunk, Error, IdKind, Result, TableSchema};

const NPZ: &str = "npz";
/// Longer ids are rejected.
const MAX_ID: usize = 1 << 20;

pub(super) struct NpzPart {
    path: PathBuf,
    vectors: Vectors,
    ids: Option<IdReader>,
    shape: ArrayShape,
    schema: TableSchema,
    next_row: u64,
    chunk_rows: usize,
    note: Option<String>,
}

enum Vectors {
    /// Row-major values, streamed.
    Streamed(EntryReader),
    /// Column-major values with a checksum verified in advance.
    Placed(Array),
}

/// An array of the archive with a parsed header.
struct Found {
    entry: Entry,
    header: Header,
    data_start: u64,
    /// Positioned after the header.
    reader: EntryReader,
}

impl Found {
    fn name(&self) -> &str {
        array_name(&self.entry)
    }

    fn open(path: &Path, file: &InputFile, entry: &Entry) -> Result<Self> {
        let in_entry = |what: String| Error::malformed(path, NPZ, what);
        let mut reader = entry.open(file.again(path)?).map_err(in_entry)?;
        let named = |what: &str| in_entry(format!("`{}`: {what}", entry.name));
        let (header, data_start) = read_header(&mut reader).map_err(named)?;
        let header = Header::parse(&header).map_err(|what| named(&what))?;
        Ok(Self { entry: entry.clone(), header, data_start, reader })
    }
}

fn array_name(entry: &Entry) -> &str {
    entry.name.strip_suffix(".npy").unwrap_or(&entry.name)
}

impl NpzPart {
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self> {
        refuse_columns(options, path, NPZ)?;
        let mut file = storage::open(path)?;
        let entries = zip::directory(&mut file);
        let entries = entries.map_err(|what| Error::malformed(path, NPZ, what))?;
        let (vectors, choice) = choose(path, &file, &entries, options)?;
        let named = |e: Error| match e {
            Error::Content { path, what } => {
                Error::Content { path, what: format!("array `{}`: {what}", vectors.name()) }
            }
            other => other,
        };
        let (data_start, size) = (vectors.data_start, vectors.entry.size);
        let shape = vectors.header.matrix(path, NPZ, data_start, size).map_err(named)?;
        if data_start + shape.bytes != size {
            let what = format!("`{}` has bytes after its values", vectors.entry.name);
            return Err(Error::malformed(path, NPZ, what));
        }
        let ids = entries.iter().find(|entry| array_name(entry) == "ids");
        let ids = ids.filter(|ids| ids.name != vectors.entry.name);
        let open_ids =
            |ids: &Entry| IdReader::open(path, Found::open(path, &file, ids)?, shape.n_rows);
        let ids = match ids {
            Some(entry) => {
                let mut ids = open_ids(entry)?;
                // The kind of the ids is known before the first row is returned.
                if ids.may_exceed() && open_ids(entry)?.exceeds(path, shape.n_rows)? {
                    ids.kind = IdType::UnsignedText;
                }
                Some(ids)
            }
            None => None,
        };
        let mut notes: Vec<String> = choice.into_iter().chain(vectors.header.note()).collect();
        if ids.as_ref().is_some_and(|ids| matches!(ids.kind, IdType::UnsignedText)) {
            notes.push("ids above 9223372036854775807 make all of them text".into());
        }
        let id_kind = ids.as_ref().map_or(IdKind::RowNumber, |ids| ids.kind.id_kind());
        Ok(Self {
            path: path.to_owned(),
            vectors: open_vectors(path, file, vectors, shape)?,
            ids,
            shape,
            schema: bare_schema(shape.dim, id_kind, shape.stored.dtype()),
            next_row: 0,
            chunk_rows: options.chunk_rows(shape.dim),
            note: (!notes.is_empty()).then(|| notes.join("; ")),
        })
    }

    fn read_vectors(&mut self, first_row: u64, n: usize) -> Result<ScalarBuffer<f32>> {
        match &mut self.vectors {
            Vectors::Placed(array) => array.rows(first_row, n),
            Vectors::Streamed(reader) => {
                let bytes = n * self.shape.dim * self.shape.stored.size();
                let bytes = read_bytes(reader, bytes).map_err(|e| failed(&self.path, e))?;
                Ok(self.shape.stored.decode(&bytes))
            }
        }
    }
}

/// The requested array, else `vectors`, else the only matrix of floats.
fn choose(
    path: &Path,
    file: &InputFile,
    entries: &[Entry],
    options: &ReadOptions,
) -> Result<(Found, Option<String>)> {
    let default = options.tensor.as_deref().unwrap_or("vectors");
    if let Some(entry) = entries.iter().find(|entry| array_name(entry) == default) {
        return Ok((Found::open(path, file, entry)?, None));
    }
    if options.tensor.is_none() {
        let mut matrices = Vec::new();
        for entry in entries.iter().filter(|entry| entry.name.ends_with(".npy")) {
            let found = Found::open(path, file, entry)?;
            if found.header.shape.len() == 2 && found.header.has_floats() {
                matrices.push(found);
            }
        }
        if matrices.len() == 1
            && let Some(only) = matrices.pop()
        {
            let note = format!("vectors from array `{}`", only.name());
            return Ok((only, Some(note)));
        }
    }
    let names: Vec<&str> = entries.iter().map(array_name).collect();
    let what = format!("there is no array `{default}`; it has `{}`", names.join("`, `"));
    Err(Error::content(path, format!("{what}; choose one with ⟨tensor⟩")))
}

fn open_vectors(
    path: &Path,
    mut file: InputFile,
    found: Found,
    shape: ArrayShape,
) -> Result<Vectors> {
    if !shape.fortran_order || shape.dim == 1 {
        return Ok(Vectors::Streamed(found.reader));
    }
    if !found.entry.is_stored() {
        let what = "is compressed and in Fortran order, so that its rows cannot be streamed; save it \
                    with np.ascontiguousarray(array), or with np.savez";
        return Err(Error::content(path, format!("array `{}` {what}", found.name())));
    }
    let mut rest = found.reader;
    io::copy(&mut rest, &mut io::sink()).map_err(|e| failed(path, e))?;
    let start = found.entry.data_start(&mut file);
    let start = start.map_err(|what| Error::malformed(path, NPZ, what))?;
    Ok(Vectors::Placed(Array::new(path, file, start + found.data_start, shape)))
}

/// `n` bytes, in memory that grows as they arrive.
fn read_bytes(reader: &mut EntryReader, n: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(n.min(16 << 20));
    reader.take(n as u64).read_to_end(&mut bytes)?;
    if bytes.len() < n { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
}

fn failed(path: &Path, e: io::Error) -> Error {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    match e.kind() {
        InvalidData | InvalidInput | UnexpectedEof => Error::malformed(path, NPZ, e),
        _ => Error::read(path, "read", e),
    }
}

impl PartReader for NpzPart {
    fn schema(&self) -> &TableSchema {
        &self.schema
    }

    fn n_rows(&self) -> Option<u64> {
        Some(self.shape.n_rows)
    }

    fn next_chunk(&mut self) -> Result<Option<Chunk>> {
        let n = (self.shape.n_rows - self.next_row).min(self.chunk_rows as u64) as usize;
        if n == 0 {
            return Ok(None);
        }
        let first_row = self.next_row;
        self.next_row += n as u64;
        let vectors = self.read_vectors(first_row, n)?;
        let ids = match &mut self.ids {
            Some(ids) => ids.next(&self.path, first_row, n)?,
            None => Ids::numbered(first_row, n),
        };
        Ok(Some(Chunk::bare(first_row, ids, vectors)))
    }

    /// Skipped bytes count for the checksum.
    fn skip(&mut self, rows: u64) -> Result<bool> {
        let row_bytes = (self.shape.dim * self.shape.stored.size()) as u64;
        if let Vectors::Streamed(reader) = &mut self.vectors {
            io::copy(&mut reader.take(rows * row_bytes), &mut io::sink())
                .map_err(|e| failed(&self.path, e))?;
        }
        if let Some(ids) = &mut self.ids {
            let bytes = rows * ids.width as u64;
            io::copy(&mut (&mut ids.reader).take(bytes), &mut io::sink())
                .map_err(|e| failed(&self.path, e))?;
        }
        self.next_row += rows;
        Ok(true)
    }

    fn note(&self) -> Option<String> {
        self.note.clone()
    }
}

/// The type of the ids of an archive.
#[derive(Clone, Copy)]
enum IdType {
    Signed,
    Unsigned,
    /// Some do not fit 64-bit integers.
    UnsignedText,
    /// UCS-4, padded with zeros.
    Unicode,
    /// UTF-8, padded with zeros.
    Bytes,
}

impl IdType {
    const fn id_kind(self) -> IdKind {
        match self {
            Self::Signed | Self::Unsigned => IdKind::Int,
            Self::UnsignedText | Self::Unicode | Self::Bytes => IdKind::Text,
        }
    }

    /// Parses NumPy's type name; also returns the size of one id in bytes.
    fn parse(descr: &str) -> Option<(Self, usize)> {
        let order = descr.chars().next()?;
        let (kind, size) = descr.get(1..)?.split_at_checked(1)?;
        let size: usize = size.parse().ok()?;
        match (order, kind, size) {
            ('<', "i", 2 | 4 | 8) | ('|', "i", 1) => Some((Self::Signed, size)),
            ('<', "u", 2 | 4 | 8) | ('|', "u", 1) => Some((Self::Unsigned, size)),
            ('<', "U", 1..) => Some((Self::Unicode, size.checked_mul(4)?)),
            ('|', "S", 1..) => Some((Self::Bytes, size)),
            _ => None,
        }
    }
}

/// A stream of the ids.
struct IdReader {
    reader: EntryReader,
    kind: IdType,
    /// Bytes of one id.
    width: usize,
}

impl IdReader {
    fn open(path: &Path, found: Found, n_rows: u64) -> Result<Self> {
        let descr = &found.header.descr;
        let refused = |what: String| Err(Error::content(path, format!("array `ids` {what}")));
        if descr == "|O" {
            let what = "holds Python objects, which are stored as pickle and never read";
            return refused(format!("{what}; save it with np.array(ids, dtype=str)"));
        }
        let Some((kind, width)) = IdType::parse(descr) else {
            return refused(format!(
                "holds `{descr}` where little-endian integers or text are expected"
            ));
        };
        if found.header.shape != [n_rows] {
            let shape = &found.header.shape;
            return refused(format!(
                "has shape {shape:?} where one id per row, {n_rows}, is expected"
            ));
        }
        if width > MAX_ID {
            return refused(format!("holds `{descr}`, ids of more than 1 MiB"));
        }
        if n_rows.checked_mul(width as u64) != found.entry.size.checked_sub(found.data_start) {
            let what = format!("`{}` does not have {n_rows} ids of `{descr}`", found.entry.name);
            return Err(Error::malformed(path, NPZ, what));
        }
        Ok(Self { reader: found.reader, kind, width })
    }

    fn may_exceed(&self) -> bool {
        matches!(self.kind, IdType::Unsigned) && self.width == 8
    }

    /// Whether an unsigned id does not fit a 64-bit integer; reads all of them.
    fn exceeds(self, path: &Path, n_rows: u64) -> Result<bool> {
        let mut reader = BufReader::with_capacity(1 << 16, self.reader);
        let mut id = [0; 8];
        for _ in 0..n_rows {
            reader.read_exact(&mut id).map_err(|e| failed(path, e))?;
            if u64::from_le_bytes(id) > i64::MAX as u64 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn next(&mut self, path: &Path, first_row: u64, n: usize) -> Result<Ids> {
        let mut id = vec![0; self.width];
        let (mut numbers, mut texts) = (Vec::new(), Vec::new());
        for row in first_row..first_row + n as u64 {
            self.reader.read_exact(&mut id).map_err(|e| failed(path, e))?;
            let refused = |what: &str| {
                Error::content(path, format!("row {row}: the id {what}; save it as text, <U"))
            };
            match self.kind {
                IdType::Signed => numbers.push(integer(&id, id[self.width - 1] >= 0x80) as i64),
                IdType::Unsigned => {
                    let number = i64::try_from(integer(&id, false));
                    numbers.push(number.map_err(|_| refused("does not fit a 64-bit integer"))?);
                }
                IdType::UnsignedText => texts.push(integer(&id, false).to_string()),
                IdType::Unicode => {
                    let chars = id.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b));
                    let text: Option<String> = chars.map(char::from_u32).collect();
                    let text = text.ok_or_else(|| refused("is not Unicode"))?;
                    texts.push(text.trim_end_matches('\0').to_owned());
                }
                IdType::Bytes => {
                    let text = std::str::from_utf8(&id).map_err(|_| refused("is not UTF-8"))?;
                    texts.push(text.trim_end_matches('\0').to_owned());
                }
            }
        }
        Ok(match self.kind.id_kind() {
            IdKind::Text => Ids::Text(StringArray::from(texts)),
            _ => Ids::Int(Int64Array::from(numbers)),
        })
    }
}

/// A stream of an array of numbers of an archive.
pub(crate) struct Numbers {
    path: PathBuf,
    name: String,
    reader: BufReader<EntryReader>,
    kind: Number,
    width: usize,
    /// The number of values.
    pub len: u64,
}

#[derive(Clone, Copy)]
enum Number {
    Signed,
    Unsigned,
    Float,
    Bool,
}

impl Number {
    /// Parses NumPy's type name; also returns the size of one value in bytes.
    fn parse(descr: &str) -> Option<(Self, usize)> {
        Some(match descr {
            "<f4" => (Self::Float, 4),
            "<f8" => (Self::Float, 8),
            "|b1" => (Self::Bool, 1),
            _ => match IdType::parse(descr)? {
                (IdType::Signed, width) => (Self::Signed, width),
                (IdType::Unsigned, width) => (Self::Unsigned, width),
                _ => return None,
            },
        })
    }
}

impl Numbers {
    /// The current number, as an integer and as a float; `None` if it is not a 64-bit integer.
    fn next(&mut self) -> Result<(Option<i64>, f64)> {
        let mut bytes = [0; 8];
        let read = self.reader.read_exact(&mut bytes[..self.width]);
        read.map_err(|e| failed(&self.path, e))?;
        let number = &bytes[..self.width];
        Ok(match self.kind {
            Number::Signed => {
                let value = integer(number, number[self.width - 1] >= 0x80) as i64;
                (Some(value), value as f64)
            }
            Number::Unsigned => {
                let value = integer(number, false);
                (i64::try_from(value).ok(), value as f64)
            }
            Number::Bool => (Some(i64::from(number[0] != 0)), f64::from(u8::from(number[0] != 0))),
            Number::Float if self.width == 4 => {
                (None, f64::from(f32::from_bits(integer(number, false) as u32)))
            }
            Number::Float => (None, f64::from_bits(integer(number, false))),
        })
    }

    /// The next number.
    pub fn float(&mut self) -> Result<f64> {
        Ok(self.next()?.1)
    }

    /// The next number, which must be an index.
    pub fn index(&mut self) -> Result<u64> {
        let (value, shown) = self.next()?;
        value.and_then(|value| u64::try_from(value).ok()).ok_or_else(|| {
            let what = format!("`{}` holds {shown} where an index is expected", self.name);
            Error::malformed(&self.path, NPZ, what)
        })
    }
}

/// The arrays of a sparse matrix.
pub(crate) struct Sparse {
    path: PathBuf,
    file: InputFile,
    entries: Vec<Entry>,
}

impl Sparse {
    pub fn open(path: &Path) -> Result<Self> {
        let mut file = storage::open(path)?;
        let entries = zip::directory(&mut file);
        let entries = entries.map_err(|what| Error::malformed(path, NPZ, what))?;
        Ok(Self { path: path.to_owned(), file, entries })
    }

    fn find(&self, name: &str) -> Result<Option<Found>> {
        let entry = self.entries.iter().find(|entry| array_name(entry) == name);
        entry.map(|entry| Found::open(&self.path, &self.file, entry)).transpose()
    }

    /// The array `format`: `csr`, `csc`, `coo` and others.
    pub fn format(&self) -> Result<Option<String>> {
        let Some(mut found) = self.find("format")? else { return Ok(None) };
        let mut bytes = Vec::new();
        (&mut found.reader).take(64).read_to_end(&mut bytes).map_err(|e| failed(&self.path, e))?;
        let letters = bytes.iter().filter(|byte| byte.is_ascii_alphanumeric());
        Ok(Some(letters.map(|&byte| char::from(byte)).collect()))
    }

    /// An array of numbers, which must exist.
    pub fn numbers(&self, name: &str) -> Result<Numbers> {
        let found = self.find(name)?.ok_or_else(|| {
            let names: Vec<&str> = self.entries.iter().map(array_name).collect();
            let there = names.join("`, `");
            let what = format!("there is no array `{name}`; it has `{there}`");
            let remedy = "save the matrix with scipy.sparse.save_npz(path, matrix.tocsr())";
            Error::content(&self.path, format!("{what}; {remedy}"))
        })?;
        let descr = &found.header.descr;
        let (Some((kind, width)), [len]) = (Number::parse(descr), &found.header.shape[..]) else {
            let shape = &found.header.shape;
            let what = format!("array `{name}` holds `{descr}` of shape {shape:?}");
            let want = "where a list of little-endian numbers is expected";
            return Err(Error::content(&self.path, format!("{what} {want}")));
        };
        let len = *len;
        if len.checked_mul(width as u64) != found.entry.size.checked_sub(found.data_start) {
            let what = format!("`{name}` does not have {len} numbers of `{descr}`");
            return Err(Error::malformed(&self.path, NPZ, what));
        }
        let reader = BufReader::with_capacity(1 << 16, found.reader);
        Ok(Numbers { path: self.path.clone(), name: name.to_owned(), reader, kind, width, len })
    }
}
