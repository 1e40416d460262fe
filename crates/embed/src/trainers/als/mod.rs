//! Alternating least squares.
//!
//! implicit    sum over all pairs of c_ui (p_ui - <u, i>)^2 + lambda (|u|^2 + |i|^2), p = 1 for what was chosen,
//!             c = 1 + alpha r there and 1 elsewhere (Hu, Koren & Volinsky 2008); r = 1 without ratings,
//!             summed over repeats
//! explicit    sum over ratings of (r - mean - <u, i>)^2 + lambda (|u|^2 + |i|^2); with `scaled-decay` lambda
//!             counts once per rating of a row (Zhou et al. 2008)
//! graph       + lambda_g sum over neighbors j, k of w_jk |x_j - x_k|^2, per table (Rao et al. 2015): `graph.rs`
//!
//! An iteration solves for all users, then for all items (`rows.rs`). Rows are solved independently, so neither
//! order nor threads change a byte. The reported loss is the first sum between the two halves over the number of
//! entries; it is a by-product of the first residuals.

mod graph;
mod rows;
mod side;

use pulp::Arch;
use rayon::prelude::*;
use veridical_core::Progress;
use veridical_core::Seed;
use veridical_core::{choices, settings};
use veridical_data::Graph;

use self::graph::Laplacian;
use self::rows::{Problem, Scratch, Solve};
use self::side::Side;
use crate::sgd::vector::padded;
use crate::{Embedding, Error, Factors, Graphs, Input, Model, Result, Trainer};

/// Standard deviation of the initialization.
const START: f64 = 0.01;
/// Rows that a thread takes at a time; it also fixes the order in which losses are summed.
const RUN: usize = 16;

settings! {
    /// Settings of `als`.
    pub struct Settings {
        /// Embedding dimension
        pub dim: usize = 64,
        /// Number of iterations over users and items
        pub epochs: u32 = 15,
        /// implicit (interactions weighted by confidence) or explicit (ratings)
        pub feedback: Feedback = Feedback::Implicit,
        /// implicit: confidence 1 + alpha r
        pub alpha: Option<f64> = None => [otherwise("10; with ratings 10 over their mean")],
        /// L2 penalty on the rows
        pub weight_decay: Option<f64> = None => [otherwise("50; explicit or with scaled-decay: 0.01")],
        /// Multiply the weight decay by the number of ratings of a row (Zhou et al. 2008)
        pub scaled_decay: bool = false,
        /// cg (conjugate gradients) or cholesky
        pub solver: Solver = Solver::Cg,
        /// Conjugate-gradient steps per row and iteration
        pub cg_steps: usize = 3,
        /// explicit: subtract the mean rating first
        pub mean: bool = true,
        /// Weight of the graph Laplacian among users
        pub graph_weight_user: f64 = 0.0,
        /// Weight of the graph Laplacian among items
        pub graph_weight_item: f64 = 0.0,
    }
}

/// Confidence of an interaction of mean rating, less 1.
const ALPHA: f64 = 10.0;

impl Settings {
    /// Returns the settings with a weight decay and, for implicit feedback, with an alpha: of data with ratings the one that gives a
    /// row of mean rating the weight of an interaction without ratings.
    ///
    /// # Errors
    /// Data without interactions.
    pub(crate) fn resolved(&self, input: Input<'_>) -> Result<Self> {
        let mut settings = Self { weight_decay: Some(self.decay()), ..self.clone() };
        if self.feedback == Feedback::Implicit {
            let (data, rows) = input.interactions()?;
            let mean = data.rating.as_ref().map_or(1.0, |ratings| {
                rows.iter().map(|&r| f64::from(ratings[r as usize])).sum::<f64>()
                    / rows.len() as f64
            });
            let unit = if mean > 0.0 && mean.is_finite() { mean } else { 1.0 };
            settings.alpha = self.alpha.or(Some(ALPHA / unit));
        }
        Ok(settings)
    }

    pub(crate) fn alpha(&self) -> f64 {
        self.alpha.unwrap_or(ALPHA)
    }

    /// The weight decay. The sum over all pairs of implicit feedback needs far more of it than the few ratings of a row, and a decay
    /// per entry is small in any case.
    pub(crate) fn decay(&self) -> f64 {
        let is_summed = self.feedback == Feedback::Implicit && !self.scaled_decay;
        self.weight_decay.unwrap_or(if is_summed { 50.0 } else { 0.01 })
    }
}

/// Makes a trainer that has not run an epoch yet.
///
/// # Errors
/// Settings out of range, data without ratings for explicit feedback, a graph weight without a graph.
pub fn trainer<'a>(
    settings: &Settings,
    input: Input<'a>,
    graphs: &'a Graphs,
    seed: Seed,
) -> Result<Box<dyn Trainer + 'a>> {
    let settings = &settings.resolved(input)?;
    check(settings)?;
    let (data, rows) = input.interactions()?;
    let explicit = settings.feedback == Feedback::Explicit;
    if explicit && data.rating.is_none() {
        let what = "als ⟨feedback⟩ explicit learns from ratings, but the interactions have none";
        return Err(Error::unfit(what));
    }
    let value = |r: usize| data.rating.as_ref().map_or(1.0, |ratings| ratings[r]);
    let sum: f64 = rows.iter().map(|&r| f64::from(value(r as usize))).sum();
    let mean = if explicit && settings.mean { (sum / rows.len() as f64) as f32 } else { 0.0 };
    let entry = |&r: &u32| {
        let r = r as usize;
        (data.user[r], data.item[r], value(r) - mean)
    };
    let (n_users, n_items) = (data.users.len(), data.items.len());
    let users = Side::new(n_users, rows.iter().map(entry), !explicit);
    let items = users.transposed(n_items);
    let laplacian = |table, n, weight, graph: &'a Option<Graph>| {
        Laplacian::new(table, n, weight, graph.as_ref())
    };
    Ok(Box::new(Als {
        graphs: [
            laplacian("user", n_users, settings.graph_weight_user, &graphs.user)?,
            laplacian("item", n_items, settings.graph_weight_item, &graphs.item)?,
        ],
        sides: [users, items],
        model: Model::Factors(Factors {
            user: Embedding::normal(n_users, settings.dim, START, seed, "als/user"),
            item: Embedding::normal(n_items, settings.dim, START, seed, "als/item"),
            user_bias: None,
            item_bias: None,
            mean,
        }),
        settings: settings.clone(),
    }))
}

fn check(settings: &Settings) -> Result<()> {
    let Settings { dim, cg_steps, .. } = *settings;
    if dim == 0 {
        return Err(Error::setting("dim", "at least 1", dim));
    }
    if cg_steps == 0 {
        return Err(Error::setting("cg-steps", "at least 1", cg_steps));
    }
    let weights = [
        ("alpha", settings.alpha()),
        ("weight-decay", settings.decay()),
        ("graph-weight-user", settings.graph_weight_user),
        ("graph-weight-item", settings.graph_weight_item),
    ];
    match weights.into_iter().find(|(_, weight)| !(*weight >= 0.0 && weight.is_finite())) {
        None => Ok(()),
        Some((name, weight)) => Err(Error::setting(name, "0 or above", weight)),
    }
}

struct Als<'a> {
    settings: Settings,
    /// The entries by user and by item.
    sides: [Side; 2],
    graphs: [Option<Laplacian<'a>>; 2],
    model: Model,
}

impl Als<'_> {
    /// Solves for one table; returns the sum of the losses before.
    fn half(
        &self,
        side: usize,
        fixed: &Embedding,
        own: &mut Embedding,
        progress: &Progress,
    ) -> Result<f64> {
        let Settings { feedback, scaled_decay, solver, .. } = self.settings;
        let gram = match feedback {
            Feedback::Explicit => Vec::new(),
            Feedback::Implicit => padded_gram(fixed),
        };
        let problem = Problem {
            side: &self.sides[side],
            fixed,
            gram: &gram,
            feedback,
            alpha: self.settings.alpha() as f32,
            decay: self.settings.decay() as f32,
            scaled_decay,
            solver,
            steps: self.settings.cg_steps,
        };
        // Both halves together are one pass over the entries.
        let advance =
            |n: usize| progress.advance((if side == 0 { n.div_ceil(2) } else { n / 2 }) as u64);
        if let Some(laplacian) = &self.graphs[side] {
            let loss = graph::solve(&problem, laplacian, own, progress)?;
            advance(problem.side.len());
            return Ok(loss);
        }
        let dim = own.dim();
        let arch = Arch::new();
        let solve = |scratch: &mut Scratch, (run, rows): (usize, &mut [f32])| -> Result<f64> {
            progress.check()?;
            let first = run * RUN;
            let entries = (first..first + rows.len() / dim).map(|r| problem.side.row(r).0.len());
            advance(entries.sum());
            Ok(arch.dispatch(Solve { problem: &problem, scratch, first, rows }))
        };
        let runs = own.values_mut().par_chunks_mut(RUN * dim).enumerate();
        let losses: Vec<Result<f64>> = runs.map_init(Scratch::default, solve).collect();
        losses.into_iter().sum()
    }
}

/// Y'Y in f32, rows padded to whole vectors.
fn padded_gram(table: &Embedding) -> Vec<f32> {
    let dim = table.dim();
    let stride = padded(dim);
    let gram = veridical_learn::gram(table.values(), dim);
    let mut out = vec![0.0; dim * stride];
    for (out, row) in out.chunks_exact_mut(stride).zip(gram.chunks_exact(dim)) {
        out.iter_mut().zip(row).for_each(|(o, &g)| *o = g as f32);
    }
    out
}

impl Trainer for Als<'_> {
    fn samples(&self) -> u64 {
        self.sides[0].len() as u64
    }

    fn epochs(&self) -> u32 {
        self.settings.epochs
    }

    fn epoch(&mut self, epoch: u32, progress: &Progress) -> Result<Option<f64>> {
        let empty = Model::Factors(Factors::default());
        let Model::Factors(mut factors) = std::mem::replace(&mut self.model, empty) else {
            return Err(Error::shape("als learns factors"));
        };
        let first = self.half(0, &factors.item, &mut factors.user, progress);
        let second = first.and_then(|_| self.half(1, &factors.user, &mut factors.item, progress));
        self.model = Model::Factors(factors);
        let loss = second? / self.samples() as f64;
        if !loss.is_finite() {
            return Err(Error::unfit(format!(
                "epoch {}: the loss is {loss}; raise ⟨weight-decay⟩ or lower ⟨alpha⟩",
                epoch + 1
            )));
        }
        Ok(Some(loss))
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

choices! {
    /// What the values of the interactions mean.
    pub enum Feedback {
        /// Implicit feedback: a missing pair counts as a weak negative.
        Implicit = "implicit",
        /// Explicit ratings: a missing pair carries no information.
        Explicit = "explicit",
    }
}

choices! {
    /// The solver of the least-squares problem of a row.
    pub enum Solver {
        /// A few conjugate-gradient steps from the current row.
        Cg = "cg",
        /// An exact solution by Cholesky factorization.
        Cholesky = "cholesky",
    }
}
