//! What is known about the nodes of a table (users, items, words) besides their data: labels and
//! graphs.

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
