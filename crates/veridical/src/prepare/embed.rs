//! Embedding with a run: new documents by doc2vec, any inputs by a hidden layer of a network.

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};
use veridical_core::settings::Settings as _;
use veridical_core::{Error as Refusal, Job, Seed, settings};
use veridical_data::{Ids, VectorTable, Vocabulary};
use veridical_embed::trainers::doc2vec;
use veridical_embed::{Method, Model};
use veridical_io::run::RunFolder;
use veridical_io::{
    ColumnMap, Existing, Input, Output, ReadOptions, RecordOptions, Source, TextOptions, publish,
};

use crate::settings::{DocumentColumns, TextFiles};
use crate::train::{Request, layer_of, method_of};
use crate::{Result, net};

settings! {
    /// Settings of [`embed`] and of [`embed_sentences`](crate::encoder::embed_sentences).
    pub struct Embed {
        /// Pretrained sentence encoder: a folder saved by sentence-transformers
        pub encoder: Option<Input> = None => [value("FOLDER"), excludes(&["run"])],
        /// Run of doc2vec, or of a network whose layer is written
        pub run: Option<Input> = None => [value("RUN"), excludes(&["resume", "max-length", "batch", "memory"])],
        /// Documents (file or folder)
        pub text: Option<Input> = None,
        /// Images or a table, for networks
        pub data: Option<Input> = None => [value("FILE_OR_FOLDER"), needs(&["run"])],
        /// Vectors, for networks trained on vectors
        pub vectors: Option<Input> = None => [value("TABLE"), needs(&["run"])],
        /// Layer of a network
        pub layer: Option<String> = None => [value("NAME"), needs(&["run"]), otherwise("the input of the last layer")],
        /// Column with the text
        pub column: Option<String> = None => [otherwise("the column of the run, or by common names")],
        /// Column with the document ids
        pub id_column: Option<String> = None => [otherwise("the column of the run, or by common names")],
        /// Character encoding of text files
        pub encoding: Option<String> = None => [otherwise("utf-8")],
        /// Vector table to write
        pub out: Output = Output::default() => [required()],
        /// Maximum number of tokens per text; longer texts are truncated
        pub max_length: Option<usize> = None => [heading("Encoder"), otherwise("the encoder's own limit")],
        /// Batch size
        pub batch: usize = 64 => [heading("Encoder")],
        /// Memory limit of a batch, in MiB
        pub memory: usize = 512 => [heading("Encoder"), value("MIB")],
    } with {
        /// How existing output is handled; only a job with an encoder can be resumed.
        pub existing: Existing,
    }
}

impl Embed {
    /// Returns the documents to embed.
    ///
    /// # Errors
    /// [`Refusal::Missing`] if none are given.
    pub(crate) fn documents(&self) -> Result<&Input> {
        Ok(self.text.as_ref().ok_or_else(|| Refusal::missing("pass documents with ⟨text⟩", ""))?)
    }

    /// Returns the options for reading documents; columns default to those of `run`.
    pub(crate) fn reading(&self, run: &DocumentColumns) -> TextOptions {
        let columns = ColumnMap::default()
            .with("text", self.column.as_ref().or(run.column.as_ref()))
            .with("id", self.id_column.as_ref().or(run.id_column.as_ref()));
        let encoding = self.encoding.clone();
        let records = RecordOptions { columns, encoding, ..RecordOptions::default() };
        TextOptions { records, ..TextOptions::default() }
    }
}

/// Result of [`embed`].
#[derive(Clone, Debug, Serialize)]
pub struct Embedded {
    /// Path of the vector table.
    pub out: String,
    /// Number of documents.
    pub rows: usize,
    /// Embedding dimension.
    pub dim: usize,
    /// Number of documents without a word of the vocabulary.
    pub empty: usize,
}

/// Writes a vector for every input: inferred by doc2vec, or the values of a hidden layer. It does not depend on other inputs.
///
/// # Errors
/// [`Refusal::Request`] for a run of a method that embeds nothing new.
pub fn embed(run: &Path, settings: &Embed, job: &Job<'_>) -> Result<Embedded> {
    let out = &settings.out;
    publish::check_new(out, settings.existing.force)?;
    if let Some(seed) = veridical_io::run::seeds(run).first() {
        let what = format!("{} is an ensemble", run.display());
        return Err(Refusal::request(
            what,
            format!("pass one of its seeds, such as {}", seed.display()),
        )
        .into());
    }
    if net::is_network(run) {
        return hidden_layer(run, settings, job);
    }
    let run = RunFolder::open(run)?;
    let method = method_of(&run)?;
    if method != Method::Doc2vec {
        let what = format!("{} is a run of {}", run.path().display(), method.name());
        return Err(Refusal::request(what, "only doc2vec and networks embed new inputs").into());
    }
    if let Some(name) = [("data", &settings.data), ("vectors", &settings.vectors)]
        .into_iter()
        .find_map(|(name, given)| given.as_ref().map(|_| name))
        .or(settings.layer.as_ref().map(|_| "layer"))
    {
        let what =
            format!("⟨{name}⟩ is for networks, and {} is a run of doc2vec", run.path().display());
        return Err(Refusal::request(what, "pass documents with ⟨text⟩").into());
    }
    let text = settings.documents()?;
    let (_, layer) = layer_of(run.path())?;
    let own = Request::new(method, &[layer])?.options.documents;
    let reading = settings.reading(&own);
    let vocabulary = Vocabulary::new(words(&run)?, true);
    let (corpus, notes) = veridical_io::read_corpus_with(text, &reading, &vocabulary)?;
    notes.iter().for_each(|note| job.note(note));

    let document = run.document();
    let given = document.get("settings").and_then(Value::as_object).cloned();
    let seed = Seed::new(document.get("seed").and_then(Value::as_u64).unwrap_or(0))?;
    let model = Model::from_parts(run.state()?)?;
    let progress = job.progress("inferring", "documents", Some(corpus.docs.len() as u64));
    let parsed = doc2vec::Settings::of(&given.unwrap_or_else(Map::new))?;
    let vectors = doc2vec::infer(&parsed, &model, &corpus.tokens, seed, &progress)?;
    drop(progress);
    let empty = corpus.tokens.iter().filter(|doc| doc.is_empty()).count();
    let (rows, dim) = (vectors.n_rows(), vectors.dim());
    let table = VectorTable { ids: corpus.docs, dim, vectors: vectors.into_values() };
    veridical_io::write_table(&table, out)?;
    Ok(Embedded { out: out.to_string(), rows, dim, empty })
}

/// Writes the values of a hidden layer.
fn hidden_layer(run: &Path, settings: &Embed, job: &Job<'_>) -> Result<Embedded> {
    let Embed { text, data, vectors, column, id_column, encoding, out, .. } = settings.clone();
    let inputs = net::Inputs { vectors, data, text, column, id_column, ..net::Inputs::default() };
    let files = TextFiles { encoding, ..TextFiles::default() };
    let (table, notes) = net::hidden(run, settings.layer.as_deref(), &inputs, &files, job)?;
    notes.iter().for_each(|note| job.note(note));
    veridical_io::write_table(&table, &out)?;
    Ok(Embedded { out: out.to_string(), rows: table.n_rows(), dim: table.dim, empty: 0 })
}

/// Returns the words of a run in vocabulary order.
fn words(run: &RunFolder) -> Result<Vec<String>> {
    let source = Source::Path(run.table(Some("context"))?);
    let table = veridical_io::read_table(&source, &ReadOptions::default())?;
    Ok(match &table.ids {
        Ids::Text(ids) => ids.iter().map(|id| id.unwrap_or_default().to_owned()).collect(),
        Ids::Int(ids) => ids.values().iter().map(ToString::to_string).collect(),
    })
}
