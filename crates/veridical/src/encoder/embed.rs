//! `veridical data embed --encoder`: embeds documents into a vector table, a few thousand texts at a time.
//!
//! Each block of texts becomes one piece of the output; rows keep the order of the input.

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

/// Result of [`embed_sentences`].
#[derive(Clone, Debug, Serialize)]
pub struct EmbeddedSentences {
    /// Path of the vector table.
    pub out: String,
    /// Number of texts.
    pub rows: usize,
    /// Embedding dimension.
    pub dim: usize,
    /// Maximum number of tokens per text; longer texts were truncated.
    pub max_length: usize,
    /// Token statistics of the texts.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Token statistics of texts; preserved when a job is interrupted and resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Number of tokens processed by the network.
    pub tokens: u64,
    /// Number of texts without any token besides the special ones.
    pub empty: u64,
    /// Number of texts truncated to the maximum length.
    pub cut: u64,
    /// Number of words, or bytes, missing from the vocabulary.
    pub unknown: u64,
}

/// Embeds every document with a pretrained sentence encoder and writes a vector table.
///
/// # Errors
/// Unusable encoders or documents, and an output that already exists.
pub fn embed_sentences(
    folder: &Path,
    settings: &Embed,
    job: &Job<'_>,
) -> Result<EmbeddedSentences> {
    let Embed { batch, max_length, memory, .. } = settings;
    let path = settings.documents()?;
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
    let mut run = EmbedJob {
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
    let EmbedJob { writer, tally, done, bar, .. } = run;
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

/// Everything that determines the bytes of the table; a job is resumed only if it is unchanged.
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

/// Returns name and fingerprint of every file of the encoder that can affect a vector.
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
        job.note(&format!("{cut} of {rows} texts were truncated to {max_length} tokens"));
    }
    if empty > 0 {
        job.note(&format!("{empty} of {rows} texts are empty and get the embedding of empty text"));
    }
    if unknown > 0 {
        job.note(&format!("{unknown} of {tokens} tokens are words missing from the vocabulary"));
    }
}

/// State of a job, from the first text to the last.
struct EmbedJob<'a> {
    documents: &'a Documents,
    encoder: &'a Encoder,
    writer: TableWriter,
    cuts: Cuts,
    passes: Passes,
    /// Texts not yet written.
    block: Texts,
    /// Number of texts already written.
    done: usize,
    tally: Tally,
    bar: Progress,
}

impl EmbedJob<'_> {
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
