//! Graphs from edge lists.

use std::path::Path;

use veridical_data::{Cell, Graph, IdMap};

use super::unknown_ids;
use crate::records::{self, RecordOptions, Role, Row};
use crate::{Error, Result};

/// Options for reading edges.
#[derive(Clone, Debug, Default)]
pub struct EdgeOptions {
    /// How the files are read; their columns are `source`, `target` and `weight`.
    pub records: RecordOptions,
    /// Whether ids that are not in the table are an error rather than counted.
    pub strict: bool,
}

const SOURCE: usize = 0;
const TARGET: usize = 1;
const WEIGHT: usize = 2;

const ROLES: [Role; 3] = [
    Role {
        name: "source",
        flag: "",
        known: &[
            "source", "src", "from", "head", "head_id", "a", "u", "node1", "item1", "user1", "id1",
        ],
        required: true,
        place: SOURCE,
    },
    Role {
        name: "target",
        flag: "",
        known: &[
            "target", "dst", "to", "tail", "tail_id", "b", "v", "node2", "item2", "user2", "id2",
        ],
        required: true,
        place: TARGET,
    },
    Role {
        name: "weight",
        flag: "",
        known: &["weight", "w", "score", "similarity"],
        required: false,
        place: WEIGHT,
    },
];

/// Reads an undirected graph over the nodes of `ids`: one edge per row (CSV, TSV, Parquet, Arrow) or per
/// entry of a sparse matrix. Self-loops are dropped; duplicate edges are merged, and their weights added. Also returns notes
/// for the user.
///
/// # Errors
/// [`Error::Content`] for weights that are not positive, for unknown ids if `strict`, and if no edge
/// remains.
pub fn read_edges(path: &Path, options: &EdgeOptions, ids: &IdMap) -> Result<(Graph, Vec<String>)> {
    let mut edges: Vec<(u32, u32, f32)> = Vec::new();
    let (mut all, mut loops, mut unknown) = (0u64, 0u64, 0u64);
    let mut example = String::new();
    let seen = records::read(path, &ROLES, &options.records, &mut |row| {
        all += 1;
        let cell = |role: usize| row.cell(role).unwrap_or(Cell::Missing);
        let weight = row.cell(WEIGHT).map_or(Ok(1.0), |cell| weight(row, cell))?;
        let ends = [SOURCE, TARGET].map(|role| (cell(role), ids.find(cell(role))));
        if let Some((missing, _)) = ends.iter().find(|(_, number)| number.is_none()) {
            if options.strict {
                let what = format!("the id `{}` is not in the table", missing.shown());
                return Err(row.refused(format!("{what}; remove the edge")));
            }
            if unknown == 0 {
                example = missing.shown();
            }
            unknown += 1;
        } else if let [(_, Some(a)), (_, Some(b))] = ends {
            if a == b { loops += 1 } else { edges.push((a, b, weight)) }
        }
        Ok(())
    })?;
    let mut notes = seen.notes;
    if edges.is_empty() {
        let mut what = "no edge is left".to_owned();
        if unknown > 0 {
            what = format!("{what}: {}", unknown_ids("edges", unknown, all, &example));
        }
        return Err(Error::content(path, what));
    }
    if unknown > 0 {
        notes.push(unknown_ids("edges", unknown, all, &example) + "; they were dropped");
    }
    if loops > 0 {
        notes.push(format!("{loops} self-loops dropped"));
    }
    let n = edges.len();
    let graph = Graph::from_edges(ids.len(), edges, seen.roles[WEIGHT]);
    let merged = n as u64 - graph.describe().edges;
    if merged > 0 {
        notes.push(format!("{merged} duplicate edges merged"));
    }
    Ok((graph, notes))
}

fn weight(row: &Row<'_>, cell: Cell<'_>) -> Result<f32> {
    let value = match cell {
        Cell::Text(text) => text.trim().parse().ok(),
        Cell::Int(value) => Some(value as f32),
        Cell::Float(value) => Some(value as f32),
        Cell::Missing => None,
    };
    value.filter(|value| value.is_finite() && *value > 0.0).ok_or_else(|| {
        let what = format!("the weight `{}` is not a positive number", cell.shown());
        row.refused(format!("{what}; repair it, or remove the edge"))
    })
}
