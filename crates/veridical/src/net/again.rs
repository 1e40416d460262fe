//! The training of a run once more, in memory: without some of its rows, or on a part of them.
//!
//! Recipe, initial weights, order of the examples and division are those of the run. Without rows it is, byte for byte, what `train net
//! --from RUN --exclude-rows LIST` writes; a batch larger than what is left is all of it.

use std::collections::BTreeSet;

use serde_json::Map;
use veridical_core::{Job, Seed};
use veridical_data::examples::{Examples, Targets};
use veridical_nets::metrics::Passes;
use veridical_nets::{Architecture, Net, Shape};

use super::material::{Division, Material, Normalization, divide_kept, kept};
use super::{NetRequest, Prepared, Saved, Task};
use crate::{Error, Result};

/// A run whose training can be repeated.
pub(crate) struct Again {
    shape: Shape,
    task: Task,
    request: NetRequest,
    seed: Seed,
    /// All training examples of the data, with those that the run left out.
    all: Examples,
    /// Rows that the run does not exclude.
    kept: Vec<usize>,
    /// What it held out.
    validation: Option<Examples>,
}

impl Again {
    /// Prepares to train a run again, whose data has these training examples.
    pub fn new(saved: &Saved, all: Examples) -> Result<Self> {
        if saved.request.recipe.epochs == 0 {
            let what = format!("{} imported its weights", saved.run.path().display());
            return Err(Error::request(what, "only a run of `train net` can be trained again"));
        }
        let options = &saved.request.options;
        let kept = kept(all.n(), options.exclude_rows.as_deref())?;
        let validation = match options.validation {
            None | Some(0.0) => None,
            Some(_) => {
                divide_kept(Some(all.clone()), kept.clone(), &saved.task, options)?.validation
            }
        };
        let Saved { shape, task, request, seed, .. } = saved;
        Ok(Self {
            shape: *shape,
            task: task.clone(),
            request: request.clone(),
            seed: Seed::new(*seed)?,
            all,
            kept,
            validation,
        })
    }

    /// Trains with the seed of the run on all its rows but some.
    pub fn without(
        &self,
        rows: &BTreeSet<usize>,
        job: &Job<'_>,
    ) -> Result<(Net<f32>, Normalization)> {
        let kept: Vec<usize> =
            self.kept.iter().copied().filter(|row| !rows.contains(row)).collect();
        if kept.is_empty() {
            let what = "no training rows are left to train on again";
            return Err(Error::request(what, "leave some of them in"));
        }
        let all = Some(self.all.clone());
        let Division { train, validation, .. } =
            divide_kept(all, kept, &self.task, &self.request.options)?;
        self.trained(train, validation, self.seed, job)
    }

    /// Trains on these rows with any seed.
    pub fn on(
        &self,
        rows: &[usize],
        seed: Seed,
        job: &Job<'_>,
    ) -> Result<(Net<f32>, Normalization)> {
        self.trained(Some(self.all.subset(rows)), self.validation.clone(), seed, job)
    }

    /// Trains on these rows and returns the outputs for queries, one row per query.
    pub fn outputs(
        &self,
        rows: &[usize],
        seed: Seed,
        queries: &Examples,
        job: &Job<'_>,
    ) -> Result<Vec<f32>> {
        let (net, normalization) = self.on(rows, seed, job)?;
        let feed = normalization.feed(queries, seed);
        Ok(Passes::new(&net).outputs(&net, &feed, ("queries", job))?)
    }

    /// Returns the seed of the run.
    pub const fn seed(&self) -> Seed {
        self.seed
    }

    /// Whether several trainings fit side by side: dense networks, which gain little from a second thread.
    pub fn is_small(&self) -> bool {
        matches!(self.request.recipe.model.parse(), Ok(Architecture::Mlp(_)))
    }

    /// Returns the rows that the run excludes.
    pub fn excluded(&self) -> Vec<usize> {
        (0..self.all.n()).filter(|row| self.kept.binary_search(row).is_err()).collect()
    }

    /// Returns the class of a row.
    pub fn label(&self, row: usize) -> Option<u32> {
        match &self.all.targets {
            Targets::Classes(labels) => labels.get(row).copied(),
            Targets::Numbers { .. } => None,
        }
    }

    fn trained(
        &self,
        train: Option<Examples>,
        validation: Option<Examples>,
        seed: Seed,
        job: &Job<'_>,
    ) -> Result<(Net<f32>, Normalization)> {
        let mut request = self.request.clone();
        let n = train.as_ref().map_or(0, Examples::n);
        request.recipe.batch = request.recipe.batch.map(|batch| batch.min(n));
        let normalization = Normalization::new(&request.options, train.as_ref(), self.shape)?;
        let material = Material {
            shape: self.shape,
            task: self.task.clone(),
            train,
            validation,
            normalization: normalization.clone(),
            sections: Map::new(),
        };
        let prepared = Prepared::of(request, material)?;
        let net = prepared.net(seed, job)?;
        let (net, _) = prepared.learned(net, seed, None, None, job)?;
        Ok((net, normalization))
    }
}
