//! `veridical align`: tables of different trainings in one frame.
//!
//! Retraining turns the coordinates of an embedding and leaves its inner products; a map fitted on the ids that two
//! tables share turns one back. Every table is aligned to one fixed reference: maps along a chain of days would add
//! up their errors, so a reference that is itself aligned is refused.

mod anchors;
mod apply;
mod dates;
mod file;
mod fit;

use std::path::{Path, PathBuf};

use serde::Serialize;
use veridical_data::models::publish;
use veridical_data::{
    Dtype, IdKind, IfExists, ReadOptions, Source, Table, TableReader, TableWriter, fingerprint,
    storage,
};

pub use self::anchors::Anchors;
pub use self::apply::{ALIGNED_TO, Applied, MAP_ID, apply};
pub use self::dates::Dates;
pub use self::file::{MapFile, MapKind};
pub use self::fit::{
    Certificate, Common, DEFAULT_SAMPLE, FitSettings, Fitted, Method, fit, fit_common,
};
use crate::{Error, JobOptions, Observer, Result, Silent};

/// What the mean of all tables is called.
const MEAN: &str = "mean";

/// Settings of [`align`].
#[derive(Clone, Debug)]
pub struct Align {
    /// The table whose frame is kept; with a given map it is only compared with the map's.
    pub reference: Option<Source>,
    /// The tables to align.
    pub tables: Vec<Source>,
    /// The aligned table; a folder of them if there are several or for `common`.
    pub out: Option<Source>,
    /// Where the map goes; a folder if there are several.
    pub map: Option<PathBuf>,
    /// Where the map goes as ONNX; a folder if there are several.
    pub onnx: Option<PathBuf>,
    /// A map that was fitted before, in the place of a fit.
    pub apply: Option<PathBuf>,
    /// How maps are fitted.
    pub fit: FitSettings,
    /// Turn all tables to their common mean.
    pub generalized: bool,
    /// Days of reference and tables.
    pub dates: Option<Dates>,
    /// Accept a reference that is itself aligned to another.
    pub allow_chain: bool,
    /// How vectors are written.
    pub dtype: Dtype,
    /// How to read and write.
    pub options: JobOptions,
}

/// What [`align`] did.
#[derive(Clone, Debug, Serialize)]
pub struct Aligned {
    /// The table whose frame was kept.
    pub reference: Option<String>,
    /// Its content; of the mean under `--generalized`.
    pub reference_fingerprint: String,
    /// The mean of all tables, under `--generalized`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<String>,
    /// One per table.
    pub tables: Vec<AlignedTable>,
}

/// What was done to one table.
#[derive(Clone, Debug, Serialize)]
pub struct AlignedTable {
    /// The table.
    pub input: String,
    /// What kind of map was used.
    pub kind: MapKind,
    /// Its name.
    pub map_id: String,
    /// Values of a row that goes in.
    pub input_dim: usize,
    /// Values of a row that comes out.
    pub output_dim: usize,
    /// Strength of the ridge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ridge: Option<f64>,
    /// Rank of a low-rank map.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// How good the map is; none for a map that was fitted before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// Days between reference and table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_days: Option<i64>,
    /// Where the map was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map: Option<String>,
    /// Where the map was written as ONNX.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub onnx: Option<String>,
    /// The table that was written.
    #[serde(flatten)]
    pub applied: Option<Applied>,
}

/// Aligns tables to a reference.
///
/// # Errors
/// [`Error::Usage`] and [`Error::Data`] for tables, maps and settings that do not go together,
/// [`Error::Interrupted`] if the user stopped it and it can be resumed.
pub fn align(settings: &Align, observer: &dyn Observer) -> Result<Aligned> {
    let places = places(settings)?;
    let maps = match &settings.apply {
        Some(path) => given(settings, path, observer)?,
        None => fitted(settings, observer)?,
    };
    let mut tables = Vec::new();
    for ((input, place), (file, fitted)) in settings.tables.iter().zip(&places).zip(&maps.files) {
        if places.len() > 1 || settings.generalized {
            place.prepare()?;
        }
        place.save(file)?;
        let applied = place
            .out
            .as_ref()
            .map(|out| apply(file, input, out, settings.dtype, &settings.options, observer));
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

/// Reads a reference, and refuses one that is itself the result of an alignment.
///
/// # Errors
/// [`Error::Usage`] for a chain, [`Error::Data`] if the table cannot be read.
pub fn load_reference(
    source: &Source,
    options: &ReadOptions,
    allow_chain: bool,
    observer: &dyn Observer,
) -> Result<Table> {
    let reader = open(source, options, observer)?;
    if let Some(first) = reader.metadata(ALIGNED_TO).filter(|_| !allow_chain) {
        return Err(Error::Usage(format!(
            "{source} is itself aligned, to the table {first}: errors add up along a chain of days; align to that \
             table, the one that the first day was aligned to, or pass --allow-chain"
        )));
    }
    Ok(Table::from_reader(reader)?)
}

/// Opens a table to fit on: columns that are carried along are of no use there, and names of rows are for tables
/// without any.
fn open(source: &Source, options: &ReadOptions, observer: &dyn Observer) -> Result<TableReader> {
    let bare = ReadOptions { keep_columns: Vec::new(), ids_file: None, ..options.clone() };
    let mut reader = TableReader::open(source, &bare)?;
    if options.ids_file.is_some() && reader.schema().ids == IdKind::RowNumber {
        reader =
            TableReader::open(source, &ReadOptions { ids_file: options.ids_file.clone(), ..bare })?;
    }
    reader.notes().iter().for_each(|note| observer.note(&format!("{source}: {note}")));
    Ok(reader)
}

/// Where the results of one table go.
struct Place {
    out: Option<Source>,
    map: Option<PathBuf>,
    onnx: Option<PathBuf>,
    if_exists: IfExists,
}

impl Place {
    /// Creates the folders that several tables go to.
    fn prepare(&self) -> Result<()> {
        let out = self.out.as_ref().and_then(Source::path);
        for path in [out, self.map.as_deref(), self.onnx.as_deref()].into_iter().flatten() {
            create_folder_of(path)?;
        }
        Ok(())
    }

    fn save(&self, file: &MapFile) -> Result<()> {
        if let Some(path) = &self.map {
            // A job that goes on finds the map it wrote before.
            let same = self.if_exists == IfExists::Resume
                && MapFile::load(path).is_ok_and(|before| before == *file);
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

/// Where everything goes; nothing is read before that is known to be possible.
fn places(settings: &Align) -> Result<Vec<Place>> {
    let usage = |what: &str| Err(Error::Usage(what.to_owned()));
    let if_exists = settings.options.write.if_exists;
    if settings.tables.is_empty() {
        return usage("name at least one table to align");
    }
    if settings.out.is_none() && settings.map.is_none() && settings.onnx.is_none() {
        return usage(
            "say what to write: --out for the aligned table, --map or --onnx for the map",
        );
    }
    let stream = |source: &Source| *source == Source::Stream;
    if settings.tables.iter().chain(&settings.reference).any(stream) && settings.apply.is_none() {
        return usage(
            "a stream can be read only once, and a fit reads a table before it is mapped; use a file",
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
        if let Some(out) = &settings.out {
            TableWriter::check(out, &settings.options.write)?;
        }
        let Align { out, map, onnx, .. } = settings.clone();
        return Ok(vec![Place { out, map, onnx, if_exists }]);
    }
    let mut names: Vec<String> = Vec::new();
    if settings.generalized {
        names.push(MEAN.to_owned());
    }
    for table in &settings.tables {
        let name = name_of(table)?;
        if names.contains(&name) {
            return Err(Error::Usage(format!(
                "two tables would be written as {name}.parquet: {table} has that name, and so has another; rename it"
            )));
        }
        names.push(name);
    }
    let folders = [
        (settings.out.as_ref().map(|out| out.path()), "--out"),
        (settings.map.as_deref().map(Some), "--map"),
        (settings.onnx.as_deref().map(Some), "--onnx"),
    ];
    for (path, flag) in folders.into_iter().filter_map(|(path, flag)| Some((path?, flag))) {
        let Some(path) = path else {
            return usage("several tables cannot go to a stream; name a folder with --out");
        };
        if path.exists() && !path.is_dir() {
            let path = path.display();
            let what = format!("{flag} {path}: several tables need a folder, and this is a file");
            return Err(Error::Usage(what));
        }
        check_parent(path)?;
    }
    let mut places = Vec::new();
    for name in names.iter().skip(usize::from(settings.generalized)) {
        let below = |path: &PathBuf, ending: &str| path.join(format!("{name}.{ending}"));
        let out = settings.out.as_ref().and_then(Source::path);
        places.push(Place {
            out: out.map(|out| Source::Path(below(&out.to_owned(), "parquet"))),
            map: settings.map.as_ref().map(|path| below(path, "safetensors")),
            onnx: settings.onnx.as_ref().map(|path| below(path, "onnx")),
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
    std::fs::create_dir_all(folder)
        .map_err(|e| Error::Usage(format!("{}: cannot create the folder: {e}", folder.display())))
}

fn check_parent(path: &Path) -> Result<()> {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.is_dir()) {
        Some(parent) => {
            let what = format!("{}: the folder does not exist; create it first", parent.display());
            Err(Error::Usage(what))
        }
        None => Ok(()),
    }
}

/// What a table is called without folders and ending.
fn name_of(table: &Source) -> Result<String> {
    let stem =
        table.path().and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
    stem.ok_or_else(|| {
        Error::Usage(format!("{table} has no name to write its result under; use a file"))
    })
}

/// Maps of all tables.
struct Maps {
    files: Vec<(MapFile, Option<Fitted>)>,
    reference: String,
    mean: Option<String>,
}

fn given(settings: &Align, path: &Path, observer: &dyn Observer) -> Result<Maps> {
    if settings.generalized {
        return Err(Error::Usage(
            "--apply takes a map that is there, --generalized fits new ones".into(),
        ));
    }
    let mut file = MapFile::load(path)?;
    if let Some(reference) = &settings.reference {
        let table = Table::from_reader(open(reference, &settings.options.read, observer)?)?;
        let found = fingerprint::of_table(&table);
        if found != file.reference {
            return Err(Error::Usage(format!(
                "{} leads to the table {}, and {reference} is {found}; fit a map to this reference, or leave out \
                 --reference",
                path.display(),
                file.reference
            )));
        }
    }
    if settings.dates.is_some() {
        file.dates = settings.dates.clone();
    }
    let reference = file.reference.clone();
    let files = settings.tables.iter().map(|_| (file.clone(), None)).collect();
    Ok(Maps { files, reference, mean: None })
}

fn fitted(settings: &Align, observer: &dyn Observer) -> Result<Maps> {
    let Some(source) = &settings.reference else {
        return Err(Error::Usage(
            "name the table to align to with --reference, or a map with --apply".into(),
        ));
    };
    let read = &settings.options.read;
    let reference = load_reference(source, read, settings.allow_chain, observer)?;
    // A table that is written as well says there how it is read.
    let once: &dyn Observer = if settings.out.is_some() { &Silent } else { observer };
    let load =
        |table: &Source| -> Result<Table> { Ok(Table::from_reader(open(table, read, once)?)?) };
    let saved = |fitted: Fitted| (MapFile::new(&fitted, settings.dates.clone()), Some(fitted));
    let names = |table: &Source| [source.to_string(), table.to_string()];
    if !settings.generalized {
        let one = |table: &Source| {
            let settings = FitSettings { names: names(table), ..settings.fit.clone() };
            fit(&reference, &load(table)?, &settings).map(saved)
        };
        let files = settings.tables.iter().map(one).collect::<Result<Vec<_>>>()?;
        return Ok(Maps { files, reference: fingerprint::of_table(&reference), mean: None });
    }
    let called: Vec<String> =
        [source].into_iter().chain(&settings.tables).map(ToString::to_string).collect();
    let mut tables = vec![reference];
    for table in &settings.tables {
        tables.push(load(table)?);
    }
    let Common { fitted, mean } = fit_common(tables, &called, &settings.fit)?;
    let fingerprint = fingerprint::of_table(&mean);
    let path =
        settings.out.as_ref().and_then(Source::path).map(|out| out.join(format!("{MEAN}.parquet")));
    if let Some(path) = &path {
        if settings.options.write.if_exists == IfExists::Refuse && storage::exists(path)? {
            let what = "exists already; choose another folder or replace it with --force";
            return Err(Error::Usage(format!("{} {what}", path.display())));
        }
        create_folder_of(path)?;
        mean.save(path)?;
    }
    Ok(Maps {
        files: fitted.into_iter().skip(1).map(saved).collect(),
        reference: fingerprint,
        mean: path.map(|path| path.display().to_string()),
    })
}
