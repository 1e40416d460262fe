//! The size of one sample.

use std::fmt;

use veridical_data::examples::ExampleShape;

/// A grid of positions with channels at each, channels last; a plain row is one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows of the grid.
    pub height: usize,
    /// Columns of the grid.
    pub width: usize,
    /// Values of a position.
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
    /// A plain row.
    pub const fn row(channels: usize) -> Self {
        Self { height: 1, width: 1, channels }
    }

    /// An image.
    pub const fn image(height: usize, width: usize, channels: usize) -> Self {
        Self { height, width, channels }
    }

    /// How many positions.
    pub const fn positions(self) -> usize {
        self.height * self.width
    }

    /// How many values.
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
