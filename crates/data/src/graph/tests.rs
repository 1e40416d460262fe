use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use veridical_core::Seed;
use veridical_core::threads::with_threads;

use super::*;
use crate::{VectorTable, generate};

/// Lists ascend without repeats and without the node, and edges are symmetric.
fn assert_invariants(graph: &Graph) {
    for node in 0..graph.n_nodes() {
        let near = graph.neighbors(node);
        assert!(near.windows(2).all(|pair| pair[0] < pair[1]) && !near.contains(&(node as u32)));
        for &other in &near {
            assert!(graph.neighbors(other as usize).contains(&(node as u32)));
        }
    }
    if let Graph::Edges { neighbors, weights: Some(weights) } = graph {
        assert_eq!(weights.len(), neighbors.values().len());
        let weight = |a: usize, b: u32| {
            let at = neighbors.get(a).binary_search(&b).unwrap();
            weights[neighbors.range(a)][at]
        };
        for a in 0..neighbors.len() {
            neighbors
                .get(a)
                .iter()
                .for_each(|&b| assert_eq!(weight(a, b), weight(b as usize, a as u32)));
        }
    }
}

#[test]
fn groups_are_the_graph_of_common_classes() {
    let classes = IdMap::of_texts(["a", "b", "c"].into_iter()).0;
    let pairs = [(0, 0), (1, 0), (1, 1), (2, 1), (3, 2), (0, 1)];
    let mut of = Lists::collect(5, pairs.into_iter());
    of.sort_and_dedup();
    let graph = Graph::from_labels(&Labels { classes, of });
    assert_invariants(&graph);
    let Graph::Groups { of, members } = &graph else { panic!("groups") };
    assert_eq!(members.iter().collect::<Vec<_>>(), [&[0, 1][..], &[0, 1, 2]]); // c has one member
    assert_eq!(of.iter().collect::<Vec<_>>(), [&[0, 1][..], &[0, 1], &[1], &[], &[]]);
    let summary = graph.describe();
    assert_eq!((summary.edges, summary.isolated, summary.groups), (3, 2, Some(2)));
}

#[test]
fn nearest_neighbors_match_brute_force_for_any_number_of_threads() {
    let table = generate::clusters(150, 12, 5, Seed::new(3).unwrap());
    let ids = IdMap::of_texts(
        (0..150).map(|r| format!("item-{r}")).collect::<Vec<_>>().iter().map(String::as_str),
    )
    .0;
    let (graph, notes) = with_threads(Some(1), || Graph::knn(&table, &ids, 4)).unwrap().unwrap();
    assert!(notes.is_empty());
    assert_invariants(&graph);
    for threads in [2, 5] {
        let again = with_threads(Some(threads), || Graph::knn(&table, &ids, 4)).unwrap().unwrap();
        assert_eq!(again.0, graph);
    }
    // In f64 over all pairs; random Gaussian rows have no ties within rounding.
    let cosine = |a: usize, b: usize| {
        let dot = |a: usize, b: usize| -> f64 {
            table.row(a).iter().zip(table.row(b)).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
        };
        dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
    };
    let mut want: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let node = |row: usize| ids.number(&format!("item-{row}")).unwrap();
    for a in 0..150 {
        let mut others: Vec<usize> = (0..150).filter(|&b| b != a).collect();
        others.sort_by(|&b, &c| cosine(a, c).total_cmp(&cosine(a, b)));
        for &b in &others[..4] {
            want.entry(node(a)).or_default().insert(node(b));
            want.entry(node(b)).or_default().insert(node(a));
        }
    }
    for (a, near) in want {
        assert_eq!(graph.neighbors(a as usize), near.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn equal_cosines_go_to_the_smaller_number_and_rows_of_zeros_to_nobody() {
    let rows = [[1.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 0.0], [3.0, 0.0]];
    let table = VectorTable { ids: crate::Ids::numbered(0, 5), dim: 2, vectors: rows.concat() };
    let (graph, notes) = Graph::knn(&table, &IdMap::numbered(6), 1).unwrap();
    let near: Vec<Vec<u32>> = (0..6).map(|node| graph.neighbors(node)).collect();
    assert_eq!(near, [vec![1, 2, 4], vec![0], vec![0], vec![], vec![0], vec![]]);
    assert_eq!(notes, ["2 of 6 ids have no features and no neighbors"]);
    assert!(Graph::knn(&table, &IdMap::numbered(5), 0).is_err());
}

proptest! {
    /// Against sets.
    #[test]
    fn edge_lists_are_sets_of_pairs(pairs in prop::collection::vec((0u32..12, 0u32..12), 1..60)) {
        let edges: Vec<_> =
            pairs.iter().filter(|(a, b)| a != b).map(|&(a, b)| (a, b, 0.5)).collect();
        let graph = Graph::from_edges(12, edges.clone(), true);
        assert_invariants(&graph);
        for node in 0..12u32 {
            let near: BTreeSet<u32> = edges
                .iter()
                .filter_map(|&(a, b, _)| if a == node { Some(b) } else { (b == node).then_some(a) })
                .collect();
            prop_assert_eq!(graph.neighbors(node as usize), near.into_iter().collect::<Vec<_>>());
        }
        let Graph::Edges { weights: Some(weights), .. } = graph else { panic!("weighted edges") };
        prop_assert_eq!(weights.iter().sum::<f32>(), edges.len() as f32);
    }
}
