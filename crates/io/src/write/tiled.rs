//! An npy matrix that is written tile by tile, in any order, and can be resumed after any of them.
//!
//! The file has its final size from the beginning. Beside it `_tiles` has a byte for every tile, which is set when the tile, and of a
//! symmetric matrix its mirror image, is in its place.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::npy::{HEADER, matrix_header};
use crate::{Dtype, Error, Result};

const JOURNAL: &str = "_tiles";

/// A matrix of f32 that is written tile by tile.
#[derive(Debug)]
pub struct TiledMatrix {
    path: PathBuf,
    file: File,
    journal_path: PathBuf,
    journal: File,
    rows: usize,
    columns: usize,
    tile: usize,
    is_symmetric: bool,
    done: Vec<bool>,
}

impl TiledMatrix {
    /// Opens the matrix `name` of a folder, with the tiles that it has; of a symmetric one only tiles on and above the diagonal are
    /// written, and mirrored.
    ///
    /// # Errors
    /// [`Error::Write`] if it cannot be written.
    pub fn open(
        folder: &Path,
        name: &str,
        (rows, columns): (usize, usize),
        tile: usize,
        is_symmetric: bool,
    ) -> Result<Self> {
        let (path, journal_path) = (folder.join(name), folder.join(JOURNAL));
        let count = rows.div_ceil(tile) * columns.div_ceil(tile);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let open = |path: &Path| options.open(path).map_err(|e| Error::write(path, e));
        let (mut file, mut journal) = (open(&path)?, open(&journal_path)?);
        let mut marks = Vec::new();
        journal.read_to_end(&mut marks).map_err(|e| Error::read(&journal_path, "read", e))?;
        let failed = |e| Error::write(&path, e);
        if marks.len() != count {
            let bytes = HEADER as u64 + rows as u64 * columns as u64 * 4;
            file.set_len(bytes).map_err(failed)?;
            file.seek(SeekFrom::Start(0)).map_err(failed)?;
            file.write_all(&matrix_header(Dtype::F32, rows as u64, columns)).map_err(failed)?;
            marks = vec![0; count];
            journal
                .set_len(0)
                .and_then(|()| journal.seek(SeekFrom::Start(0)))
                .and_then(|_| journal.write_all(&marks))
                .map_err(|e| Error::write(&journal_path, e))?;
        }
        let done = marks.iter().map(|mark| *mark == 1).collect();
        Ok(Self { path, file, journal_path, journal, rows, columns, tile, is_symmetric, done })
    }

    fn place(&self, row: usize, column: usize) -> usize {
        row / self.tile * self.columns.div_ceil(self.tile) + column / self.tile
    }

    /// Returns whether the tile that begins there is written.
    pub fn has(&self, row: usize, column: usize) -> bool {
        self.done[self.place(row, column)]
    }

    /// Returns how many tiles are written.
    pub fn count(&self) -> usize {
        self.done.iter().filter(|done| **done).count()
    }

    /// Writes a tile of `width` columns.
    ///
    /// # Errors
    /// [`Error::Write`] if writing fails.
    pub fn put(&mut self, row: usize, column: usize, width: usize, values: &[f32]) -> Result<()> {
        self.write(row, column, width, values)?;
        if self.is_symmetric && row != column {
            let height = values.len() / width;
            let turned: Vec<f32> =
                (0..width).flat_map(|j| (0..height).map(move |i| values[i * width + j])).collect();
            self.write(column, row, height, &turned)?;
        }
        let place = self.place(row, column);
        self.journal
            .seek(SeekFrom::Start(place as u64))
            .and_then(|_| self.journal.write_all(&[1]))
            .map_err(|e| Error::write(&self.journal_path, e))?;
        self.done[place] = true;
        Ok(())
    }

    fn write(&mut self, row: usize, column: usize, width: usize, values: &[f32]) -> Result<()> {
        // Rows of full width are one piece.
        let piece = if width == self.columns { values.len() } else { width };
        debug_assert!(row + values.len() / width <= self.rows, "the tile lies inside");
        for (i, part) in values.chunks(piece).enumerate() {
            let bytes: Vec<u8> = part.iter().flat_map(|x| x.to_le_bytes()).collect();
            let at = ((row + i) * self.columns + column) as u64 * 4 + HEADER as u64;
            self.file
                .seek(SeekFrom::Start(at))
                .and_then(|_| self.file.write_all(&bytes))
                .map_err(|e| Error::write(&self.path, e))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReadOptions, Source, read_table};

    #[test]
    fn tiles_in_any_order_give_the_matrix_and_are_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let value = |i: usize, j: usize| (i.min(j) * 10 + i.max(j)) as f32;
        for is_symmetric in [true, false] {
            let name = format!("{is_symmetric}.npy");
            let _ = std::fs::remove_file(folder.path().join(JOURNAL));
            let open = || TiledMatrix::open(folder.path(), &name, (7, 7), 3, is_symmetric).unwrap();
            let all: Vec<(usize, usize)> = (0..3)
                .flat_map(|i| (0..3).map(move |j| (3 * i, 3 * j)))
                .filter(|(i, j)| !is_symmetric || i <= j)
                .collect();
            for (n, &(row, column)) in all.iter().rev().enumerate() {
                let mut matrix = open();
                assert_eq!(matrix.count(), n);
                let (rows, columns) = (row..(row + 3).min(7), column..(column + 3).min(7));
                let width = columns.len();
                let values: Vec<f32> =
                    rows.flat_map(|i| columns.clone().map(move |j| value(i, j))).collect();
                matrix.put(row, column, width, &values).unwrap();
                assert!(matrix.has(row, column) && open().has(row, column));
            }
            let source = Source::Path(folder.path().join(&name));
            let table = read_table(&source, &ReadOptions::default()).unwrap();
            assert!((0..49).all(|p| table.vectors[p] == value(p / 7, p % 7)));
        }
    }
}
