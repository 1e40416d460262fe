//! Matrix factorization of ratings (Mnih & Salakhutdinov 2007; paper 001, section 4.1).
//!
//! prediction  r_ui = mean + b_u + b_i + <u, i>
//! loss        (y - r_ui)^2 / 2 + decay / 2 (|u|^2 + |i|^2 + b_u^2 + b_i^2), a rating at a time
//! step        e = y - r_ui;  u <- u + lr (e i - decay u),  i <- i + lr (e u - decay i)
//!
//! u and i are the rows after SSE replacement; with dropout the inner product is over the coordinates that are
//! not dropped. The reported loss is the mean of e^2.

use std::ops::Range;

use pulp::Simd;
use veridical_core::Progress;
use veridical_core::settings;
use veridical_core::{Order, Seed, Stream};

use crate::sgd::vector::{dot, for_each};
use crate::sgd::{self, Dropout, LossSum, Pass, Plan, Rows};
use crate::sse::Moves;
use crate::{Embedding, Error, Factors, Graphs, Input, Model, Result, Trainer, Transition};

/// Standard deviation of the initialization.
const START: f64 = 0.1;

settings! {
    /// Settings of `mf`.
    pub struct Settings {
        /// Embedding dimension
        pub dim: usize = 64,
        /// Number of epochs
        pub epochs: u32 = 40,
        /// Initial learning rate
        pub lr: f64 = 0.02,
        /// Learning-rate schedule: constant, linear (to a hundredth), inverse (lr / (1 + epoch)), exponential (lr 0.9^epoch)
        pub schedule: crate::Schedule = crate::Schedule::Linear,
        /// L2 penalty on the rows used by a sample
        pub weight_decay: f64 = 0.1,
        /// Dropout probability of a coordinate in a sample
        pub dropout: f64 = 0.0,
        /// Learn user and item biases
        pub biases: bool = true,
        /// Subtract the mean rating first
        pub mean: bool = true,
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
/// Settings out of range, and data without ratings.
pub fn trainer<'a>(
    settings: &Settings,
    input: Input<'a>,
    graphs: &'a Graphs,
    seed: Seed,
) -> Result<Box<dyn Trainer + 'a>> {
    sgd::check(settings.dim, settings.lr, settings.weight_decay, settings.dropout)?;
    let (data, rows) = input.interactions()?;
    let Some(ratings) = &data.rating else {
        let what = "mf learns from ratings, but the interactions have none; bpr and als work without ratings";
        return Err(Error::unfit(what));
    };
    let rating = |&r: &u32| {
        let r = r as usize;
        (data.user[r], data.item[r], ratings[r])
    };
    let samples: Vec<_> = rows.iter().map(rating).collect();
    let sum: f64 = samples.iter().map(|&(_, _, y)| f64::from(y)).sum();
    let (n_users, n_items) = (data.users.len(), data.items.len());
    let bias = |n| settings.biases.then(|| vec![0.0; n]);
    let Settings { dim, sse_user, sse_item, rho_user, rho_item, .. } = *settings;
    Ok(Box::new(Mf {
        sse: Moves::new(
            seed,
            [
                Transition::new("user", n_users, sse_user, rho_user, graphs.user.as_ref())?,
                Transition::new("item", n_items, sse_item, rho_item, graphs.item.as_ref())?,
            ],
        ),
        model: Model::Factors(Factors {
            user: Embedding::normal(n_users, dim, START, seed, "mf/user"),
            item: Embedding::normal(n_items, dim, START, seed, "mf/item"),
            user_bias: bias(n_users),
            item_bias: bias(n_items),
            mean: if settings.mean { (sum / samples.len() as f64) as f32 } else { 0.0 },
        }),
        dropout: Dropout::new(settings.dropout),
        settings: settings.clone(),
        samples,
        seed,
    }))
}

struct Mf<'a> {
    settings: Settings,
    seed: Seed,
    samples: Vec<(u32, u32, f32)>,
    sse: Moves<'a, 2>,
    dropout: Option<Dropout>,
    model: Model,
}

impl Trainer for Mf<'_> {
    fn samples(&self) -> u64 {
        self.samples.len() as u64
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
        let (mean, tables) = self.model.factor_tables();
        let pass = Ratings {
            samples: &self.samples,
            order: Order::new(plan.samples, self.seed, "mf/order", epoch),
            stream: Stream::new(self.seed, "mf/dropout"),
            epoch,
            sse: &self.sse,
            dropout: self.dropout,
            dim: self.settings.dim,
            mean,
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

struct Ratings<'a> {
    samples: &'a [(u32, u32, f32)],
    order: Order,
    stream: Stream,
    epoch: u32,
    sse: &'a Moves<'a, 2>,
    dropout: Option<Dropout>,
    dim: usize,
    mean: f32,
    decay: f32,
}

impl Pass for Ratings<'_> {
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
        for t in samples {
            let (user, item, y) = self.samples[self.order.at(t) as usize];
            let (user, item) = (move_user.draw(user), move_item.draw(item));
            let mask = self.dropout.map(|dropout| {
                dropout.fill(mask, &mut self.stream.at(self.epoch, t).draws());
                &mut mask[..]
            });
            let error = users.with(
                user,
                #[inline(always)]
                |u, u_bias| {
                    items.with(
                        item,
                        #[inline(always)]
                        |i, i_bias| {
                            step(
                                simd,
                                [u, i],
                                [u_bias, i_bias],
                                mask,
                                y - self.mean,
                                rate,
                                self.decay,
                            )
                        },
                    )
                },
            );
            loss.add(f64::from(error) * f64::from(error));
        }
        loss
    }
}

/// One step; returns e.
#[inline(always)]
fn step<S: Simd>(
    simd: S,
    [u, i]: [&mut [f32]; 2],
    [u_bias, i_bias]: [&mut [f32]; 2],
    mask: Option<&mut [f32]>,
    y: f32,
    rate: f32,
    decay: f32,
) -> f32 {
    let biases = u_bias.iter().chain(&*i_bias).sum::<f32>();
    let product = match &mask {
        None => dot(simd, u, i),
        Some(mask) => u.iter().zip(&*i).zip(&**mask).map(|((u, i), m)| m * u * i).sum(),
    };
    let error = y - biases - product;
    let keep = simd.splat_f32s(1.0 - rate * decay);
    let gain = simd.splat_f32s(rate * error);
    match mask {
        None => for_each(
            simd,
            [u, i],
            #[inline(always)]
            |[u, i]| {
                [
                    simd.mul_add_e_f32s(gain, i, simd.mul_f32s(keep, u)),
                    simd.mul_add_e_f32s(gain, u, simd.mul_f32s(keep, i)),
                ]
            },
        ),
        Some(mask) => for_each(
            simd,
            [u, i, mask],
            #[inline(always)]
            |[u, i, m]| {
                let gain = simd.mul_f32s(gain, m);
                [
                    simd.mul_add_e_f32s(gain, i, simd.mul_f32s(keep, u)),
                    simd.mul_add_e_f32s(gain, u, simd.mul_f32s(keep, i)),
                    m,
                ]
            },
        ),
    }
    for bias in u_bias.iter_mut().chain(i_bias) {
        *bias += rate * (error - decay * *bias);
    }
    error
}

#[cfg(test)]
mod tests {
    use pulp::Scalar;

    use super::*;

    /// The step is minus the learning rate times the gradient: central differences of the loss, h = 1e-4 in f64, are
    /// accurate to h^2 = 1e-8; the f32 step to 1e-7 for values of size 1, over the learning rate 0.1.
    #[test]
    fn a_step_follows_the_gradient() {
        let (rate, decay, y) = (0.1f32, 0.3f32, 0.7f32);
        let start: Vec<f64> = vec![0.5, -0.25, 0.8, 0.1, 0.9, -0.6, 0.3, -0.4];
        for mask in [None, Some(vec![2.0, 0.0, 2.0])] {
            // u (3), i (3), b_u, b_i
            let loss = |x: &[f64]| {
                let m = |k: usize| mask.as_ref().map_or(1.0, |m: &Vec<f32>| f64::from(m[k]));
                let product: f64 = (0..3).map(|k| m(k) * x[k] * x[3 + k]).sum();
                let error = f64::from(y) - x[6] - x[7] - product;
                let norm: f64 = x.iter().map(|x| x * x).sum();
                error * error / 2.0 + f64::from(decay) / 2.0 * norm
            };
            let mut x: Vec<f32> = start.iter().map(|&x| x as f32).collect();
            let mut own_mask = mask.clone();
            {
                let (u, rest) = x.split_at_mut(3);
                let (i, bias) = rest.split_at_mut(3);
                let (u_bias, i_bias) = bias.split_at_mut(1);
                let mask = own_mask.as_deref_mut();
                step(Scalar::new(), [u, i], [u_bias, i_bias], mask, y, rate, decay);
            }
            for k in 0..8 {
                let shifted = |h: f64| {
                    let mut x = start.clone();
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
