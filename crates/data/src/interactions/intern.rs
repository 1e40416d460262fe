//! Indices for ids as they are read, without keeping the text of the rows.
//!
//! Ids are integers as long as all are in canonical integer form (`7`, not `07` or `+7`), else text without
//! surrounding spaces. Two spellings that differ only in these spaces are rejected: one of them is a mistake,
//! and a guess could merge or split ids against the user's intent.

use std::collections::HashMap;

use arrow_array::{Int64Array, StringArray};

use super::IdMap;
use crate::{Cell, Ids};

/// Assigns indices to ids by first appearance.
#[derive(Debug)]
pub struct Interner {
    /// The ids so far, while all are integers.
    integers: HashMap<i64, u32>,
    /// The ids so far, once one is not an integer.
    texts: HashMap<String, u32>,
    is_text: bool,
    /// First spellings that had surrounding spaces.
    spaced: HashMap<u32, String>,
}

impl Interner {
    /// Creates an empty interner; with `text_ids`, ids are text even if all are integers.
    pub fn new(text_ids: bool) -> Self {
        let (integers, texts) = (HashMap::new(), HashMap::new());
        Self { integers, texts, is_text: text_ids, spaced: HashMap::new() }
    }

    fn len(&self) -> usize {
        if self.is_text { self.texts.len() } else { self.integers.len() }
    }

    /// Returns the index of an id.
    ///
    /// # Errors
    /// A message about what is wrong with the id.
    pub fn number(&mut self, cell: Cell<'_>) -> Result<u32, String> {
        if self.len() >= u32::MAX as usize {
            return Err("there are more than 2^32 - 1 ids".into());
        }
        match cell {
            Cell::Int(id) => Ok(self.integer(id)),
            Cell::Float(id) if id.fract() == 0.0 && id.abs() < 9.0e15 => {
                Ok(self.integer(id as i64))
            }
            Cell::Float(id) => {
                Err(format!("the id {id} is not an integer; store ids as integers or text"))
            }
            Cell::Missing => Err("the id is missing; fill it in or drop the row".into()),
            Cell::Text(text) => self.text(text),
        }
    }

    fn integer(&mut self, id: i64) -> u32 {
        if self.is_text {
            return self.insert_text(&id.to_string());
        }
        let next = self.integers.len() as u32;
        *self.integers.entry(id).or_insert(next)
    }

    fn insert_text(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.texts.get(text) {
            return number;
        }
        let next = self.texts.len() as u32;
        self.texts.insert(text.to_owned(), next);
        next
    }

    fn text(&mut self, spelling: &str) -> Result<u32, String> {
        let id = spelling.trim();
        if id.is_empty() {
            return Err("the id is missing; fill it in or drop the row".into());
        }
        let before = self.len();
        let number = match canonical_integer(id) {
            Some(id) => self.integer(id),
            None => {
                self.become_text();
                self.insert_text(id)
            }
        };
        let is_new = self.len() > before;
        if is_new && id.len() < spelling.len() {
            self.spaced.insert(number, spelling.to_owned());
        } else if !is_new && (id.len() < spelling.len() || !self.spaced.is_empty()) {
            let first = self.spaced.get(&number).map_or(id, String::as_str);
            if first != spelling {
                return Err(format!(
                    "the ids `{spelling}` and `{first}` differ only in the spaces around them; use one spelling"
                ));
            }
        }
        Ok(number)
    }

    fn become_text(&mut self) {
        if !self.is_text {
            self.is_text = true;
            let texts = self.integers.drain().map(|(id, number)| (id.to_string(), number));
            self.texts = texts.collect();
        }
    }

    /// Returns the map in the order of the ids, and the final index of every index returned so far.
    pub fn finish(self) -> (IdMap, Vec<u32>) {
        if self.is_text {
            let (ids, places) = sorted(self.texts);
            (IdMap { ids: Ids::Text(StringArray::from_iter_values(ids)) }, places)
        } else {
            let (ids, places) = sorted(self.integers);
            (IdMap { ids: Ids::Int(Int64Array::from(ids)) }, places)
        }
    }
}

fn sorted<T: Ord>(ids: HashMap<T, u32>) -> (Vec<T>, Vec<u32>) {
    let mut ids: Vec<(T, u32)> = ids.into_iter().collect();
    ids.sort_unstable();
    let mut places = vec![0; ids.len()];
    ids.iter().enumerate().for_each(|(place, (_, number))| places[*number as usize] = place as u32);
    (ids.into_iter().map(|(id, _)| id).collect(), places)
}

/// Accepts `7` and `-7`, but not `07`, `+7` or `-0`.
fn canonical_integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let first = digits.first()?;
    let plain = first.is_ascii_digit() && (*first != b'0' || text == "0");
    if plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn intern(ids: &[&str]) -> Result<(IdMap, Vec<u32>), String> {
        let mut interner = Interner::new(false);
        let numbers: Result<Vec<u32>, String> =
            ids.iter().map(|id| interner.number(Cell::Text(id))).collect();
        let (map, places) = interner.finish();
        Ok((map, numbers?.into_iter().map(|n| places[n as usize]).collect()))
    }

    #[test]
    fn ids_are_integers_until_one_is_not() {
        let (map, numbers) = intern(&["10", "9", " -3", "10"]).unwrap();
        assert_eq!(map, IdMap::of_integers(&[-3, 9, 10]).0);
        assert_eq!(numbers, [2, 1, 0, 2]);
        for other in ["07", "+7", "-0", "x", "1.0", "99999999999999999999"] {
            let (map, numbers) = intern(&["10", "9", other, "10"]).unwrap();
            assert_eq!(map, IdMap::of_texts(["10", "9", other].into_iter()).0, "{other}");
            assert_eq!(map.id(numbers[2]), other);
        }
        let mut interner = Interner::new(true);
        interner.number(Cell::Int(7)).unwrap();
        assert!(matches!(interner.finish().0.ids, Ids::Text(_)));
    }

    #[test]
    fn ids_that_differ_in_spaces_alone_are_refused() {
        assert!(intern(&[" a", " a", "b "]).is_ok());
        for ids in [[" a", "a"], ["a", "a "], ["7", " 7"], ["\t7", "7"]] {
            let message = intern(&ids).unwrap_err();
            let [first, second] = ids;
            assert!(message.contains(&format!("`{second}` and `{first}`")), "{message}");
        }
        assert!(intern(&[""]).unwrap_err().starts_with("the id is missing"));
    }

    proptest! {
        /// The result equals that of sorting all ids at once.
        #[test]
        fn numbers_do_not_depend_on_the_order_of_rows(ids in prop::collection::vec("[a-c0-2]{1,2}", 1..40)) {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let (map, numbers) = intern(&ids).unwrap();
            for (id, number) in ids.iter().zip(numbers) {
                prop_assert_eq!(map.number(id), Some(number));
            }
        }
    }
}
