//! Sampled negatives: n distinct items that the user has in no part.
//!
//! Items are drawn one after the other, uniformly or by their counts in training, and drawn again while they
//! are known, relevant or taken. After 64 n draws the rest is drawn from a list: uniformly, or as the smallest
//! of Exp(1) / weight, which is the same law (Efraimidis & Spirakis 2006). All draws stand at the address
//! (evaluation seed, user number), so they do not depend on the model. Users with fewer than n other items
//! (of positive count) meet all of them.

use veridical_core::{Alias, Draws, Seed, Stream};
use veridical_data::Lists;

/// Draws per negative before the list is made.
const PATIENCE: usize = 64;

#[derive(Debug)]
pub(super) struct Candidates {
    counts: Vec<f64>,
    /// `None` if nothing was chosen at all.
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

    /// `n` items for `user`, ascending; scores of minus infinity mark the known ones.
    pub(super) fn uniform(&self, n: usize, user: u32, row: &[f32], relevant: &[u32]) -> Vec<u32> {
        let mut taken = Taken::new(n, row, relevant);
        let mut draws = self.uniform.at(0, u64::from(user)).draws();
        taken.fill(|| draws.below(row.len() as u32));
        let mut left = taken.left(|_| true);
        while taken.wants() && !left.is_empty() {
            taken.items.push(left.swap_remove(draws.below(left.len() as u32) as usize));
        }
        taken.sorted()
    }

    /// The same, by counts in training.
    pub(super) fn popular(&self, n: usize, user: u32, row: &[f32], relevant: &[u32]) -> Vec<u32> {
        let mut taken = Taken::new(n, row, relevant);
        let Some(alias) = &self.by_count else { return Vec::new() };
        let mut draws = self.popular.at(0, u64::from(user)).draws();
        taken.fill(|| alias.draw(&mut draws));
        if taken.wants() {
            let time = |draws: &mut Draws, i: u32| {
                let positive = (f64::from(draws.word()) + 1.0) / 4_294_967_296.0;
                -positive.ln() / self.counts[i as usize]
            };
            let left = taken.left(|i| self.counts[i as usize] > 0.0);
            let mut race: Vec<(f64, u32)> =
                left.into_iter().map(|i| (time(&mut draws, i), i)).collect();
            race.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let missing = n - taken.items.len();
            taken.items.extend(race.into_iter().take(missing).map(|(_, i)| i));
        }
        taken.sorted()
    }
}

/// What has been drawn, ascending until the list is made.
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

    fn wants(&self) -> bool {
        self.items.len() < self.n
    }

    fn allows(&self, i: u32) -> bool {
        self.row[i as usize] > f32::NEG_INFINITY && self.relevant.binary_search(&i).is_err()
    }

    fn fill(&mut self, mut draw: impl FnMut() -> u32) {
        let mut patience = PATIENCE * self.n;
        while self.wants() && patience > 0 {
            patience -= 1;
            let i = draw();
            if self.allows(i)
                && let Err(at) = self.items.binary_search(&i)
            {
                self.items.insert(at, i);
            }
        }
    }

    /// The others that may be drawn, none if nothing is wanted.
    fn left(&self, also: impl Fn(u32) -> bool) -> Vec<u32> {
        if !self.wants() {
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
