//! Folders that appear whole.

use std::fs;
use std::io;
use std::path::Path;

use super::{Lock, hidden, remove};
use crate::{Error, Result};

/// Fills a folder by `fill`, under its name when it is complete. One that is there is replaced.
///
/// # Errors
/// Those of `fill`, [`Error::Write`] if the disk refuses, and [`veridical_core::Error::Exists`] while another job writes
/// it; nothing is left then.
pub fn folder<E: From<Error>>(
    path: &Path,
    fill: impl FnOnce(&Path) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let aside = hidden(path, "new");
    let failed = |e| Error::write(path, e);
    let mut lock = Lock::acquire(path, &aside).map_err(|e| match e {
        // The user knows the folder by its own name.
        Error::Write { source, .. } => Error::write(path, source),
        other => other,
    })?;
    let whole = || {
        remove(&aside).map_err(failed)?; // of a killed process
        fs::create_dir(&aside).map_err(failed)?;
        fill(&aside)?;
        Ok(lock.publish()?)
    };
    whole().inspect_err(|_| {
        let _ = remove(&aside); // the first error is the one to report
    })
}

/// Creates a folder inside one that is being filled.
///
/// # Errors
/// [`Error::Write`] if the disk refuses.
pub fn subfolder(path: &Path) -> Result<()> {
    fs::create_dir(path).map_err(|e| Error::write(path, e))
}

/// Lets two folders change their names in one step; false where the file system has no such step.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
pub(super) fn exchange(a: &Path, b: &Path) -> io::Result<bool> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;

    match renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(Errno::NOSYS | Errno::INVAL | Errno::NOTSUP) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
pub(super) fn exchange(_a: &Path, _b: &Path) -> io::Result<bool> {
    Ok(false)
}
