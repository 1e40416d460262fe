//! `veridical data`: look at interactions and documents, divide them, make some with planted truth, build
//! graphs, and embed new documents.

mod describe;
mod embed;
mod generate;
mod graph;

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use veridical_data::{interactions, write_atomically};

pub use self::describe::{Description, Quantiles, describe};
pub use self::embed::{Embed, Embedded, embed};
pub use self::generate::{
    GenerateImages, GenerateShop, GenerateText, Generated, images, shop, text,
};
pub use self::graph::{BuildGraph, BuiltGraph, GraphSource, Side, graph};
use crate::train::{Divided, Options, reading};
use crate::{Error, Observer, Result};

/// What a split wrote.
#[derive(Clone, Debug, Serialize)]
pub struct Written {
    /// The folder.
    pub out: String,
    /// As in `run.json`: rule, seed, fingerprint, rows of every part.
    pub split: Value,
}

/// Divides interactions and writes every part to a file of its own, in `out`.
///
/// # Errors
/// Bad data, a bad rule, and a folder that is there unless `force`.
pub fn split(
    options: &Options,
    out: &Path,
    format: &str,
    force: bool,
    observer: &dyn Observer,
) -> Result<Written> {
    let path = interactions_of(options)?;
    let rule = options.rule()?;
    let in_folder = Folder::check(out, force)?;
    let data = reading::interactions(path, options, observer)?;
    let divided = Divided::divide(data, rule, options, observer)?;
    let described = divided.describe_split();
    in_folder.write(|folder| {
        let Divided { data, split, .. } = &divided;
        let parts =
            [("train", &split.train), ("validation", &split.validation), ("test", &split.test)];
        for (name, rows) in parts.into_iter().filter(|(_, rows)| !rows.is_empty()) {
            interactions::write(&folder.join(format!("{name}.{format}")), data, rows)?;
        }
        // INVARIANT: a JSON value is JSON.
        let text = serde_json::to_string_pretty(&described).expect("a split serialises");
        Ok(write_atomically(&folder.join("split.json"), format!("{text}\n").as_bytes())?)
    })?;
    Ok(Written { out: out.display().to_string(), split: described })
}

/// The interactions that the options name.
fn interactions_of(options: &Options) -> Result<&Path> {
    options
        .interactions
        .as_deref()
        .ok_or_else(|| Error::Usage("name the interactions with --interactions FILE".into()))
}

/// A folder that appears when everything in it is written.
struct Folder<'a>(&'a Path);

impl<'a> Folder<'a> {
    fn check(out: &'a Path, force: bool) -> Result<Self> {
        let is_empty =
            !out.exists() || fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_none());
        if !is_empty && !force {
            let what = "exists already; choose another name or replace it with --force";
            return Err(Error::Usage(format!("{} {what}", out.display())));
        }
        Ok(Self(out))
    }

    /// Files of the same names are replaced; others are left alone.
    fn write(self, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let failed = |e: std::io::Error| Error::Usage(format!("{}: {e}", self.0.display()));
        let mut name = self.0.as_os_str().to_owned();
        name.push(".partial");
        let partial = Path::new(&name);
        let _ = fs::remove_dir_all(partial); // left by a kill
        fs::create_dir_all(partial).map_err(failed)?;
        let outcome = fill(partial).and_then(|()| {
            if !self.0.exists() {
                return fs::rename(partial, self.0).map_err(failed);
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
