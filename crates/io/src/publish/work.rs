//! Folders that grow in `OUTPUT.partial/` and can be resumed.
//!
//! The folder has one document, which says from the beginning what the job is; at the end it also has the results. A job is resumed only
//! if its description is the same. Files that begin with `_` are the job's own: they go before the last rename.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use veridical_core::Error as Core;

use super::{IfExists, Lock, partial_path, pretty, put, refuse_existing, unlike};
use crate::write::difference;
use crate::{Error, Result, storage};

/// Section of the document that describes the job.
const JOB: &str = "job";
/// Section that a finished document has.
const RESULT: &str = "result";

/// A folder that is being written.
#[derive(Debug)]
pub struct WorkFolder {
    partial: PathBuf,
    document: &'static str,
    job: Value,
    lock: Lock,
}

/// How a job stands.
#[derive(Debug)]
pub enum Begun {
    /// Nothing is there.
    New(WorkFolder),
    /// Some of it is there.
    Resumed(WorkFolder),
    /// It was finished before; these are its results.
    Finished(Value),
}

/// Rejects an output that no folder could be written to, before any work is done; `document` is the name of its document.
///
/// # Errors
/// [`veridical_core::Error::Exists`] names what exists and the remedy.
pub fn check_work(output: &Path, if_exists: IfExists, document: &str) -> Result<()> {
    if storage::is_remote(output) {
        let what = format!("{}: this output is a local folder", output.display());
        return Err(Core::request(what, "copy it to the store when it is finished").into());
    }
    let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty());
    if output.file_name().is_none() {
        return unlike(output, "cannot be replaced", "name a new folder");
    }
    if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
        let what = format!("{} does not exist or is not a folder", parent.display());
        return Err(Core::missing(what, "create it first").into());
    }
    Lock::refuse_held(output)?;
    check_existing(output, if_exists, document)
}

fn check_existing(output: &Path, if_exists: IfExists, document: &str) -> Result<()> {
    if if_exists == IfExists::Force && output.exists() && !output.join(document).is_file() {
        return unlike(output, "is something else", "choose another name");
    }
    let is_there = if_exists == IfExists::Resume && output.exists();
    if is_there && !partial_path(output).exists() && !output.join(document).is_file() {
        return unlike(output, "is something else", "choose another name");
    }
    refuse_existing(output, if_exists, "job")
}

/// Rejects an output that needs more bytes than its disk has free, where the system tells; `hint` says what to do.
///
/// # Errors
/// [`veridical_core::Error::Request`] with both numbers.
pub fn check_space(output: &Path, bytes: u64, hint: &str) -> Result<()> {
    let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty());
    let Some(free) = free_bytes(parent.unwrap_or(Path::new("."))).filter(|free| *free < bytes)
    else {
        return Ok(());
    };
    let gb = |bytes: u64| bytes as f64 / 1e9;
    let what = format!(
        "{} takes {:.1} GB and {:.1} GB are free on its disk",
        output.display(),
        gb(bytes),
        gb(free)
    );
    Err(Core::request(what, hint).into())
}

#[cfg(unix)]
fn free_bytes(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    found.f_bavail.checked_mul(found.f_frsize)
}

#[cfg(not(unix))]
fn free_bytes(_folder: &Path) -> Option<u64> {
    None
}

impl WorkFolder {
    /// Starts a job, or finds how far it got.
    ///
    /// # Errors
    /// [`veridical_core::Error::Exists`] if an output exists, or if the unfinished job is another one.
    pub fn begin(
        output: &Path,
        document: &'static str,
        job: Value,
        if_exists: IfExists,
    ) -> Result<Begun> {
        check_work(output, if_exists, document)?;
        let partial = partial_path(output);
        let lock = Lock::acquire(output, &partial)?;
        check_existing(output, if_exists, document)?; // again, now that the lock is held
        let resumes = if_exists == IfExists::Resume;
        if resumes && partial.join(document).is_file() {
            let hint = "continue with the first one, or start over with ⟨force⟩";
            let mut found = read(&partial.join(document), &job, hint)?;
            let begun = Self { partial, document, job, lock };
            return Ok(match found.remove(RESULT) {
                // Killed before its last rename.
                Some(result) => {
                    begun.finish()?;
                    Begun::Finished(result)
                }
                None => Begun::Resumed(begun),
            });
        }
        if resumes && output.join(document).is_file() {
            let hint = "choose another name or replace it with ⟨force⟩";
            let mut found = read(&output.join(document), &job, hint)?;
            return Ok(Begun::Finished(found.remove(RESULT).unwrap_or_default()));
        }
        let failed = |e| Error::write(&partial, e);
        super::remove(&partial).map_err(failed)?;
        fs::create_dir(&partial).map_err(failed)?;
        let begun = Self { partial, document, job, lock };
        begun.write(None)?;
        Ok(Begun::New(begun))
    }

    fn write(&self, result: Option<Value>) -> Result<()> {
        let mut all = Map::new();
        all.insert(JOB.into(), self.job.clone());
        all.extend(result.map(|result| (RESULT.to_owned(), result)));
        put(&self.partial.join(self.document), &pretty(&all))
    }

    /// Returns the folder to write to.
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Writes the results and publishes the folder.
    ///
    /// # Errors
    /// [`Error::Write`] if writing fails.
    pub fn publish(self, result: Value) -> Result<()> {
        self.write(Some(result))?;
        self.finish()
    }

    fn finish(mut self) -> Result<()> {
        let entries =
            fs::read_dir(&self.partial).map_err(|e| Error::read(&self.partial, "list", e))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with('_') || name.starts_with('.') {
                super::remove(&path).map_err(|e| Error::write(&path, e))?;
            } else {
                let synced = fs::File::open(&path).and_then(|file| file.sync_all());
                synced.map_err(|e| Error::write(&path, e))?;
            }
        }
        self.lock.publish()
    }

    /// Removes everything written so far, after bad input.
    pub fn abandon(self) {
        let _ = super::remove(&self.partial); // the first error is the one to report
    }
}

/// Reads the document of a folder and checks that it is of the same job.
fn read(path: &Path, job: &Value, hint: &'static str) -> Result<Map<String, Value>> {
    let text = fs::read(path).map_err(|e| Error::read(path, "read", e))?;
    let mut found: Map<String, Value> = serde_json::from_slice(&text).map_err(|e| {
        let what = format!("{}: the document is damaged ({e})", path.display());
        Core::damaged(what, "start over with ⟨force⟩")
    })?;
    let before = found.remove(JOB).unwrap_or_default();
    if let Some((at, before, now)) = difference(&before, job, "") {
        let at = at.trim_start_matches('.');
        let what = format!(
            "{}: this is not the job that was started: {at} was {before} and is now {now}",
            path.parent().unwrap_or(path).display()
        );
        return Err(Core::exists(what, hint).into());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_folder_is_resumed_by_the_same_job_alone_and_published_without_its_own_files() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("k");
        let begin = |job: Value, how: IfExists| WorkFolder::begin(&out, "k.json", job, how);
        let Begun::New(work) = begin(json!({ "a": 1 }), IfExists::Refuse).unwrap() else {
            panic!("nothing is there");
        };
        fs::write(work.path().join("data"), "x").unwrap();
        fs::write(work.path().join("_journal"), "y").unwrap();
        drop(work);
        assert!(begin(json!({ "a": 1 }), IfExists::Refuse).is_err());
        let error = begin(json!({ "a": 2 }), IfExists::Resume).unwrap_err().to_string();
        assert!(error.contains("a was 1 and is now 2"), "{error}");
        let Begun::Resumed(work) = begin(json!({ "a": 1 }), IfExists::Resume).unwrap() else {
            panic!("it was begun");
        };
        work.publish(json!({ "n": 3 })).unwrap();
        assert!(out.join("data").exists() && !out.join("_journal").exists());
        let Begun::Finished(result) = begin(json!({ "a": 1 }), IfExists::Resume).unwrap() else {
            panic!("it was finished");
        };
        assert_eq!(result, json!({ "n": 3 }));
        assert!(begin(json!({ "a": 1 }), IfExists::Refuse).is_err());
        assert!(matches!(begin(json!({ "a": 2 }), IfExists::Force).unwrap(), Begun::New(_)));
        fs::create_dir(folder.path().join("other")).unwrap();
        let other = folder.path().join("other");
        for how in [IfExists::Force, IfExists::Resume, IfExists::Refuse] {
            assert!(check_work(&other, how, "k.json").is_err());
        }
    }
}
