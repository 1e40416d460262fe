//! The number of directions needed for a given error, and the error of a given number of directions.
//!
//! uniform   all pairs of a set of diameter R at once (Rahimi & Recht 2007, claim 1; lemma A.4 of paper
//!           000 lost its square):
//!           P(sup |error| >= eps) <= 2^8 (sigma R / eps)^2 exp(-m eps^2 / (4 (d + 2))), sigma^2 = E|u|^2
//! one pair  |error| <= eps with probability c: m = z^2 v / (2 eps^2), z the normal quantile at
//!           (1 + c) / 2, v = 1 + k(2 delta) - 2 k(delta)^2 at its largest
//! measured  the errors of n pairs drawn from the data: a bound on their mean by the empirical Bernstein
//!           inequality, on their 95 % quantile by order statistics. Candidates are tested from the
//!           largest down, stopping at the first that fails, so the smallest that passed holds with the stated
//!           confidence regardless of how many were tested.
//! alignment proposition 4 of paper 000, constants tracked through its proof (eps split in halves,
//!           lemma A.4 squared, Chernoff at lambda = n/16):
//!           2^10 (sigma R / eps)^2 exp(-m eps^2 / (16 (d + 2))) + sqrt(2) exp(-n eps^2 / (64 (1 + delta)))
//!
//! Only the measured bounds are suitable for choosing a size: the uniform bound is off by orders of magnitude, and the
//! alignment bound shows only the rate.

use rayon::prelude::*;
use veridical_core::Rows;
use veridical_core::elementary::normal_quantile;
use veridical_core::stats::{Moments, mean_upper_bound, quantile_bound_rank};

use crate::{Error, FeatureMap, FeatureSpec};

/// Quantile level of the second measured bound: the share of pairs that it covers.
pub const QUANTILE: f64 = 0.95;
/// Width of the range of errors: an estimate is in [-1, 1] and k in [0, 1].
const ERROR_RANGE: f64 = 2.0;

/// Set of rows on which a uniform bound holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Domain {
    /// Number of columns d.
    pub input_dim: usize,
    /// Second moment sigma^2 = E|u|^2 of a direction.
    pub second_moment: f64,
    /// Diameter R of the set.
    pub diameter: f64,
}

impl Domain {
    /// Returns the m for which all pairs have an error below `epsilon` with probability `confidence`.
    ///
    /// ```
    /// let unit = veridical_features::plan::Domain { input_dim: 128, second_moment: 128.0, diameter: 2.0 };
    /// assert_eq!(unit.uniform_directions(0.05, 0.99), 4_655_069.0);
    /// ```
    pub fn uniform_directions(self, epsilon: f64, confidence: f64) -> f64 {
        self.directions(epsilon, confidence, 4.0, 256.0)
    }

    /// Inverts [`uniform_directions`](Self::uniform_directions): returns the epsilon of m directions.
    pub fn uniform_epsilon(self, n_directions: usize, confidence: f64) -> f64 {
        invert(n_directions, |epsilon| self.uniform_directions(epsilon, confidence))
    }

    /// Returns the m directions and n labeled rows for which each term of proposition 4's bound is below half of
    /// 1 - `confidence`, with delta = 0.
    pub fn alignment_directions(self, epsilon: f64, confidence: f64) -> (f64, f64) {
        let rest = 1.0 - confidence;
        let rows = 64.0 / (epsilon * epsilon) * (2.0 * 2f64.sqrt() / rest).ln();
        (self.directions(epsilon, confidence, 16.0, 2048.0), rows.ceil())
    }

    /// Inverts the first term of [`alignment_directions`](Self::alignment_directions): returns the epsilon of m directions.
    pub fn alignment_epsilon(self, n_directions: usize, confidence: f64) -> f64 {
        invert(n_directions, |epsilon| self.alignment_directions(epsilon, confidence).0)
    }

    /// `factor` (d + 2) / eps^2 ln(`constant` (sigma R / eps)^2 / (1 - confidence))
    fn directions(self, epsilon: f64, confidence: f64, factor: f64, constant: f64) -> f64 {
        let squared = epsilon * epsilon;
        let spread = self.second_moment * self.diameter * self.diameter / squared;
        let log = (constant * spread / (1.0 - confidence)).ln();
        (factor * (self.input_dim + 2) as f64 / squared * log).ceil().max(1.0)
    }
}

/// The epsilon at which `directions`, a decreasing function, equals m.
fn invert(n_directions: usize, directions: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (1e-9f64, 1e9f64);
    for _ in 0..200 {
        let middle = (low * high).sqrt();
        if directions(middle) > n_directions as f64 { low = middle } else { high = middle }
    }
    high
}

/// Returns the m for which one fixed pair has an error below `epsilon` with probability `confidence`.
///
/// By the normal approximation, for iid directions and the worst distance.
///
/// ```
/// let m = veridical_features::plan::pair_directions(0.05, 0.95, 1.0);
/// assert_eq!(m, 769.0); // 1.96^2 / (2 * 0.05^2), rounded up
/// ```
pub fn pair_directions(epsilon: f64, confidence: f64, worst_variance: f64) -> f64 {
    let z = normal_quantile(0.5 + confidence / 2.0);
    (z * z * worst_variance / (2.0 * epsilon * epsilon)).ceil().max(1.0)
}

/// Inverts [`pair_directions`]: returns the epsilon of m directions.
pub fn pair_epsilon(n_directions: usize, confidence: f64, worst_variance: f64) -> f64 {
    let z = normal_quantile(0.5 + confidence / 2.0);
    z * (worst_variance / (2.0 * n_directions as f64)).sqrt()
}

/// Absolute kernel errors of sampled pairs of rows, with confidence bounds for all pairs of the data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Number of sampled pairs.
    pub n_pairs: usize,
    /// Mean absolute error of the sampled pairs.
    pub mean: f64,
    /// Upper confidence bound on the mean absolute error over all pairs.
    pub mean_bound: f64,
    /// 95 % quantile of the absolute errors of the sampled pairs.
    pub quantile: f64,
    /// Upper confidence bound on the 95 % quantile over all pairs; infinite if there are too few pairs.
    pub quantile_bound: f64,
}

impl Measured {
    /// Summarizes absolute errors with bounds at the given confidence.
    pub fn of(errors: &[f64], confidence: f64) -> Self {
        let mut moments = Moments::default();
        errors.iter().for_each(|e| moments.push(*e));
        let mut sorted = errors.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let rank = quantile_bound_rank(sorted.len(), QUANTILE, confidence);
        let quantile = veridical_core::stats::quantile(&mut sorted.clone(), QUANTILE);
        Self {
            n_pairs: errors.len(),
            mean: moments.mean(),
            mean_bound: mean_upper_bound(&moments, ERROR_RANGE, confidence),
            quantile: quantile.unwrap_or(f64::NAN),
            quantile_bound: rank.map_or(f64::INFINITY, |rank| sorted[rank - 1]),
        }
    }
}

/// Returns the smallest candidate that passes, testing from the largest down and stopping at the first whose bound
/// exceeds `epsilon`. `measured` is in ascending order of the candidates.
pub fn smallest(
    candidates: &[usize],
    measured: &[Measured],
    bound: impl Fn(&Measured) -> f64,
    epsilon: f64,
) -> Option<usize> {
    let from_largest = candidates.iter().zip(measured).rev();
    from_largest.take_while(|(_, measured)| bound(measured) <= epsilon).last().map(|(m, _)| *m)
}

/// Lists numbers of directions worth trying: 1, 2, 3, 4, 6, 8, 12, .. up to and including `largest`.
///
/// ```
/// assert_eq!(veridical_features::plan::candidates(8), [1, 2, 3, 4, 6, 8]);
/// ```
pub fn candidates(largest: usize) -> Vec<usize> {
    let powers = (0..usize::BITS - 1).map(|bit| 1usize << bit).take_while(|p| *p <= largest);
    let mut all: Vec<usize> =
        powers.flat_map(|p| [p, p + p / 2]).filter(|m| *m < largest).collect();
    all.dedup();
    all.push(largest);
    all
}

/// Computes the absolute kernel errors of disjoint pairs of rows (0 and 1, 2 and 3, ..) for each candidate.
///
/// The `candidates` are ascending and the last is the number of directions of `spec`. Shorter maps are prefixes of the
/// longest, so a single pass covers them all.
///
/// # Errors
/// The same as [`FeatureMap::transform_into`].
pub fn pair_errors(
    spec: &FeatureSpec,
    rows: Rows<'_, f32>,
    candidates: &[usize],
) -> Result<Vec<Vec<f64>>, Error> {
    let (d, width) = (spec.input_dim(), spec.output_dim());
    let map = FeatureMap::new(spec)?;
    if rows.dim() != d {
        return Err(Error::Width { expected: d, got: rows.dim() });
    }
    let normalized = spec.normalize().rows(rows)?;
    let pairs: Vec<(&[f32], &[f32])> =
        rows.values().chunks_exact(2 * d).zip(normalized.chunks_exact(2 * d)).collect();
    let of_pair = |phi: &mut Vec<f32>, (rows, normalized): &(&[f32], &[f32])| {
        phi.resize(2 * width, 0.0);
        map.transform_into(Rows::new(rows, d)?, phi)?;
        let (x, y) = normalized.split_at(d);
        let k = spec.kernel().value(x, y, spec.length_scale());
        Ok(prefix_estimates(phi, candidates).into_iter().map(|e| (e - k).abs()).collect())
    };
    let by_pair: Vec<Vec<f64>> =
        pairs.par_iter().map_init(Vec::new, of_pair).collect::<Result<_, Error>>()?;
    let of_candidate = |c: usize| by_pair.iter().map(|errors| errors[c]).collect();
    Ok((0..candidates.len()).map(of_candidate).collect())
}

/// <phi_2m(x), phi_2m(y)> for each candidate m, given the longest map's features of x followed by those of y.
fn prefix_estimates(phi: &[f32], candidates: &[usize]) -> Vec<f64> {
    let (x, y) = phi.split_at(phi.len() / 2);
    let largest = (x.len() / 2) as f64;
    let (mut sum, mut done) = (0.0, 0);
    let mut estimate = |&m: &usize| {
        let products = x[2 * done..2 * m].iter().zip(&y[2 * done..2 * m]);
        sum += products.map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
        done = m;
        sum * largest / m as f64
    };
    candidates.iter().map(&mut estimate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use veridical_core::{Seed, Stream};

    fn normals(n: usize, name: &str) -> Vec<f32> {
        let mut x = vec![0.0; n];
        Stream::new(Seed::new(2).unwrap(), name).at(0, 0).fill_normals(&mut x);
        x.into_iter().map(|x| x as f32).collect()
    }

    #[test]
    fn bounds_and_their_inverses_agree() {
        let domain = Domain { input_dim: 32, second_moment: 32.0, diameter: 2.0 };
        for m in [100, 10_000, 1_000_000] {
            let epsilon = domain.uniform_epsilon(m, 0.99);
            assert_eq!(domain.uniform_directions(epsilon, 0.99), m as f64);
            let epsilon = domain.alignment_epsilon(m, 0.99);
            assert_eq!(domain.alignment_directions(epsilon, 0.99).0, m as f64);
            let epsilon = pair_epsilon(m, 0.95, 1.0);
            assert!((pair_directions(epsilon, 0.95, 1.0) - m as f64).abs() <= 1.0);
        }
        // z = 1.96, v = 1: 1.96^2 / (2 0.05^2).
        assert_eq!(pair_directions(0.05, 0.95, 1.0), 769.0);
    }

    #[test]
    fn candidates_ascend_to_the_largest() {
        assert_eq!(candidates(16), [1, 2, 3, 4, 6, 8, 12, 16]);
        assert_eq!(candidates(13), [1, 2, 3, 4, 6, 8, 12, 13]);
        assert_eq!(candidates(1), [1]);
    }

    #[test]
    fn testing_stops_at_the_first_failure_from_above() {
        let measured = |bound| Measured {
            n_pairs: 100,
            mean: 0.0,
            mean_bound: bound,
            quantile: 0.0,
            quantile_bound: bound,
        };
        let all = [0.2, 0.04, 0.3, 0.05, 0.01].map(measured);
        let found = smallest(&[1, 2, 4, 8, 16], &all, |m| m.mean_bound, 0.05);
        assert_eq!(found, Some(8)); // 2 would pass by chance, but 4 failed first
        assert_eq!(smallest(&[1], &[measured(1.0)], |m| m.mean_bound, 0.05), None);
    }

    #[test]
    fn errors_of_prefixes_are_those_of_the_shorter_maps() {
        let spec = FeatureSpec::params(5, 64).build().unwrap();
        let rows = normals(8 * 5, "rows");
        let errors = pair_errors(&spec, Rows::new(&rows, 5).unwrap(), &[3, 20, 32]).unwrap();
        for (m, got) in [3, 20, 32].into_iter().zip(errors) {
            let short = spec.prefix(2 * m).unwrap();
            let want = pair_errors(&short, Rows::new(&rows, 5).unwrap(), &[m]).unwrap().remove(0);
            assert_eq!(got.len(), 4);
            assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-6));
        }
    }

    /// 1,000 plans at 90 % confidence, each from fresh pairs of a finite population whose true mean and
    /// quantile are known for every candidate: the bound of the chosen width is violated in at most
    /// 10 % of them, up to three binomial standard errors, and a width is always found.
    #[test]
    fn the_stated_confidence_holds_over_repetitions() {
        let (n_rows, d, n_pairs, repetitions, confidence) = (400, 8, 400, 1000, 0.9);
        let spec = FeatureSpec::params(d, 2 * 1024).seed(1).build().unwrap();
        let rows = normals(n_rows * d, "population");
        let all = candidates(1024);
        // Every pair (i, j) of the population, as one long list of disjoint pairs.
        let row = |i: usize| &rows[i * d..][..d];
        let pairs = (0..n_rows).flat_map(|i| (i + 1..n_rows).map(move |j| (i, j)));
        let both: Vec<f32> = pairs.flat_map(|(i, j)| [row(i), row(j)].concat()).collect();
        let population = pair_errors(&spec, Rows::new(&both, d).unwrap(), &all).unwrap();
        let truth: Vec<Measured> = population.iter().map(|e| Measured::of(e, 0.5)).collect();
        let stream = Stream::new(Seed::new(3).unwrap(), "repetitions");
        let (mut broken_mean, mut broken_quantile) = (0u32, 0u32);
        for repetition in 0..repetitions {
            let place = stream.at(0, repetition);
            let total = population[0].len() as f64;
            let chosen: Vec<usize> =
                (0..n_pairs).map(|i| (place.uniform(i) * total) as usize).collect();
            let measured: Vec<Measured> = population
                .iter()
                .map(|e| {
                    Measured::of(&chosen.iter().map(|&i| e[i]).collect::<Vec<_>>(), confidence)
                })
                .collect();
            let true_of = |m: usize| truth[all.iter().position(|c| *c == m).unwrap()];
            let m = smallest(&all, &measured, |m| m.mean_bound, 0.12).expect("a width is found");
            broken_mean += u32::from(true_of(m).mean > 0.12);
            let m = smallest(&all, &measured, |m| m.quantile_bound, 0.12).expect("one is found");
            broken_quantile += u32::from(true_of(m).quantile > 0.12);
        }
        let n = repetitions as f64;
        let allowed = n * 0.1 + 3.0 * (n * 0.1 * 0.9).sqrt();
        assert!(f64::from(broken_mean) <= allowed, "{broken_mean} of {n}");
        assert!(f64::from(broken_quantile) <= allowed, "{broken_quantile} of {n}");
        println!("{broken_mean} {broken_quantile}");
    }
}
