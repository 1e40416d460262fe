//! `manifest.json`: what a version is, and every file of it with size and digest.

use std::path::{Component, Path};

use parquet::file::reader::Length;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use veridical_core::Error as Core;

use super::MAX_MANIFEST;
use crate::{Error, Result, publish, storage};

/// The value of `format`.
pub const FORMAT: &str = "veridical-refresh/2";
/// The name of the manifest in a version.
pub const MANIFEST: &str = "manifest.json";
/// Marks a version as complete: written after every file of the manifest was read back.
pub const SUCCESS: &str = "_SUCCESS";

/// A file of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// The path inside the version, with slashes.
    pub path: String,
    /// The size in bytes.
    pub bytes: u64,
    /// `blake3:` and the hash of every byte.
    pub digest: String,
}

/// The manifest of a version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: String,
    /// The version: a date or a number.
    pub version: String,
    /// The date of the table, if one was given.
    pub date: Option<String>,
    /// Whether vectors were published.
    pub published: bool,
    /// The place in the order of publication, from 1.
    pub sequence: u64,
    /// The version that was current before.
    pub previous: Option<String>,
    /// The coordinate frame: the fingerprint of the reference.
    pub frame: String,
    /// The number of rows.
    pub rows: u64,
    /// The dimension of the published vectors.
    pub dim: u64,
    /// The number type of the published vectors.
    pub dtype: String,
    /// The id of the feature spec, if features were published.
    pub spec_id: Option<String>,
    /// The id of the alignment map.
    pub map_id: Option<String>,
    /// Whether all limits passed; null without limits.
    pub passed: Option<bool>,
    /// The outcome of every limit.
    pub gates: Value,
    /// Every other file of the version.
    pub files: Vec<FileEntry>,
    /// What else is known: measures, verdict, inputs, the program.
    #[serde(flatten)]
    pub details: Map<String, Value>,
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it is damaged, [`Error::Content`] if it has another format.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = storage::read(path, MAX_MANIFEST)?;
        let document: Value =
            serde_json::from_slice(&bytes).map_err(|e| Error::malformed(path, "manifest", e))?;
        match document.get("format").and_then(Value::as_str) {
            Some(FORMAT) => {}
            found => {
                let found = found.unwrap_or("no format");
                let what = format!("has {found} where `{FORMAT}` is expected");
                return Err(Error::content(path, what));
            }
        }
        serde_json::from_value(document).map_err(|e| Error::malformed(path, "manifest", e))
    }

    /// Returns the text of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        publish::pretty(self)
    }
}

/// Returns the digest of some bytes.
pub fn digest(bytes: &[u8]) -> String {
    format!("blake3:{}", blake3::hash(bytes).to_hex())
}

impl FileEntry {
    /// Reads a whole file of a version.
    ///
    /// # Errors
    /// [`Error::Read`] if it cannot be read.
    pub fn of(folder: &Path, path: &str) -> Result<Self> {
        let at = folder.join(path);
        let mut file = storage::open(&at)?;
        let bytes = file.len();
        let mut hasher = blake3::Hasher::new();
        std::io::copy(&mut file, &mut hasher).map_err(|e| Error::read(&at, "read", e))?;
        let digest = format!("blake3:{}", hasher.finalize().to_hex());
        Ok(Self { path: path.to_owned(), bytes, digest })
    }

    /// Reads all files of a version but the manifest itself.
    ///
    /// # Errors
    /// [`Error::Read`] if one cannot be read.
    pub fn all_of(folder: &Path) -> Result<Vec<Self>> {
        names(folder)?.iter().map(|name| Self::of(folder, name)).collect()
    }
}

/// The files of a version that a manifest lists, with slashes.
fn names(folder: &Path) -> Result<Vec<String>> {
    let skips = |name: &str| name.starts_with(['_', '.']) || name.ends_with(".crc");
    let files = storage::list(folder, skips)?.unwrap_or_default();
    let name = |path: &Path| {
        let parts = path.strip_prefix(folder).unwrap_or(path).components();
        let parts: Vec<String> =
            parts.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        parts.join("/")
    };
    let names = files.iter().map(|path| name(path));
    Ok(names.filter(|name| name != MANIFEST).collect())
}

/// Reads every file of a version and compares it with the manifest, which is returned.
///
/// # Errors
/// [`veridical_core::Error::Damaged`] names the first file that is missing, truncated, changed or unknown.
pub fn verify(folder: &Path) -> Result<Manifest> {
    let damaged = |path: &str, what: String| {
        let what = format!("{}: {what}", folder.join(path).display());
        let hint =
            "publish this version again with ⟨force⟩, or go back with `veridical refresh rollback`";
        Err(Core::damaged(what, hint).into())
    };
    let manifest = Manifest::read(&folder.join(MANIFEST))?;
    for entry in &manifest.files {
        let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !Path::new(&entry.path).components().all(is_inside) {
            return damaged(MANIFEST, format!("lists `{}`, which is outside", entry.path));
        }
        if !storage::exists(&folder.join(&entry.path))? {
            return damaged(&entry.path, "is missing".into());
        }
        let found = FileEntry::of(folder, &entry.path)?;
        if found.bytes != entry.bytes {
            let what = format!("has {} bytes where the manifest has {}", found.bytes, entry.bytes);
            return damaged(&entry.path, what);
        }
        if found.digest != entry.digest {
            return damaged(
                &entry.path,
                "has changed: its digest is not that of the manifest".into(),
            );
        }
    }
    let is_listed = |name: &String| manifest.files.iter().any(|entry| entry.path == *name);
    match names(folder)?.into_iter().find(|name| !is_listed(name)) {
        Some(name) => damaged(&name, "is not in the manifest".into()),
        None => Ok(manifest),
    }
}
