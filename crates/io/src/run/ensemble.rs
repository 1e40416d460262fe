//! `OUT/seed-<value>`: runs that differ only in the random seed, published together.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use veridical_core::Error as Core;

use super::writer::lock;
use crate::publish::{self, Lock, partial_path};
use crate::write::difference;
use crate::{Error, IfExists, Result};

const DOCUMENT: &str = "ensemble.json";

/// Writes an ensemble.
#[derive(Debug)]
pub struct EnsembleWriter {
    output: PathBuf,
    folder: PathBuf,
    lock: Lock,
}

impl EnsembleWriter {
    /// Starts or resumes an ensemble of these seeds.
    ///
    /// # Errors
    /// [`veridical_core::Error::Exists`] if an output exists, or if the unfinished ensemble has other seeds.
    pub fn begin(output: &Path, method: &str, seeds: &[u64], if_exists: IfExists) -> Result<Self> {
        let lock = lock(output, if_exists)?;
        let partial = partial_path(output);
        let document =
            json!({ "format": "veridical-ensemble/1", "method": method, "seeds": seeds });
        if if_exists == IfExists::Resume {
            for folder in [output, &partial] {
                let file = folder.join(DOCUMENT);
                let Ok(text) = fs::read(&file) else { continue };
                let before: Value = serde_json::from_slice(&text)
                    .map_err(|e| Error::malformed(&file, "ensemble.json", e))?;
                if let Some((at, before, now)) = difference(&before, &document, "") {
                    let at = at.trim_start_matches('.');
                    let what = format!("the unfinished ensemble has {at} {before}, not {now}");
                    let what = format!("{}: {what}", folder.display());
                    return Err(Core::exists(what, "start over with ⟨force⟩").into());
                }
                return Ok(Self { output: output.to_owned(), folder: folder.to_owned(), lock });
            }
        }
        let failed = |e| Error::write(&partial, e);
        if partial.exists() {
            fs::remove_dir_all(&partial).map_err(failed)?;
        }
        fs::create_dir_all(&partial).map_err(failed)?;
        publish::put(&partial.join(DOCUMENT), format!("{document}\n").as_bytes())?;
        Ok(Self { output: output.to_owned(), folder: partial, lock })
    }

    /// Returns the folder of the runs; the output itself if it is finished.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Renames the finished ensemble to its final name.
    ///
    /// # Errors
    /// [`Error::Write`] if writing fails.
    pub fn publish(mut self) -> Result<()> {
        if self.folder == self.output {
            return Ok(());
        }
        // A run killed after its last rename leaves its lock file behind.
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let is_lock =
            |path: &PathBuf| path.extension().is_some_and(|extension| extension == "lock");
        for path in entries.map(|entry| entry.path()).filter(is_lock) {
            fs::remove_file(&path).map_err(|e| Error::write(&path, e))?;
        }
        self.lock.publish()
    }
}
