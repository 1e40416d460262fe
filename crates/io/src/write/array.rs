//! npy arrays that grow, for folders of several of them.

use std::path::Path;

use super::append::Append;
use super::npy::{HEADER, header};
use crate::Result;

/// A value of an array.
pub trait Number: Copy {
    /// Its type as NumPy writes it, little endian.
    const DESCR: &'static str;

    /// Appends its bytes.
    fn write(self, to: &mut Vec<u8>);

    /// Reads all values of some bytes.
    fn read(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! numbers {
    ($( $type:ty => $descr:literal, )*) => {
        $( impl Number for $type {
            const DESCR: &'static str = $descr;

            fn write(self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }

            fn read(bytes: &[u8]) -> Vec<Self> {
                let (all, _) = bytes.as_chunks();
                all.iter().map(|bytes| Self::from_le_bytes(*bytes)).collect()
            }
        } )*
    };
}

numbers! {
    f32 => "<f4",
    f64 => "<f8",
    u32 => "<u4",
}

/// Writes an array row by row, or number by number; it is whole when it is finished.
#[derive(Debug)]
pub struct ArrayWriter {
    file: Append,
}

impl ArrayWriter {
    /// Starts an array, or goes on with the first `len` bytes of one.
    ///
    /// # Errors
    /// [`crate::Error::Write`] if writing fails; [`veridical_core::Error::Damaged`] if the file is shorter.
    pub fn open(path: &Path, len: Option<u64>) -> Result<Self> {
        let mut file = Append::open_at(path, len)?;
        if len.is_none() {
            file.put(&[0; HEADER])?;
        }
        Ok(Self { file })
    }

    /// Appends values.
    ///
    /// # Errors
    /// [`crate::Error::Write`] if writing fails.
    pub fn put<N: Number>(&mut self, values: &[N]) -> Result<()> {
        let mut bytes = Vec::new();
        for values in values.chunks(1 << 16) {
            bytes.clear();
            values.iter().for_each(|value| value.write(&mut bytes));
            self.file.put(&bytes)?;
        }
        Ok(())
    }

    /// Returns the length of the file, once all of it is with the operating system.
    ///
    /// # Errors
    /// [`crate::Error::Write`] if writing fails.
    pub fn flushed(&mut self) -> Result<u64> {
        self.file.flushed()
    }

    /// Completes an array of `N`: of rows of `width` numbers, or of numbers.
    ///
    /// # Errors
    /// [`crate::Error::Write`] if writing fails.
    pub fn finish<N: Number>(mut self, width: Option<usize>) -> Result<()> {
        let count = (self.file.flushed()? - HEADER as u64) / size_of::<N>() as u64;
        let shape = match width {
            None => format!("({count},)"),
            Some(width) => format!("({}, {width})", count / width as u64),
        };
        self.file.put_at_start(&header(N::DESCR, &shape))?;
        self.file.close()
    }
}
