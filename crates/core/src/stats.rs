//! Moments and order statistics that depend on the data and its order alone, not on how
//! the data was split into chunks, and the confidence intervals built from them.

use crate::distributions::{binomial_cdf, chi_square_quantile, student_quantile};

/// The mean and variance of a growing sample, one value at a time (Welford 1962).
///
/// ```
/// use veridical_core::stats::Moments;
///
/// let mut moments = Moments::default();
/// for x in [1.0, 2.0, 3.0, 4.0] {
///     moments.push(x);
/// }
/// assert_eq!((moments.count(), moments.mean(), moments.variance()), (4, 2.5, 1.25));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    count: u64,
    mean: f64,
    sum_of_squares: f64,
}

impl Moments {
    /// Adds a value to the sample.
    #[inline]
    pub fn push(&mut self, x: f64) {
        self.count += 1;
        let delta = x - self.mean;
        self.mean += delta / self.count as f64;
        self.sum_of_squares += delta * (x - self.mean);
    }

    /// Merges another sample into this one (Chan, Golub & LeVeque 1979).
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let total = self.count + other.count;
        let delta = other.mean - self.mean;
        let share = other.count as f64 / total as f64;
        self.mean += delta * share;
        self.sum_of_squares += other.sum_of_squares + delta * delta * self.count as f64 * share;
        self.count = total;
    }

    /// Returns the number of values.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the mean; 0 for an empty sample.
    pub const fn mean(&self) -> f64 {
        self.mean
    }

    /// Returns the population variance (divided by n); 0 for an empty sample.
    pub fn variance(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_of_squares / self.count as f64 }
    }
}

/// Returns the quantile `q` in [0, 1] of `values` by linear interpolation (NumPy's default), and
/// reorders them. `None` for no values.
///
/// ```
/// use veridical_core::stats::quantile;
///
/// assert_eq!(quantile(&mut [3.0, 1.0, 2.0, 10.0], 0.25), Some(1.75));
/// ```
pub fn quantile(values: &mut [f64], q: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let position = q.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let (_, &mut low, above) = values.select_nth_unstable_by(below, f64::total_cmp);
    let high = above.iter().copied().min_by(f64::total_cmp).unwrap_or(low);
    Some(low + (high - low) * (position - below as f64))
}

/// Returns the median of `values`, and reorders them. `None` for no values.
pub fn median(values: &mut [f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Returns an upper bound on the mean of a variable in [0, range] that holds with probability `confidence`,
/// from n independent values: mean + sqrt(2 V ln(2/delta) / n) + 7 range ln(2/delta) / (3 (n - 1)) with
/// the unbiased variance V and delta = 1 - confidence (empirical Bernstein, Maurer & Pontil 2009,
/// theorem 4). Infinite for fewer than two values.
pub fn mean_upper_bound(values: &Moments, range: f64, confidence: f64) -> f64 {
    let n = values.count() as f64;
    if n < 2.0 {
        return f64::INFINITY;
    }
    let log = (2.0 / (1.0 - confidence)).ln();
    let variance = values.variance() * n / (n - 1.0);
    values.mean() + (2.0 * variance * log / n).sqrt() + 7.0 * range * log / (3.0 * (n - 1.0))
}

/// Returns the rank r (from 1) such that the r-th smallest of n independent values is at least the quantile `q`
/// of their distribution with probability `confidence`, for any distribution: the smallest r with
/// P(Bin(n, q) <= r - 1) >= confidence. `None` if n values are too few. Where the two sides are equal up to
/// rounding it may be the next higher rank.
pub fn quantile_bound_rank(n: usize, q: f64, confidence: f64) -> Option<usize> {
    let holds = |rank: usize| binomial_cdf(rank as u64 - 1, n as u64, q) >= confidence;
    let (mut low, mut high) = (1, n);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    // For r = n + 1 the probability is 1, but that value does not exist.
    (low <= n && holds(low)).then_some(low)
}

/// Returns the 97.5 % quantile of Student's t with `freedom` >= 1 degrees, which need not be an integer: the half-width of a
/// 95 % interval in standard errors. Infinite below 1.
pub fn student_975(freedom: f64) -> f64 {
    if freedom >= 1.0 { student_quantile(0.975, freedom) } else { f64::INFINITY }
}

/// Returns the 95 % interval of a standard deviation estimated as `sd` from normal values with `freedom` degrees of freedom:
/// sd sqrt(f / chi2_0.975) to sd sqrt(f / chi2_0.025). NaN unless `freedom` is above 0.
pub fn sd_interval(sd: f64, freedom: f64) -> [f64; 2] {
    [0.975, 0.025].map(|p| sd * (freedom / chi_square_quantile(p, freedom)).sqrt())
}

/// Returns the standard error of a statistic from its leave-one-group-out values: e^2 = (G - 1)/G sum_g (t_(g) - mean t)^2, the
/// delete-a-group jackknife (Efron & Tibshirani 1993, 11).
pub fn jackknife_error(without: &[f64]) -> f64 {
    let groups = without.len() as f64;
    let mean = without.iter().sum::<f64>() / groups;
    let squares: f64 = without.iter().map(|t| (t - mean).powi(2)).sum();
    ((groups - 1.0) / groups * squares).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the two-pass formula; both lose at most a few n eps.
        #[test]
        fn merged_moments_match_the_two_pass_formula(
            a in prop::collection::vec(-1e3..1e3f64, 0..50), b in prop::collection::vec(-1e3..1e3f64, 1..50)
        ) {
            let fill = |x: &[f64]| { let mut m = Moments::default(); x.iter().for_each(|&x| m.push(x)); m };
            let mut merged = fill(&a);
            merged.merge(&fill(&b));
            let all = [a, b].concat();
            let n = all.len() as f64;
            let mean = all.iter().sum::<f64>() / n;
            let variance = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            let allowed = 10.0 * n * f64::EPSILON * 1e3;
            prop_assert_eq!(merged.count(), all.len() as u64);
            prop_assert!((merged.mean() - mean).abs() <= allowed);
            prop_assert!((merged.variance() - variance).abs() <= allowed * 1e3);
        }
    }

    /// Values of `numpy.quantile([3, 1, 2, 10], [0, .25, .5, .9, 1])`.
    #[test]
    fn quantiles_match_numpy() {
        let quantile_of = |q| quantile(&mut [3.0, 1.0, 2.0, 10.0], q).unwrap();
        let got = [0.0, 0.25, 0.5, 0.9, 1.0].map(quantile_of);
        let want = [1.0, 1.75, 2.5, 7.9, 10.0];
        assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-12), "{got:?}");
        assert_eq!(median(&mut []), None);
    }

    /// `scipy.stats.binom.ppf(confidence, n, q) + 1` (tests/oracles/distributions). For q = 0.95 and confidence 0.99
    /// no rank exists below n = 90, as 0.95^n > 0.01.
    #[test]
    fn ranks_are_those_of_scipy() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/oracles/distributions/distributions.json"
        );
        let oracle: serde_json::Value =
            serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        for case in oracle["quantile_bound_rank"].as_array().unwrap() {
            let n = case[0].as_u64().unwrap() as usize;
            let [q, confidence] = [1, 2].map(|i| case[i].as_f64().unwrap());
            let want = case[3].as_u64().map(|rank| rank as usize);
            assert_eq!(quantile_bound_rank(n, q, confidence), want, "{n}, {q}, {confidence}");
        }
        assert_eq!(quantile_bound_rank(0, 0.95, 0.99), None);
        assert_eq!([89, 90].map(|n| quantile_bound_rank(n, 0.95, 0.99)), [None, Some(90)]);
    }

    /// Worked out on paper: values 0, 1: mean 1/2, V = 1/2, n = 2, ln 200.
    #[test]
    fn the_bound_on_a_mean_is_the_formula() {
        let mut values = Moments::default();
        [0.0, 1.0].into_iter().for_each(|x| values.push(x));
        let log = 200f64.ln();
        let want = 0.5 + (0.5 * log).sqrt() + 7.0 * log / 3.0;
        assert!((mean_upper_bound(&values, 1.0, 0.99) - want).abs() < 1e-12);
        assert_eq!(mean_upper_bound(&Moments::default(), 1.0, 0.99), f64::INFINITY);
    }

    /// `scipy.stats.t.ppf(0.975, df)`; more of them in tests/oracles/distributions.
    #[test]
    fn student_quantiles_are_those_of_scipy() {
        for (freedom, want) in [
            (1.0, 12.706_204_736_174_694),
            (1.5, 6.016_663_104_427_929),
            (30.0, 2.042_272_456_301_238),
            (250.25, 1.969_488_823_139_81),
            (1e6, 1.959_966_356_814_107),
            (f64::INFINITY, 1.959_963_984_540_054),
        ] {
            let got = student_975(freedom);
            assert!((got / want - 1.0).abs() < 1e-12, "{freedom}: {got} is not {want}");
        }
        assert_eq!([0.0, 0.99, -1.0, f64::NAN].map(student_975), [f64::INFINITY; 4]);
    }

    /// By simulation: sample standard deviations of n = 6 normal values; 2,000 of them hit the level within four binomial
    /// errors (4 sqrt(0.95 * 0.05 / 2000) = 0.0195).
    #[test]
    fn intervals_of_deviations_cover_at_their_level() {
        let stream = crate::Stream::new(crate::Seed::new(0).unwrap(), "coverage");
        let covered = (0..2000).filter(|&draw| {
            let mut values = [0.0; 6];
            stream.at(0, draw).fill_normals(&mut values);
            let mut moments = Moments::default();
            values.iter().for_each(|&x| moments.push(x));
            let sd = (moments.variance() * 6.0 / 5.0).sqrt();
            let [low, high] = sd_interval(sd, 5.0);
            low <= 1.0 && 1.0 <= high
        });
        let share = covered.count() as f64 / 2000.0;
        assert!((share - 0.95).abs() < 0.0195, "{share}");
    }
}
