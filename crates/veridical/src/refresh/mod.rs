//! `veridical refresh`: the daily job as one resumable command.
//!
//! Steps: sanity checks, align, compare, gate, featurize, publish, remember. A version grows in `OUT/<version>.partial/`, appears
//! by one rename, and becomes current by another; the layout of `OUT` is that of [`veridical_io::publications`]. If the gate
//! fails, only `OUT/<version>.rejected/` is written, with the report, and the current version stays:
//!
//! | file of a version | content |
//! |---|---|
//! | `vectors/` | today's vectors in the coordinate frame of the reference |
//! | `features/` | features of the vectors as published, if a spec was given |
//! | `map.safetensors` | the alignment map |
//! | `report.html`, `summary.md`, `metrics.prom` | the stability report, for people, tickets and monitoring |
//! | `outliers.csv` | the ids that moved alone, worst first |
//! | `manifest.json` | version, frame, ids of spec and map, every limit, measure and file |
//! | `_SUCCESS` | marks the folder as complete |

mod history;
mod hooks;
mod init;
mod manage;
mod page;
mod place;

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value, json};
use veridical_core::settings::{Settings as _, TimeLimit};
use veridical_core::{Job, settings};
use veridical_data::Window;
use veridical_features::FeatureSpec;
use veridical_inspect::{Limit, Measure};
use veridical_io::publications::{FORMAT, FileEntry, MANIFEST, Manifest, SUCCESS};
use veridical_io::shared::SharedTable;
use veridical_io::{
    Input, Output, ReadOptions, Source, TableReader, WriteOptions, publish, write_atomically,
};
use veridical_learn::LinearMap;

pub use self::history::{Accepted, History, HistoryOf, MeasureTrend, Point, history};
pub use self::hooks::HookReport;
pub use self::init::{Init, Initialized, init};
pub use self::manage::{
    ListVersions, Listed, RollBack, RolledBack, Verified, VerifyVersion, Versions, list, rollback,
    verify,
};
use self::place::{Place, Step};
use crate::align::{
    self, AnchorFiles, Certificate, DateSettings, Dates, FitSettings, Fitted, Fitting, MapChoice,
    MapFile, Names,
};
use crate::featurize::{self, Apply};
use crate::settings::{Resources, TableIds};
use crate::stability::{
    self, EvidenceFiles, Labels, Limits, Reader, Settings, Stability, StabilityOutput,
    StabilityReport,
};
use crate::{Error, JobOptions, Result};

const REPORT: &str = "report.html";
const SUMMARY: &str = "summary.md";
const METRICS: &str = "metrics.prom";
const OUTLIERS: &str = "outliers.csv";
const VECTORS: &str = "vectors";
const FEATURES: &str = "features";

settings! {
    /// Settings of [`refresh`].
    pub struct Refresh {
        /// Reference table or run folder, the same every day
        pub reference: Input = Input::default() => [required(), value("TABLE")],
        /// Today's table or run folder
        pub new: Input = Input::default() => [required(), value("TABLE")],
        /// Folder to publish to: versions, of which one is current
        pub out: Output = Output::default() => [required(), value("FOLDER")],
        /// Versions to keep; the current one and the one before it are never removed
        pub keep: usize = 7 => [at_least(1.0)],
        /// Shell command to run after a publication, with the summary on stdin
        pub on_publish: Option<String> = None => [value("CMD"), dashes()],
        /// Shell command to run after a rejection, with the summary on stdin
        pub on_reject: Option<String> = None => [value("CMD"), dashes()],
        /// Time limit of these commands
        pub hook_time: TimeLimit = TimeLimit::seconds(60) => [detail(), value("TIME")],
        /// Publish on the verdict alone, without limits or a noise floor
        pub without_limits: bool = false => [switch(), heading("Limits (exit code 1 if one is not met)")],
        /// Accept a reference that is itself aligned to another table
        pub allow_chain: bool = false => [detail(), switch()],
    } with {
        /// Date of the table, which names the version, and of the reference.
        pub dates: DateSettings,
        /// What is read besides the tables.
        pub evidence: EvidenceFiles,
        /// Limits to meet.
        pub limits: Limits,
        /// How tables are compared.
        pub compare: Settings,
        /// Which ids the map is fitted on.
        pub anchors: AnchorFiles,
        /// The kind of map.
        pub map: MapChoice,
        /// Which files name the rows of which table.
        pub table_ids: TableIds,
        /// How tables are read.
        pub read: ReadOptions,
        /// How vectors and features are written.
        pub write: WriteOptions,
        /// Memory and disk.
        pub resources: Resources,
    } besides {
        /// The command line, for the footer of the report.
        pub command: String,
    }
}

settings! {
    /// Settings of `veridical refresh`: the job, and where its report is written besides.
    pub struct RefreshTables {
    } with {
        /// Settings of the job.
        pub job: Refresh,
        /// Where the comparison is written.
        pub output: StabilityOutput,
    }
}

impl Refresh {
    /// Returns the settings of the comparison.
    fn comparison(&self) -> Stability {
        Stability {
            tables: vec![self.reference.clone(), self.new.clone()],
            evidence: self.evidence.clone(),
            settings: self.compare.clone(),
            read: self.read.clone(),
            resources: self.resources.clone(),
            ..Stability::default()
        }
    }

    /// Rejects a job that nothing could stop: a verdict by fixed thresholds does not know this table.
    fn refuse_no_limits(&self, limits: &[Limit]) -> Result<()> {
        let floor = !self.evidence.noise_floor.is_empty();
        if self.without_limits || floor || !limits.is_empty() {
            return Ok(());
        }
        Err(Error::request(
            "there are no limits that this table must meet: pass ⟨budget⟩, single limits or ⟨noise-floor⟩",
            "`veridical refresh init` makes a budget, from retrained runs if there are any; ⟨without-limits⟩ publishes on the \
             verdict alone",
        ))
    }

    fn fitting(&self) -> Result<FitSettings> {
        Ok(FitSettings {
            map: self.map.clone(),
            names: Names([&self.reference, &self.new].map(ToString::to_string)),
            seed: self.compare.samples.seed()?.get(),
            which: self.anchors.read()?,
        })
    }
}

/// Result of [`refresh`].
#[derive(Clone, Debug, Serialize)]
pub struct Refreshed {
    /// Whether vectors were published.
    pub published: bool,
    /// The version: the date, or a number.
    pub version: String,
    /// Folder of all versions.
    pub out: String,
    /// Folder of this version, or of the report on its rejection.
    pub folder: String,
    /// Files in that folder.
    pub files: Vec<String>,
    /// The alignment map.
    pub map: MapReport,
    /// Number of rows published.
    pub rows: u64,
    /// The comparison with the version that was current before; `None` on the first day.
    pub yesterday: Option<Yesterday>,
    /// Versions that were removed.
    pub removed: Vec<String>,
    /// Outcome of the command to run afterwards; `None` if there was none.
    pub hook: Option<HookReport>,
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

/// Comparison with the version that was current before.
#[derive(Clone, Debug, Serialize)]
pub struct Yesterday {
    /// That version.
    pub version: String,
    /// The measures, with that version as reference.
    pub measures: Vec<Measure>,
}

/// Everything that is known of today's table before it is published or rejected.
struct Today {
    version: String,
    date: Option<String>,
    spec: Option<FeatureSpec>,
    fitted: Fitted,
    dates: Option<Dates>,
    yesterday: Option<Yesterday>,
    report: StabilityReport,
    /// Identifies the job: it is resumed only if this is the same.
    job: Value,
    /// The state of today's files before they were read.
    read: Vec<String>,
}

/// Compares today's vectors with the reference, and publishes them if the gate passes.
///
/// # Errors
/// As [`stability::stability`] and [`align::fit`]; [`veridical_core::Error::Exists`] if the version exists, another job is
/// publishing, or the folder has another frame. A failed gate is not an error here: see [`Refreshed::gate`].
pub fn refresh(settings: &Refresh, job: &Job<'_>) -> Result<Refreshed> {
    settings.check()?;
    let limits = settings.limits.read()?;
    settings.refuse_no_limits(&limits)?;
    let mut place = Place::open(settings, job)?;
    let mut today = today(settings, limits, &place, job)?;
    job.check()?;
    let published = today.report.verdict.is_safe();
    let sentence = &mut today.report.0.verdict.sentence;
    *sentence = format!("{}{sentence}", outcome(published));
    let (manifest, removed) = match published {
        true => publish(settings, &mut place, &today, job)?,
        false => reject(settings, &mut place, &today, job)?,
    };
    let folder = place.shown(published);
    let out = place.root().display().to_string();
    drop(place); // a command that takes long does not block the next job
    let mut refreshed = Refreshed {
        published,
        out,
        files: manifest.files.iter().map(|file| format!("{folder}/{}", file.path)).collect(),
        folder,
        rows: if published { manifest.rows } else { 0 },
        map: today.map(),
        version: today.version,
        yesterday: today.yesterday,
        removed,
        hook: None,
        report: today.report,
    };
    refreshed.hook = hooks::run(settings, &refreshed, job);
    Ok(refreshed)
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
            Ok(()) => {
                let limits = self.report.verdict.deciding_limits().join("; ");
                let sentence = self.report.verdict.sentence.trim_start_matches(outcome(false));
                format!("{sentence} To accept it, set a limit: {limits}")
            }
        };
        let why = why.trim_end_matches('.');
        let folder = &self.folder;
        Err(Error::GateFailed(format!("nothing was published: {why}; see {folder}/{REPORT}")))
    }

    /// Says in one line what happened.
    pub fn headline(&self) -> String {
        headline(&self.version, self.published)
    }

    /// Formats the comparison for a terminal.
    pub fn to_text(&self) -> String {
        self.report.to_text_for(Reader::Refreshes)
    }

    /// Formats the outcome as Markdown, in six to twelve lines.
    pub fn to_markdown(&self) -> String {
        self.report.to_markdown_under(&self.headline(), Reader::Refreshes)
    }

    /// Formats the outcome as Prometheus gauges.
    pub fn to_prometheus(&self) -> String {
        metrics(&self.report, &self.version, self.published, self.rows)
    }

    /// Renders the report as an HTML page; `command` is the command line shown in the footer.
    pub fn to_html(&self, command: &str) -> String {
        let page = page::Outcome {
            version: &self.version,
            published: self.published,
            map: &self.map,
            yesterday: self.yesterday.as_ref(),
            report: &self.report,
        };
        page.to_html(command)
    }
}

/// Returns the date that names a version; a number is none.
fn date_of(version: &str) -> Option<&str> {
    version.contains('-').then_some(version)
}

/// The first sentence of the verdict of a refresh.
const fn outcome(published: bool) -> &'static str {
    if published { "Published. " } else { "Not published. " }
}

fn headline(version: &str, published: bool) -> String {
    let word = if published { "published" } else { "NOT published" };
    format!("Veridical refresh {version}: {word}.")
}

fn metrics(report: &StabilityReport, version: &str, published: bool, rows: u64) -> String {
    let labels = Labels::of(report, Some(version));
    let mut text = report.to_prometheus_for(&labels);
    labels.gauge(
        &mut text,
        "veridical_refresh_published",
        "whether the table was published",
        &[],
        f64::from(u8::from(published)),
    );
    labels.gauge(&mut text, "veridical_refresh_rows", "number of rows published", &[], rows as f64);
    text
}

/// Reads, aligns and compares.
fn today(settings: &Refresh, limits: Vec<Limit>, place: &Place, job: &Job<'_>) -> Result<Today> {
    let dates = settings.dates.get()?;
    let spec = settings.evidence.spec.as_deref().map(featurize::load_spec).transpose()?;
    let comparison = settings.comparison();
    stability::check_limits(&comparison, &limits, 2)?;
    let read = table_state(settings)?;
    align::refuse_chain(&settings.reference.source(), &settings.read, settings.allow_chain)?;
    let tables = [&settings.reference, &settings.new]
        .into_iter()
        .enumerate()
        .map(|(i, path)| {
            stability::table(&path.source(), &settings.table_ids, &settings.read, (i, 2))
        })
        .collect::<Result<Vec<_>>>()?;
    let new = tables[1].clone();
    let shared = stability::share(tables, &settings.resources, job)?;
    let fitting = settings.fitting()?;
    if shared.rows.n() == 0 {
        let examples = [shared.examples[0].clone(), shared.examples[1].clone()];
        return Err(align::nothing_shared(&fitting.names.0, examples).into());
    }
    place.refuse_other_frame(&shared.reports[0].fingerprint)?;
    let mut fitting = Fitting::new(&*shared.rows, &fitting)?;
    let fingerprints = [0, 1].map(|table| shared.reports[table].fingerprint.clone());
    let raw = &mut |window: Window<'_>| fitting.add(window);
    let limited = by_name(&limits);
    let today = Some(new.clone());
    let report = stability::compared(&comparison, shared, today, spec.clone(), limits, raw, job)?;
    let fitted = fitting.finish(&fingerprints[0], job)?;
    let inputs = json!({
        "reference": fingerprints[0],
        "new": fingerprints[1],
        "spec_id": spec.as_ref().map(FeatureSpec::spec_id),
        "map_id": fitted.map_id,
        "limits": limited,
        "previous": place.previous(),
        "write": settings.write.describe(),
        "dtype": settings.write.dtype.name(),
        "keep_columns": settings.write.keep_columns,
    });
    let yesterday = match place.previous() {
        Some(version) => yesterday(settings, place, version, new, &fitted.map, job)?,
        None => None,
    };
    let (version, date) = (place.version().to_owned(), settings.dates.day()?);
    Ok(Today { version, date, spec, fitted, dates, yesterday, report, job: inputs, read })
}

/// The state of today's files: what is published must be what was compared.
fn table_state(settings: &Refresh) -> Result<Vec<String>> {
    let files = TableReader::files(&settings.new.source(), &settings.read)?;
    let state = |file: &PathBuf| {
        let modified = std::fs::metadata(file).and_then(|found| found.modified()).ok();
        Ok(format!("{} {modified:?}", veridical_io::fingerprint::of_file(file)?))
    };
    files.iter().map(state).collect()
}

/// Compares today's aligned vectors with those of the version before.
fn yesterday(
    settings: &Refresh,
    place: &Place,
    version: &str,
    new: SharedTable,
    map: &LinearMap,
    job: &Job<'_>,
) -> Result<Option<Yesterday>> {
    let folder = place.folder_of(version).join(VECTORS);
    let skipped = |why: &str| {
        job.warn(&format!("no comparison with version {version}: {why}"));
        Ok(None)
    };
    let quiet = job.quiet();
    let source = Source::Path(folder);
    let before = stability::table(&source, &TableIds::default(), &ReadOptions::default(), (0, 1))
        .map(|table| SharedTable { name: version.to_owned(), ..table });
    let shared = before.and_then(|before| {
        let new = SharedTable { name: place.version().to_owned(), ..new };
        stability::share_mapped(vec![before, new], Some(map), &settings.resources, &quiet)
    });
    let shared = match shared {
        Ok(shared) if shared.rows.same_width() => shared,
        Ok(shared) => return skipped(&format!("it has dimension {}", shared.rows.dims()[0])),
        Err(error) if error.is_interrupted() => return Err(error),
        Err(error) => return skipped(&error.to_string()),
    };
    let request = Stability { settings: settings.compare.clone(), ..Stability::default() };
    match stability::compared(&request, shared, None, None, Vec::new(), &mut |_| (), &quiet) {
        Ok(report) => {
            Ok(Some(Yesterday { version: version.to_owned(), measures: report.0.measures }))
        }
        Err(error) if error.is_interrupted() => Err(error),
        Err(error) => skipped(&error.to_string()),
    }
}

impl Today {
    fn map(&self) -> MapReport {
        MapReport {
            map_id: self.fitted.map_id.clone(),
            kind: self.fitted.kind,
            certificate: self.fitted.certificate.clone(),
            age_days: self.dates.as_ref().map(Dates::age_days),
        }
    }

    /// The manifest of a version whose other files are all in `folder`.
    fn manifest(
        &self,
        settings: &Refresh,
        place: &Place,
        published: bool,
        folder: &Path,
    ) -> Result<Manifest> {
        let report = &self.report;
        let mut details = Map::new();
        for (name, value) in [
            ("job", self.job.clone()),
            ("map", json!(self.map())),
            ("verdict", json!(report.verdict)),
            ("measures", json!(report.measures)),
            ("yesterday", json!(self.yesterday)),
            ("consumers", json!(report.consumers)),
            ("tables", json!(report.tables)),
            ("seed", json!(report.seed)),
            ("software", json!(env!("CARGO_PKG_VERSION"))),
        ] {
            details.insert(name.to_owned(), value);
        }
        Ok(Manifest {
            format: FORMAT.to_owned(),
            version: self.version.clone(),
            date: self.date.clone(),
            published,
            sequence: place.sequence(published),
            previous: place.previous().map(str::to_owned),
            frame: self.fitted.reference.clone(),
            rows: report.tables[1].sanity.rows as u64,
            dim: self.fitted.map.output_dim() as u64,
            dtype: settings.write.dtype.name().to_owned(),
            spec_id: self.spec.as_ref().map(|spec| spec.spec_id().to_owned()),
            map_id: Some(self.fitted.map_id.clone()),
            passed: report.passed,
            gates: json!(report.gates),
            files: FileEntry::all_of(folder)?,
            details,
        })
    }

    /// Writes what people and monitoring read.
    fn write_report(&self, folder: &Path, published: bool, command: &str) -> Result<()> {
        let page = page::Outcome {
            version: &self.version,
            published,
            map: &self.map(),
            yesterday: self.yesterday.as_ref(),
            report: &self.report,
        };
        let rows = if published { self.report.tables[1].sanity.rows as u64 } else { 0 };
        let metrics = metrics(&self.report, &self.version, published, rows);
        let headline = headline(&self.version, published);
        let summary = self.report.to_markdown_under(&headline, Reader::Refreshes);
        write_atomically(&folder.join(REPORT), page.to_html(command).as_bytes())?;
        write_atomically(&folder.join(SUMMARY), summary.as_bytes())?;
        self.report.write_outliers(&folder.join(OUTLIERS))?;
        Ok(write_atomically(&folder.join(METRICS), metrics.as_bytes())?)
    }
}

/// Writes the version and makes it current. Every step may be repeated by a job that resumes this one.
fn publish(
    settings: &Refresh,
    place: &mut Place,
    today: &Today,
    job: &Job<'_>,
) -> Result<(Manifest, Vec<String>)> {
    if place.begin(&today.job)? == Step::Write {
        let folder = place.stage().to_owned();
        let map = MapFile::new(&today.fitted, today.dates.clone());
        let written = write_tables(settings, place, today, &map, job);
        let written = written.and_then(|()| {
            let what = format!("{} changed while the job ran", settings.new);
            match table_state(settings)? == today.read {
                true => Ok(()),
                false => Err(Error::unfit(what, "run it again when the table is complete")),
            }
        });
        written.inspect_err(|error| {
            let is_resumable = matches!(error, Error::Io(e) if e.is_resumable());
            if !is_resumable && !error.is_interrupted() {
                place.abandon();
            }
        })?;
        job.check()?;
        map.save(&folder.join("map.safetensors"))?;
        today.write_report(&folder, true, &settings.command)?;
        place.tidy()?;
        let manifest = today.manifest(settings, place, true, &folder)?;
        write_atomically(&folder.join(MANIFEST), &manifest.to_bytes())?;
        veridical_io::publications::verify(&folder)?;
        write_atomically(&folder.join(SUCCESS), b"")?;
        place.appear(&job.cancel)?;
    }
    place.complete(settings.keep)
}

/// Writes vectors and features into the folder of the version.
fn write_tables(
    settings: &Refresh,
    place: &Place,
    today: &Today,
    map: &MapFile,
    job: &Job<'_>,
) -> Result<()> {
    let options = |output: &Path, read: &ReadOptions| {
        let mut options = JobOptions { read: read.clone(), write: settings.write.clone() };
        options.write.staging = None;
        options.write.existing = Place::resumed(output).into();
        options
    };
    let vectors = place.table(VECTORS, settings.write.rows_per_part.is_some())?;
    if !vectors.exists() {
        let (new, output) = (settings.new.source(), Source::Path(vectors.clone()));
        let read = settings.table_ids.reading(&new, &settings.read, (1, 2))?;
        align::apply(map, &new, &output, &options(&vectors, &read), job)?;
    }
    if today.spec.is_none() {
        return Ok(());
    }
    let features = place.table(FEATURES, settings.write.rows_per_part.is_some())?;
    if features.exists() {
        return Ok(());
    }
    let apply = Apply {
        input: vectors.as_path().into(),
        output: features.as_path().into(),
        spec: settings.evidence.spec.clone(),
        output_dim: None,
        options: options(&features, &ReadOptions::default()),
    };
    featurize::apply(&apply, job)?;
    Ok(())
}

/// Writes the report on a version that is not published.
fn reject(
    settings: &Refresh,
    place: &mut Place,
    today: &Today,
    job: &Job<'_>,
) -> Result<(Manifest, Vec<String>)> {
    let mut rejected = None;
    publish::folder::<Error>(&place.rejected(), |folder| {
        today.write_report(folder, false, &settings.command)?;
        let manifest = today.manifest(settings, place, false, folder)?;
        write_atomically(&folder.join(MANIFEST), &manifest.to_bytes())?;
        rejected = Some(manifest);
        Ok(())
    })?;
    // INVARIANT: the folder was written, and the manifest with it.
    let manifest = rejected.ok_or_else(|| veridical_core::Error::Internal("no manifest".into()))?;
    place.complete_rejection(&manifest, &job.cancel)?;
    Ok((manifest, Vec::new()))
}

fn by_name(limits: &[Limit]) -> Value {
    let limits = limits.iter().map(|limit| (limit.kind.limit(), json!(limit.value)));
    Value::Object(limits.collect())
}
