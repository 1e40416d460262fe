//! Gaussian kernel density estimates.
//!
//! Estimate   f(x) = 1/(n h) sum_i exp(-((x - x_i)/h)^2 / 2) / sqrt(2 pi)
//! Bandwidth  h = 0.9 min(sd, IQR/1.34) n^(-1/5)                          Silverman (1986), eq. 3.31
//!
//! Terms farther than 6 h are omitted: each is below e^-18 of the largest. Values that are all equal are drawn as a
//! narrow bump. All curves are evaluated on one grid.

use serde::Serialize;
use veridical_core::stats::{Moments, quantile};

use super::{Axis, Chart, Title, names, range};

const GRID: usize = 200;
/// The cutoff of terms, in bandwidths.
const REACH: f64 = 6.0;
/// The margin of the grid beyond the values, in bandwidths.
const MARGIN: f64 = 3.0;

/// Distributions as smooth curves of area 1.
///
/// ```
/// use veridical_report::{Axis, Density};
///
/// let chart = Density::new("Inner products", "Curves that agree are runs that agree.", Axis::new("<h, h'>"))
///     .samples("run 0", &[0.1, 0.2, 0.25, 0.4])
///     .samples("run 1", &[0.12, 0.19, 0.27, 0.37]);
/// ```
#[derive(Clone, Debug)]
pub struct Density {
    title: Title,
    x: Axis,
    samples: Vec<(String, Vec<f64>)>,
}

#[derive(Serialize)]
struct Drawing<'a> {
    x: &'a Axis,
    grid: Vec<f64>,
    series: Vec<Series<'a>>,
}

#[derive(Serialize)]
struct Series<'a> {
    name: &'a str,
    n: usize,
    density: Vec<f64>,
}

impl Density {
    /// Makes a chart without curves.
    pub fn new(caption: impl Into<String>, explain: impl Into<String>, x: Axis) -> Self {
        Self { title: Title::new(caption, explain), x, samples: Vec::new() }
    }

    /// Adds the curve of the finite values of a sample.
    pub fn samples(mut self, name: impl Into<String>, values: &[f64]) -> Self {
        let mut values: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
        values.sort_unstable_by(f64::total_cmp);
        self.samples.push((name.into(), values));
        self
    }
}

impl From<Density> for Chart {
    fn from(Density { title, x, samples }: Density) -> Self {
        let widths: Vec<f64> = samples.iter().map(|(_, sorted)| bandwidth(sorted)).collect();
        let grid = grid(&samples, &widths);
        let curve = |((name, sorted), h): (&'_ (String, Vec<f64>), &f64)| {
            (name.clone(), sorted.len(), grid.iter().map(|x| density(sorted, *h, *x)).collect())
        };
        let curves: Vec<(String, usize, Vec<f64>)> =
            samples.iter().zip(&widths).filter(|((_, s), _)| !s.is_empty()).map(curve).collect();
        let series = curves.iter().map(|(name, n, density)| Series {
            name,
            n: *n,
            density: density.clone(),
        });
        let alt = format!(
            "Density: {}. {}; curves: {}.",
            title.caption,
            range(&x.name, samples.iter().flat_map(|(_, sorted)| sorted).copied()),
            names(samples.iter().map(|(name, _)| name.as_str()))
        );
        let series = series.collect();
        Self::new(title, "density", alt, &Drawing { x: &x, grid: grid.clone(), series })
    }
}

fn bandwidth(sorted: &[f64]) -> f64 {
    let mut moments = Moments::default();
    sorted.iter().for_each(|x| moments.push(*x));
    let n = sorted.len() as f64;
    let sd = (moments.variance() * n / (n - 1.0)).sqrt();
    let mut copy = sorted.to_vec();
    let mut at = |q| quantile(&mut copy, q).unwrap_or(0.0);
    let spread = (at(0.75) - at(0.25)) / 1.34;
    // If half of the values are equal, the IQR is 0: use the sd alone.
    let scale = if spread > 0.0 { sd.min(spread) } else { sd };
    let h = 0.9 * scale * n.powf(-0.2);
    if h > 0.0 && h.is_finite() { h } else { (moments.mean().abs() * 1e-2).max(1e-6) }
}

fn density(sorted: &[f64], h: f64, x: f64) -> f64 {
    let first = sorted.partition_point(|value| *value < x - REACH * h);
    let last = sorted.partition_point(|value| *value <= x + REACH * h);
    let term = |value: &f64| (-0.5 * ((x - value) / h).powi(2)).exp();
    let sum: f64 = sorted[first..last].iter().map(term).sum();
    sum / (sorted.len() as f64 * h * std::f64::consts::TAU.sqrt())
}

fn grid(samples: &[(String, Vec<f64>)], widths: &[f64]) -> Vec<f64> {
    let ends = samples.iter().zip(widths).filter_map(|((_, sorted), h)| {
        Some([sorted.first()? - MARGIN * h, sorted.last()? + MARGIN * h])
    });
    let Some([low, high]) = ends.reduce(|[a, b], [c, d]| [a.min(c), b.max(d)]) else {
        return Vec::new();
    };
    let point = |i: usize| {
        let t = i as f64 / (GRID - 1) as f64;
        low * (1.0 - t) + high * t
    };
    (0..GRID).map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_density_is_the_sum_of_the_header() {
        // sd = 1.5811, IQR / 1.34 = 2 / 1.34 = 1.4925, n^(-1/5) = 0.72478
        let sorted = [1.0, 2.0, 3.0, 4.0, 5.0];
        let h = bandwidth(&sorted);
        assert!((h - 0.9 * 2.0 / 1.34 * 5f64.powf(-0.2)).abs() < 1e-15);
        for x in [-2.0, 0.5, 3.0, 4.25] {
            let kernel = |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
            let direct = sorted.iter().map(|v| kernel((x - v) / h)).sum::<f64>() / (5.0 * h);
            // Omitted terms: at most 5 kernels of e^-18 / sqrt(2 pi), over 5 h.
            assert!((density(&sorted, h, x) - direct).abs() <= 7e-9 / h);
        }
    }

    #[test]
    fn the_area_under_a_curve_is_one() {
        let values: Vec<f64> = (0..500).map(|i| f64::from(i * i % 379)).collect();
        let mut sorted = values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let h = bandwidth(&sorted);
        let grid = grid(&[("x".into(), sorted.clone())], &[h]);
        let step = grid[1] - grid[0];
        let area: f64 = grid.iter().map(|x| density(&sorted, h, *x)).sum::<f64>() * step;
        // Each kernel loses at most its tail beyond 3 h, 0.00135, on either side; the sum over a grid finer than
        // h is exact to far less.
        assert!(step < h && (area - 1.0).abs() < 2.0 * 0.00135, "{area}");
    }

    #[test]
    fn equal_values_and_no_values_are_drawn() {
        for values in [vec![], vec![3.0], vec![0.0; 9], vec![1.0, f64::NAN]] {
            let chart = Density::new("c", "e", Axis::new("x")).samples("s", &values);
            assert!(!Chart::from(chart).numbers.contains("null"));
        }
    }
}
