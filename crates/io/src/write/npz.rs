//! npz: an uncompressed zip archive of `vectors.npy` and `ids.npy` (int64, or `<U` as wide as the longest
//! id), as `numpy.load` reads it.

use std::path::Path;

use crc32fast::Hasher;
use serde_json::{Value, json};
use veridical_core::Error as Core;
use veridical_data::Ids;

use super::append::Append;
use super::spool::IdSpool;
use super::{Continue, Encoder, OutputSchema, Piece, npy};
use crate::zip::{self, NewEntry};
use crate::{Dtype, IdKind, Result};

const VECTORS: &str = "vectors.npy";
const IDS: &str = "ids.npy";
/// Bytes before the first value.
const START: usize = zip::local_len(VECTORS) + npy::HEADER;

pub(super) struct NpzEncoder {
    file: Append,
    ids: IdSpool,
    id_kind: IdKind,
    dim: usize,
    dtype: Dtype,
    /// The checksum of the values so far.
    crc: Hasher,
}

impl NpzEncoder {
    pub fn open(path: &Path, schema: &OutputSchema, from: Option<Continue<'_>>) -> Result<Self> {
        let mut file = Append::open(path, from.as_ref())?;
        let ids = IdSpool::open(path, schema.ids, from.as_ref().map(|from| &from.state["ids"]))?;
        let crc = match &from {
            None => {
                file.put(&[0; START])?;
                Hasher::new()
            }
            Some(from) => {
                let crc = from.state["crc"].as_u64().unwrap_or(0) as u32;
                Hasher::new_with_initial_len(crc, from.bytes.saturating_sub(START as u64))
            }
        };
        let OutputSchema { dim, dtype, ids: id_kind, .. } = *schema;
        Ok(Self { file, ids, id_kind, dim, dtype, crc })
    }

    fn append_ids(&mut self) -> Result<NewEntry> {
        let at = self.file.len();
        let mut crc = Hasher::new();
        let size = for_each_id_bytes(&mut self.ids, self.id_kind, |bytes| {
            crc.update(bytes);
            Ok(())
        })?;
        let entry = NewEntry { name: IDS, size, crc: crc.finalize(), at };
        self.file.put(&entry.local_header())?;
        for_each_id_bytes(&mut self.ids, self.id_kind, |bytes| self.file.put(bytes))?;
        Ok(entry)
    }
}

/// Passes the bytes of `ids.npy` in pieces; returns their number.
fn for_each_id_bytes(
    ids: &mut IdSpool,
    kind: IdKind,
    mut put: impl FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    let n = ids.n_rows;
    let shape = format!("({n},)");
    if kind == IdKind::Int {
        put(&npy::header("<i8", &shape))?;
        ids.for_each_bytes(put)?;
        return Ok(npy::HEADER as u64 + 8 * n);
    }
    let width = ids.longest.max(1);
    put(&npy::header(&format!("<U{width}"), &shape))?;
    let mut wide = Vec::new();
    ids.for_each_text(|id| {
        wide.clear();
        id.chars().for_each(|c| wide.extend_from_slice(&u32::from(c).to_le_bytes()));
        wide.resize(4 * width as usize, 0);
        put(&wide)
    })?;
    Ok(npy::HEADER as u64 + 4 * width * n)
}

impl Encoder for NpzEncoder {
    fn write(&mut self, piece: &Piece) -> Result<()> {
        if let Ids::Text(ids) = &piece.ids
            && let Some(id) = ids.iter().flatten().find(|id| id.ends_with('\0'))
        {
            let what = format!("the id {id:?} ends in a NUL character, which npz cannot store");
            return Err(Core::unfit(what, "write .parquet").into());
        }
        self.ids.push(&piece.ids)?;
        piece.vectors.for_each_bytes(self.dtype, |bytes| {
            self.crc.update(bytes);
            self.file.put(bytes)
        })
    }

    fn end_group(&mut self) -> Result<(u64, Value)> {
        let crc = self.crc.clone().finalize();
        let state = json!({ "crc": crc, "ids": self.ids.end_group()? });
        Ok((self.file.flushed()?, state))
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        let size = self.file.len() - zip::local_len(VECTORS) as u64;
        let header = npy::matrix_header(self.dtype, self.ids.n_rows, self.dim);
        let mut crc = Hasher::new();
        crc.update(&header);
        crc.combine(&self.crc);
        let vectors = NewEntry { name: VECTORS, size, crc: crc.finalize(), at: 0 };
        let mut entries = vec![vectors];
        if self.id_kind != IdKind::RowNumber {
            entries.push(self.append_ids()?);
        }
        let end = zip::end(&entries, self.file.len());
        self.file.put(&end)?;
        self.file.put_at_start(&[&vectors.local_header()[..], &header].concat())?;
        self.file.close()
    }
}
