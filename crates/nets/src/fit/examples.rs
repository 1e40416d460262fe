//! Training of a network on examples of one shape.

use veridical_core::Job;
use veridical_data::TensorMap;
use veridical_data::examples::{Examples, Targets};

use super::{Evaluation, Learner, Step};
use crate::metrics::{Passes, measures};
use crate::{Error, Feed, Net, Result, Target, Trainer, TrainerSettings};

const PARAMETERS: &str = "parameters";
const BUFFERS: &str = "buffers";

/// A network with the examples it is trained and evaluated on.
#[derive(Debug)]
pub struct ExampleLearner<'a> {
    trainer: Trainer<f32>,
    feed: Feed<'a>,
    examples: &'a Examples,
    validation: Option<(Feed<'a>, &'a Examples, Passes)>,
    classes: usize,
    gathered: Gathered,
}

impl<'a> ExampleLearner<'a> {
    /// Prepares training with the given number of `classes`, 0 for regression.
    pub fn new(
        trainer: Trainer<f32>,
        (feed, examples): (Feed<'a>, &'a Examples),
        validation: Option<(Feed<'a>, &'a Examples)>,
        classes: usize,
    ) -> Self {
        let passes = |(feed, examples)| (feed, examples, Passes::new(trainer.net()));
        let validation = validation.map(passes);
        Self { trainer, feed, examples, validation, classes, gathered: Gathered::default() }
    }

    /// Returns the trained network.
    pub fn into_net(self) -> Net<f32> {
        self.trainer.into_net()
    }
}

impl Learner for ExampleLearner<'_> {
    fn settings(&self) -> &TrainerSettings {
        self.trainer.settings()
    }

    fn rate(&self) -> f64 {
        self.trainer.rate()
    }

    fn steps(&self) -> u64 {
        self.trainer.steps()
    }

    fn step(&mut self, samples: &[usize], epoch: u32) -> Result<Step> {
        let targets = self.gathered.of(&self.examples.targets, samples);
        let fill = |slot: &mut [f32]| self.feed.fill_training(samples, epoch, slot);
        self.trainer.step(samples.len(), targets, None, fill)
    }

    fn evaluate(&mut self, job: &Job<'_>) -> Result<Option<Evaluation>> {
        let Some((feed, examples, passes)) = &mut self.validation else { return Ok(None) };
        let net = self.trainer.net();
        let outputs = passes.outputs(net, feed, ("", &job.quiet()))?;
        let loss = self.trainer.settings().loss;
        let found = measures(&outputs, net.outputs(), &examples.targets, loss, self.classes)?;
        Ok(Some(found.evaluation()))
    }

    fn learned(&self) -> Vec<(String, &[f32])> {
        lists(self.trainer.net())
    }

    fn kept(&self) -> Vec<(String, &[f32])> {
        let state = self.trainer.optimizer().state();
        state.into_iter().map(|(name, values)| (name.to_owned(), values)).collect()
    }

    fn resume(&mut self, state: TensorMap, steps: u64) -> Result<()> {
        resume(&mut self.trainer, state, steps)
    }

    fn restore(&mut self, learned: &TensorMap) -> bool {
        restore(self.trainer.net_mut(), learned)
    }
}

/// The learned tensors of a network.
pub(super) fn lists(net: &Net<f32>) -> Vec<(String, &[f32])> {
    vec![(PARAMETERS.into(), &net.params), (BUFFERS.into(), &net.buffers)]
}

/// Resumes from the tensors of a network and of its optimizer.
pub(super) fn resume(trainer: &mut Trainer<f32>, mut state: TensorMap, steps: u64) -> Result<()> {
    let mut take = |name: &str| state.remove(name).map(|(_, values)| values);
    let missing = || Error::damaged("it has no parameters".into());
    let params = take(PARAMETERS).ok_or_else(missing)?;
    let buffers = take(BUFFERS).unwrap_or_default();
    let kept: Vec<(String, Vec<f32>)> =
        state.into_iter().map(|(name, (_, values))| (name, values)).collect();
    trainer.resume(&params, &buffers, &kept, steps)
}

/// Restores the learned tensors of a network; `false` if they belong to another network.
pub(super) fn restore(net: &mut Net<f32>, learned: &TensorMap) -> bool {
    [(PARAMETERS, &mut net.params), (BUFFERS, &mut net.buffers)].into_iter().all(
        |(name, values)| match learned.get(name) {
            Some((_, kept)) if kept.len() == values.len() => {
                values.copy_from_slice(kept);
                true
            }
            None => values.is_empty(),
            _ => false,
        },
    )
}

/// Targets of some samples, gathered into one list.
#[derive(Debug, Default)]
struct Gathered {
    classes: Vec<u32>,
    numbers: Vec<f32>,
}

impl Gathered {
    fn of<'a>(&'a mut self, targets: &Targets, samples: &[usize]) -> Target<'a> {
        match targets {
            Targets::Classes(all) => {
                self.classes.clear();
                self.classes.extend(samples.iter().map(|&i| all[i]));
                Target::Classes(&self.classes)
            }
            Targets::Numbers { dim, values } => {
                self.numbers.clear();
                let rows = samples.iter().flat_map(|&i| &values[i * dim..][..*dim]);
                self.numbers.extend(rows);
                Target::Numbers(&self.numbers)
            }
        }
    }
}
