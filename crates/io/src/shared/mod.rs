//! Vector tables joined on their ids, in memory that does not grow with their rows.
//!
//! Every table is read once to number its ids (`index.rs`). Rows are then visited in the order of the first table, window by
//! window, as often as needed ([`Passes`]): small tables are kept in memory, others are read again as long as their rows come in
//! that order. From the first row on that does not, the rows of a table are cut by their place in the first one into
//! pieces on disk (`pieces.rs`), as are those of text files, which are slow to read, and of streams, which cannot be read again.

mod bits;
mod cursor;
mod index;
mod pieces;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use veridical_core::{Error as Core, Job, Result as Checked};
use veridical_data::passes::window_rows;
use veridical_data::{Ids, Passes, Window};

use self::bits::Bits;
use self::cursor::Cursor;
use self::index::IdIndex;
pub(crate) use self::index::text_key;
use self::pieces::{Pieces, Scratch};
use crate::{Chunk, Error, Format, ReadOptions, Result, Source, TableReader};

/// Bytes of rows that are kept in memory, of all tables together.
const KEPT: u64 = 64 << 20;
/// Part of the memory that kept rows may take.
const KEPT_PART: u64 = 8;

/// A table of a join.
#[derive(Clone, Debug)]
pub struct SharedTable {
    /// The name in messages.
    pub name: String,
    /// The table.
    pub source: Source,
    /// How it is read.
    pub options: ReadOptions,
}

/// The means of a join.
#[derive(Clone, Debug)]
pub struct JoinOptions {
    /// The memory that may be used, in bytes.
    pub memory: u64,
    /// The memory that the caller needs besides, for tables of these dimensions and this many rows, in bytes.
    pub besides: fn(&[usize], u64) -> u64,
    /// The folder for rows that are cut into pieces.
    pub scratch: PathBuf,
}

/// Rows of a table as they are read for the first time.
#[derive(Clone, Copy, Debug)]
pub struct FirstRead<'a> {
    /// The number of the table.
    pub table: usize,
    /// The number of the first row.
    pub first: usize,
    /// The rows.
    pub chunk: &'a Chunk,
    /// For every row, whether the first table lacks its id.
    pub is_new: &'a [bool],
}

/// How the ids of a table relate to those of the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinCount {
    /// The number of rows.
    pub rows: usize,
    /// The number of ids of the first table that it lacks.
    pub missing: usize,
    /// The number of its ids that the first table lacks.
    pub extra: usize,
}

/// The rows that tables on disk share.
pub struct SharedFiles {
    tables: Vec<SharedTable>,
    dims: Vec<usize>,
    index: IdIndex,
    /// The rows of the first table whose ids all tables have.
    shared: Bits,
    n: usize,
    stored: Vec<Stored>,
    /// The text ids of the first table, if its rows are kept in memory or in pieces.
    text_ids: TextIds,
    /// Removed with the join.
    _scratch: Option<Arc<Scratch>>,
}

impl std::fmt::Debug for SharedFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.tables.iter().map(|table| table.name.as_str()).collect();
        f.debug_struct("SharedFiles").field("tables", &names).field("n", &self.n).finish()
    }
}

/// Where the rows of a table are.
#[derive(Debug)]
enum Stored {
    /// In memory, by their place in the first table.
    Kept(Vec<f32>),
    /// In the table itself, and in pieces.
    OnDisk {
        /// The rows of the table, from its first on, that come in the order of the first table.
        in_order: u64,
        /// Which of these rows the first table has; empty if it is the first.
        known: Bits,
        /// Their places in the first table; empty if it is the first.
        places: Bits,
        /// The others.
        pieces: Option<Pieces>,
    },
}

/// The text ids of the first table.
#[derive(Debug)]
enum TextIds {
    /// Integers are in the index, and a table that is read again has its ids.
    Elsewhere,
    Kept(Ids),
    /// Their lengths and bytes in a file.
    Spooled(PathBuf),
}

/// Joins tables on their ids; `observe` sees every row of every table once, in order.
///
/// # Errors
/// Those of reading; [`Core::Unfit`] for ids that repeat or have different types, [`Core::Setting`] for too little memory,
/// [`Core::Missing`] for a scratch folder that cannot be written, [`Core::Interrupted`] if the user interrupts.
pub fn join_tables(
    tables: Vec<SharedTable>,
    options: &JoinOptions,
    job: &Job<'_>,
    observe: &mut dyn FnMut(FirstRead<'_>),
) -> Result<(SharedFiles, Vec<JoinCount>)> {
    let mut join = Join {
        options,
        kept_left: KEPT.min(options.memory / KEPT_PART),
        index: None,
        first_name: tables.first().map_or(String::new(), |table| table.name.clone()),
        first_rows: 0,
        dims: Vec::new(),
        scratch: None,
        text_ids: TextIds::Elsewhere,
    };
    let mut shared = Bits::default();
    let (mut stored, mut counts) = (Vec::new(), Vec::new());
    for (number, table) in tables.iter().enumerate() {
        let (rows, seen, place) = join.read(number, table, job, observe)?;
        if number == 0 {
            join.first_rows = rows;
            shared = Bits::all(rows);
        }
        let mut known = Bits::all(join.first_rows);
        if number > 0 {
            known.and(&seen);
            shared.and(&seen);
        }
        let kept = known.count();
        let (missing, extra) = (join.first_rows - kept, rows - kept);
        counts.push(JoinCount { rows, missing, extra });
        stored.push(place);
    }
    shared.rank_all();
    let index = join.index.ok_or_else(|| Core::missing("a join needs at least one table", ""))?;
    let Join { dims, text_ids, scratch, .. } = join;
    let n = shared.count();
    Ok((
        SharedFiles { tables, dims, index, n, shared, stored, text_ids, _scratch: scratch },
        counts,
    ))
}

/// A join under way.
struct Join<'a> {
    options: &'a JoinOptions,
    /// Bytes that may still be kept.
    kept_left: u64,
    index: Option<IdIndex>,
    first_name: String,
    first_rows: usize,
    dims: Vec<usize>,
    scratch: Option<Arc<Scratch>>,
    text_ids: TextIds,
}

impl Join<'_> {
    /// Reads one table: the number of its rows, the ids it has, and where its rows are.
    fn read(
        &mut self,
        number: usize,
        table: &SharedTable,
        job: &Job<'_>,
        observe: &mut dyn FnMut(FirstRead<'_>),
    ) -> Result<(usize, Bits, Stored)> {
        let mut reader = TableReader::open(&table.source, &table.options)?;
        reader.notes().iter().for_each(|note| job.note(&format!("{}: {note}", table.name)));
        let dim = reader.schema().dim;
        self.dims.push(dim);
        let expected = reader.n_rows();
        let bar = job.progress(&format!("reading {}", table.name), "rows", expected);
        let mut storing = self.storing(number, table, dim);
        let (mut rows, mut seen) = (0, Bits::none(self.first_rows));
        let mut is_new = Vec::new();
        while let Some(chunk) = reader.next_chunk()? {
            bar.check()?;
            let numbers = self.numbers(table, &chunk, expected)?;
            is_new.clear();
            for (i, &id) in numbers.iter().enumerate() {
                let id = id as usize;
                let repeated = match number {
                    0 => id != rows + i,
                    _ => {
                        seen.grow(id + 1);
                        seen.set(id)
                    }
                };
                if repeated {
                    return Err(twice(table, &chunk.ids.get(i), rows + i));
                }
                is_new.push(number > 0 && id >= self.first_rows);
            }
            storing.add(self, &chunk, rows, &numbers, &is_new, expected, job)?;
            observe(FirstRead { table: number, first: rows, chunk: &chunk, is_new: &is_new });
            rows += chunk.n_rows();
            bar.advance(chunk.n_rows() as u64);
        }
        if rows == 0 {
            return Err(Core::unfit(format!("{}: no rows remain", table.name), "").into());
        }
        for warning in reader.warnings() {
            job.warn(&format!("{}: {warning}", table.name));
        }
        Ok((rows, seen, storing.finish(self)?))
    }

    /// The numbers of the ids of a chunk.
    fn numbers(
        &mut self,
        table: &SharedTable,
        chunk: &Chunk,
        expected: Option<u64>,
    ) -> Result<Vec<u32>> {
        let room = expected.unwrap_or(0).min(1 << 30) as usize;
        let index = self.index.get_or_insert_with(|| IdIndex::new(&chunk.ids, room));
        if !index.takes(&chunk.ids) {
            let names = [self.first_name.as_str(), &table.name];
            let [text, integers] = match chunk.ids {
                Ids::Int(_) => names,
                Ids::Text(_) => [names[1], names[0]],
            };
            return Err(Core::unfit(
                format!("{text} has text ids and {integers} has integer ids"),
                "pass ⟨text-ids⟩ to read all ids as text, or name the rows of a table without ids with ⟨ids⟩",
            )
            .into());
        }
        if index.len() + chunk.n_rows() >= u32::MAX as usize {
            return Err(Error::content(&table.name, "the tables have more than 4 billion ids"));
        }
        let text = matches!(chunk.ids, Ids::Text(_));
        let rows = (index.len() + chunk.n_rows()).max(room) as u64;
        let needed = IdIndex::bytes(rows, text) + (self.options.besides)(&self.dims, rows);
        if needed > self.options.memory {
            let must_be = format!(
                "at least {} for tables of {rows} ids and dimension {}",
                shown(needed),
                self.dims.iter().max().unwrap_or(&0)
            );
            return Err(Core::setting("memory", must_be, shown(self.options.memory)).into());
        }
        Ok(index.numbers(&chunk.ids))
    }

    fn storing(&mut self, number: usize, table: &SharedTable, dim: usize) -> Storing {
        let bytes = (self.first_rows * dim * size_of::<f32>()) as u64;
        // The first table is kept until it turns out to be too large.
        let kept = (bytes <= self.kept_left)
            .then(|| vec![0.0; if number == 0 { 0 } else { self.first_rows * dim }]);
        if kept.is_some() {
            self.kept_left -= bytes;
        }
        Storing {
            number,
            dim,
            again: is_read_again(table),
            kept,
            ids: Vec::new(),
            pieces: None,
            spool: None,
            in_order: None,
            next: 0,
            known: Bits::default(),
            places: Bits::none(if number == 0 { 0 } else { self.first_rows }),
            rows: 0,
        }
    }

    fn scratch(&mut self) -> Result<Arc<Scratch>> {
        if self.scratch.is_none() {
            self.scratch = Some(Arc::new(Scratch::create(&self.options.scratch)?));
        }
        // INVARIANT: it was just made.
        self.scratch.clone().ok_or_else(|| Core::Internal("no scratch folder".into()).into())
    }
}

/// Whether a table is read again rather than cut into pieces: text is slow to read, a stream is gone.
fn is_read_again(table: &SharedTable) -> bool {
    let format = table.options.input_format;
    let format = format.or_else(|| Format::of_path(table.source.path()?).ok());
    let text = [Format::Csv, Format::Tsv, Format::Word2vec, Format::Glove];
    table.source.path().is_some() && format.is_none_or(|format| !text.contains(&format))
}

/// The rows of a table on their way to where they are kept.
struct Storing {
    number: usize,
    dim: usize,
    again: bool,
    kept: Option<Vec<f32>>,
    ids: Vec<Ids>,
    pieces: Option<Pieces>,
    spool: Option<cursor::IdSpool>,
    /// The number of rows in the order of the first table, once a row is not.
    in_order: Option<u64>,
    /// The place after the last row in order.
    next: usize,
    known: Bits,
    places: Bits,
    rows: usize,
}

impl Storing {
    #[allow(clippy::too_many_arguments)] // one call
    fn add(
        &mut self,
        join: &mut Join<'_>,
        chunk: &Chunk,
        first: usize,
        numbers: &[u32],
        is_new: &[bool],
        expected: Option<u64>,
        job: &Job<'_>,
    ) -> Result<()> {
        self.rows = first + chunk.n_rows();
        if self.number == 0 {
            return self.add_first(join, chunk, first, expected, job);
        }
        let dim = self.dim;
        for (i, row) in chunk.vectors.chunks_exact(dim).enumerate() {
            let place = numbers[i] as usize;
            if let Some(kept) = &mut self.kept {
                if !is_new[i] {
                    kept[place * dim..][..dim].copy_from_slice(row);
                }
                continue;
            }
            if self.in_order.is_none() {
                if self.again && (is_new[i] || place >= self.next) {
                    self.known.push(!is_new[i]);
                    if !is_new[i] {
                        self.places.set(place);
                        self.next = place + 1;
                    }
                    continue;
                }
                self.in_order = Some((first + i) as u64);
                let rows = expected.unwrap_or(join.first_rows as u64).min(join.first_rows as u64);
                say_pieces(&join.options.scratch, rows, dim, job);
            }
            if !is_new[i] {
                self.pieces(join)?.push(place, row)?;
            }
        }
        Ok(())
    }

    fn add_first(
        &mut self,
        join: &mut Join<'_>,
        chunk: &Chunk,
        first: usize,
        expected: Option<u64>,
        job: &Job<'_>,
    ) -> Result<()> {
        if let Some(kept) = &mut self.kept {
            let bytes = size_of_val(&chunk.vectors[..]) as u64;
            let all = expected.map_or(0, |rows| rows * (self.dim * size_of::<f32>()) as u64);
            // Half for the first table: the others need as much.
            let spent = size_of_val(&kept[..]) as u64;
            if (spent + bytes).max(all) * 2 <= join.kept_left + spent {
                kept.extend_from_slice(&chunk.vectors);
                join.kept_left -= bytes;
                self.ids.push(chunk.ids.clone());
                return Ok(());
            }
            let (kept, ids) = (self.kept.take().unwrap_or_default(), std::mem::take(&mut self.ids));
            join.kept_left = 0; // the others are not smaller
            if !self.again {
                say_pieces(&join.options.scratch, expected.unwrap_or(0), self.dim, job);
                for (place, row) in kept.chunks_exact(self.dim).enumerate() {
                    self.pieces(join)?.push(place, row)?;
                }
                ids.iter().try_for_each(|ids| self.spool(join)?.push(ids))?;
            }
        }
        if !self.again {
            for (i, row) in chunk.vectors.chunks_exact(self.dim).enumerate() {
                self.pieces(join)?.push(first + i, row)?;
            }
            self.spool(join)?.push(&chunk.ids)?;
        }
        Ok(())
    }

    fn pieces(&mut self, join: &mut Join<'_>) -> Result<&mut Pieces> {
        if self.pieces.is_none() {
            let places = (self.number > 0).then_some(join.first_rows);
            let name = format!("table-{}", self.number);
            self.pieces = Some(Pieces::new(&*join.scratch()?, &name, self.dim, places));
        }
        // INVARIANT: they were just made.
        self.pieces.as_mut().ok_or_else(|| Core::Internal("no pieces".into()).into())
    }

    fn spool(&mut self, join: &mut Join<'_>) -> Result<&mut cursor::IdSpool> {
        if self.spool.is_none() {
            self.spool = Some(cursor::IdSpool::create(join.scratch()?.path("ids"))?);
        }
        // INVARIANT: it was just made.
        self.spool.as_mut().ok_or_else(|| Core::Internal("no spool".into()).into())
    }

    fn finish(mut self, join: &mut Join<'_>) -> Result<Stored> {
        if let Some(pieces) = &mut self.pieces {
            pieces.finish()?;
        }
        if self.number == 0 {
            let text = join.index.as_ref().is_some_and(|index| index.integers().is_none());
            join.text_ids = match (text, self.spool.take(), self.kept.is_some()) {
                (true, Some(spool), _) => TextIds::Spooled(spool.finish()?),
                (true, None, true) => TextIds::Kept(Ids::concat(&self.ids)),
                _ => TextIds::Elsewhere,
            };
        }
        if let Some(kept) = self.kept {
            return Ok(Stored::Kept(kept));
        }
        let all = if self.number == 0 && !self.again { 0 } else { self.rows as u64 };
        Ok(Stored::OnDisk {
            in_order: self.in_order.unwrap_or(all),
            known: self.known,
            places: self.places,
            pieces: self.pieces,
        })
    }
}

/// Says beforehand what is written to the scratch folder.
fn say_pieces(scratch: &std::path::Path, rows: u64, dim: usize, job: &Job<'_>) {
    let bytes = shown(rows * Pieces::row_bytes(dim));
    let place = scratch.display();
    job.note(&format!(
        "the rows are cut into pieces: up to {bytes} in {place} (⟨scratch⟩), removed at the end"
    ));
}

/// A size in GB or MB.
pub fn shown(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{} MB", bytes.div_ceil(1_000_000)),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// The error of an id that repeats, with both rows.
fn twice(table: &SharedTable, id: &str, row: usize) -> Error {
    let first = || -> Result<Option<usize>> {
        let mut reader = TableReader::open(&table.source, &table.options)?;
        let mut before = 0;
        while let Some(chunk) = reader.next_chunk()? {
            if let Some(at) = (0..chunk.n_rows()).find(|&i| chunk.ids.get(i) == id) {
                return Ok(Some(before + at));
            }
            before += chunk.n_rows();
        }
        Ok(None)
    };
    let rows = match first() {
        Ok(Some(before)) if before != row => format!("in rows {before} and {row}"),
        _ => format!("again in row {row}"),
    };
    let what = format!("the id {id} occurs twice, {rows}");
    let remedy = "drop one of them, or pass ⟨on-duplicate-id⟩ first or ⟨on-duplicate-id⟩ mean";
    Error::content(&table.name, format!("{what}; {remedy}"))
}

impl Passes for SharedFiles {
    fn n(&self) -> usize {
        self.n
    }

    fn names(&self) -> Vec<&str> {
        self.tables.iter().map(|table| table.name.as_str()).collect()
    }

    fn dims(&self) -> Vec<usize> {
        self.dims.clone()
    }

    fn find(&self, id: &str) -> Option<u32> {
        let place = self.index.find(id)? as usize;
        self.shared.get(place).then(|| self.shared.rank(place) as u32)
    }

    fn pass(&self, visit: &mut dyn FnMut(Window<'_>) -> Checked<()>) -> Checked<()> {
        let mut cursors: Vec<Cursor<'_>> = (0..self.tables.len())
            .map(|table| Cursor::open(self, table))
            .collect::<Result<_>>()
            .map_err(Error::into_core)?;
        let step = window_rows(&self.dims);
        let mut places = self.shared.from(0);
        let mut buffers: Vec<Vec<f32>> = vec![Vec::new(); cursors.len()];
        for first in (0..self.n).step_by(step) {
            let wanted: Vec<u32> = places.by_ref().take(step).map(|place| place as u32).collect();
            for (cursor, rows) in cursors.iter_mut().zip(&mut buffers) {
                cursor.fill(&wanted, rows).map_err(Error::into_core)?;
            }
            let ids = match self.index.integers() {
                Some(ids) => {
                    Ids::Int(wanted.iter().map(|&at| ids[at as usize]).collect::<Vec<_>>().into())
                }
                None => cursors[0].take_ids(),
            };
            let tables: Vec<&[f32]> = buffers.iter().map(Vec::as_slice).collect();
            visit(Window { first, ids: &ids, tables: &tables })?;
        }
        Ok(())
    }
}
