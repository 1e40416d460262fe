//! Mini-batches of histories: inputs, targets and negatives.
//!
//! Every position of a history predicts the next item. SSE (paper 001, section 4.2) replaces input items with probability
//! p_x and target items with p_y, each by its own transition; negatives are noise already. An epoch visits every user once,
//! in a new random order.

use veridical_core::{Alias, Draws, Order, Seed, Stream};
use veridical_data::{Interactions, Lists};

use crate::sse::Moves;
use crate::trainers::chosen::Chosen;
use crate::{Error, Result};

/// Draws of a negative before any item is accepted: such a user has interacted with nearly every item.
const TRIES: u32 = 100;

/// How many negatives are drawn, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Negatives {
    /// This many per position, none of which are items of the user.
    Own(usize),
    /// This many, shared by all positions of a batch.
    Shared(usize),
}

/// A batch of packed histories.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Batch {
    /// The start of each history, and the end of the last.
    pub starts: Vec<usize>,
    /// The input items.
    pub inputs: Vec<u32>,
    /// The next item after each input.
    pub targets: Vec<u32>,
    /// The negative items.
    pub negatives: Vec<u32>,
}

/// Makes batches.
pub(crate) struct Batches<'a> {
    /// The items of each user in chronological order.
    sequences: Lists,
    /// The users with at least two items.
    users: Vec<u32>,
    chosen: Chosen,
    n_items: u32,
    popularity: Option<Alias>,
    length: usize,
    size: usize,
    negatives: Negatives,
    /// The transitions of inputs and of targets.
    sse: Moves<'a, 2>,
    seed: Seed,
}

impl<'a> Batches<'a> {
    /// Makes batches of some rows of the data: `size` users per batch, at most `length` positions each.
    ///
    /// # Errors
    /// [`veridical_core::Error::Unfit`] if no user has two items.
    pub fn new(
        data: &Interactions,
        rows: &[u32],
        length: usize,
        size: usize,
        negatives: Negatives,
        sse: Moves<'a, 2>,
        seed: Seed,
    ) -> Result<Self> {
        let sequences = data.sequences(rows);
        let has_pair = |&user: &u32| sequences.get(user as usize).len() >= 2;
        let users: Vec<u32> = (0..sequences.len() as u32).filter(has_pair).collect();
        if users.is_empty() {
            let what = "no user has two or more items, so there is no next item to predict";
            return Err(Error::unfit(what));
        }
        let chosen = Chosen::new(data.by_user(rows));
        let n_items = data.items.len() as u32;
        Ok(Self {
            sequences,
            users,
            chosen,
            n_items,
            popularity: None,
            length,
            size,
            negatives,
            sse,
            seed,
        })
    }

    /// Draws negatives by item counts to a power.
    pub fn by_popularity(mut self, power: f64) -> Self {
        let weights: Vec<f64> = self.counts().iter().map(|&n| f64::from(n).powf(power)).collect();
        self.popularity = Alias::new(&weights);
        self
    }

    /// The count of each item.
    pub fn counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.n_items as usize];
        self.sequences.values().iter().for_each(|&i| counts[i as usize] += 1);
        counts
    }

    /// The number of users in an epoch.
    pub fn users(&self) -> u64 {
        self.users.len() as u64
    }

    /// The number of histories that are cut, and the length of the longest.
    pub fn cut(&self) -> (usize, usize) {
        let lens = self.users.iter().map(|&user| self.sequences.get(user as usize).len());
        let longest = lens.clone().max().unwrap_or(0);
        (lens.filter(|len| *len > self.length + 1).count(), longest)
    }

    /// The notes about histories that are cut.
    pub fn notes(&self) -> Vec<String> {
        let (cut, longest) = self.cut();
        let (length, users) = (self.length, self.users());
        let note = format!(
            "{cut} of {users} histories are longer than ⟨length⟩ {length} (the longest has {longest} items); only their last items are used"
        );
        if cut > 0 { vec![note] } else { Vec::new() }
    }

    /// The maximum number of positions in a batch.
    pub fn most_positions(&self) -> usize {
        self.size.min(self.users.len()) * self.cut().1.saturating_sub(1).min(self.length)
    }

    /// The number of batches in an epoch.
    pub fn len(&self) -> u64 {
        self.users().div_ceil(self.size as u64)
    }

    /// The order of the users in an epoch.
    pub fn order(&self, epoch: u32) -> Order {
        Order::new(self.users(), self.seed, "sequences/order", epoch)
    }

    /// Fills in batch `number` of an epoch.
    pub fn fill(&self, epoch: u32, number: u64, order: &Order, batch: &mut Batch) {
        let Batch { starts, inputs, targets, negatives } = batch;
        starts.clear();
        starts.push(0);
        inputs.clear();
        targets.clear();
        negatives.clear();
        let stream = Stream::new(self.seed, "sequences/negative");
        let first = number * self.size as u64;
        for t in first..(first + self.size as u64).min(self.users()) {
            let user = self.users[order.at(t) as usize];
            let [mut of_input, mut of_target] = self.sse.movers(epoch, t);
            let items = self.sequences.get(user as usize);
            let items = &items[items.len().saturating_sub(self.length + 1)..];
            inputs.extend(items[..items.len() - 1].iter().map(|&i| of_input.draw(i)));
            targets.extend(items[1..].iter().map(|&i| of_target.draw(i)));
            starts.push(inputs.len());
            if let Negatives::Own(k) = self.negatives {
                let mut draws = stream.at(epoch, t).draws();
                negatives.extend(
                    (1..items.len()).flat_map(|_| 0..k).map(|_| self.negative(user, &mut draws)),
                );
            }
        }
        if let Negatives::Shared(k) = self.negatives {
            let mut draws = stream.at(epoch, number).draws();
            negatives.extend((0..k).map(|_| self.candidate(&mut draws)));
        }
    }

    fn candidate(&self, draws: &mut Draws) -> u32 {
        match &self.popularity {
            None => draws.below(self.n_items),
            Some(alias) => alias.draw(draws),
        }
    }

    /// Draws an item that the user did not interact with.
    fn negative(&self, user: u32, draws: &mut Draws) -> u32 {
        let mut item = self.candidate(draws);
        for _ in 0..TRIES {
            if !self.chosen.contains(user, item) {
                break;
            }
            item = self.candidate(draws);
        }
        item
    }
}

#[cfg(test)]
mod tests;
