//! The items of each user, to draw negatives that are not among them.

use veridical_data::Lists;

/// The items of every user, ascending, behind a filter: most negatives are recognized from one word of memory.
pub(crate) struct Chosen {
    lists: Lists,
    /// One bit per pair at its hash, in 16 times as many bits.
    filter: Vec<u64>,
    shift: u32,
}

impl Chosen {
    pub fn new(lists: Lists) -> Self {
        let bits = (16 * lists.values().len()).next_power_of_two().max(64);
        let mut chosen =
            Self { lists, filter: vec![0; bits / 64], shift: 64 - bits.trailing_zeros() };
        for user in 0..chosen.lists.len() {
            for at in chosen.lists.range(user) {
                let (word, bit) = chosen.place(user as u32, chosen.lists.values()[at]);
                chosen.filter[word] |= bit;
            }
        }
        chosen
    }

    #[inline(always)]
    fn place(&self, user: u32, item: u32) -> (usize, u64) {
        let pair = u64::from(user) << 32 | u64::from(item);
        let mixed = (pair ^ pair >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let bit = mixed.wrapping_add(mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> self.shift;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    #[inline(always)]
    pub fn may_contain(&self, user: u32, item: u32) -> bool {
        let (word, bit) = self.place(user, item);
        self.filter[word] & bit != 0
    }

    pub fn contains(&self, user: u32, item: u32) -> bool {
        self.may_contain(user, item) && self.lists.get(user as usize).binary_search(&item).is_ok()
    }
}
