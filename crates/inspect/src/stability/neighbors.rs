//! Nearest-neighbor overlap: the fraction of the k nearest neighbors of a probe that two runs share.
//!
//! overlap_i = |N_a(i) n N_b(i)| / k, with N the k ids of largest cosine among the shared ids, except i itself. Churn
//! is 1 - overlap. The expected overlap of two independent tables is k / (n - 1).
//!
//! Probes are drawn without replacement, uniformly or by weight: the row of smallest -ln(u) / w comes first (Efraimidis
//! & Spirakis 2006). Their mean is then what a consumer sees that queries ids in proportion to their weight.

use serde::Serialize;
use veridical_core::{Estimate, Seed, Stream};
use veridical_learn::Scored;

use crate::stability::runs::sample;

/// Draws `count` probes, by weight if there are weights; rows of weight 0 are never drawn.
pub fn draw_probes(n: usize, weights: Option<&[f64]>, count: usize, seed: Seed) -> Vec<u32> {
    let Some(weights) = weights else {
        let mut probes = sample(n, count, seed, "probes");
        probes.sort_unstable();
        return probes;
    };
    let stream = Stream::new(seed, "probes");
    let key = |i: usize| -(stream.at(0, i as u64).uniform(0).max(f64::MIN_POSITIVE)).ln();
    let mut keyed: Vec<(f64, u32)> = weights
        .iter()
        .enumerate()
        .filter(|&(_, &w)| w > 0.0)
        .map(|(i, w)| (key(i) / w, i as u32))
        .collect();
    keyed.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    keyed.truncate(count);
    let mut probes: Vec<u32> = keyed.into_iter().map(|(_, i)| i).collect();
    probes.sort_unstable();
    probes
}

/// Returns the overlap of every probe between two runs.
pub fn overlaps(a: &[Vec<Scored>], b: &[Vec<Scored>]) -> Vec<f64> {
    let both = a.iter().zip(b);
    both.map(|(a, b)| {
        let numbers: Vec<u32> = b.iter().map(|s| s.number).collect();
        let kept = a.iter().filter(|s| numbers.contains(&s.number)).count();
        kept as f64 / a.len().max(1) as f64
    })
    .collect()
}

/// The nearest-neighbor overlap of one decile of weight.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Decile {
    /// The decile; 1 has the largest weights.
    pub decile: usize,
    /// The range of weights.
    pub weights: [f64; 2],
    /// The number of probes in the decile.
    pub probes: usize,
    /// The mean overlap of these probes; `None` for fewer than two.
    pub overlap: Option<Estimate>,
}

/// Returns the overlap between `runs` runs by decile of weight, largest weights first. Ids of equal weight are ordered by
/// their number.
pub fn by_decile(weights: &[f64], probes: &[u32], overlap: &[f64], runs: usize) -> Vec<Decile> {
    let mut order: Vec<u32> = (0..weights.len() as u32).collect();
    let weight = |i: u32| weights[i as usize];
    order.sort_by(|&a, &b| weight(b).total_cmp(&weight(a)).then(a.cmp(&b)));
    let n = order.len();
    let mut decile_of = vec![0u8; n];
    let bounds: Vec<usize> = (0..=10).map(|d| d * n / 10).collect();
    for (d, range) in bounds.windows(2).enumerate() {
        order[range[0]..range[1]].iter().for_each(|&i| decile_of[i as usize] = d as u8);
    }
    let decile = |d: usize| {
        let ids = &order[bounds[d]..bounds[d + 1]];
        let inside = probes.iter().zip(overlap).filter(|(p, _)| decile_of[**p as usize] == d as u8);
        let values: Vec<f64> = inside.map(|(_, &o)| o).collect();
        Decile {
            decile: d + 1,
            weights: [ids.last(), ids.first()].map(|i| i.map_or(0.0, |&i| weight(i))),
            probes: values.len(),
            overlap: Estimate::mean(values).map(|e| e.within(0.0, 1.0).with_seeds(runs as u64)),
        }
    };
    (0..10).map(decile).collect()
}
