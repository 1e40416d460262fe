//! NumPy's npy format, versions 1 to 3: a 2-d array of floats in C or Fortran order.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::{PartReader, ReadOptions, bare_schema, refuse_columns, values};
use crate::{Chunk, Dtype, Error, IdKind, Ids, Result, TableSchema};

/// NumPy writes headers of some hundred bytes; more is not ours to read.
const MAX_HEADER: usize = 1 << 20;

pub(super) struct NpyPart {
    path: PathBuf,
    file: BufReader<File>,
    schema: TableSchema,
    fortran_order: bool,
    data_start: u64,
    n_rows: u64,
    next_row: u64,
    chunk_rows: usize,
}

impl NpyPart {
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self> {
        refuse_columns(options, path, "npy")?;
        let file = File::open(path).map_err(|e| Error::read(path, "open", e))?;
        let len = file.metadata().map_err(|e| Error::read(path, "read", e))?.len();
        let mut file = BufReader::with_capacity(1 << 20, file);
        let malformed = |what: &str| Error::malformed(path, "npy", what);
        let (header, data_start) = read_header(&mut file).map_err(malformed)?;
        let header = Header::parse(&header).map_err(|what| Error::malformed(path, "npy", what))?;
        let dtype = header.dtype().map_err(|what| Error::content(path, what))?;
        let [n_rows, dim] = header.shape[..] else {
            let what = format!(
                "the array has shape {:?} where rows of vectors are expected; reshape it to 2-d",
                header.shape
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
        let promised = n_rows.checked_mul(dim).and_then(|n| n.checked_mul(dtype.size() as u64));
        let promised = promised.and_then(|n| n.checked_add(data_start));
        if promised.is_none_or(|promised| promised > len) {
            let promised =
                promised.map_or("more bytes than there can be".into(), |n| format!("{n} bytes"));
            return Err(malformed(&format!(
                "the header promises {n_rows} x {dim} values, {promised}, but the file has {len}"
            )));
        }
        let dim = usize::try_from(dim).map_err(|_| malformed("rows are too wide"))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            schema: bare_schema(dim, IdKind::RowNumber, dtype),
            fortran_order: header.fortran_order,
            data_start,
            n_rows,
            next_row: 0,
            chunk_rows: options.chunk_rows(dim),
        })
    }

    fn read_at(&mut self, element: u64, n: usize) -> Result<Vec<u8>> {
        let size = self.schema.dtype.size();
        let mut bytes = vec![0; n * size];
        self.file
            .seek(SeekFrom::Start(self.data_start + element * size as u64))
            .and_then(|_| self.file.read_exact(&mut bytes))
            .map_err(|e| Error::read(&self.path, "read", e))?;
        Ok(bytes)
    }
}

impl PartReader for NpyPart {
    fn schema(&self) -> &TableSchema {
        &self.schema
    }

    fn n_rows(&self) -> Option<u64> {
        Some(self.n_rows)
    }

    fn next_chunk(&mut self) -> Result<Option<Chunk>> {
        let n = (self.n_rows - self.next_row).min(self.chunk_rows as u64) as usize;
        if n == 0 {
            return Ok(None);
        }
        let (first_row, dim, dtype) = (self.next_row, self.schema.dim, self.schema.dtype);
        self.next_row += n as u64;
        let vectors = if self.fortran_order {
            let mut rows = vec![0.0; n * dim];
            for column in 0..dim {
                let bytes = self.read_at(column as u64 * self.n_rows + first_row, n)?;
                let values = values::decode(&bytes, dtype);
                rows[column..].iter_mut().step_by(dim).zip(&values).for_each(|(x, v)| *x = *v);
            }
            rows.into()
        } else {
            values::decode(&self.read_at(first_row * dim as u64, n * dim)?, dtype)
        };
        Ok(Some(Chunk {
            first_row,
            ids: Ids::numbered(first_row, n),
            vectors,
            kept: Vec::new(),
            row_numbers: None,
            zeroed: None,
        }))
    }

    fn skip(&mut self, rows: u64) -> Result<bool> {
        self.next_row += rows;
        Ok(true)
    }

    fn note(&self) -> Option<String> {
        None
    }
}

/// The text of the header and where the data starts.
fn read_header(file: &mut impl Read) -> std::result::Result<(String, u64), &'static str> {
    let cut = |_| "the header is cut off";
    let mut start = [0; 8];
    file.read_exact(&mut start).map_err(cut)?;
    if &start[..6] != b"\x93NUMPY" {
        return Err("it does not start as npy files do");
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
#[derive(Debug, PartialEq)]
struct Header {
    descr: String,
    fortran_order: bool,
    shape: Vec<u64>,
}

impl Header {
    fn parse(text: &str) -> std::result::Result<Self, String> {
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

    fn dtype(&self) -> std::result::Result<Dtype, String> {
        match self.descr.as_str() {
            "<f4" | "=f4" => Ok(Dtype::F32),
            "<f8" | "=f8" => Ok(Dtype::F64),
            "<f2" | "=f2" => Ok(Dtype::F16),
            other => Err(format!(
                "the array holds `{other}` where little-endian floats are expected; \
                 save it with array.astype('<f4')"
            )),
        }
    }
}
