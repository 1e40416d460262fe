//! Reads examples for neural networks: images and numeric rows, each with its class or regression targets.
//!
//! idx           `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-...`: MNIST and similar datasets
//! CIFAR         `data_batch_*.bin`, `test_batch.bin`, or `train.bin`, `test.bin` of CIFAR-100
//! sheets        `data_batch_*.png`, `test_batch.png` with one image per row, labels as JSON
//! images        `CLASS/*.png`, or `train/CLASS/*.png` and `test/CLASS/*.png`; JPEG too
//! rows          a table, or a folder with `train.csv` and `test.csv`; Parquet, Arrow and TSV too
//!
//! The layout of a folder is detected from its file names. No reader allocates memory by the size that a header claims.

mod cifar;
mod classes;
mod decode;
mod folder;
mod idx;
mod images;
mod inputs;
mod rows;
mod sheets;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use veridical_data::examples::{Dataset, ExampleShape, Examples, Targets, Values};
use veridical_data::fingerprint;

use self::folder::Folder;
pub use self::idx::write_idx;
pub use self::images::{png_of, write_image_folder};
pub use self::inputs::{InputOptions, Inputs, read_inputs};
use crate::read::is_skipped;
use crate::records::Place;
use crate::{Error, RecordOptions, Result, storage};

/// Options for reading examples.
#[derive(Clone, Debug, Default)]
pub struct ExampleOptions {
    /// The target columns of a table, by name, or by position from 0 if the first line is data.
    pub target: Vec<String>,
    /// Whether targets are numbers, not classes.
    pub regression: bool,
    /// The classes to keep, with the indices 0, 1, ...; the others are dropped.
    pub classes: Option<Vec<String>>,
    /// The classes of a trained network: indices follow them, and any other label is an error.
    pub known_classes: Option<Vec<String>>,
    /// The columns of a table that are not inputs.
    pub ignore_columns: Vec<String>,
    /// How tables are read; their columns are named by `target` and `ignore_columns` alone.
    pub records: RecordOptions,
}

/// Reads examples from a table or a folder.
///
/// ```
/// use veridical_io::examples::{ExampleOptions, read_examples};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("pets.csv");
/// std::fs::write(&path, "weight,height,kind\n4.5,25,cat\n30,60,dog\n3.9,23,cat\n")?;
/// let options = ExampleOptions { target: vec!["kind".into()], ..ExampleOptions::default() };
///
/// let data = read_examples(&path, &options)?;
/// assert_eq!(data.columns, ["weight", "height"]);
/// assert_eq!(data.classes, ["cat", "dog"]);
/// assert_eq!(data.train.map(|train| train.n()), Some(3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Read`] or [`Error::Store`] for missing files, [`Error::Malformed`] for damaged bytes,
/// [`Error::Content`] for unusable content, [`veridical_core::Error::Request`] for options that do not match the data.
pub fn read_examples(path: &Path, options: &ExampleOptions) -> Result<Dataset> {
    storage::explained(|| {
        let found = match storage::list(path, is_skipped)? {
            None => rows::read_file(path, options)?,
            Some(files) => Folder::new(path, files).read(options)?,
        };
        check_alike(path, &found)?;
        let found = classes::settle(path, found, options)?;
        let fingerprint = describe(&found);
        let Found { train, test, classes, columns, notes, .. } = found;
        Ok(Dataset { train, test, classes, columns, fingerprint, notes })
    })
}

/// The result of a reader: `classes` are those of both sets, whether or not they have examples.
#[derive(Debug, Default)]
struct Found {
    train: Option<Examples>,
    test: Option<Examples>,
    classes: Vec<String>,
    columns: Vec<String>,
    notes: Vec<String>,
    /// The origins of the labels of both sets, if known.
    origins: [Option<Origin>; 2],
}

/// The origin of the labels of a set.
#[derive(Debug)]
enum Origin {
    /// Consecutive files, each with its number of labels.
    Files(Vec<(PathBuf, usize)>),
    /// A table, with the first row of every class in it.
    Table(PathBuf, Vec<Option<Place>>),
}

impl Origin {
    /// File and position of the first example of a class.
    fn first(&self, part: &Examples, class: u32) -> Option<(&Path, String)> {
        match self {
            Self::Files(files) => {
                let mut at = classes::labels(part).iter().position(|&label| label == class)?;
                for (path, n) in files {
                    if at < *n {
                        return Some((path, format!("example {at}")));
                    }
                    at -= n;
                }
                None
            }
            Self::Table(path, places) => {
                let place = (*places.get(class as usize)?)?;
                Some((path, place.to_string()))
            }
        }
    }
}

impl Found {
    /// File and position of the first example of a class: in the training set, or else in the test set.
    fn first(&self, class: u32) -> Option<(&Path, String)> {
        let parts = [&self.train, &self.test].into_iter().zip(&self.origins);
        let mut parts = parts.filter_map(|(part, origin)| part.as_ref().zip(origin.as_ref()));
        parts.find_map(|(part, origin)| origin.first(part, class))
    }

    fn parts(&self) -> impl Iterator<Item = (&'static str, &Examples)> {
        let parts = [("train", &self.train), ("test", &self.test)];
        parts.into_iter().filter_map(|(name, part)| Some((name, part.as_ref()?)))
    }
}

fn describe(found: &Found) -> Value {
    let mut section = Map::new();
    for (name, part) in found.parts() {
        let content = fingerprint::of_examples(part, &found.classes, &found.columns);
        section.insert("shape".into(), json!(part.shape.dims()));
        section.insert(name.into(), json!({ "rows": part.n(), "fingerprint": content }));
    }
    if !found.classes.is_empty() {
        section.insert("classes".into(), json!(found.classes.len()));
    }
    Value::Object(section)
}

/// Rejects training and test sets of different shapes.
fn check_alike(path: &Path, found: &Found) -> Result<()> {
    match (&found.train, &found.test) {
        (Some(train), Some(test)) if train.shape != test.shape => {
            let (train, test) = (train.shape, test.shape);
            let what = format!("training examples are {train} and test examples {test}");
            Err(Error::content(path, format!("{what}; both must have the same shape")))
        }
        _ => Ok(()),
    }
}
