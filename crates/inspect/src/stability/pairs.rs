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

/// The number of ids that pairs are drawn from.
pub const PAIR_IDS: usize = 20_000;
/// The number of groups of ids for the jackknife intervals.
const GROUPS: usize = 20;
/// The number of batches that pairs are drawn in, each from its own random stream.
const BATCHES: usize = 20;
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

/// The sums over pairs between two groups of ids, for every two groups.
#[derive(Clone)]
struct Cells(Vec<Sums>);

impl Cells {
    fn new() -> Self {
        Self(vec![Sums::default(); GROUPS * GROUPS])
    }

    fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(sums, other)| sums.merge(other));
    }

    /// The sums over all pairs without an id of one group.
    fn without(&self, group: Option<usize>) -> Sums {
        let mut all = Sums::default();
        for (cell, sums) in self.0.iter().enumerate() {
            if ![cell / GROUPS, cell % GROUPS].map(Some).contains(&group) {
                all.merge(sums);
            }
        }
        all
    }
}

/// The sums over the pairs of one batch.
struct Batch {
    all: Sums,
    by_runs: Vec<Cells>,
    shown: Vec<[f64; 2]>,
}

/// Returns the spread of inner products and of kernel values over `count` random pairs of different ids of `sample`, which is
/// in random order.
///
/// Pairs with an id in common are dependent, so intervals are those of a jackknife over groups of ids: a group is left out with
/// all pairs that have an id in it.
pub fn spreads(
    runs: &SharedTables,
    sample: &[u32],
    kernel: &KernelAt,
    count: usize,
    seed: Seed,
) -> [PairSpread; 2] {
    let (stream, n) = (Stream::new(seed, "pairs"), sample.len() as u32);
    let two = all_pairs(runs.runs.len());
    let of_batch = |batch: usize| {
        let mut draws = stream.at(0, batch as u64).draws();
        let empty = || Batch {
            all: Sums::default(),
            by_runs: vec![Cells::new(); two.len()],
            shown: Vec::new(),
        };
        let mut found = [empty(), empty()];
        let mut values = [vec![0.0; runs.runs.len()], vec![0.0; runs.runs.len()]];
        for _ in 0..count.div_ceil(BATCHES) {
            let i = draws.below(n);
            let j = (i + 1 + draws.below(n - 1)) % n;
            let cell = i as usize % GROUPS * GROUPS + j as usize % GROUPS;
            for (r, run) in runs.runs.iter().enumerate() {
                let [x, y] = [i, j].map(|at| run.row(sample[at as usize] as usize));
                values[0][r] = f64::from(dot(x, y));
                values[1][r] = kernel.value(x, y);
            }
            for (batch, values) in found.iter_mut().zip(&values) {
                batch.all.add(values);
                for (cells, &[a, b]) in batch.by_runs.iter_mut().zip(&two) {
                    cells.0[cell].add(&[values[a], values[b]]);
                }
                if batch.shown.len() < SHOWN / BATCHES {
                    batch.shown.push([values[0], values[values.len() - 1]]);
                }
            }
        }
        found
    };
    let batches: Vec<[Batch; 2]> = (0..BATCHES).into_par_iter().map(of_batch).collect();
    [0, 1].map(|which| {
        let batches = || batches.iter().map(move |batch| &batch[which]);
        let ratio = |(pair, &runs): (usize, &[usize; 2])| {
            let mut cells = Cells::new();
            batches().for_each(|batch| cells.merge(&batch.by_runs[pair]));
            let without: Vec<f64> = (0..GROUPS).map(|g| cells.without(Some(g)).ratio()).collect();
            let value = cells.without(None).ratio();
            PairValue::new(runs, Estimate::jackknife(value, &without, u64::from(n)))
        };
        let mut all = Sums::default();
        batches().for_each(|batch| all.merge(&batch.all));
        PairSpread {
            pairs: all.pairs as usize,
            noise: all.noise(),
            spread: all.spread(),
            ratios: two.iter().enumerate().map(ratio).collect(),
            shown: batches().flat_map(|batch| batch.shown.iter().copied()).collect(),
        }
    })
}
