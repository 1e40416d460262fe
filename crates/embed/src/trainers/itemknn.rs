//! Item-based nearest neighbors.
//!
//! similarity  s_ij = c_ij / (sqrt(n_i n_j) + shrink),  c_ij users of both items, n_i users of i
//! score       of i for a user: the sum of s_hi over items h of the history that have i among their k nearest
//!             neighbors (Deshpande & Karypis 2004)
//!
//! Rows of c are computed one at a time from the users' lists: O(sum over users of n_u^2) time, O(items) memory
//! per thread.

use rayon::prelude::*;
use veridical_core::Progress;
use veridical_core::Seed;
use veridical_core::settings;
use veridical_learn::{Scored, top_k};

use super::closed_form::ClosedForm;
use super::cooccurrence::{Choices, Row};
use crate::{Error, Graphs, Input, Model, Result, Trainer};

settings! {
    /// Settings of `itemknn`.
    pub struct Settings {
        /// Nearest neighbors kept per item
        pub neighbors: usize = 100,
        /// Shrinkage added to the product of norms: lowers the similarities of rare items
        pub shrink: f64 = 10.0,
    }
}

/// Makes a trainer that has not run an epoch yet.
///
/// # Errors
/// Settings out of range, and data without interactions.
pub fn trainer<'a>(
    settings: &Settings,
    input: Input<'a>,
    _graphs: &'a Graphs,
    _seed: Seed,
) -> Result<Box<dyn Trainer + 'a>> {
    let Settings { neighbors, shrink } = *settings;
    if neighbors == 0 {
        return Err(Error::setting("neighbors", "at least 1", neighbors));
    }
    if !(shrink >= 0.0 && shrink.is_finite()) {
        return Err(Error::setting("shrink", "0 or above", shrink));
    }
    let (data, rows) = input.interactions()?;
    let n = data.items.len();
    let k = neighbors.min(n.saturating_sub(1)).max(1);
    let solve = move |progress: &Progress| {
        let choices = Choices::new(data, rows);
        let near = |row: &mut Row, i: usize| {
            progress.check()?;
            let own = choices.count(i);
            let mut similar = Vec::new();
            row.of(&choices, i, |j, both| {
                if j as usize != i {
                    let norms = (f64::from(own) * f64::from(choices.count(j as usize))).sqrt();
                    similar.push((j, (f64::from(both) / (norms + shrink)) as f32));
                }
            });
            progress.advance(u64::from(own));
            Ok(top_k(similar.into_iter(), k))
        };
        let near: Vec<Result<Vec<Scored>>> =
            (0..n).into_par_iter().map_init(Row::default, near).collect();
        let mut item = Vec::with_capacity(n * k);
        let mut similarity = Vec::with_capacity(n * k);
        for (i, near) in near.into_iter().enumerate() {
            let near = near?;
            item.extend(near.iter().map(|s| s.number));
            similarity.extend(near.iter().map(|s| s.score));
            item.resize((i + 1) * k, i as u32);
            similarity.resize((i + 1) * k, 0.0);
        }
        Ok(Model::Neighbors { k, item, similarity })
    };
    let model = Model::Neighbors { k, item: vec![0; n * k], similarity: vec![0.0; n * k] };
    Ok(Box::new(ClosedForm { samples: rows.len() as u64, model, solve }))
}
