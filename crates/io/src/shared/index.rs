//! A compact index of ids: the number of every id in the order in which it was first seen, in 13 bytes per integer id and 21
//! per text id.
//!
//! An integer id is its own key. The key of a text id is 128 bits of BLAKE3, which no two ids in a table have in common: for n
//! ids by chance with probability n^2 / 2^129, and not by intent either.

use arrow_array::Array as _;
use veridical_core::splitmix;
use veridical_data::Ids;

/// An empty slot of the hash table.
const EMPTY: u32 = u32::MAX;

/// The keys of ids, by number.
enum Keys {
    Int(Vec<i64>),
    Text(Vec<u128>),
}

/// The numbers of ids.
pub(super) struct IdIndex {
    keys: Keys,
    /// Open addressing with linear probing, at most four fifths full.
    slots: Vec<u32>,
}

impl IdIndex {
    /// Makes an empty index for ids of the type of `like`, with room for `rows` of them.
    pub fn new(like: &Ids, rows: usize) -> Self {
        let keys = match like {
            Ids::Int(_) => Keys::Int(Vec::with_capacity(rows)),
            Ids::Text(_) => Keys::Text(Vec::with_capacity(rows)),
        };
        Self { keys, slots: vec![EMPTY; slots_for(rows.max(1024))] }
    }

    /// The number of bytes that an index of so many ids takes.
    pub fn bytes(rows: u64, text: bool) -> u64 {
        rows * (if text { 16 } else { 8 }) + 5 * rows
    }

    pub fn len(&self) -> usize {
        match &self.keys {
            Keys::Int(keys) => keys.len(),
            Keys::Text(keys) => keys.len(),
        }
    }

    /// Whether ids of this type can be in the index.
    pub fn takes(&self, ids: &Ids) -> bool {
        matches!((&self.keys, ids), (Keys::Int(_), Ids::Int(_)) | (Keys::Text(_), Ids::Text(_)))
    }

    /// Integer ids by number; `None` for text ids.
    pub fn integers(&self) -> Option<&[i64]> {
        match &self.keys {
            Keys::Int(keys) => Some(keys),
            Keys::Text(_) => None,
        }
    }

    /// The numbers of ids of the type of the index; new ones are added.
    pub fn numbers(&mut self, ids: &Ids) -> Vec<u32> {
        let n = ids.len();
        if (self.len() + n) * 5 > self.slots.len() * 4 {
            self.grow(self.len() + n);
        }
        match (ids, &mut self.keys) {
            (Ids::Int(ids), Keys::Int(keys)) => {
                let number = |id: &i64| insert(keys, &mut self.slots, *id, splitmix(*id as u64));
                ids.values().iter().map(number).collect()
            }
            (Ids::Text(ids), Keys::Text(keys)) => {
                let number = |at: usize| {
                    let key = text_key(ids.value(at));
                    insert(keys, &mut self.slots, key, key as u64)
                };
                (0..ids.len()).map(number).collect()
            }
            _ => Vec::new(), // refused by `takes`
        }
    }

    /// The number of an id in its spelling.
    pub fn find(&self, id: &str) -> Option<u32> {
        match &self.keys {
            Keys::Int(keys) => {
                // 007 is not the integer 7.
                let key = id.parse::<i64>().ok().filter(|key| key.to_string() == id)?;
                slot(keys, &self.slots, key, splitmix(key as u64)).ok()
            }
            Keys::Text(keys) => {
                let key = text_key(id);
                slot(keys, &self.slots, key, key as u64).ok()
            }
        }
    }

    fn grow(&mut self, ids: usize) {
        self.slots = Vec::new(); // before the larger one is made
        self.slots = vec![EMPTY; slots_for(ids + ids / 2)];
        match &self.keys {
            Keys::Int(keys) => refill(keys, &mut self.slots, |key| splitmix(*key as u64)),
            Keys::Text(keys) => refill(keys, &mut self.slots, |key| *key as u64),
        }
    }
}

const fn slots_for(ids: usize) -> usize {
    ids + ids / 4 + 1
}

/// The key of a text id.
pub(crate) fn text_key(id: &str) -> u128 {
    let hash = blake3::hash(id.as_bytes());
    let mut key = [0; 16];
    key.copy_from_slice(&hash.as_bytes()[..16]);
    u128::from_le_bytes(key)
}

/// The number of a key, or the free slot for it.
fn slot<K: PartialEq + Copy>(keys: &[K], slots: &[u32], key: K, hash: u64) -> Result<u32, usize> {
    // The high half of the product: evenly over any number of slots.
    let mut at = ((u128::from(hash) * slots.len() as u128) >> 64) as usize;
    loop {
        match slots[at] {
            EMPTY => return Err(at),
            number if keys[number as usize] == key => return Ok(number),
            _ => at = if at + 1 == slots.len() { 0 } else { at + 1 },
        }
    }
}

fn insert<K: PartialEq + Copy>(keys: &mut Vec<K>, slots: &mut [u32], key: K, hash: u64) -> u32 {
    slot(keys, slots, key, hash).unwrap_or_else(|free| {
        let number = keys.len() as u32;
        slots[free] = number;
        keys.push(key);
        number
    })
}

fn refill<K: PartialEq + Copy>(keys: &[K], slots: &mut [u32], hash: impl Fn(&K) -> u64) {
    for (number, key) in (0..).zip(keys) {
        if let Err(free) = slot(&keys[..number as usize], slots, *key, hash(key)) {
            slots[free] = number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Against a map of the standard library, through several growths.
    #[test]
    fn numbers_are_by_first_occurrence() {
        for text in [false, true] {
            let ids = |from: i64, n: i64| -> Ids {
                let values = (from..from + n).map(|i| i * 7919 % 5000);
                match text {
                    false => Ids::Int(values.collect::<Vec<i64>>().into()),
                    true => Ids::Text(values.map(|x| format!("id {x}")).collect::<Vec<_>>().into()),
                }
            };
            let mut index = IdIndex::new(&ids(0, 0), 0);
            let mut expected: HashMap<String, u32> = HashMap::new();
            for from in (0..9000).step_by(1000) {
                let part = ids(from, 1000);
                let numbers = index.numbers(&part);
                for (at, number) in numbers.into_iter().enumerate() {
                    let next = expected.len() as u32;
                    assert_eq!(number, *expected.entry(part.get(at)).or_insert(next));
                }
            }
            assert_eq!(index.len(), expected.len());
            assert!(expected.iter().all(|(id, number)| index.find(id) == Some(*number)));
            assert_eq!(
                (index.find("id -1"), index.find("-1"), index.find("007")),
                (None, None, None)
            );
        }
    }
}
