//! Local files and objects in a store behind one interface.
//!
//! A location is written like a path. `s3://`, `gs://` and `az://` name objects; a location that ends in `/`, or is not
//! an object itself, is a folder of the objects below it. Without the feature `object-store` such locations are rejected.

#[cfg(not(feature = "object-store"))]
mod absent;
mod failure;
#[cfg(feature = "object-store")]
mod location;
#[cfg(feature = "object-store")]
mod object;
#[cfg(feature = "object-store")]
mod remote;
mod staging;
#[cfg(feature = "object-store")]
mod store;
#[cfg(feature = "object-store")]
mod upload;

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use parquet::errors::Result as ParquetResult;
use parquet::file::reader::{ChunkReader, Length};

#[cfg(not(feature = "object-store"))]
use self::absent::{Location, Object};
#[cfg(not(feature = "object-store"))]
pub(crate) use self::absent::{Remote, Tag, Tagged};
pub(crate) use self::failure::explained;
#[cfg(feature = "object-store")]
pub(crate) use self::location::Location;
#[cfg(feature = "object-store")]
use self::object::Object;
#[cfg(feature = "object-store")]
pub(crate) use self::remote::{Remote, Tag, Tagged};
pub use self::staging::staging_path;
use crate::{Error, Result};

/// A file that is being read.
#[derive(Debug)]
pub(crate) enum InputFile {
    Local { file: File, len: u64 },
    Remote(Object),
}

/// Opens a file.
pub(crate) fn open(path: &Path) -> Result<InputFile> {
    if let Some(at) = Location::parse(path)? {
        return Ok(InputFile::Remote(Object::open(&at)?));
    }
    let file = File::open(path).map_err(|e| Error::read(path, "open", e))?;
    let len = file.metadata().map_err(|e| Error::read(path, "read", e))?.len();
    Ok(InputFile::Local { file, len })
}

impl InputFile {
    /// Opens the same file again, to be read from the start. Changes in between are not detected.
    pub fn again(&self, path: &Path) -> Result<Self> {
        match self {
            Self::Local { .. } => open(path),
            Self::Remote(object) => Ok(Self::Remote(object.at(0))),
        }
    }

    /// The store's own identifier for the state of the object.
    pub fn fingerprint(&self) -> Option<String> {
        match self {
            Self::Local { .. } => None,
            Self::Remote(object) => Some(object.fingerprint()),
        }
    }
}

impl Read for InputFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Local { file, .. } => file.read(out),
            Self::Remote(object) => object.read(out),
        }
    }
}

impl Seek for InputFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::Local { file, .. } => file.seek(to),
            Self::Remote(object) => object.seek(to),
        }
    }
}

impl Length for InputFile {
    fn len(&self) -> u64 {
        match self {
            Self::Local { len, .. } => *len,
            Self::Remote(object) => object.len(),
        }
    }
}

impl ChunkReader for InputFile {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        match self {
            Self::Local { file, .. } => Ok(Box::new(file.get_read(start)?)),
            Self::Remote(object) => Ok(Box::new(object.at(start))),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        match self {
            Self::Local { file, .. } => file.get_bytes(start, length),
            Self::Remote(object) => Ok(object.range(start, length)?),
        }
    }
}

/// Reads a whole file of at most `most` bytes.
///
/// # Errors
/// [`Error::Read`] or [`Error::Store`] if it does not exist, [`Error::Content`] if it is larger.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    explained(|| {
        let file = open(path)?;
        if file.len() > most {
            let what = format!("{} bytes, expected at most {most}", file.len());
            return Err(Error::content(path, what));
        }
        let mut content = Vec::new();
        let all = file.take(most).read_to_end(&mut content);
        all.map_err(|e| Error::read(path, "read", e)).map(|_| content)
    })
}

/// Returns whether a path names an object or a folder in a store.
pub fn is_remote(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.contains("://"))
}

/// Returns whether a file or folder exists.
///
/// # Errors
/// [`Error::Store`] if the store fails.
pub fn exists(path: &Path) -> Result<bool> {
    match Location::parse(path)? {
        Some(at) => at.exists(),
        None => Ok(path.exists()),
    }
}

/// The names one level below a folder in a store, none if it does not exist; `None` for a local path.
pub(crate) fn children(path: &Path) -> Result<Option<Vec<String>>> {
    Location::parse(path)?.map(|at| at.children()).transpose()
}

/// The files below a folder in the order of their paths, or `None` if `path` is a file. Names that
/// `skips` matches are skipped, such folders with all their content.
pub(crate) fn list(path: &Path, skips: fn(&str) -> bool) -> Result<Option<Vec<PathBuf>>> {
    let mut files = Vec::new();
    if let Some(at) = Location::parse(path)? {
        let Some(found) = at.list(path, skips)? else { return Ok(None) };
        files = found;
    } else {
        let kind = fs::metadata(path).map_err(|e| Error::read(path, "open", e))?;
        if !kind.is_dir() {
            return Ok(None);
        }
        walk(path, skips, &mut files)?;
    }
    files.sort();
    Ok(Some(files))
}

fn walk(folder: &Path, skips: fn(&str) -> bool, files: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |e| Error::read(folder, "list the folder", e);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if skips(&path.file_name().unwrap_or_default().to_string_lossy()) {
            continue;
        }
        if path.is_dir() { walk(&path, skips, files)? } else { files.push(path) }
    }
    Ok(())
}

/// Writes a small object, whole or not at all; `false` if `path` is not in a store.
pub(crate) fn put(path: &Path, content: &[u8]) -> Result<bool> {
    match Remote::of(path)? {
        Some(remote) => remote.put(content).map(|()| true),
        None => Ok(false),
    }
}

/// Returns whether two locations in a store are the same or one contains the other; `None` unless both are in one.
///
/// # Errors
/// [`Error::Content`] for an invalid location.
pub fn overlap(a: &Path, b: &Path) -> Result<Option<bool>> {
    let (Some(a), Some(b)) = (Location::parse(a)?, Location::parse(b)?) else { return Ok(None) };
    Ok(Some(a.holds(&b) || b.holds(&a)))
}
