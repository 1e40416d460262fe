//! Mapping a whole table, piece by piece.

use serde::Serialize;
use serde_json::json;
use veridical_core::{Error, Job};
use veridical_io::{Chunk, Dtype, OutputSchema, Source, TableSchema, Vectors};
use veridical_learn::LinearMap;

use super::file::MapFile;
use crate::pipeline::{self, TableJob, Transform};
use crate::vectors::encoded;
use crate::{JobOptions, Result, Tally};

/// Under what an aligned table says what it is aligned to.
pub const ALIGNED_TO: &str = "veridical.aligned_to";
/// Under what an aligned table names its map.
pub const MAP_ID: &str = "veridical.map_id";

/// What [`apply`] did.
#[derive(Clone, Debug, Serialize)]
pub struct Applied {
    /// The new table.
    #[serde(rename = "out")]
    pub output: String,
    /// Values of a row of it.
    pub dim: usize,
    /// Rows written.
    pub rows: u64,
    /// Rows left out under `--on-nan skip`.
    pub skipped_rows: u64,
    /// Values set to 0 under `--on-nan zero`.
    pub zeroed_values: u64,
}

/// Writes `input` mapped: all of its rows, anchors or not.
///
/// # Errors
/// [`Error::Shape`] for a table of another width than the map takes; else as [`crate::featurize::apply`].
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
            format!("{input}: the vectors have {width} values but the map takes {takes}"),
            "it was fitted for another table, fit one for this table with ⟨reference⟩",
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
                format!("{}: row {row} becomes too large for f32 under the map", self.input),
                "look at it with `veridical vectors stats`",
            )
            .into());
        }
        encoded(values.into(), dim, self.dtype, rows, self.input)
    }
}
