//! Examples for networks: images and numeric rows, each with its class or with the numbers to predict.

use std::fmt;

use serde_json::Value;

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
    /// How many values.
    #[allow(clippy::len_without_is_empty)] // no example is empty
    pub fn len(&self) -> usize {
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
