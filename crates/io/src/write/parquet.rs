//! Parquet: the vector column PLAIN, without dictionary and statistics, uncompressed unless requested.
//!
//! The footer that would complete the file is stored in the journal after every row group, so an
//! interrupted file is resumed after its last valid row group.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::Schema;
use parquet::arrow::{
    ARROW_SCHEMA_META_KEY, ArrowSchemaConverter, ArrowWriter, encode_arrow_schema,
};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter,
    RowGroupMetaData,
};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::{ColumnPath, SchemaDescriptor};
use serde_json::Value;
use veridical_core::Error as Core;

use super::append::{Append, Replay};
use super::{Continue, Encoder, GROUP_ROWS, OutputSchema, Piece};
use crate::{Error, Result};

const CREATED_BY: &str = concat!("veridical ", env!("CARGO_PKG_VERSION"));
/// Values that the writer takes at once: more than its default, which is meant for scalars.
const BATCH_VALUES: usize = 1 << 16;
const PAGE_BYTES: usize = 4 << 20;
/// Length and magic after the metadata of a footer.
const FOOTER_TAIL: usize = 8;

pub(super) struct ParquetEncoder {
    writer: ArrowWriter<Replay>,
    schema: Arc<OutputSchema>,
    arrow: Arc<Schema>,
    parquet: Arc<SchemaDescriptor>,
    /// Row groups written by an earlier process.
    before: Vec<RowGroupMetaData>,
}

impl ParquetEncoder {
    pub fn open(
        path: &Path,
        schema: Arc<OutputSchema>,
        zstd: bool,
        from: Option<Continue<'_>>,
    ) -> Result<Self> {
        let failed = |e: ParquetError| error(path, e);
        let before = match &from {
            None => Vec::new(),
            Some(from) => row_groups(from.state).ok_or_else(|| {
                let what =
                    format!("{}: the journal of the Parquet file is damaged", path.display());
                Core::damaged(what, "start over with ⟨force⟩")
            })?,
        };
        let arrow = Arc::new(schema.arrow());
        let parquet = Arc::new(ArrowSchemaConverter::new().convert(&arrow).map_err(failed)?);
        let sink = Replay::new(Append::open(path, from.as_ref())?);
        let properties = properties(&parquet, zstd).map_err(failed)?;
        let mut writer =
            ArrowWriter::try_new(sink, Arc::clone(&arrow), Some(properties)).map_err(failed)?;
        if let Some(from) = from {
            advance(&mut writer, from.bytes).map_err(|e| Error::write(path, e))?;
        }
        Ok(Self { writer, schema, arrow, parquet, before })
    }

    fn failed(&self, e: ParquetError) -> Error {
        error(self.writer.inner().inner.path(), e)
    }

    /// The bytes that complete the file in its current state.
    ///
    /// Reading metadata back drops optional details that the writer kept (histograms of levels), so
    /// every footer makes this round trip once: a resumed file must not differ.
    fn footer(&self) -> Result<Vec<u8>> {
        let groups = self.before.iter().chain(self.writer.flushed_row_groups()).cloned();
        let number = |(i, group): (usize, RowGroupMetaData)| {
            group.into_builder().set_ordinal(i as i32).build()
        };
        let groups = groups.enumerate().map(number).collect::<std::result::Result<Vec<_>, _>>();
        let footer = groups.and_then(|groups| encode_footer(self.metadata(groups)));
        let plain = footer.and_then(|footer| decode_footer(&footer));
        plain.and_then(encode_footer).map_err(|e| self.failed(e))
    }

    fn metadata(&self, groups: Vec<RowGroupMetaData>) -> ParquetMetaData {
        let n_rows = groups.iter().map(RowGroupMetaData::num_rows).sum();
        let arrow_schema = encode_arrow_schema(&self.arrow);
        let mut pairs = vec![KeyValue::new(ARROW_SCHEMA_META_KEY.to_owned(), arrow_schema)];
        pairs.extend(self.schema.metadata.iter().map(|(k, v)| KeyValue::new(k.clone(), v.clone())));
        let created_by = Some(CREATED_BY.to_owned());
        let schema = Arc::clone(&self.parquet);
        ParquetMetaData::new(
            FileMetaData::new(1, n_rows, created_by, Some(pairs), schema, None),
            groups,
        )
    }
}

fn encode_footer(metadata: ParquetMetaData) -> std::result::Result<Vec<u8>, ParquetError> {
    let mut footer = Vec::new();
    ParquetMetaDataWriter::new(&mut footer, &metadata).finish()?;
    Ok(footer)
}

fn decode_footer(footer: &[u8]) -> std::result::Result<ParquetMetaData, ParquetError> {
    let end = footer.len().saturating_sub(FOOTER_TAIL);
    ParquetMetaDataReader::decode_metadata(&footer[..end])
}

impl Encoder for ParquetEncoder {
    fn write(&mut self, piece: &Piece) -> Result<()> {
        let batch = piece.batch(&self.schema, &self.arrow)?;
        self.writer.write(&batch).map_err(|e| self.failed(e))
    }

    fn end_group(&mut self) -> Result<(u64, Value)> {
        self.writer.flush().map_err(|e| self.failed(e))?;
        self.writer.sync().map_err(|e| self.failed(e.into()))?;
        let bytes = self.writer.inner_mut().inner.flushed()?;
        Ok((bytes, Value::String(to_hex(&self.footer()?))))
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        let footer = self.footer()?;
        // Not `into_inner`, which would write a footer of the row groups since the last resume.
        let file = &mut self.writer.inner_mut().inner;
        file.put(&footer)?;
        file.close()
    }
}

fn properties(
    schema: &SchemaDescriptor,
    zstd: bool,
) -> std::result::Result<WriterProperties, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_created_by(CREATED_BY.to_owned())
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_write_batch_size(BATCH_VALUES)
        .set_data_page_size_limit(PAGE_BYTES)
        .set_data_page_row_count_limit(GROUP_ROWS)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true);
    if zstd {
        properties = properties.set_compression(Compression::ZSTD(ZstdLevel::default()));
    }
    for column in schema.columns() {
        if column.path().parts().first().is_some_and(|name| name == "vector") {
            let path = ColumnPath::new(column.path().parts().to_vec());
            properties = properties
                .set_column_encoding(path.clone(), Encoding::PLAIN)
                .set_column_dictionary_enabled(path, false);
        }
    }
    Ok(properties.build())
}

/// Advances the writer's own byte count to where the file is resumed. The zeros are discarded: the
/// sink drops as many bytes as the file has.
fn advance(writer: &mut ArrowWriter<Replay>, to: u64) -> std::io::Result<()> {
    const MAGIC: u64 = 4; // written when the writer was made
    let zeros = vec![0; 1 << 20];
    let mut left = to.saturating_sub(MAGIC);
    while left > 0 {
        let n = left.min(zeros.len() as u64);
        writer.write_all(&zeros[..n as usize])?;
        left -= n;
    }
    writer.sync()
}

fn row_groups(state: &Value) -> Option<Vec<RowGroupMetaData>> {
    let metadata = decode_footer(&from_hex(state.as_str()?)?).ok()?;
    Some(metadata.row_groups().to_vec())
}

fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}"); // writing to a String cannot fail
        hex
    })
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().as_chunks::<2>().0.iter();
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// An I/O error stays one, so that the job can be resumed.
fn error(path: &Path, error: ParquetError) -> Error {
    match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(io) => Error::write(path, *io),
            Err(other) => Error::write(path, std::io::Error::other(other.to_string())),
        },
        other => Error::write(path, std::io::Error::other(other.to_string())),
    }
}
