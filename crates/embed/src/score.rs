//! Scores of all items for a block of users.
//!
//! Factors      mean + b_u + b_i + <u, i>                                        a GEMM per block
//! Items        cos(mean of the unit vectors of the history, i)                  a GEMM per block
//! Popularity   how often i was chosen
//! Neighbors   sum over h in the history of the similarity of i in the list of h
//! Weights      sum over h in the history of W_hi
//! Sequential   <output of a network for the history in chronological order, i>        `sequential/`
//!
//! The number of users in a block depends on the number of items only, so scores are byte-identical for any
//! number of threads; equal vectors get equal scores (tested in `veridical-learn`).

use std::borrow::Cow;
use veridical_core::choices;

use veridical_data::Lists;
use veridical_learn::{products, unit_rows};

use crate::{Embedding, Error, Factors, Model, Result};

/// Scores all items for users.
pub trait Scorer: Sync {
    /// Returns the number of items.
    fn n_items(&self) -> usize;

    /// Returns the number of users it has vectors for; `None` if it scores any user from the history alone.
    fn n_users(&self) -> Option<usize>;

    /// Whether it reads the history in chronological order, repeats included.
    fn is_sequential(&self) -> bool {
        false
    }

    /// Writes the scores of all items to `out`, one row per user. `history` holds the known items of every user by
    /// user number.
    ///
    /// # Panics
    /// If `out` is not users x items, or a number is out of range.
    fn score(&self, users: &[u32], history: &Lists, out: &mut [f32]);
}

/// Returns the number of users per block: a few million scores, whatever the number of threads.
pub fn block_users(n_items: usize) -> usize {
    ((1 << 21) / n_items.max(1)).clamp(4, 256)
}

choices! {
    /// The similarity of two vectors.
    pub enum Similarity {
        /// The inner product.
        Dot = "dot",
        /// The inner product of unit vectors.
        Cosine = "cosine",
    }
}

/// Scores by the inner products of a user table and an item table, plus biases if any.
///
/// ```
/// use veridical_data::Lists;
/// use veridical_embed::{Embedding, Pair, Similarity, recommend};
///
/// let user = Embedding::new(2, vec![1.0, 0.5]);
/// let item = Embedding::new(2, vec![0.0, 1.0, 2.0, 0.0, -1.0, 0.0]);
/// let scorer = Pair::new(&user, &item, Similarity::Dot)?;
/// let none_seen = Lists::collect(1, std::iter::empty());
/// assert_eq!(recommend(&scorer, &[0], &none_seen, None, 1, false)[0][0].number, 1);
/// # Ok::<(), veridical_embed::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pair<'a> {
    dim: usize,
    user: Cow<'a, [f32]>,
    item: Cow<'a, [f32]>,
    user_bias: Option<Cow<'a, [f32]>>,
    item_bias: Option<&'a [f32]>,
    mean: f32,
}

impl<'a> Pair<'a> {
    /// Makes a scorer of two tables with the same embedding dimension.
    ///
    /// # Errors
    /// [`veridical_core::Error::Unfit`] if the dimensions differ.
    pub fn new(user: &'a Embedding, item: &'a Embedding, similarity: Similarity) -> Result<Self> {
        let dim = user.dim();
        if dim != item.dim() {
            return Err(Error::unfit(format!(
                "user vectors have dimension {dim} and item vectors {}; they must come from the same model",
                item.dim()
            )));
        }
        let rows = |table: &'a Embedding| match similarity {
            Similarity::Dot => Cow::Borrowed(table.values()),
            Similarity::Cosine => Cow::Owned(unit_rows(table.values(), dim)),
        };
        let (user, item) = (rows(user), rows(item));
        Ok(Self { dim, user, item, user_bias: None, item_bias: None, mean: 0.0 })
    }

    fn of(factors: &'a Factors) -> Self {
        let Factors { user, item, user_bias, item_bias, mean } = factors;
        Self {
            dim: user.dim(),
            user: user.values().into(),
            item: item.values().into(),
            user_bias: user_bias.as_deref().map(Cow::Borrowed),
            item_bias: item_bias.as_deref(),
            mean: *mean,
        }
    }

    /// Scores the items of `factors` for users with other vectors.
    pub(crate) fn for_users(factors: &'a Factors, user: Vec<f32>, bias: Option<Vec<f32>>) -> Self {
        Self { user: user.into(), user_bias: bias.map(Cow::Owned), ..Self::of(factors) }
    }
}

impl Scorer for Pair<'_> {
    fn n_items(&self) -> usize {
        self.item.len() / self.dim
    }

    fn n_users(&self) -> Option<usize> {
        Some(self.user.len() / self.dim)
    }

    fn score(&self, users: &[u32], _history: &Lists, out: &mut [f32]) {
        let row = |&u: &u32| &self.user[u as usize * self.dim..][..self.dim];
        let block: Vec<f32> = users.iter().flat_map(row).copied().collect();
        products(&block, &self.item, self.dim, out);
        if self.item_bias.is_none() && self.user_bias.is_none() && self.mean == 0.0 {
            return;
        }
        for (&u, row) in users.iter().zip(out.chunks_exact_mut(self.n_items())) {
            let base = self.mean + self.user_bias.as_ref().map_or(0.0, |bias| bias[u as usize]);
            add_biases(row, base, self.item_bias);
        }
    }
}

/// Adds to the scores of a user what is the same for all items, and the biases of the items.
pub(crate) fn add_biases(scores: &mut [f32], base: f32, item_bias: Option<&[f32]>) {
    match item_bias {
        None => scores.iter_mut().for_each(|x| *x += base),
        Some(bias) => scores.iter_mut().zip(bias).for_each(|(x, b)| *x += base + b),
    }
}

/// Scores by the cosine to the mean of the history.
struct MeanOfItems {
    dim: usize,
    unit: Vec<f32>,
}

impl Scorer for MeanOfItems {
    fn n_items(&self) -> usize {
        self.unit.len() / self.dim
    }

    fn n_users(&self) -> Option<usize> {
        None
    }

    fn score(&self, users: &[u32], history: &Lists, out: &mut [f32]) {
        let mut block = vec![0.0; users.len() * self.dim];
        for (&u, sum) in users.iter().zip(block.chunks_exact_mut(self.dim)) {
            for &h in history.get(u as usize) {
                let row = &self.unit[h as usize * self.dim..][..self.dim];
                sum.iter_mut().zip(row).for_each(|(s, x)| *s += x);
            }
        }
        products(&unit_rows(&block, self.dim), &self.unit, self.dim, out);
    }
}

struct Popularity<'a>(&'a [f32]);

impl Scorer for Popularity<'_> {
    fn n_items(&self) -> usize {
        self.0.len()
    }

    fn n_users(&self) -> Option<usize> {
        None
    }

    fn score(&self, _users: &[u32], _history: &Lists, out: &mut [f32]) {
        out.chunks_exact_mut(self.0.len()).for_each(|row| row.copy_from_slice(self.0));
    }
}

struct Neighbors<'a> {
    k: usize,
    item: &'a [u32],
    similarity: &'a [f32],
}

impl Scorer for Neighbors<'_> {
    fn n_items(&self) -> usize {
        self.item.len() / self.k
    }

    fn n_users(&self) -> Option<usize> {
        None
    }

    fn score(&self, users: &[u32], history: &Lists, out: &mut [f32]) {
        out.fill(0.0);
        for (&u, row) in users.iter().zip(out.chunks_exact_mut(self.n_items())) {
            for &h in history.get(u as usize) {
                let list = h as usize * self.k..(h as usize + 1) * self.k;
                for (&i, &s) in self.item[list.clone()].iter().zip(&self.similarity[list]) {
                    row[i as usize] += s;
                }
            }
        }
    }
}

struct Weights<'a>(&'a Embedding);

impl Scorer for Weights<'_> {
    fn n_items(&self) -> usize {
        self.0.n_rows()
    }

    fn n_users(&self) -> Option<usize> {
        None
    }

    fn score(&self, users: &[u32], history: &Lists, out: &mut [f32]) {
        out.fill(0.0);
        for (&u, row) in users.iter().zip(out.chunks_exact_mut(self.n_items())) {
            for &h in history.get(u as usize) {
                row.iter_mut().zip(self.0.row(h as usize)).for_each(|(x, w)| *x += w);
            }
        }
    }
}

impl Model {
    /// Returns the scorer of its items.
    ///
    /// # Errors
    /// [`veridical_core::Error::Unfit`] for a document model, which has no items.
    pub fn scorer(&self) -> Result<Box<dyn Scorer + '_>> {
        Ok(match self {
            Self::Factors(factors) => Box::new(Pair::of(factors)),
            Self::Items { item, .. } => {
                let unit = unit_rows(item.values(), item.dim());
                Box::new(MeanOfItems { dim: item.dim(), unit })
            }
            Self::Popularity(counts) => Box::new(Popularity(counts)),
            Self::Neighbors { k, item, similarity } => {
                Box::new(Neighbors { k: *k, item, similarity })
            }
            Self::Weights(weights) => Box::new(Weights(weights)),
            Self::Sequential(model) => Box::new(model.reader()?),
            Self::Documents { .. } => {
                return Err(Error::unfit(
                    "a document model cannot score items for users; train another method",
                ));
            }
        })
    }

    /// Predicts the ratings of (user, item) pairs: mean + b_u + b_i + <u, i>.
    ///
    /// # Errors
    /// [`veridical_core::Error::Unfit`] for a model that does not predict ratings.
    pub fn predict(&self, users: &[u32], items: &[u32]) -> Result<Vec<f32>> {
        let Self::Factors(factors) = self else {
            return Err(Error::unfit(
                "this model ranks items but does not predict ratings; `mf` and `als ⟨feedback⟩ explicit` do",
            ));
        };
        let Factors { user, item, user_bias, item_bias, mean } = factors;
        let bias = |bias: &Option<Vec<f32>>, i: u32| bias.as_ref().map_or(0.0, |b| b[i as usize]);
        let rating = |(&u, &i): (&u32, &u32)| {
            let product = veridical_learn::dot(user.row(u as usize), item.row(i as usize));
            mean + bias(user_bias, u) + bias(item_bias, i) + product
        };
        Ok(users.iter().zip(items).map(rating).collect())
    }
}
