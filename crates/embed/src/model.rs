//! What a trainer leaves behind.

use crate::Embedding;

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
        /// How often each word occurs, for the negatives of documents to come.
        count: Vec<f32>,
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
    /// `sasrec`, `two-tower`: a network reads the history in the order of time.
    Sequential(crate::Sequential),
}

impl Model {
    /// What is left when training is over.
    pub(crate) fn handed_out(self) -> Self {
        match self {
            Self::Sequential(model) => Self::Sequential(model.handed_out()),
            other => other,
        }
    }

    /// The mean rating, users and items, to learn on.
    pub(crate) fn factor_tables(&mut self) -> (f32, Vec<crate::sgd::Table<'_>>) {
        let Self::Factors(factors) = self else { unreachable!("the trainer holds factors") };
        let Factors { user, item, user_bias, item_bias, mean } = factors;
        fn side<'a>(
            rows: &'a mut Embedding,
            bias: &'a mut Option<Vec<f32>>,
        ) -> crate::sgd::Table<'a> {
            table(rows, bias.as_deref_mut().unwrap_or_default())
        }
        (*mean, vec![side(user, user_bias), side(item, item_bias)])
    }
}

/// An embedding to learn on.
pub(crate) fn table<'a>(rows: &'a mut Embedding, bias: &'a mut [f32]) -> crate::sgd::Table<'a> {
    crate::sgd::Table { dim: rows.dim(), values: rows.values_mut(), bias }
}
