//! Ids that moved alone: what a mean over all ids does not show.
//!
//! With R the rotation of the second table to the first, c_i = cos(a_i, R b_i) and s_i = 1 - c_i, half the squared residual of a
//! unit row. Retraining moves every id, rarely trained ids (short rows, mostly) more than others, so an id is compared with the bulk
//! of ids like it: ids are cut into [`BINS`] bins of the norm of a_i, and id i is an outlier if
//!
//!   ln s_i > min(max(m + Z u, ln s_h), ln s_0),  m = median, u = min(q84 - m, 1.5 (m - q16)) of ln s in its bin,
//!
//! with s_h = 0.01, where coordinates move by a tenth of their size, which is harmless, and with s_0 the median of
//! 1 - cos(a_i, R b_j) over unrelated ids i != j: an id no closer to its old place than to that of a stranger is an outlier,
//! however noisy its bin. Medians and quantiles of the bulk withstand up to half of the ids being damaged; R is
//! fitted again, twice, without the outliers of a sample.
//!
//! moved like noise  half of all rows of noise lie beyond s_0, and hardly any other: their share is 2 #(s_i > s_0) / n
//! norms             |b_i| / |a_i| beyond a factor of [`NORM_FACTOR`] of its median, either way
//! stale             rows equal to the old ones bit by bit, while the median row moved
//!
//! All shared ids are counted; the interval of a share is Wilson's, for ids as a sample of such ids.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rayon::prelude::*;
use serde::Serialize;
use veridical_core::stats::quantile;
use veridical_core::{Estimate, Seed, Stream};
use veridical_learn::{LinearMap, PairMoments, Procrustes, dot};

use crate::stability::drawn::Prepared;

/// The number of bins of the norm.
const BINS: usize = 10;
/// The fewest sampled ids of a bin.
const BIN_IDS: usize = 200;
/// The distance of an outlier from the median of its bin, in upper standard deviations of ln s.
const Z: f64 = 4.0;
/// The most that the upper half of ln s may be wider than the lower.
const SKEW: f64 = 1.5;
/// s below this is rounding.
const ROUNDING: f64 = 1e-5;
/// s up to this is harmless.
const HARMLESS: f64 = 0.01;
/// How often the rotation is fitted again without outliers.
const REFITS: usize = 2;
/// A norm is an outlier beyond this factor of the median change.
pub const NORM_FACTOR: f64 = 2.0;
/// The number of worst ids that are listed.
pub const WORST: usize = 1000;

/// What the bulk of ids predicts for each, from a sample.
#[derive(Clone, Debug)]
pub struct Expected {
    map: LinearMap,
    /// The upper ends of the bins of the norm, rising; the last bin has none.
    edges: Vec<f32>,
    /// The median of ln s and the threshold, for every bin.
    bins: Vec<[f64; 2]>,
    /// s_0, the median of s between unrelated ids.
    chance: f64,
    /// The share of unrelated ids that are beyond the threshold: the power to see a row of noise.
    power: f64,
    /// The median of |b_i| / |a_i|.
    norm_ratio: f64,
    /// Whether the median row moved at all.
    moved: bool,
}

/// Rows of two tables and their norms before any division.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    pub dim: usize,
    pub rows: [&'a [f32]; 2],
    pub norms: [&'a [f32]; 2],
}

impl Rows<'_> {
    fn len(&self) -> usize {
        self.norms[0].len()
    }

    fn row(&self, table: usize, i: usize) -> &[f32] {
        &self.rows[table][i * self.dim..][..self.dim]
    }

    /// s_i for every row, with the second table as `mapped`.
    fn distances(&self, mapped: &[f32]) -> Vec<f64> {
        (0..self.len())
            .map(|i| distance(self.row(0, i), &mapped[i * self.dim..][..self.dim]))
            .collect()
    }
}

/// 1 - cos(a, b); 0 for two rows of zeros, 1 for one.
fn distance(a: &[f32], b: &[f32]) -> f64 {
    let [aa, bb, ab] = [dot(a, a), dot(b, b), dot(a, b)].map(f64::from);
    match (aa > 0.0, bb > 0.0) {
        (true, true) => (1.0 - ab / (aa * bb).sqrt()).max(0.0),
        (false, false) => 0.0,
        _ => 1.0,
    }
}

impl Expected {
    /// Learns from a sample of rows in random order; `map` takes the second table to the first.
    pub fn of(sample: Rows<'_>, map: &LinearMap, seed: Seed) -> Self {
        let mut expected = Self::given(sample, map.clone(), seed);
        for _ in 0..REFITS {
            let inside: Vec<usize> =
                (0..sample.len()).filter(|&i| !expected.place(sample, i).outlier).collect();
            if inside.len() == sample.len() || inside.len() < 2 * sample.dim {
                break;
            }
            let gather = |table: usize| -> Vec<f32> {
                inside.iter().flat_map(|&i| sample.row(table, i)).copied().collect()
            };
            let moments = PairMoments::of(&gather(0), sample.dim, &gather(1), sample.dim);
            expected = Self::given(sample, Procrustes::default().fit(&moments), seed);
        }
        expected
    }

    fn given(sample: Rows<'_>, map: LinearMap, seed: Seed) -> Self {
        let n = sample.len();
        let mapped = map.apply(sample.rows[1]);
        let distances = sample.distances(&mapped);
        let draws = Stream::new(seed, "strangers");
        let strangers: Vec<f64> = (0..n)
            .map(|i| {
                let other =
                    (i + 1 + draws.at(0, i as u64).draws().below(n as u32 - 1) as usize) % n;
                distance(sample.row(0, i), &mapped[other * sample.dim..][..sample.dim])
            })
            .collect();
        let chance = quantile(&mut strangers.clone(), 0.5).unwrap_or(1.0);
        let (edges, bins) = bins(sample.norms[0], &distances, chance);
        let mut ratios: Vec<f64> = (0..n).filter_map(|i| ratio(sample, i)).collect();
        let raw = (0..n).map(|i| distance(sample.row(0, i), sample.row(1, i)));
        let moved = quantile(&mut raw.collect::<Vec<f64>>(), 0.5).is_some_and(|s| s > ROUNDING);
        let mut expected = Self {
            map,
            edges,
            bins,
            chance,
            power: 0.0,
            norm_ratio: quantile(&mut ratios, 0.5).unwrap_or(1.0),
            moved,
        };
        let seen = strangers.iter().enumerate().filter(|&(i, s)| {
            let [_, threshold] = expected.bins[expected.bin(sample.norms[0][i])];
            log(*s) > threshold
        });
        expected.power = seen.count() as f64 / n as f64;
        expected
    }

    fn bin(&self, norm: f32) -> usize {
        self.edges.partition_point(|edge| *edge < norm)
    }

    fn place(&self, rows: Rows<'_>, i: usize) -> Placed {
        let mapped = self.map.apply(rows.row(1, i));
        self.place_mapped(rows, i, &mapped)
    }

    fn place_mapped(&self, rows: Rows<'_>, i: usize, mapped: &[f32]) -> Placed {
        let (a, b) = (rows.row(0, i), rows.row(1, i));
        let s = distance(a, mapped);
        let [median, threshold] = self.bins[self.bin(rows.norms[0][i])];
        let stale = self.moved && a == b && rows.norms[0][i] > 0.0;
        let factor = ratio(rows, i).map(|ratio| ratio / self.norm_ratio);
        let zeros = rows.norms.map(|norms| norms[i] == 0.0);
        let norm = factor
            .map_or(zeros[0] != zeros[1], |f| !(1.0 / NORM_FACTOR..=NORM_FACTOR).contains(&f));
        Placed {
            distance: s,
            excess: log(s) - median,
            outlier: log(s) > threshold || stale,
            like_noise: s > self.chance,
            norm,
            stale,
            factor: factor.unwrap_or(f64::NAN),
        }
    }
}

fn ratio(rows: Rows<'_>, i: usize) -> Option<f64> {
    let [a, b] = rows.norms.map(|norms| f64::from(norms[i]));
    (a > 0.0 && b > 0.0).then(|| b / a)
}

fn log(s: f64) -> f64 {
    s.max(ROUNDING).ln()
}

/// The edges of the bins of the norm, and for every bin the median of ln s and the threshold.
fn bins(norms: &[f32], distances: &[f64], chance: f64) -> (Vec<f32>, Vec<[f64; 2]>) {
    let count = (norms.len() / BIN_IDS).clamp(1, BINS);
    let mut sorted = norms.to_vec();
    sorted.sort_unstable_by(f32::total_cmp);
    let mut edges: Vec<f32> = (1..count).map(|b| sorted[b * norms.len() / count]).collect();
    edges.dedup();
    let mut members: Vec<Vec<f64>> = vec![Vec::new(); edges.len() + 1];
    for (norm, s) in norms.iter().zip(distances) {
        members[edges.partition_point(|edge| edge < norm)].push(log(*s));
    }
    let all: Vec<f64> = distances.iter().map(|s| log(*s)).collect();
    let bin = |mut members: Vec<f64>| {
        if members.len() < BIN_IDS {
            members.clone_from(&all); // equal norms can leave a bin without ids
        }
        let [low, median, high] =
            [0.16, 0.5, 0.84].map(|q| quantile(&mut members, q).unwrap_or(0.0));
        // Where much is damaged, the upper quantile lies in the damage; the lower one never does.
        let sd = (high - median).min(SKEW * (median - low));
        [median, (median + Z * sd).max(HARMLESS.ln()).min(log(chance))]
    };
    (edges, members.into_iter().map(bin).collect())
}

/// Where one id lies beside the bulk.
#[derive(Clone, Copy)]
struct Placed {
    distance: f64,
    excess: f64,
    outlier: bool,
    like_noise: bool,
    norm: bool,
    stale: bool,
    factor: f64,
}

/// An id that moved alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutlierId {
    /// The id.
    pub id: String,
    /// The cosine of its old row and its new one after alignment.
    pub cosine: f64,
    /// How many times further it moved than the median id like it: the ratio of 1 - cosine.
    pub times: f64,
    /// The change of its norm, relative to the median change.
    pub norm_factor: f64,
    /// What is wrong: `moved`, `like noise`, `stale`, `norm`.
    pub what: &'static str,
}

/// The ids of two tables that moved alone.
#[derive(Clone, Debug, Serialize)]
pub struct Outliers {
    /// The share of ids that moved further than the bulk predicts.
    pub share: Estimate,
    /// The share of ids whose norm changed by more than a factor of 2 of the median change.
    pub norms: Estimate,
    /// The share of ids that moved like noise; `None` if it is not above 0.
    pub like_noise: Option<Estimate>,
    /// The number of ids whose row is the old one bit by bit while the others moved.
    pub stale: u64,
    /// The share of rows of noise that would be outliers.
    pub power: f64,
    /// The worst ids, worst first.
    #[serde(skip)]
    pub worst: Vec<OutlierId>,
}

impl Outliers {
    /// Returns the share of ids replaced by noise that would bring the share of outliers from where it is to `limit`: the least
    /// damage that would be seen. `None` if noise cannot be told from the bulk.
    pub fn detectable(&self, limit: f64) -> Option<f64> {
        let base = self.share.value.min(limit);
        let share = (limit - base) / (self.power - base).max(0.0);
        let least = 1.0 / self.share.n.max(1) as f64;
        (self.power > 0.5 && share.is_finite()).then(|| share.clamp(least, 1.0))
    }
}

/// Counts the outliers of the windows of a pass.
pub struct Counted {
    expected: Expected,
    n: u64,
    outliers: u64,
    like_noise: u64,
    norms: u64,
    stale: u64,
    worst: BinaryHeap<Reverse<Ranked>>,
}

/// An id by how bad it is, then by its place.
struct Ranked {
    harm: f64,
    row: usize,
    id: OutlierId,
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.harm.total_cmp(&other.harm).then(other.row.cmp(&self.row))
    }
}

impl Counted {
    /// Starts with no ids.
    pub const fn new(expected: Expected) -> Self {
        let worst = BinaryHeap::new();
        Self { expected, n: 0, outliers: 0, like_noise: 0, norms: 0, stale: 0, worst }
    }

    /// Adds the ids of a window, of the tables a and b.
    pub fn add(&mut self, window: &Prepared<'_>, [a, b]: [usize; 2], dim: usize) {
        let rows = Rows {
            dim,
            rows: [window.tables[a], window.tables[b]],
            norms: [&window.norms[a], &window.norms[b]],
        };
        let mapped = self.expected.map.apply(rows.rows[1]);
        let placed: Vec<Placed> = (0..rows.len())
            .into_par_iter()
            .map(|i| self.expected.place_mapped(rows, i, &mapped[i * dim..][..dim]))
            .collect();
        self.n += placed.len() as u64;
        for (i, found) in placed.into_iter().enumerate() {
            self.outliers += u64::from(found.outlier);
            self.like_noise += u64::from(found.like_noise);
            self.norms += u64::from(found.norm);
            self.stale += u64::from(found.stale);
            if found.outlier || found.norm {
                self.rank(found, window.first + i, || window.ids.get(i));
            }
        }
    }

    fn rank(&mut self, found: Placed, row: usize, id: impl Fn() -> String) {
        let norm = found.factor.ln().abs();
        // A stale row did not move: it is listed after those that did.
        let harm = found.excess.max(if norm.is_finite() { norm } else { 0.0 });
        if self.worst.len() >= WORST
            && self.worst.peek().is_some_and(|Reverse(last)| harm <= last.harm)
        {
            return;
        }
        let what = match found {
            Placed { stale: true, .. } => "stale",
            Placed { outlier: true, like_noise: true, .. } => "like noise",
            Placed { outlier: true, .. } => "moved",
            _ => "norm",
        };
        let id = OutlierId {
            id: id(),
            cosine: 1.0 - found.distance,
            times: found.excess.exp(),
            norm_factor: found.factor,
            what,
        };
        self.worst.push(Reverse(Ranked { harm, row, id }));
        if self.worst.len() > WORST {
            self.worst.pop();
        }
    }

    /// Returns what was counted.
    pub fn finish(self) -> Outliers {
        let Self { expected, n, outliers, like_noise, norms, stale, worst } = self;
        let doubled = Estimate::share(like_noise, n);
        let twice = |x: f64| (2.0 * x).min(1.0);
        let noise = Estimate::with_interval(
            twice(doubled.value),
            [twice(doubled.low), twice(doubled.high)],
            n,
        );
        let mut worst: Vec<Ranked> = worst.into_iter().map(|Reverse(ranked)| ranked).collect();
        worst.sort_by(|a, b| b.cmp(a));
        Outliers {
            share: Estimate::share(outliers, n),
            norms: Estimate::share(norms, n),
            like_noise: (like_noise > 0).then_some(noise),
            stale,
            power: expected.power,
            worst: worst.into_iter().map(|ranked| ranked.id).collect(),
        }
    }
}
