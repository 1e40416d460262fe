//! Stand-ins for object stores in builds without them: URLs of stores are rejected by name, and none is
//! ever opened.

use std::convert::Infallible;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use veridical_core::{Cancel, Error as Core};

use crate::Result;

/// Cannot be constructed.
#[derive(Debug)]
pub(crate) struct Location(Infallible);

impl Location {
    /// Returns `None` for a local path.
    pub fn parse(path: &Path) -> Result<Option<Self>> {
        let scheme =
            path.to_str().and_then(|text| text.split_once("://")).map(|(scheme, _)| scheme);
        let is_scheme =
            |scheme: &str| !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric());
        if scheme.is_some_and(is_scheme) {
            let what = format!("{}: this build does not support object stores", path.display());
            return Err(
                Core::request(what, "copy the file here, or build with `object-store`").into()
            );
        }
        Ok(None)
    }

    pub fn exists(&self) -> Result<bool> {
        match self.0 {}
    }

    pub fn list(&self, _path: &Path, _skips: fn(&str) -> bool) -> Result<Option<Vec<PathBuf>>> {
        match self.0 {}
    }

    pub fn children(&self) -> Result<Vec<String>> {
        match self.0 {}
    }

    pub fn holds(&self, _other: &Self) -> bool {
        match self.0 {}
    }
}

/// Cannot be constructed.
#[derive(Debug)]
pub(crate) struct Object(Infallible);

impl Object {
    pub fn open(at: &Location) -> Result<Self> {
        match at.0 {}
    }

    pub fn at(&self, _position: u64) -> Self {
        match self.0 {}
    }

    pub fn fingerprint(&self) -> String {
        match self.0 {}
    }

    pub fn len(&self) -> u64 {
        match self.0 {}
    }

    pub fn range(&self, _start: u64, _length: usize) -> io::Result<Bytes> {
        match self.0 {}
    }
}

impl Read for Object {
    fn read(&mut self, _out: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }
}

impl Seek for Object {
    fn seek(&mut self, _to: SeekFrom) -> io::Result<u64> {
        match self.0 {}
    }
}

/// What identifies a state of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tag;

/// A small object and its state.
#[derive(Clone, Debug)]
pub(crate) struct Tagged {
    pub content: Vec<u8>,
    pub tag: Tag,
}

/// Cannot be constructed.
#[derive(Clone, Debug)]
pub(crate) struct Remote(Infallible);

impl Remote {
    pub fn of(path: &Path) -> Result<Option<Self>> {
        Location::parse(path).map(|at| at.map(|at| Self(at.0)))
    }

    pub fn put(&self, _content: &[u8]) -> Result<()> {
        match self.0 {}
    }

    pub fn names(&self) -> Result<Vec<String>> {
        match self.0 {}
    }

    pub fn send_file(&self, _from: &Path, _cancel: &Cancel) -> Result<()> {
        match self.0 {}
    }

    pub fn read_tagged(&self, _most: u64) -> Result<Option<Tagged>> {
        match self.0 {}
    }

    pub fn put_if_unchanged(&self, _content: &[u8], _before: Option<&Tag>) -> Result<bool> {
        match self.0 {}
    }

    pub fn remove(&self) -> Result<()> {
        match self.0 {}
    }

    pub fn remove_all(&self) -> Result<()> {
        match self.0 {}
    }

    pub fn send_tree(&self, _from: &Path, _keeps: &[&str], _cancel: &Cancel) -> Result<()> {
        match self.0 {}
    }

    pub fn send_folder(&self, _files: &[PathBuf], _cancel: &Cancel) -> Result<()> {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_a_store_are_refused_and_paths_are_not() {
        let message = Location::parse(Path::new("s3://b/k")).unwrap_err().to_string();
        assert!(
            message.starts_with("s3://b/k: this build does not support object stores; "),
            "{message}"
        );
        assert!(Location::parse(Path::new("a/b")).unwrap().is_none());
    }
}
