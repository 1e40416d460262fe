//! safetensors: a header of fixed size, the tensor `vectors`, then the ids, which wait in files of
//! their own until the last row is known.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::append::Append;
use super::{Continue, Encoder, OutputSchema, Piece};
use crate::{Dtype, Error, IdKind, Ids, Result};

pub(super) struct SafetensorsEncoder {
    schema: Arc<OutputSchema>,
    file: Append,
    /// Integer ids, or the text of text ids.
    ids: Append,
    /// Where each text id ends.
    offsets: Append,
    header_len: usize,
    n_rows: u64,
    text_len: u64,
}

impl SafetensorsEncoder {
    pub fn open(
        path: &Path,
        schema: Arc<OutputSchema>,
        from: Option<Continue<'_>>,
    ) -> Result<Self> {
        // The longest header there can be, with room to align the data.
        let header_len =
            (header(&schema, u64::MAX / 1024, u64::MAX / 2).len() + 8).next_multiple_of(64);
        let number = |key: &str| from.as_ref().and_then(|from| from.state[key].as_u64());
        let mut file = Append::open(path, from.as_ref())?;
        let ids = Append::open_at(&beside(path, "ids"), number("ids_bytes"))?;
        let offsets = Append::open_at(&beside(path, "offsets"), number("offsets_bytes"))?;
        let (n_rows, text_len) = (number("n_rows").unwrap_or(0), number("text_len").unwrap_or(0));
        if from.is_none() {
            file.put(&vec![0; header_len])?;
        }
        Ok(Self { schema, file, ids, offsets, header_len, n_rows, text_len })
    }
}

impl Encoder for SafetensorsEncoder {
    fn write(&mut self, piece: &Piece) -> Result<()> {
        self.n_rows += piece.n_rows() as u64;
        piece.vectors.for_each_bytes(|bytes| self.file.put(bytes))?;
        match &piece.ids {
            Ids::Int(ids) if self.schema.ids == IdKind::Int => {
                ids.values().iter().try_for_each(|id| self.ids.put(&id.to_le_bytes()))
            }
            Ids::Int(_) => Ok(()),
            Ids::Text(ids) => ids.iter().flatten().try_for_each(|id| {
                self.text_len += id.len() as u64;
                self.ids.put(id.as_bytes())?;
                self.offsets.put(&self.text_len.to_le_bytes())
            }),
        }
    }

    fn end_group(&mut self) -> Result<(u64, Value)> {
        let state = json!({
            "n_rows": self.n_rows, "text_len": self.text_len,
            "ids_bytes": self.ids.flushed()?, "offsets_bytes": self.offsets.flushed()?,
        });
        Ok((self.file.flushed()?, state))
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let Self { schema, mut file, mut ids, mut offsets, header_len, n_rows, text_len } = *self;
        ids.flushed()?;
        offsets.flushed()?;
        append_file(&mut file, ids.path())?;
        if schema.ids == IdKind::Text {
            file.put(&0u64.to_le_bytes())?;
            append_file(&mut file, offsets.path())?;
        }
        let mut start = header(&schema, n_rows, text_len).into_bytes();
        start.resize(header_len - 8, b' ');
        let len = (start.len() as u64).to_le_bytes();
        file.put_at_start(&[&len[..], &start].concat())?;
        // The ids stay beside the file until the output is published: a process killed from here on
        // must find them again.
        file.close()
    }
}

fn beside(path: &Path, what: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("_{}.{what}", name.trim_start_matches('_')))
}

fn append_file(file: &mut Append, path: &Path) -> Result<()> {
    let mut from = fs::File::open(path).map_err(|e| Error::read(path, "read", e))?;
    std::io::copy(&mut from, file).map_err(|e| Error::write(path, e))?;
    Ok(())
}

/// The JSON header for a table of `n_rows` rows with `text_len` bytes of text ids.
fn header(schema: &OutputSchema, n_rows: u64, text_len: u64) -> String {
    let dtype = if schema.dtype == Dtype::F16 { "F16" } else { "F32" };
    let mut end =
        n_rows.saturating_mul(schema.dim as u64).saturating_mul(schema.dtype.size() as u64);
    let mut tensors = Map::new();
    let mut put = |name: &str, dtype: &str, shape: Value, bytes: u64, from: u64| {
        let to = from.saturating_add(bytes);
        tensors.insert(
            name.into(),
            json!({ "dtype": dtype, "shape": shape, "data_offsets": [from, to] }),
        );
        to
    };
    put("vectors", dtype, json!([n_rows, schema.dim]), end, 0);
    match schema.ids {
        IdKind::RowNumber => {}
        IdKind::Int => {
            put("ids", "I64", json!([n_rows]), n_rows.saturating_mul(8), end);
        }
        IdKind::Text => {
            end = put("ids", "U8", json!([text_len]), text_len, end);
            put("ids_offsets", "I64", json!([n_rows + 1]), (n_rows + 1).saturating_mul(8), end);
        }
    }
    if !schema.metadata.is_empty() {
        let pairs = schema.metadata.iter().map(|(k, v)| (k.clone(), Value::String(v.clone())));
        tensors.insert("__metadata__".into(), Value::Object(pairs.collect()));
    }
    Value::Object(tensors).to_string()
}
