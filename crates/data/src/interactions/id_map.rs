//! Maps ids to indices.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, StringArray};
use arrow_schema::DataType;

use crate::{Cell, Ids};

/// Distinct ids in ascending order; the index of an id is its position.
///
/// ```
/// use veridical_data::IdMap;
///
/// let (ids, rows) = IdMap::of_texts(["pear", "apple", "pear"].into_iter());
/// assert_eq!((ids.len(), ids.id(0)), (2, "apple".to_owned()));
/// assert_eq!((ids.number("pear"), rows), (Some(1), vec![1, 0, 1]));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct IdMap {
    pub(super) ids: Ids,
}

impl IdMap {
    /// Creates the map of the integers 0 .. n-1.
    pub fn numbered(n: usize) -> Self {
        Self { ids: Ids::numbered(0, n) }
    }

    /// Creates the map of a column of ids, and returns the index of each row's id.
    pub fn of(ids: &Ids) -> (Self, Vec<u32>) {
        match ids {
            Ids::Int(ids) => Self::of_integers(ids.values()),
            Ids::Text(ids) => Self::of_texts(ids.iter().flatten()),
        }
    }

    /// Creates the map of integer ids, and returns the index of each row's id.
    pub fn of_integers(rows: &[i64]) -> (Self, Vec<u32>) {
        let (ids, numbers) = number(rows.iter().copied());
        (Self { ids: Ids::Int(Int64Array::from(ids)) }, numbers)
    }

    /// Creates the map of text ids, and returns the index of each row's id.
    pub fn of_texts<'a>(rows: impl Iterator<Item = &'a str>) -> (Self, Vec<u32>) {
        let (ids, numbers) = number(rows);
        (Self { ids: Ids::Text(StringArray::from_iter_values(ids)) }, numbers)
    }

    /// Returns the number of ids.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns whether there are no ids.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns the ids in the order of their indices.
    pub fn ids(&self) -> &Ids {
        &self.ids
    }

    /// Returns the id with this index, as text.
    pub fn id(&self, number: u32) -> String {
        self.ids.get(number as usize)
    }

    /// Returns the index of an id given as text, by binary search.
    pub fn number(&self, id: &str) -> Option<u32> {
        let at = match &self.ids {
            Ids::Int(ids) => ids.values().binary_search(&id.parse().ok()?).ok(),
            Ids::Text(ids) => {
                let (mut low, mut high) = (0, ids.len());
                while low < high {
                    let middle = low.midpoint(high);
                    if ids.value(middle) < id { low = middle + 1 } else { high = middle }
                }
                (low < ids.len() && ids.value(low) == id).then_some(low)
            }
        };
        at.map(|at| at as u32)
    }

    /// Returns the index of an id as stored in a file.
    pub fn find(&self, cell: Cell<'_>) -> Option<u32> {
        let integer = |id: i64| match &self.ids {
            Ids::Int(ids) => ids.values().binary_search(&id).ok().map(|at| at as u32),
            Ids::Text(_) => self.number(&id.to_string()),
        };
        match cell {
            Cell::Text(text) => self.number(text.trim()),
            Cell::Int(id) => integer(id),
            Cell::Float(id) if id.fract() == 0.0 && id.abs() < 9.0e15 => integer(id as i64),
            Cell::Float(_) | Cell::Missing => None,
        }
    }

    /// Returns the map of the ids with these indices, which must ascend.
    pub fn only(&self, numbers: &[u32]) -> Self {
        let ids = match &self.ids {
            Ids::Int(ids) => {
                let kept = numbers.iter().map(|&n| ids.value(n as usize));
                Ids::Int(Int64Array::from_iter_values(kept))
            }
            Ids::Text(ids) => {
                let kept = numbers.iter().map(|&n| ids.value(n as usize));
                Ids::Text(StringArray::from_iter_values(kept))
            }
        };
        Self { ids }
    }
}

impl IdMap {
    /// Returns the Arrow type of a column of these ids.
    pub fn data_type(&self) -> DataType {
        match self.ids {
            Ids::Int(_) => DataType::Int64,
            Ids::Text(_) => DataType::Utf8,
        }
    }

    /// Returns the ids with these indices, as an Arrow column.
    pub fn array(&self, numbers: &[u32]) -> ArrayRef {
        let numbers = numbers.iter().map(|&n| n as usize);
        match &self.ids {
            Ids::Int(ids) => Arc::new(Int64Array::from_iter_values(numbers.map(|n| ids.value(n)))),
            Ids::Text(ids) => {
                Arc::new(StringArray::from_iter_values(numbers.map(|n| ids.value(n))))
            }
        }
    }
}

/// Distinct values in ascending order, and the position of every value among them.
fn number<T: Ord + Copy + std::hash::Hash>(values: impl Iterator<Item = T>) -> (Vec<T>, Vec<u32>) {
    let mut seen: HashMap<T, u32> = HashMap::new();
    let mut ids = Vec::new();
    let mut numbers: Vec<u32> = Vec::new();
    for value in values {
        let number = match seen.entry(value) {
            Entry::Occupied(seen) => *seen.get(),
            Entry::Vacant(new) => {
                ids.push(value);
                *new.insert(ids.len() as u32 - 1)
            }
        };
        numbers.push(number);
    }
    let mut order: Vec<u32> = (0..ids.len() as u32).collect();
    order.sort_unstable_by_key(|&n| ids[n as usize]);
    let mut place = vec![0; ids.len()];
    order.iter().enumerate().for_each(|(at, &n)| place[n as usize] = at as u32);
    numbers.iter_mut().for_each(|n| *n = place[*n as usize]);
    (order.into_iter().map(|n| ids[n as usize]).collect(), numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_order_of_the_ids() {
        let (map, rows) = IdMap::of_integers(&[30, -4, 30, 7]);
        assert_eq!(rows, [2, 0, 2, 1]);
        assert_eq!((map.id(0).as_str(), map.number("30"), map.number("8")), ("-4", Some(2), None));
        let (map, rows) = IdMap::of_texts(["b", "a", "b", "c"].into_iter());
        assert_eq!(rows, [1, 0, 1, 2]);
        assert_eq!((map.number("c"), map.number("aa"), map.number("d")), (Some(2), None, None));
        assert_eq!(map.only(&[0, 2]).number("c"), Some(1));
    }
}
