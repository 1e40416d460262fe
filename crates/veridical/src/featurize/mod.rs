//! `veridical featurize`: creates, describes, plans, checks, applies and exports a feature spec.
//!
//! Inner products of phi estimate a kernel of h, and phi inherits the rotation of h: it helps models that
//! are retrained. A model that is not retrained needs the new h aligned to the old one first.

mod check;
mod export;
mod map;
mod plan;
mod sample;

use std::path::{Path, PathBuf};

use arrow_buffer::ScalarBuffer;
use half::f16;
use serde::Serialize;
use serde_json::json;
use veridical_core::settings::Settings as _;
use veridical_core::stats::median;
use veridical_core::{Error as Refusal, Job, RowSample, Rows, Seed, settings};
use veridical_features::{
    ColumnMoments, Directions, FeatureMap, FeatureSpec, Kernel, Normalize, length_scale,
};
use veridical_io::{
    Chunk, Dtype, Input, Output, OutputSchema, ReadOptions, Replace, Source, TableReader, Vectors,
    publish, storage, write_atomically,
};

pub use self::check::{Check, CheckReport, Errors, Family, check};
pub use self::export::{Export, ExportFormat, Exported, ExportedFile, ExportedMap, export};
use self::map::Rule;
pub use self::map::{KernelName, LengthScale, MapSettings, Mixture, Normalization};
pub use self::plan::{Answer, Goal, Plan, Planned, Point, plan};
use crate::pipeline::{self, TableJob, Transform};
use crate::{Error, JobOptions, Result, Tally};

/// Number of rows sampled for the median rule.
const MEDIAN_ROWS: usize = 1024;
/// Number of rows sampled to check the kernel values, out of the first `CHECK_WINDOW`.
const CHECK_ROWS: usize = 256;
const CHECK_WINDOW: u64 = 65_536;
/// Kernel values outside this range mean "equal" or "unrelated" and carry little information.
const INFORMATIVE: std::ops::RangeInclusive<f64> = 0.05..=0.95;
const UNINFORMATIVE_SHARE: f64 = 0.9;
/// Beyond this |u.h| a small change of h changes phi completely.
const LARGE_PROJECTION: f32 = 4096.0;
/// Quasi-random points are known to help up to this dimension.
const HALTON_DIMS: usize = 32;
/// A spec with means and standard deviations for a million columns stays below this size.
const MAX_SPEC_BYTES: u64 = 128 << 20;

settings! {
    /// Settings of [`new_spec`].
    pub struct NewSpec {
        /// Dimension d of the vectors; taken from ⟨data⟩ if given
        pub input_dim: Option<usize> = None => [value("d")],
        /// Dimension D of phi, even: a cosine and a sine for each direction
        pub output_dim: Option<usize> = None => [value("D"), otherwise("4 d")],
        /// Vector table for settings that are derived from data
        pub data: Option<Input> = None,
    } with {
        /// Settings of the feature map.
        pub map: MapSettings,
        /// How the table is read.
        pub read: ReadOptions,
    }
}

settings! {
    /// A new spec and its output file.
    pub struct WriteSpec {
        /// Spec file to write
        pub out: Output = Output::default() => [required()],
    } with {
        /// Settings of the spec.
        pub spec: NewSpec,
        /// Whether an existing spec is replaced.
        pub replace: Replace,
    }
}

settings! {
    /// Settings of `featurize describe`.
    pub struct DescribeSpec {
        /// Feature spec
        pub spec: Input = Input::default() => [positional(), required(), value("SPEC")],
    }
}

impl NewSpec {
    fn source(&self) -> Option<Source> {
        self.data.as_ref().map(Input::source)
    }

    fn rule(&self) -> Rule {
        self.map.rule(self.data.is_some())
    }
}

/// Creates a feature spec; data-dependent settings are resolved to numbers.
///
/// # Errors
/// [`Refusal::Request`] for a data-dependent setting without data, [`Error::Features`] for a setting out of range.
///
/// # Example
/// ```
/// use veridical::featurize::{MapSettings, NewSpec, new_spec};
///
/// let map = MapSettings { seed: 7, ..MapSettings::default() };
/// let spec = new_spec(&NewSpec { input_dim: Some(128), output_dim: Some(512), map, ..NewSpec::default() })?;
/// assert_eq!((spec.input_dim(), spec.output_dim()), (128, 512));
/// # Ok::<(), veridical::Error>(())
/// ```
pub fn new_spec(settings: &NewSpec) -> Result<FeatureSpec> {
    new_spec_observed(settings, &Job::silent())
}

/// As [`new_spec`], with progress reported to `job`.
///
/// # Errors
/// As [`new_spec`].
pub fn new_spec_observed(settings: &NewSpec, job: &Job<'_>) -> Result<FeatureSpec> {
    Seed::new(settings.map.seed)?; // an error names the setting, not the field of the spec
    let (spec, summary) = make_spec(settings, job)?;
    if spec.directions() == Directions::Halton && spec.input_dim() > HALTON_DIMS {
        job.warn(&format!(
            "halton points have no known benefit above dimension {HALTON_DIMS}; consider orthogonal directions"
        ));
    }
    if let Some(Summary { notes, replaced: (skipped, zeroed), .. }) = summary {
        notes.iter().for_each(|note| job.note(note));
        pipeline::warn_about_replaced(skipped, zeroed, job);
    }
    Ok(spec)
}

/// Creates the spec and returns it with statistics of its data.
fn make_spec(settings: &NewSpec, job: &Job<'_>) -> Result<(FeatureSpec, Option<Summary>)> {
    let (map, kernel, scale) = (&settings.map, settings.map.kernel(), settings.rule());
    if matches!(scale, Rule::Gamma(_) | Rule::SklearnGammaScale) && kernel != Kernel::Gaussian {
        let name = kernel.name();
        let what = format!("gamma applies to the gaussian kernel, not to {name}");
        return Err(Refusal::request(what, "pass ⟨length-scale⟩").into());
    }
    let rule = match scale {
        Rule::Median => Some("⟨length-scale⟩ median"),
        Rule::SklearnGammaScale => Some("⟨length-scale⟩ sklearn-gamma-scale"),
        _ if map.normalize == Normalization::Standardize => Some("⟨normalize⟩ standardize"),
        _ => None,
    };
    let summary = match (&settings.source(), rule) {
        (Some(data), rule) => Some(Summary::of(data, settings, rule.is_some(), job)?),
        (None, Some(rule)) => {
            let what = format!("{rule} needs a table");
            return Err(Refusal::request(what, "pass ⟨data⟩ FILE").into());
        }
        (None, None) => None,
    };
    let input_dim = match (settings.input_dim, summary.as_ref().map(|s| s.dim)) {
        (Some(requested), Some(found)) if requested != found => {
            let what = format!(
                "⟨input-dim⟩ is {requested} but the vectors in ⟨data⟩ have dimension {found}"
            );
            return Err(Refusal::request(what, "leave out one of them").into());
        }
        (Some(dim), _) | (None, Some(dim)) => dim,
        (None, None) => return Err(Refusal::request("pass ⟨input-dim⟩ or ⟨data⟩ FILE", "").into()),
    };
    // A dimension out of range is reported by `build`, not here.
    let output_dim = settings.output_dim.unwrap_or(input_dim.saturating_mul(4));
    let mut params = FeatureSpec::params(input_dim, output_dim).seed(map.seed).kernel(kernel);
    if let Some(directions) = map.directions {
        params = params.directions(directions);
    }
    let (normalize, length_scale) = match &summary {
        Some(summary) => summary.resolve(settings).map_err(|e| in_file(e, settings))?,
        None => (plain(map.normalize), fixed(scale)?),
    };
    let spec = params.normalize(normalize).length_scale(length_scale).build()?;
    Ok((spec, summary))
}

/// Adds the name of the table to an error about the length scale.
fn in_file(error: Error, settings: &NewSpec) -> Error {
    match (error, &settings.data) {
        (Error::Features(source), Some(data)) => Error::InFile { path: data.to_string(), source },
        (error, _) => error,
    }
}

fn plain(normalize: Normalization) -> Normalize {
    if normalize == Normalization::None { Normalize::None } else { Normalize::Unit }
}

fn fixed(rule: Rule) -> Result<f64> {
    match rule {
        Rule::Gamma(gamma) => Ok(length_scale::from_gamma(gamma)?),
        Rule::Fixed(l) => Ok(l),
        // INVARIANT: data-dependent rules were resolved before.
        Rule::Median | Rule::SklearnGammaScale => unreachable!("a rule has data"),
    }
}

/// Statistics of a table that the data-dependent rules need, computed in one pass.
struct Summary {
    dim: usize,
    sample: Vec<f32>,
    /// Moments of the rows before normalization, for `standardize`.
    raw: Option<ColumnMoments>,
    /// Moments of the normalized rows, for the gamma rule.
    normalized: Option<ColumnMoments>,
    notes: Vec<String>,
    /// Number of rows skipped and of values set to 0.
    replaced: (u64, u64),
}

impl Summary {
    fn of(data: &Source, settings: &NewSpec, whole: bool, job: &Job<'_>) -> Result<Self> {
        let mut reader = TableReader::open(data, &settings.read)?;
        let notes = reader.notes().to_vec();
        let dim = reader.schema().dim;
        let seed = Seed::new(settings.map.seed)?;
        let mut sample = RowSample::new(MEDIAN_ROWS, dim, seed, "length-scale");
        let standardize = settings.map.normalize == Normalization::Standardize;
        let gamma_rule = settings.rule() == Rule::SklearnGammaScale;
        let mut raw = standardize.then(|| ColumnMoments::new(dim));
        let mut normalized = (gamma_rule && !standardize).then(|| ColumnMoments::new(dim));
        let bar = job.progress("reading", "rows", reader.n_rows());
        while whole && let Some(chunk) = reader.next_chunk()? {
            job.check()?;
            sample.offer(chunk.numbers(), &chunk.vectors);
            let rows = Rows::new(&chunk.vectors, dim)?;
            if let Some(moments) = &mut raw {
                moments.push_rows(rows)?;
            }
            if let Some(moments) = &mut normalized {
                let rows = plain(settings.map.normalize).rows(rows)?;
                moments.push_rows(Rows::new(&rows, dim)?)?;
            }
            bar.advance(chunk.n_rows() as u64);
        }
        Ok(Self {
            dim,
            sample: sample.into_rows(),
            raw,
            normalized,
            notes,
            replaced: reader.replaced(),
        })
    }

    fn resolve(&self, settings: &NewSpec) -> Result<(Normalize, f64)> {
        let normalize = match &self.raw {
            Some(moments) => moments.standardize(),
            None => plain(settings.map.normalize),
        };
        let length_scale = match settings.rule() {
            Rule::Median => {
                let rows = normalize.rows(Rows::new(&self.sample, self.dim)?)?;
                length_scale::from_median(Rows::new(&rows, self.dim)?, &settings.map.kernel())?
            }
            Rule::SklearnGammaScale => {
                let variance = match (&self.raw, &self.normalized) {
                    (Some(raw), _) => raw.standardized_variance(),
                    (None, Some(normalized)) => normalized.total_variance(),
                    // INVARIANT: the pass over the data collected one of them for this rule.
                    (None, None) => unreachable!("the gamma rule collected moments"),
                };
                length_scale::from_gamma_scale(variance, self.dim)?
            }
            other => fixed(other)?,
        };
        Ok((normalize, length_scale))
    }
}

/// Reads a feature spec from a file.
///
/// # Errors
/// [`Refusal::Damaged`] and [`Error::Io`] name the file and the problem.
pub fn load_spec(path: &Path) -> Result<FeatureSpec> {
    let refused = |what: String| Refusal::damaged(format!("{}: {what}", path.display()), "");
    let bytes = storage::read(path, MAX_SPEC_BYTES)?;
    let text = String::from_utf8(bytes)
        .map_err(|e| refused(format!("not a feature spec: it is not UTF-8 text ({e})")))?;
    Ok(FeatureSpec::from_json(&text).map_err(|e| refused(e.to_string()))?)
}

/// Writes a feature spec to a file.
///
/// # Errors
/// [`Refusal::Exists`] if a different file exists and `force` is not set.
pub fn save_spec(spec: &FeatureSpec, path: &Path, force: bool) -> Result<()> {
    check_spec_path(spec, path, force)?;
    Ok(write_atomically(path, spec.to_json().as_bytes())?)
}

/// An existing spec may stay if it is identical.
fn check_spec_path(spec: &FeatureSpec, path: &Path, force: bool) -> Result<()> {
    let same = || storage::read(path, MAX_SPEC_BYTES).is_ok_and(|b| b == spec.to_json().as_bytes());
    Ok(publish::check_new(path, force || same())?)
}

/// Description of a feature spec, in numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Description {
    /// Input dimension d.
    pub input_dim: usize,
    /// Output dimension D.
    pub output_dim: usize,
    /// Number of directions m = D / 2.
    pub n_directions: usize,
    /// Random seed of the directions.
    pub seed: u64,
    /// Name of the kernel.
    pub kernel: &'static str,
    /// Length scale l.
    pub length_scale: f64,
    /// scikit-learn's gamma = 1 / (2 l^2); for the gaussian kernel only.
    pub gamma: Option<f64>,
    /// Components (length scale, weight) of a mixture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub components: Option<Vec<(f64, f64)>>,
    /// How the directions U are sampled.
    pub directions: &'static str,
    /// Normalization of the input rows.
    pub normalize: &'static str,
    /// Largest standard deviation of one estimated kernel value with iid directions.
    pub worst_deviation: f64,
    /// Bytes per row of phi in f32.
    pub bytes_per_row: usize,
    /// Bytes of U in f32; 0 for hadamard directions, which are never stored.
    pub directions_bytes: usize,
    /// Id of the spec: determines every bit of phi.
    pub spec_id: String,
    /// Id of the directions; equal for prefixes of the same map.
    pub directions_id: String,
}

/// Describes a feature spec.
pub fn describe(spec: &FeatureSpec) -> Description {
    let l = spec.length_scale();
    let m = spec.n_directions();
    Description {
        input_dim: spec.input_dim(),
        output_dim: spec.output_dim(),
        n_directions: m,
        seed: spec.seed().get(),
        kernel: spec.kernel().name(),
        length_scale: l,
        gamma: (*spec.kernel() == Kernel::Gaussian).then(|| 0.5 / (l * l)),
        components: match spec.kernel() {
            Kernel::Mixture { scales, weights } => {
                Some(scales.iter().map(|s| l * s).zip(weights.iter().copied()).collect())
            }
            _ => None,
        },
        directions: spec.directions().name(),
        normalize: spec.normalize().name(),
        worst_deviation: (0.5 * spec.kernel().worst_variance() / m as f64).sqrt(),
        bytes_per_row: spec.output_dim() * size_of::<f32>(),
        directions_bytes: match spec.directions() {
            Directions::Hadamard => 0,
            _ => m * spec.input_dim() * size_of::<f32>(),
        },
        spec_id: spec.spec_id().to_owned(),
        directions_id: spec.directions_id().to_owned(),
    }
}

settings! {
    /// Settings of [`apply`].
    pub struct Apply {
        /// Vector table: a file, a folder or `-`
        pub input: Input = Input::default() => [positional(), required(), value("INPUT")],
        /// Feature table to write
        pub output: Output = Output::default() => [positional(), required(), value("OUTPUT")],
        /// Feature spec; if omitted, a default spec is written next to the output
        pub spec: Option<Input> = None,
        /// Truncate phi to its first D coordinates, rescaled
        pub output_dim: Option<usize> = None => [value("D")],
    } with {
        /// How the tables are read and written.
        pub options: JobOptions,
    }
}

/// Result of [`apply`].
#[derive(Clone, Debug, Serialize)]
pub struct Applied {
    /// Path of the feature table.
    #[serde(rename = "out")]
    pub output: String,
    /// Path of the spec that was created, if none was given.
    pub spec_path: Option<String>,
    /// Description of the spec that was used.
    pub spec: Description,
    /// Statistics of the rows.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Computes the features phi of a table.
///
/// # Errors
/// [`Error::Io`] if a table cannot be read or written, [`Error::Features`] if the spec does not match
/// the table, [`Error::Interrupted`] if the user stopped the job and it can be resumed.
///
/// # Example
/// ```
/// use veridical::core::{Job, Seed};
/// use veridical::data::generate;
/// use veridical::featurize::{Apply, apply};
/// # let folder = tempfile::tempdir().unwrap();
/// # let at = |name: &str| folder.path().join(name);
///
/// let table = generate::clusters(100, 8, 3, Seed::new(0)?);
/// veridical::io::write_table(&table, &at("h.parquet"))?;
/// let settings = Apply {
///     input: at("h.parquet").into(),
///     output: at("phi.parquet").into(),
///     ..Apply::default()
/// };
/// let applied = apply(&settings, &Job::silent())?;
/// assert_eq!((applied.tally.rows, applied.spec.output_dim), (100, 4 * 8));
/// # Ok::<(), veridical::Error>(())
/// ```
pub fn apply(settings: &Apply, job: &Job<'_>) -> Result<Applied> {
    settings.check()?;
    let given = settings.spec.as_deref().map(load_spec).transpose()?;
    let (input, output) = (&settings.input.source(), &settings.output.source());
    let dtype = Dtype::from(settings.options.write.dtype);
    let reader = pipeline::open_input(input, output, &settings.options, job)?;
    let dim = reader.schema().dim;
    let (spec, spec_path) = match given {
        Some(spec) => (spec, None),
        None => (default_spec(settings, job)?, spec_beside(output)),
    };
    if dim != spec.input_dim() {
        let source = veridical_features::Error::Width { expected: spec.input_dim(), got: dim };
        return Err(Error::InFile { path: input.to_string(), source });
    }
    let spec = match settings.output_dim {
        Some(output_dim) => spec.prefix(output_dim)?,
        None => spec,
    };
    let force = settings.options.write.existing.force;
    if let Some(path) = &spec_path {
        check_spec_path(&spec, path, force)?;
    }

    let schema = OutputSchema {
        dim: spec.output_dim(),
        dtype,
        ids: reader.schema().ids,
        kept: reader.schema().kept.clone(),
        metadata: vec![("veridical.spec".into(), spec.to_json())],
    };
    let description = json!({ "verb": "featurize apply", "spec_id": spec.spec_id() });
    let mut featurizer = Featurizer::new(&spec, dtype, job)?;
    let table = TableJob { reader, input, output, schema, options: &settings.options, description };
    let tally = pipeline::run(table, &mut featurizer, job)?;
    featurizer.check_kernel_values()?;
    report(&tally, job);
    if let Some(path) = &spec_path {
        save_spec(&spec, path, force)?;
    }
    Ok(Applied {
        output: output.to_string(),
        spec_path: spec_path.map(|path| path.display().to_string()),
        spec: describe(&spec),
        tally,
    })
}

/// Default spec: unit rows, gaussian, median length scale, orthogonal, D = 4 d unless set, seed 0.
fn default_spec(apply: &Apply, job: &Job<'_>) -> Result<FeatureSpec> {
    if apply.input.source() == Source::Stream {
        let what = "a stream can be read only once, so the length scale cannot be chosen from it";
        return Err(Refusal::request(what, "pass ⟨spec⟩").into());
    }
    let settings = NewSpec {
        output_dim: apply.output_dim,
        data: Some(apply.input.clone()),
        read: apply.options.reading(),
        ..NewSpec::default()
    };
    // Reading the table was already reported when it was opened before.
    make_spec(&settings, job).map(|(spec, _summary)| spec)
}

/// Returns the path of the spec next to the output: `phi.spec.json` for `phi.parquet`.
fn spec_beside(output: &Source) -> Option<PathBuf> {
    output.path().map(|path| path.with_extension("spec.json"))
}

fn report(tally: &Tally, job: &Job<'_>) {
    if tally.largest_projection > LARGE_PROJECTION {
        job.warn(&format!(
            "|u.h| reaches {:.3e}: tiny changes of h change phi completely; use a larger length scale or \
             normalize the rows",
            tally.largest_projection
        ));
    }
    if tally.zero_rows > 0 {
        job.warn(&format!(
            "{} rows are zero and stay zero under `unit` normalization",
            tally.zero_rows
        ));
    }
}

/// The transform of [`apply`], which also checks the kernel values of the first rows.
struct Featurizer<'a> {
    map: FeatureMap,
    dtype: Dtype,
    job: &'a Job<'a>,
    sample: Option<RowSample>,
    seen: u64,
}

impl<'a> Featurizer<'a> {
    fn new(spec: &FeatureSpec, dtype: Dtype, job: &'a Job<'a>) -> Result<Self> {
        let sample = RowSample::new(CHECK_ROWS, spec.input_dim(), spec.seed(), "kernel-values");
        Ok(Self { map: FeatureMap::new(spec)?, dtype, job, sample: Some(sample), seen: 0 })
    }

    /// Warns once if phi carries little information: nearly all kernel values near 0 or 1.
    fn check_kernel_values(&mut self) -> Result<()> {
        let Some(sample) = self.sample.take() else { return Ok(()) };
        let spec = self.map.spec();
        let sample = sample.into_rows();
        let rows = spec.normalize().rows(Rows::new(&sample, spec.input_dim())?)?;
        let rows = Rows::new(&rows, spec.input_dim())?;
        let values = spec.kernel().pairs(rows, spec.length_scale());
        let n = values.len() as f64;
        let share = |low: bool| {
            let outside =
                |k: &&f64| if low { **k < *INFORMATIVE.start() } else { **k > *INFORMATIVE.end() };
            values.iter().filter(outside).count() as f64 / n
        };
        let (low, high) = (share(true), share(false));
        let mut distances = length_scale::distances(rows, spec.kernel());
        match median(&mut distances) {
            Some(better) if low + high > UNINFORMATIVE_SHARE && better > 0.0 => {
                self.job.warn(&format!(
                    "{:.0} % of the sampled kernel values are below 0.05 and {:.0} % above 0.95: phi \
                     barely discriminates between rows; try ⟨length-scale⟩ {better:.4} (the median distance) instead of {}",
                    100.0 * low,
                    100.0 * high,
                    spec.length_scale()
                ));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Transform for Featurizer<'_> {
    fn apply(&mut self, rows: &Chunk, tally: &mut Tally) -> Result<Vectors> {
        if let Some(sample) = &mut self.sample {
            sample.offer(rows.numbers(), &rows.vectors);
            self.seen += rows.n_rows() as u64;
            if self.seen >= CHECK_WINDOW {
                self.check_kernel_values()?;
            }
        }
        let len = rows.n_rows() * self.map.spec().output_dim();
        let at_row = |e: veridical_features::Error| match e {
            veridical_features::Error::TooLarge { row, value } => {
                let row = rows.row_number(row) as usize;
                veridical_features::Error::TooLarge { row, value }
            }
            veridical_features::Error::Normalization { row, value } => {
                let row = rows.row_number(row) as usize;
                veridical_features::Error::Normalization { row, value }
            }
            other => other,
        };
        let values = Rows::new(&rows.vectors, self.map.spec().input_dim())?;
        let (checked, vectors) = if self.dtype == Dtype::F16 {
            let mut out = vec![f16::ZERO; len];
            let checked = self.map.transform_into_f16(values, &mut out).map_err(at_row)?;
            (checked, Vectors::F16(ScalarBuffer::from(out)))
        } else {
            let mut out = vec![0.0f32; len];
            let checked = self.map.transform_into(values, &mut out).map_err(at_row)?;
            (checked, Vectors::F32(ScalarBuffer::from(out)))
        };
        tally.zero_rows += checked.zero_rows;
        tally.largest_projection = tally.largest_projection.max(checked.largest_projection);
        Ok(vectors)
    }
}
