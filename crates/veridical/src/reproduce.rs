//! `veridical reproduce`: experiments that check the papers' claims, each with its rule written down
//! before it runs.

use serde::{Deserialize, Serialize};
use veridical_core::stats::Moments;
use veridical_core::{Seed, Stream, interrupt};
use veridical_features::{Directions, FeatureMap, FeatureSpec, Normalize};

use crate::{Error, Observer, Result};

/// An experiment that can be run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Experiment {
    /// `<paper>-<table>`.
    pub id: &'static str,
    /// What the paper says.
    pub claim: &'static str,
    /// When the claim counts as replicated; written before the run.
    pub rule: &'static str,
    /// Choices where the paper is silent or contradicts itself.
    pub deviations: &'static [&'static str],
    #[serde(skip)]
    config: &'static str,
    #[serde(skip)]
    run: fn(&str, bool, &dyn Observer) -> Result<Vec<Row>>,
}

/// Every experiment.
pub const REGISTRY: &[Experiment] = &[Experiment {
    id: "000-kernel-error",
    claim: "Paper 000, section 5: <phi, phi'> approximates the kernel with m directions; its error \
            falls as 1/sqrt(m)",
    rule: "replicated if, for every m, the interval of the mean error holds 0 and the interval of the \
           variance ratio to (1 + k(2 delta) - 2 k(delta)^2) / (2m) holds 1 for iid directions and lies \
           below 1 for orthogonal ones; the 16 intervals hold together with 95 % (Bonferroni)",
    deviations: &[
        "the paper gives a rate, no numbers: the variance of iid features is the standard one",
        "paper 000 draws iid directions; orthogonal ones (Yu et al. 2016) are measured beside them",
    ],
    config: include_str!("../../../experiments/000-kernel-error/config.toml"),
    run: kernel_error,
}];

/// Finds an experiment.
///
/// # Errors
/// [`Error::Usage`] lists the ids there are.
pub fn find(id: &str) -> Result<&'static Experiment> {
    REGISTRY.iter().find(|experiment| experiment.id == id).ok_or_else(|| {
        let ids: Vec<&str> = REGISTRY.iter().map(|experiment| experiment.id).collect();
        Error::Usage(format!("there is no experiment `{id}`; there are: {}", ids.join(", ")))
    })
}

impl Experiment {
    /// Its configuration, as TOML.
    pub fn config(&self) -> &'static str {
        self.config
    }

    /// Runs it; `quick` takes fewer seeds.
    ///
    /// # Errors
    /// Whatever stops the run.
    pub fn run(&self, quick: bool, observer: &dyn Observer) -> Result<Outcome> {
        let rows = (self.run)(self.config, quick, observer)?;
        let held = rows.iter().filter(|row| row.holds).count();
        let verdict = match held {
            n if n == rows.len() => "replicated",
            0 => "refuted",
            _ => "partly",
        };
        let Self { id, claim, rule, deviations, .. } = *self;
        Ok(Outcome { id, claim, rule, deviations, quick, verdict, rows })
    }
}

/// What an experiment found.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The experiment.
    pub id: &'static str,
    /// What the paper says.
    pub claim: &'static str,
    /// The rule of the verdict.
    pub rule: &'static str,
    /// Choices where the paper is silent or contradicts itself.
    pub deviations: &'static [&'static str],
    /// Fewer seeds than the configuration says.
    pub quick: bool,
    /// replicated, partly or refuted.
    pub verdict: &'static str,
    /// One entry per measured number.
    pub rows: Vec<Row>,
}

/// One measured number.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// The value the theory or the paper gives.
    pub expected: f64,
    /// Our value.
    pub measured: f64,
    /// Its interval, at the level the rule names.
    pub interval: [f64; 2],
    /// How many seeds.
    pub seeds: u64,
    /// Whether the rule holds here.
    pub holds: bool,
}

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

fn kernel_error(config: &str, quick: bool, observer: &dyn Observer) -> Result<Vec<Row>> {
    let config: KernelErrorConfig = toml::from_str(config).map_err(|e| {
        Error::Usage(format!("000-kernel-error: the configuration is damaged: {e}"))
    })?;
    let seeds = if quick { config.quick_seeds } else { config.seeds };
    let d = config.input_dim;
    let pair = pair_at(d, config.distance)?;
    let value = |distance: f64| (-0.5 * (distance / config.length_scale).powi(2)).exp();
    let (k, k2) = (value(config.distance), value(2.0 * config.distance));
    let bar =
        observer.progress("running", "seeds", Some(2 * seeds * config.directions.len() as u64));
    let mut rows = Vec::new();
    for family in [Directions::Iid, Directions::Orthogonal] {
        for &m in &config.directions {
            let variance = (1.0 + k2 - 2.0 * k * k) / (2.0 * m as f64);
            let (mut errors, mut squares) = (Moments::default(), Moments::default());
            for seed in 0..seeds {
                interrupt::check()?;
                let error = estimate(&pair, d, m, seed, family, config.length_scale)? - k;
                errors.push(error);
                squares.push(error * error / variance);
                bar.advance(1);
            }
            let interval = |moments: &Moments| {
                let half = SIMULTANEOUS_Z * (moments.variance() / seeds as f64).sqrt();
                [moments.mean() - half, moments.mean() + half]
            };
            let bias = interval(&errors);
            rows.push(Row {
                what: format!("mean error, {}, m = {m}", family.name()),
                expected: 0.0,
                measured: errors.mean(),
                interval: bias,
                seeds,
                holds: bias[0] <= 0.0 && 0.0 <= bias[1],
            });
            let ratio = interval(&squares);
            rows.push(Row {
                what: format!("variance / iid formula, {}, m = {m}", family.name()),
                expected: 1.0,
                measured: squares.mean(),
                interval: ratio,
                seeds,
                holds: match family {
                    Directions::Iid => ratio[0] <= 1.0 && 1.0 <= ratio[1],
                    _ => ratio[1] < 1.0,
                },
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
    let phi = FeatureMap::new(&spec)?.transform(pair)?;
    let (a, b) = phi.split_at(2 * m);
    Ok(a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum())
}
