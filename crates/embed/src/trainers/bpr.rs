//! Bayesian personalized ranking (Rendle et al. 2009; paper 001, section 4.1).
//!
//! score  x_ui = b_i + <u, i>
//! loss   -ln sigma(x_ui - x_uj) + decay / 2 (|u|^2 + |i|^2 + |j|^2 + b_i^2 + b_j^2)
//!        for an item i that the user interacted with and an item j that the user did not
//! step   g = sigma(x_uj - x_ui);  u <- u + lr (g (i - j) - decay u),
//!        i <- i + lr (g u - decay i),  j <- j + lr (-g u - decay j)
//!
//! Each epoch visits every interaction once with each of its negatives. u, i and j are the rows after SSE
//! replacement (of j too unless `sse-negatives` is off); if i and j become the same row, the sample is skipped.
//! The reported loss is the mean of -ln sigma over every eighth sample.

use std::ops::Range;

use pulp::Simd;
use veridical_core::Progress;
use veridical_core::{Alias, Draws, Order, Seed, Stream};
use veridical_core::{choices, settings};

use super::chosen::Chosen;
use crate::sgd::vector::{for_each, sigmoid, softplus};
use crate::sgd::{self, Dropout, LossSum, Pass, Plan, Rows};
use crate::sse::Moves;
use crate::{Embedding, Error, Factors, Graphs, Input, Model, Result, Trainer, Transition};

/// Standard deviation of the initialization.
const START: f64 = 0.1;
/// Samples that are drawn together.
const AHEAD: usize = 32;
/// Draws of a negative before a sample is skipped: such a user has interacted with nearly every item.
const TRIES: u32 = 100;
/// The loss is measured at every `MEASURED`-th sample.
const MEASURED: u64 = 8;

settings! {
    /// Settings of `bpr`.
    pub struct Settings {
        /// Embedding dimension
        pub dim: usize = 64,
        /// Number of epochs
        pub epochs: u32 = 60,
        /// Initial learning rate
        pub lr: f64 = 0.05,
        /// Learning-rate schedule: constant, linear (to a hundredth), inverse (lr / (1 + epoch)), exponential (lr 0.9^epoch)
        pub schedule: crate::Schedule = crate::Schedule::Linear,
        /// L2 penalty on the rows used by a sample
        pub weight_decay: f64 = 0.03,
        /// Dropout probability of a coordinate in a sample
        pub dropout: f64 = 0.0,
        /// Negative items per positive item
        pub negatives: usize = 1,
        /// Negative sampling distribution: uniform or popularity
        pub sampling: Sampling = Sampling::Uniform,
        /// Learn item biases
        pub biases: bool = false,
        /// Apply SSE to negative items too
        pub sse_negatives: bool = true,
        /// SSE: probability that a user is replaced in a sample
        pub sse_user: f64 = 0.0,
        /// SSE: probability that an item is replaced in a sample
        pub sse_item: f64 = 0.0,
        /// SSE-Graph: how much more likely a neighbor is than another user
        pub rho_user: f64 = 100.0 => [detail()],
        /// SSE-Graph: how much more likely a neighbor is than another item
        pub rho_item: f64 = 100.0 => [detail()],
        /// deterministic (same result for any number of threads) or hogwild (fastest, not reproducible)
        pub mode: crate::Mode = crate::Mode::Deterministic,
    }
}

/// Makes a trainer that has not run an epoch yet.
///
/// # Errors
/// Settings out of range, and data without negatives.
pub fn trainer<'a>(
    settings: &Settings,
    input: Input<'a>,
    graphs: &'a Graphs,
    seed: Seed,
) -> Result<Box<dyn Trainer + 'a>> {
    let Settings { dim, negatives, sse_user, sse_item, rho_user, rho_item, .. } = *settings;
    sgd::check(dim, settings.lr, settings.weight_decay, settings.dropout)?;
    let (data, rows) = input.interactions()?;
    let (n_users, n_items) = (data.users.len(), data.items.len());
    if negatives == 0 || negatives >= n_items {
        let must_be = format!("at least 1 and below the number of items, {n_items}");
        return Err(Error::setting("negatives", must_be, negatives));
    }
    let chosen = data.by_user(rows);
    let pair =
        |(u, items): (usize, &[u32])| items.iter().map(|&i| (u as u32, i)).collect::<Vec<_>>();
    let samples: Vec<(u32, u32)> = chosen.iter().enumerate().flat_map(pair).collect();
    let popularity = match settings.sampling {
        Sampling::Uniform => None,
        Sampling::Popularity => {
            let mut counts = vec![0.0; n_items];
            samples.iter().for_each(|&(_, i)| counts[i as usize] += 1.0);
            Alias::new(&counts)
        }
    };
    Ok(Box::new(Bpr {
        sse: Moves::new(
            seed,
            [
                Transition::new("user", n_users, sse_user, rho_user, graphs.user.as_ref())?,
                Transition::new("item", n_items, sse_item, rho_item, graphs.item.as_ref())?,
            ],
        ),
        model: Model::Factors(Factors {
            user: Embedding::normal(n_users, dim, START, seed, "bpr/user"),
            item: Embedding::normal(n_items, dim, START, seed, "bpr/item"),
            user_bias: None,
            item_bias: settings.biases.then(|| vec![0.0; n_items]),
            mean: 0.0,
        }),
        dropout: Dropout::new(settings.dropout),
        settings: settings.clone(),
        popularity,
        n_items: n_items as u32,
        chosen: Chosen::new(chosen),
        samples,
        seed,
    }))
}

struct Bpr<'a> {
    settings: Settings,
    seed: Seed,
    chosen: Chosen,
    samples: Vec<(u32, u32)>,
    n_items: u32,
    popularity: Option<Alias>,
    sse: Moves<'a, 2>,
    dropout: Option<Dropout>,
    model: Model,
}

impl Trainer for Bpr<'_> {
    fn samples(&self) -> u64 {
        self.samples.len() as u64 * self.settings.negatives as u64
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
        let (_, tables) = self.model.factor_tables();
        let pass = Pairs {
            samples: &self.samples,
            negatives: self.settings.negatives as u64,
            chosen: &self.chosen,
            n_items: self.n_items,
            popularity: self.popularity.as_ref(),
            order: Order::new(plan.samples, self.seed, "bpr/order", epoch),
            stream: Stream::new(self.seed, "bpr/negative"),
            dropped: Stream::new(self.seed, "bpr/dropout"),
            epoch,
            sse: &self.sse,
            sse_negatives: self.settings.sse_negatives,
            dropout: self.dropout,
            dim: self.settings.dim,
            decay: self.settings.weight_decay as f32,
        };
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
        self.model
    }
}

struct Pairs<'a> {
    samples: &'a [(u32, u32)],
    negatives: u64,
    chosen: &'a Chosen,
    n_items: u32,
    popularity: Option<&'a Alias>,
    order: Order,
    stream: Stream,
    dropped: Stream,
    epoch: u32,
    sse: &'a Moves<'a, 2>,
    sse_negatives: bool,
    dropout: Option<Dropout>,
    dim: usize,
    decay: f32,
}

impl Pairs<'_> {
    /// Draws user, positive item and negative item of some samples; the items are equal if no negative was found.
    #[inline(always)]
    fn draw(&self, samples: Range<u64>, drawn: &mut [(u32, u32, u32)]) {
        for (t, drawn) in samples.clone().zip(&mut *drawn) {
            let (user, i) = self.samples[(self.order.at(t) / self.negatives) as usize];
            *drawn = (user, i, i);
        }
        // Most first draws are valid; only the others are redrawn, one by one.
        let mut is_hit = [false; AHEAD];
        for (t, (_, _, j)) in samples.clone().zip(&mut *drawn) {
            *j = self.candidate(&mut self.stream.at(self.epoch, t).draws());
        }
        for (hit, &mut (user, _, j)) in is_hit.iter_mut().zip(&mut *drawn) {
            *hit = self.chosen.may_contain(user, j);
        }
        for ((t, (user, i, j)), hit) in samples.zip(drawn).zip(is_hit) {
            if hit {
                let mut draws = self.stream.at(self.epoch, t).draws();
                *j = self.negative(*user, &mut draws).unwrap_or(*i);
            }
        }
    }

    #[inline(always)]
    fn candidate(&self, draws: &mut Draws) -> u32 {
        match self.popularity {
            None => draws.below(self.n_items),
            Some(alias) => alias.draw(draws),
        }
    }

    /// Draws an item that the user did not interact with.
    #[inline(always)]
    fn negative(&self, user: u32, draws: &mut Draws) -> Option<u32> {
        for _ in 0..TRIES {
            let item = self.candidate(draws);
            if !self.chosen.contains(user, item) {
                return Some(item);
            }
        }
        None
    }
}

impl Pass for Pairs<'_> {
    /// The dropout mask.
    type Scratch = Vec<f32>;

    fn scratch(&self) -> Vec<f32> {
        vec![1.0; self.dim]
    }

    #[inline(always)]
    fn block<S: Simd, R: Rows>(
        &self,
        simd: S,
        tables: &mut [R],
        mask: &mut Vec<f32>,
        samples: Range<u64>,
        rate: f32,
    ) -> LossSum {
        let [users, items] = tables else { return LossSum::default() };
        let [mut move_user, mut move_item] = self.sse.movers(self.epoch, samples.start);
        let mut loss = LossSum::default();
        // Draws are random memory accesses: drawing several samples at once overlaps their cache misses.
        let mut drawn = [(0, 0, 0); AHEAD];
        for t in samples.clone() {
            let ahead = (t - samples.start) as usize % AHEAD;
            if ahead == 0 {
                let now = t..samples.end.min(t + AHEAD as u64);
                self.draw(now.clone(), &mut drawn);
                for (_, &(user, i, j)) in now.zip(&drawn) {
                    std::hint::black_box(users.touch(user) + items.touch(i) + items.touch(j));
                }
            }
            let (user, i, j) = drawn[ahead];
            let (user, i) = (move_user.draw(user), move_item.draw(i));
            let j = if self.sse_negatives { move_item.draw(j) } else { j };
            if i == j {
                continue;
            }
            let mask = self.dropout.map(|dropout| {
                dropout.fill(mask, &mut self.dropped.at(self.epoch, t).draws());
                &mut mask[..]
            });
            let difference = users.with(
                user,
                #[inline(always)]
                |u, _| {
                    items.with_two(
                        [i, j],
                        #[inline(always)]
                        |[i, j], biases| step(simd, [u, i, j], biases, mask, rate, self.decay),
                    )
                },
            );
            if t % MEASURED == 0 {
                loss.add(softplus(-difference));
            }
        }
        loss
    }
}

/// One step; returns x_ui - x_uj.
#[inline(always)]
fn step<S: Simd>(
    simd: S,
    [u, i, j]: [&mut [f32]; 3],
    [i_bias, j_bias]: [&mut [f32]; 2],
    mask: Option<&mut [f32]>,
    rate: f32,
    decay: f32,
) -> f32 {
    let bias = |bias: &[f32]| bias.first().copied().unwrap_or(0.0);
    let product = match &mask {
        None => difference(simd, u, i, j),
        Some(mask) => {
            let terms = u.iter().zip(&*i).zip(&*j).zip(&**mask);
            terms.map(|(((u, i), j), m)| m * u * (i - j)).sum()
        }
    };
    let x = product + bias(i_bias) - bias(j_bias);
    let g = rate * sigmoid(-x);
    let (gain, keep) = (simd.splat_f32s(g), simd.splat_f32s(1.0 - rate * decay));
    match mask {
        None => for_each(
            simd,
            [u, i, j],
            #[inline(always)]
            |rows| moved(simd, gain, keep, rows),
        ),
        Some(mask) => for_each(
            simd,
            [u, i, j, mask],
            #[inline(always)]
            |[u, i, j, m]| {
                let [u, i, j] = moved(simd, simd.mul_f32s(gain, m), keep, [u, i, j]);
                [u, i, j, m]
            },
        ),
    }
    let keep = 1.0 - rate * decay;
    i_bias.iter_mut().for_each(|bias| *bias = keep * *bias + g);
    j_bias.iter_mut().for_each(|bias| *bias = keep * *bias - g);
    x
}

/// One vector of u, i and j after the step.
#[inline(always)]
fn moved<S: Simd>(simd: S, gain: S::f32s, keep: S::f32s, [u, i, j]: [S::f32s; 3]) -> [S::f32s; 3] {
    let (pull, away) = (simd.mul_f32s(gain, u), simd.mul_f32s(gain, simd.sub_f32s(i, j)));
    [
        simd.mul_add_e_f32s(keep, u, away),
        simd.mul_add_e_f32s(keep, i, pull),
        simd.sub_f32s(simd.mul_f32s(keep, j), pull),
    ]
}

/// <u, i - j>.
#[inline(always)]
fn difference<S: Simd>(simd: S, u: &[f32], i: &[f32], j: &[f32]) -> f32 {
    let ((u, u_tail), (i, i_tail)) = (S::as_simd_f32s(u), S::as_simd_f32s(i));
    let (j, j_tail) = S::as_simd_f32s(j);
    let mut sums = [simd.splat_f32s(0.0); 2];
    let ((u, u_last), (i, i_last)) = (u.as_chunks::<2>(), i.as_chunks::<2>());
    let (j, j_last) = j.as_chunks::<2>();
    for ((u, i), j) in u.iter().zip(i).zip(j) {
        sums[0] = simd.mul_add_e_f32s(u[0], simd.sub_f32s(i[0], j[0]), sums[0]);
        sums[1] = simd.mul_add_e_f32s(u[1], simd.sub_f32s(i[1], j[1]), sums[1]);
    }
    for ((&u, &i), &j) in u_last.iter().zip(i_last).zip(j_last) {
        sums[0] = simd.mul_add_e_f32s(u, simd.sub_f32s(i, j), sums[0]);
    }
    if !u_tail.is_empty() {
        let (u, i) = (simd.partial_load_f32s(u_tail), simd.partial_load_f32s(i_tail));
        sums[0] = simd.mul_add_e_f32s(u, simd.sub_f32s(i, simd.partial_load_f32s(j_tail)), sums[0]);
    }
    simd.reduce_sum_f32s(simd.add_f32s(sums[0], sums[1]))
}

choices! {
    /// The negative sampling distribution.
    pub enum Sampling {
        /// All items are equally likely.
        Uniform = "uniform",
        /// Items are drawn in proportion to their number of interactions.
        Popularity = "popularity",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use pulp::Scalar;
    use veridical_data::Lists;

    use super::*;

    proptest! {
        #[test]
        fn the_filter_forgets_no_pair_and_adds_none(
            pairs in prop::collection::btree_set((0u32..20, 0u32..50), 0..200)
        ) {
            let chosen = Chosen::new(Lists::collect(20, pairs.iter().copied()));
            for user in 0..20 {
                for item in 0..50 {
                    prop_assert_eq!(chosen.contains(user, item), pairs.contains(&(user, item)));
                }
            }
        }
    }

    /// As in `mf`: central differences are accurate to 1e-8, an f32 step to 1e-7 over the learning rate 0.1.
    #[test]
    fn a_step_follows_the_gradient() {
        let (rate, decay) = (0.1f32, 0.3f32);
        let start = [0.5, -0.25, 0.8, 0.1, 0.9, -0.6, 0.3, -0.4, 0.7, 0.2, -0.1];
        for mask in [None, Some([2.0f32, 0.0, 2.0])] {
            // u (3), i (3), j (3), b_i, b_j
            let loss = |x: &[f64; 11]| {
                let m = |k: usize| mask.map_or(1.0, |m| f64::from(m[k]));
                let product: f64 = (0..3).map(|k| m(k) * x[k] * (x[3 + k] - x[6 + k])).sum();
                let difference = product + x[9] - x[10];
                let norm: f64 = x.iter().map(|x| x * x).sum();
                (-difference).exp().ln_1p() + f64::from(decay) / 2.0 * norm
            };
            let mut x = start.map(|x| x as f32);
            let mut own_mask = mask;
            {
                let [u, i, j] = [0, 3, 6].map(|at| x[at..at + 3].to_vec());
                let (mut u, mut i, mut j) = (u, i, j);
                let (mut c, mut d) = ([x[9]], [x[10]]);
                let rows = [&mut u[..], &mut i[..], &mut j[..]];
                let mask = own_mask.as_mut().map(|m| &mut m[..]);
                step(Scalar::new(), rows, [&mut c, &mut d], mask, rate, decay);
                let new = u.into_iter().chain(i).chain(j).chain(c).chain(d);
                x.iter_mut().zip(new).for_each(|(x, new)| *x = new);
            }
            for k in 0..11 {
                let shifted = |h: f64| {
                    let mut x = start;
                    x[k] += h;
                    loss(&x)
                };
                let gradient = (shifted(1e-4) - shifted(-1e-4)) / 2e-4;
                let got = (f64::from(x[k]) - start[k]) / -f64::from(rate);
                assert!((got - gradient).abs() < 1e-5, "coordinate {k}: {got} {gradient}");
            }
        }
    }
}
