//! `veridical data embed --encoder`: documents in, a vector table out, a few thousand texts at a time.
//!
//! A block of texts is a piece of the output; the table keeps the order of the input.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use veridical_core::{Job, Progress};
use veridical_data::{Files, Ids};
use veridical_io::{
    Cuts, Documents, Dtype, FolderFiles, IdKind, OutputSchema, Piece, Source, TableWriter, Vectors,
    WriteOptions, fingerprint,
};

use super::{Encoder, Passes, Texts};
use crate::prepare::Embed;
use crate::settings::DocumentColumns;
use crate::{Error, Result, pipeline};

/// What was written.
#[derive(Clone, Debug, Serialize)]
pub struct EmbeddedSentences {
    /// The table.
    pub out: String,
    /// Texts.
    pub rows: usize,
    /// Values of a vector.
    pub dim: usize,
    /// Tokens of a text, at most.
    pub max_length: usize,
    /// What the texts were like.
    #[serde(flatten)]
    pub tally: Tally,
}

/// What texts were like, kept over interruptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Tokens that went through the network.
    pub tokens: u64,
    /// Texts without a token of their own.
    pub empty: u64,
    /// Texts that were longer than the encoder reads.
    pub cut: u64,
    /// Words, or bytes, that the vocabulary does not have.
    pub unknown: u64,
}

/// Writes a vector for every document.
///
/// # Errors
/// An encoder or documents that do not serve, an output that is there already.
pub fn embed_sentences(
    folder: &Path,
    settings: &Embed,
    job: &Job<'_>,
) -> Result<EmbeddedSentences> {
    let Embed { text: path, batch, max_length, memory, .. } = settings;
    let (input, output) = (Source::Path(path.to_path_buf()), settings.out.source());
    let write = WriteOptions { existing: settings.existing.clone(), ..WriteOptions::default() };
    pipeline::refuse_overlap(&input, &output)?;
    TableWriter::check(&output, &write)?;
    let mut encoder = super::open(folder)?;
    if let Some(max_length) = max_length {
        encoder.set_max_length(*max_length)?;
    }
    let passes = encoder.passes(*batch, *memory)?;
    let (documents, notes) = Documents::open(path, &settings.reading(&DocumentColumns::default()))?;
    notes.iter().for_each(|note| job.note(note));

    let ids = match documents.ids() {
        Ids::Int(_) => IdKind::Int,
        Ids::Text(_) => IdKind::Text,
    };
    let schema = OutputSchema {
        dim: encoder.dim(),
        dtype: Dtype::F32,
        ids,
        kept: Vec::new(),
        metadata: Vec::new(),
    };
    let manifest = manifest(folder, settings, &encoder, &documents)?;
    let writer = TableWriter::create(&output, schema, &write, manifest)?;
    let mut run = Run {
        documents: &documents,
        cuts: writer.cuts(),
        encoder: &encoder,
        passes,
        block: Texts::default(),
        done: 0,
        tally: Tally::default(),
        bar: job.progress("encoding", "texts", Some(documents.ids().len() as u64)),
        writer,
    };
    let outcome = run.all(job);
    let Run { writer, tally, done, bar, .. } = run;
    drop(bar);
    pipeline::finish(writer, outcome, &input, job)?;
    tell(&tally, done, encoder.max_length(), job);
    Ok(EmbeddedSentences {
        out: output.to_string(),
        rows: done,
        dim: encoder.dim(),
        max_length: encoder.max_length(),
        tally,
    })
}

/// What decides the bytes of the table; a job is taken up again only if it is the same.
fn manifest(
    folder: &Path,
    settings: &Embed,
    encoder: &Encoder,
    documents: &Documents,
) -> Result<Value> {
    Ok(json!({
        "encoder": fingerprints(encoder, &FolderFiles::new(folder))?,
        "texts": documents.fingerprints()?,
        "column": settings.column,
        "id_column": settings.id_column,
        "encoding": settings.encoding,
        "no_header": null,
        "max_length": encoder.max_length(),
    }))
}

/// Name and fingerprint of every file of the encoder that may decide a vector.
fn fingerprints(encoder: &Encoder, files: &FolderFiles) -> Result<Map<String, Value>> {
    let mut found = Map::new();
    for name in encoder.file_names() {
        if files.has(name)? {
            found.insert(name.clone(), fingerprint::of_file(&files.path(name))?.into());
        }
    }
    Ok(found)
}

fn tell(tally: &Tally, rows: usize, max_length: usize, job: &Job<'_>) {
    let Tally { empty, cut, unknown, tokens } = *tally;
    if cut > 0 {
        job.note(&format!("{cut} of {rows} texts were cut at {max_length} tokens"));
    }
    if empty > 0 {
        job.note(&format!("{empty} of {rows} texts are empty: their vector is that of no words"));
    }
    if unknown > 0 {
        job.note(&format!(
            "{unknown} of {tokens} tokens stand for words that the vocabulary lacks"
        ));
    }
}

/// The work from the first text to the last.
struct Run<'a> {
    documents: &'a Documents,
    encoder: &'a Encoder,
    writer: TableWriter,
    cuts: Cuts,
    passes: Passes,
    /// Texts that are not written yet.
    block: Texts,
    /// Texts that are.
    done: usize,
    tally: Tally,
    bar: Progress,
}

impl Run<'_> {
    fn all(&mut self, job: &Job<'_>) -> Result<()> {
        if let Some(resumed) = self.writer.resumed() {
            self.done = resumed.output_rows as usize;
            self.tally = serde_json::from_value(resumed.tally.clone()).unwrap_or_default();
            job.note(&format!("resuming after {} texts", self.done));
            self.bar.advance(self.done as u64);
            if resumed.finished {
                return Ok(());
            }
        }
        let around = self.encoder.n_special();
        let documents = self.documents;
        documents.for_each(self.done, |text| {
            let encoded = self.encoder.tokenize(text, &mut self.block);
            self.tally.tokens += encoded.tokens as u64;
            self.tally.empty += u64::from(encoded.tokens == around);
            self.tally.cut += u64::from(encoded.is_cut);
            self.tally.unknown += encoded.unknown as u64;
            if self.block.len() == self.cuts.next_rows() {
                self.end_block()
            } else {
                Ok::<(), Error>(())
            }
        })?;
        if self.block.is_empty() { Ok(()) } else { self.end_block() }
    }

    /// Encodes and writes the texts of the block.
    fn end_block(&mut self) -> Result<()> {
        let n = self.block.len();
        let vectors = self.encoder.vectors(&self.block, &mut self.passes, |count| {
            self.bar.advance(count as u64);
            self.bar.check()
        })?;
        self.block.clear();
        let ids = self.documents.ids().slice(self.done, n);
        self.done += n;
        self.cuts.advance(n);
        let piece = Piece {
            ids,
            vectors: Vectors::F32(vectors.into()),
            kept: Vec::new(),
            input_rows: self.done as u64,
        };
        Ok(self.writer.write_noting(piece, json!(self.tally))?)
    }
}
