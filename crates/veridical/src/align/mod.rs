//! `veridical align`: vector tables of different training runs in one coordinate frame.
//!
//! Retraining rotates the coordinates of an embedding and preserves its inner products; a map fitted on the ids that two
//! tables share undoes the rotation. Every table is aligned to one fixed reference: along a chain of days the errors of
//! the maps would accumulate, so a reference that is itself aligned is rejected.

mod apply;
mod dates;
mod file;

use std::path::{Path, PathBuf};

use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Error, Job, settings};
use veridical_data::VectorTable;
use veridical_data::fingerprint::{self, TableContent};
pub use veridical_inspect::align::{
    Anchors, Certificate, Common, FitSettings, Fitted, Fitting, MapChoice, MapKind, Method, Names,
    fit, fit_common, nothing_shared,
};
use veridical_io::publish;
use veridical_io::shared::SharedTable;
use veridical_io::{
    IdFiles, IfExists, Input, OnDuplicateId, Output, ReadOptions, RecordOptions, Source,
    TableReader, TableWriter, read_ids, read_weights,
};

pub use self::apply::{ALIGNED_TO, Applied, MAP_ID, apply};
pub use self::dates::{DateSettings, Dates};
pub use self::file::MapFile;
use crate::settings::{Resources, TableIds};
use crate::{JobOptions, Result, stability};

/// Name of the output table that holds the mean of all tables.
const MEAN: &str = "mean";

settings! {
    /// Settings of [`align`].
    pub struct Align {
        /// Tables to align: files or run folders
        pub tables: Vec<Input> = Vec::new() => [positional(), required(), value("TABLE")],
        /// Reference table that the others are aligned to
        pub reference: Option<Input> = None => [value("TABLE")],
        /// Aligned table to write; a folder for several tables or with ⟨generalized⟩
        pub out: Option<Output> = None => [value("PATH")],
        /// Map to write (safetensors); a folder for several tables
        pub map: Option<Output> = None,
        /// Map to write (ONNX); a folder for several tables
        pub onnx: Option<Output> = None,
        /// Apply this map instead of fitting one
        pub apply: Option<Input> = None
            => [value("MAP"), excludes(&["map", "method", "scale", "center", "ridge", "rank", "anchors",
                "anchor-weights", "sample", "generalized"])],
        /// Accept a reference that is itself aligned
        pub allow_chain: bool = false => [switch()],
        /// Generalized Procrustes: align all tables to their common mean
        pub generalized: bool = false => [heading("Fitting"), switch()],
    } with {
        /// Which ids maps are fitted on.
        pub anchors: AnchorFiles,
        /// How maps are fitted.
        pub fit: FitSettings,
        /// Dates of the reference and the tables.
        pub dates: DateSettings,
        /// Which files name the rows of which table.
        pub table_ids: TableIds,
        /// How tables are read and written.
        pub options: JobOptions,
        /// Memory and disk.
        pub resources: Resources,
    }
}

settings! {
    /// Which shared ids maps are fitted on.
    pub struct AnchorFiles in "Fitting" {
        /// Ids to fit on: one per line, CSV or Parquet
        pub anchors: Option<Input> = None
            => [excludes(&["anchor-weights"]), otherwise("all shared ids")],
        /// Weight of every id, such as its popularity: CSV, TSV or Parquet
        pub anchor_weights: Option<Input> = None => [needs(&["anchors-top"])],
        /// Fit on the N ids with the largest weight
        pub anchors_top: Option<usize> = None => [needs(&["anchor-weights"])],
    }
}

impl AnchorFiles {
    /// Reads the anchors.
    ///
    /// # Errors
    /// [`crate::Error::Io`] if a file cannot be read.
    pub fn read(&self) -> Result<Anchors> {
        Ok(match (&self.anchors, &self.anchor_weights) {
            (Some(path), _) => {
                let ids = read_ids(path, &ReadOptions::default())?;
                Anchors::Ids((0..ids.len()).map(|i| ids.get(i)).collect())
            }
            (None, Some(path)) => {
                let count = self.anchors_top.unwrap_or(usize::MAX);
                Anchors::Top { weights: read_weights(path, &RecordOptions::default())?, count }
            }
            (None, None) => Anchors::Shared,
        })
    }
}

impl Align {
    /// Returns the fit settings with the anchors loaded.
    fn fitting(&self) -> Result<FitSettings> {
        Ok(FitSettings { which: self.anchors.read()?, ..self.fit.clone() })
    }

    fn sources(&self) -> Vec<Source> {
        self.tables.iter().map(Input::source).collect()
    }
}

/// Result of [`align`].
#[derive(Clone, Debug, Serialize)]
pub struct Aligned {
    /// Path of the reference table, if one was given.
    pub reference: Option<String>,
    /// Fingerprint of the reference table; of the mean under `--generalized`.
    pub reference_fingerprint: String,
    /// Path of the mean of all tables, under `--generalized`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<String>,
    /// Results per table, in the order given.
    pub tables: Vec<AlignedTable>,
}

/// Result of aligning one table.
#[derive(Clone, Debug, Serialize)]
pub struct AlignedTable {
    /// Path of the input table.
    pub input: String,
    /// Kind of map that was applied.
    pub kind: MapKind,
    /// Id of the map.
    pub map_id: String,
    /// Input dimension of the map.
    pub input_dim: usize,
    /// Output dimension of the map.
    pub output_dim: usize,
    /// Ridge penalty, for ridge maps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ridge: Option<f64>,
    /// Rank, for low-rank maps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// Accuracy of the map on held-out anchors; `None` for a map loaded from a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// Number of days between reference and table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_days: Option<i64>,
    /// Path of the written map.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map: Option<String>,
    /// Path of the map written as ONNX.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub onnx: Option<String>,
    /// The aligned table, if one was written.
    #[serde(flatten)]
    pub applied: Option<Applied>,
}

/// Aligns tables to a reference.
///
/// # Errors
/// [`Error::Request`], [`Error::Shape`] and [`Error::Unfit`] for incompatible tables, maps and settings, errors of
/// reading and writing, and [`crate::Error::Interrupted`] if the user stopped the job and it can be resumed.
///
/// # Example
/// ```
/// use veridical::align::{Align, align};
/// use veridical::core::{Job, Seed};
/// use veridical::data::generate;
/// # let folder = tempfile::tempdir().unwrap();
/// # let at = |name: &str| folder.path().join(name);
///
/// let monday = generate::clusters(200, 4, 3, Seed::new(0)?);
/// let mut tuesday = monday.clone();
/// tuesday.vectors.chunks_mut(4).for_each(<[f32]>::reverse); // the same geometry in other coordinates
/// veridical::io::write_table(&monday, &at("monday.parquet"))?;
/// veridical::io::write_table(&tuesday, &at("tuesday.parquet"))?;
/// let settings = Align {
///     reference: Some(at("monday.parquet").into()),
///     tables: vec![at("tuesday.parquet").into()],
///     out: Some(at("aligned.parquet").into()),
///     ..Align::default()
/// };
/// let aligned = align(&settings, &Job::silent())?;
/// let certificate = aligned.tables[0].certificate.as_ref().unwrap();
/// assert!(certificate.residual < 1e-5); // on ids the map was not fitted on
/// # Ok::<(), veridical::Error>(())
/// ```
pub fn align(settings: &Align, job: &Job<'_>) -> Result<Aligned> {
    settings.check()?;
    settings.dates.get()?; // fail before any table is read
    if settings.dates.date.is_some() && settings.dates.reference_date.is_none() {
        return Err(Error::request("⟨date⟩ needs ⟨reference-date⟩", "").into());
    }
    let inputs = settings.sources();
    let places = places(settings)?;
    let maps = match &settings.apply {
        Some(path) => given(settings, path, job)?,
        None => fitted(settings, job)?,
    };
    let mut tables = Vec::new();
    for ((input, place), (file, fitted)) in inputs.iter().zip(&places).zip(&maps.files) {
        if places.len() > 1 || settings.generalized {
            place.prepare()?;
        }
        place.save(file)?;
        let at = (tables.len() + 1, inputs.len() + 1);
        let applied = place.out.as_ref().map(|out| {
            let read = settings.table_ids.reading(input, &settings.options.read, at)?;
            apply(file, input, out, &JobOptions { read, ..settings.options.clone() }, job)
        });
        tables.push(AlignedTable {
            input: input.to_string(),
            kind: file.kind,
            map_id: file.map_id(),
            input_dim: file.map.input_dim(),
            output_dim: file.map.output_dim(),
            ridge: fitted.as_ref().and_then(|fitted| fitted.ridge),
            rank: fitted.as_ref().and_then(|fitted| fitted.rank),
            certificate: fitted.as_ref().map(|fitted| fitted.certificate.clone()),
            age_days: file.dates.as_ref().map(Dates::age_days),
            map: place.map.as_ref().map(|path| path.display().to_string()),
            onnx: place.onnx.as_ref().map(|path| path.display().to_string()),
            applied: applied.transpose()?,
        });
    }
    Ok(Aligned {
        reference: settings.reference.as_ref().map(ToString::to_string),
        reference_fingerprint: maps.reference,
        mean: maps.mean,
        tables,
    })
}

/// Rejects a reference that is itself the result of an alignment.
///
/// # Errors
/// [`Error::Request`] for a chain, [`crate::Error::Io`] if the table cannot be read.
pub(crate) fn refuse_chain(source: &Source, options: &ReadOptions, allow: bool) -> Result<()> {
    if allow || *source == Source::Stream {
        return Ok(());
    }
    let bare = ReadOptions {
        ids: IdFiles::default(),
        on_duplicate_id: OnDuplicateId::Error,
        ..options.clone()
    };
    let reader = TableReader::open(source, &bare)?;
    if let Some(first) = reader.metadata(ALIGNED_TO) {
        return Err(Error::request(
            format!("{source} is itself aligned, to the table {first}: errors accumulate along a chain of days"),
            "align to that original table, or pass ⟨allow-chain⟩",
        )
        .into());
    }
    Ok(())
}

/// Reads a table and says what was dropped.
pub(crate) fn collect(reader: &mut TableReader, job: &Job<'_>) -> Result<VectorTable> {
    let table = veridical_io::collect_rows(reader)?;
    reader.warnings().iter().for_each(|what| job.warn(&format!("{}: {what}", reader.source())));
    Ok(table)
}

/// Opens table `at.0` of `at.1` to fit on, where 0 is the reference. Extra columns are not needed for fitting, and row
/// names apply only to tables without any.
pub(crate) fn open(
    source: &Source,
    ids: &TableIds,
    options: &ReadOptions,
    at: (usize, usize),
    job: &Job<'_>,
) -> Result<TableReader> {
    let reader = ids.open(source, options, at)?;
    reader.notes().iter().for_each(|note| job.note(&format!("{source}: {note}")));
    Ok(reader)
}

/// Output paths for one table.
struct Place {
    out: Option<Source>,
    map: Option<PathBuf>,
    onnx: Option<PathBuf>,
    if_exists: IfExists,
}

impl Place {
    /// Creates the output folders for several tables.
    fn prepare(&self) -> Result<()> {
        let out = self.out.as_ref().and_then(Source::path);
        for path in [out, self.map.as_deref(), self.onnx.as_deref()].into_iter().flatten() {
            create_folder_of(path)?;
        }
        Ok(())
    }

    fn save(&self, file: &MapFile) -> Result<()> {
        if let Some(path) = &self.map {
            // A resumed job finds the map it wrote before.
            let same = self.if_exists == IfExists::Resume
                && MapFile::load(path).is_ok_and(|before| before.says_the_same_as(file));
            if !same {
                publish::check_file(path, self.if_exists == IfExists::Force)?;
                file.save(path)?;
            }
        }
        if let Some(path) = &self.onnx {
            publish::check_file(path, self.if_exists != IfExists::Refuse)?;
            file.save_onnx(path)?;
        }
        Ok(())
    }
}

/// Determines all output paths and checks that they are writable before anything is read.
fn places(settings: &Align) -> Result<Vec<Place>> {
    let refused = |what: &str, hint: &str| Err(Error::request(what, hint).into());
    let if_exists = settings.options.write.existing.if_exists();
    if settings.tables.is_empty() {
        return refused("pass at least one table to align", "");
    }
    if settings.out.is_none() && settings.map.is_none() && settings.onnx.is_none() {
        return refused(
            "pass an output: ⟨out⟩ for the aligned table, ⟨map⟩ or ⟨onnx⟩ for the map",
            "",
        );
    }
    let stream = |path: &Input| path.source() == Source::Stream;
    if settings.tables.iter().chain(&settings.reference).any(stream) && settings.apply.is_none() {
        return refused(
            "a stream can be read only once, and fitting needs a pass before mapping",
            "use a file",
        );
    }
    let several = settings.tables.len() > 1 || settings.generalized;
    let refuse = |path: &Path| -> Result<()> {
        let force = if_exists != IfExists::Refuse;
        Ok(publish::check_file(path, force)?)
    };
    if !several {
        for path in [&settings.map, &settings.onnx].into_iter().flatten() {
            refuse(path)?;
        }
        let out = settings.out.as_ref().map(Output::source);
        if let Some(out) = &out {
            TableWriter::check(out, &settings.options.write)?;
        }
        let path = |path: &Option<Output>| path.as_deref().map(Path::to_owned);
        let (map, onnx) = (path(&settings.map), path(&settings.onnx));
        return Ok(vec![Place { out, map, onnx, if_exists }]);
    }
    let mut names: Vec<String> = Vec::new();
    if settings.generalized {
        names.push(MEAN.to_owned());
    }
    let out = settings.out.as_ref().map(Output::source);
    for table in &settings.sources() {
        let name = name_of(table)?;
        if names.contains(&name) {
            let what = format!(
                "two tables would be written to {name}.parquet: {table} and another table have the same name"
            );
            return Err(Error::request(what, "rename one of them").into());
        }
        names.push(name);
    }
    let folders = [
        (out.as_ref().map(Source::path), "⟨out⟩"),
        (settings.map.as_deref().map(Some), "⟨map⟩"),
        (settings.onnx.as_deref().map(Some), "⟨onnx⟩"),
    ];
    for (path, flag) in folders.into_iter().filter_map(|(path, flag)| Some((path?, flag))) {
        let Some(path) = path else {
            return refused(
                "several tables cannot be written to a stream",
                "pass a folder with ⟨out⟩",
            );
        };
        if path.exists() && !path.is_dir() {
            let path = path.display();
            let what = format!("{flag} {path}: several tables need a folder, but this is a file");
            return Err(Error::exists(what, "").into());
        }
        check_parent(path)?;
    }
    let mut places = Vec::new();
    for name in names.iter().skip(usize::from(settings.generalized)) {
        let below = |path: &Path, extension: &str| path.join(format!("{name}.{extension}"));
        let out = out.as_ref().and_then(Source::path);
        places.push(Place {
            out: out.map(|out| Source::Path(below(out, "parquet"))),
            map: settings.map.as_deref().map(|path| below(path, "safetensors")),
            onnx: settings.onnx.as_deref().map(|path| below(path, "onnx")),
            if_exists,
        });
    }
    for path in places.iter().flat_map(|place| [&place.map, &place.onnx]).flatten() {
        if path.exists() {
            refuse(path)?;
        }
    }
    for out in places.iter().filter_map(|place| place.out.as_ref()) {
        if out.path().is_some_and(Path::exists) {
            TableWriter::check(out, &settings.options.write)?;
        }
    }
    Ok(places)
}

fn create_folder_of(path: &Path) -> Result<()> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    std::fs::create_dir_all(folder).map_err(|e| {
        let what = format!("{}: cannot create the folder: {e}", folder.display());
        Error::missing(what, "").into()
    })
}

fn check_parent(path: &Path) -> Result<()> {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.is_dir()) {
        Some(parent) => {
            let what = format!("{}: the folder does not exist", parent.display());
            Err(Error::missing(what, "create it first").into())
        }
        None => Ok(()),
    }
}

/// Returns the file name of a table without folders and extension.
fn name_of(table: &Source) -> Result<String> {
    let stem =
        table.path().and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
    stem.ok_or_else(|| {
        Error::request(
            format!("{table} has no file name to derive an output name from"),
            "use a file",
        )
        .into()
    })
}

/// Maps of all tables, in order.
struct Maps {
    files: Vec<(MapFile, Option<Fitted>)>,
    reference: String,
    mean: Option<String>,
}

fn given(settings: &Align, path: &Path, job: &Job<'_>) -> Result<Maps> {
    if settings.generalized {
        let what =
            "⟨apply⟩ uses an existing map, ⟨generalized⟩ fits new ones; pass only one of them";
        return Err(Error::request(what, "").into());
    }
    let mut file = MapFile::load_noted(path, job)?;
    if let Some(reference) = settings.reference.as_ref().map(Input::source) {
        let (read, n) = (&settings.options.read, settings.tables.len() + 1);
        let mut reader = open(&reference, &settings.table_ids, read, (0, n), job)?;
        let mut content = TableContent::new(reader.schema().dim);
        while let Some(chunk) = reader.next_chunk()? {
            content.add(&chunk.ids, &chunk.vectors);
        }
        let found = content.finish();
        if found != file.reference {
            let (path, leads) = (path.display(), &file.reference);
            return Err(Error::request(
                format!("{path} maps to the table {leads}, but {reference} is {found}"),
                "fit a map to this reference, or leave out ⟨reference⟩",
            )
            .into());
        }
    }
    if let Some(dates) = settings.dates.get()? {
        file.dates = Some(dates);
    }
    let reference = file.reference.clone();
    let files = settings.tables.iter().map(|_| (file.clone(), None)).collect();
    Ok(Maps { files, reference, mean: None })
}

/// Fits the map from the second table to the first in two passes over their rows.
fn fit_files(
    tables: Vec<SharedTable>,
    fitting: &FitSettings,
    resources: &Resources,
    job: &Job<'_>,
) -> Result<Fitted> {
    let shared = stability::share(tables, resources, job)?;
    if shared.rows.n() == 0 {
        let examples = [shared.examples[0].clone(), shared.examples[1].clone()];
        return Err(nothing_shared(&fitting.names.0, examples).into());
    }
    let mut fitting = Fitting::new(&*shared.rows, fitting)?;
    shared.rows.pass(&mut |window| {
        job.check()?;
        fitting.add(window);
        Ok(())
    })?;
    Ok(fitting.finish(&shared.reports[0].fingerprint, job)?)
}

fn fitted(settings: &Align, job: &Job<'_>) -> Result<Maps> {
    let Some(source) = &settings.reference.as_ref().map(Input::source) else {
        let what = "pass a table to align to with ⟨reference⟩, or a map with ⟨apply⟩";
        return Err(Error::request(what, "").into());
    };
    let read = &settings.options.read;
    let (ids, n) = (&settings.table_ids, settings.tables.len() + 1);
    refuse_chain(source, read, settings.allow_chain)?;
    // A table that is also written reports there how it is read.
    let once: &Job<'_> = if settings.out.is_some() { &job.quiet() } else { job };
    let (dates, fitting) = (settings.dates.get()?, settings.fitting()?);
    let inputs = settings.sources();
    let saved = |fitted: Fitted| (MapFile::new(&fitted, dates.clone()), Some(fitted));
    if !settings.generalized {
        let one = |(i, table): (usize, &Source)| -> Result<Fitted> {
            let names = Names([source.to_string(), table.to_string()]);
            let fitting = FitSettings { names, ..fitting.clone() };
            let reading = |source: &Source, i: usize| stability::table(source, ids, read, (i, n));
            let tables = vec![reading(source, 0)?, reading(table, i + 1)?];
            fit_files(tables, &fitting, &settings.resources, once)
        };
        let fitted = inputs.iter().enumerate().map(one).collect::<Result<Vec<Fitted>>>()?;
        let reference = fitted.first().map_or(String::new(), |fitted| fitted.reference.clone());
        return Ok(Maps { files: fitted.into_iter().map(saved).collect(), reference, mean: None });
    }
    let load = |i: usize, table: &Source| -> Result<VectorTable> {
        collect(&mut open(table, ids, read, (i, n), once)?, once)
    };
    let called: Vec<String> =
        [source].into_iter().chain(&inputs).map(ToString::to_string).collect();
    let mut tables = vec![load(0, source)?];
    for (i, table) in inputs.iter().enumerate() {
        tables.push(load(i + 1, table)?);
    }
    let Common { fitted, mean } = fit_common(tables, &called, &fitting, job)?;
    let fingerprint = fingerprint::of_table(&mean);
    let path = settings.out.as_deref().map(|out| out.join(format!("{MEAN}.parquet")));
    if let Some(path) = &path {
        let existing = &settings.options.write.existing;
        publish::check_new(path, existing.force || existing.resume)?;
        create_folder_of(path)?;
        veridical_io::write_table(&mean, path)?;
    }
    Ok(Maps {
        files: fitted.into_iter().skip(1).map(saved).collect(),
        reference: fingerprint,
        mean: path.map(|path| path.display().to_string()),
    })
}
