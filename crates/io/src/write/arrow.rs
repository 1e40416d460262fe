//! Arrow IPC: the file format on disk, the stream format on stdout. One record batch per piece.

use std::fs::File;
use std::io::{self, BufWriter, Read, Stdout};
use std::path::Path;
use std::sync::Arc;

use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{ArrowError, Schema};
use serde_json::Value;

use super::append::{Append, Replay};
use super::{Continue, Encoder, OutputSchema, Piece};
use crate::error::STDOUT;
use crate::{Error, Result};

/// The magic of the file format, padded to the alignment of the writer, before the first message.
const FILE_START: u64 = 64;

/// Writes an IPC file. The footer of the format lists every batch, so a file is resumed by replaying
/// its batches to the writer while nothing reaches the disk.
pub(super) struct FileEncoder {
    writer: FileWriter<Replay>,
    schema: Arc<OutputSchema>,
    arrow: Arc<Schema>,
}

impl FileEncoder {
    pub fn open(
        path: &Path,
        schema: Arc<OutputSchema>,
        from: Option<Continue<'_>>,
    ) -> Result<Self> {
        let arrow = Arc::new(schema.arrow());
        let sink = Replay::new(Append::open(path, from.as_ref())?);
        let mut writer = FileWriter::try_new(sink, &arrow).map_err(|e| error(path, e))?;
        if let Some(from) = from {
            play_again(path, from.bytes, &mut writer)?;
        }
        Ok(Self { writer, schema, arrow })
    }

    fn failed(&self, e: ArrowError) -> Error {
        error(self.writer.get_ref().inner.path(), e)
    }
}

fn play_again(path: &Path, bytes: u64, writer: &mut FileWriter<Replay>) -> Result<()> {
    let unreadable = |e| Error::read(path, "read", e);
    let mut file = File::open(path).map_err(unreadable)?.take(bytes);
    io::copy(&mut (&mut file).take(FILE_START), &mut io::sink()).map_err(unreadable)?;
    let mut decoder = StreamDecoder::new();
    loop {
        let mut block = Vec::new();
        (&mut file).take(1 << 20).read_to_end(&mut block).map_err(unreadable)?;
        if block.is_empty() {
            return Ok(());
        }
        let mut block = Buffer::from_vec(block);
        while !block.is_empty() {
            if let Some(batch) = decoder.decode(&mut block).map_err(|e| error(path, e))? {
                writer.write(&batch).map_err(|e| error(path, e))?;
            }
        }
    }
}

impl Encoder for FileEncoder {
    fn write(&mut self, piece: &Piece) -> Result<()> {
        let batch = piece.batch(&self.schema, &self.arrow)?;
        self.writer.write(&batch).map_err(|e| self.failed(e))
    }

    fn end_group(&mut self) -> Result<(u64, Value)> {
        Ok((self.writer.get_mut().inner.flushed()?, Value::Null))
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.writer.finish().map_err(|e| self.failed(e))?;
        let path = self.writer.get_ref().inner.path().to_owned();
        self.writer.into_inner().map_err(|e| error(&path, e))?.inner.close()
    }
}

/// Writes an IPC stream to stdout.
pub(super) struct StreamEncoder {
    writer: StreamWriter<BufWriter<Stdout>>,
    schema: OutputSchema,
    arrow: Arc<Schema>,
}

impl StreamEncoder {
    pub fn stdout(schema: &OutputSchema) -> Result<Self> {
        let arrow = Arc::new(schema.arrow());
        let writer = StreamWriter::try_new(BufWriter::new(io::stdout()), &arrow);
        let writer = writer.map_err(|e| error(Path::new(STDOUT), e))?;
        Ok(Self { writer, schema: schema.clone(), arrow })
    }
}

impl Encoder for StreamEncoder {
    fn write(&mut self, piece: &Piece) -> Result<()> {
        let batch = piece.batch(&self.schema, &self.arrow)?;
        self.writer.write(&batch).map_err(|e| error(Path::new(STDOUT), e))
    }

    fn end_group(&mut self) -> Result<(u64, Value)> {
        Ok((0, Value::Null))
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.writer.finish().map_err(|e| error(Path::new(STDOUT), e))
    }
}

/// An I/O error stays one, so that the job can be resumed.
fn error(path: &Path, error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, io) => Error::write(path, io),
        other => Error::write(path, io::Error::other(other.to_string())),
    }
}
