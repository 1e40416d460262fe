//! `veridical data embed --encoder`: documents in, a vector table out, a few thousand texts at a time.
//!
//! A block of texts is a piece of the output; the table keeps the order of the input.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use veridical_core::interrupt;
use veridical_core::progress::Progress;
use veridical_data::{
    Cuts, Documents, Dtype, IdKind, Ids, IfExists, OutputSchema, Piece, Source, TableWriter,
    Vectors, WriteOptions,
};

use super::{Encoder, Passes, Texts, files};
use crate::train::{Options, reading};
use crate::{Error, Observer, Result, pipeline};

/// What to embed, and where to.
#[derive(Clone, Debug)]
pub struct EmbedSentences {
    /// The folder of the encoder.
    pub encoder: PathBuf,
    /// The documents and how they are read.
    pub options: Options,
    /// The table to write.
    pub out: PathBuf,
    /// What to do about an earlier output.
    pub if_exists: IfExists,
    /// Texts of a pass, at most.
    pub batch: usize,
    /// Tokens of a text, at most; otherwise what the encoder was made for.
    pub max_length: Option<usize>,
    /// Mebibytes that a pass may take.
    pub memory: usize,
}

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
    settings: &EmbedSentences,
    observer: &dyn Observer,
) -> Result<EmbeddedSentences> {
    let EmbedSentences { encoder: folder, options, out, if_exists, batch, max_length, memory } =
        settings;
    let Some(path) = &options.text else {
        return Err(Error::Usage("name the documents with --text FILE".into()));
    };
    let (input, output) = (Source::Path(path.clone()), Source::from_arg(out));
    let write = WriteOptions { if_exists: *if_exists, ..WriteOptions::default() };
    pipeline::refuse_overlap(&input, &output)?;
    TableWriter::check(&output, &write)?;
    let mut encoder = Encoder::open(folder)?;
    if let Some(max_length) = max_length {
        encoder.set_max_length(*max_length)?;
    }
    let passes = encoder.passes(*batch, *memory)?;
    let (documents, notes) = Documents::open(path, &reading::text_options(options))?;
    notes.iter().for_each(|note| observer.note(note));

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
    let job = job(settings, &encoder, &documents)?;
    let writer = TableWriter::create(&output, schema, &write, job)?;
    let mut run = Run {
        documents: &documents,
        cuts: writer.cuts(),
        encoder: &encoder,
        passes,
        block: Texts::default(),
        done: 0,
        tally: Tally::default(),
        bar: observer.progress("encoding", "texts", Some(documents.ids().len() as u64)),
        writer,
    };
    let outcome = run.all(observer);
    let Run { writer, tally, done, bar, .. } = run;
    drop(bar);
    pipeline::finish(writer, outcome, &input)?;
    tell(&tally, done, encoder.max_length(), observer);
    Ok(EmbeddedSentences {
        out: output.to_string(),
        rows: done,
        dim: encoder.dim(),
        max_length: encoder.max_length(),
        tally,
    })
}

/// What decides the bytes of the table; a job is taken up again only if it is the same.
fn job(settings: &EmbedSentences, encoder: &Encoder, documents: &Documents) -> Result<Value> {
    let EmbedSentences { encoder: folder, options, .. } = settings;
    Ok(json!({
        "encoder": files::fingerprints(folder)?,
        "texts": documents.fingerprints()?,
        "column": options.column,
        "id_column": options.id_column,
        "encoding": options.encoding,
        "no_header": options.no_header,
        "max_length": encoder.max_length(),
    }))
}

fn tell(tally: &Tally, rows: usize, max_length: usize, observer: &dyn Observer) {
    let Tally { empty, cut, unknown, tokens } = *tally;
    if cut > 0 {
        observer.note(&format!("{cut} of {rows} texts were cut at {max_length} tokens"));
    }
    if empty > 0 {
        observer
            .note(&format!("{empty} of {rows} texts are empty: their vector is that of no words"));
    }
    if unknown > 0 {
        observer.note(&format!(
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
    fn all(&mut self, observer: &dyn Observer) -> Result<()> {
        if let Some(resumed) = self.writer.resumed() {
            self.done = resumed.output_rows as usize;
            self.tally = serde_json::from_value(resumed.tally.clone()).unwrap_or_default();
            observer.note(&format!("resuming after {} texts", self.done));
            self.bar.advance(self.done as u64);
            if resumed.finished {
                return Ok(());
            }
        }
        let around = self.encoder.tokenizer.n_special();
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
            Ok(interrupt::check()?)
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
