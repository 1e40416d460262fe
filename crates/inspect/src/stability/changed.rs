//! The ids of largest weight whose neighbors changed, with their neighbors before and after.

use crate::stability::Comparison;

/// An id whose neighbors changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    /// The row number among the shared ids.
    pub row: u32,
    /// The weight of the id; 1 without weights.
    pub weight: f64,
    /// The overlap of its neighbors.
    pub overlap: f64,
    /// The neighbors in the first run, nearest first.
    pub before: Vec<u32>,
    /// The neighbors in the last run, nearest first.
    pub after: Vec<u32>,
}

/// Returns the `count` probes of largest weight x churn.
pub fn changed(comparison: &Comparison, weights: Option<&[f64]>, count: usize) -> Vec<Changed> {
    let probed = &comparison.probed;
    let weight = |row: u32| weights.map_or(1.0, |w| w[row as usize]);
    let mut order: Vec<(f64, usize)> = (0..probed.rows.len())
        .map(|p| (weight(probed.rows[p]) * (1.0 - probed.overlap[p]), p))
        .filter(|&(harm, _)| harm > 0.0)
        .collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let (Some(first), Some(last)) = (probed.neighbors.first(), probed.neighbors.last()) else {
        return Vec::new();
    };
    let of = |(_, p): (f64, usize)| Changed {
        row: probed.rows[p],
        weight: weight(probed.rows[p]),
        overlap: probed.overlap[p],
        before: first[p].iter().map(|s| s.number).collect(),
        after: last[p].iter().map(|s| s.number).collect(),
    };
    order.into_iter().take(count).map(of).collect()
}
