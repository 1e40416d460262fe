//! Relabels the nodes of a graph.

use super::Graph;
use crate::Lists;

impl Graph {
    /// Returns the same graph with permuted nodes: node i of the result is node `places[i]` of this graph.
    pub fn renumbered(self, places: &[u32]) -> Self {
        if (0..).zip(places).all(|(i, &place)| i == place) {
            return self;
        }
        let mut new = vec![0u32; places.len()];
        (0..).zip(places).for_each(|(i, &place)| new[place as usize] = i);
        match self {
            Self::Edges { neighbors, weights } => {
                let mut of_node: Vec<(u32, f32)> = Vec::new();
                let (mut pairs, mut moved) = (Vec::new(), Vec::new());
                for (i, &place) in (0u32..).zip(places) {
                    let range = neighbors.range(place as usize);
                    let weight = |at: usize| weights.as_ref().map_or(1.0, |weights| weights[at]);
                    of_node.clear();
                    of_node
                        .extend(range.map(|at| (new[neighbors.values()[at] as usize], weight(at))));
                    of_node.sort_unstable_by_key(|(neighbor, _)| *neighbor);
                    pairs.extend(of_node.iter().map(|(neighbor, _)| (i, *neighbor)));
                    moved.extend(of_node.iter().map(|(_, weight)| *weight));
                }
                let neighbors = Lists::collect(places.len(), pairs.into_iter());
                Self::Edges { neighbors, weights: weights.map(|_| moved) }
            }
            Self::Groups { of, members } => {
                let pairs = (0u32..).zip(places).flat_map(|(i, &place)| {
                    of.get(place as usize).iter().map(move |&group| (i, group))
                });
                let groups = pairs.clone().map(|(i, group)| (group, i));
                let members = Lists::collect(members.len(), groups);
                Self::Groups { of: Lists::collect(places.len(), pairs), members }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renumbered_graph_has_the_same_neighbors() {
        // 0 - 1 (2.0), 1 - 2 (3.0); the new order is 2, 0, 1.
        let pairs = [(0, 1), (1, 0), (1, 2), (2, 1)];
        let neighbors = Lists::collect(3, pairs.into_iter());
        let graph = Graph::Edges { neighbors, weights: Some(vec![2.0, 2.0, 3.0, 3.0]) };
        let pairs = [(0, 2), (1, 2), (2, 0), (2, 1)];
        let neighbors = Lists::collect(3, pairs.into_iter());
        let want = Graph::Edges { neighbors, weights: Some(vec![3.0, 2.0, 3.0, 2.0]) };
        assert_eq!(graph.renumbered(&[2, 0, 1]), want);

        let of = Lists::collect(3, [(0, 0), (1, 0), (2, 1)].into_iter());
        let members = Lists::collect(2, [(0, 0), (0, 1), (1, 2)].into_iter());
        let of_new = Lists::collect(3, [(0, 1), (1, 0), (2, 0)].into_iter());
        let members_new = Lists::collect(2, [(0, 1), (0, 2), (1, 0)].into_iter());
        let want = Graph::Groups { of: of_new, members: members_new };
        assert_eq!(Graph::Groups { of, members }.renumbered(&[2, 0, 1]), want);
    }
}
