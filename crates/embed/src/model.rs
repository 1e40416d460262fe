//! What a trainer leaves behind: tensors under fixed names, and scores.

use std::collections::BTreeMap;

use veridical_data::Lists;

use crate::{Embedding, Error, Result};

/// A named matrix of f32, row-major, as it goes to a safetensors file.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// Its name, such as `item` or `item.bias`.
    pub name: &'static str,
    /// Rows and values of a row.
    pub shape: [usize; 2],
    /// Row-major.
    pub values: &'a [f32],
}

impl<'a> Tensor<'a> {
    /// The rows of an embedding.
    pub fn of(name: &'static str, rows: &'a Embedding) -> Self {
        Self { name, shape: [rows.n_rows(), rows.dim()], values: rows.values() }
    }

    /// One value per row.
    pub fn column(name: &'static str, values: &'a [f32]) -> Self {
        Self { name, shape: [values.len(), 1], values }
    }
}

/// Matrices by name, as they come from a safetensors file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tensors(pub BTreeMap<String, ([usize; 2], Vec<f32>)>);

impl Tensors {
    /// The matrix `name`, which must have this shape.
    ///
    /// # Errors
    /// [`Error::State`] if it is missing or of another shape.
    pub fn take(&self, name: &str, shape: [usize; 2]) -> Result<&[f32]> {
        match self.0.get(name) {
            Some((found, values)) if *found == shape => Ok(values),
            Some((found, _)) => Err(Error::State(format!(
                "tensor `{name}` has the shape {found:?} where {shape:?} is expected: it is of another configuration"
            ))),
            None => Err(Error::State(format!(
                "tensor `{name}` is missing: it is of another configuration"
            ))),
        }
    }
}

/// Scores items for users.
pub trait Scorer: Sync {
    /// How many items.
    fn n_items(&self) -> usize;

    /// Scores of every item for each of `users`, row-major into `out` (users x items); a higher score is a
    /// better item. `history` holds the items that each user is known to have, by the same numbers.
    fn score(&self, users: &[u32], history: &Lists, out: &mut [f32]);
}

/// Two tables whose inner products are ratings or scores: mean + b_u + b_i + <u, i>.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Factors {
    /// One row per user.
    pub user: Embedding,
    /// One row per item.
    pub item: Embedding,
    /// One value per user, if biases were learnt.
    pub user_bias: Option<Vec<f32>>,
    /// One value per item, if biases were learnt.
    pub item_bias: Option<Vec<f32>>,
    /// The mean rating, 0 if it was not taken out.
    pub mean: f32,
}

/// What has been learnt.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Model {
    /// `mf`, `als`, `bpr`.
    Factors(Factors),
    /// `item2vec`, `ppmi-svd`: a user is the mean of the unit vectors of the items in the history, and
    /// items are scored by cosine.
    Items {
        /// One row per item.
        item: Embedding,
        /// The vectors of items as neighbours, if the method has them.
        context: Option<Embedding>,
    },
    /// `doc2vec`.
    Documents {
        /// One row per document.
        doc: Embedding,
        /// One row per word; empty rows for PV-DBOW without words.
        word: Embedding,
        /// Output vectors of words.
        context: Embedding,
    },
    /// `pop`: how often an item was chosen.
    Popularity(Vec<f32>),
    /// `itemknn`: the most similar items of every item and how similar they are, `k` each.
    Neighbours {
        /// Entries per item; unused ones have similarity 0.
        k: usize,
        /// Items x k.
        item: Vec<u32>,
        /// Items x k.
        similarity: Vec<f32>,
    },
    /// `ease`: scores are history x weights.
    Weights(Embedding),
}
