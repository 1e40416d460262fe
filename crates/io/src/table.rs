//! The parts of a vector table in transit from and to disk, and functions for whole tables.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_buffer::ScalarBuffer;
use arrow_schema::Field;
use veridical_core::{Cancel, Error as Core};
use veridical_data::{Ids, VectorTable};

use crate::read::first_repeated;
use crate::{Error, IfExists, OutputSchema, Piece, ReadOptions, Result, Source};
use crate::{TableReader, TableWriter, Vectors, WriteOptions};

/// A floating-point type on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dtype {
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// IEEE single precision.
    #[default]
    F32,
    /// IEEE double precision; rounded to single precision when read.
    F64,
}

impl Dtype {
    /// Returns the size of one value in bytes.
    pub const fn size(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Returns the name used in flags and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }
}

/// The kind of ids of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    /// The table has no ids: rows are numbered from 0.
    RowNumber,
    /// 64-bit integers.
    Int,
    /// UTF-8 text.
    Text,
}

/// The schema of a table, as found by a reader.
#[derive(Clone, Debug)]
pub struct TableSchema {
    /// The dimension d of the vectors.
    pub dim: usize,
    /// The kind of ids.
    pub ids: IdKind,
    /// The type of the stored values.
    pub dtype: Dtype,
    /// The columns copied to the output, in the order requested.
    pub kept: Vec<Field>,
}

/// Consecutive rows of a table.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The row number of the first row in the whole table.
    pub first_row: u64,
    /// One id per row.
    pub ids: Ids,
    /// The vectors, row-major.
    pub vectors: ScalarBuffer<f32>,
    /// The columns copied to the output.
    pub kept: Vec<ArrayRef>,
    /// The row number of every row once rows were dropped; otherwise they follow `first_row`.
    pub(crate) row_numbers: Option<Vec<u64>>,
    /// The number of values of every row that were set to 0, if any.
    pub(crate) zeroed: Option<Vec<u32>>,
}

impl Chunk {
    /// Rows as read, without copied columns.
    pub(crate) fn bare(first_row: u64, ids: Ids, vectors: ScalarBuffer<f32>) -> Self {
        Self { first_row, ids, vectors, kept: Vec::new(), row_numbers: None, zeroed: None }
    }

    /// Returns the row number of row `i` in the whole table.
    pub fn row_number(&self, i: usize) -> u64 {
        self.row_numbers.as_ref().map_or(self.first_row + i as u64, |numbers| numbers[i])
    }

    /// Returns the row numbers of all rows in the whole table.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        (0..self.n_rows()).map(|i| self.row_number(i))
    }

    /// Returns the number of values that were set to 0 because they were NaN, infinite or missing.
    pub fn zeroed_values(&self) -> u64 {
        self.zeroed.iter().flatten().map(|&n| u64::from(n)).sum()
    }

    /// Returns the number of rows.
    pub fn n_rows(&self) -> usize {
        self.ids.len()
    }

    /// Returns the dimension d of the vectors.
    pub fn dim(&self) -> usize {
        self.vectors.len().checked_div(self.n_rows()).unwrap_or(0)
    }

    /// Returns the `n` rows from position `from` on.
    pub fn slice(&self, from: usize, n: usize) -> Self {
        let dim = self.dim();
        let row_numbers = self.row_numbers.as_ref().map(|numbers| numbers[from..from + n].to_vec());
        let zeroed = self.zeroed.as_ref().map(|zeroed| zeroed[from..from + n].to_vec());
        Self {
            first_row: self.first_row + from as u64,
            row_numbers,
            zeroed,
            ids: self.ids.slice(from, n),
            vectors: self.vectors.slice(from * dim, n * dim),
            kept: self.kept.iter().map(|column| column.slice(from, n)).collect(),
        }
    }
}

impl Chunk {
    /// Concatenates consecutive chunks.
    ///
    /// # Errors
    /// [`veridical_core::Error::Shape`] if the types of their columns differ.
    ///
    /// # Panics
    /// If `chunks` is empty.
    pub fn concat(chunks: &[Self]) -> Result<Self> {
        if let [only] = chunks {
            return Ok(only.clone());
        }
        let joined = |arrays: Vec<ArrayRef>| -> Result<ArrayRef> {
            let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
            arrow_select::concat::concat(&arrays)
                .map_err(|e| Core::shape(format!("rows cannot be concatenated: {e}"), "").into())
        };
        let ids = joined(chunks.iter().map(|c| c.ids.to_array()).collect())?;
        let column = |k| joined(chunks.iter().map(|c| Arc::clone(&c.kept[k])).collect());
        let mut vectors = Vec::with_capacity(chunks.iter().map(|c| c.vectors.len()).sum());
        chunks.iter().for_each(|c| vectors.extend_from_slice(&c.vectors));
        let numbered = chunks.iter().any(|c| c.row_numbers.is_some());
        let numbers =
            || chunks.iter().flat_map(|c| (0..c.n_rows()).map(|i| c.row_number(i))).collect();
        let zeroed = || {
            let of = |c: &Self| c.zeroed.clone().unwrap_or_else(|| vec![0; c.n_rows()]);
            chunks.iter().flat_map(of).collect()
        };
        Ok(Self {
            first_row: chunks[0].first_row,
            ids: Ids::from_array(&ids).ok_or_else(|| Core::shape("ids changed their type", ""))?,
            vectors: vectors.into(),
            kept: (0..chunks[0].kept.len()).map(column).collect::<Result<_>>()?,
            row_numbers: numbered.then(numbers),
            zeroed: chunks.iter().any(|c| c.zeroed.is_some()).then(zeroed),
        })
    }
}

/// Reads a whole table.
///
/// ```
/// use veridical_io::{ReadOptions, Source, read_table};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("t.csv");
/// std::fs::write(&path, "id,x,y\na,1,2\nb,3,4\n")?;
/// let table = read_table(&Source::from_arg(&path), &ReadOptions::default())?;
/// assert_eq!((table.dim, table.ids.get(1), table.row(1)), (2, "b".to_owned(), &[3.0, 4.0][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The errors of [`TableReader`].
pub fn read_table(source: &Source, options: &ReadOptions) -> Result<VectorTable> {
    collect_table(TableReader::open(source, options)?)
}

/// Reads the remaining rows of a table.
///
/// # Errors
/// The errors of [`TableReader`], and [`crate::Error::Content`] for an id that occurs twice under
/// [`OnDuplicateId::Error`](crate::OnDuplicateId::Error).
pub fn collect_table(mut reader: TableReader) -> Result<VectorTable> {
    collect_rows(&mut reader)
}

/// Reads the remaining rows of a table, as [`collect_table`] does, and leaves the reader with what it has to say.
///
/// # Errors
/// The errors of [`collect_table`].
pub fn collect_rows(reader: &mut TableReader) -> Result<VectorTable> {
    let dim = reader.schema().dim;
    let mut vectors = Vec::new();
    let mut ids = Vec::new();
    while let Some(chunk) = reader.next_chunk()? {
        vectors.extend_from_slice(&chunk.vectors);
        let none = ScalarBuffer::default();
        ids.push(Chunk { vectors: none, kept: Vec::new(), ..chunk });
    }
    if ids.is_empty() {
        return Err(Core::unfit(format!("{}: no rows remain", reader.source()), "").into());
    }
    let rows = Chunk::concat(&ids)?;
    if reader.schema().ids != IdKind::RowNumber
        && let Some((before, again)) = first_repeated(&rows.ids)
    {
        let (id, rows) = (rows.ids.get(again), [before, again].map(|row| rows.row_number(row)));
        let what = format!("the id {id} occurs twice, in rows {} and {}", rows[0], rows[1]);
        let remedy = "drop one of them, or pass ⟨on-duplicate-id⟩ first or ⟨on-duplicate-id⟩ mean";
        return Err(Error::content(reader.source().to_string(), format!("{what}; {remedy}")));
    }
    Ok(VectorTable { ids: rows.ids, dim, vectors })
}

/// Writes a table to `path`, replacing an existing file.
///
/// # Errors
/// The errors of [`TableWriter`].
pub fn write_table(table: &VectorTable, path: &Path) -> Result<()> {
    let schema = OutputSchema {
        dim: table.dim,
        dtype: Dtype::F32,
        ids: match table.ids {
            Ids::Int(_) => IdKind::Int,
            Ids::Text(_) => IdKind::Text,
        },
        kept: Vec::new(),
        metadata: Vec::new(),
    };
    let options = WriteOptions { existing: IfExists::Force.into(), ..WriteOptions::default() };
    let output = Source::Path(path.to_owned());
    let mut writer = TableWriter::create(&output, schema, &options, serde_json::Value::Null)?;
    let chunk = Chunk::bare(0, table.ids.clone(), table.vectors.clone().into());
    let mut at = 0;
    while at < table.n_rows() {
        let rows = chunk.slice(at, writer.cuts().next_rows().min(table.n_rows() - at));
        at += rows.n_rows();
        let vectors = Vectors::F32(rows.vectors);
        writer.write(Piece { ids: rows.ids, vectors, kept: Vec::new(), input_rows: at as u64 })?;
    }
    writer.finish(&Cancel::default())
}
