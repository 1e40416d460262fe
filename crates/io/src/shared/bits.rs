//! A set of row numbers, with the rank of each.

/// A growing set of bits.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits {
    words: Vec<u64>,
    /// The number of bits before every block of words; filled by `rank_all`.
    before: Vec<u32>,
    len: usize,
}

/// Words per block.
const BLOCK: usize = 16;

impl Bits {
    /// Makes a set of `len` rows, none of them in it.
    pub fn none(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)], before: Vec::new(), len }
    }

    /// Makes a set of all of `len` rows.
    pub fn all(len: usize) -> Self {
        let mut all = Self { words: vec![u64::MAX; len.div_ceil(64)], before: Vec::new(), len };
        if let Some(last) = all.words.last_mut().filter(|_| !len.is_multiple_of(64)) {
            *last = (1 << (len % 64)) - 1;
        }
        all
    }

    pub fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(64) {
            self.words.push(0);
        }
        self.len += 1;
        if bit {
            self.set(self.len - 1);
        }
    }

    /// Adds a row; whether it was there before.
    pub fn set(&mut self, at: usize) -> bool {
        let (word, bit) = (at / 64, 1 << (at % 64));
        let before = self.words[word] & bit != 0;
        self.words[word] |= bit;
        before
    }

    pub fn get(&self, at: usize) -> bool {
        self.words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Grows to `len` rows.
    pub fn grow(&mut self, len: usize) {
        self.len = self.len.max(len);
        self.words.resize(self.len.div_ceil(64), 0);
    }

    /// Keeps the rows that are also in `other`.
    pub fn and(&mut self, other: &Self) {
        self.words.iter_mut().enumerate().for_each(|(at, word)| {
            *word &= other.words.get(at).copied().unwrap_or(0);
        });
    }

    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Prepares `rank` and `select`; nothing may be added afterwards.
    pub fn rank_all(&mut self) {
        let mut sum = 0;
        self.before = self
            .words
            .chunks(BLOCK)
            .map(|block| {
                let before = sum;
                sum += block.iter().map(|word| word.count_ones()).sum::<u32>();
                before
            })
            .collect();
    }

    /// The number of rows of the set before `at`.
    pub fn rank(&self, at: usize) -> usize {
        let (word, block) = (at / 64, at / 64 / BLOCK);
        let inside = |(i, word): (usize, &u64)| -> u32 {
            let mask = if i == at / 64 { (1u64 << (at % 64)) - 1 } else { u64::MAX };
            (word & mask).count_ones()
        };
        let start = block * BLOCK;
        let until = (word + 1).min(self.words.len());
        let words = self.words.get(start..until).unwrap_or(&[]);
        let rest: u32 = words.iter().enumerate().map(|(i, w)| inside((start + i, w))).sum();
        self.before.get(block).copied().unwrap_or_else(|| self.count() as u32) as usize
            + rest as usize
    }

    /// The rows of the set from `from` on, rising.
    pub fn from(&self, from: usize) -> impl Iterator<Item = usize> + '_ {
        let first = from / 64;
        self.words.iter().enumerate().skip(first).flat_map(move |(at, &word)| {
            let mut left = if at == first { word & (u64::MAX << (from % 64)) } else { word };
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                (left != 0).then(|| {
                    left &= left - 1;
                    at * 64 + bit as usize
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_members_are_those_of_a_list() {
        let list: Vec<bool> = (0..5000).map(|i| i * i % 7 == 2 || i % 64 == 63).collect();
        let mut bits = Bits::default();
        list.iter().for_each(|bit| bits.push(*bit));
        bits.rank_all();
        for at in [0, 1, 63, 64, 65, 1023, 1024, 1025, 4999] {
            assert_eq!(bits.rank(at), list[..at].iter().filter(|b| **b).count(), "{at}");
            let after: Vec<usize> = (at..5000).filter(|&i| list[i]).collect();
            assert_eq!(bits.from(at).collect::<Vec<_>>(), after, "{at}");
            assert_eq!(bits.get(at), list[at]);
        }
        for len in [0, 1, 63, 64, 65, 5000] {
            assert_eq!(Bits::all(len).from(0).collect::<Vec<_>>(), (0..len).collect::<Vec<_>>());
        }
        let mut other = Bits::none(5000);
        assert!(!other.set(63) && other.set(63));
        bits.and(&other);
        assert_eq!(bits.count(), 1);
    }
}
