//! Where bytes are: files of this machine and objects of a store behind one face.
//!
//! A place is written like a path. `s3://`, `gs://` and `az://` name objects; whatever ends in `/`, or is not
//! an object itself, is a folder of those below it.

mod failure;
mod location;
mod object;
mod staging;
mod store;
mod upload;

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use object_store::ObjectStoreExt;
use object_store::path::Path as Key;
use parquet::errors::Result as ParquetResult;
use parquet::file::reader::{ChunkReader, Length};

pub(crate) use self::failure::explained;
pub(crate) use self::location::Location;
use self::object::Object;
pub(crate) use self::staging::staging_path;
use self::store::{Purpose, client, explain, runtime};
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
    /// The same file once more, to be read from its beginning. What changed since is not looked at.
    pub fn again(&self, path: &Path) -> Result<Self> {
        match self {
            Self::Local { .. } => open(path),
            Self::Remote(object) => Ok(Self::Remote(object.at(0))),
        }
    }

    /// A name that the store has for the state of the object.
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

/// A whole file of at most `most` bytes.
///
/// # Errors
/// [`Error::Read`] or [`Error::Store`] if it is not there, [`Error::Content`] if it is larger.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    explained(|| {
        let file = open(path)?;
        if file.len() > most {
            let what =
                format!("{} bytes are too many where at most {most} are expected", file.len());
            return Err(Error::content(path, what));
        }
        let mut content = Vec::new();
        let all = file.take(most).read_to_end(&mut content);
        all.map_err(|e| Error::read(path, "read", e)).map(|_| content)
    })
}

/// Whether there is a file or folder.
///
/// # Errors
/// [`Error::Store`] if a store does not tell.
pub fn exists(path: &Path) -> Result<bool> {
    match Location::parse(path)? {
        Some(at) => Ok(is_object(&at)? || !keys_below(&at, |_| false)?.is_empty()),
        None => Ok(path.exists()),
    }
}

/// The files below a folder in the order of their paths, or `None` if `path` is a file. Names that
/// `skips` are passed over, folders of such names with all they hold.
pub(crate) fn list(path: &Path, skips: fn(&str) -> bool) -> Result<Option<Vec<PathBuf>>> {
    let mut files = Vec::new();
    if let Some(at) = Location::parse(path)? {
        if !is_remote_folder(path, &at)? {
            return Ok(None);
        }
        let keys = keys_below(&at, skips)?;
        files.extend(keys.iter().map(|key| PathBuf::from(at.below(key).url)));
        if files.is_empty() && !at.key.as_ref().is_empty() {
            let source = "nothing is below it".into();
            let missing = object_store::Error::NotFound { path: at.key.to_string(), source };
            return Err(explain(&at, "open", &missing));
        }
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

fn is_remote_folder(path: &Path, at: &Location) -> Result<bool> {
    let slash = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    Ok(slash || at.key.as_ref().is_empty() || !is_object(at)?)
}

fn is_object(at: &Location) -> Result<bool> {
    let store = client(at, Purpose::Read)?;
    match runtime()?.block_on(store.head(&at.key)) {
        Ok(_) => Ok(true),
        Err(object_store::Error::NotFound { .. }) => Ok(false),
        Err(e) => Err(explain(at, "open", &e)),
    }
}

/// The objects below a place, level by level.
fn keys_below(at: &Location, skips: fn(&str) -> bool) -> Result<Vec<Key>> {
    let store = client(at, Purpose::Read)?;
    let mut keys = Vec::new();
    let mut waiting = vec![at.key.clone()];
    while let Some(folder) = waiting.pop() {
        let prefix = (!folder.as_ref().is_empty()).then_some(&folder);
        let level = runtime()?.block_on(store.list_with_delimiter(prefix));
        let level = level.map_err(|e| explain(at, "list", &e))?;
        let kept = |key: &Key| *key != folder && !skips(key.filename().unwrap_or_default());
        waiting.extend(level.common_prefixes.into_iter().filter(kept));
        keys.extend(level.objects.into_iter().map(|object| object.location).filter(kept));
    }
    Ok(keys)
}

/// A place in a store that a table is written to.
#[derive(Clone, Debug)]
pub(crate) struct Remote(Location);

/// Written last, so that its presence says that all parts are there.
const SUCCESS: &str = "_SUCCESS";

impl Remote {
    /// The place, if `path` is in a store.
    pub fn of(path: &Path) -> Result<Option<Self>> {
        let at = Location::parse(path)?;
        if at.as_ref().is_some_and(|at| at.key.as_ref().is_empty()) {
            return Err(Error::content(path, "name an object in the bucket, as s3://bucket/key"));
        }
        Ok(at.map(Self))
    }

    /// The names of what is below, relative to here.
    pub fn names(&self) -> Result<Vec<String>> {
        let depth = self.0.key.parts().count();
        let name = |key: &Key| key.parts().skip(depth).map(|p| p.as_ref().to_owned()).collect();
        let names = keys_below(&self.0, |_| false)?.iter().map(name).collect::<Vec<Vec<String>>>();
        Ok(names.iter().map(|parts| parts.join("/")).collect())
    }

    /// Publishes a file.
    pub fn send_file(&self, from: &Path) -> Result<()> {
        upload::send(from, &self.0)
    }

    /// Publishes the files of a folder in the place of those that are there: parts first, what says that
    /// they are complete last.
    pub fn send_folder(&self, files: &[PathBuf]) -> Result<()> {
        let place = |name: &str| {
            let name = name.split('/').fold(self.0.key.clone(), |key, part| key.join(part));
            self.0.below(&name)
        };
        let before = self.names()?;
        upload::delete(&place(SUCCESS))?;
        let name = |file: &PathBuf| file.file_name().map(|n| n.to_string_lossy().into_owned());
        for file in files {
            upload::send(file, &place(&name(file).unwrap_or_default()))?;
        }
        let new: Vec<String> = files.iter().filter_map(name).collect();
        for name in before.iter().filter(|old| *old != SUCCESS && !new.contains(old)) {
            upload::delete(&place(name))?;
        }
        upload::put(&place(SUCCESS), b"")
    }
}

/// Writes a small object, whole or not at all; `false` if `path` is not in a store.
pub(crate) fn put(path: &Path, content: &[u8]) -> Result<bool> {
    match Remote::of(path)? {
        Some(Remote(at)) => upload::put(&at, content).map(|()| true),
        None => Ok(false),
    }
}

/// Whether two places of a store are the same or one is inside the other; `None` unless both are in one.
///
/// # Errors
/// [`Error::Content`] for a place that cannot be.
pub fn overlap(a: &Path, b: &Path) -> Result<Option<bool>> {
    let (Some(a), Some(b)) = (Location::parse(a)?, Location::parse(b)?) else { return Ok(None) };
    Ok(Some(a.holds(&b) || b.holds(&a)))
}
