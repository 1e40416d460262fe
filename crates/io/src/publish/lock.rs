//! One writer per output, and the step that publishes the output.
//!
//! `.OUTPUT.lock` is locked by the operating system as long as its writer lives, and removed by the writer. When an existing
//! folder is replaced, it records which folder is the new one: a process that finds it can tell whether a killed process
//! had exchanged the two, and removes the old folder that was left under the name of the unfinished one.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use veridical_core::Error as Core;

use super::folder::exchange;
use super::{hidden, is_at, is_unsupported, remove, sync_folder};
use crate::{Error, Result};

/// The exclusive right to write an output, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    output: PathBuf,
    /// The path at which the output is written.
    aside: PathBuf,
    path: PathBuf,
    file: File,
}

impl Lock {
    /// Acquires the lock on `output`, which is written at `aside`, in the same folder. A replacement that a killed process left
    /// incomplete is completed.
    ///
    /// # Errors
    /// [`veridical_core::Error::Exists`] while another job holds the lock, [`Error::Write`] if writing fails.
    pub fn acquire(output: &Path, aside: &Path) -> Result<Self> {
        Self::acquire_as(output, aside, output)
    }

    /// [`acquire`](Self::acquire) for an output that the user knows as `shown`.
    pub(crate) fn acquire_as(output: &Path, aside: &Path, shown: &Path) -> Result<Self> {
        let failed = |e| Error::write(aside, e);
        let path = hidden(output, "lock");
        let file = loop {
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false).open(&path);
            let file = file.map_err(failed)?;
            match file.try_lock() {
                Ok(()) if !is_at(&file, &path) => {} // removed by its previous holder
                Err(TryLockError::WouldBlock) => return Err(held(shown)),
                Err(TryLockError::Error(e)) if !is_unsupported(&e) => return Err(failed(e)),
                Ok(()) | Err(TryLockError::Error(_)) => break file,
            }
        };
        let mut lock = Self { output: output.to_owned(), aside: aside.to_owned(), path, file };
        lock.settle().map_err(failed)?;
        Ok(lock)
    }

    /// Rejects an output that another job is writing, without touching anything.
    ///
    /// # Errors
    /// [`veridical_core::Error::Exists`] if another job holds the lock.
    pub fn refuse_held(output: &Path) -> Result<()> {
        Self::refuse_held_as(output, output)
    }

    pub(crate) fn refuse_held_as(output: &Path, shown: &Path) -> Result<()> {
        let Ok(file) = File::open(hidden(output, "lock")) else { return Ok(()) };
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Err(held(shown)),
            _ => Ok(()),
        }
    }

    /// Renames the finished output to its final name, durably; an existing output stays until that moment and is then removed.
    ///
    /// # Errors
    /// [`Error::Write`] if writing fails.
    pub fn publish(&mut self) -> Result<()> {
        let whole = |lock: &mut Self| {
            sync_folder(&lock.aside)?;
            match fs::symlink_metadata(&lock.output) {
                Ok(_) => lock.replace(),
                Err(_) => fs::rename(&lock.aside, &lock.output),
            }?;
            sync_folder(lock.output.parent().unwrap_or(Path::new("")))
        };
        whole(self).map_err(|e| Error::write(&self.output, e))
    }

    fn replace(&mut self) -> io::Result<()> {
        self.file.rewind()?;
        self.file.write_all(identity(&self.aside).unwrap_or_default().as_bytes())?;
        if exchange(&self.aside, &self.output)? {
            return self.discard(&self.aside);
        }
        // `settle` restores the old folder if the second rename does not happen.
        let old = hidden(&self.output, "old");
        remove(&old)?;
        fs::rename(&self.output, &old)?;
        fs::rename(&self.aside, &self.output)?;
        self.discard(&old)
    }

    /// Finishes a replacement that was started by a dead process.
    fn settle(&mut self) -> io::Result<()> {
        let mut new = String::new();
        self.file.read_to_string(&mut new)?;
        remove(&self.trash())?;
        if new.is_empty() {
            return Ok(());
        }
        let old = hidden(&self.output, "old");
        if !self.output.exists() && old.exists() {
            fs::rename(&old, &self.output)?;
        } else if identity(&self.output).is_some_and(|output| output == new) {
            self.discard(&old)?;
            self.discard(&self.aside)?;
        }
        self.file.set_len(0)
    }

    /// Removes a folder, renaming it first, so that a half-removed one is never mistaken for an unfinished job.
    pub(crate) fn discard(&self, folder: &Path) -> io::Result<()> {
        let trash = self.trash();
        remove(&trash)?;
        match fs::rename(folder, &trash) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
            Ok(()) => remove(&trash),
        }
    }

    fn trash(&self) -> PathBuf {
        hidden(&self.output, "trash")
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path); // before unlocking; a leftover file is reused
    }
}

fn held(output: &Path) -> Error {
    let what = format!("{} is being written by another job", output.display());
    Core::exists(what, "wait for it or choose another name").into()
}

/// What identifies a folder, whatever its name.
#[cfg(unix)]
fn identity(folder: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;

    let found = fs::symlink_metadata(folder).ok()?;
    Some(format!("{}:{}", found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(_folder: &Path) -> Option<String> {
    None
}
