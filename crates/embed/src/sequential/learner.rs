//! Epochs over batches of histories, and the state between them: the same for every model of sequences.

use veridical_core::interrupt;
use veridical_core::progress::Progress;
use veridical_nets::Table;

use super::{Architecture, Batch, Batches, Sequential, Tower, load_table, save_table};
use crate::trainer::Settling;
use crate::{Embedding, Error, Model, Result, Tensors, Trainer, finite};

/// What is learnt, and how a step moves it.
pub(crate) trait Stepper: Send {
    /// One step at a learning rate; the mean loss of the positions before it.
    fn step(&mut self, batch: &Batch, lr: f64) -> f64;

    /// Its networks and its table of items.
    fn parts(&mut self) -> (Vec<&mut Tower>, &mut Table<f32>);
}

/// How long it learns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    pub epochs: u32,
    pub lr: f64,
    pub settling: Option<Settling>,
}

/// The trainer of a model of sequences.
pub(crate) struct Learner<'a, S> {
    architecture: Architecture,
    batches: Batches<'a>,
    course: Course,
    stepper: S,
    model: Model,
}

impl<'a, S: Stepper> Learner<'a, S> {
    /// Before its first epoch.
    pub fn new(
        architecture: Architecture,
        batches: Batches<'a>,
        course: Course,
        mut stepper: S,
    ) -> Self {
        let model = Model::Sequential(snapshot(architecture, &mut stepper));
        Self { architecture, batches, course, stepper, model }
    }
}

/// Everything that the next epoch depends on.
fn snapshot(architecture: Architecture, stepper: &mut impl Stepper) -> Sequential {
    let (towers, table) = stepper.parts();
    let (mut nets, mut state) = (Tensors::default(), Tensors::default());
    towers.iter().for_each(|tower| tower.save(&mut nets, &mut state));
    save_table(table, &mut state);
    let item = Embedding::new(table.dim(), table.values().to_vec());
    Sequential { architecture, item, nets, state }
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

    fn settling(&self) -> Option<Settling> {
        self.course.settling
    }

    fn epoch(&mut self, epoch: u32, progress: &Progress) -> Result<Option<f64>> {
        let lr = self.course.lr;
        let order = self.batches.order(epoch);
        let mut batch = Batch::default();
        let (mut sum, mut positions) = (0.0, 0);
        for number in 0..self.batches.len() {
            interrupt::check()?;
            self.batches.fill(epoch, number, &order, &mut batch);
            let loss = finite(self.stepper.step(&batch, lr), epoch, lr)?;
            sum += loss * batch.targets.len() as f64;
            positions += batch.targets.len();
            progress.advance(batch.starts.len() as u64 - 1);
        }
        self.model = Model::Sequential(snapshot(self.architecture, &mut self.stepper));
        Ok(Some(sum / positions as f64))
    }

    fn model(&self) -> &Model {
        &self.model
    }

    fn restore(&mut self, model: Model) -> Result<()> {
        self.model.check_replacement(&model)?;
        let Model::Sequential(earlier) = &model else {
            return Err(Error::State("the checkpoint is of another method".into()));
        };
        let (towers, table) = self.stepper.parts();
        for tower in towers {
            tower.load(earlier)?;
        }
        load_table(table, earlier)?;
        self.model = model;
        Ok(())
    }

    fn into_model(self: Box<Self>) -> Model {
        self.model.handed_out()
    }
}
