//! Two towers (paper 000, F.2, Figure A.2; similar to GRU4Rec): a GRU reads the history, and a small network maps the
//! vector of an item.
//!
//! u_t = B_2 sigma(B_1 GRU(x_1, .., x_t)),  v_i = A_2 sigma(A_1 x_i),  s_ti = <u_t, v_i>
//!
//! with x_i a row of a vector table: pretrained, and fixed unless `train-vectors` is set, or learned. Every position of a
//! history predicts the next item against k negatives:
//!
//! bce   - ln sigma(s_y) - sum_j ln(1 - sigma(s_j))
//! bpr   - 1/k sum_j ln sigma(s_y - s_j)
//!
//! The paper uses hidden size 16, k = 3, Adam with learning rate 0.001 and weight decay 1e-4, and stops when the loss
//! improves by less than 1e-4 in three consecutive epochs; the defaults here are those of `experiments/defaults`. Its figure has one dense layer with a sigmoid on each side; inner
//! products of values between 0 and 1 are never negative, so a linear layer follows here.

use veridical_core::Seed;
use veridical_core::stopping::{Against, Better, EarlyStopping};
use veridical_core::{choices, settings};
use veridical_nets::ranking::{Pairwise, Positions};
use veridical_nets::{Addend, EmbeddingTable, Mode, OptimizerKind, OptimizerSettings, RowGradient};

use crate::sequential::{
    Architecture, Batch, Batches, Course, ITEM_NET, Learner, Negatives, Stepper, Tower, USER_NET,
};
use crate::sse::Moves;
use crate::{Embedding, Error, Graphs, Input, Result, Trainer, Transition, sgd};

settings! {
    /// Settings of `two-tower`.
    pub struct Settings {
        /// Embedding dimension, without --item-vectors
        pub dim: usize = 64,
        /// Hidden size of the GRU and of the dense layers
        pub hidden: usize = 64,
        /// Train the given --item-vectors too
        pub train_vectors: bool = false,
        /// Maximum history length; longer histories keep their last items
        pub length: usize = 50,
        /// Loss: bce, bpr
        pub loss: TwoTowerLoss = TwoTowerLoss::Bce,
        /// Negative items per position
        pub negatives: Option<usize> = None => [otherwise("32, or all other items of a smaller catalog")],
        /// Batch size, in users
        pub batch: usize = 32,
        /// Maximum number of epochs
        pub epochs: u32 = 100,
        /// Learning rate of Adam
        pub lr: f64 = 0.003,
        /// L2 penalty on the weights and on the rows used by a step
        pub weight_decay: f64 = 0.0,
        /// Stop when the loss improves by less than this in --settle-epochs consecutive epochs; 0 disables the rule
        pub settle: f64 = 0.0001 => [detail()],
        /// Consecutive epochs of the rule --settle
        pub settle_epochs: u32 = 3 => [detail()],
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
    pub enum TwoTowerLoss {
        /// Binary cross-entropy of the target and of negatives.
        Bce = "bce",
        /// Bayesian personalized ranking of the target against negatives.
        Bpr = "bpr",
    }
}

/// Negatives of a position.
const NEGATIVES: usize = 32;

impl Settings {
    /// Returns the settings with a number of negatives.
    ///
    /// # Errors
    /// Data without interactions.
    pub(crate) fn resolved(&self, input: Input<'_>) -> Result<Self> {
        let (data, _) = input.interactions()?;
        let usual = NEGATIVES.min(data.items.len().saturating_sub(1)).max(1);
        Ok(Self { negatives: self.negatives.or(Some(usual)), ..self.clone() })
    }

    fn negatives(&self) -> usize {
        self.negatives.unwrap_or(NEGATIVES)
    }
}

/// Makes a trainer that has not run an epoch yet.
///
/// # Errors
/// Settings out of range, item vectors that do not match the items, and data without sequences.
pub fn trainer<'a>(
    settings: &Settings,
    input: Input<'a>,
    graphs: &'a Graphs,
    seed: Seed,
) -> Result<Box<dyn Trainer + 'a>> {
    let settings = &settings.resolved(input)?;
    let given = input.item_vectors();
    let (data, rows) = input.interactions()?;
    let n_items = data.items.len();
    let dim = given.map_or(settings.dim, Embedding::dim);
    check(settings, dim, n_items)?;
    let Settings { length, hidden, .. } = *settings;
    let graph = graphs.item.as_ref();
    let transition = |name, p, rho| Transition::new(name, n_items, p, rho, graph);
    let sse = Moves::new(
        seed,
        [
            transition("input", settings.sse_input, settings.rho_input)?,
            transition("target", settings.sse_target, settings.rho_target)?,
        ],
    );
    let negatives = Negatives::Own(settings.negatives());
    let batches = Batches::new(data, rows, length, settings.batch, negatives, sse, seed)?;
    let architecture = Architecture::TwoTower { length, hidden };
    let table = match given {
        Some(given) => given.clone(),
        None => Embedding::normal(n_items, dim, START, seed, "two-tower/item"),
    };
    let adam = OptimizerSettings {
        weight_decay: Some(settings.weight_decay),
        ..OptimizerSettings::of(OptimizerKind::Adam)
    };
    let moves = given.is_none() || settings.train_vectors;
    let positions = batches.most_positions();
    let items = (positions * (1 + settings.negatives())).min(n_items);
    let item_net = architecture.item_net(dim, seed)?;
    let Settings { epochs, lr, settle, settle_epochs, .. } = *settings;
    let stepper = TwoTower {
        user: Tower::new(USER_NET, architecture.user_net(dim, 0.0, seed)?, positions, &adam, moves),
        item: Tower::new(ITEM_NET, item_net, items, &adam, moves),
        table: EmbeddingTable::new(dim, table.into_values(), &adam)?,
        place: vec![0; n_items],
        scratch: Scratch::default(),
        settings: settings.clone(),
        moves,
    };
    let settling = (settle > 0.0).then_some(EarlyStopping {
        better: Better::Lower,
        against: Against::Previous,
        min_delta: settle,
        patience: settle_epochs,
    });
    let course = Course { epochs, lr, settling };
    Ok(Box::new(Learner::new(architecture, batches, course, stepper)))
}

/// Standard deviation of the initialization.
const START: f64 = 0.1;

fn check(settings: &Settings, dim: usize, n_items: usize) -> Result<()> {
    let Settings { length, hidden, batch, settle_epochs, .. } = *settings;
    let negatives = settings.negatives();
    sgd::check(dim, settings.lr, settings.weight_decay, 0.0)?;
    let at_least_1 = [
        ("length", length),
        ("hidden", hidden),
        ("batch", batch),
        ("settle-epochs", settle_epochs as usize),
    ];
    if let Some((name, got)) = at_least_1.into_iter().find(|(_, x)| *x == 0) {
        return Err(Error::setting(name, "at least 1", got));
    }
    if negatives == 0 || negatives >= n_items {
        let must_be = format!("at least 1 and below the number of items, {n_items}");
        return Err(Error::setting("negatives", must_be, negatives));
    }
    if !(settings.settle >= 0.0 && settings.settle.is_finite()) {
        return Err(Error::setting("settle", "0 or above", settings.settle));
    }
    Ok(())
}

struct TwoTower {
    settings: Settings,
    user: Tower,
    item: Tower,
    table: EmbeddingTable<f32>,
    /// Whether the table is trained.
    moves: bool,
    /// The position of each item among the items of the batch.
    place: Vec<u32>,
    scratch: Scratch,
}

/// Scratch memory, reused between steps.
#[derive(Default)]
struct Scratch {
    /// The targets and negatives of the batch, each once, ascending.
    items: Vec<u32>,
    targets: Vec<u32>,
    negatives: Vec<u32>,
    addends: Vec<Addend<f32>>,
    gradient: RowGradient<f32>,
}

impl Stepper for TwoTower {
    fn step(&mut self, batch: &Batch, lr: f64) -> f64 {
        let Self { settings, user, item, table, place, scratch, moves, .. } = self;
        let Scratch { items, targets, negatives, addends, gradient } = scratch;
        items.clear();
        items.extend(batch.targets.iter().chain(&batch.negatives));
        items.sort_unstable();
        items.dedup();
        for (at, &id) in items.iter().enumerate() {
            place[id as usize] = at as u32;
        }
        let renumber = |from: &[u32], to: &mut Vec<u32>| {
            to.clear();
            to.extend(from.iter().map(|&id| place[id as usize]));
        };
        renumber(&batch.targets, targets);
        renumber(&batch.negatives, negatives);

        let number = user.number();
        user.net.forward_sequences(&mut user.work, &batch.starts, Mode::Training, number, |rows| {
            table.gather(&batch.inputs, rows);
        });
        item.net.forward(&mut item.work, items.len(), Mode::Training, number, |rows| {
            table.gather(items, rows);
        });
        let (hidden, dhidden) = user.work.output_gradient(&user.net);
        let rows = item.work.outputs(&item.net);
        let positions = Positions { dim: settings.hidden, hidden, table: rows, targets };
        let loss = match settings.loss {
            TwoTowerLoss::Bce => Pairwise::Binary { beta: 1.0 },
            TwoTowerLoss::Bpr => Pairwise::Bpr,
        };
        let value = loss.evaluate(positions, negatives, dhidden, addends, 0);
        if !value.is_finite() {
            return value;
        }
        // Each item of the batch is a target or a negative, so every row of the sum exists.
        gradient.sum(settings.hidden, addends, &[hidden]);
        item.work.output_gradient(&item.net).1.copy_from_slice(&gradient.values);
        user.step(lr);
        item.step(lr);
        if *moves {
            let addend = |source: u32| {
                move |(p, &row): (usize, &u32)| Addend { row, source, from: p as u32, weight: 1.0 }
            };
            addends.clear();
            addends.extend(batch.inputs.iter().enumerate().map(addend(0)));
            addends.extend(items.iter().enumerate().map(addend(1)));
            let sources =
                [user.work.input_gradient(&user.net), item.work.input_gradient(&item.net)];
            table.step(lr, addends, &sources);
        }
        value
    }

    fn parts(&self) -> (Vec<&Tower>, &EmbeddingTable<f32>) {
        (vec![&self.user, &self.item], &self.table)
    }

    fn parts_mut(&mut self) -> (Vec<&mut Tower>, &mut EmbeddingTable<f32>) {
        (vec![&mut self.user, &mut self.item], &mut self.table)
    }
}
