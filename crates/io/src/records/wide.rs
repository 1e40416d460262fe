//! Tables of which all columns may be used: numeric rows for networks.

use std::path::Path;

use super::columns::are_names;
use super::lines::{Records, Separator};
use super::{Cell, Place, RecordFormat, RecordOptions, columnar};
use crate::read::{plain_text, with_first_line};
use crate::{Error, Result};

/// Receives the rows of a wide table.
pub(crate) trait WideRows {
    /// Chooses columns by position, in ascending order, from the names of all. Columns of text without
    /// a header are named by their positions; then `has_names` is false.
    fn choose(&mut self, names: &[String], has_names: bool) -> Result<Vec<usize>>;

    /// Takes the cells of the chosen columns.
    fn take(&mut self, place: Place, cells: &[Cell<'_>]) -> Result<()>;
}

/// Passes the column names of one file and then every row to `rows`.
pub(crate) fn read_wide(
    path: &Path,
    options: &RecordOptions,
    rows: &mut dyn WideRows,
) -> Result<()> {
    let format = options.format.map_or_else(|| RecordFormat::of_path(path), Ok)?;
    match format {
        RecordFormat::Parquet | RecordFormat::Arrow => columnar::read_wide(path, format, rows),
        RecordFormat::Npz => {
            let what = "is a matrix without names; a table is text, Parquet or Arrow";
            Err(Error::content(path, what))
        }
        _ => lines(path, format, options, rows),
    }
}

fn lines(
    path: &Path,
    format: RecordFormat,
    options: &RecordOptions,
    rows: &mut dyn WideRows,
) -> Result<()> {
    let input = plain_text(path, options.encoding.as_deref())?;
    let (input, first) = with_first_line(path, input)?;
    let separator = Separator::of(format, &first);
    let mut records = Records::new(input, separator, format != RecordFormat::Inter);
    if !records.advance(path)? {
        return Err(Error::no_rows(path));
    }
    let has_names =
        options.has_header.unwrap_or_else(|| are_names(records.fields(), &options.columns));
    let names: Vec<String> = match has_names {
        true => records.fields().map(|field| field.trim().to_owned()).collect(),
        false => (0..records.len()).map(|place| place.to_string()).collect(),
    };
    let wanted = rows.choose(&names, has_names)?;
    if has_names && !records.advance(path)? {
        return Err(Error::no_rows(path));
    }
    loop {
        if records.len() != names.len() {
            let (line, n, width) = (records.line(), records.len(), names.len());
            let what = format!("line {line} has {n} fields where {width} are expected");
            return Err(Error::content(path, format!("{what}; repair the line")));
        }
        let cells: Vec<Cell<'_>> =
            wanted.iter().map(|&column| Cell::Text(records.get(column))).collect();
        rows.take(Place::Line(records.line()), &cells)?;
        if !records.advance(path)? {
            return Ok(());
        }
    }
}
