//! item2vec: word2vec with negative sampling over each user's sequence of items (Mikolov et al. 2013; Barkan &
//! Koenigstein 2016; paper 000, F.2).
//!
//! skip-gram  the items within b of a position predict the item there, b uniform in 1 .. window
//! CBOW       their mean h predicts it; each of them is updated by the gradient at h, as in the word2vec code
//!
//! The loss and the step of a position are in `sgd/predict.rs`: its inputs share their negatives, which are
//! drawn by count^power. SSE replaces inputs (`item`) and the predicted item (`context`); negatives are
//! noise already. The reported loss is the mean loss of an input over every 16th position. `adam.rs` has the other
//! optimizer.

mod adam;

use pulp::Simd;
use veridical_core::Progress;
use veridical_core::Seed;
use veridical_core::stopping::{Against, Better, EarlyStopping};
use veridical_core::{choices, settings};
use veridical_data::{Lists, TensorMap};

use crate::model::table;
use crate::sgd::{self, Dropout, Noise, Pieces, Plan, Position, Rows, Scratch, Step, Walk, add};
use crate::sse::{Mover, Moves};
use crate::{Embedding, Error, Graphs, Input, Mode, Model, Result, Trainer, Transition};

settings! {
    /// Settings of `item2vec`.
    pub struct Settings {
        /// Embedding dimension
        pub dim: usize = 32,
        /// Maximum number of neighbors on each side
        pub window: usize = 5,
        /// Negative samples per positive sample
        pub negatives: usize = 5,
        /// Subsample items with a frequency above this; 0 keeps all
        pub subsample: f64 = 0.0,
        /// Negatives are drawn in proportion to count to this power
        pub power: f64 = 0.75 => [detail()],
        /// Number of epochs
        pub epochs: u32 = 30,
        /// sgd (position by position) or adam (mini-batches of 256)
        pub optimizer: Optimizer = Optimizer::Sgd,
        /// Initial learning rate; for adam about 0.001
        pub lr: f64 = 0.025,
        /// Learning-rate schedule: constant, linear (to a hundredth), inverse (lr / (1 + epoch)), exponential (lr 0.9^epoch)
        pub schedule: crate::Schedule = crate::Schedule::Linear,
        /// Stop when the loss improves by less than this in three consecutive epochs; 0 disables the rule
        pub settle: f64 = 0.0 => [detail()],
        /// L2 penalty on the rows used by a sample
        pub weight_decay: f64 = 0.0,
        /// Dropout probability of a coordinate in a sample
        pub dropout: f64 = 0.0,
        /// CBOW: predict an item from the mean of its neighbors
        pub cbow: bool = false,
        /// Vectors to keep: input, both (with the table `context`) or sum
        pub vectors: Vectors = Vectors::Input,
        /// SSE: probability that an input item is replaced
        pub sse_item: f64 = 0.0,
        /// SSE: probability that a target item is replaced
        pub sse_context: f64 = 0.0,
        /// SSE-Graph: how much more likely a neighbor is than another item
        pub rho_item: f64 = 100.0 => [detail()],
        /// SSE-Graph: how much more likely a neighbor is than another target item
        pub rho_context: f64 = 100.0 => [detail()],
        /// deterministic (same result for any number of threads) or hogwild (fastest, not reproducible)
        pub mode: Mode = Mode::Deterministic,
    }
}

/// Makes a trainer that has not run an epoch yet.
///
/// # Errors
/// Settings out of range, and data without neighbors.
pub fn trainer<'a>(
    settings: &Settings,
    input: Input<'a>,
    graphs: &'a Graphs,
    seed: Seed,
) -> Result<Box<dyn Trainer + 'a>> {
    let Settings { dim, window, negatives, .. } = *settings;
    sgd::check(dim, settings.lr, settings.weight_decay, settings.dropout)?;
    let (data, rows) = input.interactions()?;
    let n_items = data.items.len();
    sgd::check_walk(window, negatives, n_items, "items")?;
    if !(settings.settle >= 0.0 && settings.settle.is_finite()) {
        return Err(Error::setting("settle", "0 or above", settings.settle));
    }
    if settings.optimizer == Optimizer::Adam && settings.mode == Mode::Hogwild {
        let must_be = "deterministic if ⟨optimizer⟩ is adam";
        return Err(Error::setting("mode", must_be, settings.mode.name()));
    }
    let sequences = data.sequences(rows);
    if sequences.iter().all(|sequence| sequence.len() < 2) {
        let what = "no user has two or more items, so no item has a neighbor to learn from";
        return Err(Error::unfit(what));
    }
    let mut counts = vec![0; n_items];
    sequences.values().iter().for_each(|&i| counts[i as usize] += 1);
    let graph = graphs.item.as_ref();
    let transition = |name, p, rho| Transition::new(name, n_items, p, rho, graph);
    let source = Source {
        noise: Noise::new(&counts, settings.power, settings.subsample)?,
        sse: Moves::new(
            seed,
            [
                transition("item", settings.sse_item, settings.rho_item)?,
                transition("context", settings.sse_context, settings.rho_context)?,
            ],
        ),
        dropout: Dropout::new(settings.dropout),
        pieces: Pieces::new(&sequences),
        settings: settings.clone(),
        sequences,
        seed,
    };
    let item = first_vectors(n_items, dim, seed, "item2vec/item");
    let context = Embedding::zeros(n_items, dim);
    if settings.optimizer == Optimizer::Adam {
        return Ok(Box::new(adam::Adam::new(source, [item, context])?));
    }
    let model = Model::Items { item, context: Some(context), state: TensorMap::default() };
    Ok(Box::new(Item2vec { source, model }))
}

/// Normal initialization with the standard deviation of word2vec's uniform one on [-1, 1] / (2 dim).
pub(super) fn first_vectors(rows: usize, dim: usize, seed: Seed, name: &str) -> Embedding {
    Embedding::normal(rows, dim, 1.0 / (dim as f64 * 12.0f64.sqrt()), seed, name)
}

/// Settings and sequences, with what is drawn from them.
struct Source<'a> {
    settings: Settings,
    seed: Seed,
    sequences: Lists,
    pieces: Pieces,
    noise: Noise,
    /// The transitions of inputs and of targets.
    sse: Moves<'a, 2>,
    dropout: Option<Dropout>,
}

impl Source<'_> {
    fn plan(&self, epoch: u32) -> Plan {
        let Settings { epochs, lr, schedule, mode, .. } = self.settings;
        Plan { epoch, epochs, samples: self.pieces.len(), lr, schedule, mode }
    }

    fn walk<P>(&self, epoch: u32, step: P) -> Walk<'_, P, 2> {
        Walk::new(
            "item2vec",
            self.seed,
            epoch,
            self.sequences.values(),
            &self.pieces,
            &self.noise,
            &self.sse,
            self.settings.dim,
            step,
        )
    }

    fn settling(&self) -> Option<EarlyStopping> {
        let min_delta = self.settings.settle;
        let rule = EarlyStopping {
            better: Better::Lower,
            against: Against::Previous,
            min_delta,
            patience: SETTLED,
        };
        (min_delta > 0.0).then_some(rule)
    }

    /// The vectors that were asked for.
    fn result(&self, model: Model) -> Model {
        let state = TensorMap::default();
        match (self.settings.vectors, model) {
            (Vectors::Both, model) => model.without_state(),
            (Vectors::Sum, Model::Items { mut item, context: Some(context), .. }) => {
                item.values_mut().iter_mut().zip(context.values()).for_each(|(x, c)| *x += c);
                Model::Items { item, context: None, state }
            }
            (_, Model::Items { item, .. }) => Model::Items { item, context: None, state },
            (_, other) => other,
        }
    }
}

/// Epochs of the rule ⟨settle⟩.
const SETTLED: u32 = 3;

struct Item2vec<'a> {
    source: Source<'a>,
    model: Model,
}

impl Trainer for Item2vec<'_> {
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
        let Self { source, model } = self;
        let Model::Items { item, context: Some(context), .. } = model else {
            unreachable!("the trainer holds both tables")
        };
        let Source { settings, noise, dropout, .. } = &*source;
        let pass = source.walk(epoch, Skip { settings, noise, dropout: *dropout });
        let tables = vec![table(item, &mut []), table(context, &mut [])];
        sgd::pass(&pass, tables, source.plan(epoch), progress).map(Some)
    }

    fn model(&self) -> &Model {
        &self.model
    }

    fn restore(&mut self, model: Model) -> Result<()> {
        self.model.check_replacement(&model)?;
        self.model = model;
        Ok(())
    }

    fn into_model(self: Box<Self>) -> Model {
        let Self { source, model } = *self;
        source.result(model)
    }
}

/// The items near a position predict the item there.
struct Skip<'a> {
    settings: &'a Settings,
    noise: &'a Noise,
    dropout: Option<Dropout>,
}

impl Step<2> for Skip<'_> {
    #[inline(always)]
    fn step<S: Simd, R: Rows>(
        &self,
        simd: S,
        tables: &mut [R],
        scratch: &mut Scratch,
        [move_input, move_target]: &mut [Mover<'_>; 2],
        mut here: Position<'_>,
    ) -> Option<f64> {
        let [items, contexts] = tables else { return None };
        let Settings { cbow, window, negatives, .. } = *self.settings;
        scratch.inputs.clear();
        for neighbor in here.neighbors(window) {
            scratch.inputs.push(move_input.draw(neighbor));
        }
        if scratch.inputs.is_empty() {
            return None;
        }
        let Scratch { desk, inputs, .. } = scratch;
        desk.clear();
        for &input in inputs.iter() {
            items.with(
                input,
                #[inline(always)]
                |row, _| match cbow {
                    true => desk.sum_input(simd, row),
                    false => desk.push_input(simd, row),
                },
            );
        }
        if cbow {
            desk.scale_inputs(1.0 / inputs.len() as f32);
        }
        scratch.drop_out(self.dropout, &mut here.draws);
        let Scratch { desk, inputs, .. } = scratch;
        desk.targets.push(move_target.draw(here.token));
        self.noise.targets(here.token, negatives, &mut here.draws, &mut desk.targets);
        let keep = 1.0 - here.rate * self.settings.weight_decay as f32;
        desk.gather(simd, contexts, here.rate);
        let mut loss = 0.0;
        for a in (0..desk.n_inputs()).rev() {
            loss += desk.step(simd, a, here.is_measured);
            if cbow {
                let error = desk.error(simd, a);
                for &input in inputs.iter() {
                    items.with(
                        input,
                        #[inline(always)]
                        |row, _| add(row, keep, error),
                    );
                }
            } else {
                items.with(
                    inputs[a],
                    #[inline(always)]
                    |row, _| desk.move_input(simd, a, row, keep),
                );
            }
        }
        desk.move_targets(simd, contexts, keep);
        here.is_measured.then(|| loss / desk.n_inputs() as f64)
    }
}

choices! {
    /// The update rule.
    pub enum Optimizer {
        /// Plain SGD, one position after the other.
        Sgd = "sgd",
        /// Adam on mini-batches of positions.
        Adam = "adam",
    }
}

choices! {
    /// Which vectors the model contains.
    pub enum Vectors {
        /// The input vectors.
        Input = "input",
        /// Input vectors, and target vectors as the table `context`.
        Both = "both",
        /// The sum of input and target vectors.
        Sum = "sum",
    }
}
