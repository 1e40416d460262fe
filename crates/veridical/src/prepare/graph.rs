//! Graphs for SSE-Graph, as files that `train` reads.

use std::path::PathBuf;

use serde::Serialize;
use veridical_data::{Graph, GraphSummary, Labels, ReadOptions, Source, Table};

use super::interactions_of;
use crate::train::{Options, reading};
use crate::{Error, Observer, Result};

/// Whose neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Among users.
    User,
    /// Among items.
    Item,
}

/// Where neighbours come from.
#[derive(Clone, Debug)]
pub enum GraphSource {
    /// Those who share a label; never written as edges.
    Labels(PathBuf),
    /// A list of edges, cleaned.
    Edges(PathBuf),
    /// The nearest by cosine among vectors of side features.
    Nearest {
        /// The vectors.
        vectors: PathBuf,
        /// Neighbours of each, at least.
        k: usize,
    },
}

/// What to build, and where to.
#[derive(Clone, Debug)]
pub struct BuildGraph {
    /// The interactions whose ids are the nodes, and how labels are read.
    pub options: Options,
    /// Users or items.
    pub side: Side,
    /// Where neighbours come from.
    pub source: GraphSource,
    /// The file.
    pub out: PathBuf,
    /// Replace a file that is there.
    pub force: bool,
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
pub fn graph(settings: &BuildGraph, observer: &dyn Observer) -> Result<BuiltGraph> {
    let BuildGraph { options, side, source, out, force } = settings;
    if !force && out.exists() {
        let what = "exists already; choose another name or replace it with --force";
        return Err(Error::Usage(format!("{} {what}", out.display())));
    }
    let data = reading::interactions(interactions_of(options)?, options, observer)?;
    let ids = match side {
        Side::User => &data.users,
        Side::Item => &data.items,
    };
    let (graph, notes) = match source {
        GraphSource::Labels(path) => {
            let (labels, notes) = Labels::read(path, &reading::label_options(options), ids)?;
            (Graph::from_labels(&labels), notes)
        }
        GraphSource::Edges(path) => (reading::edges(path, options, ids, observer)?, Vec::new()),
        GraphSource::Nearest { vectors, k } => {
            let table = Table::load(&Source::Path(vectors.clone()), &ReadOptions::default())?;
            Graph::knn(&table, ids, *k)?
        }
    };
    notes.iter().for_each(|note| observer.note(note));
    graph.write(out, ids)?;
    let kind = if matches!(source, GraphSource::Labels(_)) { "groups" } else { "graph" };
    let table = if *side == Side::User { "user" } else { "item" };
    Ok(BuiltGraph {
        out: out.display().to_string(),
        side: *side,
        flag: format!("--sse-{kind}-{table}"),
        summary: graph.describe(),
    })
}
