//! npy: a header of fixed size, completed when the number of rows is known, then raw values.

use std::path::Path;

use serde_json::{Value, json};

use super::append::Append;
use super::{Continue, Encoder, OutputSchema, Piece};
use crate::{Dtype, Result};

/// Enough for every shape, and a multiple of 64 as the format requires.
pub(super) const HEADER: usize = 128;

pub(super) struct NpyEncoder {
    file: Append,
    dim: usize,
    dtype: Dtype,
    n_rows: u64,
}

impl NpyEncoder {
    pub fn open(path: &Path, schema: &OutputSchema, from: Option<Continue<'_>>) -> Result<Self> {
        let n_rows = from.as_ref().and_then(|from| from.state.as_u64()).unwrap_or(0);
        let mut file = Append::open(path, from.as_ref())?;
        if from.is_none() {
            file.put(&[0; HEADER])?;
        }
        Ok(Self { file, dim: schema.dim, dtype: schema.dtype, n_rows })
    }
}

/// The header of an array of `shape`, as Python writes it.
pub(super) fn header(descr: &str, shape: &str) -> [u8; HEADER] {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let mut header = [b' '; HEADER];
    header[..8].copy_from_slice(b"\x93NUMPY\x01\x00");
    header[8..10].copy_from_slice(&(HEADER as u16 - 10).to_le_bytes());
    header[10..10 + text.len()].copy_from_slice(text.as_bytes());
    header[HEADER - 1] = b'\n';
    header
}

/// The header of the vectors.
pub(super) fn matrix_header(dtype: Dtype, n_rows: u64, dim: usize) -> [u8; HEADER] {
    header(if dtype == Dtype::F16 { "<f2" } else { "<f4" }, &format!("({n_rows}, {dim})"))
}

impl Encoder for NpyEncoder {
    fn write(&mut self, piece: &Piece) -> Result<()> {
        self.n_rows += piece.n_rows() as u64;
        piece.vectors.for_each_bytes(self.dtype, |bytes| self.file.put(bytes))
    }

    fn end_group(&mut self) -> Result<(u64, Value)> {
        Ok((self.file.flushed()?, json!(self.n_rows)))
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        let header = matrix_header(self.dtype, self.n_rows, self.dim);
        self.file.put_at_start(&header)?;
        self.file.close()
    }
}
