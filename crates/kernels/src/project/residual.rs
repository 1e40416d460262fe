//! How far a sketch is from the exact kernel: both computed for 256 pairs of 32 samples at equal distances.
//!
//! The residual of a cosine k has a standard deviation of about sqrt((1 + k^2) / K), for a sketch of the whole kernel; layers that keep
//! exact factors make it smaller.

use serde::Serialize;
use veridical_core::Job;
use veridical_nets::{Float, Net};

use crate::Result;
use crate::tangent::{Examples, Normalization, Settings, kernel};

/// Samples of each side.
const SIDE: usize = 16;

/// Differences of sketched and exact cosines.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Residual {
    /// Differences, from smallest to largest.
    pub differences: Vec<f64>,
    /// Their root mean square.
    pub rms: f64,
    /// The root mean square that the variance of the sketch predicts, an upper bound; `None` for a Kronecker product.
    pub expected: Option<f64>,
}

/// Computes the residual of a sketched kernel on up to 256 pairs.
///
/// # Errors
/// The same as [`kernel`].
pub fn residual<T: Float>(
    net: &Net<T>,
    examples: &Examples<'_, T>,
    settings: &Settings,
    job: &Job<'_>,
) -> Result<Residual> {
    let count = (2 * SIDE).min(examples.len());
    let chosen: Vec<usize> = (0..count).map(|i| i * examples.len() / count).collect();
    let (rows, columns): (Vec<usize>, Vec<usize>) = match count {
        1 => (chosen.clone(), chosen),
        _ => chosen.chunks(2).map(|two| (two[0], two[two.len() - 1])).unzip(),
    };
    let (rows, columns) = (examples.select(&rows), examples.select(&columns));
    let of = |settings: Settings| {
        let settings = Settings { normalization: Normalization::Cosine, ..settings };
        kernel(net, &rows, Some(&columns), &settings, job)
    };
    let sketched = of(settings.clone())?.gram.values;
    let exact = of(Settings { sketch: None, ..settings.clone() })?.gram.values;
    let mut differences: Vec<f64> =
        sketched.iter().zip(&exact).map(|(a, b)| f64::from(*a) - f64::from(*b)).collect();
    differences.sort_by(f64::total_cmp);
    let mean =
        |squares: &mut dyn Iterator<Item = f64>| (squares.sum::<f64>() / exact.len() as f64).sqrt();
    let rms = mean(&mut differences.iter().map(|d| d * d));
    let joint = settings.sketch.as_ref().filter(|sketch| sketch.is_joint());
    let expected = joint.map(|sketch| {
        let dim = sketch.dim as f64;
        mean(&mut exact.iter().map(|k| (1.0 + f64::from(*k).powi(2)) / dim))
    });
    Ok(Residual { differences, rms, expected })
}
