//! A file that only grows, and that can be truncated to its valid length.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use veridical_core::Error as Core;

use super::Continue;
use crate::{Error, Result};

/// Appends to a file and counts bytes.
#[derive(Debug)]
pub(super) struct Append {
    path: PathBuf,
    file: BufWriter<File>,
    /// Length of the file once everything is flushed.
    len: u64,
}

impl Append {
    /// Opens a new file, or an old one truncated to `from`.
    pub fn open(path: &Path, from: Option<&Continue<'_>>) -> Result<Self> {
        Self::open_at(path, from.map(|from| from.bytes))
    }

    /// Opens a new file, or an old one truncated to `len` bytes.
    pub fn open_at(path: &Path, len: Option<u64>) -> Result<Self> {
        let failed = |e| Error::write(path, e);
        let mut file = OpenOptions::new()
            .write(true)
            .create(len.is_none())
            .truncate(len.is_none())
            .open(path)
            .map_err(failed)?;
        let len = len.unwrap_or(0);
        let there = file.metadata().map_err(failed)?.len();
        if there < len {
            let what = format!(
                "{}: the file has {there} bytes but the journal says {len}",
                path.display()
            );
            return Err(Core::damaged(what, "start over with ⟨force⟩").into());
        }
        file.set_len(len).map_err(failed)?;
        file.seek(SeekFrom::Start(len)).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file: BufWriter::with_capacity(1 << 18, file), len })
    }

    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_all(bytes).map_err(|e| Error::write(&self.path, e))
    }

    /// Flushes everything to the operating system; returns the length of the file.
    pub fn flushed(&mut self) -> Result<u64> {
        self.file.flush().map_err(|e| Error::write(&self.path, e))?;
        Ok(self.len)
    }

    /// Overwrites the start of the file.
    pub fn put_at_start(&mut self, bytes: &[u8]) -> Result<()> {
        self.flushed()?;
        let file = self.file.get_mut();
        file.seek(SeekFrom::Start(0))
            .and_then(|_| file.write_all(bytes))
            .map_err(|e| Error::write(&self.path, e))
    }

    /// Flushes everything to disk before the file is renamed.
    pub fn close(&mut self) -> Result<()> {
        self.flushed()?;
        self.file.get_ref().sync_data().map_err(|e| Error::write(&self.path, e))
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Write for Append {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.file.write(bytes)?;
        self.len += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// An [`Append`] for a library that insists on writing from the start: the bytes that the file
/// already has are discarded.
#[derive(Debug)]
pub(super) struct Replay {
    pub inner: Append,
    swallow: u64,
}

impl Replay {
    pub fn new(inner: Append) -> Self {
        Self { swallow: inner.len, inner }
    }
}

impl Write for Replay {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.swallow > 0 {
            let n = bytes.len().min(usize::try_from(self.swallow).unwrap_or(usize::MAX));
            self.swallow -= n as u64;
            return Ok(n);
        }
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
