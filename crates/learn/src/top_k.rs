//! The k highest of many scores.
//!
//! Higher scores first, then smaller numbers; NaN ranks below everything. One pass with a heap of size k: O(n)
//! for scores in random order, O(n log k) in the worst case.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A numbered candidate with its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// Number of the row, item or column.
    pub number: u32,
    /// Score of the candidate; higher is better.
    pub score: f32,
}

impl Scored {
    /// `Less` if this candidate ranks first.
    fn order(&self, other: &Self) -> Ordering {
        let key = |s: f32| if s.is_nan() { f32::NEG_INFINITY } else { s + 0.0 };
        key(other.score).total_cmp(&key(self.score)).then(self.number.cmp(&other.number))
    }
}

/// Ordered so that the top of the heap is the lowest-ranked candidate kept.
struct Kept(Scored);

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Kept {}
impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Kept {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.order(&other.0)
    }
}

/// Streaming top-k: keeps the highest of the scores that are offered one by one.
///
/// ```
/// let mut best = veridical_learn::Best::new(1);
/// best.offer(0, 0.2);
/// best.offer(1, 0.7);
/// assert_eq!(best.into_sorted()[0].number, 1);
/// ```
pub struct Best {
    k: usize,
    kept: BinaryHeap<Kept>,
}

impl Best {
    /// Creates an empty selection that keeps `k` candidates.
    pub fn new(k: usize) -> Self {
        Self { k, kept: BinaryHeap::with_capacity(k) }
    }

    /// Offers one more candidate.
    #[inline]
    pub fn offer(&mut self, number: u32, score: f32) {
        let scored = Scored { number, score };
        if self.kept.len() < self.k {
            self.kept.push(Kept(scored));
        } else if let Some(last) = self.kept.peek()
            // Most candidates rank below and cost one comparison; NaN falls through to the full order.
            && (score >= last.0.score || score.is_nan() || last.0.score.is_nan())
            && let Some(mut last) = self.kept.peek_mut()
            && scored.order(&last.0) == Ordering::Less
        {
            last.0 = scored;
        }
    }

    /// Whether it is full of candidates above all these scores; NaN is never below.
    #[inline]
    pub fn is_above(&self, scores: &[f32]) -> bool {
        let Some(last) = self.kept.peek().filter(|_| self.kept.len() >= self.k) else {
            return self.k == 0;
        };
        let below = |x: &f32| *x < last.0.score;
        scores.iter().map(|x| u8::from(!below(x))).fold(0, |any, x| any | x) == 0
    }

    /// Returns the candidates kept so far, in no order.
    pub fn kept(&self) -> impl Iterator<Item = Scored> + '_ {
        self.kept.iter().map(|kept| kept.0)
    }

    /// Returns the candidates kept, highest score first.
    pub fn into_sorted(self) -> Vec<Scored> {
        self.kept.into_sorted_vec().into_iter().map(|kept| kept.0).collect()
    }
}

/// Selects the `k` highest scores, highest first, or all of them if there are fewer.
///
/// ```
/// let scores = [0.5, 0.9, 0.9, 0.1];
/// let best = veridical_learn::top_k((0..).zip(scores), 2);
/// let numbers: Vec<u32> = best.iter().map(|scored| scored.number).collect();
/// assert_eq!(numbers, [1, 2]); // of equal scores the smaller number first
/// ```
pub fn top_k(scores: impl Iterator<Item = (u32, f32)>, k: usize) -> Vec<Scored> {
    let mut best = Best::new(k.min(scores.size_hint().1.unwrap_or(k)));
    best.k = k;
    scores.for_each(|(number, score)| best.offer(number, score));
    best.into_sorted()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a full sort.
        #[test]
        fn the_best_come_first_and_ties_by_number(
            scores in prop::collection::vec((-3i8..3).prop_map(f32::from), 0..40), k in 0usize..50,
        ) {
            let mut all: Vec<(u32, f32)> = (0..).zip(scores.iter().copied()).collect();
            let got: Vec<_> = top_k(all.iter().copied(), k).iter().map(|s| (s.number, s.score)).collect();
            all.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap().then(a.0.cmp(&b.0)));
            all.truncate(k);
            prop_assert_eq!(got, all);
        }
    }

    #[test]
    fn nan_comes_last_and_zero_has_no_sign() {
        let scores = [f32::NAN, -1.0, 0.0, -0.0];
        let order: Vec<u32> = top_k((0..).zip(scores), 4).iter().map(|s| s.number).collect();
        assert_eq!(order, [2, 3, 1, 0]);
    }
}
