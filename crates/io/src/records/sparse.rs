//! Records of a sparse matrix saved by scipy: row, column and value of every entry.
//!
//! csr    entry t of row i for indptr[i] <= t < indptr[i+1], its column indices[t], its value data[t]
//! csc    the same with rows and columns exchanged
//! coo    row[t], col[t], data[t]

use std::path::Path;

use super::{Cell, Found, Place, RecordOptions, Role, Row};
use crate::read::Sparse;
use crate::{Error, Result};

const NPZ: &str = "npz";

/// The row, the column and the value take the first three roles.
pub(super) fn read(
    path: &Path,
    roles: &[Role],
    options: &RecordOptions,
    take: &mut dyn FnMut(&Row<'_>) -> Result<()>,
) -> Result<(Found, Vec<String>)> {
    if !options.columns.is_empty() {
        let what =
            "⟨columns⟩: a sparse matrix has no columns; its rows, columns and values are taken";
        return Err(Error::content(path, what));
    }
    let matrix = Sparse::open(path)?;
    let format = matrix.format()?.unwrap_or_else(|| "csr".into());
    if !["csr", "csc", "coo"].contains(&&*format) {
        let what = format!("the matrix is stored as `{format}`");
        let remedy = "save it with scipy.sparse.save_npz(path, matrix.tocsr())";
        return Err(Error::content(path, format!("{what}; {remedy}")));
    }
    let shape = {
        let mut shape = matrix.numbers("shape")?;
        if shape.len != 2 {
            return Err(Error::malformed(path, NPZ, "its shape is not that of a matrix"));
        }
        [shape.index()?, shape.index()?]
    };
    let mut values = matrix.numbers("data")?;
    let n = values.len;
    if n == 0 {
        return Err(Error::no_rows(path));
    }
    let mut entry = |t: u64, at: [u64; 2]| {
        if at[0] >= shape[0] || at[1] >= shape[1] {
            let what = format!("entry {t} is at {at:?} where the shape is {shape:?}");
            return Err(Error::malformed(path, NPZ, what));
        }
        let place = |k: usize| Some(Cell::Int(at[k] as i64)); // below a shape that is an i64
        let value = Some(Cell::Float(values.float()?));
        take(&Row { path, place: Place::Row(t), cells: [place(0), place(1), value, None] })
    };
    let as_many = |name: &str, got: u64, want: u64| {
        let what = format!("`{name}` has {got} numbers where {want} are expected");
        if got == want { Ok(()) } else { Err(Error::malformed(path, NPZ, what)) }
    };
    match format.as_str() {
        "csr" | "csc" => {
            let is_csr = format == "csr";
            let (mut indices, mut starts) = (matrix.numbers("indices")?, matrix.numbers("indptr")?);
            as_many("indices", indices.len, n)?;
            let long = if is_csr { shape[0] } else { shape[1] };
            as_many("indptr", starts.len, long.saturating_add(1))?;
            let mut t = starts.index()?;
            as_many("indptr[0]", t, 0)?;
            for i in 0..long {
                let end = starts.index()?;
                if end < t || end > n {
                    let what =
                        format!("`indptr` goes from {t} to {end}, and there are {n} entries");
                    return Err(Error::malformed(path, NPZ, what));
                }
                for t in t..end {
                    let j = indices.index()?;
                    entry(t, if is_csr { [i, j] } else { [j, i] })?;
                }
                t = end;
            }
            as_many("indptr[-1]", t, n)?;
        }
        _ => {
            let (mut row, mut column) = (matrix.numbers("row")?, matrix.numbers("col")?);
            as_many("row", row.len, n)?;
            as_many("col", column.len, n)?;
            for t in 0..n {
                entry(t, [row.index()?, column.index()?])?;
            }
        }
    }
    let note = format!(
        "a {} x {} matrix: its rows are the {}s, its columns the {}s",
        shape[0], shape[1], roles[0].name, roles[1].name
    );
    Ok((Found::matrix(), vec![note]))
}
