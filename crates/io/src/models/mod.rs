//! Exports a feature map as a model for other serving systems.
//!
//! x = rows as they are, or mapped: (h - from) M + to                   f64, rounded once to f32
//! y = these as they are, of unit length, or shifted and scaled         f64, rounded once to f32
//! a = U y                     one chain of f32 operations, or a close approximation; see [`Sums`]
//! phi = c [cos a_0, sin a_0, cos a_1, sin a_1, ...],  c = f32(1 / sqrt(m))
//!
//! - [`onnx`]: one file, or two if the directions are large.
//! - [`saved_model`]: the folder that TensorFlow and TensorFlow Serving load.
//! - [`tensors`]: U alone, as safetensors.
//! - [`affine`]: an affine map alone, as safetensors.
//!
//! The bytes depend on the map alone.

pub mod affine;
pub mod onnx;
mod onnx_messages;
pub mod saved_model;
mod saved_model_messages;
pub mod tensors;

pub use affine::Affine;

/// The name of the input of a model.
const INPUT: &str = "vector";
/// The name of the output of a model.
const OUTPUT: &str = "features";
/// Below the square of every nonzero f32: keeps a zero row zero, as 0 * 1e150.
const SQUARED_FLOOR: f64 = 1e-300;

/// The normalization of a row; computed in f64, rounded once to f32.
#[derive(Clone, Debug, PartialEq)]
pub enum RowStep {
    /// No normalization.
    AsIs,
    /// x * (1 / |x|); a zero row stays zero.
    Unit,
    /// (x_k - mean_k) * (1 / deviation_k).
    Standardize {
        /// The mean of every column.
        means: Vec<f64>,
        /// The standard deviation of every column.
        deviations: Vec<f64>,
    },
}

/// How the map's own projections are rounded, which decides the closest product for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// Each is one chain of fused f32 operations: approximated best by a product in f32.
    Chain,
    /// Each is a tree of few f32 operations, nearly exact: approximated best by a product in f64.
    Tree,
}

/// A complete feature map.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelMap {
    /// The input dimension d.
    pub input_dim: usize,
    /// The affine map that rows go through first, to d values.
    pub before: Option<Affine>,
    /// The directions U, row-major: m rows of width d.
    pub directions: Vec<f32>,
    /// How projections are rounded.
    pub sums: Sums,
    /// The normalization of rows.
    pub rows: RowStep,
    /// The spec as JSON, stored with the model.
    pub spec: String,
    /// The id of the map that rows went through, folded into the directions or applied before them.
    pub map_id: Option<String>,
    /// A one-line description for people.
    pub description: String,
}

impl ModelMap {
    /// The width of the rows that the model takes.
    fn row_dim(&self) -> usize {
        self.before.as_ref().map_or(self.input_dim, |map| map.from.len())
    }

    fn n_directions(&self) -> usize {
        self.directions.len() / self.input_dim
    }

    fn output_dim(&self) -> usize {
        2 * self.n_directions()
    }

    fn scale(&self) -> f32 {
        (1.0 / (self.n_directions() as f64).sqrt()) as f32
    }
}

fn reciprocals(values: &[f64]) -> Vec<f64> {
    values.iter().map(|x| 1.0 / x).collect()
}

fn singles(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn doubles(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Writes f32 values in pieces of bounded size.
pub(crate) fn put_singles(out: &mut impl std::io::Write, values: &[f32]) -> std::io::Result<()> {
    values.chunks(1 << 14).try_for_each(|piece| out.write_all(&singles(piece)))
}

#[cfg(test)]
fn example(input_dim: usize, n_directions: usize, rows: RowStep) -> ModelMap {
    let directions = (0..input_dim * n_directions).map(|i| i as f32 / 8.0).collect();
    let sums = Sums::Chain;
    let (spec, description) = ("{}".into(), "test".into());
    ModelMap { input_dim, before: None, directions, sums, rows, spec, map_id: None, description }
}
