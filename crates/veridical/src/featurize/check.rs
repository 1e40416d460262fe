//! `featurize check`: the kernel error of a spec, measured on a table and compared with the other families of
//! directions at the same D.
//!
//! Errors are measured on disjoint pairs of a random sample of rows; the error of a pair is |<phi(x), phi(y)> - k(x, y)|.
//! The spec's own numbers are for its single draw; families are compared over several seeds, starting with the spec's.

mod page;

use serde::Serialize;
use veridical_core::stats::{Moments, quantile};
use veridical_core::{Estimate, Job, Progress, Rows, settings};
use veridical_features::{Directions, FeatureMap, FeatureSpec, plan};
use veridical_io::{Input, Output, ReadOptions, Replace};

use super::sample::Sample;
use super::{Description, INFORMATIVE, describe, load_spec};
use crate::Result;

/// Number of sampled rows; pairs are half as many.
const SAMPLED_ROWS: usize = 8192;
/// Number of seeds per family.
const SEEDS: u64 = 8;
/// Two-sided 95 % quantile of Student's t with SEEDS - 1 degrees of freedom.
const T_95: f64 = 2.3646;
/// Maximum number of pairs in the scatter plot.
const SHOWN_PAIRS: usize = 1000;
/// Reason why a family that the kernel allows was not measured.
const OVERFLOWS: &str = "its projections of these rows overflow";

settings! {
    /// Settings of [`check()`].
    pub struct Check {
        /// Vector table (file or folder)
        pub data: Input = Input::default() => [positional(), required(), value("DATA")],
        /// Feature spec
        pub spec: Input = Input::default() => [required()],
        /// HTML report to write, with charts
        pub html: Option<Output> = None => [heading("Output")],
    } with {
        /// Whether an existing page is replaced.
        pub replace: Replace,
        /// How the table is read.
        pub read: ReadOptions,
    }
}

/// Distribution of the absolute kernel error over pairs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Errors {
    /// Mean absolute error.
    pub mean: f64,
    /// Median absolute error.
    pub median: f64,
    /// 95 % quantile of the absolute error.
    pub quantile_95: f64,
    /// 99 % quantile of the absolute error.
    pub quantile_99: f64,
    /// Maximum absolute error.
    pub max: f64,
}

impl Errors {
    fn of(errors: &[f64]) -> Self {
        let mut values = errors.to_vec();
        let mut at = |q| quantile(&mut values, q).unwrap_or(f64::NAN);
        Self {
            median: at(0.5),
            quantile_95: at(0.95),
            quantile_99: at(0.99),
            max: at(1.0),
            mean: errors.iter().sum::<f64>() / errors.len() as f64,
        }
    }
}

/// Error of one family of directions at the spec's D.
#[derive(Clone, Debug, Serialize)]
pub struct Family {
    /// Family of directions: `iid`, `orthogonal`, `hadamard` or `halton`.
    pub directions: &'static str,
    /// Mean absolute error of the pairs, averaged over seeds, with an interval over seeds.
    pub mean: Option<Estimate>,
    /// 95 % quantile of the absolute errors, averaged over seeds.
    pub quantile_95: Option<f64>,
    /// Reason why the family cannot be used with this kernel or these rows.
    pub refused: Option<String>,
}

/// Result of [`check()`].
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// Description of the spec.
    pub spec: Description,
    /// Path of the table.
    pub data: String,
    /// Number of rows in the table.
    pub rows: u64,
    /// Number of pairs measured.
    pub pairs: usize,
    /// Errors of the spec.
    pub errors: Errors,
    /// Theoretical root mean square error of iid directions.
    pub expected_iid_rms: f64,
    /// Measured root mean square error of the spec.
    pub rms: f64,
    /// Largest |u.h| over the sampled rows.
    pub largest_projection: f32,
    /// Fraction of kernel values below 0.05.
    pub near_zero: f64,
    /// Fraction of kernel values above 0.95.
    pub near_one: f64,
    /// Errors of all families of directions at the spec's D.
    pub families: Vec<Family>,
    /// Exact and estimated kernel values of some pairs, for the scatter plot.
    #[serde(skip)]
    shown: Vec<(f64, f64)>,
    /// Exact kernel values of all pairs, for the histogram.
    #[serde(skip)]
    values: Vec<f64>,
}

/// Measures the kernel error of a spec on a table.
///
/// # Errors
/// [`crate::Error::Io`] if the table cannot be read, [`crate::Error::InFile`] if it does not match the spec.
pub fn check(settings: &Check, job: &Job<'_>) -> Result<CheckReport> {
    let (spec, data, read) = (&load_spec(&settings.spec)?, &settings.data.source(), &settings.read);
    let sample = Sample::read(data, read, spec, SAMPLED_ROWS, job)?;
    let d = spec.input_dim();
    let map = FeatureMap::new(spec)?;
    let mut phi = vec![0.0; sample.rows.len() / d * spec.output_dim()];
    let refused = |error| Sample::refused(data, error);
    let rows = Rows::new(&sample.rows, d)?;
    let checked = map.transform_into(rows, &mut phi).map_err(refused)?;
    let normalized = spec.normalize().rows(rows)?;
    let value = |pair: &[f32], scale: f32| {
        let (x, y) = pair.split_at(d);
        let moved: Vec<f32> = x.iter().zip(y).map(|(x, y)| x + scale * (y - x)).collect();
        spec.kernel().value(x, &moved, spec.length_scale())
    };
    let values: Vec<f64> = normalized.chunks_exact(2 * d).map(|pair| value(pair, 1.0)).collect();
    let inner = |pair: &[f32]| {
        let (x, y) = pair.split_at(spec.output_dim());
        x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>()
    };
    let estimates: Vec<f64> = phi.chunks_exact(2 * spec.output_dim()).map(inner).collect();
    let errors: Vec<f64> = values.iter().zip(&estimates).map(|(k, e)| (e - k).abs()).collect();
    let n = errors.len() as f64;
    let variance = |(pair, k): (&[f32], &f64)| {
        (1.0 + value(pair, 2.0) - 2.0 * k * k) / spec.output_dim() as f64
    };
    let expected: f64 = normalized.chunks_exact(2 * d).zip(&values).map(variance).sum();
    let share =
        |outside: &dyn Fn(&f64) -> bool| values.iter().filter(|k| outside(k)).count() as f64 / n;
    let bar = job.progress("comparing", "draws", Some(Directions::ALL.len() as u64 * SEEDS));
    let mut families = Vec::new();
    for directions in Directions::ALL {
        families.push(family(spec, directions, &sample.rows, &bar)?);
    }
    Ok(CheckReport {
        spec: describe(spec),
        data: data.to_string(),
        rows: sample.n_rows,
        pairs: errors.len(),
        errors: Errors::of(&errors),
        expected_iid_rms: (expected / n).sqrt(),
        rms: (errors.iter().map(|e| e * e).sum::<f64>() / n).sqrt(),
        largest_projection: checked.largest_projection,
        near_zero: share(&|k| k < INFORMATIVE.start()),
        near_one: share(&|k| k > INFORMATIVE.end()),
        families,
        shown: values.iter().copied().zip(estimates).take(SHOWN_PAIRS).collect(),
        values,
    })
}

fn family(
    spec: &FeatureSpec,
    directions: Directions,
    rows: &[f32],
    progress: &Progress,
) -> Result<Family> {
    let empty =
        Family { directions: directions.name(), mean: None, quantile_95: None, refused: None };
    let spec = match spec.with_directions(directions) {
        Ok(spec) => spec,
        Err(why) => return Ok(Family { refused: Some(why.to_string()), ..empty }),
    };
    let (mut means, mut quantiles) = (Moments::default(), Moments::default());
    for offset in 0..SEEDS {
        progress.check()?;
        // Seeds wrap around at the maximum value.
        let seed = (spec.seed().get() + offset) & veridical_core::Seed::MAX;
        let drawn = spec.redrawn(seed, spec.output_dim())?;
        let errors = match plan::pair_errors(
            &drawn,
            Rows::new(rows, spec.input_dim())?,
            &[spec.n_directions()],
        ) {
            Ok(errors) => Errors::of(&errors.concat()),
            // The spec's own seed was measured above.
            Err(_) => return Ok(Family { refused: Some(OVERFLOWS.to_owned()), ..empty }),
        };
        means.push(errors.mean);
        quantiles.push(errors.quantile_95);
        progress.advance(1);
    }
    let spread = T_95 * (means.variance() / (SEEDS - 1) as f64).sqrt();
    let interval = [means.mean() - spread, means.mean() + spread];
    let pairs = rows.len() / (2 * spec.input_dim());
    let mean = Estimate::with_interval(means.mean(), interval, pairs as u64).with_seeds(SEEDS);
    Ok(Family { mean: Some(mean), quantile_95: Some(quantiles.mean()), ..empty })
}
