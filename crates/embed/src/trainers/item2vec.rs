//! item2vec: word2vec with negative sampling over each user's sequence of items (Mikolov et al. 2013; Barkan &
//! Koenigstein 2016; paper 000, F.2).
//!
//! skip-gram  the items within b of a position predict the item there, b uniform in 1 .. window
//! CBOW       their mean h predicts it; each of them moves by the gradient at h, as in the word2vec code
//!
//! The loss and the step of a position are in `sgd/predict.rs`: its inputs share their negatives, which are
//! drawn by count^power. SSE replaces inputs (`item`) and the predicted item (`context`); negatives are
//! noise already. Reported is the mean loss of an input over every 16th position.

use std::ops::Range;

use pulp::Simd;
use veridical_core::progress::Progress;
use veridical_core::{Order, Seed, Stream};
use veridical_data::Lists;

use crate::model::table;
use crate::settings::settings;
use crate::sgd::{self, Desk, Dropout, Loss, Noise, Pass, Pieces, Plan, Rows};
use crate::sse::{Mover, Moves};
use crate::{Embedding, Error, Graphs, Input, Model, Result, Trainer, Transition};

/// The loss is measured at every so many positions.
const MEASURED: usize = 16;

settings! {
    /// Settings of `item2vec`.
    pub struct Settings {
        /// Values of a vector
        pub dim: usize = 32,
        /// Neighbours on each side, at most
        pub window: usize = 5,
        /// Negative samples per positive one
        pub negatives: usize = 5,
        /// Frequent tokens above this share are thinned out; 0 keeps all
        pub subsample: f64 = 0.0,
        /// Negatives are drawn by count to this power
        pub power: f64 = 0.75,
        /// Passes over the data
        pub epochs: u32 = 10,
        /// Learning rate of the first step
        pub lr: f64 = 0.025,
        /// How the rate falls: constant, linear (to a hundredth), inverse (lr / (1 + epoch)), exponential (lr 0.9^epoch)
        pub schedule: crate::Schedule = crate::Schedule::Linear,
        /// Weight of the squared norm of the rows a sample uses
        pub weight_decay: f64 = 0.0,
        /// Probability to leave a coordinate out of a sample
        pub dropout: f64 = 0.0,
        /// Predict an item from the mean of its neighbours instead of each neighbour from it
        pub cbow: bool = false,
        /// What is handed out: input, both (with the context table) or sum
        pub vectors: Handed = Handed::Input,
        /// SSE: probability that an input item is replaced
        pub sse_item: f64 = 0.0,
        /// SSE: probability that a target item is replaced
        pub sse_context: f64 = 0.0,
        /// SSE-Graph: how much likelier a neighbour is than another item
        pub rho_item: f64 = 100.0,
        /// SSE-Graph: the same for targets
        pub rho_context: f64 = 100.0,
        /// deterministic (same bytes for any threads) or hogwild (fastest, never twice the same)
        pub mode: crate::Mode = crate::Mode::Deterministic,
    }
}

/// A trainer before its first epoch.
///
/// # Errors
/// Settings out of range, and data without neighbours.
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
    if window == 0 {
        return Err(Error::setting("window", "at least 1", window));
    }
    if negatives == 0 || negatives >= n_items {
        let must_be = format!("at least 1 and below the number of items, {n_items}");
        return Err(Error::setting("negatives", must_be, negatives));
    }
    let sequences = data.sequences(rows);
    if sequences.iter().all(|sequence| sequence.len() < 2) {
        let what = "no user has two items in sequence, so no item has a neighbour to learn from";
        return Err(Error::Data(what.into()));
    }
    let mut counts = vec![0; n_items];
    sequences.values().iter().for_each(|&i| counts[i as usize] += 1);
    let graph = graphs.item.as_ref();
    Ok(Box::new(Item2vec {
        noise: Noise::new(&counts, settings.power, settings.subsample)?,
        sse: Moves::new(
            seed,
            [
                Transition::new("item", n_items, settings.sse_item, settings.rho_item, graph)?,
                Transition::new(
                    "context",
                    n_items,
                    settings.sse_context,
                    settings.rho_context,
                    graph,
                )?,
            ],
        ),
        model: Model::Items {
            item: first_vectors(n_items, dim, seed, "item2vec/item"),
            context: Some(Embedding::zeros(n_items, dim)),
        },
        dropout: Dropout::new(settings.dropout),
        pieces: Pieces::new(&sequences),
        settings: settings.clone(),
        sequences,
        seed,
    }))
}

/// Normal values with the deviation of word2vec's uniform ones on [-1, 1] / (2 dim).
pub(super) fn first_vectors(rows: usize, dim: usize, seed: Seed, name: &str) -> Embedding {
    Embedding::normal(rows, dim, 1.0 / (dim as f64 * 12.0f64.sqrt()), seed, name)
}

struct Item2vec<'a> {
    settings: Settings,
    seed: Seed,
    sequences: Lists,
    pieces: Pieces,
    noise: Noise,
    /// Of inputs and of targets.
    sse: Moves<'a, 2>,
    dropout: Option<Dropout>,
    model: Model,
}

impl Trainer for Item2vec<'_> {
    fn samples(&self) -> u64 {
        self.pieces.len()
    }

    fn epochs(&self) -> u32 {
        self.settings.epochs
    }

    fn epoch(&mut self, epoch: u32, progress: &Progress) -> Result<Option<f64>> {
        let plan = Plan {
            epoch,
            epochs: self.settings.epochs,
            samples: self.samples(),
            lr: self.settings.lr,
            schedule: self.settings.schedule,
            mode: self.settings.mode,
        };
        let Model::Items { item, context: Some(context) } = &mut self.model else {
            unreachable!("the trainer holds both tables")
        };
        let pass = Walk {
            settings: &self.settings,
            tokens: self.sequences.values(),
            pieces: &self.pieces,
            noise: &self.noise,
            order: Order::new(plan.samples, self.seed, "item2vec/order", epoch),
            stream: Stream::new(self.seed, "item2vec/position"),
            keep: Stream::new(self.seed, "item2vec/keep"),
            epoch,
            sse: &self.sse,
            dropout: self.dropout,
        };
        let tables = vec![table(item, &mut []), table(context, &mut [])];
        sgd::pass(&pass, tables, plan, progress).map(Some)
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
        match (self.settings.vectors, self.model) {
            (Handed::Both, model) => model,
            (Handed::Sum, Model::Items { mut item, context: Some(context) }) => {
                item.values_mut().iter_mut().zip(context.values()).for_each(|(x, c)| *x += c);
                Model::Items { item, context: None }
            }
            (_, Model::Items { item, .. }) => Model::Items { item, context: None },
            (_, other) => other,
        }
    }
}

struct Walk<'a> {
    settings: &'a Settings,
    tokens: &'a [u32],
    pieces: &'a Pieces,
    noise: &'a Noise,
    order: Order,
    stream: Stream,
    keep: Stream,
    epoch: u32,
    sse: &'a Moves<'a, 2>,
    dropout: Option<Dropout>,
}

struct Scratch {
    desk: Desk,
    /// The tokens of a piece that are kept, and where they stand.
    kept: Vec<(u32, usize)>,
    inputs: Vec<u32>,
    mask: Vec<f32>,
}

impl Pass for Walk<'_> {
    type Scratch = Scratch;

    fn block_size(&self) -> u64 {
        self.pieces.block_size()
    }

    fn scratch(&self) -> Scratch {
        let dim = self.settings.dim;
        let (kept, inputs) = (Vec::new(), Vec::new());
        Scratch { desk: Desk::new(dim), kept, inputs, mask: vec![1.0; dim] }
    }

    #[inline(always)]
    fn block<S: Simd, R: Rows>(
        &self,
        simd: S,
        tables: &mut [R],
        scratch: &mut Scratch,
        samples: Range<u64>,
        rate: f32,
    ) -> Loss {
        let mut movers = self.sse.movers(self.epoch, samples.start);
        let mut loss = Loss::default();
        for t in samples {
            let (_, tokens) = self.pieces.get(self.order.at(t));
            let mut kept = std::mem::take(&mut scratch.kept);
            self.noise.thin(self.tokens, tokens, self.keep, self.epoch, &mut kept);
            for position in 0..kept.len() {
                if let Some(measured) =
                    self.position(simd, tables, scratch, &mut movers, &kept, position, rate)
                {
                    loss.add(measured);
                }
            }
            scratch.kept = kept;
        }
        loss
    }
}

impl Walk<'_> {
    /// The step at one position; its loss, if it is measured.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "a position is all of these")]
    fn position<S: Simd, R: Rows>(
        &self,
        simd: S,
        tables: &mut [R],
        scratch: &mut Scratch,
        movers: &mut [Mover<'_>; 2],
        kept: &[(u32, usize)],
        position: usize,
        rate: f32,
    ) -> Option<f64> {
        let [items, contexts] = tables else { return None };
        let Scratch { desk, inputs, mask, .. } = scratch;
        let (item, at) = kept[position];
        let mut draws = self.stream.at(self.epoch, at as u64).draws();
        let reach = 1 + draws.below(self.settings.window as u32) as usize;
        inputs.clear();
        for &(neighbour, _) in sgd::neighbours(kept, position, reach) {
            inputs.push(movers[0].draw(neighbour));
        }
        if inputs.is_empty() {
            return None;
        }
        desk.clear();
        for &input in inputs.iter() {
            items.with(
                input,
                #[inline(always)]
                |row, _| match self.settings.cbow {
                    true => desk.sum_input(row),
                    false => desk.push_input(row),
                },
            );
        }
        if self.settings.cbow {
            desk.scale_inputs(1.0 / inputs.len() as f32);
        }
        if let Some(dropout) = self.dropout {
            dropout.fill(mask, &mut draws);
            desk.mask_inputs(mask);
        }
        desk.targets.push(movers[1].draw(item));
        self.noise.targets(item, self.settings.negatives, &mut draws, &mut desk.targets);
        let keep = 1.0 - rate * self.settings.weight_decay as f32;
        let loss = desk.predict(simd, contexts, rate, keep, at % MEASURED == 0);
        if self.dropout.is_some() {
            desk.mask_errors(mask);
        }
        if self.settings.cbow {
            let error = desk.error(simd, 1.0);
            for &input in inputs.iter() {
                items.with(
                    input,
                    #[inline(always)]
                    |row, _| {
                        row.iter_mut().zip(error).for_each(|(x, e)| *x = keep * *x + e);
                    },
                );
            }
        } else {
            for (a, &input) in inputs.iter().enumerate() {
                items.with(
                    input,
                    #[inline(always)]
                    |row, _| desk.move_input(simd, a, row, keep),
                );
            }
        }
        loss
    }
}

/// Which vectors are handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Handed {
    /// The input vectors.
    #[default]
    Input,
    /// Input vectors, and target vectors as the table `context`.
    Both,
    /// Their sum.
    Sum,
}
