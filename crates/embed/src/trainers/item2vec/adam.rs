//! item2vec with Adam (Kingma & Ba 2015) in place of word2vec's SGD.
//!
//! A step takes up to 256 positions and follows the gradient of their mean loss per input, at the tables before the
//! step. Only rows that occur in it move, with their moments (`veridical_nets::EmbeddingTable`). As in the word2vec
//! code, the gradient at the mean of CBOW goes to every one of its items.

use std::cell::OnceCell;
use std::ops::Range;

use pulp::{Scalar, Simd, WithSimd};
use veridical_core::Progress;
use veridical_core::stopping::EarlyStopping;
use veridical_data::TensorMap;
use veridical_nets::{Addend, EmbeddingTable, OptimizerKind, OptimizerSettings};

use super::{Settings, Source};
use crate::sequential::{load_optimizer, save_optimizer};
use crate::sgd::{Desk, LossSum, Position};
use crate::sse::Mover;
use crate::{Embedding, Error, Model, Result, Trainer, finite};

/// Positions of a step.
const POSITIONS: usize = 256;
/// Prefixes of the optimizer state of both tables.
const NAMES: [&str; 2] = ["item.", "context."];

pub(super) struct Adam<'a> {
    source: Source<'a>,
    /// Inputs and targets.
    tables: [EmbeddingTable<f32>; 2],
    /// The model so far, built on request.
    model: OnceCell<Model>,
}

impl<'a> Adam<'a> {
    pub fn new(source: Source<'a>, [item, context]: [Embedding; 2]) -> Result<Self> {
        let Settings { dim, weight_decay, .. } = source.settings;
        let adam = OptimizerSettings {
            weight_decay: Some(weight_decay),
            ..OptimizerSettings::of(OptimizerKind::Adam)
        };
        let table = |first: Embedding| EmbeddingTable::new(dim, first.into_values(), &adam);
        let tables = [table(item)?, table(context)?];
        Ok(Self { source, tables, model: OnceCell::new() })
    }

    fn snapshot(&self) -> Model {
        let mut state = TensorMap::default();
        for (table, name) in self.tables.iter().zip(NAMES) {
            save_optimizer(table.optimizer(), name, &mut state);
        }
        let [item, context] = self.tables.each_ref().map(rows);
        Model::Items { item, context: Some(context), state }
    }
}

fn rows(table: &EmbeddingTable<f32>) -> Embedding {
    Embedding::new(table.dim(), table.values().to_vec())
}

impl Trainer for Adam<'_> {
    fn samples(&self) -> u64 {
        self.source.pieces.len()
    }

    fn epochs(&self) -> u32 {
        self.source.settings.epochs
    }

    fn settling(&self) -> Option<EarlyStopping> {
        self.source.settling()
    }

    fn epoch(&mut self, epoch: u32, progress: &Progress) -> Result<Option<f64>> {
        self.model.take(); // the cached model is outdated
        let Self { source, tables, .. } = self;
        let (plan, walk) = (source.plan(epoch), source.walk(epoch, ()));
        let size = source.pieces.block_size();
        let (mut batch, mut kept) = (Batch::new(source.settings.dim), Vec::new());
        for from in (0..plan.samples).step_by(size as usize) {
            let samples = from..(from + size).min(plan.samples);
            let (n, rate) = (samples.end - from, plan.rate(from));
            walk.positions(samples, rate as f32, &mut kept, |movers, here| {
                batch.add(source, tables, movers, here);
                if batch.positions == POSITIONS {
                    batch.step(tables, rate);
                }
            });
            batch.step(tables, rate);
            progress.advance(n);
            finite(batch.loss.sum, epoch, rate)?;
            progress.check()?;
        }
        finite(batch.loss.mean(), epoch, plan.rate(0)).map(Some)
    }

    fn model(&self) -> &Model {
        self.model.get_or_init(|| self.snapshot())
    }

    fn restore(&mut self, model: Model) -> Result<()> {
        self.model().check_replacement(&model)?;
        let Model::Items { item, context: Some(context), state } = &model else {
            return Err(Error::shape("the checkpoint is from another method"));
        };
        for ((table, name), rows) in self.tables.iter_mut().zip(NAMES).zip([item, context]) {
            load_optimizer(state, name, |steps, kept| table.resume(rows.values(), steps, kept))?;
        }
        self.model = OnceCell::from(model);
        Ok(())
    }

    fn into_model(mut self: Box<Self>) -> Model {
        let model = self.model.take().unwrap_or_else(|| self.snapshot());
        self.source.result(model)
    }
}

/// The gradient of some positions.
struct Batch {
    desk: Desk,
    near: Vec<u32>,
    targets: Vec<u32>,
    mask: Vec<f32>,
    positions: usize,
    /// Every input that predicted, or mean of inputs, and minus the gradient at it.
    inputs: Vec<f32>,
    errors: Vec<f32>,
    /// Minus the gradients of both tables.
    addends: [Vec<Addend<f32>>; 2],
    /// Of an input, over all positions.
    loss: LossSum,
}

impl Batch {
    fn new(dim: usize) -> Self {
        Self {
            desk: Desk::new(dim),
            near: Vec::new(),
            targets: Vec::new(),
            mask: vec![1.0; dim],
            positions: 0,
            inputs: Vec::new(),
            errors: Vec::new(),
            addends: Default::default(),
            loss: LossSum::default(),
        }
    }

    /// Adds the gradient of a position.
    fn add(
        &mut self,
        source: &Source<'_>,
        [items, contexts]: &[EmbeddingTable<f32>; 2],
        [move_input, move_target]: &mut [Mover<'_>; 2],
        mut here: Position<'_>,
    ) {
        let Settings { cbow, window, negatives, .. } = source.settings;
        self.near.clear();
        self.near.extend(here.neighbors(window).map(|near| move_input.draw(near)));
        if self.near.is_empty() {
            return;
        }
        if let Some(dropout) = source.dropout {
            dropout.fill(&mut self.mask, &mut here.draws);
        }
        self.targets.clear();
        self.targets.push(move_target.draw(here.token));
        source.noise.targets(here.token, negatives, &mut here.draws, &mut self.targets);
        self.positions += 1;
        let group = if cbow { self.near.len() } else { 1 };
        for at in (0..self.near.len()).step_by(group) {
            self.predict(at..at + group, items, contexts);
        }
    }

    /// Some of the items near a position, or their mean, predict the targets.
    fn predict(
        &mut self,
        near: Range<usize>,
        items: &EmbeddingTable<f32>,
        contexts: &EmbeddingTable<f32>,
    ) {
        let Self { desk, mask, .. } = self;
        let near = &self.near[near];
        desk.clear();
        near.iter().for_each(|&item| desk.sum_input(Scalar::new(), items.row(item)));
        if near.len() > 1 {
            desk.scale_inputs(1.0 / near.len() as f32);
        }
        desk.mask(mask);
        desk.targets.extend_from_slice(&self.targets);
        let from = (self.inputs.len() / items.dim()) as u32;
        self.inputs.extend_from_slice(desk.input());
        let errors = &mut self.errors;
        self.loss.add(pulp::Arch::new().dispatch(Look { desk, contexts, errors }));
        let addend = |row, weight| Addend { row, source: 0, from, weight };
        let [of_items, of_contexts] = &mut self.addends;
        of_items.extend(near.iter().map(|&item| addend(item, 1.0)));
        of_contexts.extend(self.targets.iter().zip(desk.gains()).map(|(&t, &g)| addend(t, g)));
    }

    /// Takes the step of the positions that were added, if any.
    fn step(&mut self, [items, contexts]: &mut [EmbeddingTable<f32>; 2], rate: f64) {
        if self.positions == 0 {
            return;
        }
        let [of_items, of_contexts] = &mut self.addends;
        let scale = -1.0 / (self.inputs.len() / items.dim()) as f32;
        of_items.iter_mut().chain(&mut *of_contexts).for_each(|addend| addend.weight *= scale);
        items.step(rate, of_items, &[&self.errors]);
        contexts.step(rate, of_contexts, &[&self.inputs]);
        of_items.clear();
        of_contexts.clear();
        self.inputs.clear();
        self.errors.clear();
        self.positions = 0;
    }
}

/// The loss of an input; minus the gradient at it is added to `errors`.
struct Look<'a> {
    desk: &'a mut Desk,
    contexts: &'a EmbeddingTable<f32>,
    errors: &'a mut Vec<f32>,
}

impl WithSimd for Look<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let Self { desk, contexts, errors } = self;
        desk.look(simd, |target| contexts.row(target), 1.0);
        let loss = desk.step(simd, 0, true);
        errors.extend_from_slice(desk.error(simd, 0));
        loss
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two inputs at three targets, then the mean of two: with plain SGD the step of every value is minus the learning
    /// rate times the gradient of the mean loss by central differences (accurate to 1e-8; the f32 step to 1e-7 over the
    /// learning rate 0.1). The gradient at a mean goes to both of its items, so theirs is twice the derivative.
    #[test]
    fn a_step_follows_the_gradient_of_the_mean_loss() {
        let start: [f64; 10] = [0.5, -0.25, 0.9, -0.6, 0.3, -0.4, 0.7, 0.2, -0.1, 0.8];
        let (items, contexts) = ([0usize, 2], [4usize, 6, 8]);
        for group in [1, 2] {
            let loss = |x: &[f64; 10]| -> f64 {
                let softplus = |x: f64| x.exp().ln_1p();
                let input = |at: usize, k: usize| match group {
                    1 => x[items[at] + k],
                    _ => (x[items[0] + k] + x[items[1] + k]) / 2.0,
                };
                let score = |at, t: usize| input(at, 0) * x[t] + input(at, 1) * x[t + 1];
                let of = |at| {
                    softplus(-score(at, contexts[0]))
                        + softplus(score(at, contexts[1]))
                        + softplus(score(at, contexts[2]))
                };
                if group == 1 { (of(0) + of(1)) / 2.0 } else { of(0) }
            };
            let first = start.map(|x| x as f32);
            let sgd = OptimizerSettings::of(OptimizerKind::Sgd);
            let table = |x: &[f32]| EmbeddingTable::new(2, x.to_vec(), &sgd).unwrap();
            let mut tables = [table(&first[..4]), table(&first[4..])];
            let mut batch = Batch::new(2);
            batch.near.extend([0, 1]);
            batch.targets.extend([0, 1, 2]);
            batch.positions = 1;
            for at in (0..2).step_by(group) {
                batch.predict(at..at + group, &tables[0], &tables[1]);
            }
            assert!((batch.loss.mean() - loss(&start)).abs() < 1e-6);
            batch.step(&mut tables, 0.1);
            let moved = [tables[0].values(), tables[1].values()].concat();
            for k in 0..10 {
                let shifted = |h: f64| {
                    let mut x = start;
                    x[k] += h;
                    loss(&x)
                };
                let derivative = (shifted(1e-4) - shifted(-1e-4)) / 2e-4;
                let want = if k < 4 { group as f64 * derivative } else { derivative };
                let got = (f64::from(moved[k]) - start[k]) / -0.1;
                assert!((got - want).abs() < 1e-5, "{group}, coordinate {k}: {got} {want}");
            }
        }
    }
}
