//! `veridical featurize`: make, describe, plan, check, apply and export a feature spec.
//!
//! phi's inner products estimate a kernel of h, and phi inherits h's rotation: it helps models that
//! are retrained. A model that is not retrained needs the new h aligned to the old one first.

mod check;
mod export;
mod plan;
mod sample;

use std::path::{Path, PathBuf};

use arrow_buffer::ScalarBuffer;
use half::f16;
use serde::Serialize;
use serde_json::json;
use veridical_core::stats::median;
use veridical_core::{RowSample, Seed};
use veridical_data::{
    Chunk, Dtype, IfExists, OutputSchema, ReadOptions, Source, TableReader, Vectors, storage,
    write_atomically,
};
use veridical_features::{
    ColumnMoments, Directions, FeatureMap, FeatureSpec, Kernel, Normalize, length_scale,
};

pub use self::check::{Check, CheckReport, Errors, Family, check};
pub use self::export::{Export, ExportFormat, Exported, ExportedFile, ExportedMap, export};
pub use self::plan::{Answer, Goal, Plan, Planned, Point, plan};
use crate::pipeline::{self, Job, Transform};
use crate::{Error, JobOptions, Observer, Result, Silent, Tally};

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

/// How the length scale is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LengthScale {
    /// A number.
    Fixed(f64),
    /// Through scikit-learn's gamma = 1 / (2 l^2).
    Gamma(f64),
    /// The median distance between rows of the data.
    Median,
    /// scikit-learn's `gamma="scale"` on the data.
    SklearnGammaScale,
}

/// How rows are normalized; `Standardize` takes means and deviations from the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Normalization {
    /// Nothing.
    None,
    /// Rows of length one.
    #[default]
    Unit,
    /// Columns of mean 0 and deviation 1.
    Standardize,
}

/// Settings of a new spec.
#[derive(Clone, Debug)]
pub struct NewSpec {
    /// d; taken from the data if there is some.
    pub input_dim: Option<usize>,
    /// D; 4 d by default.
    pub output_dim: Option<usize>,
    /// The seed of the directions.
    pub seed: u64,
    /// The length scale, or the rule that finds it.
    pub length_scale: LengthScale,
    /// The kernel.
    pub kernel: Kernel,
    /// How U is drawn; by default the best that the kernel allows.
    pub directions: Option<Directions>,
    /// How rows are normalized.
    pub normalize: Normalization,
    /// The table for rules that need one.
    pub data: Option<Source>,
    /// How to read it.
    pub read: ReadOptions,
}

impl Default for NewSpec {
    fn default() -> Self {
        Self {
            input_dim: None,
            output_dim: None,
            seed: 0,
            length_scale: LengthScale::Fixed(1.0),
            kernel: Kernel::default(),
            directions: None,
            normalize: Normalization::default(),
            data: None,
            read: ReadOptions::default(),
        }
    }
}

/// Makes a spec; rules are resolved to numbers on the way.
///
/// # Errors
/// [`Error::Usage`] for a rule without data, [`Error::Features`] for a setting out of range.
pub fn new_spec(settings: &NewSpec) -> Result<FeatureSpec> {
    new_spec_observed(settings, &Silent)
}

/// [`new_spec`] that tells `observer` what it does.
///
/// # Errors
/// As there.
pub fn new_spec_observed(settings: &NewSpec, observer: &dyn Observer) -> Result<FeatureSpec> {
    let (spec, summary) = make_spec(settings, observer)?;
    if spec.directions() == Directions::Halton && spec.input_dim() > HALTON_DIMS {
        observer.warn(&format!(
            "halton points gain nothing known above {HALTON_DIMS} values; orthogonal directions do"
        ));
    }
    if let Some(Summary { notes, replaced: (skipped, zeroed), .. }) = summary {
        notes.iter().for_each(|note| observer.note(note));
        pipeline::warn_about_replaced(skipped, zeroed, observer);
    }
    Ok(spec)
}

/// The spec, and what was seen of its data.
fn make_spec(
    settings: &NewSpec,
    observer: &dyn Observer,
) -> Result<(FeatureSpec, Option<Summary>)> {
    if let (LengthScale::Gamma(_) | LengthScale::SklearnGammaScale, true) =
        (settings.length_scale, settings.kernel != Kernel::Gaussian)
    {
        let name = settings.kernel.name();
        let what = format!("gamma belongs to the gaussian kernel, not to {name}");
        return Err(Error::Usage(format!("{what}; pass --length-scale")));
    }
    let rule = match settings.length_scale {
        LengthScale::Median => Some("--length-scale median"),
        LengthScale::SklearnGammaScale => Some("--length-scale sklearn-gamma-scale"),
        _ if settings.normalize == Normalization::Standardize => Some("--normalize standardize"),
        _ => None,
    };
    let summary = match (&settings.data, rule) {
        (Some(data), rule) => Some(Summary::of(data, settings, rule.is_some(), observer)?),
        (None, Some(rule)) => {
            return Err(Error::Usage(format!("{rule} needs a table to look at; pass --data FILE")));
        }
        (None, None) => None,
    };
    let input_dim = match (settings.input_dim, summary.as_ref().map(|s| s.dim)) {
        (Some(asked), Some(found)) if asked != found => {
            let what =
                format!("--input-dim is {asked} but the vectors in --data have {found} values");
            return Err(Error::Usage(format!("{what}; leave out one of them")));
        }
        (Some(dim), _) | (None, Some(dim)) => dim,
        (None, None) => return Err(Error::Usage("pass --input-dim or --data FILE".into())),
    };
    // A width out of range is reported by `build`, not here.
    let output_dim = settings.output_dim.unwrap_or(input_dim.saturating_mul(4));
    let mut params = FeatureSpec::params(input_dim, output_dim)
        .seed(settings.seed)
        .kernel(settings.kernel.clone());
    if let Some(directions) = settings.directions {
        params = params.directions(directions);
    }
    let (normalize, length_scale) = match &summary {
        Some(summary) => summary.resolve(settings).map_err(|e| in_file(e, settings))?,
        None => (plain(settings.normalize), fixed(settings.length_scale)?),
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

fn fixed(length_scale: LengthScale) -> Result<f64> {
    match length_scale {
        LengthScale::Gamma(gamma) => Ok(length_scale::from_gamma(gamma)?),
        LengthScale::Fixed(l) => Ok(l),
        // INVARIANT: rules were sent to the data before.
        LengthScale::Median | LengthScale::SklearnGammaScale => unreachable!("a rule has data"),
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
    fn of(data: &Source, settings: &NewSpec, whole: bool, observer: &dyn Observer) -> Result<Self> {
        let mut reader = TableReader::open(data, &settings.read)?;
        let notes = reader.notes().to_vec();
        let dim = reader.schema().dim;
        let seed = Seed::new(settings.seed)?;
        let mut sample = RowSample::new(MEDIAN_ROWS, dim, seed, "length-scale");
        let standardize = settings.normalize == Normalization::Standardize;
        let gamma_rule = settings.length_scale == LengthScale::SklearnGammaScale;
        let mut raw = standardize.then(|| ColumnMoments::new(dim));
        let mut normalized = (gamma_rule && !standardize).then(|| ColumnMoments::new(dim));
        let bar = observer.progress("reading", "rows", reader.n_rows());
        while whole && let Some(chunk) = reader.next_chunk()? {
            veridical_core::interrupt::check()?;
            sample.offer(chunk.numbers(), &chunk.vectors);
            if let Some(moments) = &mut raw {
                moments.push_rows(&chunk.vectors);
            }
            if let Some(moments) = &mut normalized {
                moments.push_rows(&plain(settings.normalize).rows(&chunk.vectors, dim));
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
            None => plain(settings.normalize),
        };
        let length_scale = match settings.length_scale {
            LengthScale::Median => {
                let rows = normalize.rows(&self.sample, self.dim);
                length_scale::from_median(&rows, self.dim, &settings.kernel)?
            }
            LengthScale::SklearnGammaScale => {
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
/// [`Error::Usage`] and [`Error::Data`] name the file and what is wrong with it.
pub fn load_spec(path: &Path) -> Result<FeatureSpec> {
    let refused = |what: String| Error::Usage(format!("{}: {what}", path.display()));
    let bytes = storage::read(path, MAX_SPEC_BYTES)?;
    let text = String::from_utf8(bytes)
        .map_err(|e| refused(format!("not a feature spec: it is not UTF-8 text ({e})")))?;
    FeatureSpec::from_json(&text).map_err(|e| refused(e.to_string()))
}

/// Writes a spec to a file.
///
/// # Errors
/// [`Error::Usage`] if another file is there and `force` is not set.
pub fn save_spec(spec: &FeatureSpec, path: &Path, force: bool) -> Result<()> {
    check_spec_path(spec, path, force)?;
    Ok(write_atomically(path, spec.to_json().as_bytes())?)
}

/// A spec that is there already may stay if it is the same.
fn check_spec_path(spec: &FeatureSpec, path: &Path, force: bool) -> Result<()> {
    let same = || storage::read(path, MAX_SPEC_BYTES).is_ok_and(|b| b == spec.to_json().as_bytes());
    if !force && storage::exists(path)? && !same() {
        let what = "exists already; choose another name or replace it with --force";
        return Err(Error::Usage(format!("{} {what}", path.display())));
    }
    Ok(())
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

/// Settings of [`apply`].
#[derive(Clone, Debug)]
pub struct Apply {
    /// The table of h.
    pub input: Source,
    /// The table of phi to write.
    pub output: Source,
    /// The spec; without one the defaults are used and the spec is written beside the output.
    pub spec: Option<FeatureSpec>,
    /// Cut phi to this width.
    pub output_dim: Option<usize>,
    /// F32 or F16.
    pub dtype: Dtype,
    /// How to read and write.
    pub options: JobOptions,
}

/// What [`apply`] did.
#[derive(Clone, Debug, Serialize)]
pub struct Applied {
    /// The table of phi.
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
/// [`Error::Data`] if a table cannot be read or written, [`Error::Features`] if the spec does not fit
/// the table, [`Error::Interrupted`] if the user stopped it and it can be resumed.
pub fn apply(settings: &Apply, observer: &dyn Observer) -> Result<Applied> {
    let (input, output) = (&settings.input, &settings.output);
    let reader = pipeline::open_input(input, output, &settings.options, observer)?;
    let dim = reader.schema().dim;
    let (spec, spec_path) = match &settings.spec {
        Some(spec) => (spec.clone(), None),
        None => (default_spec(settings, observer)?, spec_beside(output)),
    };
    if dim != spec.input_dim() {
        let source = veridical_features::Error::Width { expected: spec.input_dim(), got: dim };
        return Err(Error::InFile { path: input.to_string(), source });
    }
    let spec = match settings.output_dim {
        Some(output_dim) => spec.prefix(output_dim)?,
        None => spec,
    };
    let force = settings.options.write.if_exists == IfExists::Force;
    if let Some(path) = &spec_path {
        check_spec_path(&spec, path, force)?;
    }

    let schema = OutputSchema {
        dim: spec.output_dim(),
        dtype: settings.dtype,
        ids: reader.schema().ids,
        kept: reader.schema().kept.clone(),
        metadata: vec![("veridical.spec".into(), spec.to_json())],
    };
    let description = json!({ "verb": "featurize apply", "spec_id": spec.spec_id() });
    let mut featurizer = Featurizer::new(&spec, settings.dtype, observer)?;
    let job = Job { reader, input, output, schema, options: &settings.options, description };
    let tally = pipeline::run(job, &mut featurizer, observer)?;
    featurizer.check_kernel_values();
    report(&tally, observer);
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
fn default_spec(apply: &Apply, observer: &dyn Observer) -> Result<FeatureSpec> {
    if apply.input == Source::Stream {
        let what = "a stream can be read only once, so its length scale cannot be chosen from it";
        return Err(Error::Usage(format!("{what}; pass --spec")));
    }
    let settings = NewSpec {
        output_dim: apply.output_dim,
        length_scale: LengthScale::Median,
        data: Some(apply.input.clone()),
        read: apply.options.read.clone(),
        ..NewSpec::default()
    };
    // The table was opened before, and said then how it is read.
    make_spec(&settings, observer).map(|(spec, _summary)| spec)
}

/// `phi.parquet` has its spec in `phi.spec.json`.
fn spec_beside(output: &Source) -> Option<PathBuf> {
    output.path().map(|path| path.with_extension("spec.json"))
}

fn report(tally: &Tally, observer: &dyn Observer) {
    if tally.largest_projection > LARGE_PROJECTION {
        observer.warn(&format!(
            "|u.h| reaches {:.3e}: phi turns around at tiny changes of h; use a larger length scale or \
             normalize the rows",
            tally.largest_projection
        ));
    }
    if tally.zero_rows > 0 {
        observer.warn(&format!("{} rows are zero and stay zero under `unit`", tally.zero_rows));
    }
}

/// The transform of [`apply`], which also looks at the kernel values of the first rows.
struct Featurizer<'a> {
    map: FeatureMap,
    dtype: Dtype,
    observer: &'a dyn Observer,
    sample: Option<RowSample>,
    seen: u64,
}

impl<'a> Featurizer<'a> {
    fn new(spec: &FeatureSpec, dtype: Dtype, observer: &'a dyn Observer) -> Result<Self> {
        let sample = RowSample::new(CHECK_ROWS, spec.input_dim(), spec.seed(), "kernel-values");
        Ok(Self { map: FeatureMap::new(spec)?, dtype, observer, sample: Some(sample), seen: 0 })
    }

    /// Warns once if phi would say little: nearly all kernel values at 0 or 1.
    fn check_kernel_values(&mut self) {
        let Some(sample) = self.sample.take() else { return };
        let spec = self.map.spec();
        let rows = spec.normalize().rows(&sample.into_rows(), spec.input_dim());
        let values = spec.kernel().pairs(&rows, spec.input_dim(), spec.length_scale());
        let n = values.len() as f64;
        let share = |low: bool| {
            let outside =
                |k: &&f64| if low { **k < *INFORMATIVE.start() } else { **k > *INFORMATIVE.end() };
            values.iter().filter(outside).count() as f64 / n
        };
        let (low, high) = (share(true), share(false));
        let mut distances = length_scale::distances(&rows, spec.input_dim(), spec.kernel());
        match median(&mut distances) {
            Some(better) if low + high > UNINFORMATIVE_SHARE && better > 0.0 => {
                self.observer.warn(&format!(
                    "{:.0} % of the sampled kernel values are below 0.05 and {:.0} % above 0.95: phi \
                     tells little apart; try --length-scale {better:.4} (the median distance) instead of {}",
                    100.0 * low,
                    100.0 * high,
                    spec.length_scale()
                ));
            }
            _ => {}
        }
    }
}

impl Transform for Featurizer<'_> {
    fn apply(&mut self, rows: &Chunk, tally: &mut Tally) -> Result<Vectors> {
        if let Some(sample) = &mut self.sample {
            sample.offer(rows.numbers(), &rows.vectors);
            self.seen += rows.n_rows() as u64;
            if self.seen >= CHECK_WINDOW {
                self.check_kernel_values();
            }
        }
        let len = rows.n_rows() * self.map.spec().output_dim();
        let at_row = |e: veridical_features::Error| match e {
            veridical_features::Error::TooLarge { row, value } => {
                let row = rows.row_number(row) as usize;
                veridical_features::Error::TooLarge { row, value }
            }
            other => other,
        };
        let (checked, vectors) = if self.dtype == Dtype::F16 {
            let mut out = vec![f16::ZERO; len];
            let checked = self.map.transform_into_f16(&rows.vectors, &mut out).map_err(at_row)?;
            (checked, Vectors::F16(ScalarBuffer::from(out)))
        } else {
            let mut out = vec![0.0f32; len];
            let checked = self.map.transform_into(&rows.vectors, &mut out).map_err(at_row)?;
            (checked, Vectors::F32(ScalarBuffer::from(out)))
        };
        tally.zero_rows += checked.zero_rows;
        tally.largest_projection = tally.largest_projection.max(checked.largest_projection);
        Ok(vectors)
    }
}
