//! Detects the kind of examples in a folder.

use std::path::{Path, PathBuf};
use veridical_core::Error as Core;

use super::{ExampleOptions, Found, cifar, idx, images, rows, sheets};
use crate::{Error, Result};

/// The supported layouts of examples in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Idx,
    Cifar,
    Sheets,
    Images,
    Rows,
}

/// The list of layouts in the message about a folder with none of them.
pub(super) const KNOWN: &str = "the supported layouts are idx files (train-images-idx3-ubyte, train-labels-idx1-ubyte, \
     t10k-...; also .gz), CIFAR in binary (data_batch_*.bin, test_batch.bin, or train.bin, test.bin), sheets \
     (data_batch_*.png, test_batch.png, train_labels.json, test_labels.json), images as CLASS/*.png or .jpg, alone or \
     below train/ and test/, and tables (train.csv, test.csv; also .tsv, .parquet, .arrow)";

/// A folder and its files.
pub(super) struct Folder<'a> {
    pub path: &'a Path,
    files: Vec<File>,
}

pub(super) struct File {
    /// The path components from the folder to the file.
    pub names: Vec<String>,
    pub path: PathBuf,
}

impl<'a> Folder<'a> {
    pub fn new(path: &'a Path, files: Vec<PathBuf>) -> Self {
        let file = |file: PathBuf| {
            let relative = file.strip_prefix(path).unwrap_or(&file);
            let names = relative.components().map(|c| c.as_os_str().to_string_lossy().into_owned());
            File { names: names.collect(), path: file }
        };
        Self { path, files: files.into_iter().map(file).collect() }
    }

    /// All files in the order of their paths.
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// The files directly in the folder.
    pub fn direct(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.files.iter().filter_map(|file| match file.names.as_slice() {
            [name] => Some((name.as_str(), file.path.as_path())),
            _ => None,
        })
    }

    /// The first of these names that exists.
    pub fn find(&self, names: &[&str]) -> Option<&Path> {
        names
            .iter()
            .find_map(|wanted| self.direct().find(|(name, _)| name == wanted).map(|(_, path)| path))
    }

    /// The files `data_batch_*` with this extension, `data_batch_10` after `data_batch_9`.
    pub fn batches(&self, extension: &str) -> Vec<&Path> {
        let is_batch = |name: &str| name.starts_with("data_batch_") && name.ends_with(extension);
        let mut found: Vec<_> = self.direct().filter(|(name, _)| is_batch(name)).collect();
        found.sort_by_key(|(name, _)| (name.len(), *name));
        found.into_iter().map(|(_, path)| path).collect()
    }

    pub fn read(&self, options: &ExampleOptions) -> Result<Found> {
        let layout = self.layout()?;
        if layout != Layout::Rows {
            self.refuse_columns(options)?;
        }
        match layout {
            Layout::Idx => idx::read(self),
            Layout::Cifar => cifar::read(self),
            Layout::Sheets => sheets::read(self),
            Layout::Images => images::read(self),
            Layout::Rows => rows::read_folder(self, options),
        }
    }

    pub fn layout(&self) -> Result<Layout> {
        let kinds = [
            (Layout::Idx, "idx files", idx::is_here(self)),
            (Layout::Cifar, "CIFAR in binary", cifar::is_here(self)),
            (Layout::Sheets, "sheets of images", sheets::is_here(self)),
            (Layout::Images, "folders of images", images::is_here(self)),
            (Layout::Rows, "tables", rows::is_here(self)),
        ];
        let here: Vec<_> = kinds.iter().filter(|(_, _, is_here)| *is_here).collect();
        match here.as_slice() {
            [(layout, ..)] => Ok(*layout),
            [] => Err(Error::content(self.path, format!("there are no examples in it; {KNOWN}"))),
            [(_, one, _), (_, other, _), ..] => {
                let what = format!("holds {one} and {other}; put them into separate folders");
                Err(Error::content(self.path, what))
            }
        }
    }

    fn refuse_columns(&self, options: &ExampleOptions) -> Result<()> {
        let given = [
            ("⟨target⟩", !options.target.is_empty()),
            ("⟨regression⟩", options.regression),
            ("⟨ignore-columns⟩", !options.ignore_columns.is_empty()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((flag, _)) => {
                let path = self.path.display();
                let what = format!("{flag} is for tables, and {path} holds images");
                Err(Core::request(what, "").into())
            }
        }
    }
}
