//! `veridical refresh`: the daily job as one command that can be resumed.
//!
//! sanity, align, compare, gate, featurise, publish. Everything grows in `OUT.partial/` and appears by one rename, with
//! `_SUCCESS` written last. A gate that does not pass leaves the report and its summary alone:
//!
//! | file | what |
//! |---|---|
//! | `vectors/vectors.parquet` | today's vectors in the frame of the reference |
//! | `features/features.parquet` | their features, if there is a spec |
//! | `map.safetensors` | the map |
//! | `report.html`, `summary.md` | the comparison |
//! | `manifest.json` | fingerprints, ids of spec and map, every limit with value and interval |
//! | `_SUCCESS` | all of it is there |

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};
use veridical_core::interrupt;
use veridical_data::{Dtype, IfExists, Source, Table, write_atomically};
use veridical_features::FeatureSpec;

use crate::align::{self, Certificate, Dates, FitSettings, MapFile};
use crate::featurize::{self, Apply};
use crate::stability::{self, Loaded, Stability, StabilityReport};
use crate::{Error, JobOptions, Observer, Result};

const SUCCESS: &str = "_SUCCESS";
const JOB: &str = "job.json";
const REPORT: &str = "report.html";
const SUMMARY: &str = "summary.md";
const MANIFEST: &str = "manifest.json";

/// What is published, and under which limits.
#[derive(Clone, Debug)]
pub struct Refresh {
    /// The table whose frame is kept.
    pub reference: PathBuf,
    /// Today's table.
    pub new: PathBuf,
    /// Features to publish.
    pub spec: Option<FeatureSpec>,
    /// How the two are compared; its tables and spec are those above.
    pub comparison: Stability,
    /// How the map is fitted.
    pub fit: FitSettings,
    /// Days of reference and table, for the age of the map.
    pub dates: Option<Dates>,
    /// Accept a reference that is itself aligned to another.
    pub allow_chain: bool,
    /// The folder that appears.
    pub out: PathBuf,
    /// What to do about an earlier one.
    pub if_exists: IfExists,
    /// The command, for the foot of the report.
    pub command: String,
}

/// What was published.
#[derive(Clone, Debug, Serialize)]
pub struct Refreshed {
    /// Whether vectors were published.
    pub published: bool,
    /// The folder.
    pub output: String,
    /// Its files.
    pub files: Vec<String>,
    /// The map; none if nothing was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map: Option<MapReport>,
    /// Rows published.
    pub rows: u64,
    /// The comparison.
    #[serde(flatten)]
    pub report: StabilityReport,
}

/// The map of a refresh.
#[derive(Clone, Debug, Serialize)]
pub struct MapReport {
    /// Its name.
    pub map_id: String,
    /// Its kind.
    pub kind: align::MapKind,
    /// How good it is on ids it was not fitted on.
    pub certificate: Certificate,
    /// Days between reference and table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_days: Option<i64>,
}

/// Compares, and publishes if the gate passes.
///
/// # Errors
/// As [`stability::stability`] and [`align::fit`]. A gate that does not pass is no error here: see
/// [`Refreshed::gate`].
pub fn refresh(settings: &Refresh, observer: &dyn Observer) -> Result<Refreshed> {
    let stage = Stage::open(settings)?;
    let read = &settings.comparison.read;
    let source = Source::Path(settings.reference.clone());
    let reference = align::load_reference(&source, read, settings.allow_chain, observer)?;
    let new = Table::load(&Source::Path(settings.new.clone()), read)?;
    let names = [&settings.reference, &settings.new].map(|path| path.display().to_string());
    let fit = FitSettings { names: names.clone(), ..settings.fit.clone() };
    stability::check_limits(&settings.comparison, 2)?;
    let fitted = align::fit(&reference, &new, &fit)?;
    let [first, second] = names;
    let tables =
        vec![Loaded::new(first, reference, observer)?, Loaded::new(second, new, observer)?];
    let job = json!({
        "reference": tables[0].report.fingerprint,
        "new": tables[1].report.fingerprint,
        "spec_id": settings.spec.as_ref().map(FeatureSpec::spec_id),
        "map_id": fitted.map_id,
        "limits": limits(&settings.comparison),
    });
    let comparison = Stability { spec: settings.spec.clone(), ..settings.comparison.clone() };
    let report = stability::compared(&comparison, tables, observer)?;
    interrupt::check()?;
    if !is_safe(&report) {
        return reject(settings, report);
    }
    stage.begin(&job)?;
    let map = MapFile::new(&fitted, settings.dates.clone());
    let options = |output: &Path| {
        let mut options = JobOptions { read: read.clone(), ..JobOptions::default() };
        options.write.if_exists = stage.resume(output);
        options
    };
    let aligned = Source::Path(stage.folder.join("vectors/vectors.parquet"));
    if let Some(path) = unfinished(&aligned)? {
        let input = Source::Path(settings.new.clone());
        align::apply(&map, &input, &aligned, Dtype::F32, &options(&path), observer)?;
    }
    if let Some(spec) = &settings.spec {
        let output = Source::Path(stage.folder.join("features/features.parquet"));
        if let Some(path) = unfinished(&output)? {
            let mut options = options(&path);
            options.read = veridical_data::ReadOptions::default();
            let apply = Apply {
                input: aligned.clone(),
                output,
                spec: Some(spec.clone()),
                output_dim: None,
                dtype: Dtype::F32,
                options,
            };
            featurize::apply(&apply, observer)?;
        }
    }
    interrupt::check()?;
    map.save(&stage.folder.join("map.safetensors"))?;
    let map = MapReport {
        map_id: fitted.map_id,
        kind: fitted.kind,
        certificate: fitted.certificate,
        age_days: settings.dates.as_ref().map(Dates::age_days),
    };
    write_report(&stage.folder, &report, Some(&map), &settings.command)?;
    let manifest = json!({
        "format": "veridical-refresh/1",
        "version": env!("CARGO_PKG_VERSION"),
        "job": job,
        "rows": { "reference": report.tables[0].sanity.rows, "new": report.tables[1].sanity.rows },
        "spec_id": settings.spec.as_ref().map(FeatureSpec::spec_id),
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
        output: settings.out.display().to_string(),
        files: files(&settings.out),
        map: Some(map),
        rows,
        report,
    })
}

impl Refreshed {
    /// The error that ends the command with exit code 1 if nothing was published.
    ///
    /// # Errors
    /// [`Error::GateFailed`] says why.
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

/// With limits they decide; without any, what the verdict says.
fn is_safe(report: &StabilityReport) -> bool {
    report.passed.unwrap_or(report.verdict.treatment != "none")
}

/// Report and summary, beside an earlier publication if there is one.
fn reject(settings: &Refresh, report: StabilityReport) -> Result<Refreshed> {
    let out = if settings.out.join(SUCCESS).exists() {
        with_ending(&settings.out, "rejected")
    } else {
        settings.out.clone()
    };
    let stage = with_ending(&out, "partial");
    remove(&stage)?;
    create(&stage)?;
    write_report(&stage, &report, None, &settings.command)?;
    remove(&out)?;
    rename(&stage, &out)?;
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
        page = page.section("Published", "What consumers read now.").list([
            format!("Vectors in the frame of the reference, by the map {} ({}).", map.map_id, map.kind.name()),
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

/// Where the output grows.
struct Stage<'a> {
    settings: &'a Refresh,
    folder: PathBuf,
}

impl<'a> Stage<'a> {
    /// Refuses what would overwrite something.
    fn open(settings: &'a Refresh) -> Result<Self> {
        let (out, folder) = (&settings.out, with_ending(&settings.out, "partial"));
        let refused = |what: String| Err(Error::Usage(what));
        if out.to_str().is_some_and(|path| path.contains("://")) {
            let what = "a refresh is published to a local folder; copy it to the store afterwards";
            return refused(format!("{}: {what}", out.display()));
        }
        let ours = ["_SUCCESS", REPORT].iter().any(|file| out.join(file).is_file());
        match settings.if_exists {
            IfExists::Refuse if folder.exists() => refused(format!(
                "{} holds an unfinished refresh; continue it with --resume or start over with --force",
                folder.display()
            )),
            IfExists::Refuse if out.exists() => refused(format!(
                "{} exists already; choose another name or replace it with --force",
                out.display()
            )),
            IfExists::Force if out.exists() && !ours => {
                refused(format!("{} is not a refresh; choose another name", out.display()))
            }
            _ => Ok(Self { settings, folder }),
        }
    }

    /// Starts the folder, or takes up one of the same job.
    fn begin(&self, job: &Value) -> Result<()> {
        if self.settings.if_exists == IfExists::Resume
            && let Some(before) = self.job()
        {
            let different = job.as_object().into_iter().flatten();
            let different = different.filter(|(key, value)| before.get(key) != Some(value));
            let keys: Vec<&str> = different.map(|(key, _)| key.as_str()).collect();
            if !keys.is_empty() {
                return Err(Error::Usage(format!(
                    "{} is of another refresh: {} differ; start over with --force",
                    self.folder.display(),
                    keys.join(", ")
                )));
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

    /// What the folder was begun for; at the end the manifest says it.
    fn job(&self) -> Option<Value> {
        let read = |file: &str| {
            let bytes = fs::read(self.folder.join(file)).ok()?;
            serde_json::from_slice::<Value>(&bytes).ok()
        };
        read(JOB).or_else(|| read(MANIFEST)?.get("job").cloned())
    }

    /// A table that was begun is gone on with.
    fn resume(&self, output: &Path) -> IfExists {
        if with_ending(output, "partial").exists() { IfExists::Resume } else { IfExists::Refuse }
    }

    /// `_SUCCESS`, then the rename. A kill right after a table was finished leaves its working folder behind.
    fn publish(&self) -> Result<()> {
        let out = &self.settings.out;
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
        let before = with_ending(out, "before");
        remove(&before)?;
        if out.exists() {
            rename(out, &before)?;
        }
        rename(&self.folder, out)?;
        remove(&before)
    }
}

/// The limits of a comparison by name.
fn limits(comparison: &Stability) -> Value {
    let limits = comparison.limits.iter().map(|limit| (limit.kind.limit(), json!(limit.value)));
    Value::Object(limits.collect())
}

/// The path of a table that is not there yet.
fn unfinished(output: &Source) -> Result<Option<PathBuf>> {
    Ok(output.path().filter(|path| !path.exists()).map(Path::to_owned))
}

/// `OUT.partial` for `OUT`.
fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    let text = name.to_string_lossy();
    if text.len() > 1 && text.ends_with('/') {
        name = text.trim_end_matches('/').to_owned().into();
    }
    name.push(".");
    name.push(ending);
    name.into()
}

fn failed(path: &Path, what: &str, error: &std::io::Error) -> Error {
    Error::Usage(format!("{}: {what}: {error}", path.display()))
}

fn create(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|e| failed(folder, "cannot create the folder", &e))
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(failed(folder, "cannot be removed", &e))
        }
        _ => Ok(()),
    }
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to)
        .map_err(|e| failed(from, &format!("cannot be renamed to {}", to.display()), &e))
}

/// The files below a folder, by name.
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
