//! User-item interactions: users, items, ratings and times, with the dense indices that trainers use.
//!
//! Users and items are indexed from 0 in the order of their ids (integers by value, text by bytes), so
//! the indices depend on the set of ids alone. The id maps are kept: outputs carry the original ids.

mod id_map;
mod intern;

pub use self::id_map::IdMap;
pub use self::intern::Interner;

/// Rows (user, item, optional rating, optional time), in the order of the file.
///
/// ```
/// use veridical_data::{IdMap, Interactions};
///
/// let (users, user) = IdMap::of_integers(&[7, 9, 7]);
/// let (items, item) = IdMap::of_texts(["b", "a", "a"].into_iter());
/// let data = Interactions { users, items, user, item, rating: None, time: None };
/// assert_eq!(data.by_user(&[0, 1, 2]).get(0), [0, 1]); // user 7: items a and b
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Interactions {
    /// The ids of the users.
    pub users: IdMap,
    /// The ids of the items.
    pub items: IdMap,
    /// The user index of every row.
    pub user: Vec<u32>,
    /// The item index of every row.
    pub item: Vec<u32>,
    /// The rating of every row, if the data has ratings.
    pub rating: Option<Vec<f32>>,
    /// The time of every row, in seconds or any other unit, if the data has times.
    pub time: Option<Vec<i64>>,
}

impl Interactions {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.user.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.user.is_empty()
    }

    /// Returns the items of every user among `rows`, ascending and without repeats.
    pub fn by_user(&self, rows: &[u32]) -> Lists {
        let pairs = rows.iter().map(|&r| (self.user[r as usize], self.item[r as usize]));
        let mut lists = Lists::collect(self.users.len(), pairs);
        lists.sort_and_dedup();
        lists
    }

    /// Returns the items of every user among `rows` in chronological order (ties in row order), including repeats.
    pub fn sequences(&self, rows: &[u32]) -> Lists {
        let mut rows = rows.to_vec();
        match &self.time {
            Some(time) => rows.sort_by_key(|&r| (time[r as usize], r)),
            None => rows.sort_unstable(),
        }
        Lists::collect(
            self.users.len(),
            rows.iter().map(|&r| (self.user[r as usize], self.item[r as usize])),
        )
    }
}

/// One list of indices for every key from 0, stored contiguously.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lists {
    starts: Vec<usize>,
    values: Vec<u32>,
}

impl Lists {
    /// Collects the values of every key below `n_keys`, in the order of `pairs`.
    pub fn collect(n_keys: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut starts = vec![0; n_keys + 1];
        pairs.clone().for_each(|(key, _)| starts[key as usize + 1] += 1);
        for key in 0..n_keys {
            starts[key + 1] += starts[key];
        }
        let mut next = starts.clone();
        let mut values = vec![0; starts[n_keys]];
        for (key, value) in pairs {
            values[next[key as usize]] = value;
            next[key as usize] += 1;
        }
        Self { starts, values }
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the list of `key`.
    pub fn get(&self, key: usize) -> &[u32] {
        &self.values[self.starts[key]..self.starts[key + 1]]
    }

    /// Returns the range of the list of `key` in [`values`](Self::values).
    pub fn range(&self, key: usize) -> std::ops::Range<usize> {
        self.starts[key]..self.starts[key + 1]
    }

    /// Returns all lists, concatenated.
    pub fn values(&self) -> &[u32] {
        &self.values
    }

    /// Iterates over the lists.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> + Clone {
        (0..self.len()).map(|key| self.get(key))
    }

    /// Creates lists in which that of `key` is `values[starts[key]..starts[key + 1]]`.
    pub fn from_raw(starts: Vec<usize>, values: Vec<u32>) -> Self {
        Self { starts, values }
    }

    /// Sorts every list and removes repeats.
    pub fn sort_and_dedup(&mut self) {
        let mut kept = 0;
        let mut start = 0;
        for key in 0..self.len() {
            let end = self.starts[key + 1];
            self.values[start..end].sort_unstable();
            let first = kept;
            for i in start..end {
                if kept == first || self.values[kept - 1] != self.values[i] {
                    self.values[kept] = self.values[i];
                    kept += 1;
                }
            }
            start = end;
            self.starts[key + 1] = kept;
        }
        self.values.truncate(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_order_and_sets_are_sorted_without_repeats() {
        let pairs = [(1, 5), (0, 7), (1, 2), (1, 5), (3, 1)];
        let mut lists = Lists::collect(4, pairs.into_iter());
        assert_eq!(lists.iter().collect::<Vec<_>>(), [&[7][..], &[5, 2, 5], &[], &[1]]);
        lists.sort_and_dedup();
        assert_eq!(lists.iter().collect::<Vec<_>>(), [&[7][..], &[2, 5], &[], &[1]]);
    }

    #[test]
    fn sequences_go_by_time_and_then_by_row() {
        let ids = |n| IdMap::numbered(n);
        let data = Interactions {
            users: ids(2),
            items: ids(4),
            user: vec![0, 0, 1, 0],
            item: vec![3, 1, 2, 0],
            rating: None,
            time: Some(vec![9, 4, 1, 4]),
        };
        assert_eq!(data.sequences(&[0, 1, 2, 3]).get(0), [1, 0, 3]);
        assert_eq!(data.by_user(&[0, 1, 3]).get(0), [0, 1, 3]);
    }
}
