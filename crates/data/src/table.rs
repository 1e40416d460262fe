//! Vector tables: ids and rows of f32.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, StringArray};
use arrow_schema::DataType;

/// Some ids.
#[derive(Clone, Debug, PartialEq)]
pub enum Ids {
    /// Integers, or row numbers.
    Int(Int64Array),
    /// Text.
    Text(StringArray),
}

impl Ids {
    /// Row numbers from `first` on.
    pub fn numbered(first: u64, n: usize) -> Self {
        Self::Int(Int64Array::from_iter_values((first..).take(n).map(|row| row as i64)))
    }

    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::Int(ids) => ids.len(),
            Self::Text(ids) => ids.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Some of the ids.
    pub fn slice(&self, from: usize, n: usize) -> Self {
        match self {
            Self::Int(ids) => Self::Int(ids.slice(from, n)),
            Self::Text(ids) => Self::Text(ids.slice(from, n)),
        }
    }

    /// Id `i` as text.
    pub fn get(&self, i: usize) -> String {
        match self {
            Self::Int(ids) => ids.value(i).to_string(),
            Self::Text(ids) => ids.value(i).to_owned(),
        }
    }

    /// As a column.
    pub fn to_array(&self) -> ArrayRef {
        match self {
            Self::Int(ids) => Arc::new(ids.clone()),
            Self::Text(ids) => Arc::new(ids.clone()),
        }
    }

    /// From an array of exactly the types of the two variants.
    pub fn from_array(array: &dyn Array) -> Option<Self> {
        let any = array.as_any();
        match array.data_type() {
            DataType::Int64 => any.downcast_ref().cloned().map(Self::Int),
            DataType::Utf8 => any.downcast_ref().cloned().map(Self::Text),
            _ => None,
        }
    }
}

/// A whole table in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// One id per row.
    pub ids: Ids,
    /// d.
    pub dim: usize,
    /// Row-major.
    pub vectors: Vec<f32>,
}

impl Table {
    /// How many rows.
    pub fn n_rows(&self) -> usize {
        self.ids.len()
    }

    /// Row `r`.
    pub fn row(&self, r: usize) -> &[f32] {
        &self.vectors[r * self.dim..][..self.dim]
    }
}
