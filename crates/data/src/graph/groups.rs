//! Graphs of shared attributes: nodes are neighbors if they have a class in common.

use super::{Graph, Labels};
use crate::Lists;

impl Graph {
    /// Connects nodes that share a class; classes with a single node are dropped.
    pub fn from_labels(labels: &Labels) -> Self {
        let mut size = vec![0u32; labels.classes.len()];
        labels.of.values().iter().for_each(|&class| size[class as usize] += 1);
        let mut n_groups = 0;
        let group_of = |size: &u32| {
            (*size >= 2).then(|| {
                n_groups += 1;
                n_groups - 1
            })
        };
        let group: Vec<Option<u32>> = size.iter().map(group_of).collect();
        let pairs = || {
            let of = labels.of.iter().enumerate();
            of.flat_map(|(node, classes)| classes.iter().map(move |&class| (node as u32, class)))
                .filter_map(|(node, class)| Some((node, group[class as usize]?)))
        };
        Self::Groups {
            of: Lists::collect(labels.of.len(), pairs()),
            members: Lists::collect(n_groups as usize, pairs().map(|(node, group)| (group, node))),
        }
    }
}

/// Ordered pairs of neighbors, each once, and nodes without any. Nodes with the same groups have the same
/// neighbors, so every set of groups is processed once.
pub(super) fn ends_and_isolated(of: &Lists, members: &Lists) -> (u64, usize) {
    let mut nodes: Vec<u32> = (0..of.len() as u32).collect();
    nodes.sort_unstable_by_key(|&node| of.get(node as usize));
    let mut seen = vec![u32::MAX; of.len()];
    let (mut ends, mut isolated) = (0, 0);
    for peers in nodes.chunk_by(|&a, &b| of.get(a as usize) == of.get(b as usize)) {
        let (mark, groups) = (peers[0], of.get(peers[0] as usize));
        let mut others = 0u64;
        for &node in groups.iter().flat_map(|&group| members.get(group as usize)) {
            if seen[node as usize] != mark {
                seen[node as usize] = mark;
                others += 1;
            }
        }
        if others == 0 {
            isolated += peers.len();
        } else {
            ends += (others - 1) * peers.len() as u64; // without the node itself
        }
    }
    (ends, isolated)
}
