//! Whether existing output may be replaced or resumed.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use veridical_core::{Error as Core, settings};

use super::partial_path;
use crate::{Error, Result, storage};

/// What to do about an existing output or an unfinished job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfExists {
    /// Leave it alone and report an error.
    #[default]
    Refuse,
    /// Resume an unfinished job.
    Resume,
    /// Start over and replace existing output.
    Force,
}

settings! {
    /// What to do about the existing output of a job that can be resumed.
    pub struct Existing in "Output" {
        /// Resume an unfinished job
        pub resume: bool = false => [switch(), excludes(&["force"])],
        /// Start over and replace existing output
        pub force: bool = false => [switch()],
    }
}

settings! {
    /// What to do about an existing output.
    pub struct Replace in "Output" {
        /// Replace existing output
        pub force: bool = false => [switch()],
    }
}

impl Existing {
    /// Returns the two flags as one choice.
    pub const fn if_exists(&self) -> IfExists {
        match (self.resume, self.force) {
            (true, _) => IfExists::Resume,
            (_, true) => IfExists::Force,
            _ => IfExists::Refuse,
        }
    }
}

impl From<IfExists> for Existing {
    fn from(if_exists: IfExists) -> Self {
        Self { resume: if_exists == IfExists::Resume, force: if_exists == IfExists::Force }
    }
}

/// Creates the error for an output that already exists.
pub fn already(path: &Path) -> Error {
    let hint = "choose another name or replace it with ⟨force⟩";
    Core::exists(format!("{} already exists", path.display()), hint).into()
}

/// Rejects an output that exists or is unfinished; `what` names what is written to `OUTPUT.partial`, such as a run.
///
/// # Errors
/// [`veridical_core::Error::Exists`] names what exists and the remedy.
pub fn refuse_existing(output: &Path, if_exists: IfExists, what: &str) -> Result<()> {
    refuse_unfinished(&partial_path(output), if_exists, what)?;
    if if_exists == IfExists::Refuse && storage::exists(output)? {
        return Err(already(output));
    }
    Ok(())
}

/// The half of [`refuse_existing`] for an unfinished output in `partial`.
pub(crate) fn refuse_unfinished(partial: &Path, if_exists: IfExists, what: &str) -> Result<()> {
    if if_exists == IfExists::Refuse && partial.exists() {
        let what = format!("{} holds an unfinished {what}", partial.display());
        let hint = "continue it with ⟨resume⟩ or start over with ⟨force⟩";
        return Err(Core::exists(what, hint).into());
    }
    Ok(())
}

/// Rejects an output that exists, unless `force` is set.
///
/// # Errors
/// [`veridical_core::Error::Exists`] if the output exists.
pub fn check_new(path: &Path, force: bool) -> Result<()> {
    if !force && storage::exists(path)? { Err(already(path)) } else { Ok(()) }
}

/// The error for something that exists and is not what would be replaced.
pub(crate) fn unlike<T>(path: &Path, what: &str, hint: &str) -> Result<T> {
    Err(Core::exists(format!("{} {what}", path.display()), hint).into())
}

/// Rejects a file that exists, unless `force` is set, and locations that cannot hold a file.
///
/// # Errors
/// [`veridical_core::Error::Exists`] and [`veridical_core::Error::Missing`] name the obstacle.
pub fn check_file(path: &Path, force: bool) -> Result<()> {
    let slash = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    if path.is_dir() || path.file_name().is_none() || slash {
        return unlike(path, "is a folder", "name a file");
    }
    check_place(path, force)
}

/// Rejects a folder that exists, unless `force` is set and it contains nothing but `known`
/// names.
///
/// # Errors
/// The errors of [`check_file`].
pub fn check_folder(path: &Path, force: bool, known: &[&str]) -> Result<()> {
    if path.file_name().is_none() {
        return unlike(path, "cannot be replaced", "name a new folder");
    }
    if path.exists() && !path.is_dir() {
        return unlike(path, "is a file", "name a new folder");
    }
    check_place(path, force)?;
    if path.is_dir() {
        let entries = fs::read_dir(path).map_err(|e| Error::read(path, "list", e))?;
        let foreign = |name: OsString| !known.iter().any(|known| name == **known);
        if entries.flatten().any(|entry| foreign(entry.file_name())) {
            return unlike(
                path,
                "contains files that are not part of an export",
                "choose another name",
            );
        }
    }
    Ok(())
}

fn check_place(path: &Path, force: bool) -> Result<()> {
    if path.exists() && !force {
        return Err(already(path));
    }
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    match parent.filter(|p| !p.is_dir()) {
        Some(parent) => {
            let what = format!("{} does not exist or is not a folder", parent.display());
            Err(Core::missing(what, "create it first").into())
        }
        None => Ok(()),
    }
}
