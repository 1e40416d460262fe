//! Files and folders that appear whole or not at all: written aside as `.NAME.tmp`, then renamed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Refuses a file that is there already, unless `force` is set, and places where none can be.
///
/// # Errors
/// [`Error::Usage`] says what is in the way.
pub fn check_file(path: &Path, force: bool) -> Result<()> {
    let slash = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    if path.is_dir() || path.file_name().is_none() || slash {
        return refused(path, "is a folder; name a file");
    }
    check_place(path, force)
}

/// Refuses a folder that is there already, unless `force` is set and it holds nothing but `known`
/// names.
///
/// # Errors
/// [`Error::Usage`] says what is in the way.
pub fn check_folder(path: &Path, force: bool, known: &[&str]) -> Result<()> {
    if path.file_name().is_none() {
        return refused(path, "cannot be replaced; name a new folder");
    }
    if path.exists() && !path.is_dir() {
        return refused(path, "is a file; name a new folder");
    }
    check_place(path, force)?;
    if path.is_dir() {
        let entries = fs::read_dir(path).map_err(|e| Error::read(path, "list", e))?;
        let foreign = |name: OsString| !known.iter().any(|known| name == **known);
        if entries.flatten().any(|entry| foreign(entry.file_name())) {
            return refused(path, "holds files that are not of an export; choose another name");
        }
    }
    Ok(())
}

fn check_place(path: &Path, force: bool) -> Result<()> {
    if path.exists() && !force {
        return refused(path, "exists already; choose another name or replace it with --force");
    }
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    match parent.filter(|p| !p.is_dir()) {
        Some(parent) => refused(parent, "does not exist or is no folder; create it first"),
        None => Ok(()),
    }
}

fn refused<T>(path: &Path, what: &str) -> Result<T> {
    Err(Error::Usage(format!("{} {what}", path.display())))
}

/// Writes a file by `write`, under its name when it is complete; its length.
///
/// # Errors
/// [`Error::Content`] if the disk refuses; nothing is left then.
pub fn file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<u64> {
    let aside = aside(path);
    let whole = || {
        let mut out = BufWriter::new(File::create(&aside)?);
        write(&mut out)?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        let len = file.metadata()?.len();
        fs::rename(&aside, path)?;
        Ok(len)
    };
    whole().map_err(|e| {
        let _ = fs::remove_file(&aside); // the first error is the one to report
        cannot_write(path, e)
    })
}

/// Fills a folder by `fill`, under its name when it is complete. One that is there is replaced.
///
/// # Errors
/// Those of `fill`, and [`Error::Content`] if the disk refuses; nothing is left then.
pub fn folder<E: From<Error>>(
    path: &Path,
    fill: impl FnOnce(&Path) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let aside = aside(path);
    let whole = || {
        if aside.exists() {
            fs::remove_dir_all(&aside).map_err(|e| cannot_write(&aside, e))?; // of a killed process
        }
        fs::create_dir(&aside).map_err(|e| cannot_write(path, e))?;
        fill(&aside)?;
        if path.is_dir() {
            fs::remove_dir_all(path).map_err(|e| cannot_write(path, e))?;
        }
        Ok(fs::rename(&aside, path).map_err(|e| cannot_write(path, e))?)
    };
    whole().inspect_err(|_| {
        let _ = fs::remove_dir_all(&aside); // the first error is the one to report
    })
}

/// Writes a file that is in memory.
///
/// # Errors
/// [`Error::Content`] if the disk refuses.
pub fn put(path: &Path, content: &[u8]) -> Result<()> {
    file(path, |out| out.write_all(content)).map(|_len| ())
}

/// Creates a folder inside one that is being filled.
///
/// # Errors
/// [`Error::Content`] if the disk refuses.
pub fn subfolder(path: &Path) -> Result<()> {
    fs::create_dir(path).map_err(|e| cannot_write(path, e))
}

/// Without the remedy of tables, which are resumed.
fn cannot_write(path: &Path, source: io::Error) -> Error {
    Error::content(path, format!("cannot write: {source}"))
}

fn aside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".tmp");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_leaves_nothing_and_keeps_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        put(&old, b"precious").unwrap();
        for path in [&old, &new] {
            let failed = file(path, |out| {
                out.write_all(b"half")?;
                Err(io::Error::other("no more"))
            });
            let message = format!("{}: cannot write: no more", path.display());
            assert_eq!(failed.unwrap_err().to_string(), message);
        }
        let failed = folder(&new, |aside| {
            put(&aside.join("half"), b"")?;
            Err(Error::Usage("no".into()))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&old).unwrap(), b"precious");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_with_other_files_is_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let fill = |aside: &Path| put(&aside.join("a"), b"1");
        folder(&path, fill).unwrap();
        assert!(check_folder(&path, false, &["a"]).is_err());
        check_folder(&path, true, &["a"]).unwrap();
        folder(&path, fill).unwrap();
        put(&path.join("b"), b"precious").unwrap();
        let message = check_folder(&path, true, &["a"]).unwrap_err().to_string();
        let end = "holds files that are not of an export; choose another name";
        assert_eq!(message, format!("{} {end}", path.display()));
    }
}
