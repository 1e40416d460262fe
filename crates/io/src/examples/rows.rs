//! Tables of numbers: a target column, or several for regression, and all other columns as inputs.
//!
//! Classes are texts or integers; integers are sorted by value, anything else by text. Inputs and regression targets
//! are finite after conversion to f32.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use veridical_core::Error as Core;

use super::classes::listed;
use super::folder::{Folder, KNOWN};
use super::inputs::TEST_SET;
use super::{ExampleOptions, ExampleShape, Examples, Found, Origin, Targets, Values};
use crate::format::Compression;
use crate::records::{Cell, Place, WideRows, find_column, read_wide};
use crate::{Error, RecordFormat, Result};

const PARTS: [&str; 2] = ["train", "test"];
/// The name that pandas gives to an unnamed index.
const NAMELESS_INDEX: &str = "__index_level_0__";

pub(super) fn is_here(folder: &Folder<'_>) -> bool {
    PARTS.iter().any(|part| folder.direct().any(|(name, _)| is_part(name, part)))
}

/// Whether a file is `train.csv` or one with another extension.
fn is_part(name: &str, part: &str) -> bool {
    use RecordFormat::{Arrow, Csv, Parquet, Tsv};
    let (stem, format) = split_name(name);
    stem == part && matches!(format, Some(Csv | Tsv | Parquet | Arrow))
}

/// The file name without extension, and the format of the extension.
fn split_name(name: &str) -> (&str, Option<RecordFormat>) {
    let plain = Compression::of_name(name).map_or(name, |c| name.trim_end_matches(c.suffix()));
    let (stem, extension) = plain.rsplit_once('.').unwrap_or((plain, ""));
    (stem, RecordFormat::from_name(extension))
}

/// A table that is a training set as a whole.
pub(super) fn read_file(path: &Path, options: &ExampleOptions) -> Result<Found> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if options.records.format.is_none() && split_name(&name).1.is_none() {
        let what = format!("is not a table by its extension; name a table or a folder: {KNOWN}");
        return Err(Error::content(path, what));
    }
    read(path, Some(path), None, options)
}

/// `train.csv` and `test.csv`, or one of them.
pub(super) fn read_folder(folder: &Folder<'_>, options: &ExampleOptions) -> Result<Found> {
    let part = |part: &str| {
        let mut files = folder.direct().filter(|(name, _)| is_part(name, part));
        match (files.next(), files.next()) {
            (Some((one, _)), Some((other, _))) => {
                let what = format!("holds both {one} and {other}; keep one of them");
                Err(Error::content(folder.path, what))
            }
            (file, _) => Ok(file.map(|(_, path)| path)),
        }
    };
    let [train, test] = PARTS.map(part);
    read(folder.path, train?, test?, options)
}

/// The test table of a folder, or else the training table, with a note if there are both.
pub(super) fn one_part<'a>(folder: &'a Folder<'_>) -> Result<(&'a Path, Option<String>)> {
    let find = |part: &str| folder.direct().find(|(name, _)| is_part(name, part));
    match (find(PARTS[0]), find(PARTS[1])) {
        (Some(_), Some((_, test))) => Ok((test, Some(TEST_SET.into()))),
        (Some((_, only)), None) | (None, Some((_, only))) => Ok((only, None)),
        (None, None) => Err(Error::no_rows(folder.path)),
    }
}

fn read(
    path: &Path,
    train: Option<&Path>,
    test: Option<&Path>,
    options: &ExampleOptions,
) -> Result<Found> {
    if !options.records.columns.is_empty() {
        let hint = "name columns with ⟨target⟩ and ⟨ignore-columns⟩";
        return Err(Core::request("⟨columns⟩ does not apply to a table of examples", hint).into());
    }
    let mut labels = Labels::default();
    let mut parts = [None, None];
    for (part, file) in parts.iter_mut().zip([train, test]) {
        *part = file.map(|file| Read::new(file, options, &mut labels)).transpose()?;
    }
    if let ([Some(a), Some(b)], Some(test)) = (&parts, test) {
        check_columns(test, &a.inputs, &b.inputs)?;
    }
    let Some(any) = parts.iter().flatten().next() else {
        return Err(Error::no_rows(path));
    };
    let (columns, notes) = (any.inputs.clone(), vec![any.note()]);
    let (classes, numbers) = labels.sorted();
    let [(train, of_train), (test, of_test)] =
        parts.map(|part| part.map(|table| table.examples(options, &numbers)).unzip());
    Ok(Found { train, test, classes, columns, notes, origins: [of_train, of_test] })
}

fn check_columns(test: &Path, train_names: &[String], test_names: &[String]) -> Result<()> {
    if train_names == test_names {
        return Ok(());
    }
    let longest = train_names.len().max(test_names.len());
    let at = (0..longest).find(|&i| train_names.get(i) != test_names.get(i)).unwrap_or_default();
    let shown = |names: &[String]| names.get(at).map_or("none".into(), |name| format!("`{name}`"));
    let what = format!("input {at} is column {} and ", shown(test_names));
    let what = format!("{what}{} in the training set", shown(train_names));
    Err(Error::content(test, format!("{what}; both need the same columns in the same order")))
}

/// Labels by first appearance.
#[derive(Default)]
struct Labels {
    numbers: HashMap<String, u32>,
}

impl Labels {
    fn number(&mut self, label: &str) -> u32 {
        if let Some(&number) = self.numbers.get(label) {
            return number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(label.to_owned(), number);
        number
    }

    /// The sorted names, and the position among them of every index assigned so far.
    fn sorted(self) -> (Vec<String>, Vec<u32>) {
        let mut met: Vec<(String, u32)> = self.numbers.into_iter().collect();
        let integer = |name: &str| name.parse::<i64>().ok();
        if met.iter().all(|(name, _)| integer(name).is_some()) {
            met.sort_by(|(a, _), (b, _)| (integer(a), a).cmp(&(integer(b), b)));
        } else {
            met.sort();
        }
        let mut places = vec![0; met.len()];
        met.iter().enumerate().for_each(|(at, (_, met))| places[*met as usize] = at as u32);
        (met.into_iter().map(|(name, _)| name).collect(), places)
    }
}

/// A column that is read.
struct Column {
    name: String,
    /// Its position among the targets; `None` for inputs.
    target: Option<usize>,
}

/// A file that is being read.
struct TableExamples<'a> {
    path: &'a Path,
    options: &'a ExampleOptions,
    labels: &'a mut Labels,
    columns: Vec<Column>,
    values: Vec<f32>,
    classes: Vec<u32>,
    /// The first row of each class.
    first: Vec<Option<Place>>,
    numbers: Vec<f32>,
}

impl WideRows for TableExamples<'_> {
    fn choose(&mut self, names: &[String], has_names: bool) -> Result<Vec<usize>> {
        let chosen = choose(self.path, names, has_names, self.options)?;
        let column = |&(at, target): &(usize, _)| Column { name: names[at].clone(), target };
        self.columns = chosen.iter().map(column).collect();
        Ok(chosen.into_iter().map(|(at, _)| at).collect())
    }

    fn take(&mut self, place: Place, cells: &[Cell<'_>]) -> Result<()> {
        let (first, is_number) = (self.numbers.len(), self.options.regression);
        if is_number {
            self.numbers.resize(first + self.options.target.len(), 0.0);
        }
        for (cell, Column { name, target }) in cells.iter().zip(&self.columns) {
            let refused =
                |what: String| place.refused(self.path, format!("column `{name}` {what}"));
            match target {
                None => self.values.push(input(cell).map_err(refused)?),
                Some(at) if is_number => {
                    self.numbers[first + at] = number(cell).map_err(refused)?
                }
                Some(_) => {
                    let class = self.labels.number(&label(cell).map_err(refused)?);
                    let places = self.first.len().max(class as usize + 1);
                    self.first.resize(places, None);
                    self.first[class as usize].get_or_insert(place);
                    self.classes.push(class);
                }
            }
        }
        Ok(())
    }
}

/// The content of a file.
struct Read {
    path: PathBuf,
    inputs: Vec<String>,
    targets: Vec<String>,
    values: Vec<f32>,
    classes: Vec<u32>,
    first: Vec<Option<Place>>,
    numbers: Vec<f32>,
}

impl Read {
    fn new(path: &Path, options: &ExampleOptions, labels: &mut Labels) -> Result<Self> {
        let mut reading = options.records.clone();
        for name in options.target.iter().chain(&options.ignore_columns) {
            reading.columns.set(name, name); // a first line that contains one of them is a header
        }
        let (columns, values, classes, first, numbers) = Default::default();
        let mut table =
            TableExamples { path, options, labels, columns, values, classes, first, numbers };
        read_wide(path, &reading, &mut table)?;
        let TableExamples { mut columns, values, classes, first, numbers, .. } = table;
        columns.sort_by_key(|column| column.target); // inputs first, in order
        let n_inputs = columns.len() - options.target.len();
        let mut inputs: Vec<String> = columns.into_iter().map(|column| column.name).collect();
        let targets = inputs.split_off(n_inputs);
        Ok(Self { path: path.to_owned(), inputs, targets, values, classes, first, numbers })
    }

    fn note(&self) -> String {
        let (inputs, targets) = (listed(&self.inputs), listed(&self.targets));
        format!("{} inputs from columns {inputs}; target {targets}", self.inputs.len())
    }

    /// The examples with the indices of all classes, and the origin of their labels.
    fn examples(self, options: &ExampleOptions, numbers: &[u32]) -> (Examples, Origin) {
        let shape = ExampleShape::Row { columns: self.inputs.len() };
        let targets = if options.regression {
            Targets::Numbers { dim: options.target.len(), values: self.numbers }
        } else {
            let number = |label: u32| numbers[label as usize];
            Targets::Classes(self.classes.into_iter().map(number).collect())
        };
        let mut first = vec![None; numbers.len()];
        self.first.iter().zip(numbers).for_each(|(place, &class)| first[class as usize] = *place);
        let values = Values::Floats(self.values);
        (Examples { shape, values, targets }, Origin::Table(self.path, first))
    }
}

/// The columns that are read, each with its position among the targets if it is one.
fn choose(
    path: &Path,
    names: &[String],
    has_names: bool,
    options: &ExampleOptions,
) -> Result<Vec<(usize, Option<usize>)>> {
    let there = listed(names);
    let find = |flag: &str, asked: &String| {
        find_column(names, asked).ok_or_else(|| {
            let what = match has_names {
                true => format!("there is no column `{asked}`; the columns are {there}"),
                false => {
                    let last = names.len().saturating_sub(1);
                    format!("`{asked}` is not a column: the first line is data, so columns have numbers, 0 to {last}")
                }
            };
            Error::content(path, format!("{flag}: {what}"))
        })
    };
    let (target, ignore) = (&options.target, &options.ignore_columns);
    match target.len() {
        0 => {
            let what = format!("⟨target⟩ is missing: name the column to predict, one of {there}");
            return Err(Error::content(path, what));
        }
        2.. if !options.regression => {
            let what = "⟨target⟩ names several columns, which only ⟨regression⟩ predicts";
            return Err(Core::request(what, "").into());
        }
        _ => {}
    }
    let targets = target.iter().map(|asked| find("⟨target⟩", asked));
    let targets = targets.collect::<Result<Vec<usize>>>()?;
    let ignored = ignore.iter().map(|asked| find("⟨ignore-columns⟩", asked));
    let ignored = ignored.collect::<Result<Vec<usize>>>()?;
    let is_twice = |&i: &usize| targets[..i].contains(&targets[i]) || ignored.contains(&targets[i]);
    if let Some(twice) = (0..targets.len()).find(is_twice) {
        let name = &names[targets[twice]];
        let what = format!("⟨target⟩: column `{name}` is named twice");
        return Err(Core::request(what, "").into());
    }
    let chosen = (0..names.len()).filter(|at| !ignored.contains(at));
    let chosen: Vec<(usize, Option<usize>)> =
        chosen.map(|at| (at, targets.iter().position(|&target| target == at))).collect();
    let mut inputs = chosen.iter().filter(|(_, role)| role.is_none()).map(|&(at, _)| at).peekable();
    if inputs.peek().is_none() {
        let what = format!("no column is left for inputs; the columns are {there}");
        return Err(Error::content(path, what));
    }
    match inputs.find(|&at| names[at].is_empty() || names[at] == NAMELESS_INDEX) {
        None => Ok(chosen),
        Some(at) => {
            let what = format!("column {at} has no name, like an index written by pandas");
            let remedy = format!("write the table with index=False or pass ⟨ignore-columns⟩ {at}");
            Err(Error::content(path, format!("{what}; {remedy}")))
        }
    }
}

fn input(cell: &Cell<'_>) -> std::result::Result<f32, String> {
    let remedy = "repair it, or leave the column out with ⟨ignore-columns⟩";
    number(cell).map_err(|what| format!("{what}; {remedy}"))
}

/// A finite f32, or what is wrong with the cell.
pub(super) fn number(cell: &Cell<'_>) -> std::result::Result<f32, String> {
    let value = match cell {
        Cell::Int(value) => *value as f64,
        Cell::Float(value) => *value,
        Cell::Missing => return Err("is missing".into()),
        Cell::Text(text) if text.trim().is_empty() => return Err("is missing".into()),
        Cell::Text(text) => text
            .trim()
            .parse()
            .map_err(|_| format!("holds the text `{}`, not a number", cell.shown()))?,
    };
    match value as f32 {
        single if single.is_finite() => Ok(single),
        _ if value.is_finite() => Err(format!("holds {value}, too large for f32")),
        _ => Err(format!("holds {value}, not a finite number")),
    }
}

/// The name of a class; `3.0` is class `3`.
fn label(cell: &Cell<'_>) -> std::result::Result<String, String> {
    let missing = || Err("is missing; a class is needed".into());
    let whole = |value: f64| match value {
        _ if value.is_nan() => missing(),
        _ if value.fract() == 0.0 && value.abs() < 9e15 => Ok((value as i64).to_string()),
        _ => Err(format!("holds {value}, which is not a class; predict numbers with ⟨regression⟩")),
    };
    match *cell {
        Cell::Missing => missing(),
        Cell::Int(value) => Ok(value.to_string()),
        Cell::Float(value) => whole(value),
        Cell::Text(text) => match text.trim() {
            "" => missing(),
            text if text.parse::<i64>().is_ok() => Ok(text.to_owned()),
            text => text.parse::<f64>().map_or_else(|_| Ok(text.to_owned()), whole),
        },
    }
}
