//! NumPy's npy format, versions 1 to 3: a 2-d array of floats or integers, in C or Fortran order and either byte order.

use std::fmt;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use arrow_buffer::ScalarBuffer;
use parquet::file::reader::Length;
use veridical_data::Ids;

use super::values::{Stored, StoredKind};
use super::{PartReader, ReadOptions, bare_schema, refuse_columns};
use crate::storage::{self, InputFile};
use crate::write::Number;
use crate::{Chunk, Dtype, Error, IdKind, Result, TableSchema};

/// NumPy writes headers of a few hundred bytes; longer ones are rejected.
const MAX_HEADER: usize = 1 << 20;

pub(super) struct NpyPart {
    array: Array,
    schema: TableSchema,
    next_row: u64,
    chunk_rows: usize,
    note: Option<String>,
}

/// A matrix in a file with random access to rows.
pub(super) struct Array {
    path: PathBuf,
    file: BufReader<InputFile>,
    data_start: u64,
    shape: ArrayShape,
}

/// The parsed header of a matrix.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrayShape {
    pub n_rows: u64,
    pub dim: usize,
    pub stored: Stored,
    pub fortran_order: bool,
    /// Total bytes of all values.
    pub bytes: u64,
}

impl NpyPart {
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self> {
        refuse_columns(options, path, "npy")?;
        let file = storage::open(path)?;
        let len = file.len();
        let mut file = BufReader::with_capacity(1 << 20, file);
        let malformed = |what: &str| Error::malformed(path, "npy", what);
        let (header, data_start) = read_header(&mut file).map_err(malformed)?;
        let header = Header::parse(&header).map_err(|what| Error::malformed(path, "npy", what))?;
        let shape = header.matrix(path, "npy", data_start, len)?;
        Ok(Self {
            array: Array::new(path, file.into_inner(), data_start, shape),
            schema: bare_schema(shape.dim, IdKind::RowNumber, shape.stored.dtype()),
            next_row: 0,
            chunk_rows: options.chunk_rows(shape.dim),
            note: header.note(),
        })
    }
}

impl Array {
    pub fn new(path: &Path, file: InputFile, data_start: u64, shape: ArrayShape) -> Self {
        let file = BufReader::with_capacity(1 << 20, file);
        Self { path: path.to_owned(), file, data_start, shape }
    }

    /// `n` rows from `first` on.
    pub fn rows(&mut self, first: u64, n: usize) -> Result<ScalarBuffer<f32>> {
        let ArrayShape { n_rows, dim, stored, fortran_order, .. } = self.shape;
        if !fortran_order {
            return Ok(stored.decode(&self.read_at(first * dim as u64, n * dim)?));
        }
        let mut rows = vec![0.0; n * dim];
        for column in 0..dim {
            let bytes = self.read_at(column as u64 * n_rows + first, n)?;
            let values = stored.decode(&bytes);
            rows[column..].iter_mut().step_by(dim).zip(&values).for_each(|(x, v)| *x = *v);
        }
        Ok(rows.into())
    }

    fn read_at(&mut self, element: u64, n: usize) -> Result<Vec<u8>> {
        let size = self.shape.stored.size();
        let mut bytes = vec![0; n * size];
        self.file
            .seek(SeekFrom::Start(self.data_start + element * size as u64))
            .and_then(|_| self.file.read_exact(&mut bytes))
            .map_err(|e| Error::read(&self.path, "read", e))?;
        Ok(bytes)
    }
}

/// The rows of a matrix of floats, in any order.
pub struct NpyRows(Array);

impl fmt::Debug for NpyRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NpyRows").field(&self.0.shape).finish()
    }
}

impl NpyRows {
    /// Opens a matrix.
    ///
    /// # Errors
    /// [`Error::Read`] if there is none, or it is damaged.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self(NpyPart::open(path, &ReadOptions::default())?.array))
    }

    /// Returns the numbers of rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.0.shape.n_rows as usize, self.0.shape.dim)
    }

    /// Reads `n` rows from `first` on.
    ///
    /// # Errors
    /// [`Error::Read`] if reading fails.
    pub fn rows(&mut self, first: usize, n: usize) -> Result<Vec<f32>> {
        Ok(self.0.rows(first as u64, n)?.to_vec())
    }
}

/// Reads an array that an [`ArrayWriter`](crate::ArrayWriter) wrote: the values of one row, 1 for numbers, and all values.
///
/// # Errors
/// [`Error::Read`] if it is not of this type, or damaged.
pub fn read_array<N: Number>(path: &Path) -> Result<(usize, Vec<N>)> {
    let mut file = storage::open(path)?;
    let malformed = |what: &str| Error::malformed(path, "npy", what);
    let (header, _) = read_header(&mut file).map_err(malformed)?;
    let header = Header::parse(&header).map_err(|what| Error::malformed(path, "npy", what))?;
    if header.descr != N::DESCR || header.fortran_order {
        let what = format!("the array holds `{}` instead of `{}`", header.descr, N::DESCR);
        return Err(Error::malformed(path, "npy", what));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|e| Error::read(path, "read", e))?;
    let count = header.shape.iter().try_fold(1u64, |n, size| n.checked_mul(*size));
    if count.and_then(|n| n.checked_mul(size_of::<N>() as u64)) != Some(bytes.len() as u64) {
        return Err(malformed("the header promises another number of values"));
    }
    let width = header.shape.get(1).map_or(1, |width| *width as usize);
    Ok((width, N::read(&bytes)))
}

impl PartReader for NpyPart {
    fn schema(&self) -> &TableSchema {
        &self.schema
    }

    fn n_rows(&self) -> Option<u64> {
        Some(self.array.shape.n_rows)
    }

    fn next_chunk(&mut self) -> Result<Option<Chunk>> {
        let left = self.array.shape.n_rows - self.next_row;
        let n = left.min(self.chunk_rows as u64) as usize;
        if n == 0 {
            return Ok(None);
        }
        let first_row = self.next_row;
        self.next_row += n as u64;
        let vectors = self.array.rows(first_row, n)?;
        Ok(Some(Chunk::bare(first_row, Ids::numbered(first_row, n), vectors)))
    }

    fn skip(&mut self, rows: u64) -> Result<bool> {
        self.next_row += rows;
        Ok(true)
    }

    fn note(&self) -> Option<String> {
        self.note.clone()
    }
}

/// The text of the header and the offset of the data.
pub(super) fn read_header(
    file: &mut impl Read,
) -> std::result::Result<(String, u64), &'static str> {
    let cut = |_| "the header is cut off";
    let mut start = [0; 8];
    file.read_exact(&mut start).map_err(cut)?;
    if &start[..6] != b"\x93NUMPY" {
        return Err("it does not start like an npy file");
    }
    let (len, prefix) = if start[6] == 1 {
        let mut len = [0; 2];
        file.read_exact(&mut len).map_err(cut)?;
        (usize::from(u16::from_le_bytes(len)), 10)
    } else {
        let mut len = [0; 4];
        file.read_exact(&mut len).map_err(cut)?;
        (u32::from_le_bytes(len) as usize, 12)
    };
    if len > MAX_HEADER {
        return Err("the header is longer than 1 MiB");
    }
    let mut header = vec![0; len];
    file.read_exact(&mut header).map_err(cut)?;
    let header = String::from_utf8(header).map_err(|_| "the header is not text")?;
    Ok((header, (prefix + len) as u64))
}

/// The Python dictionary in the header.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Header {
    pub descr: String,
    fortran_order: bool,
    pub shape: Vec<u64>,
}

impl Header {
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let missing = |key: &str| format!("the header has no `{key}`: {}", text.trim());
        let after = |key: &str| {
            let quoted = [format!("'{key}'"), format!("\"{key}\"")];
            let rest =
                quoted.iter().find_map(|k| text.split_once(k.as_str())).map(|(_, rest)| rest);
            rest.and_then(|rest| rest.trim_start().strip_prefix(':')).map(str::trim_start)
        };
        let descr = after("descr").ok_or_else(|| missing("descr"))?;
        let quote = descr.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let descr = quote
            .and_then(|q| descr[1..].split_once(q))
            .map(|(descr, _)| descr.to_owned())
            .ok_or("the array is a record array; store the vectors as a plain 2-d array")?;
        let fortran_order =
            after("fortran_order").ok_or_else(|| missing("fortran_order"))?.starts_with("True");
        let shape = after("shape").and_then(|rest| rest.strip_prefix('(')?.split_once(')'));
        let shape = shape.ok_or_else(|| missing("shape"))?.0;
        let sizes = shape.split(',').map(str::trim).filter(|size| !size.is_empty());
        let shape = sizes.map(|size| size.parse().map_err(|_| format!("bad shape ({shape})")));
        Ok(Self { descr, fortran_order, shape: shape.collect::<std::result::Result<_, _>>()? })
    }

    /// How the values are stored.
    pub fn stored(&self) -> std::result::Result<Stored, String> {
        let (order, kind) = self.descr.split_at_checked(1).unwrap_or_default();
        let kind = match (order, kind) {
            // NumPy's own raw two-byte type is `|V2`.
            _ if self.descr == BFLOAT16 => StoredKind::Float(Dtype::Bf16),
            ("<" | "=" | ">", "f2") => StoredKind::Float(Dtype::F16),
            ("<" | "=" | ">", "f4") => StoredKind::Float(Dtype::F32),
            ("<" | "=" | ">", "f8") => StoredKind::Float(Dtype::F64),
            (_, "i1") => StoredKind::Signed(1),
            (_, "u1") => StoredKind::Unsigned(1),
            ("<" | "=" | ">", "i2") => StoredKind::Signed(2),
            ("<" | "=" | ">", "i4") => StoredKind::Signed(4),
            ("<" | "=" | ">", "i8") => StoredKind::Signed(8),
            ("<" | "=" | ">", "u2") => StoredKind::Unsigned(2),
            ("<" | "=" | ">", "u4") => StoredKind::Unsigned(4),
            ("<" | "=" | ">", "u8") => StoredKind::Unsigned(8),
            ("|", "O") => {
                return Err(
                    "the array holds Python objects, which are stored as pickle and never \
                            read; save it with array.astype('<f4')"
                        .into(),
                );
            }
            ("|", "V2") => {
                return Err(
                    "the array holds `|V2`, two raw bytes that may be bfloat16 or anything; \
                            save it with array.astype('<f4'), or as safetensors"
                        .into(),
                );
            }
            _ => {
                return Err(format!(
                    "the array holds `{}` where floats or integers are expected; \
                     save it with array.astype('<f4')",
                    self.descr
                ));
            }
        };
        Ok(Stored { kind, big_endian: order == ">" })
    }

    /// Whether the values are floats of some kind.
    pub fn has_floats(&self) -> bool {
        self.stored().is_ok_and(|stored| matches!(stored.kind, StoredKind::Float(_)))
    }

    pub fn note(&self) -> Option<String> {
        if self.descr == BFLOAT16 {
            return Some("values `<V2` are read as bfloat16".into());
        }
        let is_int = self.stored().is_ok() && !self.has_floats();
        is_int.then(|| format!("integers `{}` are read as floats, as they are", self.descr))
    }

    /// The matrix in `len` bytes, of which the first `data_start` are the header.
    pub fn matrix(
        &self,
        path: &Path,
        format: &'static str,
        data_start: u64,
        len: u64,
    ) -> Result<ArrayShape> {
        let stored = self.stored().map_err(|what| Error::content(path, what))?;
        let malformed = |what: &str| Error::malformed(path, format, what);
        let [n_rows, dim] = self.shape[..] else {
            let what = format!(
                "the array has shape {:?} where rows of vectors are expected; reshape it to 2-d",
                self.shape
            );
            return Err(Error::content(path, what));
        };
        if n_rows == 0 {
            return Err(Error::no_rows(path));
        }
        if dim == 0 {
            return Err(Error::content(
                path,
                format!("the array is empty: its shape is ({n_rows}, {dim})"),
            ));
        }
        let bytes = n_rows.checked_mul(dim).and_then(|n| n.checked_mul(stored.size() as u64));
        let promised = bytes.and_then(|n| n.checked_add(data_start));
        let (Some(bytes), true) = (bytes, promised.is_some_and(|n| n <= len)) else {
            let promised =
                promised.map_or("more bytes than there can be".into(), |n| format!("{n} bytes"));
            return Err(malformed(&format!(
                "the header promises {n_rows} x {dim} values, {promised}, but the file has {len}"
            )));
        };
        let dim = usize::try_from(dim).map_err(|_| malformed("rows are too wide"))?;
        Ok(ArrayShape { n_rows, dim, stored, fortran_order: self.fortran_order, bytes })
    }
}

/// How bfloat16 of `ml_dtypes` (JAX, TensorFlow) is saved.
const BFLOAT16: &str = "<V2";
