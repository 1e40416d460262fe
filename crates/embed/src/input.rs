//! What a trainer learns from.

use veridical_data::{Corpus, Graph, Interactions};

use crate::{Embedding, Error, Result};

/// The data of a training.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Some rows of interactions; tables have a row for every user and item of the whole data.
    Interactions {
        /// All of the data, for its ids.
        data: &'a Interactions,
        /// The rows that are learnt from, ascending.
        rows: &'a [u32],
        /// Vectors of all items, for a method that reads them.
        item_vectors: Option<&'a Embedding>,
    },
    /// Documents.
    Text(&'a Corpus),
}

impl<'a> Input<'a> {
    /// Some rows of interactions and nothing else.
    pub fn of(data: &'a Interactions, rows: &'a [u32]) -> Self {
        Self::Interactions { data, rows, item_vectors: None }
    }

    /// The vectors of items, if there are any.
    pub fn item_vectors(self) -> Option<&'a Embedding> {
        match self {
            Self::Interactions { item_vectors, .. } => item_vectors,
            Self::Text(_) => None,
        }
    }

    /// The interactions, for a method that learns from nothing else.
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

/// What is known about the rows of each table, for SSE-Graph and graph-Laplacian regularisation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graphs {
    /// Among users.
    pub user: Option<Graph>,
    /// Among items.
    pub item: Option<Graph>,
    /// Among words.
    pub word: Option<Graph>,
    /// Among documents.
    pub doc: Option<Graph>,
}
