//! Loading the tables of a comparison.

use std::path::{Path, PathBuf};

use veridical_core::Job;
use veridical_inspect::stability::NamedTable;
use veridical_io::{Input, ReadOptions, Source, run};

use crate::Result;

/// Reads and inspects a table.
pub fn read(path: &Path, options: &ReadOptions, job: &Job<'_>) -> Result<NamedTable> {
    let source = Source::from_arg(path);
    let table = veridical_io::read_table(&source, options)?;
    Ok(NamedTable::new(source.to_string(), table, job)?)
}

/// Returns the tables that paths refer to: an ensemble is expanded to its seeds.
pub fn expand(paths: &[Input]) -> Vec<PathBuf> {
    let of = |path: &Input| match run::seeds(path) {
        seeds if seeds.is_empty() => vec![path.to_path_buf()],
        seeds => seeds,
    };
    paths.iter().flat_map(of).collect()
}
