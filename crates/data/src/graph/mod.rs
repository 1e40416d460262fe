//! What is known about the nodes of a table (users, items, words) besides their data: labels and
//! graphs.

mod groups;
mod knn;
mod renumber;

use serde::Serialize;

use crate::{IdMap, Lists};

/// One or many classes of every node, such as the genres of a movie.
#[derive(Clone, Debug, PartialEq)]
pub struct Labels {
    /// The names of the classes.
    pub classes: IdMap,
    /// The classes of every node, ascending.
    pub of: Lists,
}

/// Which nodes are neighbours.
#[derive(Clone, Debug, PartialEq)]
pub enum Graph {
    /// An undirected edge list: both ends know each other.
    Edges {
        /// The neighbours of every node, ascending, without the node itself.
        neighbours: Lists,
        /// One positive weight per entry of `neighbours`, if edges have them.
        weights: Option<Vec<f32>>,
    },
    /// Nodes are neighbours when they share a group; the edges are never written down.
    Groups {
        /// The groups of every node, ascending.
        of: Lists,
        /// The nodes of every group, ascending.
        members: Lists,
    },
}

/// The size of a graph.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GraphSummary {
    /// Nodes.
    pub nodes: usize,
    /// Pairs of neighbours; for groups, counted once however many they share.
    pub edges: u64,
    /// Groups of at least two nodes, for a graph of groups.
    pub groups: Option<usize>,
    /// Nodes without a neighbour.
    pub isolated: usize,
    /// Neighbours of a node, on average.
    pub mean_degree: f64,
    /// Whether edges have weights.
    pub weighted: bool,
}

impl Graph {
    /// How many nodes.
    pub fn n_nodes(&self) -> usize {
        match self {
            Self::Edges { neighbours, .. } => neighbours.len(),
            Self::Groups { of, .. } => of.len(),
        }
    }

    /// The neighbours of a node, ascending; for groups this takes the time of their sizes.
    pub fn neighbours(&self, node: usize) -> Vec<u32> {
        match self {
            Self::Edges { neighbours, .. } => neighbours.get(node).to_vec(),
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

    /// The graph of edges (a, b, weight), in either direction, with a != b below `n_nodes`.
    pub fn from_edges(n_nodes: usize, edges: Vec<(u32, u32, f32)>, weighted: bool) -> Self {
        let mut ends = edges;
        ends.reserve(ends.len());
        for i in 0..ends.len() {
            let (a, b, weight) = ends[i];
            ends.push((b, a, weight));
        }
        // Stable: both directions of an edge add their weights in the order of the rows.
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
            neighbours: Lists::from_raw(starts, values),
            weights: weighted.then_some(weights),
        }
    }

    /// The size of the graph.
    pub fn describe(&self) -> GraphSummary {
        let nodes = self.n_nodes();
        let (ends, isolated) = match self {
            Self::Edges { neighbours, .. } => {
                let isolated = neighbours.iter().filter(|list| list.is_empty()).count();
                (neighbours.values().len() as u64, isolated)
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
