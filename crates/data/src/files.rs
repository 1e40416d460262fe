//! Files that belong together, such as those of a tokenizer: a folder on a disk or in a store, or bytes in memory.

use std::collections::BTreeMap;

use crate::{Error, TensorMap};

/// Files by name; `/` stands between the parts of a name.
pub trait Files {
    /// What can go wrong in reading, and in understanding what was read.
    type Error: From<Error>;

    /// How messages call a file; `""` is all of them, the folder.
    fn shown(&self, name: &str) -> String;

    /// Whether there is such a file.
    ///
    /// # Errors
    /// If that cannot be found out.
    fn has(&self, name: &str) -> Result<bool, Self::Error>;

    /// A whole file of at most `most` bytes; `None` if there is no such file.
    ///
    /// # Errors
    /// If it cannot be read, or is larger.
    fn read(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, Self::Error>;

    /// The tensors of a file, all their floats as f32; `None` if there is no such file.
    ///
    /// # Errors
    /// If it cannot be read, or holds no tensors.
    fn tensors(&self, name: &str) -> Result<Option<TensorMap>, Self::Error>;
}

/// Files in memory.
///
/// ```
/// use veridical_data::{Files, MemoryFiles};
///
/// let files = MemoryFiles::default().with("vocab.txt", "[UNK]\n[CLS]\n[SEP]\n");
/// assert!(files.has("vocab.txt")? && files.read("config.json", 100)?.is_none());
/// # Ok::<(), veridical_data::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryFiles {
    /// What files hold.
    pub bytes: BTreeMap<String, Vec<u8>>,
    /// What files of tensors hold.
    pub tensors: BTreeMap<String, TensorMap>,
}

impl MemoryFiles {
    /// With one more file.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.bytes.insert(name.into(), bytes.into());
        self
    }

    /// With one more file of tensors.
    #[must_use]
    pub fn with_tensors(mut self, name: impl Into<String>, tensors: TensorMap) -> Self {
        self.tensors.insert(name.into(), tensors);
        self
    }
}

impl Files for MemoryFiles {
    type Error = Error;

    fn shown(&self, name: &str) -> String {
        if name.is_empty() { "memory".into() } else { name.into() }
    }

    fn has(&self, name: &str) -> Result<bool, Error> {
        Ok(self.bytes.contains_key(name) || self.tensors.contains_key(name))
    }

    fn read(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, Error> {
        match self.bytes.get(name) {
            Some(bytes) if bytes.len() as u64 > most => {
                let (shown, n) = (self.shown(name), bytes.len());
                let what =
                    format!("{shown}: {n} bytes are too many where at most {most} are expected");
                Err(Error::unfit(what, ""))
            }
            found => Ok(found.cloned()),
        }
    }

    fn tensors(&self, name: &str) -> Result<Option<TensorMap>, Error> {
        Ok(self.tensors.get(name).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_memory_are_found_by_name_and_have_a_limit() {
        let tensors = TensorMap::from([("w".to_owned(), (vec![2], vec![1.0, 2.0]))]);
        let files = MemoryFiles::default().with("a/b", "12345").with_tensors("w", tensors.clone());
        assert_eq!(files.read("a/b", 5).unwrap().unwrap(), b"12345");
        let message = files.read("a/b", 4).unwrap_err().to_string();
        assert_eq!(message, "a/b: 5 bytes are too many where at most 4 are expected");
        assert_eq!(files.tensors("w").unwrap(), Some(tensors));
        assert!(files.has("w").unwrap() && files.has("a/b").unwrap() && !files.has("a").unwrap());
        assert_eq!((files.read("w", 5), files.tensors("a/b")), (Ok(None), Ok(None)));
        assert_eq!((files.shown(""), files.shown("w")), ("memory".into(), "w".into()));
    }
}
