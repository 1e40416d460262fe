//! Folders that appear whole.

use std::fs;
use std::io;
use std::path::Path;

use super::{Lock, hidden, remove};
use crate::{Error, Result};

/// Fills a folder with `fill` and publishes it when it is complete, replacing an existing one.
///
/// # Errors
/// The errors of `fill`, [`Error::Write`] if writing fails, and [`veridical_core::Error::Exists`] while another job writes
/// to the folder; nothing is left behind then.
pub fn folder<E: From<Error>>(
    path: &Path,
    fill: impl FnOnce(&Path) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let aside = hidden(path, "new");
    let failed = |e| Error::write(path, e);
    let mut lock = Lock::acquire(path, &aside).map_err(|e| match e {
        // Report the folder under the name the user knows.
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
/// [`Error::Write`] if writing fails.
pub fn subfolder(path: &Path) -> Result<()> {
    fs::create_dir(path).map_err(|e| Error::write(path, e))
}

/// Exchanges the names of two folders atomically; false if the file system does not support it.
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
