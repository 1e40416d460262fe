//! safetensors: eight bytes of header length, a JSON header, raw little-endian tensors.
//!
//! Vectors are the tensor `vectors` (or `--tensor`, or the only matrix of floats), ids the tensor `ids`: I64, or U8 text with the
//! offsets in `ids_offsets`. `NAME.safetensors.index.json` names the files of a model; the tensor is
//! looked up there. Only the rows of a chunk are read at a time; every size in the header is
//! checked against the file before anything is allocated.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use arrow_array::{Int64Array, StringArray};
use parquet::file::reader::Length;
use serde::Deserialize;
use veridical_data::{Ids, StoredRows, TensorMap};

use super::{PartReader, ReadOptions, bare_schema, refuse_columns, values};
use crate::format::is_index;
use crate::storage::{self, InputFile};
use crate::{Chunk, Dtype, Error, IdKind, Result, TableSchema};

/// The limit of the reference implementation.
const MAX_HEADER: u64 = 100_000_000;

#[derive(Clone, Debug, Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// A tensor with its file.
struct Located {
    path: PathBuf,
    file: InputFile,
    data_start: u64,
    tensor: Tensor,
}

pub(super) struct SafetensorsPart {
    path: PathBuf,
    vectors: Located,
    ids: Option<(Located, Option<Located>)>,
    schema: TableSchema,
    n_rows: u64,
    next_row: u64,
    chunk_rows: usize,
    note: Option<String>,
}

impl SafetensorsPart {
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self> {
        refuse_columns(options, path, "safetensors")?;
        let catalog = Catalog::open(path)?;
        let (name, note) = catalog.choose(options);
        let vectors = catalog.locate(&name)?.ok_or_else(|| {
            let names = catalog.names().join("`, `");
            let what = format!("there is no tensor `{name}`; it has `{names}`");
            Error::content(path, format!("{what}; choose one with ⟨tensor⟩"))
        })?;
        let tensor = &vectors.tensor;
        let dtype = float_type(&tensor.dtype).ok_or_else(|| {
            let what = format!("tensor `{name}` holds {} where floats are expected", tensor.dtype);
            let what = format!("{what}; choose another one with ⟨tensor⟩");
            Error::content(path, what)
        })?;
        let [n_rows, dim] = tensor.shape[..] else {
            let what = format!(
                "tensor `{name}` has shape {:?} where two dimensions are expected; choose another one \
                 with ⟨tensor⟩",
                tensor.shape
            );
            return Err(Error::content(path, what));
        };
        if n_rows == 0 {
            return Err(Error::no_rows(path));
        }
        if dim == 0 {
            return Err(Error::content(
                path,
                format!("tensor `{name}` is empty: its shape is [{n_rows}, {dim}]"),
            ));
        }
        let ids = match catalog.locate("ids")? {
            Some(ids) => Some((ids, catalog.locate("ids_offsets")?)),
            None => None,
        };
        let id_kind = match ids
            .as_ref()
            .map(|(ids, offsets)| (&ids.tensor, offsets.as_ref().map(|offsets| &offsets.tensor)))
        {
            None => IdKind::RowNumber,
            Some((ids, None)) if ids.dtype == "I64" && ids.shape == [n_rows] => IdKind::Int,
            Some((ids, Some(offsets)))
                if ids.dtype == "U8" && offsets.dtype == "I64" && offsets.shape == [n_rows + 1] =>
            {
                IdKind::Text
            }
            Some(_) => {
                let what = "tensor `ids` must be I64 with one id per row, or U8 text with I64 `ids_offsets`";
                return Err(Error::content(path, what));
            }
        };
        let dim = usize::try_from(dim)
            .map_err(|_| Error::malformed(path, "safetensors", "rows are too wide"))?;
        Ok(Self {
            path: path.to_owned(),
            vectors,
            ids,
            schema: bare_schema(dim, id_kind, dtype),
            n_rows,
            next_row: 0,
            chunk_rows: options.chunk_rows(dim),
            note,
        })
    }

    fn read_ids(&mut self, first: u64, n: usize) -> Result<Ids> {
        match &mut self.ids {
            None => Ok(Ids::numbered(first, n)),
            Some((ids, None)) => Ok(Ids::Int(integers(&ids.read(first, n, 8)?))),
            Some((ids, Some(offsets))) => {
                let bounds = integers(&offsets.read(first, n + 1, 8)?);
                let len = ids.tensor.data_offsets[1] - ids.tensor.data_offsets[0];
                let bounds = bounds.values();
                let ascending = bounds.windows(2).all(|w| w[0] <= w[1]);
                if !ascending || bounds[0] < 0 || bounds[n] as u64 > len {
                    let what = format!("`ids_offsets` leaves the text near row {first}");
                    return Err(Error::malformed(&self.path, "safetensors", what));
                }
                let text = ids.read(bounds[0] as u64, (bounds[n] - bounds[0]) as usize, 1)?;
                let texts = bounds.windows(2).map(|w| {
                    let piece = &text[(w[0] - bounds[0]) as usize..(w[1] - bounds[0]) as usize];
                    std::str::from_utf8(piece)
                });
                let texts: std::result::Result<Vec<&str>, _> = texts.collect();
                let texts = texts.map_err(|_| {
                    Error::malformed(
                        &self.path,
                        "safetensors",
                        format!("ids near row {first} are not UTF-8"),
                    )
                })?;
                Ok(Ids::Text(StringArray::from_iter_values(texts)))
            }
        }
    }
}

impl Located {
    /// `n` elements of `size` bytes from element `first` on.
    fn read(&mut self, first: u64, n: usize, size: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; n * size];
        let at = self.data_start + self.tensor.data_offsets[0] + first * size as u64;
        self.file
            .seek(SeekFrom::Start(at))
            .and_then(|_| self.file.read_exact(&mut bytes))
            .map_err(|e| Error::read(&self.path, "read", e))?;
        Ok(bytes)
    }
}

/// The tensors of a file, or the files of a model by tensor name.
enum Catalog {
    File { path: PathBuf, file: InputFile, tensors: BTreeMap<String, Tensor>, data_start: u64 },
    Index { path: PathBuf, files: BTreeMap<String, String> },
}

/// `NAME.safetensors.index.json` of Hugging Face: the file of every tensor. Tensors are not split.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Catalog {
    fn open(path: &Path) -> Result<Self> {
        let malformed = |what: String| Error::malformed(path, "safetensors", what);
        if is_index(path) {
            let index: Index =
                serde_json::from_slice(&storage::read(path, MAX_HEADER)?).map_err(|e| {
                    malformed(format!("the index is not JSON with a `weight_map`: {e}"))
                })?;
            return Ok(Self::Index { path: path.to_owned(), files: index.weight_map });
        }
        let mut file = storage::open(path)?;
        let (tensors, data_start) = read_header(&mut file).map_err(malformed)?;
        Ok(Self::File { path: path.to_owned(), file, tensors, data_start })
    }

    fn names(&self) -> Vec<&str> {
        match self {
            Self::File { tensors, .. } => tensors.keys().map(String::as_str).collect(),
            Self::Index { files, .. } => files.keys().map(String::as_str).collect(),
        }
    }

    /// The requested tensor, else `vectors`, else the only candidate.
    fn choose(&self, options: &ReadOptions) -> (String, Option<String>) {
        match self {
            Self::File { tensors, .. } => choose(tensors, options),
            Self::Index { files, .. } => {
                let default = options.tensor.as_deref().unwrap_or("vectors");
                match files.keys().next() {
                    Some(only) if files.len() == 1 && options.tensor.is_none() => {
                        let note = only != default;
                        (only.clone(), note.then(|| format!("vectors from tensor `{only}`")))
                    }
                    _ => (default.to_owned(), None),
                }
            }
        }
    }

    /// The file of a tensor, if the tensor exists.
    fn file_of(&self, name: &str) -> Result<Option<PathBuf>> {
        let (path, shard) = match self {
            Self::File { path, tensors, .. } => {
                return Ok(tensors.contains_key(name).then(|| path.clone()));
            }
            Self::Index { path, files } => match files.get(name) {
                None => return Ok(None),
                Some(shard) => (path, shard),
            },
        };
        let is_plain = |c: Component<'_>| matches!(c, Component::Normal(_));
        let below = Path::new(shard);
        let leaves = below.as_os_str().is_empty() || !below.components().all(is_plain);
        if leaves || shard.contains([':', '\\']) {
            let what = format!("the index places tensor `{name}` in `{shard}`, outside the folder");
            return Err(Error::content(path, format!("{what}; write the index again")));
        }
        Ok(Some(path.with_file_name(shard)))
    }

    /// A tensor, ready to be read.
    fn locate(&self, name: &str) -> Result<Option<Located>> {
        let Some(path) = self.file_of(name)? else { return Ok(None) };
        let (file, tensor, data_start) = match self {
            Self::File { file, tensors, data_start, .. } => {
                (file.again(&path)?, tensors.get(name).cloned(), *data_start)
            }
            Self::Index { .. } => {
                let mut file = storage::open(&path)?;
                let header = read_header(&mut file);
                let (mut tensors, data_start) =
                    header.map_err(|what| Error::malformed(&path, "safetensors", what))?;
                (file, tensors.remove(name), data_start)
            }
        };
        let tensor = tensor.ok_or_else(|| {
            let what = "which the index says is here; download both again";
            Error::content(&path, format!("there is no tensor `{name}`, {what}"))
        })?;
        Ok(Some(Located { path, file, data_start, tensor }))
    }
}

/// A matrix of floats in a safetensors file, of which rows are read by number.
pub struct StoredMatrix {
    located: Located,
    dtype: Dtype,
    n_rows: usize,
    dim: usize,
}

impl StoredMatrix {
    /// Opens the matrix of that name; `None` if the file has no such matrix of floats.
    pub(crate) fn open(path: &Path, name: &str) -> Result<Option<Self>> {
        let Some(located) = Catalog::open(path)?.locate(name)? else { return Ok(None) };
        let matrix = match (float_type(&located.tensor.dtype), &located.tensor.shape[..]) {
            // Shapes were checked against the length of the file: they fit memory addresses.
            (Some(dtype), &[n, dim]) => Some((dtype, n as usize, dim as usize)),
            _ => None,
        };
        Ok(matrix.map(|(dtype, n_rows, dim)| Self { located, dtype, n_rows, dim }))
    }
}

impl StoredRows for StoredMatrix {
    fn n_rows(&self) -> usize {
        self.n_rows
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn read(&mut self, first: usize, n: usize, rows: &mut Vec<f32>) -> veridical_core::Result<()> {
        if first + n > self.n_rows {
            let what = format!("rows {first}..{} of {} are wanted", first + n, self.n_rows);
            return Err(veridical_core::Error::damaged(what, "train the run again"));
        }
        let (first, n, size) = ((first * self.dim) as u64, n * self.dim, self.dtype.size());
        let bytes = self.located.read(first, n, size).map_err(Error::into_core)?;
        rows.clear();
        rows.extend_from_slice(&values::decode(&bytes, self.dtype));
        Ok(())
    }
}

/// Reads every floating-point tensor of a file as f32.
pub(crate) fn tensors(path: &Path) -> Result<TensorMap> {
    let catalog = Catalog::open(path)?;
    let mut found = TensorMap::new();
    for name in catalog.names() {
        let Some(mut located) = catalog.locate(name)? else { continue };
        let Some(dtype) = float_type(&located.tensor.dtype) else { continue };
        // Shapes were checked against the length of the file: they fit memory addresses.
        let shape: Vec<usize> = located.tensor.shape.iter().map(|&dim| dim as usize).collect();
        let bytes = located.read(0, shape.iter().product(), dtype.size())?;
        found.insert(name.to_owned(), (shape, values::decode(&bytes, dtype).to_vec()));
    }
    Ok(found)
}

/// The files that are read: one, or an index and the files it refers to.
pub(super) fn files(path: &Path, options: &ReadOptions) -> Result<Vec<PathBuf>> {
    let mut files = vec![path.to_owned()];
    if is_index(path) {
        let catalog = Catalog::open(path)?;
        for name in [catalog.choose(options).0.as_str(), "ids", "ids_offsets"] {
            files.extend(catalog.file_of(name)?);
        }
        files.dedup();
    }
    Ok(files)
}

/// The requested tensor, else `vectors`, else the only matrix of floats.
fn choose(tensors: &BTreeMap<String, Tensor>, options: &ReadOptions) -> (String, Option<String>) {
    let default = options.tensor.as_deref().unwrap_or("vectors");
    if options.tensor.is_none() && !tensors.contains_key(default) {
        let is_matrix = |t: &Tensor| t.shape.len() == 2 && float_type(&t.dtype).is_some();
        let mut matrices = tensors.iter().filter(|(_, tensor)| is_matrix(tensor));
        if let (Some((name, _)), None) = (matrices.next(), matrices.next()) {
            return (name.clone(), Some(format!("vectors from tensor `{name}`")));
        }
    }
    (default.to_owned(), None)
}

fn float_type(dtype: &str) -> Option<Dtype> {
    match dtype {
        "F16" => Some(Dtype::F16),
        "BF16" => Some(Dtype::Bf16),
        "F32" => Some(Dtype::F32),
        "F64" => Some(Dtype::F64),
        _ => None,
    }
}

fn integers(bytes: &[u8]) -> Int64Array {
    Int64Array::from_iter_values(bytes.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)))
}

impl PartReader for SafetensorsPart {
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
        let bytes = self.vectors.read(first_row * dim as u64, n * dim, dtype.size())?;
        let ids = self.read_ids(first_row, n)?;
        Ok(Some(Chunk::bare(first_row, ids, values::decode(&bytes, dtype))))
    }

    fn skip(&mut self, rows: u64) -> Result<bool> {
        self.next_row += rows;
        Ok(true)
    }

    fn note(&self) -> Option<String> {
        self.note.clone()
    }
}

/// The tensors of the header, each checked against the size of the file, and the offset of the data.
fn read_header(
    file: &mut InputFile,
) -> std::result::Result<(BTreeMap<String, Tensor>, u64), String> {
    let len = file.len();
    let mut size = [0; 8];
    file.read_exact(&mut size).map_err(|_| "it is shorter than its first field")?;
    let size = u64::from_le_bytes(size);
    if size > MAX_HEADER || size + 8 > len {
        return Err(format!("the header promises {size} bytes but the file has {len}"));
    }
    let mut header = vec![0; size as usize];
    file.read_exact(&mut header).map_err(|e| e.to_string())?;
    let header: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(&header).map_err(|e| format!("the header is not JSON: {e}"))?;
    let data_len = len - 8 - size;
    let tensor = |(name, value): (String, serde_json::Value)| {
        let tensor: Tensor =
            serde_json::from_value(value).map_err(|e| format!("tensor `{name}`: {e}"))?;
        check(&tensor, data_len).map_err(|what| format!("tensor `{name}` {what}"))?;
        Ok((name, tensor))
    };
    let tensors = header.into_iter().filter(|(name, _)| name != "__metadata__").map(tensor);
    Ok((tensors.collect::<std::result::Result<_, String>>()?, 8 + size))
}

fn check(tensor: &Tensor, data_len: u64) -> std::result::Result<(), String> {
    let [from, to] = tensor.data_offsets;
    if from > to || to > data_len {
        return Err(format!("is at {from}..{to} but the file has {data_len} bytes of data"));
    }
    let size: u64 = match tensor.dtype.as_str() {
        "F64" | "I64" | "U64" => 8,
        "F32" | "I32" | "U32" => 4,
        "F16" | "BF16" | "I16" | "U16" => 2,
        "I8" | "U8" | "BOOL" | "F8_E5M2" | "F8_E4M3" => 1,
        _ => return Ok(()), // never read
    };
    let bytes = tensor.shape.iter().try_fold(size, |n, &dim| n.checked_mul(dim));
    if bytes != Some(to - from) {
        return Err(format!(
            "has shape {:?} of {} but {} bytes",
            tensor.shape,
            tensor.dtype,
            to - from
        ));
    }
    Ok(())
}
