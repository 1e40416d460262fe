//! Vector tables: ids and rows of f32.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, StringArray};
use arrow_schema::DataType;

/// A column of ids.
#[derive(Clone, Debug, PartialEq)]
pub enum Ids {
    /// Integer ids, or row numbers.
    Int(Int64Array),
    /// Text ids.
    Text(StringArray),
}

impl Ids {
    /// Returns the row numbers from `first` on.
    pub fn numbered(first: u64, n: usize) -> Self {
        Self::Int(Int64Array::from_iter_values((first..).take(n).map(|row| row as i64)))
    }

    /// Creates ids from texts: integers if all are, as they would be written.
    pub fn of_texts(texts: Vec<String>) -> Self {
        let integer =
            |id: &String| id.parse::<i64>().ok().filter(|number| number.to_string() == *id);
        match texts.iter().map(integer).collect::<Option<Vec<i64>>>() {
            Some(numbers) => Self::Int(numbers.into()),
            None => Self::Text(StringArray::from_iter_values(texts)),
        }
    }

    /// Returns the number of ids.
    pub fn len(&self) -> usize {
        match self {
            Self::Int(ids) => ids.len(),
            Self::Text(ids) => ids.len(),
        }
    }

    /// Returns whether there are no ids.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the `n` ids from position `from` on.
    pub fn slice(&self, from: usize, n: usize) -> Self {
        match self {
            Self::Int(ids) => Self::Int(ids.slice(from, n)),
            Self::Text(ids) => Self::Text(ids.slice(from, n)),
        }
    }

    /// Returns the ids at these positions.
    pub fn take(&self, places: &[u32]) -> Self {
        let places = || places.iter().map(|&at| at as usize);
        match self {
            Self::Int(ids) => {
                Self::Int(places().map(|at| ids.value(at)).collect::<Vec<_>>().into())
            }
            Self::Text(ids) => {
                Self::Text(StringArray::from_iter_values(places().map(|at| ids.value(at))))
            }
        }
    }

    /// Joins ids of one type end to end; integer ids without any.
    pub fn concat(parts: &[Self]) -> Self {
        let text = parts.iter().any(|ids| matches!(ids, Self::Text(_)));
        if text {
            let each = parts.iter().filter_map(|ids| match ids {
                Self::Text(ids) => Some(ids.iter().map(Option::unwrap_or_default)),
                Self::Int(_) => None,
            });
            return Self::Text(StringArray::from_iter_values(each.flatten()));
        }
        let each = parts.iter().filter_map(|ids| match ids {
            Self::Int(ids) => Some(ids.values().iter().copied()),
            Self::Text(_) => None,
        });
        Self::Int(each.flatten().collect::<Vec<i64>>().into())
    }

    /// Returns id `i` as text.
    pub fn get(&self, i: usize) -> String {
        match self {
            Self::Int(ids) => ids.value(i).to_string(),
            Self::Text(ids) => ids.value(i).to_owned(),
        }
    }

    /// Returns the ids as an Arrow column.
    pub fn to_array(&self) -> ArrayRef {
        match self {
            Self::Int(ids) => Arc::new(ids.clone()),
            Self::Text(ids) => Arc::new(ids.clone()),
        }
    }

    /// Creates ids from an Arrow array of exactly the type of one of the two variants.
    pub fn from_array(array: &dyn Array) -> Option<Self> {
        let any = array.as_any();
        match array.data_type() {
            DataType::Int64 => any.downcast_ref().cloned().map(Self::Int),
            DataType::Utf8 => any.downcast_ref().cloned().map(Self::Text),
            _ => None,
        }
    }
}

/// A vector table in memory.
///
/// ```
/// use veridical_data::{Ids, VectorTable};
///
/// let table = VectorTable { ids: Ids::numbered(0, 2), dim: 3, vectors: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0] };
/// assert_eq!(table.n_rows(), 2);
/// assert_eq!((table.ids.get(1), table.row(1)), ("1".to_owned(), &[4.0, 5.0, 6.0][..]));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct VectorTable {
    /// One id per row.
    pub ids: Ids,
    /// The dimension d of the vectors.
    pub dim: usize,
    /// The vectors, row-major.
    pub vectors: Vec<f32>,
}

impl VectorTable {
    /// Returns the number of rows.
    pub fn n_rows(&self) -> usize {
        self.ids.len()
    }

    /// Returns the vector of row `r`.
    pub fn row(&self, r: usize) -> &[f32] {
        &self.vectors[r * self.dim..][..self.dim]
    }
}
