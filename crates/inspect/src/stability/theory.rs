//! The bounds of paper 000, evaluated for these runs. Bounds without constants are rates: they describe how a quantity
//! scales, not how large it is, and never enter a verdict.

use serde::Serialize;
use veridical_features::FeatureSpec;

use crate::stability::{Comparison, TargetAlignment};

/// The number of signal directions assumed for proposition 3.
const SPARSITY: f64 = 8.0;
/// The error and divergence assumed for proposition 4.
const EPSILON: f64 = 0.1;
const DIVERGENCE: f64 = 1.0;
/// A signal below this part of the noise is the rounding of their difference.
const NO_SIGNAL: f64 = 1e-3;
/// The delta of lemma 1.
const DELTA: f64 = 0.05;

/// The bounds of paper 000 for the runs of a report.
#[derive(Clone, Debug, Serialize)]
pub struct Theory {
    /// Proposition 3: s_e / s_h, the noise of a coordinate over its signal, raw and aligned; `None` for unequal dimensions, and
    /// inside where the noise is as large as the coordinates, so that no signal is left.
    pub noise_to_signal: Option<[Option<f64>; 2]>,
    /// Proposition 3 as a rate: (s_e^2 / s_h^2) (q / n) ln(d / q) with q = min(8, d / 2), raw and aligned.
    pub estimation_rate: Option<[Option<f64>; 2]>,
    /// Proposition 4 as a rate, with epsilon 0.1 and divergence 1: the terms of m directions and of n ids.
    pub alignment_rate: Option<[f64; 2]>,
    /// Lemma 1 as stated in the paper: 1 - sqrt(delta) E[1[Y = Y'] K] at delta 0.05.
    pub nadaraya_watson_risk: Option<f64>,
}

/// Evaluates the bounds.
pub fn theory(
    comparison: &Comparison,
    spec: &FeatureSpec,
    target: Option<&TargetAlignment>,
) -> Theory {
    let (n, d) = (comparison.ids as f64, comparison.dims[0] as f64);
    let noise_to_signal = comparison.coordinates.as_ref().map(|c| {
        [&c.variance, &c.aligned_variance].map(|variance| {
            let noise = variance.iter().sum::<f64>() / variance.len() as f64;
            // The size of a coordinate includes signal and noise.
            let signal = c.size * c.size - noise;
            (signal > NO_SIGNAL * noise).then(|| (noise / signal).sqrt())
        })
    });
    let q = SPARSITY.min(d / 2.0).max(1.0);
    let rate = |ratio: f64| ratio * ratio * q / n * (d / q).ln();
    let m = spec.n_directions() as f64;
    let second_moment = spec.kernel().second_moment(spec.input_dim(), spec.length_scale());
    let alignment_rate = target.zip(second_moment).map(|(target, second_moment)| {
        let directions = -m * EPSILON * EPSILON / (16.0 * (d + 2.0));
        let ids = -(target.ids as f64) * EPSILON * EPSILON / (64.0 * (1.0 + DIVERGENCE));
        [second_moment / (EPSILON * EPSILON) * directions.exp(), ids.exp()]
    });
    Theory {
        noise_to_signal,
        estimation_rate: noise_to_signal.map(|ratios| ratios.map(|ratio| ratio.map(rate))),
        alignment_rate,
        nadaraya_watson_risk: target.map(|t| 1.0 - DELTA.sqrt() * t.same_label),
    }
}
