//! U as safetensors: `directions` (m x d, f32), with `means` and `deviations` (f64) of a map that
//! standardizes; the spec is in `__metadata__` under `veridical.spec`.
//!
//! Layout: 8 bytes little endian with the length of a JSON header, the header, padded with spaces to
//! a multiple of 8, then the tensors (<https://github.com/huggingface/safetensors#format>).

use std::io::Write;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{ModelMap, RowStep, doubles, put_singles};
use crate::{Result, publish};

/// Writes the tensors of `map`.
///
/// # Errors
/// [`Error::Content`](crate::Error::Content) if writing fails.
pub fn write(map: &ModelMap, path: &Path) -> Result<()> {
    let (m, d) = (map.n_directions(), map.input_dim);
    let columns: &[(&str, &[f64])] = match &map.rows {
        RowStep::Standardize { means, deviations } => {
            &[("means", means), ("deviations", deviations)]
        }
        RowStep::AsIs | RowStep::Unit => &[],
    };
    // The doubles first, so that every tensor is at a multiple of its element size.
    let mut header = Map::new();
    let mut end = 0;
    let mut entry = |name: &str, dtype: &str, shape: Value, bytes: usize| {
        let value = json!({ "dtype": dtype, "shape": shape, "data_offsets": [end, end + bytes] });
        end += bytes;
        header.insert(name.into(), value);
    };
    for (name, values) in columns {
        entry(name, "F64", json!([d]), size_of_val(*values));
    }
    entry("directions", "F32", json!([m, d]), size_of_val(&*map.directions));
    let mut metadata = json!({ "veridical.spec": map.spec });
    if let Some(id) = &map.map_id {
        metadata["veridical.map_id"] = json!(id);
    }
    header.insert("__metadata__".into(), metadata);
    let mut header = Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    publish::file(path, |out| {
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        for (_, values) in columns {
            out.write_all(&doubles(values))?;
        }
        put_singles(out, &map.directions)
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn the_tensors_and_the_spec_are_read_back_by_the_library_of_the_format() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("u.safetensors");
        let means = vec![1.0, -2.0, 0.1];
        let map =
            example(3, 5, RowStep::Standardize { means: means.clone(), deviations: vec![1.0; 3] });
        write(&map, &path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
        assert_eq!(header.metadata().as_ref().unwrap()["veridical.spec"], "{}");
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let directions = file.tensor("directions").unwrap();
        assert_eq!(directions.shape(), [5, 3]);
        assert_eq!(directions.data(), super::super::singles(&map.directions));
        assert_eq!(file.tensor("means").unwrap().data(), doubles(&means));
        assert_eq!(file.tensor("deviations").unwrap().shape(), [3]);
    }
}
