//! The training data of a trainer.

use veridical_data::{Corpus, Graph, Interactions};

use crate::{Embedding, Error, Result};

/// The training data: user-item interactions or documents.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Rows of user-item interactions; the embedding tables have a row for every user and item of the whole data.
    Interactions {
        /// The whole data, for its ids.
        data: &'a Interactions,
        /// The training rows, ascending.
        rows: &'a [u32],
        /// Pretrained vectors of all items, for a method that reads them.
        item_vectors: Option<&'a Embedding>,
    },
    /// Documents.
    Text(&'a Corpus),
}

impl<'a> Input<'a> {
    /// Makes an input of some rows of interactions, without item vectors.
    pub fn of(data: &'a Interactions, rows: &'a [u32]) -> Self {
        Self::Interactions { data, rows, item_vectors: None }
    }

    /// Returns the pretrained item vectors, if any.
    pub fn item_vectors(self) -> Option<&'a Embedding> {
        match self {
            Self::Interactions { item_vectors, .. } => item_vectors,
            Self::Text(_) => None,
        }
    }

    /// Returns the interactions and the training rows, for a method that learns from interactions only.
    ///
    /// # Errors
    /// [`veridical_core::Error::Unfit`] for text.
    pub fn interactions(self) -> Result<(&'a Interactions, &'a [u32])> {
        match self {
            Self::Interactions { data, rows, .. } if !rows.is_empty() => Ok((data, rows)),
            Self::Interactions { .. } => Err(Error::unfit("no interaction is left to learn from")),
            Self::Text(_) => {
                Err(Error::request("this method learns from ⟨interactions⟩, not from ⟨text⟩"))
            }
        }
    }
}

/// Graphs over the rows of each table, for SSE-Graph and graph-Laplacian regularization.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graphs {
    /// The graph of users.
    pub user: Option<Graph>,
    /// The graph of items.
    pub item: Option<Graph>,
    /// The graph of words.
    pub word: Option<Graph>,
    /// The graph of documents.
    pub doc: Option<Graph>,
}
