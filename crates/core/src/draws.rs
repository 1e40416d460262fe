//! What trainers draw: integers below a bound, items by weight, and a seeded order of samples.
//!
//! Draws    the words of one [`Place`], one after the other
//! below    the unbiased multiply-shift of Lemire, "Fast random integer generation in an interval" (2019)
//! Alias    Walker's method in Vose's form (1991): a draw by weight from two words
//! Order    a bijection of 0 .. n-1: four rounds of x -> a x + c, x ^= x >> s modulo a power of two, repeated
//!          until the value falls below n; sample t of an epoch needs no list of the others

use crate::{Place, Seed, Stream};

/// The words of one address, in order.
#[derive(Clone, Copy, Debug)]
pub struct Draws {
    place: Place,
    next_block: u32,
    words: [u32; 4],
    left: usize,
}

impl Place {
    /// Returns the words of this address from the first one on.
    #[inline]
    pub fn draws(self) -> Draws {
        Draws { place: self, next_block: 0, words: [0; 4], left: 0 }
    }
}

impl Draws {
    /// Returns the next word.
    #[inline]
    pub fn word(&mut self) -> u32 {
        if self.left == 0 {
            self.words = self.place.words(self.next_block);
            self.next_block += 1;
            self.left = 4;
        }
        self.left -= 1;
        self.words[3 - self.left]
    }

    /// Returns a uniform integer below `n`.
    ///
    /// # Panics
    /// If `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u32) -> u32 {
        assert!(n > 0, "nothing to draw from");
        let mut product = u64::from(self.word()) * u64::from(n);
        if (product as u32) < n {
            let threshold = n.wrapping_neg() % n;
            while (product as u32) < threshold {
                product = u64::from(self.word()) * u64::from(n);
            }
        }
        (product >> 32) as u32
    }

    /// Returns whether an event of the given [`threshold`] happens.
    #[inline]
    pub fn happens(&mut self, threshold: u64) -> bool {
        u64::from(self.word()) < threshold
    }

    /// Returns a uniform number in [0, 1) of 32 bits.
    #[inline]
    pub fn uniform(&mut self) -> f32 {
        const TWO_POW_MINUS_24: f32 = 1.0 / (1 << 24) as f32;
        (self.word() >> 8) as f32 * TWO_POW_MINUS_24
    }
}

/// Converts a probability to steps of 2^-32, as [`Draws::happens`] takes it.
pub fn threshold(probability: f64) -> u64 {
    (probability.clamp(0.0, 1.0) * 4_294_967_296.0).round() as u64
}

/// An alias table: draws indices with probability proportional to their weights.
///
/// ```
/// use veridical_core::{Alias, Seed, Stream};
///
/// let alias = Alias::new(&[0.0, 3.0, 1.0]).expect("weights");
/// let mut draws = Stream::new(Seed::new(1)?, "example").at(0, 0).draws();
/// let ones = (0..1000).filter(|_| alias.draw(&mut draws) == 1).count();
/// assert!((700..800).contains(&ones)); // three in four
/// # Ok::<(), veridical_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Alias {
    /// Where a slot's own index ends, in steps of 2^-32, and the index beyond.
    slots: Vec<(u32, u32)>,
}

impl Alias {
    /// Builds the table. Returns `None` unless all weights are at least 0 and one is above 0.
    pub fn new(weights: &[f64]) -> Option<Self> {
        let mut slots = vec![(0, 0); weights.len()];
        Self::fill(weights, &mut slots).then_some(Self { slots })
    }

    /// Fills the slots of one table; false if the weights are invalid.
    fn fill(weights: &[f64], slots: &mut [(u32, u32)]) -> bool {
        let total: f64 = weights.iter().sum();
        let bad = |w: &f64| !w.is_finite() || *w < 0.0;
        if total <= 0.0 || !total.is_finite() || weights.iter().any(bad) {
            return false;
        }
        let n = weights.len() as f64;
        let mut share: Vec<f64> = weights.iter().map(|w| w * n / total).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..weights.len() as u32).partition(|&i| share[i as usize] < 1.0);
        for (i, slot) in slots.iter_mut().enumerate() {
            *slot = (u32::MAX, i as u32);
        }
        while let (Some(&s), Some(&l)) = (small.last(), large.last()) {
            small.pop();
            slots[s as usize] =
                ((share[s as usize] * 4_294_967_296.0).min(4_294_967_295.0) as u32, l);
            share[l as usize] -= 1.0 - share[s as usize];
            if share[l as usize] < 1.0 {
                large.pop();
                small.push(l);
            }
        }
        true
    }

    /// Returns the number of weights.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether the table is empty, which is never the case.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Draws an index by weight.
    #[inline]
    pub fn draw(&self, draws: &mut Draws) -> u32 {
        let slot = draws.below(self.slots.len() as u32);
        let (own, other) = self.slots[slot as usize];
        if draws.word() < own { slot } else { other }
    }
}

/// One alias table per list, stored contiguously: the neighbors of each node by weight.
#[derive(Clone, Debug)]
pub struct AliasLists {
    slots: Vec<(u32, u32)>,
}

impl AliasLists {
    /// Builds the tables. `lists` are consecutive ranges of `weights`; empty ones are skipped. Returns `None` if the
    /// weights of a list are invalid.
    pub fn new(
        weights: &[f32],
        lists: impl Iterator<Item = std::ops::Range<usize>>,
    ) -> Option<Self> {
        let mut slots = vec![(0, 0); weights.len()];
        for list in lists.filter(|list| !list.is_empty()) {
            let own: Vec<f64> = weights[list.clone()].iter().map(|&w| f64::from(w)).collect();
            if !Alias::fill(&own, &mut slots[list]) {
                return None;
            }
        }
        Some(Self { slots })
    }

    /// Returns the probability of entry `at` in draws from a list: O(length).
    pub fn share(&self, list: std::ops::Range<usize>, at: usize) -> f64 {
        let slots = &self.slots[list];
        let own = |&(own, _): &(u32, u32)| f64::from(own) / 4_294_967_296.0;
        let beyond = slots.iter().filter(|slot| slot.1 as usize == at).map(|slot| 1.0 - own(slot));
        (own(&slots[at]) + beyond.sum::<f64>()) / slots.len() as f64
    }

    /// Draws a position within the list, by weight.
    ///
    /// # Panics
    /// If the list is empty.
    #[inline]
    pub fn draw(&self, list: std::ops::Range<usize>, draws: &mut Draws) -> usize {
        let slots = &self.slots[list];
        let slot = draws.below(slots.len() as u32);
        let (own, other) = slots[slot as usize];
        (if draws.word() < own { slot } else { other }) as usize
    }
}

/// A seeded permutation of 0 .. n-1.
///
/// ```
/// use veridical_core::{Order, Seed};
///
/// let order = Order::new(5, Seed::new(1)?, "order", 0);
/// let mut samples: Vec<u64> = (0..5).map(|t| order.at(t)).collect();
/// samples.sort_unstable();
/// assert_eq!(samples, [0, 1, 2, 3, 4]); // every sample once
/// # Ok::<(), veridical_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Order {
    n: u64,
    mask: u64,
    shift: u32,
    rounds: [(u64, u64); 4],
}

impl Order {
    /// Creates the order of `n` samples in an epoch.
    pub fn new(n: u64, seed: Seed, name: &str, epoch: u32) -> Self {
        let bits = n.max(2).next_power_of_two().trailing_zeros();
        let mask = u64::MAX >> (64 - bits);
        let place = Stream::new(seed, name).at(epoch, 0);
        let round = |r: u32| {
            let [a, b, c, d] = place.words(r);
            let wide = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
            (wide(a, b) | 1, wide(c, d))
        };
        Self { n, mask, shift: bits.div_ceil(2), rounds: [round(0), round(1), round(2), round(3)] }
    }

    /// Returns the sample at position `t` of the order.
    ///
    /// # Panics
    /// If `t` is not below n.
    #[inline]
    pub fn at(&self, t: u64) -> u64 {
        assert!(t < self.n, "beyond the order");
        let mut x = t;
        loop {
            for (a, c) in self.rounds {
                x = x.wrapping_mul(a).wrapping_add(c) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.n {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(name: &str, index: u64) -> Draws {
        Stream::new(Seed::new(3).unwrap(), name).at(0, index).draws()
    }

    /// Pearson's statistic of n draws in k cells has mean k - 1 and variance about 2 (k - 1); five standard
    /// deviations allowed.
    fn assert_frequencies(counts: &[u32], shares: &[f64]) {
        let n: u32 = counts.iter().sum();
        let term = |(&c, &p): (&u32, &f64)| {
            let want = p * f64::from(n);
            if want == 0.0 {
                assert_eq!(c, 0)
            }
            if want == 0.0 { 0.0 } else { (f64::from(c) - want).powi(2) / want }
        };
        let statistic: f64 = counts.iter().zip(shares).map(term).sum();
        let freedom = shares.iter().filter(|p| **p > 0.0).count() as f64 - 1.0;
        assert!(statistic < freedom + 5.0 * (2.0 * freedom).sqrt(), "chi-square {statistic}");
    }

    #[test]
    fn draws_are_the_words_of_the_place() {
        let place = Stream::new(Seed::new(3).unwrap(), "w").at(1, 2);
        let mut draws = place.draws();
        let got: Vec<u32> = (0..6).map(|_| draws.word()).collect();
        assert_eq!(got[..4], place.words(0));
        assert_eq!(got[4..], place.words(1)[..2]);
    }

    #[test]
    fn numbers_below_a_bound_are_uniform() {
        let mut draws = draws("below", 0);
        let mut counts = [0; 7];
        (0..70_000).for_each(|_| counts[draws.below(7) as usize] += 1);
        assert_frequencies(&counts, &[1.0 / 7.0; 7]);
    }

    #[test]
    fn items_are_drawn_by_weight() {
        let weights = [0.5, 0.0, 3.0, 1.0, 0.01, 2.0];
        let total: f64 = weights.iter().sum();
        let shares = weights.map(|w| w / total);
        let alias = Alias::new(&weights).unwrap();
        let mut draws = draws("alias", 0);
        let mut counts = [0; 6];
        (0..100_000).for_each(|_| counts[alias.draw(&mut draws) as usize] += 1);
        assert_frequencies(&counts, &shares);
        for bad in [&[][..], &[0.0], &[-1.0, 2.0], &[f64::NAN]] {
            assert!(Alias::new(bad).is_none());
        }
    }

    #[test]
    fn lists_are_drawn_from_on_their_own() {
        let lists = AliasLists::new(&[1.0, 3.0, 5.0], [0..2, 2..2, 2..3].into_iter()).unwrap();
        let mut draws = draws("lists", 0);
        let mut counts = [0; 2];
        (0..40_000).for_each(|_| counts[lists.draw(0..2, &mut draws)] += 1);
        assert_frequencies(&counts, &[0.25, 0.75]);
        assert_eq!(lists.draw(2..3, &mut draws), 0);
    }

    #[test]
    fn an_order_visits_every_sample_once() {
        for n in [1, 2, 3, 7, 64, 1000, 4097] {
            let order = Order::new(n, Seed::new(1).unwrap(), "order", 5);
            let mut seen: Vec<u64> = (0..n).map(|t| order.at(t)).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..n).collect::<Vec<_>>());
        }
    }

    /// Over many epochs, sample 3 is equally often at every position, and so is its successor.
    #[test]
    fn orders_look_random() {
        let (n, epochs) = (20, 20_000);
        let (mut places, mut gaps) = (vec![0; n], vec![0; n]);
        for epoch in 0..epochs {
            let order = Order::new(n as u64, Seed::new(1).unwrap(), "order", epoch);
            let seen: Vec<u64> = (0..n as u64).map(|t| order.at(t)).collect();
            places[seen.iter().position(|&s| s == 3).unwrap()] += 1;
            gaps[((seen[1] + n as u64 - seen[0]) % n as u64) as usize] += 1;
        }
        assert_frequencies(&places, &vec![1.0 / n as f64; n]);
        let apart: Vec<f64> =
            (0..n).map(|g| if g == 0 { 0.0 } else { 1.0 / (n - 1) as f64 }).collect();
        assert_frequencies(&gaps, &apart);
    }
}
