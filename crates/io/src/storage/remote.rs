//! Locations in a store as files and folders: listing and publishing.

use std::path::{Path, PathBuf};

use object_store::path::Path as Key;
use object_store::{ObjectStoreExt, PutMode, UpdateVersion};
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

    /// The names of the objects and folders one level below.
    pub(super) fn children(&self) -> Result<Vec<String>> {
        let store = client(self, Purpose::Read)?;
        let prefix = (!self.key.as_ref().is_empty()).then_some(&self.key);
        let level = runtime()?.block_on(store.list_with_delimiter(prefix));
        let level = level.map_err(|e| explain(self, "list", &e))?;
        let objects = level.objects.into_iter().map(|object| object.location);
        let names = level.common_prefixes.into_iter().chain(objects);
        Ok(names.filter_map(|key| key.filename().map(str::to_owned)).collect())
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

/// What identifies a state of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tag {
    e_tag: Option<String>,
    version: Option<String>,
}

/// A small object and its state.
#[derive(Clone, Debug)]
pub(crate) struct Tagged {
    pub content: Vec<u8>,
    pub tag: Tag,
}

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

    /// Reads a small object and what identifies its state; `None` if it does not exist.
    pub fn read_tagged(&self, most: u64) -> Result<Option<Tagged>> {
        let store = client(&self.0, Purpose::Read)?;
        let failed = |e| explain(&self.0, "read", &e);
        let got = async {
            let got = store.get(&self.0.key).await?;
            let tag = Tag { e_tag: got.meta.e_tag.clone(), version: got.meta.version.clone() };
            let size = got.meta.size;
            let bytes = if size > most { None } else { Some(got.bytes().await?) };
            Ok((size, tag, bytes))
        };
        match runtime()?.block_on(got) {
            Ok((_, tag, Some(bytes))) => Ok(Some(Tagged { content: bytes.to_vec(), tag })),
            Ok((size, ..)) => {
                let what = format!("{size} bytes, expected at most {most}");
                Err(Error::content(&self.0.url, what))
            }
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(failed(e)),
        }
    }

    /// Writes a small object if its state is still `before`, or if it does not exist for `None`; `false` otherwise.
    pub fn put_if_unchanged(&self, content: &[u8], before: Option<&Tag>) -> Result<bool> {
        let mode = match before {
            None => PutMode::Create,
            Some(Tag { e_tag, version }) => {
                PutMode::Update(UpdateVersion { e_tag: e_tag.clone(), version: version.clone() })
            }
        };
        match upload::put_opts(&self.0, content, mode)? {
            true => Ok(true),
            // A request that was repeated after a lost answer finds its own object.
            false => Ok(self.read_tagged(1 << 20)?.is_some_and(|now| now.content == content)),
        }
    }

    /// Deletes the object.
    pub fn remove(&self) -> Result<()> {
        upload::delete(&self.0)
    }

    /// Deletes the object, or all objects below: the completion marker first.
    pub fn remove_all(&self) -> Result<()> {
        upload::delete(&self.place(SUCCESS))?;
        for name in self.names()? {
            upload::delete(&self.place(&name))?;
        }
        upload::delete(&self.0)
    }

    /// The location of an object below.
    fn place(&self, name: &str) -> Location {
        let name = name.split('/').fold(self.0.key.clone(), |key, part| key.join(part));
        self.0.below(&name)
    }

    /// Publishes a folder with all folders in it, in place of the existing objects but those named in `keeps`: the
    /// completion marker is removed first and written last.
    pub fn send_tree(&self, from: &Path, keeps: &[&str], cancel: &Cancel) -> Result<()> {
        let files = super::list(from, |name| name.starts_with('.'))?.unwrap_or_default();
        let name = |file: &PathBuf| {
            let parts = file.strip_prefix(from).unwrap_or(file).components();
            let parts: Vec<String> =
                parts.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
            parts.join("/")
        };
        let before = self.names()?;
        upload::delete(&self.place(SUCCESS))?;
        let names: Vec<String> = files.iter().map(name).collect();
        for (file, name) in files.iter().zip(&names).filter(|(_, name)| *name != SUCCESS) {
            upload::send(file, &self.place(name), cancel)?;
        }
        let is_kept = |name: &str| name == SUCCESS || keeps.contains(&name);
        for name in before.iter().filter(|old| !is_kept(old) && !names.contains(old)) {
            upload::delete(&self.place(name))?;
        }
        match names.iter().any(|name| name == SUCCESS) {
            true => upload::put(&self.place(SUCCESS), b""),
            false => Ok(()),
        }
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
        let before = self.names()?;
        upload::delete(&self.place(SUCCESS))?;
        let name = |file: &PathBuf| file.file_name().map(|n| n.to_string_lossy().into_owned());
        for file in files {
            upload::send(file, &self.place(&name(file).unwrap_or_default()), cancel)?;
        }
        let new: Vec<String> = files.iter().filter_map(name).collect();
        for name in before.iter().filter(|old| *old != SUCCESS && !new.contains(old)) {
            upload::delete(&self.place(name))?;
        }
        upload::put(&self.place(SUCCESS), b"")
    }
}
