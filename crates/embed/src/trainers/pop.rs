//! The most popular items: the score of an item is its number of interactions in training.

use veridical_core::Progress;
use veridical_core::Seed;
use veridical_core::settings;

use super::closed_form::ClosedForm;
use crate::{Graphs, Input, Model, Result, Trainer};

settings! {
    /// Settings of `pop`.
    pub struct Settings {

    }
}

/// Makes a trainer that has not run an epoch yet.
///
/// # Errors
/// Data without interactions.
pub fn trainer<'a>(
    _settings: &Settings,
    input: Input<'a>,
    _graphs: &'a Graphs,
    _seed: Seed,
) -> Result<Box<dyn Trainer + 'a>> {
    let (data, rows) = input.interactions()?;
    let n_items = data.items.len();
    let solve = move |progress: &Progress| {
        let mut counts = vec![0u32; n_items];
        rows.iter().for_each(|&r| counts[data.item[r as usize] as usize] += 1);
        progress.advance(rows.len() as u64);
        Ok(Model::Popularity(counts.into_iter().map(|count| count as f32).collect()))
    };
    let model = Model::Popularity(vec![0.0; n_items]);
    Ok(Box::new(ClosedForm { samples: rows.len() as u64, model, solve }))
}
