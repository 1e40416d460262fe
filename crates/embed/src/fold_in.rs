//! Fold-in: vectors of users that are not in the training data, from their items.
//!
//! Factors, ratings    x = argmin sum_{i in h} (r_i - mean - b_i - b - <x, y_i>)^2 + lambda n_h (|x|^2 + b^2)
//!                     (b only if the model has biases of users; n_h = 1 unless the decay counts ratings)
//! Factors, choices    x = argmin w_0 sum_all <x, y_i>^2 + sum_{i in h} ((w - w_0) <x, y_i>^2 - 2 w <x, y_i>)
//!                     + lambda |x|^2: a least squares fit of 1 with weight w on the history and of 0 with
//!                     weight w_0 elsewhere. `als`: w_0 = 1, w = 1 + alpha r, the step of its training (Hu,
//!                     Koren & Volinsky 2008). `bpr`: w = 1 and w_0 = |h| / N, as many negatives as choices
//!                     in all; b_i is subtracted from the targets. A user's scale does not change a ranking.
//! Other models        score from the history alone, so nothing needs to be solved.

use rayon::prelude::*;
use serde_json::{Map, Value};
use veridical_data::Lists;
use veridical_learn::solve_spd;

use crate::trainers::als;
use veridical_core::settings::Settings as _;

use crate::{Error, Factors, Method, Model, Pair, Result, Scorer};

/// The least-squares problem of a new user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FoldIn {
    /// Least squares on explicit ratings.
    Ratings {
        /// The regularization weight lambda.
        weight_decay: f64,
        /// Whether lambda is multiplied by the user's number of ratings.
        scaled: bool,
    },
    /// Implicit feedback with the confidence weights of Hu, Koren & Volinsky.
    Confidence {
        /// The alpha of the confidence 1 + alpha r.
        alpha: f64,
        /// The regularization weight lambda.
        weight_decay: f64,
    },
    /// Implicit feedback where all negatives together weigh as much as the positives.
    Balanced {
        /// The regularization weight lambda.
        weight_decay: f64,
    },
}

impl FoldIn {
    /// Returns the problem of a method with its settings.
    ///
    /// # Errors
    /// [`veridical_core::Error::Shape`] for settings that the method does not have.
    pub fn of(method: Method, given: &Map<String, Value>) -> Result<Self> {
        Ok(match method {
            Method::Als => {
                let settings = als::Settings::of(given)?;
                let weight_decay = settings.decay();
                match settings.feedback {
                    als::Feedback::Explicit => {
                        Self::Ratings { weight_decay, scaled: settings.scaled_decay }
                    }
                    als::Feedback::Implicit => {
                        Self::Confidence { alpha: settings.alpha(), weight_decay }
                    }
                }
            }
            Method::Mf => {
                let settings = crate::trainers::mf::Settings::of(given)?;
                Self::Ratings { weight_decay: settings.weight_decay, scaled: true }
            }
            Method::Bpr => {
                let settings = crate::trainers::bpr::Settings::of(given)?;
                Self::Balanced { weight_decay: settings.weight_decay }
            }
            _ => Self::Balanced { weight_decay: 0.01 },
        })
    }

    /// Rejects histories without ratings where the problem is on ratings.
    pub(crate) fn check(self, ratings: Option<&[f32]>) -> Result<()> {
        match (self, ratings) {
            (Self::Ratings { .. }, None) => Err(Error::unfit(
                "the model was trained on ratings: new users need a rating for each of their items",
            )),
            _ => Ok(()),
        }
    }
}

/// Returns a scorer for new users: user u of the scorer has the items `history.get(u)`, with one rating per entry
/// of `history.values()` if there are ratings.
///
/// ```
/// use veridical_data::Lists;
/// use veridical_embed::fold_in::{FoldIn, fold_in};
/// use veridical_embed::{Embedding, Factors, Model, recommend};
///
/// // Items 0 and 1 point one way, item 2 the other: a new user with item 0 prefers item 1.
/// let item = Embedding::new(2, vec![1.0, 0.0, 0.9, 0.1, 0.0, 1.0]);
/// let model = Model::Factors(Factors { user: Embedding::zeros(0, 2), item, ..Factors::default() });
/// let history = Lists::collect(1, [(0, 0)].into_iter());
/// let problem = FoldIn::Confidence { alpha: 1.0, weight_decay: 0.1 };
/// let scorer = fold_in(&model, &history, None, problem)?;
/// assert_eq!(recommend(&*scorer, &[0], &history, None, 1, false)[0][0].number, 1);
/// # Ok::<(), veridical_embed::Error>(())
/// ```
///
/// # Errors
/// [`veridical_core::Error::Unfit`] if the method needs ratings that are missing, and for a model without items.
pub fn fold_in<'a>(
    model: &'a Model,
    history: &Lists,
    ratings: Option<&[f32]>,
    problem: FoldIn,
) -> Result<Box<dyn Scorer + 'a>> {
    let Model::Factors(factors) = model else { return model.scorer() };
    problem.check(ratings)?;
    let Factors { item, item_bias, user_bias, mean, .. } = factors;
    let dim = item.dim();
    let gram = match problem {
        FoldIn::Ratings { .. } => Vec::new(),
        _ => veridical_learn::gram(item.values(), dim),
    };
    let has_bias = user_bias.is_some();
    let step = Step { dim, n_items: item.n_rows(), gram: &gram, mean: *mean, has_bias, problem };
    let solve = |u: usize| {
        let items = history.get(u);
        let rows: Vec<f32> = items.iter().flat_map(|&i| item.row(i as usize)).copied().collect();
        let of_items = |bias: &Vec<f32>| items.iter().map(|&i| bias[i as usize]).collect();
        let biases: Option<Vec<f32>> = item_bias.as_ref().map(of_items);
        let ratings = ratings.map(|ratings| &ratings[history.range(u)]);
        step.solve(&rows, biases.as_deref(), ratings)
    };
    let solved: Vec<(Vec<f32>, f32)> = (0..history.len()).into_par_iter().map(solve).collect();
    let bias: Vec<f32> = solved.iter().map(|(_, bias)| *bias).collect();
    let rows: Vec<f32> = solved.into_iter().flat_map(|(row, _)| row).collect();
    Ok(Box::new(Pair::for_users(factors, rows, has_bias.then_some(bias))))
}

/// What all users share in the least-squares problem of a new one.
pub(crate) struct Step<'a> {
    /// The embedding dimension.
    pub dim: usize,
    /// The number of items.
    pub n_items: usize,
    /// The Gram matrix of all item vectors, unless the problem is on ratings.
    pub gram: &'a [f64],
    /// The mean rating.
    pub mean: f32,
    /// Whether users have a bias.
    pub has_bias: bool,
    /// The problem.
    pub problem: FoldIn,
}

impl Step<'_> {
    /// Solves for the vector and the bias of one user: from the vectors of the items, their biases if the model has them, and
    /// one rating per item if there are ratings.
    pub fn solve(
        &self,
        items: &[f32],
        biases: Option<&[f32]>,
        ratings: Option<&[f32]>,
    ) -> (Vec<f32>, f32) {
        let Step { dim, problem, .. } = *self;
        if items.is_empty() {
            return (vec![0.0; dim], 0.0);
        }
        let rated = matches!(problem, FoldIn::Ratings { .. });
        let n = dim + usize::from(rated && self.has_bias);
        let count = (items.len() / dim) as f64;
        let (lambda, others) = match problem {
            FoldIn::Ratings { weight_decay, scaled } => {
                (weight_decay * if scaled { count } else { 1.0 }, 0.0)
            }
            FoldIn::Confidence { weight_decay, .. } => (weight_decay, 1.0),
            FoldIn::Balanced { weight_decay } => (weight_decay, count / self.n_items.max(1) as f64),
        };
        let mut matrix = vec![0.0; n * n];
        let mut right = vec![0.0; n];
        if !rated {
            matrix.iter_mut().zip(self.gram).for_each(|(a, g)| *a = others * g);
        }
        let mut y = vec![1.0; n];
        for (at, item) in items.chunks_exact(dim).enumerate() {
            y.iter_mut().zip(item).for_each(|(y, &x)| *y = f64::from(x));
            let bias = biases.map_or(0.0, |biases| f64::from(biases[at]));
            let rating = ratings.map_or(1.0, |ratings| f64::from(ratings[at]));
            // (weight in the matrix, weight times target on the right)
            let (square, target) = match problem {
                FoldIn::Ratings { .. } => (1.0, rating - f64::from(self.mean) - bias),
                FoldIn::Confidence { alpha, .. } => {
                    let weight = alpha * rating;
                    (weight, if weight > 0.0 { 1.0 + weight } else { 0.0 })
                }
                FoldIn::Balanced { .. } => ((1.0 - others).max(0.0), 1.0 - bias),
            };
            for (row, &yi) in matrix.chunks_exact_mut(n).zip(&y) {
                row.iter_mut().zip(&y).for_each(|(a, yj)| *a += square * yi * yj);
            }
            right.iter_mut().zip(&y).for_each(|(b, yi)| *b += target * yi);
        }
        (0..n).for_each(|i| matrix[i * n + i] += lambda);
        let x = solve_spd(&mut matrix, &right);
        let row = x[..dim].iter().map(|&x| x as f32).collect();
        (row, x.get(dim).map_or(0.0, |&b| b as f32))
    }
}
