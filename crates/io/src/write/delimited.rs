//! CSV and TSV: `id`, `v0`, `v1`, ..., then the copied columns. Floats have as many digits as
//! needed to read back the same value.

use std::fmt::Write as _;
use std::path::Path;

use arrow_cast::display::{ArrayFormatter, FormatOptions};
use serde_json::Value;

use super::append::Append;
use super::{Continue, Encoder, OutputSchema, Piece};
use crate::{Error, IdKind, Result};

pub(super) struct DelimitedEncoder {
    writer: csv::Writer<Append>,
    dim: usize,
    with_ids: bool,
}

impl DelimitedEncoder {
    pub fn open(
        path: &Path,
        delimiter: u8,
        schema: &OutputSchema,
        from: Option<Continue<'_>>,
    ) -> Result<Self> {
        let file = Append::open(path, from.as_ref())?;
        let mut writer = csv::WriterBuilder::new().delimiter(delimiter).from_writer(file);
        let with_ids = schema.ids != IdKind::RowNumber;
        if from.is_none() {
            let id = with_ids.then(|| "id".to_owned());
            let coordinates = (0..schema.dim).map(|k| format!("v{k}"));
            let kept = schema.kept.iter().map(|field| field.name().clone());
            let header: Vec<String> = id.into_iter().chain(coordinates).chain(kept).collect();
            writer.write_record(&header).map_err(|e| error(path, e))?;
        }
        Ok(Self { writer, dim: schema.dim, with_ids })
    }

    fn write_rows(&mut self, piece: &Piece) -> std::result::Result<(), csv::Error> {
        let options = FormatOptions::default();
        let kept: Vec<_> = piece
            .kept
            .iter()
            .filter_map(|column| ArrayFormatter::try_new(column, &options).ok())
            .collect();
        let mut text = String::new();
        for row in 0..piece.n_rows() {
            if self.with_ids {
                self.writer.write_field(piece.ids.get(row))?;
            }
            for k in row * self.dim..(row + 1) * self.dim {
                text.clear();
                push_float(&mut text, piece.vectors.get(k));
                self.writer.write_field(&text)?;
            }
            for column in &kept {
                self.writer.write_field(column.value(row).to_string())?;
            }
            self.writer.write_record(None::<&[u8]>)?;
        }
        Ok(())
    }
}

impl Encoder for DelimitedEncoder {
    fn write(&mut self, piece: &Piece) -> Result<()> {
        let path = self.writer.get_ref().path().to_owned();
        self.write_rows(piece).map_err(|e| error(&path, e))
    }

    fn end_group(&mut self) -> Result<(u64, Value)> {
        let path = self.writer.get_ref().path().to_owned();
        self.writer.flush().map_err(|e| Error::write(&path, e))?;
        Ok((self.writer.get_ref().len(), Value::Null))
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.end_group()?;
        let path = self.writer.get_ref().path().to_owned();
        let mut file = self.writer.into_inner().map_err(|e| Error::write(&path, e.into_error()))?;
        file.close()
    }
}

/// The shortest digits that read back the same, with an exponent where plain digits would be long.
pub(super) fn push_float(text: &mut String, value: f32) {
    let size = value.abs();
    // Writing to a String cannot fail.
    let _ = if size == 0.0 || (1e-5..1e9).contains(&size) {
        write!(text, "{value}")
    } else {
        write!(text, "{value:e}")
    };
}

fn error(path: &Path, error: csv::Error) -> Error {
    let text = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(io) => Error::write(path, io),
        _ => Error::write(path, std::io::Error::other(text)),
    }
}
