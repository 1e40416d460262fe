//! The rows of one table, window by window in the order of the first table.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::PathBuf;

use arrow_array::StringArray;
use arrow_array::builder::StringBuilder;
use veridical_data::Ids;

use super::pieces::failed;
use super::{Pieces, SharedFiles, Stored, TextIds};
use crate::{Chunk, Error, Result, TableReader};

/// A position in a table; windows only move forward.
pub(super) struct Cursor<'a> {
    dim: usize,
    rows: Rows<'a>,
    /// The text ids of the window, if this is the first table.
    ids: Option<WindowIds<'a>>,
}

enum Rows<'a> {
    Kept(&'a [f32]),
    OnDisk { again: Option<Box<Again<'a>>>, pieces: Option<Loaded<'a>> },
}

/// The rows that are read again.
struct Again<'a> {
    name: &'a str,
    reader: TableReader,
    chunk: Option<Chunk>,
    /// The next row of the chunk.
    at: usize,
    /// The rows that are left.
    left: u64,
    /// For the next rows, whether the first table has them; `None` for the first table.
    known: Option<Box<dyn Iterator<Item = bool> + 'a>>,
    /// The places of the rows that it has.
    places: Box<dyn Iterator<Item = usize> + 'a>,
    /// The place of the row under the cursor.
    place: Option<usize>,
}

/// The piece that was read last.
struct Loaded<'a> {
    pieces: &'a Pieces,
    piece: Option<usize>,
    rows: Vec<f32>,
}

enum WindowIds<'a> {
    Kept { ids: &'a StringArray, window: StringBuilder },
    Read { window: StringBuilder },
    Spooled { path: &'a PathBuf, file: BufReader<File>, next: usize, window: StringBuilder },
}

impl<'a> Cursor<'a> {
    pub fn open(files: &'a SharedFiles, number: usize) -> Result<Self> {
        let (table, dim) = (&files.tables[number], files.dims[number]);
        let rows = match &files.stored[number] {
            Stored::Kept(rows) => Rows::Kept(rows),
            Stored::OnDisk { in_order, known, places, pieces } => {
                let again = (*in_order > 0)
                    .then(|| -> Result<Box<Again<'a>>> {
                        let first = number == 0;
                        let known: Option<Box<dyn Iterator<Item = bool>>> = match first {
                            true => None,
                            false => Some(Box::new((0..).map(|row| known.get(row)))),
                        };
                        let places: Box<dyn Iterator<Item = usize>> = match first {
                            true => Box::new(0..),
                            false => Box::new(places.from(0)),
                        };
                        Ok(Box::new(Again {
                            name: &table.name,
                            reader: TableReader::open(&table.source, &table.options)?,
                            chunk: None,
                            at: 0,
                            left: *in_order,
                            known,
                            places,
                            place: None,
                        }))
                    })
                    .transpose()?;
                let pieces = pieces.as_ref();
                let pieces = pieces.map(|pieces| Loaded { pieces, piece: None, rows: Vec::new() });
                Rows::OnDisk { again, pieces }
            }
        };
        let text = number == 0 && files.index.integers().is_none();
        let ids = match &files.text_ids {
            _ if !text => None,
            TextIds::Kept(Ids::Text(ids)) => {
                Some(WindowIds::Kept { ids, window: StringBuilder::new() })
            }
            TextIds::Spooled(path) => {
                let file = File::open(path).map_err(|e| failed(path, &e))?;
                let file = BufReader::with_capacity(1 << 20, file);
                Some(WindowIds::Spooled { path, file, next: 0, window: StringBuilder::new() })
            }
            _ => Some(WindowIds::Read { window: StringBuilder::new() }),
        };
        Ok(Self { dim, rows, ids })
    }

    /// Fills the rows at these places of the first table, which rise from window to window.
    pub fn fill(&mut self, wanted: &[u32], rows: &mut Vec<f32>) -> Result<()> {
        let Self { dim, rows: stored, ids } = self;
        let dim = *dim;
        rows.clear();
        rows.resize(wanted.len() * dim, 0.0);
        match ids {
            Some(WindowIds::Kept { ids, window }) => {
                wanted.iter().for_each(|&at| window.append_value(ids.value(at as usize)));
            }
            Some(WindowIds::Spooled { path, file, next, window }) => {
                for &at in wanted {
                    let id = read_id(file, at as usize - *next).map_err(|e| failed(path, &e))?;
                    window.append_value(id);
                    *next = at as usize + 1;
                }
            }
            _ => {}
        }
        let (again, pieces) = match stored {
            Rows::Kept(kept) => {
                for (row, &at) in rows.chunks_exact_mut(dim).zip(wanted) {
                    row.copy_from_slice(&kept[at as usize * dim..][..dim]);
                }
                return Ok(());
            }
            Rows::OnDisk { again, pieces } => (again, pieces),
        };
        for (row, &at) in rows.chunks_exact_mut(dim).zip(wanted) {
            let at = at as usize;
            if let Some(again) = again
                && again.seek(at)?
            {
                row.copy_from_slice(again.row(dim));
                if let Some(WindowIds::Read { window }) = ids {
                    window.append_value(again.id());
                }
                continue;
            }
            let Some(loaded) = pieces else {
                let name = again.as_ref().map_or("a table", |again| again.name);
                return Err(changed(name));
            };
            row.copy_from_slice(loaded.row(at, dim)?);
        }
        Ok(())
    }

    /// Takes the text ids of the window.
    pub fn take_ids(&mut self) -> Ids {
        let window = match &mut self.ids {
            Some(
                WindowIds::Kept { window, .. }
                | WindowIds::Read { window }
                | WindowIds::Spooled { window, .. },
            ) => window.finish(),
            None => StringArray::from_iter_values(std::iter::empty::<&str>()),
        };
        Ids::Text(window)
    }
}

fn changed(name: &str) -> Error {
    Error::content(name, "the table changed while it was read; run it again when it is complete")
}

impl Again<'_> {
    /// Moves to the row at a place of the first table; whether it is among the rows in order.
    fn seek(&mut self, wanted: usize) -> Result<bool> {
        loop {
            if let Some(place) = self.place
                && place >= wanted
            {
                return Ok(place == wanted);
            }
            if !self.step()? {
                return Ok(false);
            }
        }
    }

    /// Moves to the next row that the first table has; whether there is one.
    fn step(&mut self) -> Result<bool> {
        loop {
            if self.left == 0 {
                return Ok(false);
            }
            let rows = self.chunk.as_ref().map_or(0, Chunk::n_rows);
            // The cursor stands before the first row of a table, and on a row otherwise.
            let next = if self.chunk.is_some() { self.at + 1 } else { 0 };
            if next >= rows {
                self.chunk = Some(self.reader.next_chunk()?.ok_or_else(|| changed(self.name))?);
                self.at = 0;
            } else {
                self.at = next;
            }
            self.left -= 1;
            if self.known.as_mut().is_none_or(|known| known.next() == Some(true)) {
                self.place = self.places.next();
                return Ok(self.place.is_some());
            }
        }
    }

    fn row(&self, dim: usize) -> &[f32] {
        let vectors = self.chunk.as_ref().map_or(&[][..], |chunk| &chunk.vectors[..]);
        &vectors[self.at * dim..][..dim]
    }

    fn id(&self) -> &str {
        match self.chunk.as_ref().map(|chunk| &chunk.ids) {
            Some(Ids::Text(ids)) => ids.value(self.at),
            _ => "",
        }
    }
}

impl Loaded<'_> {
    fn row(&mut self, at: usize, dim: usize) -> Result<&[f32]> {
        let piece = at / self.pieces.rows;
        if self.piece != Some(piece) {
            self.pieces.load(piece, &mut self.rows)?;
            self.piece = Some(piece);
        }
        Ok(&self.rows[at % self.pieces.rows * dim..][..dim])
    }
}

/// The text ids of a table in a file, in order: lengths and bytes.
pub(super) struct IdSpool {
    path: PathBuf,
    file: BufWriter<File>,
}

impl IdSpool {
    pub fn create(path: PathBuf) -> Result<Self> {
        let file = File::create(&path).map_err(|e| failed(&path, &e))?;
        Ok(Self { path, file: BufWriter::with_capacity(1 << 18, file) })
    }

    pub fn push(&mut self, ids: &Ids) -> Result<()> {
        let Ids::Text(ids) = ids else { return Ok(()) }; // integers are in the index
        for id in ids.iter().flatten() {
            let len = (id.len() as u32).to_le_bytes();
            let written =
                self.file.write_all(&len).and_then(|()| self.file.write_all(id.as_bytes()));
            written.map_err(|e| failed(&self.path, &e))?;
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<PathBuf> {
        self.file.flush().map_err(|e| failed(&self.path, &e))?;
        Ok(self.path)
    }
}

/// The next id of a spool, after some that are passed over.
fn read_id(file: &mut BufReader<File>, pass: usize) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    for _ in 0..=pass {
        let mut len = [0; 4];
        file.read_exact(&mut len)?;
        bytes.resize(u32::from_le_bytes(len) as usize, 0);
        file.read_exact(&mut bytes)?;
    }
    String::from_utf8(bytes).map_err(std::io::Error::other)
}
