//! `veridical vectors`: look at tables and convert them.

use arrow_buffer::ScalarBuffer;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use serde::Serialize;
use serde_json::json;
use veridical_core::stats::{Moments, quantile};
use veridical_core::{Error as Refusal, Job, RowSample, Seed, settings};
use veridical_io::{
    Chunk, Dtype, IdKind, Input, OnNan, Output, OutputSchema, ReadOptions, Source, TableReader,
    TableSchema, Vectors,
};

use crate::pipeline::{self, TableJob, Transform};
use crate::{JobOptions, Result, Tally};

/// Rows whose norms give the quantiles.
const SAMPLED_ROWS: usize = 65_536;

/// The first rows of a table.
#[derive(Clone, Debug, Serialize)]
pub struct Head {
    /// d.
    pub dim: usize,
    /// One id per row.
    pub ids: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<f32>>,
}

settings! {
    /// Which rows to show.
    pub struct ShowHead {
        /// Table of vectors
        pub input: Input = Input::default() => [positional(), required(), value("INPUT")],
        /// How many rows
        pub rows: usize = 5 => [letter('n')],
    } with {
        /// How the table is read.
        pub read: ReadOptions,
    }
}

settings! {
    /// Which table to sum up.
    pub struct SumUp {
        /// Table of vectors
        pub input: Input = Input::default() => [positional(), required(), value("INPUT")],
    } with {
        /// How the table is read.
        pub read: ReadOptions,
    }
}

settings! {
    /// Which table to write in another format, type or cut.
    pub struct Convert {
        /// Table of vectors
        pub input: Input = Input::default() => [positional(), required(), value("INPUT")],
        /// Table to write
        pub output: Output = Output::default() => [positional(), required(), value("OUTPUT")],
        /// Of features, keep the first D values times sqrt(width / D): the features of the shorter map
        pub prefix: Option<usize> = None => [value("D")],
    } with {
        /// How to read and write.
        pub options: JobOptions,
    }
}

/// Reads the first rows.
///
/// # Errors
/// [`crate::Error::Io`] if the table cannot be read.
pub fn head(settings: &ShowHead, job: &Job<'_>) -> Result<Head> {
    let n = settings.rows;
    let options = ReadOptions { chunk_rows: Some(n.max(1)), ..settings.read.clone() };
    let mut reader = TableReader::open(&settings.input.source(), &options)?;
    reader.notes().iter().for_each(|note| job.note(note));
    let dim = reader.schema().dim;
    let (mut ids, mut rows) = (Vec::new(), Vec::new());
    while rows.len() < n
        && let Some(chunk) = reader.next_chunk()?
    {
        let take = chunk.n_rows().min(n - rows.len());
        ids.extend((0..take).map(|i| chunk.ids.get(i)));
        rows.extend(chunk.vectors.chunks_exact(dim).take(take).map(<[f32]>::to_vec));
    }
    Ok(Head { dim, ids, rows })
}

/// What a table holds.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// Rows read, without those left out.
    pub rows: u64,
    /// d.
    pub dim: usize,
    /// How the vectors are stored.
    pub dtype: &'static str,
    /// `row number`, `integer` or `text`.
    pub ids: &'static str,
    /// Rows with a value that is NaN, infinite or missing; they are left out of all other numbers.
    pub rows_not_finite: u64,
    /// Rows of zeros.
    pub zero_rows: u64,
    /// Columns that have one value only.
    pub constant_columns: usize,
    /// Smallest and largest value.
    pub min: f32,
    /// See `min`.
    pub max: f32,
    /// Mean of all values.
    pub mean: f64,
    /// Deviation of all values (population).
    pub deviation: f64,
    /// Norms of the rows: minimum, 5 %, median, 95 %, maximum.
    pub norm_quantiles: [f64; 5],
    /// Rows whose norms were used for the quantiles.
    pub norms_sampled: usize,
}

/// Reads a whole table and sums it up.
///
/// # Errors
/// [`crate::Error::Io`] if the table cannot be read.
pub fn stats(settings: &SumUp, job: &Job<'_>) -> Result<Stats> {
    let options = ReadOptions { on_nan: OnNan::Skip, ..settings.read.clone() };
    let mut reader = TableReader::open(&settings.input.source(), &options)?;
    reader.notes().iter().for_each(|note| job.note(note));
    let schema = reader.schema().clone();
    let dim = schema.dim;
    let mut norms = RowSample::new(SAMPLED_ROWS, 1, Seed::new(0)?, "norms");
    let mut values = Moments::default();
    let (mut rows, mut zero_rows) = (0u64, 0u64);
    let (mut low, mut high) = (vec![f32::INFINITY; dim], vec![f32::NEG_INFINITY; dim]);
    let bar = job.progress("reading", "rows", reader.n_rows());
    while let Some(chunk) = reader.next_chunk()? {
        job.check()?;
        for row in chunk.vectors.chunks_exact(dim) {
            let mut in_row = Moments::default();
            for ((&x, low), high) in row.iter().zip(&mut low).zip(&mut high) {
                in_row.push(f64::from(x));
                *low = low.min(x);
                *high = high.max(x);
            }
            values.merge(&in_row);
            let norm = veridical_core::orthogonal::squared_norm(row).sqrt();
            zero_rows += u64::from(norm == 0.0);
            norms.offer(rows.., &[norm as f32]);
            rows += 1;
        }
        bar.advance(chunk.n_rows() as u64);
    }
    let mut norms: Vec<f64> = norms.into_rows().into_iter().map(f64::from).collect();
    let norms_sampled = norms.len();
    let norm_quantiles =
        [0.0, 0.05, 0.5, 0.95, 1.0].map(|q| quantile(&mut norms, q).unwrap_or(f64::NAN));
    Ok(Stats {
        rows,
        dim,
        dtype: schema.dtype.name(),
        ids: match schema.ids {
            IdKind::RowNumber => "row number",
            IdKind::Int => "integer",
            IdKind::Text => "text",
        },
        rows_not_finite: reader.replaced().0,
        zero_rows,
        constant_columns: low.iter().zip(&high).filter(|(low, high)| low == high).count(),
        min: low.iter().copied().fold(f32::INFINITY, f32::min),
        max: high.iter().copied().fold(f32::NEG_INFINITY, f32::max),
        mean: values.mean(),
        deviation: values.variance().sqrt(),
        norm_quantiles,
        norms_sampled,
    })
}

/// What [`convert`] did.
#[derive(Clone, Debug, Serialize)]
pub struct Converted {
    /// The new table.
    #[serde(rename = "out")]
    pub output: String,
    /// d.
    pub dim: usize,
    /// Rows written.
    pub rows: u64,
    /// Rows left out under `--on-nan skip`.
    pub skipped_rows: u64,
    /// Values set to 0 under `--on-nan zero`.
    pub zeroed_values: u64,
}

/// Writes a table in another format, type or cut. With `prefix` D' the first D' values of each row, times
/// sqrt(D / D'): of a table of features these are the features of the shorter map.
///
/// # Errors
/// [`Refusal`] for a prefix that is odd, too long or of rows that are no features; else as
/// [`crate::featurize::apply`].
pub fn convert(settings: &Convert, job: &Job<'_>) -> Result<Converted> {
    let Convert { prefix, options, .. } = settings;
    let (input, output) = (&settings.input.source(), &settings.output.source());
    let dtype = Dtype::from(options.write.dtype);
    let reader = pipeline::open_input(input, output, options, job)?;
    let TableSchema { dim: width, ids, kept, .. } = reader.schema().clone();
    let prefix = prefix.map(|dim| Prefix::new(dim, width, input)).transpose()?;
    let dim = prefix.map_or(width, |prefix| prefix.dim);
    let schema = OutputSchema { dim, dtype, ids, kept, metadata: Vec::new() };
    let description =
        json!({ "verb": "vectors convert", "prefix": prefix.map(|prefix| prefix.dim) });
    let table = TableJob { reader, input, output, schema, options, description };
    let tally = pipeline::run(table, &mut Conversion { dtype, prefix, input }, job)?;
    let Tally { rows, skipped_rows, zeroed_values, .. } = tally;
    Ok(Converted { output: output.to_string(), dim, rows, skipped_rows, zeroed_values })
}

/// The features of a shorter map inside those of a longer one.
#[derive(Clone, Copy)]
struct Prefix {
    /// D'.
    dim: usize,
    /// sqrt(D / D').
    scale: f64,
}

impl Prefix {
    fn new(dim: usize, width: usize, input: &Source) -> Result<Self> {
        if dim == 0 || dim % 2 == 1 {
            let must_be = "even and at least 2 (a cosine and a sine for each direction)";
            return Err(Refusal::setting("prefix", must_be, dim).into());
        }
        if width % 2 == 1 {
            let what = "features have an even number, a cosine and a sine for each direction";
            let what = format!("{input}: the vectors have {width} values; {what}");
            return Err(Refusal::shape(what, "⟨prefix⟩ is for tables of features").into());
        }
        if dim > width {
            let must_be = format!("at most {width}, the width of the vectors in {input}");
            return Err(Refusal::setting("prefix", must_be, dim).into());
        }
        Ok(Self { dim, scale: (width as f64 / dim as f64).sqrt() })
    }

    /// Products in f64, rounded once; those of features are at most 1.
    fn of(self, rows: &Chunk, input: &Source) -> Result<ScalarBuffer<f32>> {
        let mut values = Vec::with_capacity(rows.n_rows() * self.dim);
        for (r, row) in rows.vectors.chunks_exact(rows.dim()).enumerate() {
            for &x in &row[..self.dim] {
                let value = (f64::from(x) * self.scale) as f32;
                if !value.is_finite() {
                    let hint = "⟨prefix⟩ is for tables of features";
                    let row = rows.row_number(r);
                    let what = format!("{input}: row {row}: {x:e} cannot be rescaled");
                    return Err(Refusal::unfit(what, hint).into());
                }
                values.push(value);
            }
        }
        Ok(values.into())
    }
}

/// Rows unchanged but for their type and length.
struct Conversion<'a> {
    dtype: Dtype,
    prefix: Option<Prefix>,
    input: &'a Source,
}

impl Transform for Conversion<'_> {
    fn apply(&mut self, rows: &Chunk, _tally: &mut Tally) -> Result<Vectors> {
        let (values, dim) = match self.prefix {
            Some(prefix) => (prefix.of(rows, self.input)?, prefix.dim),
            None => (rows.vectors.clone(), rows.dim()),
        };
        encoded(values, dim, self.dtype, rows, self.input)
    }
}

/// Values of rows as they are written; refuses what the type cannot hold.
pub(crate) fn encoded(
    values: ScalarBuffer<f32>,
    dim: usize,
    dtype: Dtype,
    rows: &Chunk,
    input: &Source,
) -> Result<Vectors> {
    let fits = |at: Option<usize>| match at {
        None => Ok(()),
        Some(at) => {
            let (row, value) = (rows.row_number(at / dim), values[at]);
            let what = format!("{input}: row {row}: {value:e} does not fit {}", dtype.name());
            Err(Refusal::unfit(what, "pass ⟨dtype⟩ f32"))
        }
    };
    if dtype == Dtype::Bf16 {
        // The writer rounds.
        fits(values.iter().position(|&x| !bf16::from_f32(x).is_finite()))?;
    }
    if dtype != Dtype::F16 {
        return Ok(Vectors::F32(values));
    }
    let mut halves = vec![f16::ZERO; values.len()];
    halves.convert_from_f32_slice(&values);
    fits(halves.iter().position(|half| !half.is_finite()))?;
    Ok(Vectors::F16(ScalarBuffer::from(halves)))
}
