//! Labels, names, weights and graphs from and to files.

mod edges;
mod labels;
mod write;

pub use self::edges::{EdgeOptions, read_edges};
pub use self::labels::{LabelOptions, read_labels, read_names, read_weights};
pub use self::write::write_graph;

/// What is wrong when a file speaks of ids that the table does not have.
fn unknown_ids(what: &str, unknown: u64, all: u64, example: &str) -> String {
    format!(
        "{unknown} of {all} {what} are about ids that are not in the table, the first `{example}`"
    )
}

#[cfg(test)]
mod tests;
