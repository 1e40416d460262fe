//! Statistics of pairs of runs.
//!
//! The mean over pairs of a statistic t_ab of R runs; its variance is that of the probes plus, from three runs on, the
//! jackknife variance over runs (delete a run with all its pairs).

use serde::Serialize;
use veridical_core::Estimate;
use veridical_core::stats::jackknife_error;

/// A statistic of one pair of runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairValue {
    /// The numbers of the two runs.
    pub runs: [usize; 2],
    /// The statistic; `None` where it is undefined.
    pub estimate: Option<Estimate>,
}

impl PairValue {
    /// Makes a statistic of two runs.
    pub fn new(runs: [usize; 2], estimate: Option<Estimate>) -> Self {
        Self { runs, estimate: estimate.map(|e| e.with_seeds(2)) }
    }
}

/// Returns all pairs of `runs` runs, in order.
pub fn all_pairs(runs: usize) -> Vec<[usize; 2]> {
    (0..runs).flat_map(|a| (a + 1..runs).map(move |b| [a, b])).collect()
}

/// Returns the mean over pairs with the standard error of both probes and runs; `None` if a pair is undefined.
pub fn over_pairs(pairs: &[PairValue]) -> Option<Estimate> {
    let values: Vec<Estimate> = pairs.iter().map(|p| p.estimate).collect::<Option<_>>()?;
    let n = values.len() as f64;
    let value = values.iter().map(|e| e.value).sum::<f64>() / n;
    // All pairs share the same probes, so their errors do not average out.
    let probes = values.iter().map(|e| e.error * e.error).sum::<f64>() / n;
    let freedom = values.iter().map(|e| e.freedom).fold(f64::INFINITY, f64::min);
    let runs = pairs.iter().flat_map(|p| p.runs).max()? + 1;
    let (probed, seeds) = (values.iter().map(|e| e.n).min().unwrap_or(0), runs as u64);
    if runs < 3 {
        return Some(Estimate::new(value, probes.sqrt(), freedom, probed).with_seeds(seeds));
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
    let freedom = freedom.min(runs as f64 - 1.0);
    Some(Estimate::new(value, error, freedom, probed).with_seeds(seeds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use veridical_core::{Seed, Stream};

    /// Values t_ab = (r_a + r_b) / 2 + probe noise: 1,000 ensembles of six runs. Coverage 0.95 within four binomial
    /// standard errors, 0.028; the interval may be wider than necessary.
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
                    1,
                )),
            };
            let pairs: Vec<PairValue> = all_pairs(6).into_iter().map(pair).collect();
            let [low, high] = over_pairs(&pairs).unwrap().interval();
            low <= 0.0 && 0.0 <= high
        });
        let share = covered.count() as f64 / 1000.0;
        assert!((0.922..=1.0).contains(&share), "{share}");
    }

    #[test]
    fn an_undefined_pair_makes_the_mean_undefined() {
        let pair = |estimate| PairValue { runs: [0, 1], estimate };
        assert_eq!(over_pairs(&[pair(None), pair(Some(Estimate::exact(1.0, 1)))]), None);
    }

    /// All pairs share the same probes; all runs count.
    #[test]
    fn a_mean_over_pairs_reports_its_probes_and_runs() {
        let pair = |runs| PairValue { runs, estimate: Some(Estimate::new(0.5, 0.1, 9.0, 10)) };
        let mean = |runs| over_pairs(&all_pairs(runs).into_iter().map(pair).collect::<Vec<_>>());
        for runs in [2, 3] {
            let mean = mean(runs).unwrap();
            assert_eq!((mean.n, mean.seeds), (10, runs as u64));
        }
    }
}
