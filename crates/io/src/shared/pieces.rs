//! Rows on disk in the order of another table: cut into pieces by their place there, each of which fits into memory.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use veridical_core::Error as Core;

use crate::{Error, Result};

/// Bytes of a piece, unless there would be too many pieces.
const PIECE_BYTES: usize = 8 << 20;
/// The largest number of pieces: each is a file that is open while rows are written.
const MOST_PIECES: usize = 256;
/// Bytes that are gathered for a piece before they are written.
const BUFFER: usize = 64 << 10;

/// A folder for pieces, removed with everything in it at the end.
#[derive(Debug)]
pub(super) struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    pub fn create(parent: &Path) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("veridical-scratch-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|e| failed(&folder, &e))?;
        Ok(Self { folder })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that cannot be removed is not worth an error: it is named for what it is.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The error of a scratch file, with the remedy.
pub(super) fn failed(path: &Path, error: &io::Error) -> Error {
    let what = format!("{}: cannot keep rows here: {error}", path.display());
    Core::missing(what, "pass a folder with enough space as ⟨scratch⟩").into()
}

/// Rows by place.
#[derive(Debug)]
pub(super) struct Pieces {
    dim: usize,
    /// The number of places of a piece.
    pub rows: usize,
    files: Vec<Option<Piece>>,
    base: PathBuf,
}

#[derive(Debug)]
struct Piece {
    path: PathBuf,
    writer: Option<BufWriter<File>>,
}

impl Pieces {
    /// Starts pieces of rows of `dim` values at places below `places`, if that is known.
    pub fn new(scratch: &Scratch, name: &str, dim: usize, places: Option<usize>) -> Self {
        let fitting = (PIECE_BYTES / (size_of::<f32>() * dim)).max(1);
        let rows = fitting.max(places.unwrap_or(0).div_ceil(MOST_PIECES));
        Self { dim, rows, files: Vec::new(), base: scratch.path(name) }
    }

    /// Bytes of one row on disk.
    pub const fn row_bytes(dim: usize) -> u64 {
        (size_of::<u32>() + dim * size_of::<f32>()) as u64
    }

    /// Adds a row.
    pub fn push(&mut self, place: usize, row: &[f32]) -> Result<()> {
        let at = place / self.rows;
        if self.files.len() <= at {
            self.files.resize_with(at + 1, || None);
        }
        let piece = match &mut self.files[at] {
            Some(piece) => piece,
            empty => {
                let path = PathBuf::from(format!("{}-{at}", self.base.display()));
                let file = File::create(&path).map_err(|e| failed(&path, &e))?;
                let writer = Some(BufWriter::with_capacity(BUFFER, file));
                empty.insert(Piece { path, writer })
            }
        };
        let Piece { path, writer } = piece;
        let Some(writer) = writer else { return Ok(()) };
        let inside = (place % self.rows) as u32;
        let bytes: Vec<u8> = row.iter().flat_map(|x| x.to_le_bytes()).collect();
        writer
            .write_all(&inside.to_le_bytes())
            .and_then(|()| writer.write_all(&bytes))
            .map_err(|e| failed(path, &e))
    }

    /// Writes what is left in the buffers.
    pub fn finish(&mut self) -> Result<()> {
        for Piece { path, writer } in self.files.iter_mut().flatten() {
            if let Some(mut writer) = writer.take() {
                writer.flush().map_err(|e| failed(path, &e))?;
            }
        }
        Ok(())
    }

    /// Reads the rows of one piece to their places in it.
    pub fn load(&self, at: usize, rows: &mut Vec<f32>) -> Result<()> {
        rows.clear();
        rows.resize(self.rows * self.dim, 0.0);
        let Some(Piece { path, .. }) = self.files.get(at).and_then(Option::as_ref) else {
            return Ok(());
        };
        let file = File::open(path).map_err(|e| failed(path, &e))?;
        let left = file.metadata().map_err(|e| failed(path, &e))?.len();
        let mut file = BufReader::with_capacity(1 << 20, file);
        let mut record = vec![0; Self::row_bytes(self.dim) as usize];
        for _ in 0..left / record.len() as u64 {
            file.read_exact(&mut record).map_err(|e| failed(path, &e))?;
            let (place, values) = record.split_at(size_of::<u32>());
            let place = u32::from_le_bytes(place.try_into().unwrap_or_default()) as usize;
            let row = rows.get_mut(place * self.dim..(place + 1) * self.dim).ok_or_else(|| {
                failed(path, &io::Error::other("the piece was changed while it was read"))
            })?;
            for (x, bytes) in row.iter_mut().zip(values.as_chunks::<4>().0) {
                *x = f32::from_le_bytes(*bytes);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_to_their_places() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::create(parent.path()).unwrap();
        let mut pieces = Pieces::new(&scratch, "rows", 2, None);
        pieces.rows = 10;
        let order: Vec<usize> = (0..35).map(|i| i * 17 % 35).collect();
        for &place in &order {
            pieces.push(place, &[place as f32, -1.0]).unwrap();
        }
        pieces.finish().unwrap();
        let mut rows = Vec::new();
        for place in 0..35 {
            pieces.load(place / 10, &mut rows).unwrap();
            assert_eq!(rows[place % 10 * 2..][..2], [place as f32, -1.0]);
        }
        drop(scratch);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_scratch_that_cannot_be_written_is_named() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        let message = Scratch::create(&file).unwrap_err().to_string();
        assert!(message.contains("file") && message.contains("⟨scratch⟩"), "{message}");
    }
}
