//! The parts of a source: one file, the files of a folder in the order of their paths, or stdin.

use std::path::{Path, PathBuf};

use crate::run::{self, RunFolder};
use crate::{Error, Format, ReadOptions, Result, Source, publications, storage};

/// One file of a table.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub path: PathBuf,
    /// `None` for Arrow IPC on stdin.
    pub format: Option<Format>,
    /// The `key=value` levels of the path below the folder.
    partitions: Vec<(String, String)>,
}

impl Part {
    pub fn partition(&self, key: &str) -> Option<&str> {
        self.partitions.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// Which of the columns to copy come from the path, and the options for the file itself.
    pub fn split_kept(&self, options: &ReadOptions) -> (Vec<Option<String>>, ReadOptions) {
        let from_path = |name: &String| self.partition(name).map(|_| name.clone());
        let partition_columns: Vec<_> = options.keep_columns.iter().map(from_path).collect();
        let in_file = |name: &&String| self.partition(name).is_none();
        let keep_columns = options.keep_columns.iter().filter(in_file).cloned().collect();
        (partition_columns, ReadOptions { keep_columns, ..options.clone() })
    }
}

/// Lists the parts of a source; their format is inferred from their extensions unless the options name it. Of a run
/// folder, one table is read.
pub(super) fn parts(source: &Source, options: &ReadOptions) -> Result<Vec<Part>> {
    let named = options.input_format;
    let format_of = |path: &Path| named.map_or_else(|| Format::of_path(path), Ok).map(Some);
    let table = options.table.as_deref();
    let Some(path) = source.path() else {
        return Ok(vec![Part { path: PathBuf::from("-"), format: None, partitions: Vec::new() }]);
    };
    if RunFolder::is_run(path) || !run::seeds(path).is_empty() {
        let path = RunFolder::open(path)?.table(table)?;
        return Ok(vec![Part { path, format: Some(Format::Parquet), partitions: Vec::new() }]);
    }
    let published = publications::table(path, table)?;
    if let (None, Some(table)) = (&published, table) {
        let what =
            format!("⟨table⟩ {table} is for run folders and publications, and this is neither");
        return Err(Error::content(path, what));
    }
    let path = published.as_deref().unwrap_or(path);
    let Some(files) = storage::list(path, is_skipped)? else {
        let format = format_of(path)?;
        return Ok(vec![Part { path: path.to_owned(), format, partitions: Vec::new() }]);
    };
    if files.is_empty() {
        let what =
            "the folder has no data files (names that start with `_` or `.` and *.crc are skipped)";
        return Err(Error::content(path, what));
    }
    let part = |file: PathBuf| {
        let partitions = partitions_of(file.strip_prefix(path).unwrap_or(&file));
        Ok(Part { format: format_of(&file)?, path: file, partitions })
    };
    files.into_iter().map(part).collect()
}

/// Files that programs leave beside their data.
pub(crate) fn is_skipped(name: &str) -> bool {
    name.starts_with(['_', '.']) || name.ends_with(".crc")
}

fn partitions_of(relative: &Path) -> Vec<(String, String)> {
    let folders = relative.parent().into_iter().flat_map(Path::components);
    let level = |c: std::path::Component<'_>| {
        let level = c.as_os_str().to_string_lossy();
        level.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()))
    };
    folders.filter_map(level).collect()
}
