//! Mapping a whole table, chunk by chunk.

use serde::Serialize;
use serde_json::json;
use veridical_core::{Error, Job};
use veridical_io::{Chunk, Dtype, OutputSchema, Source, TableSchema, Vectors};
use veridical_learn::LinearMap;

use super::file::MapFile;
use crate::pipeline::{self, TableJob, Transform};
use crate::vectors::encoded;
use crate::{JobOptions, Result, Tally};

/// Metadata key of an aligned table: the fingerprint of the table it is aligned to.
pub const ALIGNED_TO: &str = "veridical.aligned_to";
/// Metadata key of an aligned table: the id of the map that was applied.
pub const MAP_ID: &str = "veridical.map_id";

/// Result of [`apply`].
#[derive(Clone, Debug, Serialize)]
pub struct Applied {
    /// Path of the aligned table.
    #[serde(rename = "out")]
    pub output: String,
    /// Dimension of the aligned vectors.
    pub dim: usize,
    /// Number of rows written.
    pub rows: u64,
    /// Number of rows skipped under `--on-nan skip`.
    pub skipped_rows: u64,
    /// Number of values set to 0 under `--on-nan zero`.
    pub zeroed_values: u64,
}

/// Maps every row of `input`, anchor or not, and writes the result.
///
/// # Errors
/// [`Error::Shape`] if the table and the map have different dimensions; otherwise as [`crate::featurize::apply`].
pub fn apply(
    map: &MapFile,
    input: &Source,
    output: &Source,
    options: &JobOptions,
    job: &Job<'_>,
) -> Result<Applied> {
    let dtype = Dtype::from(options.write.dtype);
    let reader = pipeline::open_input(input, output, options, job)?;
    let TableSchema { dim: width, ids, kept, .. } = reader.schema().clone();
    let (takes, dim) = (map.map.input_dim(), map.map.output_dim());
    if width != takes {
        return Err(Error::shape(
            format!("{input}: the vectors have dimension {width} but the map expects {takes}"),
            "the map was fitted for another table; fit one for this table with ⟨reference⟩",
        )
        .into());
    }
    let map_id = map.map_id();
    let metadata =
        vec![(ALIGNED_TO.to_owned(), map.reference.clone()), (MAP_ID.to_owned(), map_id.clone())];
    let schema = OutputSchema { dim, dtype, ids, kept, metadata };
    let description = json!({ "verb": "align", "map_id": map_id });
    let table = TableJob { reader, input, output, schema, options, description };
    let mut mapping = Mapping { map: &map.map, dtype, input };
    let tally = pipeline::run(table, &mut mapping, job)?;
    let Tally { rows, skipped_rows, zeroed_values, .. } = tally;
    Ok(Applied { output: output.to_string(), dim, rows, skipped_rows, zeroed_values })
}

struct Mapping<'a> {
    map: &'a LinearMap,
    dtype: Dtype,
    input: &'a Source,
}

impl Transform for Mapping<'_> {
    fn apply(&mut self, rows: &Chunk, _tally: &mut Tally) -> Result<Vectors> {
        let values = self.map.apply(&rows.vectors);
        let dim = self.map.output_dim();
        if let Some(at) = values.iter().position(|x| !x.is_finite()) {
            let row = rows.row_number(at / dim);
            return Err(Error::unfit(
                format!("{}: row {row} overflows f32 after the map is applied", self.input),
                "inspect it with `veridical vectors stats`",
            )
            .into());
        }
        encoded(values.into(), dim, self.dtype, rows, self.input)
    }
}
