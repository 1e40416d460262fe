//! Examples for networks: images and numeric rows, each with its class or with the numbers to predict.
//!
//! idx           `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-...`: MNIST and its kin
//! CIFAR         `data_batch_*.bin`, `test_batch.bin`, or `train.bin`, `test.bin` of CIFAR-100
//! sheets        `data_batch_*.png`, `test_batch.png` of one image a row, labels as JSON
//! images        `CLASS/*.png`, or `train/CLASS/*.png` and `test/CLASS/*.png`; JPEG too
//! rows          a table, or a folder with `train.csv` and `test.csv`; Parquet, Arrow and TSV too
//!
//! Which of them a folder is shows in the names of its files. No reader takes memory by what a header promises.

mod cifar;
mod classes;
mod decode;
mod folder;
mod idx;
mod images;
mod rows;
mod sheets;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;

use serde_json::{Map, Value, json};

use self::folder::Folder;
pub use self::idx::write_idx;
pub use self::images::write_image_folder;
use crate::read::is_skipped;
use crate::{Error, Result, fingerprint, storage};

/// What one example is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExampleShape {
    /// Pixels.
    Image {
        /// Rows of pixels.
        height: usize,
        /// Pixels of a row.
        width: usize,
        /// Values of a pixel: 1 for grey, 3 for red, green and blue.
        channels: usize,
    },
    /// Numbers.
    Row {
        /// How many.
        columns: usize,
    },
}

impl ExampleShape {
    /// Values of an example.
    #[allow(clippy::len_without_is_empty)] // no example is empty
    pub const fn len(self) -> usize {
        match self {
            Self::Image { height, width, channels } => height * width * channels,
            Self::Row { columns } => columns,
        }
    }

    /// The sizes, slowest first.
    pub fn dims(self) -> Vec<usize> {
        match self {
            Self::Image { height, width, channels } => vec![height, width, channels],
            Self::Row { columns } => vec![columns],
        }
    }
}

impl fmt::Display for ExampleShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image { height, width, channels } => write!(f, "{height} x {width} x {channels}"),
            Self::Row { columns } => write!(f, "rows of {columns}"),
        }
    }
}

/// Inputs of n examples, one after the other; images as height x width x channels.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Pixels from 0 to 255.
    Bytes(Vec<u8>),
    /// Finite numbers.
    Floats(Vec<f32>),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(values) => values.len(),
            Self::Floats(values) => values.len(),
        }
    }
}

/// What is to be predicted, example by example.
#[derive(Clone, Debug, PartialEq)]
pub enum Targets {
    /// The number of a class each.
    Classes(Vec<u32>),
    /// `dim` finite numbers each.
    Numbers {
        /// How many.
        dim: usize,
        /// Row-major.
        values: Vec<f32>,
    },
}

/// Inputs and what is to be predicted from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Examples {
    /// Of one example.
    pub shape: ExampleShape,
    /// The inputs.
    pub values: Values,
    /// What is to be predicted.
    pub targets: Targets,
}

impl Examples {
    /// How many there are.
    pub fn n(&self) -> usize {
        self.values.len() / self.shape.len()
    }

    /// Some of them, in the order given.
    ///
    /// # Panics
    /// If one of the numbers is not below [`n`](Self::n).
    pub fn subset(&self, of: &[usize]) -> Self {
        let values = match &self.values {
            Values::Bytes(values) => Values::Bytes(gathered(values, self.shape.len(), of)),
            Values::Floats(values) => Values::Floats(gathered(values, self.shape.len(), of)),
        };
        let targets = match &self.targets {
            Targets::Classes(classes) => Targets::Classes(gathered(classes, 1, of)),
            Targets::Numbers { dim, values } => {
                Targets::Numbers { dim: *dim, values: gathered(values, *dim, of) }
            }
        };
        Self { shape: self.shape, values, targets }
    }
}

fn gathered<T: Copy>(values: &[T], width: usize, of: &[usize]) -> Vec<T> {
    of.iter().flat_map(|&i| &values[i * width..][..width]).copied().collect()
}

/// Examples as they were read.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// To learn from; `None` if the folder holds test examples alone.
    pub train: Option<Examples>,
    /// To test on, if the data says which.
    pub test: Option<Examples>,
    /// Names of the classes in the order of their numbers; none for regression.
    pub classes: Vec<String>,
    /// Names of the inputs of a table; none for images.
    pub columns: Vec<String>,
    /// The section `data` of `run.json`: the shape, and rows and content of every part.
    pub fingerprint: Value,
    /// What the user should know about how the data was read.
    pub notes: Vec<String>,
}

/// How examples are read.
#[derive(Clone, Debug, Default)]
pub struct ExampleOptions {
    /// The columns of a table that are predicted, by name, or from 0 if the first line is data.
    pub target: Vec<String>,
    /// Targets are numbers, not classes.
    pub regression: bool,
    /// The classes to keep, under the numbers 0, 1, ...; the others are left out.
    pub classes: Option<Vec<String>>,
    /// The classes of a network that is there already: numbers follow them, and a label outside is an error.
    pub known_classes: Option<Vec<String>>,
    /// Columns of a table that are no inputs.
    pub ignore_columns: Vec<String>,
    /// Whether text begins with the names of its columns; otherwise seen from its first line.
    pub has_header: Option<bool>,
    /// Encoding of text; UTF-8 unless named.
    pub encoding: Option<String>,
}

/// Reads examples from a table or a folder.
///
/// # Errors
/// [`Error::Read`] or [`Error::Store`] for what is not there, [`Error::Malformed`] for damaged bytes,
/// [`Error::Content`] for content that does not serve, [`Error::Usage`] for options that do not fit the data.
pub fn read_examples(path: &Path, options: &ExampleOptions) -> Result<Dataset> {
    storage::explained(|| {
        let found = match storage::list(path, is_skipped)? {
            None => rows::read_file(path, options)?,
            Some(files) => Folder::new(path, files).read(options)?,
        };
        check_alike(path, &found)?;
        let found = classes::settle(path, found, options)?;
        let fingerprint = describe(&found);
        let Found { train, test, classes, columns, notes } = found;
        Ok(Dataset { train, test, classes, columns, fingerprint, notes })
    })
}

/// What a reader found: `classes` are those of both parts, whether or not they have examples.
#[derive(Debug, Default)]
struct Found {
    train: Option<Examples>,
    test: Option<Examples>,
    classes: Vec<String>,
    columns: Vec<String>,
    notes: Vec<String>,
}

impl Found {
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

/// Refuses parts of different sizes.
fn check_alike(path: &Path, found: &Found) -> Result<()> {
    match (&found.train, &found.test) {
        (Some(train), Some(test)) if train.shape != test.shape => {
            let (train, test) = (train.shape, test.shape);
            let what = format!("training examples are {train} and test examples {test}");
            Err(Error::content(path, format!("{what}; they must be alike")))
        }
        _ => Ok(()),
    }
}
