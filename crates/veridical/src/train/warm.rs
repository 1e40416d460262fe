//! Loading the vectors of a warm start from a run folder or a vector table.

use std::path::Path;

use veridical_embed::warm::Earlier;
use veridical_io::run::RunFolder;
use veridical_io::{ReadOptions, Source};

use crate::Result;

/// Loads vectors from a run folder, or from a vector table that is used as `table`.
pub(crate) fn load(path: &Path, table: &str) -> Result<Earlier> {
    let read = |path: &Path| {
        veridical_io::read_table(&Source::Path(path.to_owned()), &ReadOptions::default())
    };
    if !RunFolder::is_run(path) {
        return Ok(Earlier::of_table(table, read(path)?));
    }
    let run = RunFolder::open(path)?;
    let ids = |name: &str| Ok((name.to_owned(), read(&run.table(Some(name))?)?.ids));
    let ids = run.tables().into_iter().map(ids).collect::<Result<_>>()?;
    Ok(Earlier { ids, tensors: run.state()? })
}
