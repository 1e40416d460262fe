//! Files that appear whole.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::{hidden, is_at, is_unsupported, rename};
use crate::{Error, Result, storage};

/// The maximum number of simultaneous writers of one file name.
const MOST_WRITERS: u32 = 1000;

/// A file that is written beside its destination: as `.NAME.tmp`, or `.NAME.K.tmp` while others are being written. It is
/// locked, so that no two writers share one, and so that the next process reuses the leftovers of a killed one.
#[derive(Debug)]
pub(crate) struct Aside {
    path: PathBuf,
    file: File,
    is_published: bool,
}

impl Aside {
    /// Creates an empty file beside `target`.
    pub fn create(target: &Path) -> io::Result<Self> {
        for number in 0..MOST_WRITERS {
            let extension = if number == 0 { "tmp".to_owned() } else { format!("{number}.tmp") };
            let path = hidden(target, &extension);
            loop {
                let mut options = OpenOptions::new();
                let file =
                    options.read(true).write(true).create(true).truncate(false).open(&path)?;
                match file.try_lock() {
                    // Published by its writer after we opened it: not ours to touch.
                    Ok(()) if !is_at(&file, &path) => continue,
                    Err(TryLockError::WouldBlock) => break,
                    Err(TryLockError::Error(e)) if !is_unsupported(&e) => return Err(e),
                    Ok(()) | Err(TryLockError::Error(_)) => {}
                }
                if file.metadata()?.len() > 0 {
                    file.set_len(0)?;
                }
                return Ok(Self { path, file, is_published: false });
            }
        }
        Err(io::Error::other("too many writers of one file"))
    }

    /// The path it is written to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A handle to write through; the lock stays here.
    pub fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Renames the file to `target`, durably; returns its length.
    pub fn publish(mut self, target: &Path) -> io::Result<u64> {
        self.file.sync_all()?;
        let len = self.file.metadata()?.len();
        fs::rename(&self.path, target)?;
        self.is_published = true;
        super::sync_folder(target.parent().unwrap_or(Path::new("")))?;
        Ok(len)
    }
}

impl Drop for Aside {
    /// An unpublished file is removed.
    fn drop(&mut self) {
        if !self.is_published {
            let _ = fs::remove_file(&self.path); // the first error is the one to report
        }
    }
}

/// Writes a file with `write` and publishes it when it is complete; returns its length.
///
/// # Errors
/// [`Error::Write`] if writing fails; nothing is left behind then.
pub fn file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<u64> {
    let whole = || {
        let aside = Aside::create(path)?;
        let mut out = BufWriter::new(aside.handle()?);
        write(&mut out)?;
        drop(out.into_inner().map_err(io::IntoInnerError::into_error)?);
        aside.publish(path)
    };
    whole().map_err(|e| Error::write(path, e))
}

/// Writes a file or an object from memory.
///
/// # Errors
/// [`Error::Write`] if writing to disk fails, [`Error::Store`] if writing to the store does.
pub fn put(path: &Path, content: &[u8]) -> Result<()> {
    if storage::put(path, content)? {
        return Ok(());
    }
    file(path, |out| out.write_all(content)).map(|_len| ())
}

/// Writes the frequently updated progress of a job: like [`put`], but without waiting for the disk. A killed
/// process loses nothing by that; a power failure may.
///
/// # Errors
/// [`Error::Write`] if writing fails.
pub fn note(path: &Path, content: &[u8]) -> Result<()> {
    let whole = || {
        let mut aside = Aside::create(path)?;
        aside.file.write_all(content)?;
        fs::rename(&aside.path, path)?;
        aside.is_published = true;
        Ok(())
    };
    whole().map_err(|e| Error::write(path, e))
}

/// Renames a complete file, durably.
pub(crate) fn finished(from: &Path, to: &Path) -> io::Result<()> {
    File::open(from)?.sync_all()?;
    rename(from, to)
}
