//! `veridical refresh`: the daily job as one resumable command.
//!
//! Steps: sanity checks, align, compare, gate, featurize, publish. The output grows in `OUT.partial/` and appears by one
//! rename, with `_SUCCESS` written last. If the gate fails, only the report and its summary are written:
//!
//! | file | content |
//! |---|---|
//! | `vectors/vectors.parquet` | today's vectors in the coordinate frame of the reference |
//! | `features/features.parquet` | their features, if a spec was given |
//! | `map.safetensors` | the alignment map |
//! | `report.html`, `summary.md` | the stability report |
//! | `manifest.json` | fingerprints, ids of spec and map, every limit with value and interval |
//! | `_SUCCESS` | marks the folder as complete |

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};
use veridical_core::settings::Settings as _;
use veridical_core::{Error as Refused, Job, settings};
use veridical_features::FeatureSpec;
use veridical_inspect::Limit;
use veridical_io::publish::{self, Lock};
use veridical_io::{Existing, IfExists, Input, Output, ReadOptions, Source, write_atomically};

use crate::align::{self, Certificate, DateSettings, Dates, FitSettings, MapFile, Names};
use crate::featurize::{self, Apply};
use crate::stability::{self, Limits, NamedTable, Samples, Settings, Stability, StabilityReport};
use crate::{Error, JobOptions, Result};

const SUCCESS: &str = "_SUCCESS";
const JOB: &str = "job.json";
const REPORT: &str = "report.html";
const SUMMARY: &str = "summary.md";
const MANIFEST: &str = "manifest.json";

settings! {
    /// Settings of [`refresh`].
    pub struct Refresh {
        /// Reference table or run folder, the same every day
        pub reference: Input = Input::default() => [required(), value("TABLE")],
        /// Today's table or run folder
        pub new: Input = Input::default() => [required(), value("TABLE")],
        /// Folder to publish to
        pub out: Output = Output::default() => [required(), value("FOLDER")],
        /// Feature spec: also publish features of the aligned vectors
        pub spec: Option<Input> = None,
        /// Downstream models: TOML list of `consumer` with name, table, queries, labels
        pub consumers: Option<Input> = None,
        /// Runs on identical data: their differences are shown next to every number
        pub noise_floor: Vec<Input> = Vec::new() => [value("RUN"), at_once()],
        /// Names of ids: MovieLens `::`, CSV, TSV or Parquet
        pub names: Option<Input> = None,
        /// Weights of ids: table with columns id, weight
        pub weights: Option<Input> = None,
        /// Accept a reference that is itself aligned to another table
        pub allow_chain: bool = false => [switch()],
    } with {
        /// Dates of reference and table, for the age of the map.
        pub dates: DateSettings,
        /// How an existing publication is handled.
        pub existing: Existing,
        /// Limits to meet.
        pub limits: Limits,
        /// Sample sizes.
        pub samples: Samples,
        /// How tables are read.
        pub read: ReadOptions,
    } besides {
        /// The command line, for the footer of the report.
        pub command: String,
    }
}

impl Refresh {
    /// Returns the settings of the comparison.
    fn comparison(&self) -> Stability {
        Stability {
            tables: vec![self.reference.clone(), self.new.clone()],
            noise_floor: self.noise_floor.clone(),
            names: self.names.clone(),
            weights: self.weights.clone(),
            consumers: self.consumers.clone(),
            settings: Settings { samples: self.samples.clone(), ..Settings::default() },
            read: self.read.clone(),
            ..Stability::default()
        }
    }
}

/// Result of [`refresh`].
#[derive(Clone, Debug, Serialize)]
pub struct Refreshed {
    /// Whether vectors were published.
    pub published: bool,
    /// Output folder.
    #[serde(rename = "out")]
    pub output: String,
    /// Files in the output folder.
    pub files: Vec<String>,
    /// The alignment map; `None` if nothing was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map: Option<MapReport>,
    /// Number of rows published.
    pub rows: u64,
    /// The stability report.
    #[serde(flatten)]
    pub report: StabilityReport,
}

/// Alignment map of a refresh.
#[derive(Clone, Debug, Serialize)]
pub struct MapReport {
    /// Id of the map.
    pub map_id: String,
    /// Kind of map.
    pub kind: align::MapKind,
    /// Accuracy of the map on ids it was not fitted on.
    pub certificate: Certificate,
    /// Number of days between reference and table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_days: Option<i64>,
}

/// Compares today's vectors with the reference, and publishes them if the gate passes.
///
/// # Errors
/// As [`stability::stability`] and [`align::fit`]. A failed gate is not an error here: see
/// [`Refreshed::gate`].
pub fn refresh(settings: &Refresh, job: &Job<'_>) -> Result<Refreshed> {
    settings.check()?;
    let dates = settings.dates.get()?;
    let spec = settings.spec.as_deref().map(featurize::load_spec).transpose()?;
    let (read, comparison, limits) =
        (&settings.read, settings.comparison(), settings.limits.read()?);
    let mut stage = Stage::open(settings)?;
    let source = Source::Path(settings.reference.to_path_buf());
    let reference = align::load_reference(&source, read, settings.allow_chain, job)?;
    let input = Source::Path(settings.new.to_path_buf());
    let new = veridical_io::read_table(&input, read)?;
    let names = [&settings.reference, &settings.new].map(ToString::to_string);
    let fit = FitSettings {
        names: Names(names.clone()),
        seed: settings.samples.seed()?.get(),
        ..FitSettings::default()
    };
    stability::check_limits(&comparison, &limits, 2)?;
    let fitted = align::fit(&reference, &new, &fit, job)?;
    let [first, second] = names;
    let tables = vec![NamedTable::new(first, reference, job)?, NamedTable::new(second, new, job)?];
    let inputs = json!({
        "reference": tables[0].report.fingerprint,
        "new": tables[1].report.fingerprint,
        "spec_id": spec.as_ref().map(FeatureSpec::spec_id),
        "map_id": fitted.map_id,
        "limits": by_name(&limits),
    });
    let report = stability::compared(&comparison, tables, spec.clone(), limits, job)?;
    job.check()?;
    if !is_safe(&report) {
        return reject(settings, report);
    }
    stage.begin(&inputs)?;
    let map = MapFile::new(&fitted, dates.clone());
    let options = |output: &Path| {
        let mut options = JobOptions { read: read.clone(), ..JobOptions::default() };
        options.write.existing = stage.resume(output).into();
        options
    };
    let aligned = Source::Path(stage.folder.join("vectors/vectors.parquet"));
    if let Some(path) = unfinished(&aligned)? {
        align::apply(&map, &input, &aligned, &options(&path), job)?;
    }
    if spec.is_some() {
        let output = Source::Path(stage.folder.join("features/features.parquet"));
        if let Some(path) = unfinished(&output)? {
            let mut options = options(&path);
            options.read = ReadOptions::default();
            let apply = Apply {
                input: stage.folder.join("vectors/vectors.parquet").into(),
                output: path.into(),
                spec: settings.spec.clone(),
                output_dim: None,
                options,
            };
            featurize::apply(&apply, job)?;
        }
    }
    job.check()?;
    map.save(&stage.folder.join("map.safetensors"))?;
    let map = MapReport {
        map_id: fitted.map_id,
        kind: fitted.kind,
        certificate: fitted.certificate,
        age_days: dates.as_ref().map(Dates::age_days),
    };
    write_report(&stage.folder, &report, Some(&map), &settings.command)?;
    let manifest = json!({
        "format": "veridical-refresh/1",
        "version": env!("CARGO_PKG_VERSION"),
        "job": inputs,
        "rows": { "reference": report.tables[0].sanity.rows, "new": report.tables[1].sanity.rows },
        "spec_id": spec.as_ref().map(FeatureSpec::spec_id),
        "map": map,
        "verdict": report.verdict,
        "passed": report.passed,
        "gates": report.gates,
        "measures": report.measures,
        "consumers": report.consumers,
        "seed": report.seed,
    });
    write_atomically(&stage.folder.join(MANIFEST), pretty(&manifest).as_bytes())?;
    stage.publish()?;
    let rows = report.tables[1].sanity.rows as u64;
    Ok(Refreshed {
        published: true,
        output: settings.out.to_string(),
        files: files(&settings.out),
        map: Some(map),
        rows,
        report,
    })
}

impl Refreshed {
    /// Returns an error, for exit code 1, if nothing was published.
    ///
    /// # Errors
    /// [`Error::GateFailed`] gives the reason.
    pub fn gate(&self) -> Result<()> {
        if self.published {
            return Ok(());
        }
        let why = match self.report.gate() {
            Err(error) => error.to_string(),
            Ok(()) => self.report.verdict.sentence.clone(),
        };
        let why = why.trim_end_matches('.');
        Err(Error::GateFailed(format!(
            "nothing was published: {why}; see {}/{REPORT}",
            self.output
        )))
    }
}

/// Returns whether all limits are met or, without limits, whether the verdict is safe.
fn is_safe(report: &StabilityReport) -> bool {
    report.passed.unwrap_or(report.verdict.treatment != "none")
}

/// Writes report and summary, next to an existing publication if there is one.
fn reject(settings: &Refresh, report: StabilityReport) -> Result<Refreshed> {
    let out = if settings.out.join(SUCCESS).exists() {
        with_suffix(&settings.out, "rejected")
    } else {
        settings.out.to_path_buf()
    };
    let stage = with_suffix(&out, "partial");
    let mut lock = lock(&out, &stage)?;
    remove(&stage)?;
    create(&stage)?;
    write_report(&stage, &report, None, &settings.command)?;
    lock.publish()?;
    Ok(Refreshed {
        published: false,
        output: out.display().to_string(),
        files: files(&out),
        map: None,
        rows: 0,
        report,
    })
}

fn write_report(
    folder: &Path,
    report: &StabilityReport,
    map: Option<&MapReport>,
    command: &str,
) -> Result<()> {
    let title = if map.is_some() { "Refresh: published" } else { "Refresh: not published" };
    let mut page = report.to_page(title, command);
    if let Some(map) = map {
        let c = &map.certificate;
        page = page.section("Published", "What consumers read from now on.").list([
            format!("Vectors aligned to the reference by the map {} ({}).", map.map_id, map.kind.name()),
            format!(
                "Certificate on {} ids the map was not fitted on: residual {:.4}, mean cosine {:.4}{}.",
                c.held_out,
                c.residual,
                c.mean_cosine,
                c.mean_cosine_before.map_or_else(String::new, |x| format!(" ({x:.4} before)")),
            ),
        ]);
    }
    write_atomically(&folder.join(REPORT), page.to_html().as_bytes())?;
    Ok(write_atomically(&folder.join(SUMMARY), report.to_markdown().as_bytes())?)
}

/// The working folder in which the output grows.
struct Stage<'a> {
    settings: &'a Refresh,
    folder: PathBuf,
    /// Held while anything is written.
    lock: Option<Lock>,
}

/// Locks `out`, which grows in `stage`.
fn lock(out: &Path, stage: &Path) -> Result<Lock> {
    if let Some(parent) = out.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create(parent)?;
    }
    Ok(Lock::acquire(out, stage)?)
}

impl<'a> Stage<'a> {
    /// Checks that nothing would be overwritten.
    fn open(settings: &'a Refresh) -> Result<Self> {
        let (out, folder) = (&settings.out, with_suffix(&settings.out, "partial"));
        let refused = |path: &Path, what: &str, hint: &str| {
            Err(Refused::exists(format!("{} {what}", path.display()), hint).into())
        };
        if out.to_str().is_some_and(|path| path.contains("://")) {
            let what =
                format!("{}: a refresh can only be published to a local folder", out.display());
            return Err(Refused::request(what, "copy it to the object store afterwards").into());
        }
        Lock::refuse_held(out)?;
        let ours = ["_SUCCESS", REPORT].iter().any(|file| out.join(file).is_file());
        match settings.existing.if_exists() {
            IfExists::Refuse if folder.exists() => refused(
                &folder,
                "holds an unfinished refresh",
                "continue it with ⟨resume⟩ or start over with ⟨force⟩",
            ),
            IfExists::Refuse if out.exists() => Err(publish::already(out).into()),
            IfExists::Force if out.exists() && !ours => {
                refused(out, "is not a refresh", "choose another name")
            }
            _ => Ok(Self { settings, folder, lock: None }),
        }
    }

    /// Creates the working folder, or resumes one of the same job.
    fn begin(&mut self, job: &Value) -> Result<()> {
        self.lock = Some(lock(&self.settings.out, &self.folder)?);
        if self.settings.existing.resume
            && let Some(before) = self.job()
        {
            let different = job.as_object().into_iter().flatten();
            let different = different.filter(|(key, value)| before.get(key) != Some(value));
            let keys: Vec<&str> = different.map(|(key, _)| key.as_str()).collect();
            if !keys.is_empty() {
                let (folder, keys) = (self.folder.display(), keys.join(", "));
                let what = format!("{folder} belongs to a different refresh: {keys} differ");
                return Err(Refused::exists(what, "start over with ⟨force⟩").into());
            }
            return Ok(());
        }
        remove(&self.folder)?;
        create(&self.folder.join("vectors"))?;
        if self.settings.spec.is_some() {
            create(&self.folder.join("features"))?;
        }
        Ok(write_atomically(&self.folder.join(JOB), pretty(job).as_bytes())?)
    }

    /// Returns the job the folder was created for; once finished, it is in the manifest.
    fn job(&self) -> Option<Value> {
        let read = |file: &str| {
            let bytes = fs::read(self.folder.join(file)).ok()?;
            serde_json::from_slice::<Value>(&bytes).ok()
        };
        read(JOB).or_else(|| read(MANIFEST)?.get("job").cloned())
    }

    /// Resumes a table that was started.
    fn resume(&self, output: &Path) -> IfExists {
        if with_suffix(output, "partial").exists() { IfExists::Resume } else { IfExists::Refuse }
    }

    /// Writes `_SUCCESS`, then renames. A kill right after a table is finished leaves its working folder behind.
    fn publish(&mut self) -> Result<()> {
        for table in ["vectors", "features"] {
            let file = format!("{table}.parquet");
            for entry in fs::read_dir(self.folder.join(table)).into_iter().flatten().flatten() {
                if entry.file_name() != *file {
                    remove(&entry.path())?;
                }
            }
        }
        let job = self.folder.join(JOB);
        if job.exists() {
            fs::remove_file(&job).map_err(|e| failed(&job, "cannot be removed", &e))?;
        }
        write_atomically(&self.folder.join(SUCCESS), b"")?;
        // INVARIANT: `begin` created and locked what is published.
        let lock = self.lock.as_mut().ok_or_else(|| Refused::Internal("no lock".into()))?;
        Ok(lock.publish()?)
    }
}

fn by_name(limits: &[Limit]) -> Value {
    let limits = limits.iter().map(|limit| (limit.kind.limit(), json!(limit.value)));
    Value::Object(limits.collect())
}

/// Returns the path of a table that does not exist yet.
fn unfinished(output: &Source) -> Result<Option<PathBuf>> {
    Ok(output.path().filter(|path| !path.exists()).map(Path::to_owned))
}

/// Appends a suffix: `OUT.partial` for `OUT`.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    let text = name.to_string_lossy();
    if text.len() > 1 && text.ends_with('/') {
        name = text.trim_end_matches('/').to_owned().into();
    }
    name.push(".");
    name.push(suffix);
    name.into()
}

fn failed(path: &Path, what: &str, error: &std::io::Error) -> Error {
    Refused::unfit(format!("{}: {what}: {error}", path.display()), "").into()
}

fn create(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|e| failed(folder, "cannot create the folder", &e))
}

/// Removes a folder, or the lock of a killed job.
fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(failed(path, "cannot be removed", &e))
        }
        _ => Ok(()),
    }
}

/// Returns the files below a folder, sorted by name.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { open.push(path) } else { found.push(path.display().to_string()) }
        }
    }
    found.sort();
    found
}

fn pretty(document: &Value) -> String {
    format!("{document:#}\n")
}
