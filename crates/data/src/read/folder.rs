//! The parts of a source: one file, the files of a folder in the order of their paths, or stdin.

use std::path::{Path, PathBuf};

use crate::{Error, Format, ReadOptions, Result, Source};

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

    /// Which of the columns to keep come from the path, and the options for the file itself.
    pub fn split_kept(&self, options: &ReadOptions) -> (Vec<Option<String>>, ReadOptions) {
        let from_path = |name: &String| self.partition(name).map(|_| name.clone());
        let partition_columns: Vec<_> = options.keep_columns.iter().map(from_path).collect();
        let in_file = |name: &&String| self.partition(name).is_none();
        let keep_columns = options.keep_columns.iter().filter(in_file).cloned().collect();
        (partition_columns, ReadOptions { keep_columns, ..options.clone() })
    }
}

/// Lists the parts of a source; their format goes by their endings unless `format` names it.
pub(super) fn parts(source: &Source, format: Option<Format>) -> Result<Vec<Part>> {
    let format_of = |path: &Path| format.map_or_else(|| Format::of_path(path), Ok).map(Some);
    let Some(path) = source.path() else {
        return Ok(vec![Part { path: PathBuf::from("-"), format: None, partitions: Vec::new() }]);
    };
    let kind = std::fs::metadata(path).map_err(|e| Error::read(path, "open", e))?;
    if !kind.is_dir() {
        let format = format_of(path)?;
        return Ok(vec![Part { path: path.to_owned(), format, partitions: Vec::new() }]);
    }
    let mut files = Vec::new();
    walk(path, &mut files)?;
    files.sort();
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

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |e| Error::read(folder, "list the folder", e);
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(['_', '.']) || name.ends_with(".crc") {
            continue;
        }
        if path.is_dir() { walk(&path, files)? } else { files.push(path) }
    }
    Ok(())
}

fn partitions_of(relative: &Path) -> Vec<(String, String)> {
    let folders = relative.parent().into_iter().flat_map(Path::components);
    let level = |c: std::path::Component<'_>| {
        let level = c.as_os_str().to_string_lossy();
        level.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()))
    };
    folders.filter_map(level).collect()
}
