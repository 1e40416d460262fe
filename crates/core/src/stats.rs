//! Moments and order statistics whose value depends on the data and its order alone, not on how
//! the data was cut into chunks.

/// Mean and variance of a growing sample, one value at a time (Welford 1962).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    count: u64,
    mean: f64,
    sum_of_squares: f64,
}

impl Moments {
    /// Takes one more value.
    #[inline]
    pub fn push(&mut self, x: f64) {
        self.count += 1;
        let delta = x - self.mean;
        self.mean += delta / self.count as f64;
        self.sum_of_squares += delta * (x - self.mean);
    }

    /// Joins another sample to this one (Chan, Golub & LeVeque 1979).
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

    /// How many values were taken.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The mean; 0 for no values.
    pub const fn mean(&self) -> f64 {
        self.mean
    }

    /// The population variance (divided by n); 0 for no values.
    pub fn variance(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_of_squares / self.count as f64 }
    }
}

/// The quantile `q` in [0, 1] of `values` by linear interpolation (NumPy's default), which it
/// reorders. `None` for no values.
pub fn quantile(values: &mut [f64], q: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let position = q.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let (_, &mut low, above) = values.select_nth_unstable_by(below, f64::total_cmp);
    let high = above.iter().copied().min_by(f64::total_cmp).unwrap_or(low);
    Some(low + (high - low) * (position - below as f64))
}

/// The median of `values`, which it reorders. `None` for no values.
pub fn median(values: &mut [f64]) -> Option<f64> {
    quantile(values, 0.5)
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
}
