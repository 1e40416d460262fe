//! Ids of Arrow columns: integers, text, floats that are integers, and UUIDs.
//!
//! An id is a 64-bit integer or text. Unsigned integers above 2^63 - 1 and the 16 bytes of a UUID become text; whether a
//! column of unsigned integers has such values is looked up before its first row is read
//! ([`exceeds`]), so that the kind of the ids never depends on how much is read at once.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Int64Array, StringArray};
use arrow_schema::DataType;
use veridical_data::Ids;

use crate::read::OnNullId;
use crate::{Error, IdKind, Result};

/// The kind of ids that a column of this type holds. Unsigned integers may turn out to be text.
pub(crate) fn id_kind(data_type: &DataType) -> Option<IdKind> {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary, LargeUtf8, Utf8, Utf8View};
    match data_type {
        t if t.is_integer() || t.is_floating() => Some(IdKind::Int),
        Utf8 | LargeUtf8 | Utf8View => Some(IdKind::Text),
        FixedSizeBinary(16) | Binary | LargeBinary | BinaryView => Some(IdKind::Text),
        DataType::Dictionary(_, value) => id_kind(value),
        _ => None,
    }
}

/// Whether ids of this type may not fit 64-bit integers.
pub(crate) fn may_exceed(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => may_exceed(value),
        other => *other == DataType::UInt64,
    }
}

/// Whether a value does not fit a 64-bit integer.
pub(crate) fn exceeds(array: &ArrayRef) -> bool {
    let values = match array.data_type() {
        DataType::Dictionary(_, _) => match array.as_any_dictionary_opt() {
            Some(dictionary) => dictionary.values(),
            None => return false,
        },
        _ => array,
    };
    let unsigned = values.as_primitive_opt::<UInt64Type>();
    unsigned.is_some_and(|ids| ids.iter().flatten().any(|id| id > i64::MAX as u64))
}

/// A note on ids that are not read as they are stored.
pub(crate) fn note(data_type: &DataType, kind: IdKind) -> Option<&'static str> {
    match (data_type, kind) {
        (DataType::Dictionary(_, value), _) => note(value, kind),
        (t, _) if t.is_floating() => Some("ids are floats, read as integers"),
        (t, _) if t.is_binary() || matches!(t, DataType::FixedSizeBinary(_)) => {
            Some("ids of 16 bytes are read as UUIDs")
        }
        (DataType::UInt64, IdKind::Text) => {
            Some("ids above 9223372036854775807 make all of them text")
        }
        _ => None,
    }
}

/// Decodes ids as 64-bit integers or UTF-8. Missing ones are null if they are to be skipped, else an error.
pub(crate) fn decode_ids(
    array: &ArrayRef,
    kind: IdKind,
    on_null: OnNullId,
    path: &Path,
    first_row: u64,
) -> Result<Ids> {
    let refused = |row: usize, what: String| {
        Error::content(path, format!("row {}: {what}", first_row + row as u64))
    };
    let failed = |e| Error::content(path, format!("the ids cannot be read: {e}"));
    let array = match array.data_type() {
        DataType::Dictionary(_, value) => &arrow_cast::cast(array, value).map_err(failed)?,
        _ => array,
    };
    let ids = match array.data_type() {
        t if t.is_floating() => {
            let integers = integers(array, kind).map_err(|(row, what)| refused(row, what))?;
            cast(&integers, kind).map_err(failed)?
        }
        t if t.is_binary() || matches!(t, DataType::FixedSizeBinary(_)) => {
            Ids::Text(uuids(array).map_err(|(row, what)| refused(row, what))?)
        }
        DataType::UInt64 if kind == IdKind::Int && exceeds(array) => {
            let ids = array.as_primitive::<UInt64Type>();
            let row = (0..ids.len()).find(|&i| ids.is_valid(i) && ids.value(i) > i64::MAX as u64);
            let row = row.unwrap_or(0);
            let what = "does not fit a 64-bit integer; pass ⟨text-ids⟩ to read all ids as text";
            return Err(refused(row, format!("the id {} {what}", ids.value(row))));
        }
        _ => cast(array, kind).map_err(failed)?,
    };
    match first_null(&ids) {
        Some(row) if on_null == OnNullId::Error => Err(refused(row, MISSING.into())),
        _ => Ok(ids),
    }
}

/// What is said about a missing id, after its position.
pub(crate) const MISSING: &str =
    "the id is missing; fill it in, or pass ⟨on-null-id⟩ skip to drop such rows";

/// The first missing id.
pub(crate) fn first_null(ids: &Ids) -> Option<usize> {
    let nulls = match ids {
        Ids::Int(ids) => ids.nulls(),
        Ids::Text(ids) => ids.nulls(),
    };
    nulls.filter(|nulls| nulls.null_count() > 0).and_then(|n| (0..n.len()).find(|&i| n.is_null(i)))
}

/// Ids as text.
pub(crate) fn to_text(ids: Ids) -> Ids {
    match ids {
        Ids::Int(ids) => Ids::Text(ids.iter().map(|id| id.map(|id| id.to_string())).collect()),
        text @ Ids::Text(_) => text,
    }
}

fn cast(array: &dyn Array, kind: IdKind) -> std::result::Result<Ids, arrow_schema::ArrowError> {
    let target = if kind == IdKind::Text { DataType::Utf8 } else { DataType::Int64 };
    let options = arrow_cast::CastOptions { safe: false, ..Default::default() };
    let cast = arrow_cast::cast_with_options(array, &target, &options)?;
    // INVARIANT: the cast returns one of the two types that `from_array` takes.
    Ok(Ids::from_array(&cast).expect("ids were cast to int64 or utf8"))
}

type AtRow<T> = std::result::Result<T, (usize, String)>;

/// Floats that are integers; NaN is missing. From 2^53 on (2^24 for f32, 2^11 for f16), neighboring ids are the same float.
fn integers(array: &ArrayRef, kind: IdKind) -> AtRow<Int64Array> {
    let digits = match array.data_type() {
        DataType::Float16 => 11,
        DataType::Float32 => 24,
        _ => 53,
    };
    let limit = (1u64 << digits) as f64;
    let floats = arrow_cast::cast(array, &DataType::Float64)
        .map_err(|e| (0, format!("the ids cannot be read: {e}")))?;
    let integer = |(row, id): (usize, Option<f64>)| match id {
        None => Ok(None),
        Some(id) if id.is_nan() => Ok(None),
        Some(id) if id.fract() == 0.0 && id.abs() < limit => Ok(Some(id as i64)),
        Some(id) if id.fract() == 0.0 => {
            let what = "is a float too large to be exact; write the ids as integers or text";
            Err((row, format!("the id {id} {what}")))
        }
        Some(id) => {
            let text = if kind == IdKind::Text { "; write the ids as text" } else { "" };
            let what = "is not an integer; choose another column with ⟨id-column⟩";
            Err((row, format!("the id {id} {what}{text}")))
        }
    };
    floats.as_primitive::<Float64Type>().iter().enumerate().map(integer).collect()
}

/// UUIDs in their canonical form, 8-4-4-4-12 hexadecimal digits.
fn uuids(array: &ArrayRef) -> AtRow<StringArray> {
    let binary = arrow_cast::cast(array, &DataType::Binary)
        .map_err(|e| (0, format!("the ids cannot be read: {e}")))?;
    let uuid = |(row, bytes): (usize, Option<&[u8]>)| {
        let Some(bytes) = bytes else { return Ok(None) };
        let Ok(uuid) = <[u8; 16]>::try_from(bytes) else {
            let n = bytes.len();
            let what = "where the 16 of a UUID are expected; write the ids as text or integers";
            return Err((row, format!("the id has {n} bytes {what}")));
        };
        Ok(Some(canonical(uuid)))
    };
    binary.as_binary::<i32>().iter().enumerate().map(uuid).collect()
}

fn canonical(uuid: [u8; 16]) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(uuid));
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int8Type;
    use arrow_array::{
        BinaryArray, DictionaryArray, FixedSizeBinaryArray, Float32Array, Float64Array, UInt64Array,
    };

    use super::*;

    fn decoded(array: impl Array + 'static, kind: IdKind) -> std::result::Result<Ids, String> {
        let array: ArrayRef = Arc::new(array);
        decode_ids(&array, kind, OnNullId::Skip, Path::new("t"), 10).map_err(|e| e.to_string())
    }

    #[test]
    fn floats_are_ids_if_they_are_integers_that_a_float_tells_apart() {
        let ids = decoded(Float64Array::from(vec![7.0, f64::NAN, -2.0]), IdKind::Int).unwrap();
        assert_eq!(ids, Ids::Int(vec![Some(7), None, Some(-2)].into()));
        let ids = decoded(Float32Array::from(vec![7.0]), IdKind::Text).unwrap();
        assert_eq!(ids, Ids::Text(vec!["7"].into()));
        let refused = |x| decoded(Float64Array::from(vec![1.0, x]), IdKind::Int).unwrap_err();
        assert_eq!(
            refused(1.5),
            "t: row 11: the id 1.5 is not an integer; choose another column with ⟨id-column⟩"
        );
        assert_eq!(
            refused(9_007_199_254_740_992.0),
            "t: row 11: the id 9007199254740992 is a float too large to be exact; write the ids as \
             integers or text"
        );
        assert!(decoded(Float32Array::from(vec![16_777_216.0]), IdKind::Int).is_err());
    }

    #[test]
    fn sixteen_bytes_are_a_uuid() {
        let bytes: Vec<u8> = (0..16).map(|i| i * 17).collect();
        let want = Ids::Text(vec!["00112233-4455-6677-8899-aabbccddeeff"].into());
        let fixed = FixedSizeBinaryArray::try_from_iter([bytes.clone()].into_iter()).unwrap();
        assert_eq!(decoded(fixed, IdKind::Text).unwrap(), want);
        assert_eq!(decoded(BinaryArray::from_vec(vec![&bytes]), IdKind::Text).unwrap(), want);
        assert_eq!(
            decoded(BinaryArray::from_vec(vec![b"abc"]), IdKind::Text).unwrap_err(),
            "t: row 10: the id has 3 bytes where the 16 of a UUID are expected; write the ids as text \
             or integers"
        );
        assert_eq!(id_kind(&DataType::FixedSizeBinary(8)), None);
    }

    #[test]
    fn large_unsigned_ids_are_text_and_refused_as_integers() {
        let ids = UInt64Array::from(vec![1, u64::MAX]);
        assert!(exceeds(&(Arc::new(ids.clone()) as ArrayRef)));
        let text = decoded(ids.clone(), IdKind::Text).unwrap();
        assert_eq!(text, Ids::Text(vec!["1", "18446744073709551615"].into()));
        assert_eq!(
            decoded(ids.clone(), IdKind::Int).unwrap_err(),
            "t: row 11: the id 18446744073709551615 does not fit a 64-bit integer; pass ⟨text-ids⟩ to \
             read all ids as text"
        );
        let keys = arrow_array::Int8Array::from(vec![1, 0, 1]);
        let dictionary = DictionaryArray::<Int8Type>::new(keys, Arc::new(ids));
        assert!(exceeds(&(Arc::new(dictionary.clone()) as ArrayRef)));
        assert_eq!(decoded(dictionary, IdKind::Text).unwrap().get(1), "1");
    }
}
