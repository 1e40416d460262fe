//! The ids that moved alone, as a table for people who look into them.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, StringArray};
use arrow_schema::{DataType, Field};
use veridical_inspect::stability::OutlierId;
use veridical_io::ColumnWriter;

use super::StabilityReport;
use crate::Result;

impl StabilityReport {
    /// Returns the ids that moved alone between the first and the last table, worst first; at most 1,000.
    pub fn worst_ids(&self) -> &[OutlierId] {
        self.comparison.outliers.as_ref().map_or(&[], |found| &found.worst)
    }

    /// Writes [`Self::worst_ids`] as a table: id, cosine, times, norm_factor, what.
    ///
    /// # Errors
    /// [`crate::Error::Io`] for an unknown extension, or if writing fails.
    pub fn write_outliers(&self, path: &Path) -> Result<()> {
        let number = |name: &str| Field::new(name, DataType::Float64, true);
        let text = |name: &str| Field::new(name, DataType::Utf8, false);
        let fields = vec![
            text("id"),
            number("cosine"),
            number("times"),
            number("norm_factor"),
            text("what"),
        ];
        let mut writer = ColumnWriter::create(path, fields)?;
        let worst = self.worst_ids();
        let numbers = |of: fn(&OutlierId) -> f64| -> ArrayRef {
            let finite = worst.iter().map(|id| Some(of(id)).filter(|x| x.is_finite()));
            Arc::new(Float64Array::from_iter(finite))
        };
        let ids = StringArray::from_iter_values(worst.iter().map(|id| id.id.as_str()));
        let what = StringArray::from_iter_values(worst.iter().map(|id| id.what));
        writer.write(vec![
            Arc::new(ids),
            numbers(|id| id.cosine),
            numbers(|id| id.times),
            numbers(|id| id.norm_factor),
            Arc::new(what),
        ])?;
        writer.finish()?;
        Ok(())
    }
}
