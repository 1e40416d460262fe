//! Records of Parquet and Arrow files.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, StringArray};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, TimeUnit};

use super::columns::by_name;
use super::wide::WideRows;
use super::{Cell, Found, Place, RecordFormat, RecordOptions, Role, Row};
use crate::read::ColumnBatches;
use crate::{Error, Result};

pub(super) fn read(
    path: &Path,
    format: RecordFormat,
    roles: &[Role],
    options: &RecordOptions,
    take: &mut dyn FnMut(&Row<'_>) -> Result<()>,
) -> Result<(Found, Vec<String>)> {
    let mut found = Found::default();
    let mut batches = ColumnBatches::open(path, format == RecordFormat::Parquet, |schema| {
        let names: Vec<String> = schema.fields().iter().map(|f| f.name().clone()).collect();
        found = by_name(path, &names, roles, &options.columns)?;
        let mut used: Vec<usize> = found.places.iter().flatten().copied().collect();
        used.sort_unstable();
        used.dedup();
        Ok(used)
    })?;
    let mut first_row = 0;
    while let Some(batch) = batches.next()? {
        let schema = batch.schema();
        let column = |place: usize| {
            // INVARIANT: `place` was requested above.
            let at = batches.place(place).expect("the column was requested");
            Column::new(path, schema.field(at), batch.column(at))
        };
        let columns = found.places.map(|place| place.map(column));
        let mut ready = [const { None }; super::MOST_ROLES];
        for (ready, column) in ready.iter_mut().zip(columns) {
            *ready = column.transpose()?;
        }
        for row in 0..batch.num_rows() {
            let cell = |i: usize| ready[i].as_ref().map(|column| column.cell(row));
            let place = Place::Row(first_row + row as u64);
            take(&Row { path, place, cells: std::array::from_fn(cell) })?;
        }
        first_row += batch.num_rows() as u64;
    }
    if first_row == 0 {
        return Err(Error::no_rows(path));
    }
    Ok((found, Vec::new()))
}

/// Reads all cells of the columns that `rows` requests.
pub(super) fn read_wide(path: &Path, format: RecordFormat, rows: &mut dyn WideRows) -> Result<()> {
    let mut wanted = Vec::new();
    let mut batches = ColumnBatches::open(path, format == RecordFormat::Parquet, |schema| {
        let names: Vec<String> = schema.fields().iter().map(|f| f.name().clone()).collect();
        wanted = rows.choose(&names, true)?;
        Ok(wanted.clone())
    })?;
    let mut first_row = 0;
    while let Some(batch) = batches.next()? {
        let schema = batch.schema();
        let column = |&place: &usize| {
            // INVARIANT: `place` was requested above.
            let at = batches.place(place).expect("the column was requested");
            Column::new(path, schema.field(at), batch.column(at))
        };
        let columns = wanted.iter().map(column).collect::<Result<Vec<Column>>>()?;
        let mut cells = Vec::with_capacity(columns.len());
        for row in 0..batch.num_rows() {
            cells.clear();
            cells.extend(columns.iter().map(|column| column.cell(row)));
            rows.take(Place::Row(first_row + row as u64), &cells)?;
        }
        first_row += batch.num_rows() as u64;
    }
    if first_row == 0 { Err(Error::no_rows(path)) } else { Ok(()) }
}

/// A column in one of the three supported types.
enum Column {
    Int(Int64Array),
    Float(Float64Array),
    Text(StringArray),
}

/// The separator between the entries of a list that was converted to text.
pub(crate) const BETWEEN: char = '\u{1f}';

impl Column {
    fn new(path: &Path, field: &Field, array: &ArrayRef) -> Result<Self> {
        let refused =
            |what: String| Error::content(path, format!("column `{}`: {what}", field.name()));
        // A value that cannot be cast is an error, not a missing value.
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let to = |array: &ArrayRef, to: &DataType| {
            cast_with_options(array, to, &options).map_err(|e| refused(e.to_string()))
        };
        let array = match array.data_type() {
            DataType::Dictionary(_, value) => to(array, value)?,
            _ => Arc::clone(array),
        };
        Ok(match array.data_type() {
            kind if kind.is_integer() || *kind == DataType::Boolean => {
                Self::Int(to(&array, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
            }
            kind if kind.is_floating() || matches!(kind, DataType::Decimal128(..)) => {
                Self::Float(to(&array, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                Self::Text(to(&array, &DataType::Utf8)?.as_string().clone())
            }
            DataType::Timestamp(_, zone) => {
                let seconds = to(&array, &DataType::Timestamp(TimeUnit::Second, zone.clone()))?;
                Self::Int(to(&seconds, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
            }
            DataType::Date32 | DataType::Date64 => {
                let seconds = to(&array, &DataType::Timestamp(TimeUnit::Second, None))?;
                Self::Int(to(&seconds, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
            }
            DataType::List(item) | DataType::LargeList(item)
                if item.data_type().is_string() || item.data_type().is_integer() =>
            {
                let item = Field::new("item", DataType::Utf8, true);
                let lists = to(&array, &DataType::LargeList(Arc::new(item)))?;
                let joined = lists.as_list::<i64>().iter().map(|list| {
                    let list = list?;
                    let texts: Vec<&str> = list.as_string::<i32>().iter().flatten().collect();
                    Some(texts.join(&BETWEEN.to_string()))
                });
                Self::Text(joined.collect())
            }
            other => return Err(refused(format!("{other} is neither a number nor text"))),
        })
    }

    fn cell(&self, row: usize) -> Cell<'_> {
        let is_null = match self {
            Self::Int(values) => values.is_null(row),
            Self::Float(values) => values.is_null(row),
            Self::Text(values) => values.is_null(row),
        };
        match self {
            _ if is_null => Cell::Missing,
            Self::Int(values) => Cell::Int(values.value(row)),
            Self::Float(values) => Cell::Float(values.value(row)),
            Self::Text(values) => Cell::Text(values.value(row)),
        }
    }
}
