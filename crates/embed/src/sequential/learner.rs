//! The trainer of all sequential models: epochs over batches of histories, and the state between epochs.

use std::cell::OnceCell;

use veridical_core::Progress;
use veridical_core::stopping::EarlyStopping;
use veridical_data::TensorMap;
use veridical_nets::EmbeddingTable;

use super::{Architecture, Batch, Batches, Sequential, Tower, load_table, save_table};
use crate::{Embedding, Error, Model, Result, Trainer, finite};

/// The weights of a model and their training step.
pub(crate) trait Stepper: Send {
    /// Takes one step at a learning rate; returns the mean loss per position before the step.
    fn step(&mut self, batch: &Batch, lr: f64) -> f64;

    /// The networks and the item table.
    fn parts(&self) -> (Vec<&Tower>, &EmbeddingTable<f32>);

    /// The networks and the item table, mutable.
    fn parts_mut(&mut self) -> (Vec<&mut Tower>, &mut EmbeddingTable<f32>);
}

/// The length and learning rate of a training.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    pub epochs: u32,
    pub lr: f64,
    pub settling: Option<EarlyStopping>,
}

/// The trainer of a sequential model.
pub(crate) struct Learner<'a, S> {
    architecture: Architecture,
    batches: Batches<'a>,
    course: Course,
    stepper: S,
    /// The model so far, built on request: networks and optimizers store their values in other shapes than a model, and a
    /// copy after every epoch would mostly go unused.
    model: OnceCell<Model>,
}

impl<'a, S: Stepper> Learner<'a, S> {
    /// Makes a trainer that has not run an epoch yet.
    pub fn new(
        architecture: Architecture,
        batches: Batches<'a>,
        course: Course,
        stepper: S,
    ) -> Self {
        Self { architecture, batches, course, stepper, model: OnceCell::new() }
    }
}

/// Everything that the next epoch depends on.
fn snapshot(architecture: Architecture, stepper: &impl Stepper) -> Model {
    let (towers, table) = stepper.parts();
    let (mut nets, mut state) = (TensorMap::default(), TensorMap::default());
    towers.iter().for_each(|tower| tower.save(&mut nets, &mut state));
    save_table(table, &mut state);
    let item = Embedding::new(table.dim(), table.values().to_vec());
    Model::Sequential(Sequential { architecture, item, nets, state })
}

impl<S: Stepper> Trainer for Learner<'_, S> {
    fn samples(&self) -> u64 {
        self.batches.users()
    }

    fn epochs(&self) -> u32 {
        self.course.epochs
    }

    fn notes(&self) -> Vec<String> {
        self.batches.notes()
    }

    fn settling(&self) -> Option<EarlyStopping> {
        self.course.settling
    }

    fn epoch(&mut self, epoch: u32, progress: &Progress) -> Result<Option<f64>> {
        self.model.take(); // the cached model is outdated
        let lr = self.course.lr;
        let order = self.batches.order(epoch);
        let mut batch = Batch::default();
        let (mut sum, mut positions) = (0.0, 0);
        for number in 0..self.batches.len() {
            progress.check()?;
            self.batches.fill(epoch, number, &order, &mut batch);
            let loss = finite(self.stepper.step(&batch, lr), epoch, lr)?;
            sum += loss * batch.targets.len() as f64;
            positions += batch.targets.len();
            progress.advance(batch.starts.len() as u64 - 1);
        }
        Ok(Some(sum / positions as f64))
    }

    fn model(&self) -> &Model {
        self.model.get_or_init(|| snapshot(self.architecture, &self.stepper))
    }

    fn restore(&mut self, model: Model) -> Result<()> {
        self.model().check_replacement(&model)?;
        let Model::Sequential(earlier) = &model else {
            return Err(Error::shape("the checkpoint is from another method"));
        };
        let (towers, table) = self.stepper.parts_mut();
        for tower in towers {
            tower.load(earlier)?;
        }
        load_table(table, earlier)?;
        self.model = OnceCell::from(model);
        Ok(())
    }

    fn into_model(self: Box<Self>) -> Model {
        let Self { architecture, stepper, model, .. } = *self;
        model.into_inner().unwrap_or_else(|| snapshot(architecture, &stepper)).without_state()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use veridical_core::{Job, Seed};
    use veridical_data::{IdMap, Interactions};
    use veridical_nets::{OptimizerKind, OptimizerSettings};

    use super::super::Negatives;
    use super::*;
    use crate::Transition;
    use crate::fit::{FitSettings, Nowhere, fit};
    use crate::sse::Moves;

    /// Learns nothing and counts how often its parts are read.
    struct Counting {
        table: EmbeddingTable<f32>,
        copies: Cell<u32>,
    }

    impl Stepper for Counting {
        fn step(&mut self, _: &Batch, _: f64) -> f64 {
            1.0
        }

        fn parts(&self) -> (Vec<&Tower>, &EmbeddingTable<f32>) {
            self.copies.set(self.copies.get() + 1);
            (Vec::new(), &self.table)
        }

        fn parts_mut(&mut self) -> (Vec<&mut Tower>, &mut EmbeddingTable<f32>) {
            (Vec::new(), &mut self.table)
        }
    }

    #[test]
    fn a_model_is_copied_on_request_and_once_an_epoch() {
        let data = Interactions {
            users: IdMap::numbered(1),
            items: IdMap::numbered(3),
            user: vec![0; 3],
            item: vec![0, 1, 2],
            rating: None,
            time: None,
        };
        let seed = Seed::new(0).unwrap();
        let transition = || Transition::new("input", 3, 0.0, 1.0, None).unwrap();
        let sse = Moves::new(seed, [transition(), transition()]);
        let negatives = Negatives::Shared(0);
        let batches = Batches::new(&data, &[0, 1, 2], 3, 1, negatives, sse, seed).unwrap();
        let adam = OptimizerSettings::of(OptimizerKind::Adam);
        let table = EmbeddingTable::new(2, vec![0.5; 6], &adam).unwrap();
        let course = Course { epochs: 4, lr: 0.1, settling: None };
        let architecture = Architecture::Sasrec { length: 3, blocks: 1, heads: 1 };
        let stepper = Counting { table, copies: Cell::new(0) };
        let mut learner = Learner::new(architecture, batches, course, stepper);

        let each = |_, _: Option<f64>, _: &dyn Trainer| Ok::<(), Error>(());
        let (settings, job) = (FitSettings::default(), Job::silent());
        fit(&mut learner, settings, None, None::<&Nowhere>, None, &job, each).unwrap();
        assert_eq!(learner.stepper.copies.get(), 0);
        let look = |_, _: Option<f64>, trainer: &dyn Trainer| {
            assert_eq!(trainer.model(), trainer.model());
            Ok::<(), Error>(())
        };
        fit(&mut learner, settings, None, None::<&Nowhere>, None, &job, look).unwrap();
        assert_eq!(learner.stepper.copies.get(), 4);
    }
}
