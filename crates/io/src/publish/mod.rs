//! Publishes output whole or not at all, durably, and by one writer at a time.
//!
//! - [`file()`], [`put`]: a file is written as `.NAME.tmp` beside its destination and published by one rename.
//! - [`folder`]: a folder is written as `.NAME.new` and published in the same way.
//! - [`Lock`]: an output that takes long is written to `OUTPUT.partial` and can be resumed. One job at a time writes
//!   it; the lock is the operating system's, so a killed job does not hold it.
//! - [`WorkFolder`]: a folder that grows in `OUTPUT.partial` and says from the beginning what it will be.
//! - [`Hold`]: the lock itself, which names its holder.
//! - [`protect`]: no output is ever one of the inputs.
//! - [`refuse_existing`], [`check_file`], [`check_folder`]: existing output is left alone unless the user says otherwise.
//!
//! A folder replaces an existing one by one exchange of the two names (renameat2(2), `RENAME_EXCHANGE`): at
//! every moment a reader finds the old or the new one. Files and the folder that contains them are flushed to disk
//! before and after the rename.
//!
//! ```
//! use veridical_io::publish;
//!
//! let dir = tempfile::tempdir()?;
//! publish::put(&dir.path().join("a.json"), b"{}\n")?;
//! publish::folder(&dir.path().join("all"), |folder| publish::put(&folder.join("b.json"), b"[]\n"))?;
//! assert_eq!(std::fs::read(dir.path().join("all/b.json"))?, b"[]\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod exists;
mod file;
mod folder;
mod hold;
mod lock;
mod outputs;
mod work;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

pub use self::exists::{
    Existing, IfExists, Replace, already, check_file, check_folder, check_new, refuse_existing,
};
pub(crate) use self::exists::{refuse_unfinished, unlike};
pub(crate) use self::file::{Aside, finished};
pub use self::file::{file, note, put};
pub use self::folder::{folder, subfolder};
pub use self::hold::{Hold, Holder, host_name};
pub use self::lock::Lock;
pub use self::outputs::{METRICS, PAGE, SUMMARY, protect, real_path};
pub use self::work::{Begun, WorkFolder, check_space, check_work};

/// Returns `NAME.partial`, beside the output: the path of an unfinished output that can be resumed.
pub fn partial_path(output: &Path) -> PathBuf {
    let mut name = output.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    output.with_file_name(name)
}

/// `.NAME.EXTENSION`, beside `path`: readers of folders skip such names.
pub(crate) fn hidden(path: &Path, extension: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".");
    name.push(extension);
    path.with_file_name(name)
}

/// Whether an open file is still the one at `path`: it may have been renamed or removed meanwhile.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    match (file.metadata(), fs::metadata(path)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    path.exists()
}

/// A document as the text of a file.
///
/// # Panics
/// If a map has keys that are not text.
pub fn pretty(document: &impl serde::Serialize) -> Vec<u8> {
    // INVARIANT: numbers, text, lists and maps with text as keys always serialize.
    let mut text = serde_json::to_vec_pretty(document).expect("a document serializes");
    text.push(b'\n');
    text
}

/// Flushes the entries of a folder to disk, where the file system supports it.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(e) if is_unsupported(&e) || e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        done => done,
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput)
}

/// Renames, durably.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    sync_folder(to.parent().unwrap_or(Path::new("")))
}

/// Removes a file or a folder, if it exists.
///
/// # Errors
/// The error of removing.
pub fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(kind) if kind.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(e) => Err(e),
    };
    match removed {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Removes a folder, renaming it to `trash` first, so that a half-removed one is never mistaken for a whole one.
pub(crate) fn discard(folder: &Path, trash: &Path) -> io::Result<()> {
    remove(trash)?;
    match fs::rename(folder, trash) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
        Ok(()) => remove(trash),
    }
}

#[cfg(test)]
mod tests;
