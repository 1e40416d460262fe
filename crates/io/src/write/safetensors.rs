//! safetensors: a header of fixed size, the tensor `vectors`, then the ids, which are spooled to separate
//! files until the last row is known.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::append::Append;
use super::spool::IdSpool;
use super::{Continue, Encoder, OutputSchema, Piece};
use crate::{Dtype, IdKind, Result};

pub(super) struct SafetensorsEncoder {
    schema: Arc<OutputSchema>,
    file: Append,
    ids: IdSpool,
    header_len: usize,
}

impl SafetensorsEncoder {
    pub fn open(
        path: &Path,
        schema: Arc<OutputSchema>,
        from: Option<Continue<'_>>,
    ) -> Result<Self> {
        // The longest possible header, including the padding that aligns the data.
        let header_len =
            (header(&schema, u64::MAX / 1024, u64::MAX / 2).len() + 8).next_multiple_of(64);
        let mut file = Append::open(path, from.as_ref())?;
        let ids = IdSpool::open(path, schema.ids, from.as_ref().map(|from| from.state))?;
        if from.is_none() {
            file.put(&vec![0; header_len])?;
        }
        Ok(Self { schema, file, ids, header_len })
    }
}

impl Encoder for SafetensorsEncoder {
    fn write(&mut self, piece: &Piece) -> Result<()> {
        piece.vectors.for_each_bytes(self.schema.dtype, |bytes| self.file.put(bytes))?;
        self.ids.push(&piece.ids)
    }

    fn end_group(&mut self) -> Result<(u64, Value)> {
        let state = self.ids.end_group()?;
        Ok((self.file.flushed()?, state))
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let Self { schema, mut file, mut ids, header_len } = *self;
        ids.for_each_bytes(|bytes| file.put(bytes))?;
        if schema.ids == IdKind::Text {
            file.put(&0u64.to_le_bytes())?;
            ids.for_each_offset_bytes(|bytes| file.put(bytes))?;
        }
        let mut start = header(&schema, ids.n_rows, ids.text_len).into_bytes();
        start.resize(header_len - 8, b' ');
        let len = (start.len() as u64).to_le_bytes();
        file.put_at_start(&[&len[..], &start].concat())?;
        file.close()
    }
}

/// The JSON header for a table of `n_rows` rows with `text_len` bytes of text ids.
fn header(schema: &OutputSchema, n_rows: u64, text_len: u64) -> String {
    let dtype = match schema.dtype {
        Dtype::F16 => "F16",
        Dtype::Bf16 => "BF16",
        _ => "F32",
    };
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
