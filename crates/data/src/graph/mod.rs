//! Side information about nodes (users, items, words): labels and
//! graphs.

mod groups;
mod knn;
mod renumber;

use serde::Serialize;

use crate::{IdMap, Lists};

/// One or more classes of every node, such as the genres of a movie.
#[derive(Clone, Debug, PartialEq)]
pub struct Labels {
    /// The class names.
    pub classes: IdMap,
    /// The classes of every node, ascending.
    pub of: Lists,
}

/// A neighborhood graph over nodes.
///
/// ```
/// use veridical_data::Graph;
///
/// let graph = Graph::from_edges(4, vec![(0, 1, 1.0), (2, 1, 1.0)], false);
/// assert_eq!(graph.neighbors(1), [0, 2]);
/// assert_eq!((graph.describe().edges, graph.describe().isolated), (2, 1));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Graph {
    /// An undirected edge list: each edge is stored at both ends.
    Edges {
        /// The neighbors of every node, ascending, without the node itself.
        neighbors: Lists,
        /// One positive weight per entry of `neighbors`, if the graph is weighted.
        weights: Option<Vec<f32>>,
    },
    /// Nodes are neighbors if they share a group; the edges are never materialized.
    Groups {
        /// The groups of every node, ascending.
        of: Lists,
        /// The nodes of every group, ascending.
        members: Lists,
    },
}

/// Summary statistics of a graph.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GraphSummary {
    /// The number of nodes.
    pub nodes: usize,
    /// The number of pairs of neighbors; nodes that share several groups count once.
    pub edges: u64,
    /// The number of groups of at least two nodes, for a graph of groups.
    pub groups: Option<usize>,
    /// The number of nodes without neighbors.
    pub isolated: usize,
    /// The mean number of neighbors of a node.
    pub mean_degree: f64,
    /// Whether the edges have weights.
    pub weighted: bool,
}

impl Graph {
    /// Returns the number of nodes.
    pub fn n_nodes(&self) -> usize {
        match self {
            Self::Edges { neighbors, .. } => neighbors.len(),
            Self::Groups { of, .. } => of.len(),
        }
    }

    /// Returns the neighbors of a node, ascending; for groups the time is linear in their sizes.
    pub fn neighbors(&self, node: usize) -> Vec<u32> {
        match self {
            Self::Edges { neighbors, .. } => neighbors.get(node).to_vec(),
            Self::Groups { of, members } => {
                let groups = of.get(node).iter();
                let mut all: Vec<u32> =
                    groups.flat_map(|&group| members.get(group as usize)).copied().collect();
                all.retain(|&other| other as usize != node);
                all.sort_unstable();
                all.dedup();
                all
            }
        }
    }

    /// Creates a graph from edges (a, b, weight), in either direction, with a != b below `n_nodes`.
    pub fn from_edges(n_nodes: usize, edges: Vec<(u32, u32, f32)>, weighted: bool) -> Self {
        let mut ends = edges;
        ends.reserve(ends.len());
        for i in 0..ends.len() {
            let (a, b, weight) = ends[i];
            ends.push((b, a, weight));
        }
        // Stable: both directions of an edge add their weights in row order.
        ends.sort_by_key(|&(a, b, _)| (a, b));
        let mut starts = vec![0; n_nodes + 1];
        let (mut values, mut weights) = (Vec::new(), Vec::new());
        for same in ends.chunk_by(|x, y| (x.0, x.1) == (y.0, y.1)) {
            starts[same[0].0 as usize + 1] += 1;
            values.push(same[0].1);
            if weighted {
                let sum: f64 = same.iter().map(|edge| f64::from(edge.2)).sum();
                weights.push((sum as f32).min(f32::MAX));
            }
        }
        for node in 0..n_nodes {
            starts[node + 1] += starts[node];
        }
        Self::Edges {
            neighbors: Lists::from_raw(starts, values),
            weights: weighted.then_some(weights),
        }
    }

    /// Returns summary statistics of the graph.
    pub fn describe(&self) -> GraphSummary {
        let nodes = self.n_nodes();
        let (ends, isolated) = match self {
            Self::Edges { neighbors, .. } => {
                let isolated = neighbors.iter().filter(|list| list.is_empty()).count();
                (neighbors.values().len() as u64, isolated)
            }
            Self::Groups { of, members } => groups::ends_and_isolated(of, members),
        };
        let (groups, weighted) = match self {
            Self::Edges { weights, .. } => (None, weights.is_some()),
            Self::Groups { members, .. } => (Some(members.len()), false),
        };
        let mean_degree = if nodes == 0 { 0.0 } else { ends as f64 / nodes as f64 };
        GraphSummary { nodes, edges: ends / 2, groups, isolated, mean_degree, weighted }
    }
}

#[cfg(test)]
mod tests;
