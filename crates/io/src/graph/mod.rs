//! Reads and writes labels, names, weights and graphs.

mod edges;
mod labels;
mod write;

pub use self::edges::{EdgeOptions, read_edges};
pub use self::labels::{
    LABEL_COLUMN, LabelOptions, read_labels, read_labels_of, read_names, read_weights,
};
pub use self::write::write_graph;

/// The message about ids of a file that are not in the table.
fn unknown_ids(what: &str, unknown: u64, all: u64, example: &str) -> String {
    format!("{unknown} of {all} {what} have ids that are not in the table, such as `{example}`")
}

#[cfg(test)]
mod tests;
