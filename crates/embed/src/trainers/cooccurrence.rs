//! Co-occurrence counts of items over users, row by row: X'X for a binary X, never materialized as a whole.

use veridical_data::{Interactions, Lists};

/// The interactions of `rows` by user and by item, without repeats.
pub(super) struct Choices {
    /// The items of every user.
    pub by_user: Lists,
    /// The users of every item.
    pub by_item: Lists,
}

impl Choices {
    pub(super) fn new(data: &Interactions, rows: &[u32]) -> Self {
        let by_user = data.by_user(rows);
        let pairs =
            (0..).zip(by_user.iter()).flat_map(|(u, items)| items.iter().map(move |&i| (i, u)));
        let by_item = Lists::collect(data.items.len(), pairs);
        Self { by_user, by_item }
    }

    /// The number of users of item `i`.
    pub(super) fn count(&self, i: usize) -> u32 {
        self.by_item.get(i).len() as u32
    }
}

/// One row of X'X at a time.
#[derive(Default)]
pub(super) struct Row {
    counts: Vec<u32>,
    touched: Vec<u32>,
}

impl Row {
    /// Calls `take` with every item that shares a user with item `i` (including `i`), in the order found, and the
    /// number of users they share.
    pub(super) fn of(&mut self, choices: &Choices, i: usize, mut take: impl FnMut(u32, u32)) {
        self.counts.resize(choices.by_item.len(), 0);
        for &u in choices.by_item.get(i) {
            for &j in choices.by_user.get(u as usize) {
                let count = &mut self.counts[j as usize];
                if *count == 0 {
                    self.touched.push(j);
                }
                *count += 1;
            }
        }
        for j in self.touched.drain(..) {
            take(j, std::mem::take(&mut self.counts[j as usize]));
        }
    }
}
