//! The best items of users by vector tables that are read in passes and not held.
//!
//! Scores and ties are those of [`Model::scorer`](crate::Model::scorer), to the last bit: the vectors of a block of users are
//! gathered, the item table passes by in chunks, and each user keeps the `k` best items so far. Fold-in is that of
//! [`crate::fold_in`], with the Gram matrix of the items from a pass of its own.
//!
//! Memory, for b users of a block, dimension d and a chunk of c items: 4 b d + 16 b k + 12 c d bytes, and a million scores per
//! thread. Each block reads the item table once: for 4096 users and d = 64 that is a hundredth of the time of the products.

use rayon::prelude::*;
use veridical_core::Job;
use veridical_data::{Lists, StoredRows};
use veridical_learn::{Best, GramSum, Scored, products, to_unit_rows, unit_rows};

use crate::fold_in::{FoldIn, Step};
use crate::saved::{ARCHITECTURE, incomplete};
use crate::score::{add_biases, block_users};
use crate::{Error, Result};

/// Values of a chunk of items, at least.
const CHUNK_VALUES: usize = 1 << 20;
/// Scores that a thread computes at once, about.
const SCORES: usize = 1 << 20;
/// Values of gathered item vectors, unless one history has more.
const GATHERED: usize = 1 << 20;

/// A matrix that is read by row.
type Matrix<'a> = Box<dyn StoredRows + 'a>;

/// The vector tables of a model with user and item vectors, or with item vectors alone.
pub struct StoredVectors<'a> {
    item: Matrix<'a>,
    item_bias: Option<Matrix<'a>>,
    /// None if a user is the mean of the unit vectors of the history.
    user: Option<UserTable<'a>>,
    mean: f32,
    /// Values of a chunk of items, at least.
    chunk_values: usize,
}

struct UserTable<'a> {
    rows: Matrix<'a>,
    bias: Option<Matrix<'a>>,
}

/// The vectors by which a block of users is compared with items.
#[derive(Clone, Debug, PartialEq)]
pub struct UserVectors {
    rows: Vec<f32>,
    /// What is added to all scores of a user, if the model has biases or a mean.
    base: Option<Vec<f32>>,
}

impl<'a> StoredVectors<'a> {
    /// Opens the tables of a model by the names of its matrices; `None` for a model of another kind.
    ///
    /// # Errors
    /// Those of `open`; [`veridical_core::Error::Damaged`] if the matrices are not those of a model.
    pub fn open<E: From<Error>>(
        mut open: impl FnMut(&str) -> std::result::Result<Option<Matrix<'a>>, E>,
    ) -> std::result::Result<Option<Self>, E> {
        if open(ARCHITECTURE)?.is_some() || open("doc")?.is_some() {
            return Ok(None);
        }
        let (rows, item) = match (open("user")?, open("item")?) {
            (Some(user), Some(item)) => (user, item),
            (Some(_), None) => return Err(incomplete().into()),
            (None, item) => {
                let of_items = |item| Self {
                    item,
                    item_bias: None,
                    user: None,
                    mean: 0.0,
                    chunk_values: CHUNK_VALUES,
                };
                return Ok(item.map(of_items));
            }
        };
        let (user_bias, item_bias) = (open("user.bias")?, open("item.bias")?);
        let fits = |bias: &Option<Matrix<'a>>, rows: &Matrix<'a>| {
            bias.as_ref().is_none_or(|bias| (bias.n_rows(), bias.dim()) == (rows.n_rows(), 1))
        };
        let mut mean = Vec::new();
        let same = rows.dim() == item.dim() && fits(&user_bias, &rows) && fits(&item_bias, &item);
        match open("mean")? {
            Some(mut stored) if same && (stored.n_rows(), stored.dim()) == (1, 1) => {
                stored.read(0, 1, &mut mean).map_err(Error::from)?;
            }
            _ => return Err(incomplete().into()),
        }
        let user = Some(UserTable { rows, bias: user_bias });
        Ok(Some(Self { item, item_bias, user, mean: mean[0], chunk_values: CHUNK_VALUES }))
    }

    /// Reads items in chunks of at least this many values, for tests.
    #[doc(hidden)]
    pub fn with_chunks_of(self, values: usize) -> Self {
        Self { chunk_values: values, ..self }
    }

    /// Returns the number of items.
    pub fn n_items(&self) -> usize {
        self.item.n_rows()
    }

    /// Whether users have vectors of their own, which new users are folded in to.
    pub fn has_users(&self) -> bool {
        self.user.is_some()
    }

    /// Returns the memory that recommending `k` items to blocks of so many users takes, in bytes, on this many threads.
    pub fn needed(&self, users: usize, k: usize, threads: usize) -> u64 {
        let (dim, n) = (self.item.dim().max(1), self.n_items());
        let chunk = n.min(2 * self.chunk_rows()) * (dim + 1);
        let block = users * (3 * dim + 4 * k.min(n)) + 2 * GATHERED;
        let scores = threads * (2 * SCORES).min(users * n);
        4 * (3 * chunk + block + scores) as u64
    }

    /// Reads the vectors of users by their rows in the user table.
    ///
    /// # Errors
    /// Those of reading; [`veridical_core::Error::Unfit`] for a model without user vectors.
    pub fn of_users(&mut self, numbers: &[u32]) -> Result<UserVectors> {
        let Some(UserTable { rows, bias }) = &mut self.user else {
            return Err(Error::unfit("the model has no vectors of users"));
        };
        let rows = rows.gather(numbers)?;
        let bias = bias.as_mut().map(|bias| bias.gather(numbers)).transpose()?;
        Ok(UserVectors { rows, base: self.base(numbers.len(), bias) })
    }

    fn base(&self, n: usize, bias: Option<Vec<f32>>) -> Option<Vec<f32>> {
        if self.item_bias.is_none() && bias.is_none() && self.mean == 0.0 {
            return None;
        }
        let bias = bias.unwrap_or_else(|| vec![0.0; n]);
        Some(bias.into_iter().map(|bias| self.mean + bias).collect())
    }

    /// Makes the vectors of users that are the means of the unit vectors of their items, one user per history.
    ///
    /// # Errors
    /// Those of reading.
    pub fn of_means(&mut self, histories: &Lists) -> Result<UserVectors> {
        let dim = self.item.dim();
        let sums = self.of_histories(histories, |_, items, _| {
            let mut sum = vec![0.0; dim];
            for item in unit_rows(items, dim).chunks_exact(dim) {
                sum.iter_mut().zip(item).for_each(|(s, x)| *s += x);
            }
            sum
        })?;
        let mut rows = sums.concat();
        to_unit_rows(&mut rows, dim);
        Ok(UserVectors { rows, base: None })
    }

    /// Returns the Gram matrix of the items that folding in with this problem needs; empty if it needs none.
    ///
    /// # Errors
    /// Those of reading; [`veridical_core::Error::Interrupted`] if the user interrupts.
    pub fn gram(&mut self, problem: FoldIn, job: &Job<'_>) -> Result<Vec<f64>> {
        if matches!(problem, FoldIn::Ratings { .. }) {
            return Ok(Vec::new());
        }
        let (n, dim) = (self.n_items(), self.item.dim());
        let step = self.chunk_rows().next_multiple_of(GramSum::STEP);
        let (mut sum, mut rows) = (GramSum::new(n, dim), Vec::new());
        for first in (0..n).step_by(step) {
            job.check()?;
            self.item.read(first, step.min(n - first), &mut rows)?;
            sum.add(&rows);
        }
        Ok(sum.finish())
    }

    /// Solves for the vectors of new users, one per history, with one rating per entry if there are ratings.
    ///
    /// # Errors
    /// Those of reading; [`veridical_core::Error::Unfit`] if ratings are missing, or the model has no user vectors.
    pub fn of_new_users(
        &mut self,
        histories: &Lists,
        ratings: Option<&[f32]>,
        problem: FoldIn,
        gram: &[f64],
    ) -> Result<UserVectors> {
        problem.check(ratings)?;
        let has_bias = self.user.as_ref().is_some_and(|user| user.bias.is_some());
        let dim = self.item.dim();
        let step = Step { dim, n_items: self.n_items(), gram, mean: self.mean, has_bias, problem };
        let solved = self.of_histories(histories, |user, items, biases| {
            let ratings = ratings.map(|ratings| &ratings[histories.range(user)]);
            step.solve(items, biases, ratings)
        })?;
        let bias = has_bias.then(|| solved.iter().map(|(_, bias)| *bias).collect());
        let rows = solved.into_iter().flat_map(|(row, _)| row).collect();
        Ok(UserVectors { rows, base: self.base(histories.len(), bias) })
    }

    /// What `each` makes of every user from the vectors of the items of the history and their biases, if there are any.
    fn of_histories<T: Send>(
        &mut self,
        histories: &Lists,
        each: impl Fn(usize, &[f32], Option<&[f32]>) -> T + Sync,
    ) -> Result<Vec<T>> {
        let dim = self.item.dim();
        let mut made = Vec::with_capacity(histories.len());
        while made.len() < histories.len() {
            let (from, start) = (made.len(), histories.range(made.len()).start);
            let mut to = from + 1;
            while to < histories.len() && (histories.range(to).end - start) * dim <= GATHERED {
                to += 1;
            }
            let items = &histories.values()[start..histories.range(to - 1).end];
            let rows = self.item.gather(items)?;
            let biases = self.item_bias.as_mut().map(|bias| bias.gather(items)).transpose()?;
            let of_user = |user: usize| {
                let own = histories.range(user);
                let own = own.start - start..own.end - start;
                let biases = biases.as_ref().map(|biases| &biases[own.clone()]);
                each(user, &rows[own.start * dim..own.end * dim], biases)
            };
            made.par_extend((from..to).into_par_iter().map(of_user));
        }
        Ok(made)
    }

    /// Items per chunk, at least.
    fn chunk_rows(&self) -> usize {
        (self.chunk_values / self.item.dim().max(1)).max(1)
    }

    /// Returns the `k` best items of every user, best first, ties by number: those of [`crate::recommend`]. Items in the
    /// user's ascending history are excluded unless `keep_seen`.
    ///
    /// # Errors
    /// Those of reading; [`veridical_core::Error::Interrupted`] if the user interrupts.
    pub fn recommend(
        &mut self,
        users: &UserVectors,
        histories: &Lists,
        k: usize,
        keep_seen: bool,
        job: &Job<'_>,
    ) -> Result<Vec<Vec<Scored>>> {
        let (n_items, dim) = (self.n_items(), self.item.dim());
        let mut best: Vec<Best> = (0..histories.len()).map(|_| Best::new(k.min(n_items))).collect();
        // Products with one row are summed in another order than those of more, and so are those of a few short rows. Hence
        // chunks of nearly equal length, all long, and a user is alone in a product here who is alone there.
        let unit = block_users(n_items);
        let chunks = (n_items / self.chunk_rows()).max(1);
        let (mut items, mut biases) = (Vec::new(), Vec::new());
        for chunk in 0..chunks {
            job.check()?;
            let (first, end) = (chunk * n_items / chunks, (chunk + 1) * n_items / chunks);
            let n = end - first;
            if n == 0 {
                break;
            }
            self.item.read(first, n, &mut items)?;
            if self.user.is_none() {
                to_unit_rows(&mut items, dim);
            }
            if let Some(bias) = &mut self.item_bias {
                bias.read(first, n, &mut biases)?;
            }
            let item_bias = self.item_bias.is_some().then_some(&biases[..]);
            let alone = histories.len() - usize::from(histories.len() % unit == 1);
            let block = unit * ((SCORES / n).min(256) / unit).max(1);
            let (rows, last_row) = users.rows.split_at(alone * dim);
            let (best, last_best) = best.split_at_mut(alone);
            let parts = rows.par_chunks(block * dim).zip(best.par_chunks_mut(block)).enumerate();
            let parts = parts.map(|(part, (rows, best))| (part * block, rows, best));
            let last = rayon::iter::once((alone, last_row, last_best));
            parts.chain(last).for_each_init(Vec::new, |scores, (first_user, rows, best)| {
                scores.resize(best.len() * n, 0.0);
                products(rows, &items, dim, scores);
                for ((user, best), scores) in
                    (first_user..).zip(best).zip(scores.chunks_exact_mut(n))
                {
                    if let Some(base) = &users.base {
                        add_biases(scores, base[user], item_bias);
                    }
                    let seen = if keep_seen { &[][..] } else { histories.get(user) };
                    offer(best, first as u32, scores, seen);
                }
            });
        }
        Ok(best.into_par_iter().map(Best::into_sorted).collect())
    }
}

/// Offers the scores of the items from number `first` on, except the ascending `seen` ones. Groups without a score that could
/// enter are passed over.
fn offer(best: &mut Best, first: u32, scores: &[f32], seen: &[u32]) {
    const GROUP: usize = 32;
    let mut seen = seen[seen.partition_point(|&item| item < first)..].iter().copied().peekable();
    for (first, group) in (first..).step_by(GROUP).zip(scores.chunks(GROUP)) {
        if best.is_above(group) {
            continue;
        }
        while seen.next_if(|&item| item < first).is_some() {}
        for (number, &score) in (first..).zip(group) {
            if seen.next_if_eq(&number).is_none() {
                best.offer(number, score);
            }
        }
    }
}
