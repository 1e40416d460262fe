//! Bias and variance of one estimated kernel value, iid and orthogonal directions.

use serde::Deserialize;
use veridical::{Error, Result};
use veridical_core::stats::Moments;
use veridical_core::{Job, Seed, Stream};
use veridical_features::{Directions, FeatureMap, FeatureSpec, Normalize};

use crate::{Row, lab};

/// Normal quantile at 1 - 0.05 / (2 x 16): sixteen intervals that hold together with 95 %.
const SIMULTANEOUS_Z: f64 = 2.955;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KernelErrorConfig {
    input_dim: usize,
    length_scale: f64,
    distance: f64,
    directions: Vec<usize>,
    seeds: u64,
    quick_seeds: u64,
}

pub(super) fn run(config: &str, quick: bool, job: &Job<'_>) -> Result<Vec<Row>> {
    let config: KernelErrorConfig = toml::from_str(config).map_err(|e| {
        Error::damaged(format!("000-kernel-error: the configuration is damaged: {e}"), "")
    })?;
    let seeds = if quick { config.quick_seeds } else { config.seeds };
    let d = config.input_dim;
    let pair = pair_at(d, config.distance)?;
    let value = |distance: f64| (-0.5 * (distance / config.length_scale).powi(2)).exp();
    let (k, k2) = (value(config.distance), value(2.0 * config.distance));
    let bar = job.progress("running", "seeds", Some(2 * seeds * config.directions.len() as u64));
    let mut rows = Vec::new();
    for family in [Directions::Iid, Directions::Orthogonal] {
        for &m in &config.directions {
            let variance = (1.0 + k2 - 2.0 * k * k) / (2.0 * m as f64);
            let (mut errors, mut squares) = (Moments::default(), Moments::default());
            for seed in 0..seeds {
                job.check()?;
                let error = estimate(&pair, d, m, seed, family, config.length_scale)? - k;
                errors.push(error);
                squares.push(error * error / variance);
                bar.advance(1);
            }
            let over_seeds = |moments: &Moments| {
                let half = SIMULTANEOUS_Z * (moments.variance() / seeds as f64).sqrt();
                let interval = [moments.mean() - half, moments.mean() + half];
                lab::between(moments.mean(), interval, seeds as usize)
            };
            let bias = over_seeds(&errors);
            rows.push(Row {
                theory: Some(0.0),
                holds: Some(bias.low <= 0.0 && 0.0 <= bias.high),
                ..Row::new(format!("mean error, {}, m = {m}", family.name()), bias)
            });
            let ratio = over_seeds(&squares);
            rows.push(Row {
                theory: Some(1.0),
                holds: Some(match family {
                    Directions::Iid => ratio.low <= 1.0 && 1.0 <= ratio.high,
                    _ => ratio.high < 1.0,
                }),
                ..Row::new(format!("variance / iid formula, {}, m = {m}", family.name()), ratio)
            });
        }
    }
    Ok(rows)
}

/// Two rows at `distance` in a random direction.
fn pair_at(dim: usize, distance: f64) -> Result<Vec<f32>> {
    let mut direction = vec![0.0; dim];
    Stream::new(Seed::new(0)?, "000-kernel-error").at(0, 0).fill_normals(&mut direction);
    let norm = direction.iter().map(|x| x * x).sum::<f64>().sqrt();
    let end = direction.iter().map(|x| (x / norm * distance) as f32);
    Ok(vec![0.0; dim].into_iter().chain(end).collect())
}

fn estimate(
    pair: &[f32],
    dim: usize,
    m: usize,
    seed: u64,
    family: Directions,
    length_scale: f64,
) -> Result<f64> {
    let spec = FeatureSpec::params(dim, 2 * m)
        .seed(seed)
        .directions(family)
        .length_scale(length_scale)
        .normalize(Normalize::None)
        .build()?;
    let phi = FeatureMap::new(&spec)?.transform(veridical_core::Rows::new(pair, dim)?)?;
    let (a, b) = phi.split_at(2 * m);
    Ok(a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum())
}
