//! Examples for neural networks: images and numeric rows, each with its class or regression targets.

use std::fmt;

use serde_json::Value;

/// The shape of one example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExampleShape {
    /// An image.
    Image {
        /// Height in pixels.
        height: usize,
        /// Width in pixels.
        width: usize,
        /// Values per pixel: 1 for grayscale, 3 for RGB.
        channels: usize,
    },
    /// A row of numbers.
    Row {
        /// The number of columns.
        columns: usize,
    },
}

impl ExampleShape {
    /// Returns the number of values of an example.
    #[allow(clippy::len_without_is_empty)] // no example is empty
    pub const fn len(self) -> usize {
        match self {
            Self::Image { height, width, channels } => height * width * channels,
            Self::Row { columns } => columns,
        }
    }

    /// Returns the dimensions, slowest first.
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

/// The inputs of n examples, stored contiguously; images as height x width x channels.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Pixels from 0 to 255.
    Bytes(Vec<u8>),
    /// Finite numbers.
    Floats(Vec<f32>),
}

impl Values {
    /// Returns the number of values.
    #[allow(clippy::len_without_is_empty)] // no example is empty
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(values) => values.len(),
            Self::Floats(values) => values.len(),
        }
    }
}

/// The prediction targets of n examples.
#[derive(Clone, Debug, PartialEq)]
pub enum Targets {
    /// One class index per example.
    Classes(Vec<u32>),
    /// `dim` finite numbers per example.
    Numbers {
        /// The number of targets per example.
        dim: usize,
        /// The targets, row-major.
        values: Vec<f32>,
    },
}

/// Examples: inputs with their targets.
///
/// ```
/// use veridical_data::examples::{ExampleShape, Examples, Targets, Values};
///
/// let examples = Examples {
///     shape: ExampleShape::Row { columns: 2 },
///     values: Values::Floats(vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
///     targets: Targets::Classes(vec![0, 1, 0]),
/// };
/// let last = examples.subset(&[2]);
/// assert_eq!((examples.n(), last.values), (3, Values::Floats(vec![4.0, 5.0])));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Examples {
    /// The shape of one example.
    pub shape: ExampleShape,
    /// The inputs of all examples.
    pub values: Values,
    /// The targets of all examples.
    pub targets: Targets,
}

impl Examples {
    /// Returns the number of examples.
    pub fn n(&self) -> usize {
        self.values.len() / self.shape.len()
    }

    /// Returns the examples at the given indices, in the order given; inputs without targets stay without.
    ///
    /// # Panics
    /// If an index is not below [`n`](Self::n).
    pub fn subset(&self, of: &[usize]) -> Self {
        let values = match &self.values {
            Values::Bytes(values) => Values::Bytes(gathered(values, self.shape.len(), of)),
            Values::Floats(values) => Values::Floats(gathered(values, self.shape.len(), of)),
        };
        let targets = match &self.targets {
            Targets::Classes(classes) if classes.is_empty() => Targets::Classes(Vec::new()),
            Targets::Classes(classes) => Targets::Classes(gathered(classes, 1, of)),
            Targets::Numbers { dim, values } => {
                Targets::Numbers { dim: *dim, values: gathered(values, *dim, of) }
            }
        };
        Self { shape: self.shape, values, targets }
    }
}

impl Examples {
    /// Returns these examples and then the others, without targets.
    ///
    /// # Panics
    /// If their shapes or kinds of values differ.
    pub fn followed_by(&self, others: &Self) -> Self {
        assert_eq!(self.shape, others.shape, "examples of one shape");
        let values = match (&self.values, &others.values) {
            (Values::Bytes(a), Values::Bytes(b)) => Values::Bytes([a.as_slice(), b].concat()),
            (Values::Floats(a), Values::Floats(b)) => Values::Floats([a.as_slice(), b].concat()),
            _ => unreachable!("examples of one data set have one kind of values"),
        };
        Self { shape: self.shape, values, targets: Targets::Classes(Vec::new()) }
    }

    /// Returns whether an example of another set is here, value by value.
    pub fn contains(&self, others: &Self, row: usize) -> bool {
        let len = self.shape.len();
        match (&self.values, &others.values) {
            (Values::Bytes(own), Values::Bytes(other)) => {
                own.chunks_exact(len).any(|own| own == &other[row * len..][..len])
            }
            (Values::Floats(own), Values::Floats(other)) => {
                own.chunks_exact(len).any(|own| own == &other[row * len..][..len])
            }
            _ => false,
        }
    }
}

fn gathered<T: Copy>(values: &[T], width: usize, of: &[usize]) -> Vec<T> {
    of.iter().flat_map(|&i| &values[i * width..][..width]).copied().collect()
}

/// A dataset of examples with its class and column names.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// The training set; `None` if the data has a test set only.
    pub train: Option<Examples>,
    /// The test set, if the data defines one.
    pub test: Option<Examples>,
    /// The class names in the order of their indices; empty for regression.
    pub classes: Vec<String>,
    /// The names of the input columns of a table; empty for images.
    pub columns: Vec<String>,
    /// The section `data` of `run.json`: the shape, and the row count and content fingerprint of every part.
    pub fingerprint: Value,
    /// Notes for the user on how the data was read.
    pub notes: Vec<String>,
}
