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
//! auto             ce for at most 10^10 pairs of a position and an item in an epoch and 4 GiB, otherwise sampled-softmax
//!
//! One table E holds input and output embeddings. Its gradient is row-sparse (`ce`: dense), its Adam lazy: rows that
//! are not in a mini-batch do not change.

use veridical_core::Seed;
use veridical_core::{choices, settings};
use veridical_nets::ranking::{
    FullSoftmax, Pairwise, Positions, SampledSoftmax, full_softmax, full_softmax_bytes, gbce_beta,
    sampled_softmax,
};
use veridical_nets::{Addend, EmbeddingTable, Mode, OptimizerKind, OptimizerSettings};

use crate::method::Preset;
use crate::sequential::{
    Architecture, Batch, Batches, Course, Learner, Negatives, Stepper, Tower, USER_NET,
};
use crate::sse::Moves;
use crate::{Embedding, Error, Graphs, Input, Result, Trainer, Transition, sgd};

settings! {
    /// Settings of `sasrec`.
    pub struct Settings {
        /// Embedding dimension
        pub dim: usize = 64,
        /// Maximum history length; longer histories keep their last items
        pub length: usize = 50,
        /// Number of attention blocks
        pub blocks: usize = 2,
        /// Attention heads per block; a divisor of dim
        pub heads: usize = 1,
        /// Loss: ce, sampled-softmax, gbce, bce or auto: ce unless the catalog is too large, then sampled-softmax
        pub loss: SasrecLoss = SasrecLoss::Auto,
        /// Negative items per position (bce, gbce) or per batch (sampled-softmax)
        pub negatives: Option<usize> = None => [otherwise("1 for bce, 64 for gbce, 256 for sampled-softmax")],
        /// Calibration of gbce, from 0 (none) to 1
        pub calibration: f64 = 0.75 => [detail()],
        /// Negatives are drawn in proportion to count to this power; 0 is uniform
        pub power: f64 = 0.0 => [detail()],
        /// Batch size, in users
        pub batch: usize = 32,
        /// Maximum number of epochs
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
        /// `Ce` unless the catalog is too large, then `SampledSoftmax`.
        Auto = "auto",
    }
}

/// The paper's settings: one uniform negative, every epoch, the last one kept.
pub(crate) const PUBLISHED: Preset = Preset {
    name: "sasrec-2018",
    settings: r#"{ "dim": 50, "length": 200, "blocks": 2, "heads": 1, "loss": "bce", "negatives": 1, "power": 0.0, "batch": 128,
        "epochs": 200, "lr": 0.001, "weight-decay": 0.0, "dropout": 0.2, "validation": 0.0, "patience": 0 }"#,
};

/// The most pairs of a position and an item in an epoch for which `auto` compares all of them.
const MOST_PAIRS: u64 = 10_000_000_000;
/// The most memory for which it does.
const MOST_MEMORY: u64 = 4 << 30;
/// Shared negatives of `sampled-softmax`, and own ones of `gbce`.
const SHARED: usize = 256;
const OWN: usize = 64;

impl Settings {
    /// Returns the settings with a loss that is not `auto`, and with its number of negatives.
    ///
    /// # Errors
    /// Data without interactions.
    pub fn resolved(&self, input: Input<'_>) -> Result<Self> {
        let mut settings = self.clone();
        let (data, _) = input.interactions()?;
        if self.loss == SasrecLoss::Auto {
            let size = Size::of(self, input)?;
            let all = Self { loss: SasrecLoss::Ce, ..self.clone() };
            let is_small = size.pairs() <= MOST_PAIRS && size.bytes(&all) <= MOST_MEMORY;
            settings.loss = if is_small { SasrecLoss::Ce } else { SasrecLoss::SampledSoftmax };
        }
        let below_all = |k: usize| k.min(data.items.len().saturating_sub(1)).max(1);
        settings.negatives = settings.negatives.or(match settings.loss {
            SasrecLoss::Bce => Some(1),
            SasrecLoss::Gbce => Some(below_all(OWN)),
            SasrecLoss::SampledSoftmax => Some(below_all(SHARED)),
            SasrecLoss::Ce | SasrecLoss::Auto => None,
        });
        Ok(settings)
    }

    /// Refuses a training that needs more than the available memory, in bytes.
    ///
    /// # Errors
    /// Says what is needed, and which loss needs less.
    pub fn check_memory(&self, input: Input<'_>, available: u64) -> Result<()> {
        Size::of(self, input)?.check(&self.resolved(input)?, available)
    }

    fn negatives(&self) -> usize {
        self.negatives.unwrap_or(0)
    }
}

/// What time and memory depend on.
#[derive(Clone, Copy, Debug)]
struct Size {
    items: u64,
    /// Positions in an epoch.
    positions: u64,
    /// The most positions in a batch.
    batch: u64,
}

impl Size {
    fn of(settings: &Settings, input: Input<'_>) -> Result<Self> {
        let (data, rows) = input.interactions()?;
        let sequences = data.sequences(rows);
        let (mut positions, mut longest) = (0, 0);
        for list in sequences.iter() {
            let len = list.len().saturating_sub(1).min(settings.length) as u64;
            positions += len;
            longest = longest.max(len);
        }
        let users = (settings.batch as u64).min(sequences.len() as u64);
        Ok(Self { items: data.items.len() as u64, positions, batch: users * longest })
    }

    /// Pairs of a position and an item in an epoch.
    const fn pairs(self) -> u64 {
        self.positions.saturating_mul(self.items)
    }

    /// Bytes of the table with its Adam and the best epoch so far, and of the gradient of the loss.
    fn bytes(self, settings: &Settings) -> u64 {
        let Self { items, batch, .. } = self;
        let dim = settings.dim as u64;
        let rows = |n: u64| n.saturating_mul(dim).saturating_mul(4);
        let drawn = |k: usize| batch.saturating_mul(k as u64 + 2);
        let loss = match settings.loss {
            SasrecLoss::Ce | SasrecLoss::Auto => {
                rows(items).saturating_add(full_softmax_bytes(items, dim))
            }
            // A negative and its addend are 20 bytes.
            SasrecLoss::Bce | SasrecLoss::Gbce => {
                let drawn = drawn(settings.negatives());
                drawn.saturating_mul(20).saturating_add(rows(drawn.min(items)))
            }
            // A score per position and negative.
            SasrecLoss::SampledSoftmax => {
                let touched = drawn(0).saturating_add(settings.negatives() as u64);
                drawn(settings.negatives())
                    .saturating_mul(4)
                    .saturating_add(rows(touched.min(items)))
            }
        };
        rows(items).saturating_mul(4).saturating_add(loss)
    }

    fn check(self, settings: &Settings, available: u64) -> Result<()> {
        let needed = self.bytes(settings);
        if needed <= available {
            return Ok(());
        }
        let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64);
        let (loss, items) = (settings.loss.name(), self.items);
        let what = format!(
            "⟨loss⟩ {loss} needs {} of memory for {items} items of ⟨dim⟩ {}, and there are {}",
            gib(needed),
            settings.dim,
            gib(available)
        );
        let fewer = Settings {
            loss: SasrecLoss::SampledSoftmax,
            negatives: Some(SHARED),
            ..settings.clone()
        };
        let hint = match self.bytes(&fewer) {
            bytes if bytes <= available => {
                format!("use ⟨loss⟩ sampled-softmax, which needs {}", gib(bytes))
            }
            _ => "lower ⟨dim⟩, ⟨batch⟩ or ⟨length⟩".to_owned(),
        };
        Err(Error::unfit(format!("{what}; {hint}")))
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
    let settings = &settings.resolved(input)?;
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
        SasrecLoss::Bce | SasrecLoss::Gbce => Negatives::Own(settings.negatives()),
        SasrecLoss::SampledSoftmax => Negatives::Shared(settings.negatives()),
        SasrecLoss::Ce | SasrecLoss::Auto => Negatives::Shared(0),
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
    let Settings { dim, length, blocks, heads, batch, .. } = *settings;
    let negatives = settings.negatives();
    sgd::check(dim, settings.lr, settings.weight_decay, settings.dropout)?;
    let at_least_1 = [("length", length), ("blocks", blocks), ("heads", heads), ("batch", batch)];
    if let Some((name, got)) = at_least_1.into_iter().find(|(_, x)| *x == 0) {
        return Err(Error::setting(name, "at least 1", got));
    }
    if !dim.is_multiple_of(heads) {
        return Err(Error::setting("heads", format!("a divisor of ⟨dim⟩ {dim}"), heads));
    }
    let has_negatives = settings.loss != SasrecLoss::Ce;
    if settings.negatives == Some(0) || has_negatives && (negatives == 0 || negatives >= n_items) {
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
    let k = settings.negatives() as f64;
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
                        gbce_beta(settings.negatives(), table.len(), settings.calibration)
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
            SasrecLoss::Ce | SasrecLoss::Auto => {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ce(dim: usize) -> Settings {
        Settings { loss: SasrecLoss::Ce, dim, ..Settings::default() }
    }

    #[test]
    fn a_catalog_too_large_for_the_loss_is_refused_with_the_loss_to_use() {
        let size = Size { items: 10_000_000, positions: 1, batch: 128 };
        let needed = size.bytes(&ce(64));
        assert!(size.check(&ce(64), needed).is_ok());
        let message = size.check(&ce(64), needed - 1).unwrap_err().to_string();
        assert!(message.starts_with("⟨loss⟩ ce needs 12."), "{message}");
        assert!(message.contains("for 10000000 items of ⟨dim⟩ 64, and there are 12."), "{message}");
        assert!(message.contains("use ⟨loss⟩ sampled-softmax, which needs 9."), "{message}");
        let message = size.check(&ce(64), 1 << 30).unwrap_err().to_string();
        assert!(message.contains("lower ⟨dim⟩"), "{message}");
        // No width overflows.
        assert!(size.check(&ce(usize::MAX), u64::MAX - 1).is_err());
    }
}
