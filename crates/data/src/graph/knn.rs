//! The k-nearest-neighbor graph by cosine similarity:
//!
//! j ~ k    iff k is among the `k` rows of largest <x_j, x_k> / (|x_j| |x_k|), ties to the smaller index, or
//!          j is among those of k
//!
//! Rows are normalized and compared block by block in f32; every cosine is one sum in a fixed order, so neither threads
//! nor blocks change the graph.

use rayon::prelude::*;

use super::Graph;
use crate::{Cell, Error, IdMap, Ids, Result, VectorTable};

/// Rows of a block of queries, which share one pass over all rows.
const BLOCK: usize = 64;
/// Number of parallel partial sums.
const LANES: usize = 8;

impl Graph {
    /// Connects every node of `ids` that has a row in `table` with its `k` nearest neighbors; also returns notes for the user.
    ///
    /// # Errors
    /// [`Error`] if `k` is 0 or no id has a row.
    pub fn knn(table: &VectorTable, ids: &IdMap, k: usize) -> Result<(Self, Vec<String>)> {
        if k == 0 {
            return Err(Error::request("a graph needs at least 1 neighbor, got 0", ""));
        }
        let node_of = |row: usize| match &table.ids {
            Ids::Int(rows) => ids.find(Cell::Int(rows.value(row))),
            Ids::Text(rows) => ids.number(rows.value(row)),
        };
        let (mut nodes, mut taken) = (Vec::new(), vec![false; ids.len()]);
        let width = table.dim.next_multiple_of(LANES);
        let mut rows: Vec<f32> = Vec::new();
        for row in 0..table.n_rows() {
            let Some(node) = node_of(row) else { continue };
            let norm = table.row(row).iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            if norm > 0.0 && norm.is_finite() && !std::mem::replace(&mut taken[node as usize], true)
            {
                nodes.push(node);
                rows.extend(table.row(row).iter().map(|x| (f64::from(*x) / norm) as f32));
                rows.resize(nodes.len() * width, 0.0);
            }
        }
        if nodes.is_empty() {
            let what = "no id of the data has a row in the feature table";
            return Err(Error::unfit(what, ""));
        }
        let order = {
            let mut order: Vec<usize> = (0..nodes.len()).collect();
            order.sort_unstable_by_key(|&at| nodes[at]);
            order
        };
        let sorted: Vec<&[f32]> = order.iter().map(|&at| &rows[at * width..][..width]).collect();
        let near: Vec<Vec<u32>> = sorted
            .par_chunks(BLOCK)
            .enumerate()
            .flat_map_iter(|(block, rows)| nearest(rows, block * BLOCK, &sorted, k))
            .collect();
        let node = |at: usize| nodes[order[at]];
        let edges = near
            .iter()
            .enumerate()
            .flat_map(|(a, near)| near.iter().map(move |&b| (a, b as usize)));
        let edges = edges.map(|(a, b)| (node(a), node(b), 1.0)).collect();
        let missing = ids.len() - nodes.len();
        let notes = (missing > 0)
            .then(|| format!("{missing} of {} ids have no features and no neighbors", ids.len()));
        Ok((Self::from_edges(ids.len(), edges, false), notes.into_iter().collect()))
    }
}

/// The nearest neighbors of the rows in a block, which begins at row `first`.
fn nearest(block: &[&[f32]], first: usize, all: &[&[f32]], k: usize) -> Vec<Vec<u32>> {
    let mut best: Vec<Vec<(f32, u32)>> = vec![Vec::with_capacity(k + 1); block.len()];
    for (other, row) in all.iter().enumerate() {
        for (at, (best, own)) in best.iter_mut().zip(block).enumerate() {
            if first + at == other {
                continue;
            }
            let cosine = dot(own, row);
            if best.len() < k || cosine > best[k - 1].0 {
                // Ties: the smaller row index comes first.
                let place = best.partition_point(|&(before, _)| before >= cosine);
                best.insert(place, (cosine, other as u32));
                best.truncate(k);
            }
        }
    }
    best.into_iter().map(|near| near.into_iter().map(|(_, row)| row).collect()).collect()
}

/// The dot product of rows with a length that is a multiple of the lanes.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum()
}
