//! Inner products and kernel values over sampled pairs of ids.
//!
//! For a pair p and runs r: g_pr = <h_r(i), h_r(j)>. noise^2 = mean_p var_r(g_pr) (unbiased over runs), spread^2 =
//! var_p(mean_r g_pr). noise / spread is the noise of retraining relative to the signal in the Gram matrix
//! (paper 000, figure 1d and proposition 2: inner products converge while coordinates do not).

use rayon::prelude::*;
use serde::Serialize;
use veridical_core::stats::Moments;
use veridical_core::{Estimate, Seed, Stream};
use veridical_learn::dot;

use crate::stability::run_pairs::{PairValue, all_pairs};
use crate::stability::{KernelAt, SharedTables};

/// The number of groups of pairs for the jackknife intervals.
const GROUPS: usize = 20;
/// The number of pairs kept for charts.
const SHOWN: usize = 2000;

/// The variation of values of pairs between runs.
#[derive(Clone, Debug, Serialize)]
pub struct PairSpread {
    /// The number of sampled pairs.
    pub pairs: usize,
    /// The root mean square of the sd of a value over runs.
    pub noise: f64,
    /// The sd of the mean values over pairs.
    pub spread: f64,
    /// The ratio noise / spread of every two runs; undefined if all pairs of ids have the same value.
    #[serde(skip)]
    pub ratios: Vec<PairValue>,
    /// The values of some pairs in the first and the last run, for a chart.
    #[serde(skip)]
    pub shown: Vec<[f64; 2]>,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    pairs: f64,
    variance: f64,
    means: Moments,
}

impl Sums {
    fn add(&mut self, values: &[f64]) {
        let mut over_runs = Moments::default();
        values.iter().for_each(|&x| over_runs.push(x));
        let runs = values.len() as f64;
        self.pairs += 1.0;
        self.variance += over_runs.variance() * runs / (runs - 1.0);
        self.means.push(over_runs.mean());
    }

    fn merge(&mut self, other: &Self) {
        self.pairs += other.pairs;
        self.variance += other.variance;
        self.means.merge(&other.means);
    }

    fn noise(&self) -> f64 {
        (self.variance / self.pairs).sqrt()
    }

    fn spread(&self) -> f64 {
        self.means.variance().sqrt()
    }

    fn ratio(&self) -> f64 {
        self.noise() / self.spread()
    }
}

/// The sums over one group of pairs of ids.
struct Group {
    all: Sums,
    by_runs: Vec<Sums>,
    shown: Vec<[f64; 2]>,
}

/// Returns the spread of inner products and of kernel values over `count` random pairs of different ids.
pub fn spreads(
    runs: &SharedTables,
    kernel: &KernelAt,
    count: usize,
    seed: Seed,
) -> [PairSpread; 2] {
    let (stream, n) = (Stream::new(seed, "pairs"), runs.n() as u32);
    let two = all_pairs(runs.runs.len());
    let of_group = |group: usize| {
        let mut draws = stream.at(0, group as u64).draws();
        let empty = || Group {
            all: Sums::default(),
            by_runs: vec![Sums::default(); two.len()],
            shown: Vec::new(),
        };
        let mut found = [empty(), empty()];
        let mut values = [vec![0.0; runs.runs.len()], vec![0.0; runs.runs.len()]];
        for _ in 0..count.div_ceil(GROUPS) {
            let i = draws.below(n);
            let j = (i + 1 + draws.below(n - 1)) % n;
            for (r, run) in runs.runs.iter().enumerate() {
                let (x, y) = (run.row(i as usize), run.row(j as usize));
                values[0][r] = f64::from(dot(x, y));
                values[1][r] = kernel.value(x, y);
            }
            for (group, values) in found.iter_mut().zip(&values) {
                group.all.add(values);
                for (sums, &[a, b]) in group.by_runs.iter_mut().zip(&two) {
                    sums.add(&[values[a], values[b]]);
                }
                if group.shown.len() < SHOWN / GROUPS {
                    group.shown.push([values[0], values[values.len() - 1]]);
                }
            }
        }
        found
    };
    let groups: Vec<[Group; 2]> = (0..GROUPS).into_par_iter().map(of_group).collect();
    [0, 1].map(|which| {
        let groups = || groups.iter().map(move |group| &group[which]);
        let ratio = |(pair, &runs): (usize, &[usize; 2])| {
            let without = |g: Option<usize>| {
                let kept = groups().enumerate().filter(|&(at, _)| Some(at) != g);
                total(kept.map(|(_, group)| &group.by_runs[pair]))
            };
            let replicates: Vec<f64> = (0..GROUPS).map(|g| without(Some(g)).ratio()).collect();
            let whole = without(None);
            let estimate = Estimate::jackknife(whole.ratio(), &replicates, whole.pairs as u64);
            PairValue::new(runs, estimate)
        };
        let all = total(groups().map(|group| &group.all));
        PairSpread {
            pairs: all.pairs as usize,
            noise: all.noise(),
            spread: all.spread(),
            ratios: two.iter().enumerate().map(ratio).collect(),
            shown: groups().flat_map(|group| group.shown.iter().copied()).collect(),
        }
    })
}

fn total<'a>(sums: impl Iterator<Item = &'a Sums>) -> Sums {
    let mut all = Sums::default();
    sums.for_each(|part| all.merge(part));
    all
}
