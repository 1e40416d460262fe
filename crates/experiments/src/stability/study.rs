//! What the three studies of table 1 share: how many runs, splits and epochs, and where the paper is silent.

use serde::Deserialize;
use veridical::Result;

use super::ensemble::{self, Trained};
use super::evaluate::Evaluator;
use super::world::World;
use crate::RunOptions;
use crate::lab::{self, Settings};

pub const SEQUENCES: &str = "sequences are the movies rated 3 and above in the published order of their times; the \
    paper takes all ratings";
pub const OPTIMIZER: &str = "word2vec's own SGD (rate 0.025, falling in a line over 10 epochs) for Adam with early \
    stopping and weight decay";
pub const FIRST_GENRE: &str = "a movie with several genres has the first, which is alphabetical (000-table1 has sets of \
    genres beside it); the paper's formula p(Y = k) has one; the one class with fewer than 5 movies is left out";

/// How large a study is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    pub seeds: u64,
    pub quick_seeds: u64,
    /// Random splits of 80 % and 20 %.
    pub splits: u64,
    pub quick_splits: u64,
    pub quick_epochs: u32,
}

/// A study of this size.
#[derive(Clone)]
pub struct Study<'a> {
    pub seeds: u64,
    splits: u64,
    settings: Settings,
    options: &'a RunOptions<'a>,
}

impl<'a> Study<'a> {
    pub fn new(scale: &Scale, settings: &toml::Table, options: &'a RunOptions<'a>) -> Result<Self> {
        let mut settings = lab::grid(settings).swap_remove(0);
        if options.quick {
            settings.insert("epochs".into(), scale.quick_epochs.into());
        }
        let (seeds, splits) = match options.quick {
            true => (scale.quick_seeds, scale.quick_splits),
            false => (scale.seeds, scale.splits),
        };
        Ok(Self { seeds, splits, settings, options })
    }

    /// The same study with some settings changed; a smoke test keeps its number of epochs.
    pub fn with(&self, changed: &toml::Table) -> Self {
        let mut changed = lab::grid(changed).swap_remove(0);
        if self.options.quick {
            changed.remove("epochs");
        }
        let settings = self.settings.clone().into_iter().chain(changed).collect();
        Self { settings, ..self.clone() }
    }

    /// Trainings of all seeds; vectors are kept after the epochs `early` and the last.
    pub fn train(&self, world: &World, early: &[u32]) -> Result<Vec<Trained>> {
        let last = self.settings.get("epochs").and_then(serde_json::Value::as_u64);
        let last = last.unwrap_or(1) as u32;
        let mut epochs: Vec<u32> = early.iter().copied().filter(|&e| e < last).collect();
        epochs.push(last);
        ensemble::train(world, &self.settings, None, 0..self.seeds, &epochs, self.options)
    }

    /// The splits.
    pub fn evaluate<'w>(&self, world: &'w World) -> Result<Evaluator<'w>>
    where
        'a: 'w,
    {
        Evaluator::new(world, self.splits, self.options.job)
    }
}
