//! A random sample of rows in random order, limited by memory, for measurements on pairs.

use veridical_core::{Error as Refusal, Job, RowSample, Rows};
use veridical_features::FeatureSpec;
use veridical_io::{ReadOptions, Source, TableReader};

use crate::{Error, Result, pipeline};

/// Maximum size of a sample in bytes.
const SAMPLE_BYTES: usize = 128 << 20;

/// Shuffled rows and the number of rows in the table.
pub(super) struct Sample {
    pub rows: Vec<f32>,
    /// Number of rows in the table, excluding skipped ones.
    pub n_rows: u64,
    /// 2 max |y| over the whole table: the normalized rows are in a ball of this diameter.
    pub diameter: f64,
}

impl Sample {
    /// Samples at most `capacity` rows, an even number.
    pub fn read(
        data: &Source,
        read: &ReadOptions,
        spec: &FeatureSpec,
        capacity: usize,
        job: &Job<'_>,
    ) -> Result<Self> {
        let mut reader = TableReader::open(data, read)?;
        reader.notes().iter().for_each(|note| job.note(note));
        let dim = reader.schema().dim;
        if dim != spec.input_dim() {
            let source = veridical_features::Error::Width { expected: spec.input_dim(), got: dim };
            return Err(Error::InFile { path: data.to_string(), source });
        }
        let capacity = capacity.min(SAMPLE_BYTES / (size_of::<f32>() * dim)).max(2) / 2 * 2;
        let mut sample = RowSample::new(capacity, dim, spec.seed(), "pairs");
        let mut largest = 0.0f64;
        let bar = job.progress("reading", "rows", reader.n_rows());
        while let Some(chunk) = reader.next_chunk()? {
            job.check()?;
            sample.offer(chunk.numbers(), &chunk.vectors);
            for row in spec.normalize().rows(Rows::new(&chunk.vectors, dim)?)?.chunks_exact(dim) {
                largest = largest.max(veridical_core::orthogonal::squared_norm(row));
            }
            bar.advance(chunk.n_rows() as u64);
        }
        let mut rows = sample.into_shuffled_rows();
        rows.truncate(rows.len() / (2 * dim) * (2 * dim));
        if rows.is_empty() {
            let what = format!("{data}: at least two rows are needed to form a pair");
            return Err(Refusal::unfit(what, "").into());
        }
        let (skipped, zeroed) = reader.replaced();
        pipeline::warn_about_replaced(skipped, zeroed, job);
        let n_rows = reader.rows_read() - skipped;
        Ok(Self { rows, n_rows, diameter: 2.0 * largest.sqrt() })
    }

    /// Converts an error of the transform; row numbers of the sample are not those of the table.
    pub fn refused(data: &Source, error: veridical_features::Error) -> Error {
        match error {
            veridical_features::Error::TooLarge { .. }
            | veridical_features::Error::NotFinite { .. } => {
                let what = "the projection of a row overflows";
                let way_out = "rescale the rows, for example with ⟨normalize⟩ standardize";
                Refusal::unfit(format!("{data}: {what}"), way_out).into()
            }
            veridical_features::Error::Normalization { .. } => {
                let what = "the spec's normalization overflows on a row";
                let way_out = "create a spec from the table itself";
                Refusal::unfit(format!("{data}: {what}"), way_out).into()
            }
            other => other.into(),
        }
    }
}
