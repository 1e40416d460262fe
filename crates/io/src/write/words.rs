//! word2vec and GloVe: a word, then its values; word2vec starts with a line `rows width`, in which the number of rows is
//! only known at the end, so it is padded with leading zeros.
//!
//! The binary form has a line break after every vector, as the original tool writes it.

use std::path::Path;

use serde_json::{Value, json};
use veridical_core::Error as Core;

use super::append::Append;
use super::delimited::push_float;
use super::{Continue, Encoder, OutputSchema, Piece};
use crate::{Format, Result};

pub(super) struct WordsEncoder {
    file: Append,
    format: Format,
    dim: usize,
    n_rows: u64,
}

impl WordsEncoder {
    pub fn open(
        path: &Path,
        format: Format,
        schema: &OutputSchema,
        from: Option<Continue<'_>>,
    ) -> Result<Self> {
        let n_rows = from.as_ref().and_then(|from| from.state.as_u64()).unwrap_or(0);
        let file = Append::open(path, from.as_ref())?;
        let mut encoder = Self { file, format, dim: schema.dim, n_rows };
        if from.is_none() {
            let header = encoder.header();
            encoder.file.put(&header)?;
        }
        Ok(encoder)
    }

    /// Has the same length for one row as for the largest table.
    fn header(&self) -> Vec<u8> {
        match self.format {
            Format::Glove => Vec::new(),
            _ => format!("{:020} {}\n", self.n_rows, self.dim).into_bytes(),
        }
    }
}

/// Readers split lines at whitespace.
fn check_word(word: &str) -> Result<()> {
    if !word.is_empty() && !word.contains(|c: char| c.is_ascii_whitespace() || c == '\x0b') {
        return Ok(());
    }
    let what = "is empty or contains whitespace, which word2vec and GloVe cannot store";
    Err(Core::unfit(format!("the id {word:?} {what}"), "write .parquet or .npz").into())
}

impl Encoder for WordsEncoder {
    fn write(&mut self, piece: &Piece) -> Result<()> {
        let mut line = Vec::new();
        let mut text = String::new();
        for row in 0..piece.n_rows() {
            let word = piece.ids.get(row);
            check_word(&word)?;
            line.clear();
            line.extend_from_slice(word.as_bytes());
            let values = (row * self.dim..(row + 1) * self.dim).map(|i| piece.vectors.get(i));
            if self.format == Format::Word2vecBinary {
                line.push(b' ');
                values.for_each(|x| line.extend_from_slice(&x.to_le_bytes()));
            } else {
                for x in values {
                    text.clear();
                    push_float(&mut text, x);
                    line.push(b' ');
                    line.extend_from_slice(text.as_bytes());
                }
            }
            line.push(b'\n');
            self.file.put(&line)?;
        }
        self.n_rows += piece.n_rows() as u64;
        Ok(())
    }

    fn end_group(&mut self) -> Result<(u64, Value)> {
        Ok((self.file.flushed()?, json!(self.n_rows)))
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        let header = self.header();
        self.file.put_at_start(&header)?;
        self.file.close()
    }
}
