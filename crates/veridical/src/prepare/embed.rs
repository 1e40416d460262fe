//! Vectors of new documents under a doc2vec run.

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};
use veridical_core::settings::Settings as _;
use veridical_core::{Error as Refusal, Job, Seed, settings};
use veridical_data::{Ids, Table, Vocabulary};
use veridical_embed::trainers::doc2vec;
use veridical_embed::{Method, Model};
use veridical_io::run::RunFolder;
use veridical_io::{
    ColumnMap, Existing, Input, Output, ReadOptions, RecordOptions, Source, TextOptions, publish,
};

use crate::Result;
use crate::settings::DocumentColumns;
use crate::train::{Request, layer_of, method_of};

settings! {
    /// What to embed, by what, and where to.
    pub struct Embed {
        /// Folder of a pretrained sentence encoder, as sentence-transformers saves it
        pub encoder: Option<Input> = None => [value("FOLDER"), excludes(&["run"])],
        /// Run of doc2vec
        pub run: Option<Input> = None => [value("RUN"), excludes(&["resume", "max-length", "batch", "memory"])],
        /// Documents: a file or a folder
        pub text: Input = Input::default() => [required()],
        /// Column of the documents
        pub column: Option<String> = None => [otherwise("that of the run, or by its name")],
        /// Column of their ids
        pub id_column: Option<String> = None => [otherwise("that of the run, or by its name")],
        /// Encoding of text files
        pub encoding: Option<String> = None => [otherwise("utf-8")],
        /// Table to write
        pub out: Output = Output::default() => [required()],
        /// Cut texts after so many tokens
        pub max_length: Option<usize> = None => [heading("Encoder"), otherwise("what the encoder was made for")],
        /// Texts that go through the network together, at most
        pub batch: usize = 64 => [heading("Encoder")],
        /// Mebibytes that a batch may take
        pub memory: usize = 512 => [heading("Encoder"), value("MIB")],
    } with {
        /// What to do about an earlier output; a job of an encoder alone can be continued.
        pub existing: Existing,
    }
}

impl Embed {
    /// How documents are read; columns that are not named are those of `run`.
    pub(crate) fn reading(&self, run: &DocumentColumns) -> TextOptions {
        let columns = ColumnMap::default()
            .with("text", self.column.as_ref().or(run.column.as_ref()))
            .with("id", self.id_column.as_ref().or(run.id_column.as_ref()));
        let encoding = self.encoding.clone();
        let records = RecordOptions { columns, encoding, ..RecordOptions::default() };
        TextOptions { records, ..TextOptions::default() }
    }
}

/// What was written.
#[derive(Clone, Debug, Serialize)]
pub struct Embedded {
    /// The table.
    pub out: String,
    /// Documents.
    pub rows: usize,
    /// Values of a vector.
    pub dim: usize,
    /// Documents without a word that the run knows.
    pub empty: usize,
}

/// Infers a vector for every document; the same for a document whichever others come with it.
///
/// # Errors
/// [`Refusal::Request`] for a run of another method.
pub fn embed(run: &Path, settings: &Embed, job: &Job<'_>) -> Result<Embedded> {
    let out = &settings.out;
    publish::check_new(out, settings.existing.force)?;
    let run = RunFolder::open(run)?;
    let method = method_of(&run)?;
    if method != Method::Doc2vec {
        let what = format!("{} is a run of {}", run.path().display(), method.name());
        return Err(Refusal::request(what, "only doc2vec embeds documents").into());
    }
    let (_, layer) = layer_of(run.path())?;
    let own = Request::new(method, &[layer])?.options.documents;
    let reading = settings.reading(&own);
    let vocabulary = Vocabulary::new(words(&run)?, true);
    let (corpus, notes) = veridical_io::read_corpus_with(&settings.text, &reading, &vocabulary)?;
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
    let table = Table { ids: corpus.docs, dim, vectors: vectors.into_values() };
    veridical_io::write_table(&table, out)?;
    Ok(Embedded { out: out.to_string(), rows, dim, empty })
}

/// The words of a run under their numbers.
fn words(run: &RunFolder) -> Result<Vec<String>> {
    let source = Source::Path(run.table(Some("context"))?);
    let table = veridical_io::read_table(&source, &ReadOptions::default())?;
    Ok(match &table.ids {
        Ids::Text(ids) => ids.iter().map(|id| id.unwrap_or_default().to_owned()).collect(),
        Ids::Int(ids) => ids.values().iter().map(ToString::to_string).collect(),
    })
}
