//! The error of the four families of directions against the number of directions, paired by seed.
//!
//! For each seed and family one map of 8 d directions is drawn; shorter ones are its prefixes. The
//! squared error is averaged over the pairs of a kind; families are compared on the same seeds:
//!
//! R = mean(e) / mean(e_iid),  its standard error sqrt(mean((e - R e_iid)^2) / n) / mean(e_iid)

use rayon::prelude::*;
use serde::Deserialize;
use veridical::{Error, Result};
use veridical_core::elementary::normal_quantile;
use veridical_core::{Job, Rows, Seed, Stream};
use veridical_features::{Directions, FeatureSpec, Kernel, Normalize, length_scale, plan};

use crate::{Row, lab};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    input_dims: Vec<usize>,
    multiples: Vec<f64>,
    pairs: usize,
    seeds: u64,
    quick_seeds: u64,
}

/// Kinds of pairs, in the order they stand in the rows.
const KINDS: [&str; 3] = ["near", "typical", "far"];
/// |x - y| of near pairs, about.
const NEAR: f64 = 0.3;
/// Rows whose median distance is the length scale.
const MEDIAN_ROWS: usize = 512;

pub(super) fn run(config: &str, quick: bool, job: &Job<'_>) -> Result<Vec<Row>> {
    let config: Config = toml::from_str(config).map_err(|e| {
        Error::damaged(format!("000-families: the configuration is damaged: {e}"), "")
    })?;
    let seeds = if quick { config.quick_seeds } else { config.seeds };
    let bar = job.progress("running", "draws", Some(seeds * 4 * config.input_dims.len() as u64));
    let mut rows = Vec::new();
    for &d in &config.input_dims {
        let m = |multiple: &f64| ((multiple * d as f64).round() as usize).max(1);
        let directions: Vec<usize> = config.multiples.iter().map(m).collect();
        let pairs = pairs(d, config.pairs)?;
        let spec = spec(d, 2 * directions.iter().copied().max().unwrap_or(1))?;
        let errors: Vec<Vec<Vec<f64>>> = Directions::ALL
            .into_iter()
            .map(|family| {
                let spec = spec.with_directions(family)?;
                let of_seed = |seed| {
                    job.check()?;
                    bar.advance(1);
                    Ok(squared_errors(&spec, seed, &pairs, &directions)?)
                };
                (0..seeds).into_par_iter().map(of_seed).collect()
            })
            .collect::<Result<_>>()?;
        report(d, &directions, &errors, &config, &mut rows);
    }
    Ok(rows)
}

fn spec(d: usize, output_dim: usize) -> Result<FeatureSpec> {
    let rows = Normalize::Unit.rows(Rows::new(&normals(MEDIAN_ROWS * d, 0)?, d)?)?;
    let l = length_scale::from_median(Rows::new(&rows, d)?, &Kernel::Gaussian)?;
    Ok(FeatureSpec::params(d, output_dim).length_scale(l).build()?)
}

fn normals(n: usize, place: u64) -> Result<Vec<f32>> {
    let mut x = vec![0.0; n];
    Stream::new(Seed::new(0)?, "000-families").at(0, place).fill_normals(&mut x);
    Ok(x.into_iter().map(|x| x as f32).collect())
}

/// `n` pairs of each kind, one after the other; rows are made unit by the map.
fn pairs(d: usize, n: usize) -> Result<Vec<f32>> {
    let x = Normalize::Unit.rows(Rows::new(&normals(n * d, 1)?, d)?)?;
    let y = Normalize::Unit.rows(Rows::new(&normals(n * d, 2)?, d)?)?;
    let mut rows = Vec::new();
    for kind in KINDS {
        for (x, y) in x.chunks_exact(d).zip(y.chunks_exact(d)) {
            rows.extend_from_slice(x);
            rows.extend(x.iter().zip(y).map(|(x, y)| match kind {
                "near" => x + NEAR as f32 * y,
                "typical" => *y,
                _ => -x,
            }));
        }
    }
    Ok(rows)
}

/// Mean squared errors of one draw, by m and then by kind.
fn squared_errors(
    spec: &FeatureSpec,
    seed: u64,
    pairs: &[f32],
    directions: &[usize],
) -> std::result::Result<Vec<f64>, veridical_features::Error> {
    let drawn = spec.redrawn(seed, spec.output_dim())?;
    let errors = plan::pair_errors(&drawn, Rows::new(pairs, spec.input_dim())?, directions)?;
    let of_kind = |errors: &[f64]| errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64;
    let per_kind = |errors: &Vec<f64>| -> Vec<f64> {
        errors.chunks_exact(errors.len() / KINDS.len()).map(of_kind).collect()
    };
    Ok(errors.iter().flat_map(per_kind).collect())
}

/// `errors[family][seed][m][kind]`, the last two in one list.
fn report(
    d: usize,
    directions: &[usize],
    errors: &[Vec<Vec<f64>>],
    config: &Config,
    rows: &mut Vec<Row>,
) {
    let claimed = |family: Directions, kind: &str, m: usize| {
        let structured = matches!(family, Directions::Orthogonal | Directions::Hadamard);
        structured && kind == "typical" && 2 * m >= d
    };
    let per_dim = config.multiples.iter().filter(|multiple| **multiple >= 0.5).count();
    let z = normal_quantile(1.0 - 0.025 / (2 * per_dim * config.input_dims.len()) as f64);
    for (i, m) in directions.iter().enumerate() {
        for (k, kind) in KINDS.into_iter().enumerate() {
            let column = |family: usize| errors[family].iter().map(move |e| e[i * KINDS.len() + k]);
            for (f, family) in Directions::ALL.into_iter().enumerate() {
                let what = format!("{}, {kind} pairs, d = {d}, m = {m}", family.name());
                let row = if family == Directions::Iid {
                    root_mean_square(format!("rms error, {what}"), column(f))
                } else {
                    let claim = claimed(family, kind, *m);
                    ratio(format!("mse / iid, {what}"), column(f), column(0), z, claim)
                };
                rows.push(row);
            }
        }
    }
}

fn root_mean_square(what: String, squares: impl Iterator<Item = f64> + Clone) -> Row {
    let n = squares.clone().count() as f64;
    let mean = squares.clone().sum::<f64>() / n;
    let variance = squares.map(|e| (e - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let error = normal_quantile(0.975) * (variance / n).sqrt();
    let interval = [(mean - error).max(0.0).sqrt(), (mean + error).sqrt()];
    let measured = lab::between(mean.sqrt(), interval, n as usize);
    Row::new(what, measured)
}

fn ratio(
    what: String,
    ours: impl Iterator<Item = f64> + Clone,
    iid: impl Iterator<Item = f64> + Clone,
    z: f64,
    claim: bool,
) -> Row {
    let n = ours.clone().count() as f64;
    let iid_mean = iid.clone().sum::<f64>() / n;
    let ratio = ours.clone().sum::<f64>() / n / iid_mean;
    let spread = ours.zip(iid).map(|(a, b)| (a - ratio * b).powi(2)).sum::<f64>() / (n - 1.0);
    let error = z * (spread / n).sqrt() / iid_mean;
    let measured = lab::between(ratio, [ratio - error, ratio + error], n as usize);
    Row { holds: claim.then_some(measured.high < 1.0), ..Row::new(what, measured) }
}
