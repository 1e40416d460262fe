//! Vectors of new documents under a doc2vec run.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value};
use veridical_core::Seed;
use veridical_data::run::RunFolder;
use veridical_data::{Corpus, Ids, ReadOptions, Source, Table, Vocabulary};
use veridical_embed::trainers::doc2vec;
use veridical_embed::{Method, Model, Tensors};

use crate::train::{Layer, Options, Request, method_of, reading};
use crate::{Error, Observer, Result};

/// What to embed, and where to.
#[derive(Clone, Debug)]
pub struct Embed {
    /// A run of doc2vec.
    pub run: PathBuf,
    /// The documents and how they are read; what is `None` is as the run read its own.
    pub options: Options,
    /// The table to write.
    pub out: PathBuf,
    /// Replace a file that is there.
    pub force: bool,
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
/// [`Error::Usage`] for a run of another method.
pub fn embed(settings: &Embed, observer: &dyn Observer) -> Result<Embedded> {
    let Embed { run, options, out, force } = settings;
    if !force && out.exists() {
        let what = "exists already; choose another name or replace it with --force";
        return Err(Error::Usage(format!("{} {what}", out.display())));
    }
    let Some(path) = &options.text else {
        return Err(Error::Usage("name the documents with --text FILE".into()));
    };
    let run = RunFolder::open(run)?;
    let method = method_of(&run)?;
    if method != Method::Doc2vec {
        let what = format!("is a run of {}; only doc2vec embeds documents", method.name());
        return Err(Error::Usage(format!("{} {what}", run.path().display())));
    }
    let (_, layer) = Layer::run(run.path())?;
    let own = Request::new(method, &[layer])?;
    let merged = Options {
        column: options.column.clone().or(own.options.column),
        id_column: options.id_column.clone().or(own.options.id_column),
        encoding: options.encoding.clone(),
        no_header: options.no_header,
        ..Options::default()
    };
    let vocabulary = Vocabulary::new(words(&run)?, true);
    let (corpus, notes) = Corpus::read_with(path, &reading::text_options(&merged), &vocabulary)?;
    notes.iter().for_each(|note| observer.note(note));

    let document = run.document();
    let given = document.get("settings").and_then(Value::as_object).cloned();
    let seed = Seed::new(document.get("seed").and_then(Value::as_u64).unwrap_or(0))?;
    let model = Model::from_parts(Tensors(run.state()?))?;
    let progress = observer.progress("inferring", "documents", Some(corpus.docs.len() as u64));
    let parsed = veridical_embed::settings::parse(&given.unwrap_or_else(Map::new))?;
    let vectors = doc2vec::infer(&parsed, &model, &corpus.tokens, seed, &progress)?;
    drop(progress);
    let empty = corpus.tokens.iter().filter(|doc| doc.is_empty()).count();
    let (rows, dim) = (vectors.n_rows(), vectors.dim());
    Table { ids: corpus.docs, dim, vectors: vectors.into_values() }.save(out)?;
    Ok(Embedded { out: out.display().to_string(), rows, dim, empty })
}

/// The words of a run under their numbers.
fn words(run: &RunFolder) -> Result<Vec<String>> {
    let source = Source::Path(run.table(Some("context"))?);
    let table = Table::load(&source, &ReadOptions::default())?;
    Ok(match &table.ids {
        Ids::Text(ids) => ids.iter().map(|id| id.unwrap_or_default().to_owned()).collect(),
        Ids::Int(ids) => ids.values().iter().map(ToString::to_string).collect(),
    })
}
