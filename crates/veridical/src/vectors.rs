//! `veridical vectors`: inspect vector tables and convert between formats.

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

/// Maximum number of rows sampled for the norm quantiles.
const SAMPLED_ROWS: usize = 65_536;

/// First rows of a vector table.
#[derive(Clone, Debug, Serialize)]
pub struct Head {
    /// Dimension of the vectors.
    pub dim: usize,
    /// Ids, one per row.
    pub ids: Vec<String>,
    /// Vectors, one per row.
    pub rows: Vec<Vec<f32>>,
}

settings! {
    /// Settings of [`head`].
    pub struct ShowHead {
        /// Vector table
        pub input: Input = Input::default() => [positional(), required(), value("INPUT")],
        /// Number of rows
        pub rows: usize = 5 => [letter('n')],
    } with {
        /// How the table is read.
        pub read: ReadOptions,
    }
}

settings! {
    /// Settings of [`stats`].
    pub struct SumUp {
        /// Vector table
        pub input: Input = Input::default() => [positional(), required(), value("INPUT")],
    } with {
        /// How the table is read.
        pub read: ReadOptions,
    }
}

settings! {
    /// Settings of [`convert`].
    pub struct Convert {
        /// Vector table
        pub input: Input = Input::default() => [positional(), required(), value("INPUT")],
        /// Vector table to write
        pub output: Output = Output::default() => [positional(), required(), value("OUTPUT")],
        /// For feature tables: keep the first D values, rescaled to a map of output dimension D
        pub prefix: Option<usize> = None => [value("D")],
    } with {
        /// How the tables are read and written.
        pub options: JobOptions,
    }
}

/// Reads the first rows of a table.
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

/// Summary statistics of a vector table.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// Number of rows with finite values.
    pub rows: u64,
    /// Dimension of the vectors.
    pub dim: usize,
    /// Storage type of the vectors, such as `f32`.
    pub dtype: &'static str,
    /// Type of the ids: `row number`, `integer` or `text`.
    pub ids: &'static str,
    /// Number of rows with a value that is NaN, infinite or missing; excluded from all other numbers.
    pub rows_not_finite: u64,
    /// Number of all-zero rows.
    pub zero_rows: u64,
    /// Number of columns with a single value.
    pub constant_columns: usize,
    /// Smallest value.
    pub min: f32,
    /// Largest value.
    pub max: f32,
    /// Mean of all values.
    pub mean: f64,
    /// Population standard deviation of all values.
    pub deviation: f64,
    /// Quantiles of the row norms: minimum, 5 %, median, 95 %, maximum.
    pub norm_quantiles: [f64; 5],
    /// Number of rows used for the norm quantiles.
    pub norms_sampled: usize,
}

/// Reads a whole table and computes summary statistics.
///
/// # Errors
/// [`crate::Error::Io`] if the table cannot be read.
///
/// # Example
/// ```
/// use veridical::core::Job;
/// use veridical::vectors::{SumUp, stats};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("items.csv");
///
/// std::fs::write(&path, "id,x,y\na,3,4\nb,0,0\n").unwrap();
/// let stats = stats(&SumUp { input: path.as_path().into(), ..SumUp::default() }, &Job::silent())?;
/// assert_eq!((stats.rows, stats.dim, stats.zero_rows), (2, 2, 1));
/// assert_eq!(stats.max, 4.0);
/// # Ok::<(), veridical::Error>(())
/// ```
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

/// Result of [`convert`].
#[derive(Clone, Debug, Serialize)]
pub struct Converted {
    /// Path of the new table.
    #[serde(rename = "out")]
    pub output: String,
    /// Dimension of the written vectors.
    pub dim: usize,
    /// Number of rows written.
    pub rows: u64,
    /// Number of rows skipped under `--on-nan skip`.
    pub skipped_rows: u64,
    /// Number of values set to 0 under `--on-nan zero`.
    pub zeroed_values: u64,
}

/// Writes a table in another format, dtype or dimension. With `prefix` D' it writes the first D' values of each row,
/// times sqrt(D / D'): for a table of features these are the features of the shorter map.
///
/// # Errors
/// [`Refusal`] for a prefix that is odd, too long, or applied to rows that are not features; otherwise as
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

/// The features of a shorter map as a prefix of those of a longer one.
#[derive(Clone, Copy)]
struct Prefix {
    /// Dimension D' of the prefix.
    dim: usize,
    /// Rescaling factor sqrt(D / D').
    scale: f64,
}

impl Prefix {
    fn new(dim: usize, width: usize, input: &Source) -> Result<Self> {
        if dim == 0 || dim % 2 == 1 {
            let must_be = "even and at least 2 (a cosine and a sine for each direction)";
            return Err(Refusal::setting("prefix", must_be, dim).into());
        }
        if width % 2 == 1 {
            let what = "features have an even dimension, a cosine and a sine for each direction";
            let what = format!("{input}: the vectors have dimension {width}; {what}");
            return Err(Refusal::shape(what, "⟨prefix⟩ is for tables of features").into());
        }
        if dim > width {
            let must_be = format!("at most {width}, the dimension of the vectors in {input}");
            return Err(Refusal::setting("prefix", must_be, dim).into());
        }
        Ok(Self { dim, scale: (width as f64 / dim as f64).sqrt() })
    }

    /// Multiplies in f64 and rounds once; values of features are at most 1.
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

/// Rows unchanged except for dtype and dimension.
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

/// Encodes values for writing; rejects values that the dtype cannot represent.
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
