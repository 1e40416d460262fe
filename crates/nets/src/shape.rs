//! The shape of one sample.

use std::fmt;

use veridical_data::examples::ExampleShape;

/// Shape of a sample: a grid of positions with channels last; a row is a single position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of rows of the grid.
    pub height: usize,
    /// Number of columns of the grid.
    pub width: usize,
    /// Number of values per position.
    pub channels: usize,
}

impl From<ExampleShape> for Shape {
    fn from(shape: ExampleShape) -> Self {
        match shape {
            ExampleShape::Image { height, width, channels } => Self::image(height, width, channels),
            ExampleShape::Row { columns } => Self::row(columns),
        }
    }
}

impl Shape {
    /// Returns the shape of a row of `channels` values.
    pub const fn row(channels: usize) -> Self {
        Self { height: 1, width: 1, channels }
    }

    /// Returns the shape of an image.
    pub const fn image(height: usize, width: usize, channels: usize) -> Self {
        Self { height, width, channels }
    }

    /// Returns the number of positions.
    pub const fn positions(self) -> usize {
        self.height * self.width
    }

    /// Returns the number of values.
    pub const fn values(self) -> usize {
        self.positions() * self.channels
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.positions() {
            1 => write!(f, "{}", self.channels),
            _ => write!(f, "{}x{}x{}", self.height, self.width, self.channels),
        }
    }
}
