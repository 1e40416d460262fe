//! `veridical stability`: is today's refresh safe to ship?
//!
//! Two or more tables over the same ids are joined and compared: sanity, coordinates, geometry, nearest neighbors,
//! downstream models, consumers. A noise floor, from runs on identical data, is shown next to every number; a budget of
//! limits turns the comparison into a gate.

mod budget;
mod consumers;
mod limits;
mod outliers;
mod page;
mod tables;
mod text;

use std::collections::HashMap;
use std::ops::Deref;
use std::path::Path;

use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Error as Refused, Job, settings};
use veridical_data::{Cell, Passes, Window};
use veridical_features::FeatureSpec;
pub use veridical_inspect::stability::{
    ChangedItem, KernelReport, NamedId, NamedTable, NewIds, Report, Samples, Settings, TableReport,
};
use veridical_inspect::stability::{Evidence, Joined, assess_with};
use veridical_inspect::{Labeled, Limit};
use veridical_io::shared::SharedTable;
use veridical_io::{
    ColumnMap, IdFiles, Input, LabelOptions, Output, ReadOptions, RecordOptions, Replace, publish,
    read_names, read_weights,
};

pub use self::budget::read_budget;
pub(crate) use self::consumers::files_of_consumers;
pub use self::limits::Limits;
pub(crate) use self::tables::{Shared, share, share_mapped, table};
use self::tables::{expand, tables_of};
pub(crate) use self::text::{Labels, Reader, with_interval};
use crate::refresh::Accepted;
use crate::settings::Resources;
use crate::{Error, Result, featurize};

settings! {
    /// What a comparison reads besides the tables.
    pub struct EvidenceFiles {
        /// Runs on identical data (or past days): their differences are shown next to every number
        pub noise_floor: Vec<Input> = Vec::new() => [value("RUN"), at_once()],
        /// Class labels of ids, to compare downstream classifiers
        pub labels: Option<Input> = None,
        /// Column with the labels, by name or number
        pub label_column: Option<String> = None
            => [detail(), needs(&["labels"]), otherwise("`class`, `label`, `genres`, .. or the last")],
        /// Character encoding of labels and names
        pub label_encoding: Option<String> = None => [detail(), otherwise("utf-8")],
        /// Drop classes with fewer ids than folds
        pub drop_rare_classes: bool = false => [detail(), switch(), needs(&["labels"])],
        /// Names of ids: MovieLens `::`, CSV, TSV or Parquet
        pub names: Option<Input> = None => [detail()],
        /// Weights of ids (columns id, weight): heavy ids are sampled more often and reported first
        pub weights: Option<Input> = None => [detail()],
        /// Feature spec used by consumers; `refresh` publishes its features of the aligned vectors
        pub spec: Option<Input> = None => [otherwise("gaussian, median length scale")],
        /// Downstream models: TOML list of `consumer` with name, table, queries, labels
        pub consumers: Option<Input> = None,
    }
}

settings! {
    /// Settings of [`stability`].
    pub struct Stability {
        /// Two or more vector tables, run folders or ensembles; the first is the reference
        pub tables: Vec<Input> = Vec::new() => [positional(), required(), value("TABLE")],
    } with {
        /// What is read besides the tables.
        pub evidence: EvidenceFiles,
        /// How tables are compared.
        pub settings: Settings,
        /// Limits to meet.
        pub limits: Limits,
        /// How tables are read.
        pub read: ReadOptions,
        /// Memory and disk.
        pub resources: Resources,
    }
}

settings! {
    /// Where the comparison is written.
    pub struct StabilityOutput in "Output" {
        /// HTML report to write (one self-contained page)
        pub html: Option<Output> = None,
        /// Markdown summary of six to twelve lines, to stdout or to a file
        pub markdown: Option<Output> = None => [bare("-")],
        /// Prometheus gauges, to stdout or to a file
        pub prometheus: Option<Output> = None => [bare("-")],
        /// Table of the ids that moved alone, worst first: .csv, .tsv, .jsonl, .parquet or .arrow
        pub outliers: Option<Output> = None => [detail()],
    }
}

impl StabilityOutput {
    /// Rejects two results on stdout; `with_json` if the result is printed as JSON.
    ///
    /// # Errors
    /// [`Error::Core`] names the settings.
    pub fn check(&self, with_json: bool) -> Result<()> {
        let is_stdout = |path: &Option<Output>| path.as_deref() == Some(Path::new("-"));
        let named = [
            ("⟨json⟩", with_json),
            ("⟨markdown⟩", is_stdout(&self.markdown)),
            ("⟨prometheus⟩", is_stdout(&self.prometheus)),
        ];
        let named: Vec<&str> = named.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
        match named.as_slice() {
            [first, second, ..] => {
                let what = format!("{first} and {second} both go to stdout");
                Err(Error::request(what, "write one of them to a file"))
            }
            _ => Ok(()),
        }
    }
}

settings! {
    /// Settings of `veridical stability`: comparison and output.
    pub struct CompareTables {
    } with {
        /// Settings of the comparison.
        pub tables: Stability,
        /// Where the comparison is written.
        pub output: StabilityOutput,
        /// Whether files that are not reports are replaced.
        pub replace: Replace,
    }
}

settings! {
    /// Settings of [`propose_budget`].
    pub struct ProposeBudget {
        /// Three or more runs on identical data: an ensemble, or its seeds
        pub runs: Vec<Input> = Vec::new() => [positional(), value("RUN"), excludes(&["from-history"])],
        /// Folder of publications: propose limits from its published days instead
        pub from_history: Option<Input> = None => [value("FOLDER"), root()],
        /// Budget file to write
        pub out: Option<Output> = None => [otherwise("stdout")],
        /// Weights of ids (columns id, weight): heavy ids are sampled more often
        pub weights: Option<Input> = None,
    } with {
        /// Whether an existing budget is replaced.
        pub replace: Replace,
        /// Sample sizes.
        pub samples: Samples,
        /// How tables are read.
        pub read: ReadOptions,
        /// Memory and disk.
        pub resources: Resources,
    }
}

/// Limits proposed from runs on identical data.
#[derive(Clone, Debug)]
pub struct ProposedBudget {
    /// The proposed limits.
    pub limits: Vec<Limit>,
    /// Text of the budget file.
    pub text: String,
}

/// Proposes limits from runs on identical data, and writes them if an output file is given.
///
/// # Errors
/// As [`stability`], fewer than three runs, and an existing file unless it may be replaced.
pub fn propose_budget(settings: &ProposeBudget, job: &Job<'_>) -> Result<ProposedBudget> {
    if let Some(out) = &settings.out {
        publish::check_new(out, settings.replace.force)?;
    }
    if let Some(history) = &settings.from_history {
        let accepted = Accepted::of(history)?;
        let text = accepted.to_toml();
        if let Some(out) = &settings.out {
            publish::put(out, text.as_bytes())?;
        }
        return Ok(ProposedBudget { limits: accepted.limits, text });
    }
    budget::check_runs(expand(&settings.runs).len())?;
    let request = Stability {
        tables: settings.runs.clone(),
        evidence: EvidenceFiles { weights: settings.weights.clone(), ..EvidenceFiles::default() },
        settings: Settings { samples: settings.samples.clone(), ..Settings::default() },
        read: settings.read.clone(),
        resources: settings.resources.clone(),
        ..Stability::default()
    };
    let (limits, text) = stability(&request, job)?.propose_budget()?;
    if let Some(out) = &settings.out {
        publish::put(out, text.as_bytes())?;
    }
    Ok(ProposedBudget { limits, text })
}

impl Stability {
    fn label_options(&self) -> LabelOptions {
        let columns = ColumnMap::default().with("class", self.evidence.label_column.as_ref());
        let records = RecordOptions { columns, ..self.name_options() };
        LabelOptions {
            records,
            column_setting: veridical_io::LABEL_COLUMN,
            ..LabelOptions::default()
        }
    }

    fn name_options(&self) -> RecordOptions {
        RecordOptions { encoding: self.evidence.label_encoding.clone(), ..RecordOptions::default() }
    }
}

/// Everything that a comparison found.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct StabilityReport(pub Report);

impl Deref for StabilityReport {
    type Target = Report;

    fn deref(&self) -> &Report {
        &self.0
    }
}

impl From<veridical_inspect::Error> for Error {
    fn from(error: veridical_inspect::Error) -> Self {
        match error {
            veridical_inspect::Error::Core(error) => Self::Core(error),
            veridical_inspect::Error::Features(error) => Self::Features(error),
            other => Self::Core(Refused::Internal(other.to_string())),
        }
    }
}

/// Compares vector tables.
///
/// # Errors
/// Errors of [`assess_with`] and of reading the tables.
///
/// # Example
/// ```
/// use veridical::core::{Job, Seed};
/// use veridical::data::generate;
/// use veridical::stability::{Stability, stability};
/// # let folder = tempfile::tempdir().unwrap();
/// # let at = |name: &str| folder.path().join(name);
///
/// let monday = generate::clusters(300, 4, 3, Seed::new(0)?);
/// let mut tuesday = monday.clone();
/// tuesday.vectors.chunks_mut(4).for_each(<[f32]>::reverse); // the same geometry in other coordinates
/// veridical::io::write_table(&monday, &at("monday.parquet"))?;
/// veridical::io::write_table(&tuesday, &at("tuesday.parquet"))?;
/// let tables = vec![at("monday.parquet").into(), at("tuesday.parquet").into()];
/// let report = stability(&Stability { tables, ..Stability::default() }, &Job::silent())?;
/// assert_eq!(report.verdict.treatment, "aligned");
/// # Ok::<(), veridical::Error>(())
/// ```
pub fn stability(request: &Stability, job: &Job<'_>) -> Result<StabilityReport> {
    request.check()?;
    let paths = expand(&request.tables);
    if paths.len() < 2 {
        let what = "a comparison needs at least two tables or runs";
        let got =
            paths.first().map_or(String::new(), |path| format!(", got only {}", path.display()));
        return Err(Refused::request(format!("{what}{got}"), "").into());
    }
    let limits = request.limits.read()?;
    check_limits(request, &limits, paths.len())?;
    let spec = request.evidence.spec.as_deref().map(featurize::load_spec).transpose()?;
    let tables = tables_of(&paths, &request.read)?;
    let today = tables.last().cloned();
    let shared = share(tables, &request.resources, job)?;
    compared(request, shared, today, spec, limits, &mut |_| (), job)
}

/// Rejects limits that cannot be evaluated before any work is done.
pub(crate) fn check_limits(request: &Stability, limits: &[Limit], runs: usize) -> Result<()> {
    let with_labels = request.evidence.labels.is_some();
    Ok(veridical_inspect::stability::check_limits(limits, with_labels, runs)?)
}

/// Compares tables that were read once; `today` is the last of them, for consumers, and `raw` sees every window of rows once.
pub(crate) fn compared(
    request: &Stability,
    shared: Shared,
    today: Option<SharedTable>,
    spec: Option<FeatureSpec>,
    limits: Vec<Limit>,
    raw: &mut dyn FnMut(Window<'_>),
    job: &Job<'_>,
) -> Result<StabilityReport> {
    let settings = &request.settings;
    let listed =
        request.evidence.consumers.as_deref().map(consumers::read_consumers).transpose()?;
    let joined = shared.joined()?;
    let names = match &request.evidence.names {
        Some(path) => read_names(path, &request.name_options())?,
        None => HashMap::new(),
    };
    let mut reached = Vec::new();
    if let (Some(listed), Some(today)) = (listed, today) {
        for named in &listed {
            reached.push(named.read(&today, request, job)?);
        }
    }
    let evidence = Evidence {
        weights: weights(request, &*joined.runs, job)?,
        labeled: labeled(request, &*joined.runs, job)?,
        names,
        noise_floor: noise_floor(request, job)?,
        spec,
        limits,
        consumers: reached,
    };
    Ok(StabilityReport(assess_with(joined, &evidence, settings, raw, job)?))
}

fn noise_floor(request: &Stability, job: &Job<'_>) -> Result<Option<Joined>> {
    let paths = expand(&request.evidence.noise_floor);
    if paths.is_empty() {
        return Ok(None);
    }
    if paths.len() < 2 {
        let what = "⟨noise-floor⟩ needs at least two runs on identical data";
        let what = format!("{what}, got only {}", paths[0].display());
        return Err(Refused::request(what, "").into());
    }
    // One file of ids per table is for the tables that are compared.
    let mut options = request.read.clone();
    if options.ids.iter().count() > 1 {
        options.ids = IdFiles::default();
    }
    Ok(Some(share(tables_of(&paths, &options)?, &request.resources, job)?.joined()?))
}

fn weights(request: &Stability, runs: &dyn Passes, job: &Job<'_>) -> Result<Option<Vec<f64>>> {
    let Some(path) = &request.evidence.weights else { return Ok(None) };
    let n = runs.n();
    let mut found: Vec<Option<f64>> = vec![None; n];
    for (id, weight) in read_weights(path, &request.name_options())? {
        if let Some(row) = runs.find(&id) {
            found[row as usize] = Some(weight);
        }
    }
    let without = found.iter().filter(|w| w.is_none()).count();
    if without == n {
        let what = format!("{}: none of the ids in the tables has a weight", path.display());
        return Err(Refused::unfit(what, "the ids must match those of the tables").into());
    }
    if without > 0 {
        job.note(&format!(
            "{}: {without} of {n} ids have no weight; it is set to 0",
            path.display(),
        ));
    }
    let weights: Vec<f64> = found.into_iter().map(|w| w.unwrap_or(0.0)).collect();
    if weights.iter().all(|w| *w == 0.0) {
        return Err(Refused::unfit(format!("{}: all weights are 0", path.display()), "").into());
    }
    Ok(Some(weights))
}

/// The shared row of an id in a file.
fn find_cell(rows: &dyn Passes, cell: Cell<'_>) -> Option<u32> {
    match cell {
        Cell::Text(text) => rows.find(text.trim()),
        Cell::Int(id) => rows.find(&id.to_string()),
        Cell::Float(id) if id.fract() == 0.0 && id.abs() < 9.0e15 => {
            rows.find(&(id as i64).to_string())
        }
        Cell::Float(_) | Cell::Missing => None,
    }
}

fn labeled(request: &Stability, runs: &dyn Passes, job: &Job<'_>) -> Result<Option<Labeled>> {
    let Some(path) = &request.evidence.labels else { return Ok(None) };
    let refused = |what: &str, hint: &str| {
        Err(Refused::unfit(format!("{}: {what}", path.display()), hint).into())
    };
    let find = |cell: Cell<'_>| find_cell(runs, cell);
    let options = request.label_options();
    let (labels, notes) = veridical_io::read_labels_of(path, &options, runs.n(), &find)?;
    notes.iter().for_each(|note| job.note(note));
    let folds = request.settings.folds;
    let mut members = vec![Vec::new(); labels.classes.len()];
    let mut several = 0;
    for row in 0..runs.n() {
        let classes = labels.of.get(row);
        several += usize::from(classes.len() > 1);
        if let Some(&class) = classes.first() {
            members[class as usize].push(row as u32);
        }
    }
    if several > 0 {
        job.note(&format!("{several} ids have several classes; only the first of each is used"));
    }
    let names = |classes: &[usize]| {
        let shown: Vec<String> =
            classes.iter().take(3).map(|&c| labels.classes.id(c as u32)).collect();
        let more = if classes.len() > 3 { ", .." } else { "" };
        format!("`{}`{more}", shown.join("`, `"))
    };
    let rare: Vec<usize> =
        (0..members.len()).filter(|&c| (1..folds).contains(&members[c].len())).collect();
    if !rare.is_empty() && !request.evidence.drop_rare_classes {
        let what = format!("{} have fewer ids than the {folds} folds", names(&rare));
        return refused(&what, "drop them with ⟨drop-rare-classes⟩, or use fewer ⟨folds⟩");
    }
    if !rare.is_empty() {
        job.note(&format!("{} dropped: fewer ids than folds", names(&rare)));
    }
    let kept = members.into_iter().filter(|rows| rows.len() >= folds);
    let kept: Vec<Vec<u32>> = kept.collect();
    if kept.len() < 2 {
        return refused("the ids have a single class", "labels need at least two classes");
    }
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    for (class, rows) in (0..).zip(&kept) {
        pairs.extend(rows.iter().map(|&row| (row, class)));
    }
    pairs.sort_unstable();
    let (rows, labels) = pairs.into_iter().unzip();
    Ok(Some(Labeled { rows, labels, classes: kept.len() }))
}

impl StabilityReport {
    /// Returns the limits that these tables, taken as runs on identical data, meet, and the text of a budget file.
    ///
    /// # Errors
    /// [`Refused::Request`] for fewer than three runs.
    pub fn propose_budget(&self) -> Result<(Vec<Limit>, String)> {
        budget::proposed(&self.comparison, self.tables.len(), self.seed)
    }

    /// Returns an error, for exit code 1, if a limit was not met.
    ///
    /// # Errors
    /// [`Error::GateFailed`] names the limits.
    pub fn gate(&self) -> Result<()> {
        if self.passed != Some(false) {
            return Ok(());
        }
        let broken = self.gates.iter().filter(|gate| !gate.is_kept());
        let broken: Vec<&str> = broken.map(|gate| gate.limit.as_str()).collect();
        if broken.is_empty() {
            // All limits are met, and yet the table is not safe: an aspect without a limit is unstable.
            let (sentence, limits) = (&self.verdict.sentence, self.verdict.deciding_limits());
            let what = format!("{sentence} To accept it, set a limit: {}", limits.join("; "));
            return Err(Error::GateFailed(format!("the gate failed: {what}")));
        }
        let what = format!("{} of {} limits", broken.len(), self.gates.len());
        Err(Error::GateFailed(format!("the gate failed: {what} not met ({})", broken.join(", "))))
    }
}
