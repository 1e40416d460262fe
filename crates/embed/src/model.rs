//! Trained models.

use veridical_data::TensorMap;

use crate::Embedding;

/// User and item factors; a rating or score is mean + b_u + b_i + <u, i>.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Factors {
    /// The user vectors, one row per user.
    pub user: Embedding,
    /// The item vectors, one row per item.
    pub item: Embedding,
    /// The user biases, if they were learned.
    pub user_bias: Option<Vec<f32>>,
    /// The item biases, if they were learned.
    pub item_bias: Option<Vec<f32>>,
    /// The mean rating that was subtracted before training, else 0.
    pub mean: f32,
}

/// A trained model; each variant names the methods that train it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Model {
    /// Matrix factorization: `mf`, `als`, `bpr`.
    Factors(Factors),
    /// Item vectors: `item2vec`, `ppmi-svd`. A user is the mean of the unit vectors of the items in the history,
    /// and items are scored by cosine.
    Items {
        /// The item vectors, one row per item.
        item: Embedding,
        /// The context vectors of items, if the method has them.
        context: Option<Embedding>,
        /// The optimizer state; empty after training, and always for plain SGD.
        state: TensorMap,
    },
    /// Paragraph vectors: `doc2vec`.
    Documents {
        /// The document vectors, one row per document.
        doc: Embedding,
        /// The input vectors of words, one row per word; without rows for PV-DBOW without words.
        word: Embedding,
        /// The output vectors of words.
        context: Embedding,
        /// The count of each word, which negatives are drawn by when new documents are inferred.
        count: Vec<f32>,
    },
    /// `pop`: the number of interactions of each item.
    Popularity(Vec<f32>),
    /// `itemknn`: the `k` nearest neighbors of every item with their similarities.
    Neighbors {
        /// The number of entries per item; unused entries have similarity 0.
        k: usize,
        /// The neighbors, items x k.
        item: Vec<u32>,
        /// The similarities, items x k.
        similarity: Vec<f32>,
    },
    /// `ease`: item-to-item weights; scores are history x weights.
    Weights(Embedding),
    /// Sequential models: `sasrec`, `two-tower`. A network reads the history in chronological order.
    Sequential(crate::Sequential),
}

impl Model {
    /// Drops the state that only training needs.
    pub(crate) fn without_state(self) -> Self {
        match self {
            Self::Sequential(model) => Self::Sequential(model.without_state()),
            Self::Items { item, context, .. } => {
                Self::Items { item, context, state: TensorMap::default() }
            }
            other => other,
        }
    }

    /// Returns the mean rating and the mutable user and item tables.
    pub(crate) fn factor_tables(&mut self) -> (f32, Vec<crate::sgd::TableRows<'_>>) {
        let Self::Factors(factors) = self else { unreachable!("the trainer holds factors") };
        let Factors { user, item, user_bias, item_bias, mean } = factors;
        fn side<'a>(
            rows: &'a mut Embedding,
            bias: &'a mut Option<Vec<f32>>,
        ) -> crate::sgd::TableRows<'a> {
            table(rows, bias.as_deref_mut().unwrap_or_default())
        }
        (*mean, vec![side(user, user_bias), side(item, item_bias)])
    }
}

/// Borrows an embedding as a mutable table for SGD.
pub(crate) fn table<'a>(rows: &'a mut Embedding, bias: &'a mut [f32]) -> crate::sgd::TableRows<'a> {
    crate::sgd::TableRows { dim: rows.dim(), values: rows.values_mut(), bias }
}
