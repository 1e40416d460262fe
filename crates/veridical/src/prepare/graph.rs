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
    /// Whose neighbors.
    pub enum Side {
        /// Among users
        User = "user",
        /// Among items
        Item = "item",
    }
}

settings! {
    /// What to build, and where to.
    pub struct BuildGraph {
        /// The interactions whose users or items are the nodes
        pub interactions: Input = Input::default() => [required()],
        /// Whose graph
        pub of: Side = Side::Item,
        /// Neighbors share a label: genre, cast, age group
        pub labels: Option<Input> = None => [excludes(&["edges", "vectors"])],
        /// Neighbors by a list of edges
        pub edges: Option<Input> = None => [excludes(&["vectors"])],
        /// Neighbors are the nearest by cosine of these vectors
        pub vectors: Option<Input> = None => [value("TABLE")],
        /// Nearest neighbors of each
        pub k: usize = 10 => [value("K"), needs(&["vectors"])],
        /// File to write: .csv, .tsv, .parquet or .jsonl
        pub out: Output = Output::default() => [required()],
    } with {
        /// What to do about an earlier output.
        pub replace: Replace,
        /// How interactions are read.
        pub reading: InteractionReading,
        /// How labels are read.
        pub groups: GroupReading,
    }
}

/// What was built.
#[derive(Clone, Debug, Serialize)]
pub struct BuiltGraph {
    /// The file.
    pub out: String,
    /// Users or items.
    pub side: Side,
    /// The flag of `train` that reads it.
    pub flag: String,
    /// What it is like.
    #[serde(flatten)]
    pub summary: GraphSummary,
}

/// Builds a graph among the users or items of interactions.
///
/// # Errors
/// What cannot be read, a graph without an edge, and a file that is there unless `force`.
pub fn graph(settings: &BuildGraph, job: &Job<'_>) -> Result<BuiltGraph> {
    settings.check()?;
    let BuildGraph { of: side, out, labels, edges, vectors, reading, .. } = settings;
    publish::check_new(out, settings.replace.force)?;
    let nothing = || Error::request("give one of ⟨labels⟩, ⟨edges⟩ and ⟨vectors⟩", "");
    if labels.is_none() && edges.is_none() && vectors.is_none() {
        return Err(nothing());
    }
    let data = reading::interactions(&settings.interactions, reading, job)?;
    let ids = match side {
        Side::User => &data.users,
        Side::Item => &data.items,
    };
    let (graph, kind) = match (labels, edges, vectors) {
        // Those who share a label: never written as edges.
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
