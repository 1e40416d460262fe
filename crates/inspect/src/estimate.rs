//! Numbers with their uncertainty.
//!
//! mean        standard error s / sqrt(n), Student with n - 1 degrees
//! jackknife   delete-a-group, se^2 = (G - 1)/G sum_g (t_(g) - mean t)^2, Student with G - 1 (Efron & Tibshirani 1993, 11)
//! of runs     a statistic t_ab of pairs of R runs: the mean over pairs; its variance is that of the probes plus,
//!             from three runs on, the jackknife over runs (delete a run with all its pairs)

use serde::Serialize;
use veridical_core::stats::{Moments, student_975};

/// A value, how far it may be off, and from how much it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Its 95 % interval; both ends are the value for something that was counted.
    pub interval: [f64; 2],
    /// Its standard error.
    #[serde(skip)]
    pub error: f64,
    /// Degrees of freedom of the error.
    #[serde(skip)]
    pub freedom: f64,
}

impl Estimate {
    /// A value with its standard error.
    pub fn new(value: f64, error: f64, freedom: f64) -> Self {
        let half = if error == 0.0 { 0.0 } else { student_975(freedom) * error };
        Self { value, interval: [value - half, value + half], error, freedom }
    }

    /// Something that was counted, not sampled.
    pub fn exact(value: f64) -> Self {
        Self::new(value, 0.0, f64::INFINITY)
    }

    /// The mean of independent values; `None` for fewer than two.
    pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut moments = Moments::default();
        values.into_iter().for_each(|x| moments.push(x));
        let n = moments.count() as f64;
        (n >= 2.0).then(|| {
            let error = (moments.variance() / (n - 1.0)).sqrt();
            Self::new(moments.mean(), error, n - 1.0)
        })
    }

    /// `value`, with the error that statistics without one group each give. `None` if one of them is undefined.
    pub fn jackknife(value: f64, without: &[f64]) -> Option<Self> {
        let groups = without.len() as f64;
        if groups < 2.0 || without.iter().any(|t| !t.is_finite()) || !value.is_finite() {
            return None;
        }
        Some(Self::new(value, jackknife_error(without), groups - 1.0))
    }

    /// The interval cut to where the quantity can be.
    pub fn within(mut self, low: f64, high: f64) -> Self {
        self.interval = self.interval.map(|x| x.clamp(low, high));
        self
    }
}

fn jackknife_error(without: &[f64]) -> f64 {
    let groups = without.len() as f64;
    let mean = without.iter().sum::<f64>() / groups;
    let squares: f64 = without.iter().map(|t| (t - mean).powi(2)).sum();
    ((groups - 1.0) / groups * squares).sqrt()
}

/// A statistic of every pair of runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairValue {
    /// The two runs, by number.
    pub runs: [usize; 2],
    /// The statistic; `None` where it is undefined.
    pub estimate: Option<Estimate>,
}

/// All pairs of `runs` runs, in order.
pub fn all_pairs(runs: usize) -> Vec<[usize; 2]> {
    (0..runs).flat_map(|a| (a + 1..runs).map(move |b| [a, b])).collect()
}

/// The mean over pairs with the error of both probes and runs; `None` if a pair is undefined.
pub fn over_pairs(pairs: &[PairValue]) -> Option<Estimate> {
    let values: Vec<Estimate> = pairs.iter().map(|p| p.estimate).collect::<Option<_>>()?;
    let n = values.len() as f64;
    let value = values.iter().map(|e| e.value).sum::<f64>() / n;
    // The same probes serve every pair, so their errors do not average out.
    let probes = values.iter().map(|e| e.error * e.error).sum::<f64>() / n;
    let freedom = values.iter().map(|e| e.freedom).fold(f64::INFINITY, f64::min);
    let runs = pairs.iter().flat_map(|p| p.runs).max()? + 1;
    if runs < 3 {
        return Some(Estimate::new(value, probes.sqrt(), freedom));
    }
    let without: Vec<f64> = (0..runs)
        .map(|run| {
            let left = pairs.iter().zip(&values).filter(|(p, _)| !p.runs.contains(&run));
            let (sum, n) = left.fold((0.0, 0.0), |(sum, n), (_, e)| (sum + e.value, n + 1.0));
            sum / n
        })
        .collect();
    let of_runs = jackknife_error(&without);
    let error = (probes + of_runs * of_runs).sqrt();
    Some(Estimate::new(value, error, freedom.min(runs as f64 - 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use veridical_core::{Seed, Stream};

    /// The jackknife of a mean is its standard error: no approximation.
    #[test]
    fn jackknife_of_a_mean_is_the_standard_error() {
        let values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0];
        let mean = Estimate::mean(values).unwrap();
        let total: f64 = values.iter().sum();
        let without: Vec<f64> = values.iter().map(|x| (total - x) / 6.0).collect();
        let jackknife = Estimate::jackknife(mean.value, &without).unwrap();
        assert!((jackknife.error - mean.error).abs() < 1e-14);
    }

    /// Values t_ab = (r_a + r_b) / 2 + probe noise: 1,000 ensembles of six runs. The level 0.95 within four binomial
    /// errors, 0.028; the interval is allowed to be wider than it must be.
    #[test]
    fn intervals_over_runs_cover_at_least_at_their_level() {
        let stream = Stream::new(Seed::new(0).unwrap(), "coverage");
        let covered = (0..1000).filter(|&draw| {
            let mut normal = [0.0; 7];
            stream.at(0, draw).fill_normals(&mut normal);
            let probe = 0.2 * normal[6];
            let pair = |[a, b]: [usize; 2]| PairValue {
                runs: [a, b],
                estimate: Some(Estimate::new(
                    0.5 * (normal[a] + normal[b]) + probe,
                    0.2,
                    f64::INFINITY,
                )),
            };
            let pairs: Vec<PairValue> = all_pairs(6).into_iter().map(pair).collect();
            let [low, high] = over_pairs(&pairs).unwrap().interval;
            low <= 0.0 && 0.0 <= high
        });
        let share = covered.count() as f64 / 1000.0;
        assert!((0.922..=1.0).contains(&share), "{share}");
    }

    #[test]
    fn an_undefined_pair_makes_the_mean_undefined() {
        let pair = |estimate| PairValue { runs: [0, 1], estimate };
        assert_eq!(over_pairs(&[pair(None), pair(Some(Estimate::exact(1.0)))]), None);
    }
}
