//! What is known about the nodes of a table (users, items, words) besides their data: labels and
//! graphs.

mod edges;
mod groups;
mod knn;
mod labels;
mod renumber;

use std::path::Path;
use std::sync::Arc;

use arrow_array::{Float32Array, Int64Array};
use arrow_schema::{DataType, Field};
use serde::Serialize;

pub use self::edges::EdgeOptions;
pub use self::labels::{LabelOptions, NameOptions, read_names, read_weights};
use crate::{ColumnWriter, IdMap, Lists, Result};

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
#[non_exhaustive]
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

    /// Writes every edge once as `source`, `target` and maybe `weight`, or every membership as `id`, `group`.
    ///
    /// # Errors
    /// As [`ColumnWriter`].
    pub fn write(&self, path: &Path, ids: &IdMap) -> Result<()> {
        let id = |name: &str| Field::new(name, ids.data_type(), false);
        match self {
            Self::Edges { neighbours, weights } => {
                let mut fields = vec![id("source"), id("target")];
                fields
                    .extend(weights.iter().map(|_| Field::new("weight", DataType::Float32, false)));
                let mut writer = ColumnWriter::create(path, fields)?;
                for (node, list) in neighbours.iter().enumerate() {
                    let above = list.partition_point(|&other| (other as usize) < node);
                    let later = &list[above..];
                    let here = vec![node as u32; later.len()];
                    let mut columns = vec![ids.array(&here), ids.array(later)];
                    if let Some(weights) = weights {
                        let own = weights[neighbours.range(node)][above..].to_vec();
                        columns.push(Arc::new(Float32Array::from(own)));
                    }
                    if !later.is_empty() {
                        writer.write(columns)?;
                    }
                }
                writer.finish()
            }
            Self::Groups { of, .. } => {
                let fields = vec![id("id"), Field::new("group", DataType::Int64, false)];
                let mut writer = ColumnWriter::create(path, fields)?;
                for (node, list) in of.iter().enumerate().filter(|(_, list)| !list.is_empty()) {
                    let groups = list.iter().map(|&group| i64::from(group));
                    let here = ids.array(&vec![node as u32; list.len()]);
                    writer.write(vec![here, Arc::new(Int64Array::from_iter_values(groups))])?;
                }
                writer.finish()
            }
        }
    }
}

/// What is wrong when a file speaks of ids that the table does not have.
fn unknown_ids(what: &str, unknown: u64, all: u64, example: &str) -> String {
    format!(
        "{unknown} of {all} {what} are about ids that are not in the table, the first `{example}`"
    )
}

#[cfg(test)]
mod tests;
