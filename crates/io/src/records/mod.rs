//! Rows of named columns from files of any format, the common basis of interactions, labels, edges and documents.
//!
//! A reader declares the roles it needs columns for ([`Role`]); the columns are found by the
//! user's `--columns`, by recognized names, or, where the first line is data, by position. Rows
//! are streamed, so memory does not grow with the file.

mod columnar;
mod columns;
mod format;
mod lines;
mod sparse;
mod wide;

use std::fmt;
use std::path::{Path, PathBuf};

pub(crate) use veridical_data::Cell;

pub(crate) use self::columnar::BETWEEN;
pub use self::columns::ColumnMap;
use self::columns::Found;
pub(crate) use self::columns::{LAST, Role, find_column};
pub use self::format::RecordFormat;
pub(crate) use self::wide::{WideRows, read_wide};
use crate::read::is_skipped;
use crate::{Error, Result, storage};

/// The largest number of roles of any reader.
const MOST_ROLES: usize = 4;

/// Options for reading files of rows.
#[derive(Clone, Debug, Default)]
pub struct RecordOptions {
    /// Columns by role; otherwise found by name or position.
    pub columns: ColumnMap,
    /// The format of the files; inferred from their extensions if `None`.
    pub format: Option<RecordFormat>,
    /// Whether text begins with column names; detected from the first line if `None`.
    pub has_header: Option<bool>,
    /// The encoding of text; UTF-8 if `None`.
    pub encoding: Option<String>,
}

/// One row.
pub(crate) struct Row<'a> {
    path: &'a Path,
    place: Place,
    cells: [Option<Cell<'a>>; MOST_ROLES],
}

/// The position of a row: lines of text count from 1, rows of tables from 0.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Line(u64),
    Row(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Row(row) => write!(f, "row {row}"),
        }
    }
}

impl Place {
    /// Creates an error about a row of `path`.
    pub fn refused(self, path: &Path, what: impl AsRef<str>) -> Error {
        Error::content(path, format!("{self}: {}", what.as_ref()))
    }
}

impl<'a> Row<'a> {
    /// The cell of a role; `None` if no column has it.
    pub fn cell(&self, role: usize) -> Option<Cell<'a>> {
        self.cells[role]
    }

    /// Creates an error about this row.
    pub fn refused(&self, what: impl AsRef<str>) -> Error {
        self.place.refused(self.path, what)
    }
}

/// What was read, besides the rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub files: Vec<PathBuf>,
    pub notes: Vec<String>,
    /// Whether each role has a column.
    pub roles: [bool; MOST_ROLES],
    /// The names of these columns in the first file, if it has names.
    pub names: [Option<String>; MOST_ROLES],
}

/// The files of a path: itself, or those of a folder in the order of their paths.
pub(crate) fn files(path: &Path) -> Result<Vec<PathBuf>> {
    match storage::list(path, is_skipped)? {
        None => Ok(vec![path.to_owned()]),
        Some(files) if files.is_empty() => Err(Error::content(
            path,
            "the folder has no data files (names that start with `_` or `.` and *.crc are skipped)",
        )),
        Some(files) => Ok(files),
    }
}

/// Passes every row of a file or folder to `take`.
pub(crate) fn read(
    path: &Path,
    roles: &[Role],
    options: &RecordOptions,
    take: &mut dyn FnMut(&Row<'_>) -> Result<()>,
) -> Result<Seen> {
    debug_assert!(roles.len() <= MOST_ROLES);
    options.columns.check(roles)?;
    storage::explained(|| {
        let mut seen: Option<Seen> = None;
        let mut notes = Vec::new();
        let files = files(path)?;
        for file in &files {
            let (found, more) = match read_file(file, roles, options, take) {
                Err(Error::NoRows { .. }) if files.len() > 1 => continue,
                outcome => outcome?,
            };
            let played = found.roles();
            match &seen {
                Some(before) if before.roles != played => {
                    let differs = (0..roles.len()).find(|&i| before.roles[i] != played[i]);
                    let name = differs.map_or("", |i| roles[i].name);
                    let what = format!(
                        "the files of a folder must have the same columns, but only some have a column for the {name}"
                    );
                    return Err(Error::content(file, what));
                }
                Some(_) => {}
                None => {
                    notes.extend(found.note(roles));
                    let names = found.into_names();
                    seen = Some(Seen { roles: played, names, ..Seen::default() });
                }
            }
            notes.extend(more);
        }
        let seen = seen.ok_or_else(|| Error::no_rows(path))?;
        Ok(Seen { files, notes, ..seen })
    })
}

fn read_file(
    path: &Path,
    roles: &[Role],
    options: &RecordOptions,
    take: &mut dyn FnMut(&Row<'_>) -> Result<()>,
) -> Result<(Found, Vec<String>)> {
    let format = options.format.map_or_else(|| RecordFormat::of_path(path), Ok)?;
    match format {
        RecordFormat::Parquet | RecordFormat::Arrow => {
            columnar::read(path, format, roles, options, take)
        }
        RecordFormat::Npz => sparse::read(path, roles, options, take),
        _ => lines::read(path, format, roles, options, take),
    }
}
