//! Run folders: the output of one training run with one random seed.
//!
//! run.json              full configuration, seed, split, fingerprints of the data, list of tables with their digests
//! metrics.jsonl         one object per epoch
//! vectors/T.parquet     one table per T of item, user, word, doc, context; optionally with a `bias` column
//! model.safetensors     all learned parameters
//! checkpoint/           the state after the last epoch, from which a run is resumed
//! log.jsonl             times, paths, threads: the only file that may differ between equal runs
//!
//! A run is written to `OUT.partial/` and published by one rename.

mod digests;
mod ensemble;
mod tensors;
mod writer;

use std::path::{Path, PathBuf};

use serde_json::Value;
use veridical_core::Error as Core;
use veridical_data::TensorMap;

pub(crate) use self::digests::check as check_table;
pub use self::ensemble::EnsembleWriter;
pub use self::tensors::{read_tensors, write_tensors};
pub use self::writer::{RunWriter, check_output, unfinished};
use crate::read::StoredMatrix;
use crate::{Error, Result, storage};

const DOCUMENT: &str = "run.json";
const METRICS: &str = "metrics.jsonl";
const MODEL: &str = "model.safetensors";
const LOG: &str = "log.jsonl";
/// The subfolder of the vector tables.
pub const VECTORS: &str = "vectors";
/// The value of `format` in `run.json`.
pub const FORMAT: &str = "veridical-run/1";
/// The names in a run folder that belong to the run.
pub(crate) const OWN_NAMES: [&str; 7] =
    [DOCUMENT, METRICS, MODEL, LOG, VECTORS, "weights", "checkpoint"];
const MAX_DOCUMENT: u64 = 64 << 20;

/// Returns the folder of a seed in an ensemble.
pub fn seed_folder(ensemble: &Path, seed: u64) -> PathBuf {
    ensemble.join(format!("seed-{seed}"))
}

/// Returns the runs of an ensemble by ascending seed; empty if the folder is not an ensemble.
pub fn seeds(ensemble: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(ensemble).into_iter().flatten().flatten();
    let seed = |name: std::ffi::OsString| name.to_str()?.strip_prefix("seed-")?.parse::<u64>().ok();
    let mut seeds: Vec<u64> = entries.filter_map(|entry| seed(entry.file_name())).collect();
    seeds.sort_unstable();
    let folders = seeds.into_iter().map(|seed| seed_folder(ensemble, seed));
    folders.filter(|folder| RunFolder::is_run(folder)).collect()
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
    document: Value,
}

impl RunFolder {
    /// Returns whether a folder is a run.
    pub fn is_run(path: &Path) -> bool {
        path.join(DOCUMENT).is_file()
    }

    /// Opens a run; the path may also name its `run.json`, or another document of the same form.
    ///
    /// # Errors
    /// [`Error::Content`] if it is not a run, or has another format.
    pub fn open(path: &Path) -> Result<Self> {
        let (path, file) = match path.extension() {
            Some(extension) if extension == "json" => {
                (path.parent().unwrap_or(Path::new("")), path.to_owned())
            }
            _ => (path, path.join(DOCUMENT)),
        };
        if !file.is_file() {
            let what = match (path.join(DOCUMENT) == file, seeds(path).as_slice()) {
                (false, _) => format!("{}: there is no such file", file.display()),
                (_, []) => format!("{} is not a run folder: it has no run.json", path.display()),
                (_, [first, ..]) => format!(
                    "{} is an ensemble; name one of its seeds, such as {}",
                    path.display(),
                    first.display()
                ),
            };
            return Err(Core::missing(what, "").into());
        }
        let document: Value = serde_json::from_slice(&storage::read(&file, MAX_DOCUMENT)?)
            .map_err(|e| Error::malformed(&file, "run.json", e))?;
        match document.get("format").and_then(Value::as_str) {
            Some(FORMAT) => Ok(Self { path: path.to_owned(), document }),
            found => {
                let found = found.unwrap_or("no format");
                let what = format!("has {found} where `{FORMAT}` is expected; train it again");
                Err(Error::content(&file, what))
            }
        }
    }

    /// Returns the folder of the run.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the content of `run.json`.
    pub fn document(&self) -> &Value {
        &self.document
    }

    /// Returns the names of its vector tables.
    pub fn tables(&self) -> Vec<&str> {
        let tables = self.document.get("tables").and_then(Value::as_array);
        let named = tables.into_iter().flatten();
        named.filter_map(|table| table.get("name")?.as_str()).collect()
    }

    /// Returns the file of a table; without a name that of `item`, or the first one.
    ///
    /// # Errors
    /// [`veridical_core::Error::Missing`] names the existing tables.
    pub fn table(&self, name: Option<&str>) -> Result<PathBuf> {
        let tables = self.tables();
        let chosen = match name {
            Some(name) => tables.iter().find(|table| **table == name),
            None => tables.iter().find(|table| **table == "item").or(tables.first()),
        };
        let file = |table: &&str| self.path.join(VECTORS).join(format!("{table}.parquet"));
        chosen.map(file).ok_or_else(|| {
            let wanted = name.map_or(String::new(), |name| format!(" `{name}`"));
            let there = match tables.as_slice() {
                [] => match self.document.get("method").and_then(Value::as_str) {
                    Some(method) => format!("a run of `{method}` has none"),
                    None => "it has none".to_owned(),
                },
                some => format!("choose one with ⟨table⟩: {}", some.join(", ")),
            };
            let what = format!("{}: there is no table{wanted}", self.path.display());
            Core::missing(what, there).into()
        })
    }

    /// Reads the tensors of its model.
    ///
    /// # Errors
    /// The errors of [`read_tensors`].
    pub fn model(&self) -> Result<TensorMap> {
        read_tensors(&self.path.join(MODEL))
    }

    /// Opens a matrix of its model, of which rows are read by number; `None` if the model has no matrix of that name.
    ///
    /// # Errors
    /// The errors of [`read_tensors`].
    pub fn matrix(&self, name: &str) -> Result<Option<StoredMatrix>> {
        storage::explained(|| StoredMatrix::open(&self.path.join(MODEL), name))
    }

    /// Returns the size of the file of its model, in bytes.
    ///
    /// # Errors
    /// [`Error::Read`] if there is none.
    pub fn model_bytes(&self) -> Result<u64> {
        let path = self.path.join(MODEL);
        let file = std::fs::metadata(&path).map_err(|e| Error::read(&path, "read", e))?;
        Ok(file.len())
    }

    /// Reads its full state after the last epoch: at least the model.
    ///
    /// # Errors
    /// The errors of [`read_tensors`].
    pub fn state(&self) -> Result<TensorMap> {
        match writer::state_of(&self.path) {
            Some(state) => read_tensors(&state),
            None => self.model(),
        }
    }

    /// Returns the last line of the log with this `event`, if the log exists: where data came from.
    pub fn logged(&self, event: &str) -> Option<Value> {
        let text = std::fs::read_to_string(self.path.join(LOG)).ok()?;
        let lines = text.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.into_iter().find(|line| line.get("event").and_then(Value::as_str) == Some(event))
    }
}
