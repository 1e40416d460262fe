//! Locations in a store as files and folders: listing and publishing.

use std::path::{Path, PathBuf};

use object_store::ObjectStoreExt;
use object_store::path::Path as Key;
use veridical_core::Cancel;

use super::location::Location;
use super::store::{Purpose, client, explain, runtime};
use super::upload;
use crate::{Error, Result};

impl Location {
    /// Whether an object exists here, or any below.
    pub(super) fn exists(&self) -> Result<bool> {
        Ok(is_object(self)? || !keys_below(self, |_| false)?.is_empty())
    }

    /// The objects below, or `None` if `path`, as this location was written, is an object itself.
    pub(super) fn list(
        &self,
        path: &Path,
        skips: fn(&str) -> bool,
    ) -> Result<Option<Vec<PathBuf>>> {
        if !is_remote_folder(path, self)? {
            return Ok(None);
        }
        let keys = keys_below(self, skips)?;
        if keys.is_empty() && !self.key.as_ref().is_empty() {
            let source = "nothing is below it".into();
            let missing = object_store::Error::NotFound { path: self.key.to_string(), source };
            return Err(explain(self, "open", &missing));
        }
        Ok(Some(keys.iter().map(|key| PathBuf::from(self.below(key).url)).collect()))
    }
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

/// The objects below a location, level by level.
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

/// A location in a store that a table is written to.
#[derive(Clone, Debug)]
pub(crate) struct Remote(Location);

/// Written last: its presence means that all parts are complete.
const SUCCESS: &str = "_SUCCESS";

impl Remote {
    /// The location, if `path` is in a store.
    pub fn of(path: &Path) -> Result<Option<Self>> {
        let at = Location::parse(path)?;
        if at.as_ref().is_some_and(|at| at.key.as_ref().is_empty()) {
            return Err(Error::content(path, "name an object in the bucket, as s3://bucket/key"));
        }
        Ok(at.map(Self))
    }

    /// Writes a small object.
    pub fn put(&self, content: &[u8]) -> Result<()> {
        upload::put(&self.0, content)
    }

    /// The names of the objects below, relative to here.
    pub fn names(&self) -> Result<Vec<String>> {
        let depth = self.0.key.parts().count();
        let name = |key: &Key| key.parts().skip(depth).map(|p| p.as_ref().to_owned()).collect();
        let names = keys_below(&self.0, |_| false)?.iter().map(name).collect::<Vec<Vec<String>>>();
        Ok(names.iter().map(|parts| parts.join("/")).collect())
    }

    /// Publishes a file.
    pub fn send_file(&self, from: &Path, cancel: &Cancel) -> Result<()> {
        upload::send(from, &self.0, cancel)
    }

    /// Publishes the files of a folder in place of the existing ones: parts first, the completion marker
    /// last.
    pub fn send_folder(&self, files: &[PathBuf], cancel: &Cancel) -> Result<()> {
        let place = |name: &str| {
            let name = name.split('/').fold(self.0.key.clone(), |key, part| key.join(part));
            self.0.below(&name)
        };
        let before = self.names()?;
        upload::delete(&place(SUCCESS))?;
        let name = |file: &PathBuf| file.file_name().map(|n| n.to_string_lossy().into_owned());
        for file in files {
            upload::send(file, &place(&name(file).unwrap_or_default()), cancel)?;
        }
        let new: Vec<String> = files.iter().filter_map(name).collect();
        for name in before.iter().filter(|old| *old != SUCCESS && !new.contains(old)) {
            upload::delete(&place(name))?;
        }
        upload::put(&place(SUCCESS), b"")
    }
}
