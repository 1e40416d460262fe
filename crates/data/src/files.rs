//! Files that belong together, such as those of a tokenizer: a folder on disk or in a remote store, or bytes in memory.

use std::collections::BTreeMap;

use crate::{Error, TensorMap};

/// A set of files by name; `/` separates the parts of a name.
pub trait Files {
    /// The error of reading a file or parsing its content.
    type Error: From<Error>;

    /// Returns the name of a file in messages; `""` stands for the whole folder.
    fn shown(&self, name: &str) -> String;

    /// Returns whether a file exists.
    ///
    /// # Errors
    /// If its existence cannot be determined.
    fn has(&self, name: &str) -> Result<bool, Self::Error>;

    /// Reads a whole file of at most `most` bytes; `None` if it does not exist.
    ///
    /// # Errors
    /// If the file cannot be read, or is larger.
    fn read(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, Self::Error>;

    /// Reads the tensors of a file, all floats converted to f32; `None` if it does not exist.
    ///
    /// # Errors
    /// If the file cannot be read, or does not contain tensors.
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
    /// The content of each file.
    pub bytes: BTreeMap<String, Vec<u8>>,
    /// The content of each tensor file.
    pub tensors: BTreeMap<String, TensorMap>,
}

impl MemoryFiles {
    /// Adds a file.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.bytes.insert(name.into(), bytes.into());
        self
    }

    /// Adds a tensor file.
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
                let what = format!("{shown}: {n} bytes, expected at most {most}");
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
        assert_eq!(message, "a/b: 5 bytes, expected at most 4");
        assert_eq!(files.tensors("w").unwrap(), Some(tensors));
        assert!(files.has("w").unwrap() && files.has("a/b").unwrap() && !files.has("a").unwrap());
        assert_eq!((files.read("w", 5), files.tensors("a/b")), (Ok(None), Ok(None)));
        assert_eq!((files.shown(""), files.shown("w")), ("memory".into(), "w".into()));
    }
}
