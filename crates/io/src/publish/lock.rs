//! One writer per output, and the step that publishes the output.
//!
//! `.OUTPUT.lock` is a [`Hold`]. When an existing folder is replaced, its note says which folder is the new one: a process
//! that finds it can tell whether a killed process had exchanged the two, and removes the old folder that was left under the
//! name of the unfinished one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::folder::exchange;
use super::{Hold, discard, hidden, remove, sync_folder};
use crate::{Error, Result};

/// The exclusive right to write an output, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    output: PathBuf,
    /// The path at which the output is written.
    aside: PathBuf,
    hold: Hold,
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
        let hold = Hold::acquire(&hidden(output, "lock"), shown).map_err(|e| match e {
            // Report the folder under the name the user knows.
            Error::Write { source, .. } => Error::write(aside, source),
            other => other,
        })?;
        let mut lock = Self { output: output.to_owned(), aside: aside.to_owned(), hold };
        lock.settle().map_err(|e| Error::write(aside, e))?;
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
        Hold::refuse_held(&hidden(output, "lock"), shown)
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
        self.hold.leave(&identity(&self.aside).unwrap_or_default())?;
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
        let new = self.hold.note().to_owned();
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
        self.hold.leave("")
    }

    /// Removes a folder, renaming it first, so that a half-removed one is never mistaken for an unfinished job.
    pub(crate) fn discard(&self, folder: &Path) -> io::Result<()> {
        discard(folder, &self.trash())
    }

    fn trash(&self) -> PathBuf {
        hidden(&self.output, "trash")
    }
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
