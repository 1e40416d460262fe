//! A uniform sample of rows from a stream of unknown length.
//!
//! Row r gets the priority `stream.at(0, r)`; the rows with the smallest priorities are kept. Which
//! rows are kept depends on the seed and the row numbers alone, never on chunks.

use std::collections::BinaryHeap;

use crate::{Seed, Stream};

/// A reservoir of `capacity` rows of width `dim`.
#[derive(Debug)]
pub struct RowSample {
    stream: Stream,
    capacity: usize,
    dim: usize,
    /// Largest priority on top: (priority, row number, slot in `rows`).
    kept: BinaryHeap<(u64, u64, usize)>,
    rows: Vec<f32>,
}

impl RowSample {
    /// Creates an empty sample; `name` is the stream of its priorities.
    pub fn new(capacity: usize, dim: usize, seed: Seed, name: &str) -> Self {
        let stream = Stream::new(seed, name);
        Self { stream, capacity, dim, kept: BinaryHeap::new(), rows: Vec::new() }
    }

    /// Offers rows with their row numbers.
    pub fn offer(&mut self, numbers: impl Iterator<Item = u64>, rows: &[f32]) {
        for (row, number) in rows.chunks_exact(self.dim).zip(numbers) {
            let [a, b, _, _] = self.stream.at(0, number).words(0);
            let priority = u64::from(a) << 32 | u64::from(b);
            if self.kept.len() < self.capacity {
                self.kept.push((priority, number, self.kept.len()));
                self.rows.extend_from_slice(row);
            } else if let Some(mut top) = self.kept.peek_mut()
                && (priority, number) < (top.0, top.1)
            {
                let slot = top.2;
                *top = (priority, number, slot);
                self.rows[slot * self.dim..][..self.dim].copy_from_slice(row);
            }
        }
    }

    /// Returns the sampled rows in the order of their row numbers, row-major.
    pub fn into_rows(self) -> Vec<f32> {
        self.ordered_by(|(_, row, slot)| (row, slot))
    }

    /// Returns the sampled rows in random order, row-major.
    pub fn into_shuffled_rows(self) -> Vec<f32> {
        self.ordered_by(|(priority, row, slot)| ((priority, row), slot))
    }

    fn ordered_by<K: Ord>(self, key: impl Fn((u64, u64, usize)) -> (K, usize)) -> Vec<f32> {
        let mut order: Vec<_> = self.kept.into_iter().map(key).collect();
        order.sort_unstable();
        let row_of = |slot: usize| &self.rows[slot * self.dim..][..self.dim];
        order.into_iter().flat_map(|(_, slot)| row_of(slot).iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(n: u64, chunk: usize, capacity: usize) -> Vec<f32> {
        let rows: Vec<f32> = (0..n).flat_map(|r| [r as f32, -(r as f32)]).collect();
        let mut sample = RowSample::new(capacity, 2, Seed::new(0).unwrap(), "test");
        let mut first = 0;
        for part in rows.chunks(2 * chunk) {
            sample.offer(first.., part);
            first += part.len() as u64 / 2;
        }
        sample.into_rows()
    }

    #[test]
    fn the_sample_does_not_depend_on_chunks_and_keeps_rows_whole() {
        let want = sample(1000, 1000, 50);
        assert_eq!(want.len(), 100);
        assert!(want.chunks(2).all(|row| row[0] == -row[1]));
        assert!([1, 7, 999].iter().all(|&chunk| sample(1000, chunk, 50) == want));
        assert_eq!(sample(3, 2, 50).len(), 6);
    }

    /// The mean row number of n = 400 rows out of 10,000: standard error 10,000 / sqrt(12 n).
    #[test]
    fn the_sample_is_uniform() {
        let rows = sample(10_000, 100, 400);
        let mean = rows.chunks(2).map(|row| f64::from(row[0])).sum::<f64>() / 400.0;
        assert!((mean - 4999.5).abs() < 5.0 * 10_000.0 / (12.0f64 * 400.0).sqrt(), "mean {mean}");
    }
}
