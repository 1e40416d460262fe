//! Top-k items of users, and nearest neighbors of a row.

use rayon::prelude::*;
use veridical_data::Lists;
use veridical_learn::{Scored, dot, top_k};

use crate::score::block_users;
use crate::{Embedding, Error, Model, Result, Scorer};

/// Returns the `k` best items of each of `users`, best first, ties by number.
///
/// Items in the history are excluded unless `keep_seen`. `sequences` is the history in chronological order, for
/// sequential scorers. Memory is one block of scores per thread beside the result.
///
/// ```
/// use veridical_data::Lists;
/// use veridical_embed::{Model, recommend};
///
/// let popularity = Model::Popularity(vec![1.0, 2.0, 3.0]);
/// let history = Lists::collect(1, [(0, 2)].into_iter());
/// let best = recommend(&*popularity.scorer()?, &[0], &history, None, 2, false);
/// assert_eq!((best[0][0].number, best[0][1].number), (1, 0));
/// # Ok::<(), veridical_embed::Error>(())
/// ```
pub fn recommend(
    scorer: &dyn Scorer,
    users: &[u32],
    history: &Lists,
    sequences: Option<&Lists>,
    k: usize,
    keep_seen: bool,
) -> Vec<Vec<Scored>> {
    let n_items = scorer.n_items();
    if n_items == 0 {
        return vec![Vec::new(); users.len()];
    }
    let read = sequences.filter(|_| scorer.is_sequential()).unwrap_or(history);
    let blocks = users.par_chunks(block_users(n_items)).map_init(Vec::new, |scores, block| {
        scores.resize(block.len() * n_items, 0.0);
        scorer.score(block, read, scores);
        let best = |(row, &u): (&[f32], &u32)| {
            let seen = if keep_seen { &[][..] } else { history.get(u as usize) };
            top_k(without(row, seen), k)
        };
        scores.chunks_exact(n_items).zip(block).map(best).collect::<Vec<_>>()
    });
    blocks.collect::<Vec<_>>().into_iter().flatten().collect()
}

/// The scores with their item numbers, without the ascending `seen` numbers.
fn without<'a>(row: &'a [f32], seen: &'a [u32]) -> impl Iterator<Item = (u32, f32)> + 'a {
    let mut seen = seen.iter().copied().peekable();
    (0..).zip(row.iter().copied()).filter(move |&(i, _)| {
        while seen.next_if(|&s| s < i).is_some() {}
        seen.peek() != Some(&i)
    })
}

/// Returns the `k` rows with the largest cosine to row `r`, except `r` itself; a row of zeros has cosine 0.
///
/// ```
/// use veridical_embed::{Embedding, similar};
///
/// let table = Embedding::new(2, vec![1.0, 0.0, 0.0, 5.0, 3.0, 0.1]);
/// assert_eq!(similar(&table, 0, 1)[0].number, 2);
/// ```
pub fn similar(table: &Embedding, r: usize, k: usize) -> Vec<Scored> {
    let own = table.row(r);
    let norm = |row: &[f32]| dot(row, row).sqrt();
    let cosine = |row: &[f32]| {
        let norms = norm(row) * norm(own);
        if norms > 0.0 { dot(row, own) / norms } else { 0.0 }
    };
    let scores: Vec<f32> = table.values().par_chunks(table.dim()).map(cosine).collect();
    top_k(without(&scores, &[r as u32]), k)
}

impl Model {
    /// Returns the `k` nearest neighbors of row `r` in the table of that name: by cosine, or by the lists and weights of
    /// a model without vectors, whose only table is `item`.
    ///
    /// # Errors
    /// [`veridical_core::Error::Unfit`] if the model has no such table.
    pub fn similar(&self, table: &str, r: usize, k: usize) -> Result<Vec<Scored>> {
        if let Some(table) = self.tables().iter().find(|t| t.name == table) {
            return Ok(similar(table.rows, r, k));
        }
        match self {
            Self::Neighbors { k: kept, item, similarity } if table == "item" => {
                let list = r * kept..(r + 1) * kept;
                let near = item[list.clone()].iter().copied().zip(similarity[list].iter().copied());
                Ok(top_k(near.filter(|&(_, s)| s > 0.0), k))
            }
            Self::Weights(weights) if table == "item" => {
                let near = (0..).zip(weights.row(r).iter().copied());
                Ok(top_k(near.filter(|&(i, _)| i as usize != r), k))
            }
            Self::Popularity(_) => {
                Err(Error::unfit("a popularity model has no similar items; train another method"))
            }
            _ => {
                let names: Vec<&str> = self.tables().iter().map(|t| t.name).collect();
                let names = if names.is_empty() { "item".into() } else { names.join(", ") };
                Err(Error::unfit(format!("the model has no table `{table}`; it has {names}")))
            }
        }
    }
}
