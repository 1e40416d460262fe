//! A network that learns from examples of one shape.

use veridical_data::examples::Examples;
use veridical_data::run::TensorMap;
use veridical_nets::{Error as NetError, Feed, Net, Result as NetResult, Trainer};

use super::fit::{Judged, Learner, Step};
use super::material::Gathered;
use super::measure::{Passes, measures};
use crate::Result;

pub(super) const PARAMETERS: &str = "parameters";
const BUFFERS: &str = "buffers";

/// A network, and the examples that it learns from and is judged on.
pub(super) struct ExampleLearner<'a> {
    trainer: Trainer<f32>,
    feed: Feed<'a>,
    examples: &'a Examples,
    validation: Option<(Feed<'a>, &'a Examples, Passes)>,
    classes: usize,
    gathered: Gathered,
}

impl<'a> ExampleLearner<'a> {
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

    pub fn into_net(self) -> Net<f32> {
        self.trainer.into_net()
    }
}

impl Learner for ExampleLearner<'_> {
    fn steps(&self) -> u64 {
        self.trainer.steps()
    }

    fn step(&mut self, samples: &[usize], epoch: u32) -> NetResult<Step> {
        let targets = self.gathered.of(&self.examples.targets, samples);
        let fill = |slot: &mut [f32]| self.feed.fill_training(samples, epoch, slot);
        self.trainer.step(samples.len(), targets, None, fill)
    }

    fn judge(&mut self) -> Result<Option<Judged>> {
        let Some((feed, examples, passes)) = &mut self.validation else { return Ok(None) };
        let net = self.trainer.net();
        let outputs = passes.outputs(net, feed, None)?;
        let loss = self.trainer.settings().loss;
        let found = measures(&outputs, net.outputs(), &examples.targets, loss, self.classes)?;
        Ok(Some(found.judged()))
    }

    fn learnt(&self) -> Vec<(String, &[f32])> {
        lists(self.trainer.net())
    }

    fn kept(&self) -> Vec<(String, &[f32])> {
        let state = self.trainer.optimiser().state();
        state.into_iter().map(|(name, values)| (name.to_owned(), values)).collect()
    }

    fn resume(&mut self, state: TensorMap, steps: u64) -> NetResult<()> {
        resume(&mut self.trainer, state, steps)
    }

    fn restore(&mut self, learnt: &TensorMap) -> bool {
        restore(self.trainer.net_mut(), learnt)
    }
}

/// What is learnt in a network.
pub(super) fn lists(net: &Net<f32>) -> Vec<(String, &[f32])> {
    vec![(PARAMETERS.into(), &net.params), (BUFFERS.into(), &net.buffers)]
}

/// Goes on from the lists of a network and of its optimiser.
pub(super) fn resume(
    trainer: &mut Trainer<f32>,
    mut state: TensorMap,
    steps: u64,
) -> NetResult<()> {
    let mut take = |name: &str| state.remove(name).map(|(_, values)| values);
    let missing = || NetError::Setting("it has no parameters".into());
    let params = take(PARAMETERS).ok_or_else(missing)?;
    let buffers = take(BUFFERS).unwrap_or_default();
    let kept: Vec<(String, Vec<f32>)> =
        state.into_iter().map(|(name, (_, values))| (name, values)).collect();
    trainer.resume(&params, &buffers, &kept, steps)
}

/// Puts back what was learnt in a network; `false` if it is of another one.
pub(super) fn restore(net: &mut Net<f32>, learnt: &TensorMap) -> bool {
    [(PARAMETERS, &mut net.params), (BUFFERS, &mut net.buffers)].into_iter().all(
        |(name, values)| match learnt.get(name) {
            Some((_, kept)) if kept.len() == values.len() => {
                values.copy_from_slice(kept);
                true
            }
            None => values.is_empty(),
            _ => false,
        },
    )
}
