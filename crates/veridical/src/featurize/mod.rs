//! `veridical featurize`: make, describe, plan, check, apply and export a feature spec.
//!
//! phi's inner products estimate a kernel of h, and phi inherits h's rotation: it helps models that
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

/// Rows sampled for the median rule.
const MEDIAN_ROWS: usize = 1024;
/// Rows sampled for the check of the kernel values, out of the first `CHECK_WINDOW`.
const CHECK_ROWS: usize = 256;
const CHECK_WINDOW: u64 = 65_536;
/// Kernel values outside this range say "equal" or "unrelated" and little else.
const INFORMATIVE: std::ops::RangeInclusive<f64> = 0.05..=0.95;
const UNINFORMATIVE_SHARE: f64 = 0.9;
/// Beyond this |u.h| a small change of h turns phi around completely.
const LARGE_PROJECTION: f32 = 4096.0;
/// Up to here evenly spread points are known to help.
const HALTON_DIMS: usize = 32;
/// A spec with means and deviations for a million columns stays below this.
const MAX_SPEC_BYTES: u64 = 128 << 20;

settings! {
    /// Settings of a new spec.
    pub struct NewSpec {
        /// Width of the vectors; taken from ⟨data⟩ if that is given
        pub input_dim: Option<usize> = None => [value("d")],
        /// Width of phi, even: a cosine and a sine for each direction
        pub output_dim: Option<usize> = None => [value("D"), otherwise("4 d")],
        /// Table for the rules that look at data
        pub data: Option<Input> = None,
    } with {
        /// What phi is made of.
        pub map: MapSettings,
        /// How the table is read.
        pub read: ReadOptions,
    }
}

settings! {
    /// A new spec, and where it goes.
    pub struct WriteSpec {
        /// Where to write the spec
        pub out: Output = Output::default() => [required()],
    } with {
        /// The spec.
        pub spec: NewSpec,
        /// What to do about an earlier spec.
        pub replace: Replace,
    }
}

settings! {
    /// Which spec to describe.
    pub struct DescribeSpec {
        /// The spec
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

/// Makes a spec; rules are resolved to numbers on the way.
///
/// # Errors
/// [`Refusal::Request`] for a rule without data, [`Error::Features`] for a setting out of range.
pub fn new_spec(settings: &NewSpec) -> Result<FeatureSpec> {
    new_spec_observed(settings, &Job::silent())
}

/// [`new_spec`] that tells `job` what it does.
///
/// # Errors
/// As there.
pub fn new_spec_observed(settings: &NewSpec, job: &Job<'_>) -> Result<FeatureSpec> {
    Seed::new(settings.map.seed)?; // named as the setting, not as a field of the spec
    let (spec, summary) = make_spec(settings, job)?;
    if spec.directions() == Directions::Halton && spec.input_dim() > HALTON_DIMS {
        job.warn(&format!(
            "halton points gain nothing known above {HALTON_DIMS} values; orthogonal directions do"
        ));
    }
    if let Some(Summary { notes, replaced: (skipped, zeroed), .. }) = summary {
        notes.iter().for_each(|note| job.note(note));
        pipeline::warn_about_replaced(skipped, zeroed, job);
    }
    Ok(spec)
}

/// The spec, and what was seen of its data.
fn make_spec(settings: &NewSpec, job: &Job<'_>) -> Result<(FeatureSpec, Option<Summary>)> {
    let (map, kernel, scale) = (&settings.map, settings.map.kernel(), settings.rule());
    if matches!(scale, Rule::Gamma(_) | Rule::SklearnGammaScale) && kernel != Kernel::Gaussian {
        let name = kernel.name();
        let what = format!("gamma belongs to the gaussian kernel, not to {name}");
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
            let what = format!("{rule} needs a table to look at");
            return Err(Refusal::request(what, "pass ⟨data⟩ FILE").into());
        }
        (None, None) => None,
    };
    let input_dim = match (settings.input_dim, summary.as_ref().map(|s| s.dim)) {
        (Some(asked), Some(found)) if asked != found => {
            let what =
                format!("⟨input-dim⟩ is {asked} but the vectors in ⟨data⟩ have {found} values");
            return Err(Refusal::request(what, "leave out one of them").into());
        }
        (Some(dim), _) | (None, Some(dim)) => dim,
        (None, None) => return Err(Refusal::request("pass ⟨input-dim⟩ or ⟨data⟩ FILE", "").into()),
    };
    // A width out of range is reported by `build`, not here.
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

/// Names the table that gives no length scale.
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
        // INVARIANT: rules were sent to the data before.
        Rule::Median | Rule::SklearnGammaScale => unreachable!("a rule has data"),
    }
}

/// What the rules need to know about a table, found in one pass.
struct Summary {
    dim: usize,
    sample: Vec<f32>,
    /// Of the rows as they are, for `standardize`.
    raw: Option<ColumnMoments>,
    /// Of the normalized rows, for the gamma rule.
    normalized: Option<ColumnMoments>,
    notes: Vec<String>,
    /// Rows left out and values set to 0.
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
                    // INVARIANT: the pass over the data filled one of them for this rule.
                    (None, None) => unreachable!("the gamma rule collected moments"),
                };
                length_scale::from_gamma_scale(variance, self.dim)?
            }
            other => fixed(other)?,
        };
        Ok((normalize, length_scale))
    }
}

/// Reads a spec from a file.
///
/// # Errors
/// [`Refusal::Damaged`] and [`Error::Io`] name the file and what is wrong with it.
pub fn load_spec(path: &Path) -> Result<FeatureSpec> {
    let refused = |what: String| Refusal::damaged(format!("{}: {what}", path.display()), "");
    let bytes = storage::read(path, MAX_SPEC_BYTES)?;
    let text = String::from_utf8(bytes)
        .map_err(|e| refused(format!("not a feature spec: it is not UTF-8 text ({e})")))?;
    Ok(FeatureSpec::from_json(&text).map_err(|e| refused(e.to_string()))?)
}

/// Writes a spec to a file.
///
/// # Errors
/// [`Refusal::Exists`] if another file is there and `force` is not set.
pub fn save_spec(spec: &FeatureSpec, path: &Path, force: bool) -> Result<()> {
    check_spec_path(spec, path, force)?;
    Ok(write_atomically(path, spec.to_json().as_bytes())?)
}

/// A spec that is there already may stay if it is the same.
fn check_spec_path(spec: &FeatureSpec, path: &Path, force: bool) -> Result<()> {
    let same = || storage::read(path, MAX_SPEC_BYTES).is_ok_and(|b| b == spec.to_json().as_bytes());
    Ok(publish::check_new(path, force || same())?)
}

/// What a spec means, in numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Description {
    /// d.
    pub input_dim: usize,
    /// D.
    pub output_dim: usize,
    /// m.
    pub n_directions: usize,
    /// The seed.
    pub seed: u64,
    /// The kernel.
    pub kernel: &'static str,
    /// l.
    pub length_scale: f64,
    /// 1 / (2 l^2), as scikit-learn counts; of the gaussian kernel only.
    pub gamma: Option<f64>,
    /// Components (length scale, weight) of a mixture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub components: Option<Vec<(f64, f64)>>,
    /// How U is drawn.
    pub directions: &'static str,
    /// What is done to rows first.
    pub normalize: &'static str,
    /// The largest standard deviation that one estimated kernel value can have with iid directions.
    pub worst_deviation: f64,
    /// Bytes of one row of phi in f32.
    pub bytes_per_row: usize,
    /// Bytes of U in f32; hadamard directions are never stored.
    pub directions_bytes: usize,
    /// Names every bit of phi.
    pub spec_id: String,
    /// Equal for prefixes.
    pub directions_id: String,
}

/// Describes a spec.
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
        /// Table of vectors: a file, a folder or `-`
        pub input: Input = Input::default() => [positional(), required(), value("INPUT")],
        /// Table of features to write
        pub output: Output = Output::default() => [positional(), required(), value("OUTPUT")],
        /// The spec; without one the defaults are used and the spec is written beside the output
        pub spec: Option<Input> = None,
        /// Cut phi to its first D coordinates, rescaled
        pub output_dim: Option<usize> = None => [value("D")],
    } with {
        /// How to read and write.
        pub options: JobOptions,
    }
}

/// What [`apply`] did.
#[derive(Clone, Debug, Serialize)]
pub struct Applied {
    /// The table of phi.
    #[serde(rename = "out")]
    pub output: String,
    /// The spec that was made, if none was given.
    pub spec_path: Option<String>,
    /// The spec that was used.
    pub spec: Description,
    /// What was seen on the way.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Writes phi of a table.
///
/// # Errors
/// [`Error::Io`] if a table cannot be read or written, [`Error::Features`] if the spec does not fit
/// the table, [`Error::Interrupted`] if the user stopped it and it can be resumed.
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

/// Unit rows, gaussian, median length scale, orthogonal, D = 4 d unless asked, seed 0.
fn default_spec(apply: &Apply, job: &Job<'_>) -> Result<FeatureSpec> {
    if apply.input.source() == Source::Stream {
        let what = "a stream can be read only once, so its length scale cannot be chosen from it";
        return Err(Refusal::request(what, "pass ⟨spec⟩").into());
    }
    let settings = NewSpec {
        output_dim: apply.output_dim,
        data: Some(apply.input.clone()),
        read: apply.options.reading(),
        ..NewSpec::default()
    };
    // The table was opened before, and said then how it is read.
    make_spec(&settings, job).map(|(spec, _summary)| spec)
}

/// `phi.parquet` has its spec in `phi.spec.json`.
fn spec_beside(output: &Source) -> Option<PathBuf> {
    output.path().map(|path| path.with_extension("spec.json"))
}

fn report(tally: &Tally, job: &Job<'_>) {
    if tally.largest_projection > LARGE_PROJECTION {
        job.warn(&format!(
            "|u.h| reaches {:.3e}: phi turns around at tiny changes of h; use a larger length scale or \
             normalize the rows",
            tally.largest_projection
        ));
    }
    if tally.zero_rows > 0 {
        job.warn(&format!("{} rows are zero and stay zero under `unit`", tally.zero_rows));
    }
}

/// The transform of [`apply`], which also looks at the kernel values of the first rows.
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

    /// Warns once if phi would say little: nearly all kernel values at 0 or 1.
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
                     tells little apart; try ⟨length-scale⟩ {better:.4} (the median distance) instead of {}",
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
