//! Errors of predicted ratings.
//!
//! MAE = mean |e|,  RMSE = sqrt(mean e^2) over all ratings. Ratings of one user are not independent, so the
//! standard error of a mean m of n values is that of a ratio over users (Cochran 1977, 6.4):
//! sqrt(U/(U-1) sum_u (S_u - m n_u)^2) / n, with S_u the sum and n_u the number of a user's values; the
//! standard error of RMSE is that of the mean square divided by 2 RMSE.

use serde::{Deserialize, Serialize};
use veridical_core::Estimate;
use veridical_data::Interactions;

use crate::{Error, Model, Result};

/// The errors of predicted ratings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatingReport {
    /// The root mean squared error.
    pub rmse: Estimate,
    /// The mean absolute error.
    pub mae: Estimate,
    /// The number of ratings.
    pub ratings: u64,
}

impl RatingReport {
    /// Combines the reports of several runs; `None` if there are none.
    pub fn combine(runs: &[Self]) -> Option<Self> {
        let of = |measure: fn(&Self) -> Estimate| {
            Estimate::over_seeds(&runs.iter().map(measure).collect::<Vec<_>>())
        };
        let ratings = runs.first()?.ratings;
        Some(Self { rmse: of(|run| run.rmse)?, mae: of(|run| run.mae)?, ratings })
    }
}

/// Returns the users, items and ratings of some rows.
///
/// # Errors
/// [`veridical_core::Error::Missing`] if the interactions have no ratings.
pub fn rated(data: &Interactions, rows: &[u32]) -> Result<(Vec<u32>, Vec<u32>, Vec<f32>)> {
    let Some(ratings) = &data.rating else {
        let what = "the interactions have no ratings to evaluate on";
        let hint = "name their column with ⟨columns⟩ rating=NAME";
        return Err(veridical_core::Error::missing(what, hint).into());
    };
    let of = |values: &[u32]| rows.iter().map(|&r| values[r as usize]).collect();
    let ratings = rows.iter().map(|&r| ratings[r as usize]).collect();
    Ok((of(&data.user), of(&data.item), ratings))
}

/// Evaluates the predictions of `rating` for pairs of `user` and `item`.
///
/// ```
/// use veridical_embed::evaluate::ratings;
/// use veridical_embed::{Embedding, Factors, Model};
///
/// let (user, item) = (Embedding::new(1, vec![1.0, 2.0]), Embedding::new(1, vec![1.0]));
/// let model = Model::Factors(Factors { user, item, mean: 3.0, ..Factors::default() });
/// let report = ratings(&model, &[0, 1], &[0, 0], &[4.0, 4.0])?; // predictions 4 and 5
/// assert_eq!((report.mae.value, report.ratings), (0.5, 2));
/// # Ok::<(), veridical_embed::Error>(())
/// ```
///
/// # Errors
/// [`veridical_core::Error::Unfit`] without ratings, for a model that does not predict ratings, and for predictions
/// that are not finite.
pub fn ratings(model: &Model, user: &[u32], item: &[u32], rating: &[f32]) -> Result<RatingReport> {
    if rating.is_empty() {
        return Err(Error::unfit("no ratings are held out to evaluate on: choose another ⟨split⟩"));
    }
    let predicted = model.predict(user, item)?;
    if let Some(at) = predicted.iter().position(|p| !p.is_finite()) {
        let (u, i, p) = (user[at], item[at], predicted[at]);
        return Err(Error::unfit(format!(
            "the rating of item number {i} by user number {u} is {p}"
        )));
    }
    let n_users = user.iter().max().map_or(0, |u| *u as usize + 1);
    let mean = |measure: fn(f64) -> f64| {
        let mut by_user = vec![(0.0, 0.0); n_users];
        for ((&u, p), r) in user.iter().zip(&predicted).zip(rating) {
            let of_user = &mut by_user[u as usize];
            of_user.0 += measure(f64::from(*p) - f64::from(*r));
            of_user.1 += 1.0;
        }
        by_user.retain(|of_user| of_user.1 > 0.0);
        let n: f64 = rating.len() as f64;
        let m = by_user.iter().map(|of_user| of_user.0).sum::<f64>() / n;
        let users = by_user.len() as f64;
        let squares: f64 = by_user.iter().map(|(sum, count)| (sum - m * count).powi(2)).sum();
        let error =
            if users > 1.0 { (users / (users - 1.0) * squares).sqrt() / n } else { f64::INFINITY };
        (m, error, by_user.len() as u64)
    };
    let (mae, error, users) = mean(f64::abs);
    let over_users = |value: f64, error: f64, users: u64| {
        Estimate::new(value, error, users.saturating_sub(1) as f64, users)
    };
    let mae = over_users(mae, error, users);
    let (square, error, users) = mean(|e| e * e);
    let root = square.sqrt();
    // Perfect predictions: the standard error is 0, not 0 / 0.
    let error = if root > 0.0 { error / (2.0 * root) } else { 0.0 };
    Ok(RatingReport { rmse: over_users(root, error, users), mae, ratings: rating.len() as u64 })
}
