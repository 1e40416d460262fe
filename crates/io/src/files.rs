//! A folder, on disk or in an object store, as a set of files that belong together.

use std::path::PathBuf;

use veridical_data::{Files, TensorMap};

use crate::{Error, Result, run, storage};

/// The files of a folder.
#[derive(Clone, Debug)]
pub struct FolderFiles {
    folder: PathBuf,
}

impl FolderFiles {
    /// Creates the set of files of `folder`, which need not exist.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Returns the path of a file; `""` is the folder itself.
    pub fn path(&self, name: &str) -> PathBuf {
        match name.trim_start_matches('/') {
            "" => self.folder.clone(),
            name => self.folder.join(name),
        }
    }
}

impl Files for FolderFiles {
    type Error = Error;

    fn shown(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn has(&self, name: &str) -> Result<bool> {
        let path = self.path(name);
        Ok(storage::exists(&path)? && !path.is_dir())
    }

    fn read(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>> {
        self.has(name)?.then(|| storage::read(&self.path(name), most)).transpose()
    }

    fn tensors(&self, name: &str) -> Result<Option<TensorMap>> {
        self.has(name)?.then(|| run::read_tensors(&self.path(name))).transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::run::write_tensors;
    use veridical_data::NamedTensor;

    #[test]
    fn files_of_a_folder_are_found_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let files = FolderFiles::new(folder.path());
        fs::create_dir(folder.path().join("inner")).unwrap();
        fs::write(folder.path().join("inner/a.json"), "12345").unwrap();
        assert!(files.has("inner/a.json").unwrap() && files.has("/inner/a.json").unwrap());
        assert!(!files.has("inner").unwrap() && !files.has("a.json").unwrap());
        assert_eq!(files.read("inner/a.json", 5).unwrap().unwrap(), b"12345");
        assert!(files.read("a.json", 5).unwrap().is_none());
        assert!(files.tensors("a.safetensors").unwrap().is_none());
        let message = files.read("inner/a.json", 4).unwrap_err().to_string();
        let shown = files.shown("inner/a.json");
        assert_eq!(message, format!("{shown}: 5 bytes, expected at most 4"));
        assert_eq!(files.shown(""), folder.path().display().to_string());
        let tensor = NamedTensor { name: "w", shape: &[2], values: &[1.0, 2.0] };
        write_tensors(&files.path("a.safetensors"), &[tensor]).unwrap();
        assert_eq!(files.tensors("a.safetensors").unwrap().unwrap()["w"].1, [1.0, 2.0]);
    }
}
