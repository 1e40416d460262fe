//! Vectors of Arrow columns: lists of floats, lists inside structs, Spark ML's vectors, and one column per coordinate.
//!
//! Spark ML stores `struct<type: tinyint, size: int, indices: list<int>, values: list<double>>`. Type 1 is dense, its
//! values are the vector; type 0 is sparse, a vector of zeros of length `size` but for `values` at `indices`.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, LargeListArray, OffsetSizeTrait,
    RecordBatch, StructArray,
};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields};

use crate::{Dtype, Error, Result};

/// Where the vectors are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Vectors {
    /// A column, and the fields of structs that lead to the vectors in it.
    Column { root: usize, below: Vec<usize> },
    /// One column per coordinate.
    Wide(Vec<usize>),
}

impl Vectors {
    /// The columns of the table that are read.
    pub fn columns(&self) -> &[usize] {
        match self {
            Self::Column { root, .. } => std::slice::from_ref(root),
            Self::Wide(columns) => columns,
        }
    }

    /// The same columns at other positions.
    pub fn placed(&self, place: impl Fn(usize) -> usize) -> Self {
        match self {
            Self::Column { root, below } => {
                Self::Column { root: place(*root), below: below.clone() }
            }
            Self::Wide(columns) => Self::Wide(columns.iter().map(|&i| place(i)).collect()),
        }
    }

    /// The width of the vectors, from the first rows.
    pub fn width(&self, batch: &RecordBatch, path: &Path) -> Result<usize> {
        match self {
            Self::Wide(columns) => Ok(columns.len()),
            Self::Column { .. } => {
                let column = self.column(batch);
                match column.as_struct_opt() {
                    Some(spark) => Ok(SparkVectors::new(spark, path)?.width(0, None, path)?),
                    None => Ok(decode_vectors(&column, None, path, 0)?.0),
                }
            }
        }
    }

    /// The vectors of a batch, row-major; a missing value or row is read as NaN.
    pub fn decode(
        &self,
        batch: &RecordBatch,
        dim: usize,
        path: &Path,
        first_row: u64,
    ) -> Result<ScalarBuffer<f32>> {
        match self {
            Self::Wide(columns) => decode_wide(batch, columns, path),
            Self::Column { .. } => {
                let column = self.column(batch);
                match column.as_struct_opt() {
                    Some(spark) => SparkVectors::new(spark, path)?.decode(dim, path, first_row),
                    None => Ok(decode_vectors(&column, Some(dim), path, first_row)?.1),
                }
            }
        }
    }

    /// The array of the vectors; missing where a struct around it is.
    fn column(&self, batch: &RecordBatch) -> ArrayRef {
        let Self::Column { root, below } = self else { return batch.column(0).clone() };
        let mut array = batch.column(*root).clone();
        for &field in below {
            let around = array.as_struct();
            let inside = around.column(field).clone();
            array = match around.nulls() {
                Some(nulls) => with_nulls(&inside, nulls),
                None => inside,
            };
        }
        array
    }
}

/// The same array, also missing where `more` says so.
fn with_nulls(array: &ArrayRef, more: &NullBuffer) -> ArrayRef {
    let nulls = NullBuffer::union(array.nulls(), Some(more));
    let of_list = |list: &GenericListArray<i32>| {
        let (field, offsets, values, _) = list.clone().into_parts();
        GenericListArray::<i32>::try_new(field, offsets, values, nulls.clone()).ok()
    };
    let of_large = |list: &GenericListArray<i64>| {
        let (field, offsets, values, _) = list.clone().into_parts();
        GenericListArray::<i64>::try_new(field, offsets, values, nulls.clone()).ok()
    };
    let of_fixed = |list: &FixedSizeListArray| {
        let (field, width, values, _) = list.clone().into_parts();
        FixedSizeListArray::try_new(field, width, values, nulls.clone()).ok()
    };
    let of_struct = |list: &StructArray| {
        let (fields, columns, _) = list.clone().into_parts();
        StructArray::try_new(fields, columns, nulls.clone()).ok()
    };
    let made: Option<ArrayRef> = match array.data_type() {
        DataType::List(_) => of_list(array.as_list()).map(|a| std::sync::Arc::new(a) as _),
        DataType::LargeList(_) => of_large(array.as_list()).map(|a| std::sync::Arc::new(a) as _),
        DataType::FixedSizeList(..) => {
            of_fixed(array.as_fixed_size_list()).map(|a| std::sync::Arc::new(a) as _)
        }
        DataType::Struct(_) => of_struct(array.as_struct()).map(|a| std::sync::Arc::new(a) as _),
        _ => None,
    };
    // A field that may not be missing inside a struct that is: its values are whatever was written.
    made.unwrap_or_else(|| array.clone())
}

/// The type of the values of a list of floats.
pub(crate) fn float_list(data_type: &DataType) -> Option<Dtype> {
    match item(data_type)? {
        DataType::Float16 => Some(Dtype::F16),
        DataType::Float32 => Some(Dtype::F32),
        DataType::Float64 => Some(Dtype::F64),
        _ => None,
    }
}

fn item(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::FixedSizeList(item, _) | DataType::List(item) | DataType::LargeList(item) => {
            Some(item.data_type())
        }
        _ => None,
    }
}

/// Whether a struct is a vector of Spark ML.
pub(crate) fn is_spark(data_type: &DataType) -> bool {
    let DataType::Struct(fields) = data_type else { return false };
    let is = |name: &str, holds: fn(&DataType) -> bool| {
        fields.find(name).is_some_and(|(_, field)| holds(field.data_type()))
    };
    let is_integer = |t: &DataType| t.is_integer();
    let are_integers = |t: &DataType| item(t).is_some_and(DataType::is_integer);
    let are_floats = |t: &DataType| float_list(t).is_some();
    fields.len() == 4
        && is("type", is_integer)
        && is("size", is_integer)
        && is("indices", are_integers)
        && is("values", are_floats)
}

/// The type of vectors in a column of this type.
pub(crate) fn vector_dtype(data_type: &DataType) -> Option<Dtype> {
    if is_spark(data_type) { Some(Dtype::F64) } else { float_list(data_type) }
}

/// All vectors below a field, as paths of fields with dotted names.
pub(crate) fn nested(field: &Field) -> Vec<(Vec<usize>, String)> {
    fn below(fields: &Fields, at: &[usize], name: &str, found: &mut Vec<(Vec<usize>, String)>) {
        for (i, field) in fields.iter().enumerate() {
            let (path, name) = ([at, &[i]].concat(), format!("{name}.{}", field.name()));
            match field.data_type() {
                t if vector_dtype(t).is_some() => found.push((path, name)),
                DataType::Struct(fields) => below(fields, &path, &name, found),
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    if let DataType::Struct(fields) = field.data_type() {
        below(fields, &[], field.name(), &mut found);
    }
    found
}

/// The vectors of a list column, row-major; a missing value or row is read as NaN. `dim` is the width of the
/// earlier rows.
fn decode_vectors(
    array: &ArrayRef,
    dim: Option<usize>,
    path: &Path,
    first_row: u64,
) -> Result<(usize, ScalarBuffer<f32>)> {
    let place = Place { path, first_row, dim };
    match array.data_type() {
        DataType::FixedSizeList(_, width) => {
            let width = *width as usize;
            place.check_width(0, width)?;
            let list = array.as_fixed_size_list();
            let values = list.values().slice(list.value_offset_at(0), list.len() * width);
            let mut vectors = floats(&values, path)?;
            if let Some(nulls) = list.nulls() {
                vectors = missing_rows_as_nan(vectors, nulls, width);
            }
            Ok((width, vectors))
        }
        DataType::List(_) => decode_list::<i32>(array.as_list(), place),
        DataType::LargeList(_) => decode_list::<i64>(array.as_list(), place),
        other => Err(Error::content(path, format!("expected lists of floats, got {other}"))),
    }
}

struct Place<'a> {
    path: &'a Path,
    first_row: u64,
    dim: Option<usize>,
}

impl Place<'_> {
    fn check_width(&self, row: usize, width: usize) -> Result<()> {
        match self.dim {
            Some(dim) if dim != width => {
                let row = self.first_row + row as u64;
                let what = "drop or repair the row: every vector must have the same length";
                Err(Error::content(
                    self.path,
                    format!("row {row} has {width} values where earlier rows have {dim}; {what}"),
                ))
            }
            _ if width == 0 => {
                let row = self.first_row + row as u64;
                Err(Error::content(
                    self.path,
                    format!("row {row} has an empty vector; drop the row"),
                ))
            }
            _ => Ok(()),
        }
    }
}

const NO_VECTOR: &str =
    "the first rows have no vector at all, so their length is unknown; drop them";

fn decode_list<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    mut place: Place<'_>,
) -> Result<(usize, ScalarBuffer<f32>)> {
    let offsets = list.offsets();
    let present = |row: usize| list.is_valid(row);
    for row in (0..list.len()).filter(|&row| present(row)) {
        let width = (offsets[row + 1] - offsets[row]).as_usize();
        place.check_width(row, width)?;
        place.dim = Some(width);
    }
    let Some(dim) = place.dim else { return Err(Error::content(place.path, NO_VECTOR)) };
    let (from, to) = (offsets[0].as_usize(), offsets[list.len()].as_usize());
    if list.null_count() == 0 {
        return Ok((dim, floats(&list.values().slice(from, to - from), place.path)?));
    }
    let values = floats(list.values(), place.path)?;
    let mut vectors = Vec::with_capacity(list.len() * dim);
    for row in 0..list.len() {
        if present(row) {
            vectors.extend_from_slice(&values[offsets[row].as_usize()..][..dim]);
        } else {
            vectors.resize(vectors.len() + dim, f32::NAN);
        }
    }
    Ok((dim, vectors.into()))
}

fn missing_rows_as_nan(
    vectors: ScalarBuffer<f32>,
    nulls: &NullBuffer,
    dim: usize,
) -> ScalarBuffer<f32> {
    let mut vectors = vectors.to_vec();
    for (row, vector) in vectors.chunks_exact_mut(dim).enumerate() {
        if nulls.is_null(row) {
            vector.fill(f32::NAN);
        }
    }
    vectors.into()
}

/// Converts any float array to f32, without a copy if it already is.
fn floats(values: &ArrayRef, path: &Path) -> Result<ScalarBuffer<f32>> {
    let mut singles: ScalarBuffer<f32> = match values.data_type() {
        DataType::Float32 => values.as_primitive::<Float32Type>().values().clone(),
        DataType::Float64 => {
            values.as_primitive::<Float64Type>().values().iter().map(|&x| x as f32).collect()
        }
        DataType::Float16 => {
            values.as_primitive::<Float16Type>().values().iter().map(|x| x.to_f32()).collect()
        }
        other => return Err(Error::content(path, format!("expected floats, got {other}"))),
    };
    if let Some(nulls) = values.nulls() {
        let mut with_nan = singles.to_vec();
        for (i, x) in with_nan.iter_mut().enumerate() {
            if nulls.is_null(i) {
                *x = f32::NAN;
            }
        }
        singles = with_nan.into();
    }
    Ok(singles)
}

/// One column per coordinate, of floats or integers.
fn decode_wide(batch: &RecordBatch, columns: &[usize], path: &Path) -> Result<ScalarBuffer<f32>> {
    let dim = columns.len();
    let mut rows = vec![0.0; batch.num_rows() * dim];
    for (k, &column) in columns.iter().enumerate() {
        let mut values = batch.column(column).clone();
        if !values.data_type().is_floating() {
            values = arrow_cast::cast(&values, &DataType::Float32).map_err(|e| {
                let name = batch.schema_ref().field(column).name().clone();
                Error::content(path, format!("column `{name}`: {e}"))
            })?;
        }
        let values = floats(&values, path)?;
        rows[k..].iter_mut().step_by(dim).zip(&values).for_each(|(x, v)| *x = *v);
    }
    Ok(rows.into())
}

/// The length of the longest sparse vector that is read: it is stored in a few bytes, however long it is.
const MAX_SPARSE: i64 = 1 << 20;

/// The fields of Spark ML's vectors.
struct SparkVectors<'a> {
    around: &'a StructArray,
    kind: ArrayRef,
    size: ArrayRef,
    indices: LargeListArray,
    values: LargeListArray,
}

impl<'a> SparkVectors<'a> {
    fn new(around: &'a StructArray, path: &Path) -> Result<Self> {
        let field = |name: &str, to: &DataType| {
            let column = around.column_by_name(name).ok_or_else(|| {
                Error::content(path, format!("the vectors of Spark have no field `{name}`"))
            })?;
            arrow_cast::cast(column, to).map_err(|e| {
                Error::content(path, format!("the vectors of Spark have a bad `{name}`: {e}"))
            })
        };
        let list = |item: DataType| {
            DataType::LargeList(std::sync::Arc::new(Field::new("item", item, true)))
        };
        Ok(Self {
            around,
            kind: field("type", &DataType::Int64)?,
            size: field("size", &DataType::Int64)?,
            indices: field("indices", &list(DataType::Int64))?.as_list::<i64>().clone(),
            values: field("values", &list(DataType::Float64))?.as_list::<i64>().clone(),
        })
    }

    fn is_sparse(&self, row: usize) -> Option<bool> {
        let kind = self.kind.as_primitive::<Int64Type>();
        match kind.is_valid(row).then(|| kind.value(row)) {
            Some(0) => Some(true),
            Some(1) => Some(false),
            _ => None,
        }
    }

    /// The width of all vectors; `dim` is that of earlier rows.
    fn width(&self, first_row: u64, dim: Option<usize>, path: &Path) -> Result<usize> {
        let refused = |row: usize, what: String| {
            Error::content(path, format!("row {} {what}", first_row + row as u64))
        };
        let mut place = Place { path, first_row, dim };
        for row in (0..self.around.len()).filter(|&row| self.around.is_valid(row)) {
            let sparse = self.is_sparse(row).ok_or_else(|| {
                refused(row, "has a vector of Spark that is neither dense nor sparse".into())
            })?;
            let width = if sparse {
                let size = self.size.as_primitive::<Int64Type>();
                let size = if size.is_valid(row) { size.value(row) } else { 0 };
                if size > MAX_SPARSE {
                    let what = format!("has a sparse vector of length {size}");
                    let most = format!("at most {MAX_SPARSE} is read; reduce it first");
                    return Err(refused(row, format!("{what}, and {most}")));
                }
                usize::try_from(size).unwrap_or(0)
            } else {
                self.values.value_length(row) as usize
            };
            place.check_width(row, width)?;
            place.dim = Some(width);
        }
        place.dim.ok_or_else(|| Error::content(path, NO_VECTOR))
    }

    fn decode(&self, dim: usize, path: &Path, first_row: u64) -> Result<ScalarBuffer<f32>> {
        self.width(first_row, Some(dim), path)?;
        let values = floats(self.values.values(), path)?;
        let indices = self.indices.values().as_primitive::<Int64Type>();
        let mut vectors = vec![0.0; self.around.len() * dim];
        for (row, vector) in vectors.chunks_exact_mut(dim).enumerate() {
            if self.around.is_null(row) {
                vector.fill(f32::NAN);
                continue;
            }
            let from = self.values.value_offsets()[row] as usize;
            let values = &values[from..][..self.values.value_length(row) as usize];
            if self.is_sparse(row) == Some(false) {
                vector.copy_from_slice(values);
                continue;
            }
            let refused = |what: String| {
                let row = first_row + row as u64;
                Error::content(path, format!("row {row} has a sparse vector {what}"))
            };
            let from = self.indices.value_offsets()[row] as usize;
            let n = self.indices.value_length(row) as usize;
            if n != values.len() {
                return Err(refused(format!("of {n} indices and {} values", values.len())));
            }
            for (i, &value) in (from..from + n).zip(values) {
                let index = usize::try_from(indices.value(i)).ok().filter(|&index| index < dim);
                let Some(index) = index.filter(|_| indices.is_valid(i)) else {
                    return Err(refused(format!("of length {dim} with another index")));
                };
                vector[index] = value;
            }
        }
        Ok(vectors.into())
    }
}
