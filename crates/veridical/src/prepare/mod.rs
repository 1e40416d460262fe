//! `veridical data`: describes, splits and generates interactions and documents, builds graphs, embeds new documents, and
//! plants faults in images.

mod describe;
mod embed;
mod generate;
mod graph;
mod poison;

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use veridical_core::{Error as Refusal, Job, choices, settings};
use veridical_io::publish::{self, Lock};
use veridical_io::{Input, Output, Replace, interactions};

pub use self::describe::{Describe, Description, Quantiles, describe};
pub use self::embed::{Embed, Embedded, embed};
pub use self::generate::{Generate, Generated, Kind as GeneratedKind, generate};
pub use self::graph::{BuildGraph, BuiltGraph, Side, graph};
pub use self::poison::{Poison, Poisoned, poison};
use crate::Result;
use crate::settings::{InteractionReading, SplitSettings};
use crate::train::{Divided, reading};

choices! {
    /// File format of written tables.
    pub enum TableFormat {
        /// Comma-separated text
        Csv = "csv",
        /// Tab-separated text
        Tsv = "tsv",
        /// Parquet
        Parquet = "parquet",
    }
}

settings! {
    /// An output folder of tables.
    pub struct TablesOutput in "Output" {
        /// Folder to write to
        pub out: Output = Output::default() => [required(), value("FOLDER")],
        /// File format
        pub format: TableFormat = TableFormat::Csv => [value("FORMAT")],
    } with {
        /// Whether existing output is replaced.
        pub replace: Replace,
    }
}

settings! {
    /// Settings of [`split`].
    pub struct SplitData {
        /// User-item interactions (file or folder)
        pub interactions: Input = Input::default() => [required()],
    } with {
        /// Output folder and file format.
        pub output: TablesOutput,
        /// How interactions are read.
        pub reading: InteractionReading,
        /// How interactions are split.
        pub split: SplitSettings,
    }
}

/// Result of [`split`].
#[derive(Clone, Debug, Serialize)]
pub struct Written {
    /// Output folder.
    pub out: String,
    /// Section `split` as in `run.json`: rule, seed, fingerprint, rows per part.
    pub split: Value,
}

/// Splits interactions and writes each part to a separate file.
///
/// # Errors
/// Bad data, an invalid rule, and an existing folder unless it may be replaced.
pub fn split(settings: &SplitData, job: &Job<'_>) -> Result<Written> {
    let TablesOutput { out, format, replace } = &settings.output;
    let (rule, format) = (settings.split.rule()?, format.name());
    let in_folder = Folder::check(out, replace.force)?;
    let (data, names) =
        reading::named_interactions(&settings.interactions, &settings.reading, job)?;
    let divided = Divided::divide(data, rule, &settings.split, job)?;
    let described = divided.describe_split();
    in_folder.write(|folder| {
        let Divided { data, split, .. } = &divided;
        let parts =
            [("train", &split.train), ("validation", &split.validation), ("test", &split.test)];
        for (name, rows) in parts.into_iter().filter(|(_, rows)| !rows.is_empty()) {
            interactions::write(&folder.join(format!("{name}.{format}")), data, rows, &names)?;
        }
        // INVARIANT: a JSON value is JSON.
        let text = serde_json::to_string_pretty(&described).expect("a split serializes");
        Ok(publish::put(&folder.join("split.json"), format!("{text}\n").as_bytes())?)
    })?;
    Ok(Written { out: out.to_string(), split: described })
}

/// A folder that appears once everything in it is written.
struct Folder<'a>(&'a Path);

impl<'a> Folder<'a> {
    fn check(out: &'a Path, force: bool) -> Result<Self> {
        let is_empty =
            !out.exists() || fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_none());
        if !is_empty && !force {
            return Err(publish::already(out).into());
        }
        Lock::refuse_held(out)?;
        Ok(Self(out))
    }

    /// Writes into the folder: files with the same names are replaced, others are left alone.
    fn write(self, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let failed = |e: std::io::Error| Refusal::request(format!("{}: {e}", self.0.display()), "");
        let partial = &publish::partial_path(self.0);
        if let Some(parent) = self.0.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let mut lock = Lock::acquire(self.0, partial)?;
        let _ = fs::remove_dir_all(partial); // left by a kill
        fs::create_dir(partial).map_err(failed)?;
        let outcome = fill(partial).and_then(|()| {
            if !self.0.exists() {
                return Ok(lock.publish()?);
            }
            for entry in fs::read_dir(partial).map_err(failed)?.flatten() {
                fs::rename(entry.path(), self.0.join(entry.file_name())).map_err(failed)?;
            }
            Ok(())
        });
        let _ = fs::remove_dir_all(partial); // gone after the rename
        outcome
    }
}
