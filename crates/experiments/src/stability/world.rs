//! What embeddings are learned from, and the classes of items that a consumer predicts from them.

use veridical::Result;
use veridical_core::{Order, Seed};
use veridical_data::generate::{ShopSettings, shop};
use veridical_data::{Interactions, Labels, Lists};
use veridical_inspect::Labeled;

use crate::RunOptions;
use crate::movielens::Folder;

/// A class with fewer items is left out: it could not be in both parts of a split.
const LEAST: usize = 5;

/// Sequences of items, and classes.
pub struct World {
    /// Rows by user, in order; without times.
    pub data: Interactions,
    /// The first class of every item, of the classes that are frequent enough.
    pub first: Labeled,
    /// All classes of the same items.
    pub sets: Vec<Vec<u32>>,
    /// How many classes there are in the sets.
    pub n_classes: usize,
}

impl World {
    /// MovieLens-1M with its genres; quick runs have a small generated shop with its planted clusters.
    pub fn new(options: &RunOptions<'_>) -> Result<Self> {
        if options.quick {
            let shop = shop(ShopSettings {
                users: 300,
                items: 120,
                clusters: 4,
                per_user: 20,
                skew: 0.5,
                noise: 0.5,
                seed: Seed::new(0)?,
            })?;
            let labels = shop.item_labels();
            return Ok(Self::of(&shop.data, &labels));
        }
        let folder = Folder::new(options.data);
        let data = folder.sequences()?;
        let labels = folder.genres(&data.items)?;
        Ok(Self::of(&data, &labels))
    }

    fn of(data: &Interactions, labels: &Labels) -> Self {
        let rows: Vec<u32> = (0..data.len() as u32).collect();
        let (first, sets) = classes(labels);
        Self {
            data: in_order(data, &data.sequences(&rows)),
            first,
            sets,
            n_classes: labels.classes.len(),
        }
    }

    /// How large it is, in words.
    pub fn described(&self) -> String {
        let (first, items) = (&self.first, self.data.items.len());
        format!(
            "{} interactions, {items} items, of which {} have one of {} first classes; the most frequent has {:.2} %",
            self.data.len(),
            first.rows.len(),
            first.classes,
            100.0 * first.majority(),
        )
    }

    /// The same with the order of every user's items drawn at random: who saw what, but not when.
    pub fn shuffled(&self) -> Result<Self> {
        let rows: Vec<u32> = (0..self.data.len() as u32).collect();
        let sequences = self.data.sequences(&rows);
        let mut data = self.data.clone();
        for user in 0..sequences.len() {
            let (range, items) = (sequences.range(user), sequences.get(user));
            let order =
                Order::new(items.len() as u64, Seed::new(0)?, "reproduce/shuffled", user as u32);
            for (t, place) in range.enumerate() {
                data.item[place] = items[order.at(t as u64) as usize];
            }
        }
        let (first, sets) = (self.first.clone(), self.sets.clone());
        Ok(Self { data, first, sets, n_classes: self.n_classes })
    }
}

/// The rows of all sequences, user by user.
fn in_order(data: &Interactions, sequences: &Lists) -> Interactions {
    let user = |u: usize| std::iter::repeat_n(u as u32, sequences.get(u).len());
    Interactions {
        users: data.users.clone(),
        items: data.items.clone(),
        user: (0..sequences.len()).flat_map(user).collect(),
        item: sequences.values().to_vec(),
        rating: None,
        time: None,
    }
}

/// Items whose first class has enough items, numbered anew, and all classes of these items.
fn classes(labels: &Labels) -> (Labeled, Vec<Vec<u32>>) {
    let mut counts = vec![0; labels.classes.len()];
    labels.of.iter().filter_map(|list| list.first()).for_each(|&c| counts[c as usize] += 1);
    let mut number = vec![None; counts.len()];
    let frequent = (0..counts.len()).filter(|&class| counts[class] >= LEAST);
    let classes = frequent.zip(0..).map(|(class, n)| number[class] = Some(n)).count();
    let mut first = Labeled { rows: Vec::new(), labels: Vec::new(), classes };
    let mut sets = Vec::new();
    for (item, list) in (0..).zip(labels.of.iter()) {
        if let Some(class) = list.first().and_then(|&class| number[class as usize]) {
            first.rows.push(item);
            first.labels.push(class);
            sets.push(list.to_vec());
        }
    }
    (first, sets)
}

#[cfg(test)]
mod tests {
    use veridical_core::Job;

    use super::*;

    fn small() -> World {
        World::new(&RunOptions { quick: true, data: None, keep: None, job: &Job::silent() })
            .unwrap()
    }

    #[test]
    fn shuffling_keeps_every_users_items_and_changes_their_order() {
        let world = small();
        let other = world.shuffled().unwrap();
        assert_eq!(world.data.user, other.data.user);
        assert_ne!(world.data.item, other.data.item);
        let rows: Vec<u32> = (0..world.data.len() as u32).collect();
        assert_eq!(world.data.by_user(&rows), other.data.by_user(&rows));
    }

    #[test]
    fn rare_first_classes_are_left_out_and_the_others_numbered_anew() {
        // Class 0 is the first of two items, class 1 of six (which also have class 2), class 2 of none.
        let pairs = (0..8u32).flat_map(|i| if i < 2 { vec![(i, 0)] } else { vec![(i, 1), (i, 2)] });
        let of = Lists::collect(8, pairs.collect::<Vec<_>>().into_iter());
        let (first, sets) = classes(&Labels { classes: veridical_data::IdMap::numbered(3), of });
        assert_eq!((first.classes, first.labels), (1, vec![0; 6]));
        assert_eq!((first.rows[0], &sets[0]), (2, &vec![1, 2]));
    }
}
