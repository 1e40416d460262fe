//! `veridical train text`: document classification, by the words and pairs of words of a document (`tfidf.rs`) or by a recurrent
//! network on word embeddings (`recurrent.rs`).

mod learned;
mod material;
mod options;
mod recurrent;
mod saved;
mod tfidf;

use std::path::Path;

use veridical_core::Job;
use veridical_io::run::{self, RunFolder};

pub(crate) use self::learned::{LearnedTexts, Recurrent};
pub use self::material::Parts;
pub(super) use self::material::classes;
pub use self::options::{
    CellKind, METHOD, TextModel, TextNetOptions, TextRecipe, TextRequest, TfidfRecipe, TrainText,
    layer_of,
};
pub(crate) use self::saved::SavedText;
pub(super) use self::saved::evaluate;
use super::{NetRun, TrainedNet};
use crate::Result;
use crate::settings::Start;
use crate::train::{Seeded, ensemble};

/// Name of the word table in a run and in the model.
const WORDS: &str = "word";
const EMBEDDING: &str = "embedding.weight";
/// Name of the table of terms and their weights, and of the tensors beside it.
const TERMS: &str = "term";
const IDF: &str = "idf";
const INTERCEPTS: &str = "intercepts";

/// Returns whether a run folder, or the first run of an ensemble, is a text model.
pub fn is_text(path: &Path) -> bool {
    let first = run::seeds(path).into_iter().next();
    RunFolder::open(first.as_deref().unwrap_or(path)).is_ok_and(|run| super::method(&run) == METHOD)
}

/// Trains a text model and publishes the run folder.
///
/// # Errors
/// Bad data, bad settings and a diverging loss leave nothing behind; an interruption and a full disk
/// leave a state that can be resumed.
pub fn train(settings: &TrainText, job: &Job<'_>) -> Result<TrainedNet> {
    let TrainText { request, start } = settings;
    run::check_output(&start.output.folder(METHOD), start.output.existing.if_exists())?;
    match request.model {
        TextModel::Tfidf => {
            let prepared = tfidf::Prepared::load(request.clone(), job)?;
            trained(settings, &prepared, prepared.described(), job)
        }
        TextModel::Rnn => {
            let prepared = recurrent::Prepared::load(request.clone(), job)?;
            trained(settings, &prepared, prepared.described(), job)
        }
    }
}

/// Trains one run, or one for each of several seeds.
fn trained(
    settings: &TrainText,
    prepared: &impl Seeded<Run = NetRun>,
    (model, parameters): (String, usize),
    job: &Job<'_>,
) -> Result<TrainedNet> {
    let TrainText { request, start: Start { seeds, output, .. } } = settings;
    let (out, if_exists) = (&output.folder(METHOD), output.existing.if_exists());
    let seed = request.options.seed.get()?;
    let runs = match seeds.map(|n| ensemble::seeds(seed, n)).transpose()? {
        None => vec![prepared.run(seed, out, if_exists, job)?],
        Some(seeds) => ensemble::train(prepared, &seeds, out, if_exists, job)?,
    };
    Ok(TrainedNet { method: METHOD, model, parameters, out: out.to_string(), runs })
}
