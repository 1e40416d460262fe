//! Trainings of item2vec that differ in the seed alone, or also start from another's vectors.

use std::iter;

use veridical::{Error, Result};
use veridical_core::{Job, Seed};
use veridical_data::{IdMap, TensorMap};
use veridical_embed::{Embedding, Graphs, Input, Method, Model};
use veridical_features::{Kernel, length_scale};
use veridical_inspect::{SharedRows, SharedTables};
use veridical_learn::{LinearMap, PairMoments, Procrustes, to_unit_rows};

use super::world::World;
use crate::RunOptions;
use crate::lab::{self, Settings};

/// One training.
pub struct Trained {
    /// Item vectors as they were after some epochs, the last one at the end.
    pub after: Vec<Vec<f32>>,
    /// The mean loss of every epoch.
    pub losses: Vec<f64>,
    /// Both tables at the end.
    pub model: Model,
}

impl Trained {
    /// Item vectors at the end, which early stopping may bring before the last epoch.
    pub fn items(&self) -> Result<Vec<f32>> {
        Ok(items(&self.model)?.values().to_vec())
    }
}

/// Trainings with the seeds `seeds`; `epochs` ascend and are those whose vectors are kept.
pub fn train(
    world: &World,
    settings: &Settings,
    start: Option<&Model>,
    seeds: std::ops::Range<u64>,
    epochs: &[u32],
    options: &RunOptions<'_>,
) -> Result<Vec<Trained>> {
    let seeds: Vec<u64> = seeds.collect();
    let bar = options.job.progress("training", "models", Some(seeds.len() as u64));
    lab::side_by_side(&seeds, &bar, |&seed| one(world, settings, start, seed, epochs, options.job))
}

fn one(
    world: &World,
    settings: &Settings,
    start: Option<&Model>,
    seed: u64,
    epochs: &[u32],
    job: &Job<'_>,
) -> Result<Trained> {
    let rows: Vec<u32> = (0..world.data.len() as u32).collect();
    let input = Input::of(&world.data, &rows);
    let graphs = Graphs::default();
    let mut trainer = Method::Item2vec.trainer(settings, input, &graphs, Seed::new(seed)?)?;
    if let Some(start) = start {
        trainer.restore(start.clone())?;
    }
    let (mut after, mut losses) = (Vec::new(), Vec::new());
    lab::epochs(&mut *trainer, job, |done, loss, trainer| {
        losses.extend(loss);
        if epochs.contains(&done) {
            after.push(items(trainer.model())?.values().to_vec());
        }
        Ok(())
    })?;
    Ok(Trained { after, losses, model: trainer.model().clone() })
}

fn items(model: &Model) -> Result<&Embedding> {
    match model {
        Model::Items { item, .. } => Ok(item),
        _ => Err(Error::request("item2vec did not give vectors of items", "")),
    }
}

/// The model with its context vectors taken away: what a table of item vectors hands on.
pub fn items_alone(model: &Model) -> Result<Model> {
    let item = items(model)?.clone();
    let context = Some(Embedding::zeros(item.n_rows(), item.dim()));
    Ok(Model::Items { item, context, state: TensorMap::default() })
}

/// Unit rows of tables, as runs with their maps to the first.
pub struct Ensemble {
    /// Unit rows.
    pub runs: SharedTables,
    /// From each run to the first, by orthogonal Procrustes over all items.
    pub maps: Vec<LinearMap>,
}

impl Ensemble {
    /// Of vectors as they were learned; with `unit` rows are divided by their norms.
    pub fn new(items: &IdMap, tables: impl IntoIterator<Item = Vec<f32>>, unit: bool) -> Self {
        let n = items.len();
        let runs: Vec<SharedRows> = tables
            .into_iter()
            .enumerate()
            .map(|(number, mut rows)| {
                let dim = rows.len() / n;
                if unit {
                    to_unit_rows(&mut rows, dim);
                }
                SharedRows { name: format!("seed {number}"), dim, rows }
            })
            .collect();
        let dim = runs[0].dim;
        let to_first = |run: &SharedRows| {
            Procrustes::default().fit(&PairMoments::of(&runs[0].rows, dim, &run.rows, dim))
        };
        let maps =
            iter::once(LinearMap::identity(dim)).chain(runs[1..].iter().map(to_first)).collect();
        Self { runs: SharedTables::of(items.ids().clone(), runs), maps }
    }

    /// Of the vectors at the end of trainings.
    pub fn of(world: &World, trained: &[Trained]) -> Self {
        Self::new(&world.data.items, trained.iter().filter_map(|t| t.after.last().cloned()), true)
    }

    /// The median distance of the first run's labeled rows.
    pub fn median_distance(&self, world: &World) -> Result<f64> {
        let rows = self.runs.runs[0].gather(&world.first.rows);
        Ok(length_scale::from_median(
            veridical_core::Rows::new(&rows, self.dim())?,
            &Kernel::Gaussian,
        )?)
    }

    /// d.
    pub fn dim(&self) -> usize {
        self.runs.runs[0].dim
    }
}
