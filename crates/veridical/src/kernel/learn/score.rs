//! Scores of models on held-out rows, and the textbook baselines.

use rayon::prelude::*;
use veridical_core::{Estimate, Seed};
use veridical_kernels::machine::log_sum_exp;
use veridical_learn::{Folds, Logistic, LogisticSettings, RidgePath};

use super::data::Material;
use super::fit::{best, chosen_on, powers, root_mean_square};
use super::{Learn, Score, Tried};
use crate::Result;
use crate::explain::matrix;

/// Penalties C of the logistic baseline.
const CS: [f64; 7] = [1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0];
/// Folds of the logistic baseline.
const FOLDS: usize = 4;

/// The mean or the most frequent class, and ridge or logistic regression on the inputs.
pub(super) fn baselines(
    settings: &Learn,
    material: &Material,
) -> Result<[(&'static str, Vec<f64>); 2]> {
    let (n, t) = (material.train.n(), material.targets());
    let mut mean = vec![0.0; t];
    for row in material.train.y.chunks_exact(t) {
        mean.iter_mut().zip(row).for_each(|(m, y)| *m += y / n as f64);
    }
    let constant: Vec<f64> = (0..material.test.n()).flat_map(|_| mean.clone()).collect();
    if let Some(labels) = &material.train.labels {
        let rows = matrix(&material.train.x, material.dim)?;
        let fitting = LogisticSettings { tolerance: 1e-4, ..LogisticSettings::default() };
        let seed = Seed::new(settings.split_seed)?;
        let c = match n >= 2 * FOLDS {
            true => {
                let folds = Folds { n: FOLDS, seed };
                Logistic::choose_penalty(rows, labels, t, &CS, folds, &fitting)?.c
            }
            false => 1.0,
        };
        let fitted = Logistic::fit(rows, labels, t, &LogisticSettings { c, ..fitting }, None)?;
        let scores = fitted.scores(&material.test.x);
        return Ok([("the most frequent class", constant), ("logistic regression", scores)]);
    }
    let wide = |x: &[f32]| -> Vec<f64> { x.par_iter().map(|&x| f64::from(x)).collect() };
    let (x, asked) = (wide(&material.train.x), wide(&material.test.x));
    let held_out = chosen_on(n, settings)?;
    let (mut parts, mut ys) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for (i, (x, y)) in
        x.chunks_exact(material.dim).zip(material.train.y.chunks_exact(t)).enumerate()
    {
        let side = usize::from(held_out.binary_search(&i).is_ok());
        parts[side].extend_from_slice(x);
        ys[side].extend_from_slice(y);
    }
    let path = RidgePath::new(matrix(&parts[0], material.dim)?, matrix(&ys[0], t)?, None)?;
    let tried: Vec<Tried> = powers()
        .into_iter()
        .map(|lambda| {
            let found = path.solve(lambda).predict(&parts[1]);
            let off: Vec<f64> = found.iter().zip(&ys[1]).map(|(f, y)| f - y).collect();
            Tried { lambda, error: root_mean_square(&off) }
        })
        .collect();
    let lambda = best(&tried)?;
    let all = RidgePath::new(matrix(&x, material.dim)?, matrix(&material.train.y, t)?, None)?;
    Ok([("the mean", constant), ("linear ridge", all.solve(lambda).predict(&asked))])
}

pub(super) fn largest(scores: &[f64], t: usize) -> Vec<u32> {
    let best =
        |row: &[f64]| (1..t).fold(0, |best, c| if row[c] > row[best] { c } else { best }) as u32;
    scores.chunks_exact(t).map(best).collect()
}

/// Squared errors of rows, or 1 for a mistake.
pub(super) fn losses(predicted: &[f64], material: &Material, t: usize) -> Vec<f64> {
    match &material.test.labels {
        Some(labels) => {
            let found = largest(predicted, t);
            found.iter().zip(labels).map(|(a, b)| f64::from(u8::from(a != b))).collect()
        }
        None => predicted
            .chunks_exact(t)
            .zip(material.test.y.chunks_exact(t))
            .map(|(f, y)| f.iter().zip(y).map(|(f, y)| (f - y).powi(2)).sum::<f64>() / t as f64)
            .collect(),
    }
}

pub(super) fn scored(
    model: String,
    predicted: &[f64],
    is_logits: bool,
    material: &Material,
    t: usize,
) -> Score {
    let mut score = Score { model, rmse: None, r2: None, accuracy: None, cross_entropy: None };
    let losses = losses(predicted, material, t);
    let n = losses.len() as u64;
    if let Some(labels) = &material.test.labels {
        let right = losses.iter().filter(|loss| **loss == 0.0).count() as u64;
        score.accuracy = Some(Estimate::share(right, n));
        if is_logits {
            let of = |(row, &label): (&[f64], &u32)| log_sum_exp(row) - row[label as usize];
            score.cross_entropy = Estimate::mean(predicted.chunks_exact(t).zip(labels).map(of))
                .map(|loss| loss.within(0.0, f64::INFINITY));
        }
        return score;
    }
    let square = Estimate::mean(losses.iter().copied())
        .unwrap_or_else(|| Estimate::point(losses.iter().sum::<f64>() / losses.len() as f64, n));
    let root = |x: f64| x.max(0.0).sqrt();
    score.rmse =
        Some(Estimate::with_interval(root(square.value), [root(square.low), root(square.high)], n));
    let mut mean = vec![0.0; t];
    for row in material.test.y.chunks_exact(t) {
        mean.iter_mut().zip(row).for_each(|(m, y)| *m += y / n as f64);
    }
    let total: f64 = material
        .test
        .y
        .chunks_exact(t)
        .map(|row| row.iter().zip(&mean).map(|(y, m)| (y - m).powi(2)).sum::<f64>())
        .sum();
    let left = losses.iter().sum::<f64>() * t as f64;
    score.r2 = (total > 0.0).then(|| 1.0 - left / total);
    score
}
