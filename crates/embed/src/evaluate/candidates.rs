//! Sampled negatives: n distinct items that the user has in neither the training, validation nor test set.
//!
//! Items are drawn sequentially, uniformly or by their counts in training, and redrawn while they are known,
//! relevant or already drawn. After 64 n draws the rest is drawn from a list: uniformly, or as the smallest of
//! Exp(1) / weight, which is the same distribution (Efraimidis & Spirakis 2006). All draws are addressed by
//! (evaluation seed, user number), so they do not depend on the model. Users with fewer than n other items
//! (of positive count) get all of them.

use veridical_core::{Alias, Draws, Seed, Stream};
use veridical_data::Lists;

/// Draws per negative before falling back to the list.
const PATIENCE: usize = 64;

#[derive(Debug)]
pub(super) struct Candidates {
    counts: Vec<f64>,
    /// `None` if there are no interactions.
    by_count: Option<Alias>,
    uniform: Stream,
    popular: Stream,
}

impl Candidates {
    pub(super) fn new(train: &Lists, n_items: usize, seed: Seed) -> Self {
        let mut counts = vec![0.0; n_items];
        train.values().iter().for_each(|&i| counts[i as usize] += 1.0);
        let by_count = Alias::new(&counts);
        let stream = |name| Stream::new(seed, name);
        let (uniform, popular) = (stream("evaluate-uniform"), stream("evaluate-popular"));
        Self { counts, by_count, uniform, popular }
    }

    /// Draws `n` items for `user`, ascending; a score of minus infinity marks a known item.
    pub(super) fn uniform(&self, n: usize, user: u32, row: &[f32], relevant: &[u32]) -> Vec<u32> {
        let mut taken = Taken::new(n, row, relevant);
        let mut draws = self.uniform.at(0, u64::from(user)).draws();
        taken.fill(|| draws.below(row.len() as u32));
        let mut left = taken.left(|_| true);
        while taken.is_incomplete() && !left.is_empty() {
            taken.items.push(left.swap_remove(draws.below(left.len() as u32) as usize));
        }
        taken.sorted()
    }

    /// Draws by counts in training.
    pub(super) fn popular(&self, n: usize, user: u32, row: &[f32], relevant: &[u32]) -> Vec<u32> {
        let mut taken = Taken::new(n, row, relevant);
        let Some(alias) = &self.by_count else { return Vec::new() };
        let mut draws = self.popular.at(0, u64::from(user)).draws();
        taken.fill(|| alias.draw(&mut draws));
        self.by_race(taken, &mut draws).sorted()
    }

    /// Fills up with the smallest of Exp(1) / count.
    fn by_race<'a>(&self, mut taken: Taken<'a>, draws: &mut Draws) -> Taken<'a> {
        let mut time = |i: u32| {
            let positive = (f64::from(draws.word()) + 1.0) / 4_294_967_296.0;
            -positive.ln() / self.counts[i as usize]
        };
        let left = taken.left(|i| self.counts[i as usize] > 0.0);
        let mut race: Vec<(f64, u32)> = left.into_iter().map(|i| (time(i), i)).collect();
        race.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let missing = taken.n - taken.items.len();
        taken.items.extend(race.into_iter().take(missing).map(|(_, i)| i));
        taken
    }
}

/// The items drawn so far, ascending until the list is used.
struct Taken<'a> {
    n: usize,
    row: &'a [f32],
    relevant: &'a [u32],
    items: Vec<u32>,
}

impl<'a> Taken<'a> {
    fn new(n: usize, row: &'a [f32], relevant: &'a [u32]) -> Self {
        Self { n, row, relevant, items: Vec::with_capacity(n.min(row.len())) }
    }

    fn is_incomplete(&self) -> bool {
        self.items.len() < self.n
    }

    fn allows(&self, i: u32) -> bool {
        self.row[i as usize] > f32::NEG_INFINITY && self.relevant.binary_search(&i).is_err()
    }

    fn fill(&mut self, mut draw: impl FnMut() -> u32) {
        let mut patience = PATIENCE * self.n;
        while self.is_incomplete() && patience > 0 {
            patience -= 1;
            let i = draw();
            if self.allows(i)
                && let Err(at) = self.items.binary_search(&i)
            {
                self.items.insert(at, i);
            }
        }
    }

    /// The remaining items that may be drawn; empty if no more are needed.
    fn left(&self, also: impl Fn(u32) -> bool) -> Vec<u32> {
        if !self.is_incomplete() {
            return Vec::new();
        }
        let free = |i: &u32| self.allows(*i) && also(*i) && self.items.binary_search(i).is_err();
        (0..self.row.len() as u32).filter(free).collect()
    }

    fn sorted(mut self) -> Vec<u32> {
        self.items.sort_unstable();
        self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Item i occurs i times; item 0 never.
    fn train(n_items: u32) -> Lists {
        let pairs: Vec<(u32, u32)> =
            (0..n_items).flat_map(|i| (0..i).map(move |u| (u, i))).collect();
        Lists::collect(n_items as usize, pairs.into_iter())
    }

    fn candidates(n_items: u32) -> Candidates {
        Candidates::new(&train(n_items), n_items as usize, Seed::new(1).unwrap())
    }

    /// Pearson's statistic: mean k - 1, variance about 2 (k - 1), five standard deviations allowed.
    fn assert_shares(counts: &[u32], shares: &[f64]) {
        let n: u32 = counts.iter().sum();
        let term = |(&c, &p): (&u32, &f64)| {
            if p == 0.0 {
                assert_eq!(c, 0);
                return 0.0;
            }
            (f64::from(c) - p * f64::from(n)).powi(2) / (p * f64::from(n))
        };
        let statistic: f64 = counts.iter().zip(shares).map(term).sum();
        let freedom = shares.iter().filter(|p| **p > 0.0).count() as f64 - 1.0;
        assert!(statistic < freedom + 5.0 * (2.0 * freedom).sqrt(), "chi-square {statistic}");
    }

    #[test]
    fn drawn_items_are_distinct_allowed_and_as_many_as_requested() {
        let candidates = candidates(30);
        let mut row = vec![0.0; 30];
        [3, 4, 5].into_iter().for_each(|i: usize| row[i] = f32::NEG_INFINITY);
        for user in 0..200 {
            for n in [1, 10, 24, 25, 26, 100] {
                let uniform = candidates.uniform(n, user, &row, &[7, 9]);
                let popular = candidates.popular(n, user, &row, &[7, 9]);
                assert_eq!(uniform.len(), n.min(25));
                assert_eq!(popular.len(), n.min(24), "item 0 is never drawn by count");
                for drawn in [uniform, popular] {
                    assert!(drawn.windows(2).all(|w| w[0] < w[1]));
                    assert!(!drawn.iter().any(|i| [3, 4, 5, 7, 9].contains(i)));
                }
            }
        }
    }

    #[test]
    fn one_item_is_drawn_by_its_weight() {
        let candidates = candidates(8);
        let mut row = vec![0.0; 8];
        row[6] = f32::NEG_INFINITY;
        let (mut uniform, mut popular) = ([0; 8], [0; 8]);
        for user in 0..20_000 {
            candidates.uniform(1, user, &row, &[2]).iter().for_each(|&i| uniform[i as usize] += 1);
            candidates.popular(1, user, &row, &[2]).iter().for_each(|&i| popular[i as usize] += 1);
        }
        let sixth = 1.0 / 6.0;
        assert_shares(&uniform, &[sixth, sixth, 0.0, sixth, sixth, sixth, 0.0, sixth]);
        let total = f64::from(1 + 3 + 4 + 5 + 7);
        let share = [0.0, 1.0, 0.0, 3.0, 4.0, 5.0, 0.0, 7.0].map(|w| w / total);
        assert_shares(&popular, &share);
    }

    /// The fallback after `PATIENCE` draws has the distribution of sequential draws: of two from three items of
    /// weights 1, 2, 3, the item left out is item 1 with probability 2/6 3/4 + 3/6 2/3.
    #[test]
    fn the_rest_is_drawn_from_the_same_distribution() {
        let law = |race: bool| {
            let candidates = candidates(4);
            let row = [0.0; 4];
            let mut left_out = [0; 4];
            for user in 0..20_000u32 {
                let mut draws = candidates.popular.at(7, u64::from(user)).draws();
                let mut taken = Taken::new(2, &row, &[]);
                if !race {
                    taken.fill(|| candidates.by_count.as_ref().unwrap().draw(&mut draws));
                }
                let chosen = candidates.by_race(taken, &mut draws).sorted();
                left_out[(6 - chosen.iter().sum::<u32>()) as usize] += 1;
            }
            left_out
        };
        let first = 2.0 / 6.0 * 3.0 / 4.0 + 3.0 / 6.0 * 2.0 / 3.0;
        let second = 1.0 / 6.0 * 3.0 / 5.0 + 3.0 / 6.0 * 1.0 / 3.0;
        let shares = [0.0, first, second, 1.0 - first - second];
        assert_shares(&law(true), &shares);
        assert_shares(&law(false), &shares);
    }
}
