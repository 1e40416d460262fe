//! `OUT/seed-<value>`: runs that differ only in the seed, published together.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::check_output;
use crate::write::{difference, partial_path, write_atomically};
use crate::{Error, IfExists, Result};

const DOCUMENT: &str = "ensemble.json";

/// Writes an ensemble.
#[derive(Debug)]
pub struct EnsembleWriter {
    output: PathBuf,
    folder: PathBuf,
}

impl EnsembleWriter {
    /// Begins an ensemble of these seeds, or takes one up.
    ///
    /// # Errors
    /// [`Error::Usage`] if something is in the way, or if the unfinished ensemble has other seeds.
    pub fn begin(output: &Path, method: &str, seeds: &[u64], if_exists: IfExists) -> Result<Self> {
        check_output(output, if_exists)?;
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
                    let what = format!("the ensemble that was begun has {at} {before}, not {now}");
                    let what = format!("{}: {what}; start over with --force", folder.display());
                    return Err(Error::Usage(what));
                }
                return Ok(Self { output: output.to_owned(), folder: folder.to_owned() });
            }
        }
        let failed = |e| Error::write(&partial, e);
        if partial.exists() {
            fs::remove_dir_all(&partial).map_err(failed)?;
        }
        fs::create_dir_all(&partial).map_err(failed)?;
        write_atomically(&partial.join(DOCUMENT), format!("{document}\n").as_bytes())?;
        Ok(Self { output: output.to_owned(), folder: partial })
    }

    /// Where the runs are written; the output itself if it is finished.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Gives the folder its name.
    ///
    /// # Errors
    /// [`Error::Write`] if the disk refuses.
    pub fn publish(self) -> Result<()> {
        if self.folder == self.output {
            return Ok(());
        }
        let failed = |e| Error::write(&self.output, e);
        if self.output.exists() {
            fs::remove_dir_all(&self.output).map_err(failed)?;
        }
        fs::rename(&self.folder, &self.output).map_err(failed)
    }
}
