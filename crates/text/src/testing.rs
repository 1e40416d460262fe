//! Folders of `tests/oracles`, loaded into memory.

use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use veridical_data::{MemoryFiles, TensorMap};

pub(crate) fn oracle(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracles").join(path)
}

pub(crate) fn folder(path: &Path) -> MemoryFiles {
    let mut files = MemoryFiles::default();
    load(path, "", &mut files);
    files
}

fn load(path: &Path, before: &str, files: &mut MemoryFiles) {
    for entry in fs::read_dir(path).unwrap().map(Result::unwrap) {
        let name = format!("{before}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            load(&entry.path(), &format!("{name}/"), files);
        } else if name.ends_with(".safetensors") {
            let tensors = tensors(&fs::read(entry.path()).unwrap());
            files.tensors.insert(name, tensors);
        } else {
            files.bytes.insert(name, fs::read(entry.path()).unwrap());
        }
    }
}

fn tensors(bytes: &[u8]) -> TensorMap {
    let found = SafeTensors::deserialize(bytes).unwrap();
    let floats = found.iter().filter(|(_, view)| view.dtype() == safetensors::Dtype::F32);
    let tensor = |(name, view): (&str, safetensors::tensor::TensorView<'_>)| {
        let (values, []) = view.data().as_chunks() else { panic!("half a float in {name}") };
        let values = values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        (name.to_owned(), (view.shape().to_vec(), values))
    };
    floats.map(tensor).collect()
}
