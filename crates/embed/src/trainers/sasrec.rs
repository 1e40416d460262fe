//! SASRec: self-attention over each user's sequence (Kang & McAuley 2018), with SSE on inputs and targets (paper 001,
//! section 4.2, Table 4).
//!
//! h_t = f(E_i1, .., E_it) of the items i1, .., it,  s_ti = <h_t, E_i>,  f: positions, blocks of causal attention, norms
//! (`veridical_nets::models`)
//!
//! bce              - ln sigma(s_y) - sum of k negatives ln(1 - sigma(s_j))           the paper's, k = 1
//! gbce             the same with the target's term weighted against overconfidence     (Petrov & Macdonald 2023)
//! sampled-softmax  the target against negatives that the batch shares, corrected for the sampling distribution
//! ce               the target against all items
//!
//! One table E holds input and output embeddings. Its gradient is row-sparse (`ce`: dense), its Adam lazy: rows that
//! are not in a mini-batch do not change.

use veridical_core::Seed;
use veridical_core::{choices, settings};
use veridical_nets::ranking::{
    FullSoftmax, Pairwise, Positions, SampledSoftmax, full_softmax, gbce_beta, sampled_softmax,
};
use veridical_nets::{Addend, EmbeddingTable, Mode, OptimizerKind, OptimizerSettings};

use crate::sequential::{
    Architecture, Batch, Batches, Course, Learner, Negatives, Stepper, Tower, USER_NET,
};
use crate::sse::Moves;
use crate::{Embedding, Error, Graphs, Input, Result, Trainer, Transition, sgd};

settings! {
    /// Settings of `sasrec`.
    pub struct Settings {
        /// Embedding dimension
        pub dim: usize = 50,
        /// Maximum history length; longer histories keep their last items
        pub length: usize = 200,
        /// Number of attention blocks
        pub blocks: usize = 2,
        /// Attention heads per block; a divisor of dim
        pub heads: usize = 1,
        /// Loss: bce, gbce, sampled-softmax, ce
        pub loss: SasrecLoss = SasrecLoss::Bce,
        /// Negative items per position (bce, gbce) or per batch (sampled-softmax)
        pub negatives: usize = 1,
        /// Calibration of gbce, from 0 (none) to 1
        pub calibration: f64 = 0.75 => [detail()],
        /// Negatives are drawn in proportion to count to this power; 0 is uniform
        pub power: f64 = 0.0 => [detail()],
        /// Batch size, in users
        pub batch: usize = 128,
        /// Number of epochs
        pub epochs: u32 = 200,
        /// Learning rate of Adam
        pub lr: f64 = 0.001,
        /// L2 penalty on the weights and on the rows used by a step
        pub weight_decay: f64 = 0.0,
        /// Dropout probability
        pub dropout: f64 = 0.2,
        /// SSE: probability that an input item is replaced
        pub sse_input: f64 = 0.0,
        /// SSE: probability that a target item is replaced
        pub sse_target: f64 = 0.0,
        /// SSE-Graph: how much more likely a neighbor is than another item
        pub rho_input: f64 = 100.0 => [detail()],
        /// SSE-Graph: how much more likely a neighbor is than another target item
        pub rho_target: f64 = 100.0 => [detail()],
    }
}

choices! {
    /// The training loss.
    pub enum SasrecLoss {
        /// Binary cross-entropy of the target and of negatives.
        Bce = "bce",
        /// Binary cross-entropy, calibrated against overconfidence.
        Gbce = "gbce",
        /// Softmax over the target and shared negatives.
        SampledSoftmax = "sampled-softmax",
        /// Softmax over all items.
        Ce = "ce",
    }
}

/// Makes a trainer that has not run an epoch yet.
///
/// # Errors
/// Settings out of range, and data without sequences.
pub fn trainer<'a>(
    settings: &Settings,
    input: Input<'a>,
    graphs: &'a Graphs,
    seed: Seed,
) -> Result<Box<dyn Trainer + 'a>> {
    let (data, rows) = input.interactions()?;
    let n_items = data.items.len();
    check(settings, n_items)?;
    let Settings { dim, length, blocks, heads, .. } = *settings;
    let graph = graphs.item.as_ref();
    let transition = |name, p, rho| Transition::new(name, n_items, p, rho, graph);
    let sse = Moves::new(
        seed,
        [
            transition("input", settings.sse_input, settings.rho_input)?,
            transition("target", settings.sse_target, settings.rho_target)?,
        ],
    );
    let negatives = match settings.loss {
        SasrecLoss::Bce | SasrecLoss::Gbce => Negatives::Own(settings.negatives),
        SasrecLoss::SampledSoftmax => Negatives::Shared(settings.negatives),
        SasrecLoss::Ce => Negatives::Shared(0),
    };
    let mut batches = Batches::new(data, rows, length, settings.batch, negatives, sse, seed)?;
    if settings.power > 0.0 {
        batches = batches.by_popularity(settings.power);
    }
    let architecture = Architecture::Sasrec { length, blocks, heads };
    let net = architecture.user_net(dim, settings.dropout, seed)?;
    let sd = (2.0 / (n_items + dim) as f64).sqrt(); // Glorot & Bengio 2010, as in SASRec.pytorch
    let first = Embedding::normal(n_items, dim, sd, seed, "sasrec/item");
    let adam = OptimizerSettings {
        beta2: BETA2,
        weight_decay: Some(settings.weight_decay),
        ..OptimizerSettings::of(OptimizerKind::Adam)
    };
    let Settings { epochs, lr, .. } = *settings;
    let stepper = Sasrec {
        tower: Tower::new(USER_NET, net, batches.most_positions(), &adam, true),
        table: EmbeddingTable::new(dim, first.into_values(), &adam)?,
        corrections: corrections(settings, &batches),
        loss: Scratch::default(),
        settings: settings.clone(),
    };
    let course = Course { epochs, lr, settling: None };
    Ok(Box::new(Learner::new(architecture, batches, course, stepper)))
}

/// As in the authors' code.
const BETA2: f64 = 0.98;

fn check(settings: &Settings, n_items: usize) -> Result<()> {
    let Settings { dim, length, blocks, heads, negatives, batch, .. } = *settings;
    sgd::check(dim, settings.lr, settings.weight_decay, settings.dropout)?;
    let at_least_1 = [("length", length), ("blocks", blocks), ("heads", heads), ("batch", batch)];
    if let Some((name, got)) = at_least_1.into_iter().find(|(_, x)| *x == 0) {
        return Err(Error::setting(name, "at least 1", got));
    }
    if !dim.is_multiple_of(heads) {
        return Err(Error::setting("heads", format!("a divisor of ⟨dim⟩ {dim}"), heads));
    }
    if settings.loss != SasrecLoss::Ce && (negatives == 0 || negatives >= n_items) {
        let must_be = format!("at least 1 and below the number of items, {n_items}");
        return Err(Error::setting("negatives", must_be, negatives));
    }
    if !(0.0..=1.0).contains(&settings.calibration) {
        return Err(Error::setting("calibration", "from 0 to 1", settings.calibration));
    }
    if !(settings.power >= 0.0 && settings.power.is_finite()) {
        return Err(Error::setting("power", "0 or above", settings.power));
    }
    Ok(())
}

/// ln(k q_i) of every item, for the sampled softmax.
fn corrections(settings: &Settings, batches: &Batches<'_>) -> Vec<f64> {
    if settings.loss != SasrecLoss::SampledSoftmax {
        return Vec::new();
    }
    let weights: Vec<f64> =
        batches.counts().iter().map(|&n| f64::from(n).powf(settings.power)).collect();
    let total: f64 = weights.iter().sum();
    // An item that never occurs is never drawn: as an SSE target it counts like an item that occurs once.
    let least = weights.iter().copied().filter(|w| *w > 0.0).fold(f64::INFINITY, f64::min);
    let k = settings.negatives as f64;
    weights.iter().map(|w| (k * w.max(least) / total).ln()).collect()
}

struct Sasrec {
    settings: Settings,
    tower: Tower,
    table: EmbeddingTable<f32>,
    corrections: Vec<f64>,
    loss: Scratch,
}

/// Scratch memory of the losses, reused between steps.
#[derive(Default)]
struct Scratch {
    addends: Vec<Addend<f32>>,
    sampled: SampledSoftmax<f32>,
    full: FullSoftmax<f32>,
    whole: Vec<f32>,
}

/// The sources of the summed gradients: gradients at the input, outputs, gradients of shared negatives.
const AT_INPUT: u32 = 0;
const OUTPUTS: u32 = 1;

impl Stepper for Sasrec {
    fn step(&mut self, batch: &Batch, lr: f64) -> f64 {
        let Self { settings, tower, table, loss, .. } = self;
        let number = tower.number();
        tower.net.forward_sequences(
            &mut tower.work,
            &batch.starts,
            Mode::Training,
            number,
            |rows| table.gather(&batch.inputs, rows),
        );
        let (hidden, dhidden) = tower.work.output_gradient(&tower.net);
        let (dim, targets) = (table.dim(), &*batch.targets);
        let positions = Positions { dim, hidden, table: table.values(), targets };
        let Scratch { addends, sampled, full, whole } = loss;
        addends.clear();
        let value = match settings.loss {
            SasrecLoss::Bce | SasrecLoss::Gbce => {
                let beta = match settings.loss {
                    SasrecLoss::Gbce => {
                        gbce_beta(settings.negatives, table.len(), settings.calibration)
                    }
                    _ => 1.0,
                };
                let bce = Pairwise::Binary { beta };
                bce.evaluate(positions, &batch.negatives, dhidden, addends, OUTPUTS)
            }
            SasrecLoss::SampledSoftmax => {
                let correction = |id: u32| self.corrections[id as usize];
                let drawn = &*batch.negatives;
                sampled_softmax(sampled, positions, drawn, correction, dhidden, addends, OUTPUTS)
            }
            SasrecLoss::Ce => {
                whole.resize(table.values().len(), 0.0);
                full_softmax(full, positions, dhidden, whole)
            }
        };
        if !value.is_finite() {
            return value;
        }
        tower.step(lr);
        let at_input = |(p, &row): (usize, &u32)| Addend {
            row,
            source: AT_INPUT,
            from: p as u32,
            weight: 1.0,
        };
        let read = tower.work.input_gradient(&tower.net);
        if settings.loss == SasrecLoss::Ce {
            for (row, g) in batch.inputs.iter().zip(read.chunks_exact(dim)) {
                let sum = &mut whole[*row as usize * dim..][..dim];
                sum.iter_mut().zip(g).for_each(|(s, g)| *s += g);
            }
            table.step_all(lr, whole);
        } else {
            addends.extend(batch.inputs.iter().enumerate().map(at_input));
            let sources = [read, tower.work.outputs(&tower.net), &sampled.gradient];
            table.step(lr, addends, &sources);
        }
        value
    }

    fn parts(&self) -> (Vec<&Tower>, &EmbeddingTable<f32>) {
        (vec![&self.tower], &self.table)
    }

    fn parts_mut(&mut self) -> (Vec<&mut Tower>, &mut EmbeddingTable<f32>) {
        (vec![&mut self.tower], &mut self.table)
    }
}
