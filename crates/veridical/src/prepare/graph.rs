//! Graphs for SSE-Graph, as files that `train` reads.

use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Job, choices, settings};
use veridical_data::{Graph, GraphSummary};
use veridical_io::{Input, Output, ReadOptions, Replace, publish};

use crate::settings::{GroupReading, InteractionReading};
use crate::train::reading;
use crate::{Error, Result};

choices! {
    /// Node type of a graph.
    pub enum Side {
        /// User-user graph
        User = "user",
        /// Item-item graph
        Item = "item",
    }
}

settings! {
    /// Settings of [`graph`].
    pub struct BuildGraph {
        /// User-item interactions that define the nodes (file or folder)
        pub interactions: Input = Input::default() => [required()],
        /// Nodes of the graph
        pub of: Side = Side::Item,
        /// Connect ids that share a label: genre, cast, age group
        pub labels: Option<Input> = None => [excludes(&["edges", "vectors"])],
        /// Connect ids by a list of edges
        pub edges: Option<Input> = None => [excludes(&["vectors"])],
        /// Connect ids to their nearest neighbors by cosine similarity of these vectors
        pub vectors: Option<Input> = None => [value("TABLE")],
        /// Number of nearest neighbors per node
        pub k: usize = 10 => [value("K"), needs(&["vectors"])],
        /// File to write: .csv, .tsv, .parquet or .jsonl
        pub out: Output = Output::default() => [required()],
    } with {
        /// Whether existing output is replaced.
        pub replace: Replace,
        /// How interactions are read.
        pub reading: InteractionReading,
        /// How labels are read.
        pub groups: GroupReading,
    }
}

/// Result of [`graph`].
#[derive(Clone, Debug, Serialize)]
pub struct BuiltGraph {
    /// Path of the graph file.
    pub out: String,
    /// Node type: users or items.
    pub side: Side,
    /// Flag of `train` that reads the file.
    pub flag: String,
    /// Statistics of the graph.
    #[serde(flatten)]
    pub summary: GraphSummary,
}

/// Builds a graph over the users or items of interactions.
///
/// # Errors
/// Files that cannot be read, a graph without edges, and an existing file unless `force` is set.
pub fn graph(settings: &BuildGraph, job: &Job<'_>) -> Result<BuiltGraph> {
    settings.check()?;
    let BuildGraph { of: side, out, labels, edges, vectors, reading, .. } = settings;
    publish::check_new(out, settings.replace.force)?;
    let nothing = || Error::request("pass one of ⟨labels⟩, ⟨edges⟩ and ⟨vectors⟩", "");
    if labels.is_none() && edges.is_none() && vectors.is_none() {
        return Err(nothing());
    }
    let data = reading::interactions(&settings.interactions, reading, job)?;
    let ids = match side {
        Side::User => &data.users,
        Side::Item => &data.items,
    };
    let (graph, kind) = match (labels, edges, vectors) {
        // Groups that share a label are written as groups, never expanded to edges.
        (Some(path), ..) => {
            (reading::groups(path, (&settings.groups, &reading.files), ids, job)?, "groups")
        }
        (_, Some(path), _) => (reading::edges(path, &reading.files, ids, job)?, "graph"),
        (.., Some(vectors)) => {
            let table = veridical_io::read_table(&vectors.source(), &ReadOptions::default())?;
            let (graph, notes) = Graph::knn(&table, ids, settings.k)?;
            notes.iter().for_each(|note| job.note(note));
            (graph, "graph")
        }
        (None, None, None) => return Err(nothing()),
    };
    veridical_io::write_graph(&graph, out, ids)?;
    Ok(BuiltGraph {
        out: out.to_string(),
        side: *side,
        flag: format!("⟨sse-{kind}-{}⟩", side.name()),
        summary: graph.describe(),
    })
}
