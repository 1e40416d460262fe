//! Where bytes are: a file of this machine behind the same face as an object of a store.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use bytes::Bytes;
use parquet::file::reader::{ChunkReader, Length};

use crate::{Error, Result};

/// A file that is being read.
#[derive(Debug)]
pub(crate) enum InputFile {
    Local { file: File, len: u64 },
}

/// Opens a file.
pub(crate) fn open(path: &Path) -> Result<InputFile> {
    let file = File::open(path).map_err(|e| Error::read(path, "open", e))?;
    let len = file.metadata().map_err(|e| Error::read(path, "read", e))?.len();
    Ok(InputFile::Local { file, len })
}

impl Read for InputFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Local { file, .. } => file.read(out),
        }
    }
}

impl Seek for InputFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::Local { file, .. } => file.seek(to),
        }
    }
}

impl Length for InputFile {
    fn len(&self) -> u64 {
        match self {
            Self::Local { len, .. } => *len,
        }
    }
}

impl ChunkReader for InputFile {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        match self {
            Self::Local { file, .. } => Ok(Box::new(file.get_read(start)?)),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        match self {
            Self::Local { file, .. } => file.get_bytes(start, length),
        }
    }
}
