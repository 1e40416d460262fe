//! Writes user-item interactions.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{Float32Array, Int64Array};
use arrow_schema::{DataType, Field};
use veridical_data::Interactions;

use super::ColumnNames;
use crate::{ColumnWriter, GROUP_ROWS, Result};

/// Writes the given rows with the ids of the data: users, items, and, if present, ratings and times, under these names. The file
/// extension selects Parquet, Arrow, CSV, TSV or JSON Lines.
///
/// # Errors
/// The errors of [`ColumnWriter`].
pub fn write(path: &Path, data: &Interactions, rows: &[u32], names: &ColumnNames) -> Result<()> {
    let ColumnNames { user, item, rating, time } = names;
    let mut fields = vec![
        Field::new(user, data.users.data_type(), false),
        Field::new(item, data.items.data_type(), false),
    ];
    fields.extend(data.rating.iter().map(|_| Field::new(rating, DataType::Float32, false)));
    fields.extend(data.time.iter().map(|_| Field::new(time, DataType::Int64, false)));
    let mut writer = ColumnWriter::create(path, fields)?;
    for rows in rows.chunks(GROUP_ROWS) {
        let of = |numbers: &[u32]| rows.iter().map(|&r| numbers[r as usize]).collect::<Vec<_>>();
        let mut columns =
            vec![data.users.array(&of(&data.user)), data.items.array(&of(&data.item))];
        if let Some(rating) = &data.rating {
            let values = rows.iter().map(|&r| rating[r as usize]);
            columns.push(Arc::new(Float32Array::from_iter_values(values)));
        }
        if let Some(time) = &data.time {
            let values = rows.iter().map(|&r| time[r as usize]);
            columns.push(Arc::new(Int64Array::from_iter_values(values)));
        }
        writer.write(columns)?;
    }
    writer.finish()
}
