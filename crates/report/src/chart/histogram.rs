//! Histograms with common bins of equal width.
//!
//! Bin width: 2 IQR n^(-1/3) of all values together (Freedman & Diaconis 1981), but between 8 and 60 bins.

use serde::Serialize;
use veridical_core::stats::quantile;

use super::{Axis, Chart, Title, names};
use crate::html::brief;

const FEWEST_BINS: usize = 8;
const MOST_BINS: usize = 60;

/// A histogram; several samples share their bins and are shown as fractions.
///
/// ```
/// use veridical_report::{Axis, Histogram};
///
/// let chart = Histogram::new("Kernel values", "Values near 0 say nothing about their pair.", Axis::new("k(x, y)"))
///     .samples("pairs", &[0.1, 0.2, 0.25, 0.4]);
/// ```
#[derive(Clone, Debug)]
pub struct Histogram {
    title: Title,
    x: Axis,
    samples: Vec<(String, Vec<f64>)>,
}

#[derive(Serialize)]
struct Drawing<'a> {
    x: &'a Axis,
    /// The bin edges, one more than bins.
    edges: Vec<f64>,
    series: Vec<Series<'a>>,
}

#[derive(Serialize)]
struct Series<'a> {
    name: &'a str,
    n: usize,
    counts: Vec<u64>,
}

impl Histogram {
    /// Makes a chart without values.
    pub fn new(caption: impl Into<String>, explain: impl Into<String>, x: Axis) -> Self {
        Self { title: Title::new(caption, explain), x, samples: Vec::new() }
    }

    /// Adds the finite values of a sample.
    pub fn samples(mut self, name: impl Into<String>, values: &[f64]) -> Self {
        let values = values.iter().copied().filter(|x| x.is_finite()).collect();
        self.samples.push((name.into(), values));
        self
    }
}

impl From<Histogram> for Chart {
    fn from(Histogram { title, x, samples }: Histogram) -> Self {
        let mut all: Vec<f64> = samples.iter().flat_map(|(_, values)| values).copied().collect();
        let edges = edges(&mut all);
        let series = samples.iter().map(|(name, values)| Series {
            name,
            n: values.len(),
            counts: counts(values, &edges),
        });
        let series: Vec<Series<'_>> = series.collect();
        let alt = format!(
            "Histogram: {}. {} values of {} from {} to {}; samples: {}.",
            title.caption,
            all.len(),
            x.name,
            brief(edges[0]),
            brief(edges[edges.len() - 1]),
            names(samples.iter().map(|(name, _)| name.as_str()))
        );
        Self::new(title, "histogram", alt, &Drawing { x: &x, edges: edges.clone(), series })
    }
}

/// The bin edges in ascending order; reorders the values.
fn edges(values: &mut [f64]) -> Vec<f64> {
    let mut at = |q| quantile(values, q).unwrap_or(0.0);
    let (low, high, spread) = (at(0.0), at(1.0), at(0.75) - at(0.25));
    // Values that are all equal are in the middle of one unit. Halves, since high - low may overflow.
    let (low, high) = if low < high { (low, high) } else { (low - 0.5, low + 0.5) };
    let width = 2.0 * spread / (values.len() as f64).cbrt();
    // The cast saturates for NaN and values that are too large.
    let bins = ((high - low) / width).ceil() as usize;
    let bins = if width > 0.0 { bins.clamp(FEWEST_BINS, MOST_BINS) } else { FEWEST_BINS };
    // Rounding must not reverse two edges that are almost equal.
    let edge = |before: &mut f64, i: usize| {
        let t = i as f64 / bins as f64;
        *before = (low * (1.0 - t) + high * t).clamp(*before, high);
        Some(*before)
    };
    (0..=bins).scan(low, edge).collect()
}

/// The number of values in each bin; the last bin is closed.
fn counts(values: &[f64], edges: &[f64]) -> Vec<u64> {
    let bins = edges.len() - 1;
    let mut counts = vec![0; bins];
    for x in values {
        let above = edges.partition_point(|edge| edge <= x);
        counts[above.saturating_sub(1).min(bins - 1)] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bins_are_half_open_and_the_last_one_closed() {
        assert_eq!(counts(&[0.0, 0.5, 1.0, 1.0, 1.5, 2.0], &[0.0, 1.0, 2.0]), [2, 4]);
    }

    #[test]
    fn the_number_of_bins_is_that_of_freedman_and_diaconis() {
        // Range 1, IQR 1/2, n = 1,001: width 2 / 2 / 1001^(1/3) = 0.09997, so 11 bins.
        let mut values: Vec<f64> = (0..=1000).map(|i| f64::from(i) / 1000.0).collect();
        assert_eq!(edges(&mut values).len(), 12);
    }

    #[test]
    fn one_value_too_large_for_a_neighbor_is_counted() {
        let value = 1.876e270; // value - 0.5 rounds to value
        let edges = edges(&mut [value]);
        assert!(edges.is_sorted());
        assert_eq!(counts(&[value], &edges).iter().sum::<u64>(), 1);
    }

    proptest! {
        #[test]
        fn every_value_is_counted_once(values in prop::collection::vec(prop::num::f64::NORMAL, 0..50)) {
            let edges = edges(&mut values.clone());
            prop_assert!(edges.is_sorted());
            prop_assert_eq!(counts(&values, &edges).iter().sum::<u64>(), values.len() as u64);
        }
    }
}
