//! Named tensors of f32 in a safetensors file
//! (<https://github.com/huggingface/safetensors#format>).

use std::io::Write;
use std::path::Path;

use serde_json::{Map, Value, json};
use veridical_data::{NamedTensor, TensorMap};

use crate::models::put_singles;
use crate::read::tensors;
use crate::{Error, Result, publish, storage};

/// Writes named tensors, whole or not at all.
///
/// ```
/// use veridical_data::NamedTensor;
/// use veridical_io::run::{read_tensors, write_tensors};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("m.safetensors");
/// write_tensors(&path, &[NamedTensor { name: "bias", shape: &[2], values: &[0.5, -1.0] }])?;
/// assert_eq!(read_tensors(&path)?["bias"], (vec![2], vec![0.5, -1.0]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Content`] if writing fails.
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

/// Reads every floating-point tensor of a file as f32; integer tensors, such as PyTorch's `num_batches_tracked`, are skipped.
///
/// # Errors
/// [`Error::Malformed`] for damaged bytes, [`Error::Read`] if the file does not exist.
pub fn read_tensors(path: &Path) -> Result<TensorMap> {
    let found: TensorMap = storage::explained(|| tensors(path))?;
    match found.is_empty() {
        true => Err(Error::content(path, "holds no tensor of floats; write it again")),
        false => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_come_back_and_damage_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.safetensors");
        let a = NamedTensor { name: "a", shape: &[2, 3], values: &[1.0, 2.0, 3.0, 4.0, 5.0, 6.5] };
        let b = NamedTensor { name: "b.bias", shape: &[1], values: &[-0.0] };
        let values: Vec<f32> = (0..24).map(|i| i as f32).collect();
        let c = NamedTensor { name: "c", shape: &[2, 3, 2, 2], values: &values };
        let d = NamedTensor { name: "d", shape: &[], values: &[7.0] };
        write_tensors(&path, &[a, b, c, d]).unwrap();
        let back = read_tensors(&path).unwrap();
        for tensor in [a, b, c, d] {
            let (shape, values) = &back[tensor.name];
            assert_eq!((&shape[..], &values[..]), (tensor.shape, tensor.values));
        }
        assert_eq!(back["b.bias"].1[0].to_bits(), (-0.0f32).to_bits());
        let bytes = std::fs::read(&path).unwrap();
        // Unchanged since the first version: old runs keep their bytes.
        let header = r#"{"a":{"data_offsets":[0,24],"dtype":"F32","shape":[2,3]},"b.bias":"#;
        assert!(bytes[8..].starts_with(header.as_bytes()));
        safetensors::SafeTensors::deserialize(&bytes).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let message = read_tensors(&path).unwrap_err().to_string();
        assert!(message.contains("m.safetensors: not a readable safetensors file"), "{message}");
    }

    /// A state that PyTorch saved has weights of any rank and type beside counters.
    #[test]
    fn floats_of_all_types_are_read_and_integers_skipped() {
        use safetensors::tensor::{Dtype, TensorView, serialize};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.safetensors");
        let half: Vec<u8> =
            [1.5, -2.0].iter().flat_map(|&x| half::f16::from_f32(x).to_le_bytes()).collect();
        let brain: Vec<u8> = half::bf16::from_f32(0.5).to_le_bytes().to_vec();
        let double: Vec<u8> = [0.25f64, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let counter = 7i64.to_le_bytes();
        let view =
            |dtype, shape: &[usize], data| TensorView::new(dtype, shape.to_vec(), data).unwrap();
        let tensors = [
            ("conv.weight", view(Dtype::F16, &[2, 1, 1, 1], &half)),
            ("bn.bias", view(Dtype::BF16, &[1], &brain)),
            ("linear.weight", view(Dtype::F64, &[1, 2], &double)),
            ("bn.num_batches_tracked", view(Dtype::I64, &[], &counter)),
        ];
        std::fs::write(&path, serialize(tensors, None).unwrap()).unwrap();
        let expected = [
            ("bn.bias", vec![1], vec![0.5]),
            ("conv.weight", vec![2, 1, 1, 1], vec![1.5, -2.0]),
            ("linear.weight", vec![1, 2], vec![0.25, 4.0]),
        ];
        let expected = expected.map(|(name, shape, values)| (name.to_owned(), (shape, values)));
        assert_eq!(read_tensors(&path).unwrap(), TensorMap::from(expected));
    }
}
