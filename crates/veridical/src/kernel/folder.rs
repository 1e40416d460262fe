//! The folder of a kernel: its matrix, its document, the ids of its rows.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use arrow_schema::{DataType, Field};
use veridical_data::Ids;
use veridical_io::publish::WorkFolder;
use veridical_io::{ColumnWriter, ReadOptions, TiledMatrix, read_ids};
use veridical_kernels::gram::{TILE, Tile, Tiles};

use crate::{Error, Result};

/// Name of the document.
pub(super) const DOCUMENT: &str = "k.json";
/// Name of the matrix.
pub(super) const MATRIX: &str = "k.npy";
/// Names of the tables of ids and labels, of rows and of columns.
pub(super) const NAMES: [&str; 2] = ["rows.csv", "columns.csv"];

/// A matrix that is being written.
pub(super) struct Writing(TiledMatrix);

impl Writing {
    pub fn open(work: &WorkFolder, size: (usize, usize), is_symmetric: bool) -> Result<Self> {
        Ok(Self(TiledMatrix::open(work.path(), MATRIX, size, TILE, is_symmetric)?))
    }

    pub fn count(&self) -> usize {
        self.0.count()
    }
}

impl Tiles for Writing {
    type Error = Error;

    fn has(&self, row: usize, column: usize) -> bool {
        self.0.has(row, column)
    }

    fn put(&mut self, tile: &Tile) -> Result<()> {
        let (row, column) = (tile.rows.start, tile.columns.start);
        Ok(self.0.put(row, column, tile.columns.len(), &tile.values)?)
    }
}

/// Writes ids and labels.
pub(super) fn write_names(path: &Path, ids: &Ids, labels: &[Option<String>]) -> Result<()> {
    let fields =
        vec![Field::new("id", DataType::Utf8, false), Field::new("label", DataType::Utf8, true)];
    let mut writer = ColumnWriter::create(path, fields)?;
    let ids = StringArray::from_iter_values((0..ids.len()).map(|i| ids.get(i)));
    let labels = labels.iter().map(Option::as_deref).collect::<StringArray>();
    writer.write(vec![Arc::new(ids) as ArrayRef, Arc::new(labels)])?;
    Ok(writer.finish()?)
}

/// Reads ids and labels.
pub(super) fn read_names(path: &Path) -> Result<Vec<(String, Option<String>)>> {
    let options = |column: &str| ReadOptions {
        id_column: Some(column.into()),
        text_ids: true,
        ..ReadOptions::default()
    };
    let ids = read_ids(path, &options("id"))?;
    let labels = read_ids(path, &options("label")).ok();
    let label = |i: usize| labels.as_ref().map(|labels| labels.get(i)).filter(|l| !l.is_empty());
    Ok((0..ids.len()).map(|i| (ids.get(i), label(i))).collect())
}

/// Keeps an unfinished folder that can be resumed, and removes any other.
pub(super) fn settled(work: WorkFolder, error: Error) -> Error {
    let error = if error.is_interrupted() { Error::Interrupted } else { error };
    let is_resumable = match &error {
        Error::Io(e) => e.is_resumable(),
        other => other.is_interrupted(),
    };
    if !is_resumable {
        work.abandon();
    }
    error
}
