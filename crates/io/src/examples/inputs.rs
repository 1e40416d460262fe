//! Examples without targets: what a trained network is applied to.
//!
//! A table needs the input columns of the training, in any order, and may have others; a folder of images is every image below
//! it; of idx files, CIFAR and sheets the test set is used, or else the training set, and labels are not looked at.

use std::path::Path;

use veridical_data::Ids;
use veridical_data::examples::{ExampleShape, Examples, Targets, Values};

use super::folder::{Folder, Layout};
use super::{Found, cifar, idx, images, rows, sheets};
use crate::read::is_skipped;
use crate::records::{Cell, Place, WideRows, find_column, read_wide};
use crate::{Error, RecordOptions, Result, storage};

/// How inputs are read.
#[derive(Clone, Debug, Default)]
pub struct InputOptions {
    /// The input columns of a table, in their order.
    pub columns: Vec<String>,
    /// The column of the ids of a table; `id`, if there is such a column that is no input, or else row numbers.
    pub id_column: Option<String>,
    /// How tables are read.
    pub records: RecordOptions,
}

/// Examples without targets.
#[derive(Clone, Debug, PartialEq)]
pub struct Inputs {
    /// Ids of a table, paths of images below their folder, or numbers.
    pub ids: Ids,
    /// The inputs; their targets are empty.
    pub examples: Examples,
    /// Note for the user on what was read.
    pub note: Option<String>,
}

/// Reads examples without targets from a table or a folder.
///
/// # Errors
/// Those of [`read_examples`](super::read_examples), and [`Error::Content`] for a table without one of the columns.
pub fn read_inputs(path: &Path, options: &InputOptions) -> Result<Inputs> {
    storage::explained(|| match storage::list(path, is_skipped)? {
        None => table(path, options),
        Some(files) => {
            let folder = Folder::new(path, files);
            let layout = match folder.layout() {
                // Images need no folders of classes here.
                Err(_) if images::are_direct(&folder) => Layout::Images,
                layout => layout?,
            };
            match layout {
                Layout::Images => images::read_all(&folder),
                Layout::Rows => {
                    let (file, note) = rows::one_part(&folder)?;
                    Ok(Inputs { note, ..table(file, options)? })
                }
                Layout::Idx => idx::read_images(&folder),
                Layout::Cifar => test_or_train(path, cifar::read(&folder)?),
                Layout::Sheets => test_or_train(path, sheets::read(&folder)?),
            }
        }
    })
}

fn test_or_train(path: &Path, found: Found) -> Result<Inputs> {
    let note = found.train.is_some().then(|| TEST_SET.to_owned()).filter(|_| found.test.is_some());
    let examples = found.test.or(found.train).ok_or_else(|| Error::no_rows(path))?;
    Ok(by_number(Examples { targets: Targets::Classes(Vec::new()), ..examples }, note))
}

/// The note about a folder with both sets.
pub(super) const TEST_SET: &str = "the folder has a training and a test set: the test set is used";

pub(super) fn by_number(examples: Examples, note: Option<String>) -> Inputs {
    Inputs { ids: Ids::numbered(0, examples.n()), examples, note }
}

fn table(path: &Path, options: &InputOptions) -> Result<Inputs> {
    if options.columns.is_empty() {
        let what = "is a table, and the model was not trained on the columns of one";
        return Err(Error::content(path, what));
    }
    let mut reading = options.records.clone();
    for name in options.columns.iter().chain(&options.id_column) {
        reading.columns.set(name, name); // a first line that contains one of them is a header
    }
    let mut table =
        TableInputs { path, options, roles: Vec::new(), values: Vec::new(), ids: Vec::new() };
    read_wide(path, &reading, &mut table)?;
    let TableInputs { roles, values, ids, .. } = table;
    let shape = ExampleShape::Row { columns: options.columns.len() };
    let targets = Targets::Classes(Vec::new());
    let examples = Examples { shape, values: Values::Floats(values), targets };
    let has_ids = roles.iter().any(Option::is_none);
    match has_ids {
        true => Ok(Inputs { ids: Ids::of_texts(ids), examples, note: None }),
        false => Ok(by_number(examples, None)),
    }
}

/// A table that is being read.
struct TableInputs<'a> {
    path: &'a Path,
    options: &'a InputOptions,
    /// The input of every column that is read; `None` for the ids.
    roles: Vec<Option<usize>>,
    values: Vec<f32>,
    ids: Vec<String>,
}

impl WideRows for TableInputs<'_> {
    fn choose(&mut self, names: &[String], _has_names: bool) -> Result<Vec<usize>> {
        let find = |asked: &String| {
            find_column(names, asked).ok_or_else(|| {
                let there = super::classes::listed(names);
                let what = format!("there is no column `{asked}`; the columns are {there}");
                Error::content(self.path, what)
            })
        };
        let mut chosen: Vec<(usize, Option<usize>)> = Vec::new();
        for (input, name) in self.options.columns.iter().enumerate() {
            chosen.push((find(name)?, Some(input)));
        }
        let id = match &self.options.id_column {
            Some(name) => Some(find(name)?),
            None => names.iter().position(|name| name == "id"),
        };
        chosen.extend(id.filter(|id| !chosen.iter().any(|(at, _)| at == id)).map(|id| (id, None)));
        chosen.sort_unstable();
        self.roles = chosen.iter().map(|(_, role)| *role).collect();
        Ok(chosen.into_iter().map(|(at, _)| at).collect())
    }

    fn take(&mut self, place: Place, cells: &[Cell<'_>]) -> Result<()> {
        let first = self.values.len();
        self.values.resize(first + self.options.columns.len(), 0.0);
        for (cell, role) in cells.iter().zip(&self.roles) {
            match role {
                None => self.ids.push(cell.shown().trim().to_owned()),
                Some(input) => {
                    let name = &self.options.columns[*input];
                    let value = rows::number(cell).map_err(|what| {
                        place.refused(self.path, format!("column `{name}` {what}"))
                    })?;
                    self.values[first + input] = value;
                }
            }
        }
        Ok(())
    }
}
