//! Variance components of a crossed design: R runs by S splits, one score y_rs each.
//!
//! y_rs = mu + run_r + split_s + interaction_rs, all random (Searle, Casella & McCulloch 1992, chapter 4; the model is
//! deterministic given run and split, so the residual is the interaction). With mean squares M_run, M_split, M_int:
//!   s^2_int = M_int,  s^2_run = (M_run - M_int) / S,  s^2_split = (M_split - M_int) / R.
//! Estimates are unbiased and may be negative; they are not clipped. The mean over runs of the mean over splits and its
//! sd over runs have R - 1 degrees of freedom: Student's interval, and a chi-square interval.

use serde::Serialize;
use veridical_core::Estimate;

/// The variance components of a score.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Components {
    /// The variance between runs.
    pub run: f64,
    /// The variance between splits.
    pub split: f64,
    /// The residual variance: the interaction of run and split.
    pub interaction: f64,
}

/// The scores of runs by splits.
///
/// ```
/// use veridical_inspect::stability::Scores;
///
/// let scores = Scores::new(&[vec![0.90, 0.92], vec![0.80, 0.82]]); // two runs, two splits
/// assert!((scores.mean.value - 0.86).abs() < 1e-12);
/// assert!(scores.components.is_some_and(|c| c.run > c.split));
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct Scores {
    /// The mean of all scores; without an interval for one run.
    pub mean: Estimate,
    /// The sd over runs of the mean over splits; `None` for one run.
    pub sd: Option<Estimate>,
    /// The variance components; `None` for fewer than two runs or two splits.
    pub components: Option<Components>,
    /// The mean over splits of every run.
    pub runs: Vec<f64>,
}

impl Scores {
    /// Summarizes `scores[r][s]`; every run has the same splits.
    pub fn new(scores: &[Vec<f64>]) -> Self {
        let (runs, splits) = (scores.len() as f64, scores[0].len() as f64);
        let by_run: Vec<f64> = scores.iter().map(|row| row.iter().sum::<f64>() / splits).collect();
        let mean = by_run.iter().sum::<f64>() / runs;
        let squares = |values: &[f64]| values.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        let sd = (scores.len() > 1).then(|| (squares(&by_run) / (runs - 1.0)).sqrt());
        let components = (scores.len() > 1 && scores[0].len() > 1).then(|| {
            let by_split: Vec<f64> = (0..scores[0].len())
                .map(|s| scores.iter().map(|row| row[s]).sum::<f64>() / runs)
                .collect();
            let of_runs = splits * squares(&by_run) / (runs - 1.0);
            let of_splits = runs * squares(&by_split) / (splits - 1.0);
            let rest: f64 = scores
                .iter()
                .zip(&by_run)
                .flat_map(|(row, r)| row.iter().zip(&by_split).map(move |(y, s)| y - r - s))
                .map(|rest| (rest + mean).powi(2))
                .sum();
            let interaction = rest / ((runs - 1.0) * (splits - 1.0));
            Components {
                run: (of_runs - interaction) / splits,
                split: (of_splits - interaction) / runs,
                interaction,
            }
        });
        let n = scores.len() as u64;
        let sd = sd.map(|sd| Estimate::sd(sd, runs - 1.0, n).with_seeds(n));
        Self { mean: Estimate::of_runs(&by_run), sd, components, runs: by_run }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use veridical_core::{Seed, Stream};

    /// Planted sds 3 (runs), 2 (splits), 1 (interaction): the mean of 400 designs is correct within four standard errors.
    #[test]
    fn planted_components_are_recovered() {
        let (runs, splits) = (6, 5);
        let stream = Stream::new(Seed::new(0).unwrap(), "components");
        let found: Vec<Components> = (0..400)
            .map(|draw| {
                let mut normal = vec![0.0; runs + splits + runs * splits];
                stream.at(0, draw).fill_normals(&mut normal);
                let (of_runs, rest) = normal.split_at(runs);
                let (of_splits, of_both) = rest.split_at(splits);
                let score = |r: usize, s: usize| {
                    3.0 * of_runs[r] + 2.0 * of_splits[s] + of_both[r * splits + s]
                };
                let scores: Vec<Vec<f64>> =
                    (0..runs).map(|r| (0..splits).map(|s| score(r, s)).collect()).collect();
                Scores::new(&scores).components.unwrap()
            })
            .collect();
        for (want, of) in [
            (9.0, (|c| c.run) as fn(&Components) -> f64),
            (4.0, |c| c.split),
            (1.0, |c| c.interaction),
        ] {
            let got = Estimate::mean(found.iter().map(of)).unwrap();
            assert!((got.value - want).abs() < 4.0 * got.error, "{want}: {got:?}");
        }
    }

    #[test]
    fn one_run_has_no_spread() {
        let scores = Scores::new(&[vec![0.5, 0.7]]);
        assert_eq!((scores.mean.value, scores.sd), (0.6, None));
        assert!(!scores.mean.has_interval());
        assert!(scores.components.is_none());
    }
}
