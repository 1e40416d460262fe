//! Named matrices of f32 in a safetensors file
//! (<https://github.com/huggingface/safetensors#format>).

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::models::{publish, put_singles};
use crate::read::matrices;
use crate::{Error, Result, storage};

/// A matrix to be written.
#[derive(Clone, Copy, Debug)]
pub struct NamedTensor<'a> {
    /// Its name.
    pub name: &'a str,
    /// Rows and values of a row.
    pub shape: [usize; 2],
    /// Row-major.
    pub values: &'a [f32],
}

/// Matrices by name: shape and row-major values.
pub type TensorMap = BTreeMap<String, ([usize; 2], Vec<f32>)>;

/// Writes matrices under their names, whole or not at all.
///
/// # Errors
/// [`Error::Content`] if the disk refuses.
pub fn write_tensors(path: &Path, tensors: &[NamedTensor<'_>]) -> Result<()> {
    let mut header = Map::new();
    let mut end = 0;
    for tensor in tensors {
        let bytes = size_of_val(tensor.values);
        let place =
            json!({ "dtype": "F32", "shape": tensor.shape, "data_offsets": [end, end + bytes] });
        header.insert(tensor.name.to_owned(), place);
        end += bytes;
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    publish::file(path, |out| {
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        tensors.iter().try_for_each(|tensor| put_singles(out, tensor.values))
    })?;
    Ok(())
}

/// Reads every matrix of floats of a file.
///
/// # Errors
/// [`Error::Malformed`] for damaged bytes, [`Error::Read`] if it is not there.
pub fn read_tensors(path: &Path) -> Result<TensorMap> {
    let tensors: TensorMap = storage::explained(|| matrices(path))?;
    match tensors.is_empty() {
        true => Err(Error::content(path, "holds no matrix of floats; train it again")),
        false => Ok(tensors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_come_back_and_damage_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.safetensors");
        let a = NamedTensor { name: "a", shape: [2, 3], values: &[1.0, 2.0, 3.0, 4.0, 5.0, 6.5] };
        let b = NamedTensor { name: "b.bias", shape: [1, 1], values: &[-0.0] };
        write_tensors(&path, &[a, b]).unwrap();
        let back = read_tensors(&path).unwrap();
        assert_eq!(back["a"], ([2, 3], a.values.to_vec()));
        assert_eq!(back["b.bias"].1[0].to_bits(), (-0.0f32).to_bits());
        let bytes = std::fs::read(&path).unwrap();
        safetensors::SafeTensors::deserialize(&bytes).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let message = read_tensors(&path).unwrap_err().to_string();
        assert!(message.contains("m.safetensors: not a readable safetensors file"), "{message}");
    }
}
