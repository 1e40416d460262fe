//! Finding ids and vectors among the columns of an Arrow schema, and decoding them.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, GenericListArray, OffsetSizeTrait};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema};
use veridical_data::Ids;

use crate::{Dtype, Error, IdKind, ReadOptions, Result};

/// The roles of the columns of a schema.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub vector: usize,
    pub id: Option<usize>,
    pub id_kind: IdKind,
    pub kept: Vec<usize>,
    pub dtype: Dtype,
    /// A note for the user about the choice.
    pub note: Option<String>,
}

impl Chosen {
    /// All columns used, ascending and without repeats.
    pub fn projection(&self) -> Vec<usize> {
        let mut all: Vec<usize> =
            self.kept.iter().copied().chain(self.id).chain([self.vector]).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The same choice after the columns were projected.
    pub fn projected(&self) -> Self {
        let all = self.projection();
        // INVARIANT: `projection` holds every index that is looked up here.
        let place = |i: usize| all.binary_search(&i).expect("the projection holds every column");
        Self {
            vector: place(self.vector),
            id: self.id.map(place),
            kept: self.kept.iter().map(|&i| place(i)).collect(),
            ..self.clone()
        }
    }
}

/// Chooses columns by name if requested, else the only list of floats and `id` or the only `*_id`.
pub(crate) fn choose(schema: &Schema, options: &ReadOptions, path: &Path) -> Result<Chosen> {
    let refused = |what: String| Error::content(path, what);
    let names = || schema.fields().iter().map(|f| describe(f)).collect::<Vec<_>>().join(", ");
    let find = |name: &str, flag: &str| {
        schema.index_of(name).map_err(|_| {
            refused(format!("{flag}: there is no column `{name}`; the columns are {}", names()))
        })
    };

    let vector = match &options.vector_column {
        Some(name) => find(name, "⟨vector-column⟩")?,
        None => {
            let lists: Vec<usize> = (0..schema.fields().len())
                .filter(|&i| float_list(schema.field(i)).is_some())
                .collect();
            match lists.as_slice() {
                [only] => *only,
                [] => {
                    let what = "no column holds lists of floats";
                    return Err(refused(format!("{what}; the columns are {}", names())));
                }
                several => {
                    let names: Vec<_> =
                        several.iter().map(|&i| schema.field(i).name().as_str()).collect();
                    let names = names.join("`, `");
                    return Err(refused(format!(
                        "several columns hold lists of floats: `{names}`; choose one with ⟨vector-column⟩"
                    )));
                }
            }
        }
    };
    let field = schema.field(vector);
    let dtype = float_list(field).ok_or_else(|| {
        let what = "where lists of floats are expected; cast it, or choose another column with ⟨vector-column⟩";
        refused(format!("column {} {what}", describe(field)))
    })?;

    let id = match &options.id_column {
        Some(name) => Some(find(name, "⟨id-column⟩")?),
        None => {
            let may_be = |f: &Field| f.name() == "id" || id_kind(f.data_type()).is_some();
            let fields = schema.fields().iter().enumerate().filter(|(_, field)| may_be(field));
            let columns: Vec<_> = fields.map(|(i, field)| (i, field.name().as_str())).collect();
            default_id(&columns, path)?
        }
    };
    let id_kind = match id.map(|i| schema.field(i)) {
        None => IdKind::RowNumber,
        Some(field) => id_kind(field.data_type()).ok_or_else(|| {
            refused(format!("id column {} is neither integer nor text", describe(field)))
        })?,
    };
    let kept = options.keep_columns.iter().map(|name| find(name, "⟨keep-columns⟩"));
    let kept = kept.collect::<Result<Vec<_>>>()?;
    let note = (options.vector_column.is_none() || options.id_column.is_none()).then(|| {
        let id =
            id.map_or("row numbers".into(), |i| format!("column `{}`", schema.field(i).name()));
        format!("vectors from column `{}`, ids from {id}", field.name())
    });
    Ok(Chosen { vector, id, id_kind, kept, dtype, note })
}

/// `id`, or the only column with a name that ends in `_id`, among columns given as (position, name).
pub(crate) fn default_id(columns: &[(usize, &str)], path: &Path) -> Result<Option<usize>> {
    if let Some((place, _)) = columns.iter().find(|(_, name)| *name == "id") {
        return Ok(Some(*place));
    }
    let candidates: Vec<_> = columns.iter().filter(|(_, name)| name.ends_with("_id")).collect();
    match candidates[..] {
        [] => Ok(None),
        [(only, _)] => Ok(Some(*only)),
        _ => {
            let names: Vec<&str> = candidates.iter().map(|(_, name)| *name).collect();
            let what = format!("several columns could be the id: `{}`", names.join("`, `"));
            Err(Error::content(path, format!("{what}; choose one with ⟨id-column⟩")))
        }
    }
}

fn describe(field: &Field) -> String {
    format!("`{}` ({})", field.name(), field.data_type())
}

fn float_list(field: &Field) -> Option<Dtype> {
    let (DataType::FixedSizeList(item, _) | DataType::List(item) | DataType::LargeList(item)) =
        field.data_type()
    else {
        return None;
    };
    match item.data_type() {
        DataType::Float16 => Some(Dtype::F16),
        DataType::Float32 => Some(Dtype::F32),
        DataType::Float64 => Some(Dtype::F64),
        _ => None,
    }
}

pub(crate) fn id_kind(data_type: &DataType) -> Option<IdKind> {
    match data_type {
        t if t.is_integer() => Some(IdKind::Int),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(IdKind::Text),
        DataType::Dictionary(_, value) => id_kind(value),
        _ => None,
    }
}

/// Decodes ids as 64-bit integers or UTF-8.
pub(crate) fn decode_ids(
    array: &ArrayRef,
    kind: IdKind,
    path: &Path,
    first_row: u64,
) -> Result<Ids> {
    if let Some(row) = first_null(array) {
        let what = format!(
            "row {}: the id is missing; fill it in or drop the row",
            first_row + row as u64
        );
        return Err(Error::content(path, what));
    }
    let target = if kind == IdKind::Text { DataType::Utf8 } else { DataType::Int64 };
    let options = arrow_cast::CastOptions { safe: false, ..Default::default() };
    let cast = arrow_cast::cast_with_options(array, &target, &options)
        .map_err(|e| Error::content(path, format!("the ids do not fit 64-bit integers: {e}")))?;
    // INVARIANT: the cast returns one of the two types that `from_array` takes.
    Ok(Ids::from_array(&cast).expect("ids were cast to int64 or utf8"))
}

fn first_null(array: &ArrayRef) -> Option<usize> {
    let nulls = array.logical_nulls()?;
    (0..array.len()).find(|&row| nulls.is_null(row))
}

/// The vectors of a column, row-major; a missing value or row is read as NaN. `dim` is the width of the
/// earlier rows.
pub(crate) fn decode_vectors(
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
    let Some(dim) = place.dim else {
        let what = "the first rows have no vector at all, so their length is unknown; drop them";
        return Err(Error::content(place.path, what));
    };
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

/// The type of a column that is copied to the output: dictionaries are unpacked so that every chunk has one type.
pub(crate) fn kept_field(field: &Field) -> Field {
    let data_type = match field.data_type() {
        DataType::Dictionary(_, value) => value.as_ref().clone(),
        other => other.clone(),
    };
    Field::new(field.name(), data_type, true)
}

/// Converts a copied column to the type of its [`kept_field`].
pub(crate) fn kept_column(array: &ArrayRef, field: &Field, path: &Path) -> Result<ArrayRef> {
    if array.data_type() == field.data_type() {
        return Ok(Arc::clone(array));
    }
    arrow_cast::cast(array, field.data_type())
        .map_err(|e| Error::content(path, format!("column `{}`: {e}", field.name())))
}
