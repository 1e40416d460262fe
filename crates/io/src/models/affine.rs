//! Affine maps of rows, y = (x - from) M + to, as safetensors: `from`, `matrix` (inputs x outputs) and `to` in f64,
//! with information about the map in `__metadata__`.
//!
//! Layout: 8 bytes little endian with the length of a JSON header, the header, padded with spaces to a multiple of 8,
//! then the tensors (<https://github.com/huggingface/safetensors#format>).

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::doubles;
use crate::{Error, Result, publish, storage};

/// The largest file that is read: maps between rows of 16,000 values.
const MAX_BYTES: u64 = 4 << 30;
const FORMAT: &str = "safetensors";
const NAMES: [&str; 3] = ["from", "matrix", "to"];

/// The affine map y = (x - from) M + to.
#[derive(Clone, Debug, PartialEq)]
pub struct Affine {
    /// The vector subtracted from a row first.
    pub from: Vec<f64>,
    /// M, row-major: one row per input value, one column per output value.
    pub matrix: Vec<f64>,
    /// The vector added last.
    pub to: Vec<f64>,
}

/// Writes a map with its metadata, whole or not at all. The bytes depend on the arguments alone.
///
/// ```
/// use std::collections::BTreeMap;
/// use veridical_io::models::affine::{Affine, read, write};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("map.safetensors");
/// let map = Affine { from: vec![1.0], matrix: vec![2.0, 0.5], to: vec![0.0, 3.0] };
/// write(&map, &BTreeMap::new(), &path)?;
/// assert_eq!(read(&path)?.0, map);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Content`] if writing fails.
pub fn write(map: &Affine, metadata: &BTreeMap<String, String>, path: &Path) -> Result<()> {
    let Affine { from, matrix, to } = map;
    let shapes = [json!([from.len()]), json!([from.len(), to.len()]), json!([to.len()])];
    let mut header = Map::from_iter([("__metadata__".to_owned(), json!(metadata))]);
    let mut end = 0;
    for ((name, shape), values) in NAMES.into_iter().zip(shapes).zip([from, matrix, to]) {
        let bytes = size_of_val(&values[..]);
        let value = json!({ "dtype": "F64", "shape": shape, "data_offsets": [end, end + bytes] });
        header.insert(name.into(), value);
        end += bytes;
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    publish::file(path, |out| {
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        for values in [from, matrix, to] {
            values.chunks(1 << 14).try_for_each(|piece| out.write_all(&doubles(piece)))?;
        }
        Ok(())
    })?;
    Ok(())
}

#[derive(Deserialize)]
struct Place {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// Reads a map and its metadata.
///
/// # Errors
/// [`Error::Malformed`] for damaged bytes, [`Error::Content`] for a file with other content, shapes that do
/// not match, and values that are not finite.
pub fn read(path: &Path) -> Result<(Affine, BTreeMap<String, String>)> {
    let bytes = storage::read(path, MAX_BYTES)?;
    let damaged = |what: &str| Error::malformed(path, FORMAT, what);
    let (size, rest) = bytes
        .split_first_chunk::<8>()
        .ok_or_else(|| damaged("it is shorter than its first field"))?;
    let size = usize::try_from(u64::from_le_bytes(*size)).unwrap_or(usize::MAX);
    let (header, data) = rest
        .split_at_checked(size)
        .ok_or_else(|| damaged("the header promises more bytes than the file has"))?;
    let mut header: BTreeMap<String, Value> = serde_json::from_slice(header)
        .map_err(|e| damaged(&format!("the header is not JSON: {e}")))?;
    let metadata = header.remove("__metadata__").unwrap_or_else(|| json!({}));
    let metadata: BTreeMap<String, String> = serde_json::from_value(metadata)
        .map_err(|_| damaged("its metadata is not a list of texts"))?;

    let no_map = |what: String| {
        let what = format!("is not a map: {what}; `veridical align ⟨map⟩` writes one");
        Error::content(path, what)
    };
    let mut tensor = |name: &str, dims: usize| {
        let place = header.remove(name).ok_or_else(|| no_map(format!("it has no `{name}`")))?;
        let place: Place =
            serde_json::from_value(place).map_err(|e| damaged(&format!("tensor `{name}`: {e}")))?;
        if place.dtype != "F64" || place.shape.len() != dims {
            let (dtype, shape) = (place.dtype, place.shape);
            return Err(no_map(format!("`{name}` is {dtype} of shape {shape:?}")));
        }
        let count = place.shape.iter().try_fold(1u64, |n, &dim| n.checked_mul(dim));
        let [begin, end] = place.data_offsets;
        let slice = usize::try_from(begin).ok().zip(usize::try_from(end).ok());
        let slice = slice.and_then(|(begin, end)| data.get(begin..end));
        match (slice, count.and_then(|n| n.checked_mul(8))) {
            (Some(slice), Some(bytes)) if slice.len() as u64 == bytes => {
                let values = slice.as_chunks::<8>().0.iter().map(|x| f64::from_le_bytes(*x));
                Ok((place.shape, values.collect::<Vec<f64>>()))
            }
            _ => Err(damaged(&format!("tensor `{name}` is outside the file"))),
        }
    };
    let ((from_shape, from), (shape, matrix), (to_shape, to)) =
        (tensor("from", 1)?, tensor("matrix", 2)?, tensor("to", 1)?);
    if shape != [from_shape[0], to_shape[0]] || matrix.is_empty() {
        return Err(no_map(format!(
            "`matrix` has shape {shape:?} beside {} inputs and {} outputs",
            from_shape[0], to_shape[0]
        )));
    }
    for (name, values) in NAMES.into_iter().zip([&from, &matrix, &to]) {
        if let Some(at) = values.iter().position(|x| !x.is_finite()) {
            let what = format!("`{name}` holds {} at place {at}; fit the map again", values[at]);
            return Err(Error::content(path, what));
        }
    }
    Ok((Affine { from, matrix, to }, metadata))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> (Affine, BTreeMap<String, String>) {
        let map = Affine {
            from: vec![0.5, -1.0],
            matrix: vec![1.0, 2.0, 3.0, 4.0, 5.0, 0.1],
            to: vec![0.0, 1e-300, -7.0],
        };
        (map, [("kind".to_owned(), "ridge".to_owned())].into())
    }

    #[test]
    fn a_map_comes_back_and_the_library_of_the_format_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map.safetensors");
        let (map, metadata) = example();
        write(&map, &metadata, &path).unwrap();
        assert_eq!(read(&path).unwrap(), (map.clone(), metadata));
        let bytes = std::fs::read(&path).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(file.tensor("matrix").unwrap().shape(), [2, 3]);
        assert_eq!(file.tensor("matrix").unwrap().data(), doubles(&map.matrix));
    }

    /// Cut at every byte, and every byte of the header changed: an error or a map, never a panic.
    #[test]
    fn damage_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map.safetensors");
        let (map, metadata) = example();
        write(&map, &metadata, &path).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert!(read(&path).is_err(), "cut at {cut}");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x15;
            std::fs::write(&path, &bytes).unwrap();
            let _ = read(&path);
        }
    }

    #[test]
    fn a_file_that_is_not_a_map_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map.safetensors");
        let message = |map: Affine| {
            write(&map, &BTreeMap::new(), &path).unwrap();
            read(&path).unwrap_err().to_string()
        };
        let (map, _) = example();
        let nan = Affine { matrix: vec![1.0, f64::NAN, 0.0, 0.0, 0.0, 0.0], ..map.clone() };
        assert!(message(nan).ends_with("`matrix` holds NaN at place 1; fit the map again"));
        let misfit = Affine { to: vec![0.0; 2], ..map };
        assert!(message(misfit).contains("tensor `matrix` is outside the file"));
        let other = veridical_data::NamedTensor { name: "vectors", shape: &[1, 1], values: &[1.0] };
        crate::run::write_tensors(&path, &[other]).unwrap();
        let message = read(&path).unwrap_err().to_string();
        assert!(
            message.contains("is not a map: it has no `from`; `veridical align ⟨map⟩`"),
            "{message}"
        );
    }
}
