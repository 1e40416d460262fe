//! What is there already, and whether it may be touched.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use veridical_core::{Error as Core, settings};

use super::partial_path;
use crate::{Error, Result, storage};

/// What to do about an earlier output or an unfinished job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfExists {
    /// Leave it alone and say so.
    #[default]
    Refuse,
    /// Go on with an unfinished job.
    Resume,
    /// Start over and replace what is there.
    Force,
}

settings! {
    /// What to do about an earlier output of a job that can be continued.
    pub struct Existing in "Output" {
        /// Continue an unfinished job
        pub resume: bool = false => [switch(), excludes(&["force"])],
        /// Start over and replace what is there
        pub force: bool = false => [switch()],
    }
}

settings! {
    /// What to do about an earlier output.
    pub struct Replace in "Output" {
        /// Replace what is there
        pub force: bool = false => [switch()],
    }
}

impl Existing {
    /// The two as one.
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

/// The refusal of an output that is there.
pub fn already(path: &Path) -> Error {
    let hint = "choose another name or replace it with ⟨force⟩";
    Core::exists(format!("{} exists already", path.display()), hint).into()
}

/// Refuses an output that is there, or begun: `what` is what grows in `OUTPUT.partial`, such as a run.
///
/// # Errors
/// [`veridical_core::Error::Exists`] says what is there and what to do.
pub fn refuse_existing(output: &Path, if_exists: IfExists, what: &str) -> Result<()> {
    refuse_unfinished(&partial_path(output), if_exists, what)?;
    if if_exists == IfExists::Refuse && storage::exists(output)? {
        return Err(already(output));
    }
    Ok(())
}

/// The half of [`refuse_existing`] for an output that grows in `partial`.
pub(crate) fn refuse_unfinished(partial: &Path, if_exists: IfExists, what: &str) -> Result<()> {
    if if_exists == IfExists::Refuse && partial.exists() {
        let what = format!("{} holds an unfinished {what}", partial.display());
        let hint = "continue it with ⟨resume⟩ or start over with ⟨force⟩";
        return Err(Core::exists(what, hint).into());
    }
    Ok(())
}

/// Refuses an output that is there, unless `force` is set.
///
/// # Errors
/// [`veridical_core::Error::Exists`].
pub fn check_new(path: &Path, force: bool) -> Result<()> {
    if !force && storage::exists(path)? { Err(already(path)) } else { Ok(()) }
}

/// The refusal of something that is there and is not what would be replaced.
pub(crate) fn unlike<T>(path: &Path, what: &str, hint: &str) -> Result<T> {
    Err(Core::exists(format!("{} {what}", path.display()), hint).into())
}

/// Refuses a file that is there already, unless `force` is set, and places where none can be.
///
/// # Errors
/// [`veridical_core::Error::Exists`] and [`veridical_core::Error::Missing`] say what is in the way.
pub fn check_file(path: &Path, force: bool) -> Result<()> {
    let slash = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    if path.is_dir() || path.file_name().is_none() || slash {
        return unlike(path, "is a folder", "name a file");
    }
    check_place(path, force)
}

/// Refuses a folder that is there already, unless `force` is set and it holds nothing but `known`
/// names.
///
/// # Errors
/// As [`check_file`].
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
            return unlike(path, "holds files that are not of an export", "choose another name");
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
            let what = format!("{} does not exist or is no folder", parent.display());
            Err(Core::missing(what, "create it first").into())
        }
        None => Ok(()),
    }
}
