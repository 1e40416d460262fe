//! Checks of a single table before any geometry: most broken refreshes fail here.

use std::collections::HashMap;

use rayon::prelude::*;
use serde::Serialize;
use veridical_core::splitmix;
use veridical_core::stats::quantile;
use veridical_data::VectorTable;

/// The sanity checks of a table.
#[derive(Clone, Debug, Serialize)]
pub struct Sanity {
    /// The number of rows.
    pub rows: usize,
    /// The embedding dimension.
    pub dim: usize,
    /// The number of rows of zeros.
    pub zero_vectors: usize,
    /// The number of rows that repeat an earlier one bit by bit, without rows of zeros.
    pub duplicate_vectors: usize,
    /// The number of constant columns.
    pub constant_columns: usize,
    /// The quantiles of the row norms: minimum, 5 %, median, 95 %, maximum.
    pub norm_quantiles: [f64; 5],
}

/// Checks a table in one pass over its rows.
///
/// ```
/// use veridical_data::{Ids, VectorTable};
/// use veridical_inspect::stability::sanity;
///
/// let vectors = vec![3.0, 4.0, 0.0, 0.0, 3.0, 4.0];
/// let found = sanity(&VectorTable { ids: Ids::numbered(0, 3), dim: 2, vectors });
/// assert_eq!((found.zero_vectors, found.duplicate_vectors), (1, 1));
/// assert_eq!(found.norm_quantiles[4], 5.0); // the longest row
/// ```
pub fn sanity(table: &VectorTable) -> Sanity {
    let mut count = SanityCount::new(table.dim);
    count.add(&table.vectors);
    count.finish()
}

/// The checks of [`sanity()`] for rows that arrive piece by piece, in memory that does not grow with them.
///
/// Up to 131,072 rows everything is exact. Beyond, repeated rows and the inner quantiles of the norms are estimated from the
/// rows whose hash is below a bound that is halved whenever twice as many are kept; equal rows have equal hashes and stay
/// together.
pub struct SanityCount {
    dim: usize,
    rows: usize,
    zero_vectors: usize,
    low: Vec<f32>,
    high: Vec<f32>,
    norm_ends: [f64; 2],
    norms: Kept<f64>,
    /// How often each row occurs.
    contents: Kept<(u128, u32)>,
    places: HashMap<u128, usize>,
}

/// The number of rows up to which repetitions and norms are exact.
pub const KEPT: usize = 1 << 17;

/// Values by hash, thinned to those below a bound.
struct Kept<T> {
    values: Vec<(u64, T)>,
    bound: u64,
}

impl<T> Kept<T> {
    const fn new() -> Self {
        Self { values: Vec::new(), bound: u64::MAX }
    }

    /// Keeps a value, if its hash is below the bound; whether others had to go.
    fn push(&mut self, hash: u64, value: T) -> bool {
        if hash > self.bound {
            return false;
        }
        self.values.push((hash, value));
        let full = self.values.len() > 2 * KEPT;
        while self.values.len() > 2 * KEPT && self.bound > 1 {
            self.bound /= 2;
            let bound = self.bound;
            self.values.retain(|(hash, _)| *hash <= bound);
        }
        full
    }
}

impl SanityCount {
    /// Starts with no rows.
    pub fn new(dim: usize) -> Self {
        Self {
            dim,
            rows: 0,
            zero_vectors: 0,
            low: vec![f32::INFINITY; dim],
            high: vec![f32::NEG_INFINITY; dim],
            norm_ends: [f64::INFINITY, f64::NEG_INFINITY],
            norms: Kept::new(),
            contents: Kept::new(),
            places: HashMap::new(),
        }
    }

    /// Adds rows.
    pub fn add(&mut self, rows: &[f32]) {
        let of = |row: &[f32]| {
            let norm = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
            (norm, hash(row))
        };
        let found: Vec<(f64, u128)> = rows.par_chunks_exact(self.dim).map(of).collect();
        for (norm, hash) in found {
            self.norm_ends = [self.norm_ends[0].min(norm), self.norm_ends[1].max(norm)];
            self.norms.push(splitmix(self.rows as u64), norm);
            self.rows += 1;
            if norm == 0.0 {
                self.zero_vectors += 1;
            } else {
                self.count(hash);
            }
        }
        for row in rows.chunks_exact(self.dim) {
            for ((&x, low), high) in row.iter().zip(&mut self.low).zip(&mut self.high) {
                *low = low.min(x);
                *high = high.max(x);
            }
        }
    }

    fn count(&mut self, hash: u128) {
        if let Some(&at) = self.places.get(&hash) {
            self.contents.values[at].1.1 += 1;
            return;
        }
        let short = splitmix((hash >> 64) as u64);
        let at = self.contents.values.len();
        if self.contents.push(short, (hash, 1)) {
            let places = self.contents.values.iter().enumerate();
            self.places = places.map(|(at, (_, (hash, _)))| (*hash, at)).collect();
        } else if self.contents.values.len() > at {
            self.places.insert(hash, at);
        }
    }

    /// Returns the checks.
    pub fn finish(self) -> Sanity {
        let Self { dim, rows, zero_vectors, low, high, norm_ends, norms, contents, .. } = self;
        let counts = || contents.values.iter().map(|(_, (_, count))| u64::from(*count));
        let (seen, different) = (counts().sum::<u64>(), counts().count() as u64);
        let share = (seen - different) as f64 / seen.max(1) as f64;
        let mut norms: Vec<f64> = norms.values.into_iter().map(|(_, norm)| norm).collect();
        let inner = [0.05, 0.5, 0.95].map(|q| quantile(&mut norms, q).unwrap_or(f64::NAN));
        Sanity {
            rows,
            dim,
            zero_vectors,
            duplicate_vectors: (share * (rows - zero_vectors) as f64).round() as usize,
            constant_columns: low.iter().zip(&high).filter(|(low, high)| low == high).count(),
            norm_quantiles: [norm_ends[0], inner[0], inner[1], inner[2], norm_ends[1]],
        }
    }
}

/// 128 bits of FNV-1a (prime 2^88 + 0x13b) over the words of a row: two different rows among a billion collide with
/// probability below 2^-68.
fn hash(row: &[f32]) -> u128 {
    const PRIME: u128 = (1 << 88) + 0x13b;
    row.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, x| {
        (hash ^ u128::from(x.to_bits())).wrapping_mul(PRIME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use veridical_data::Ids;

    #[test]
    fn zero_constant_and_repeated_rows_are_counted() {
        let vectors = vec![0.0, 0.0, 3.0, 4.0, 3.0, 4.0, 0.0, 4.0, 0.0, 0.0];
        let table =
            VectorTable { ids: Ids::Int((0..5).collect::<Vec<i64>>().into()), dim: 2, vectors };
        let got = sanity(&table);
        assert_eq!((got.zero_vectors, got.duplicate_vectors, got.constant_columns), (2, 1, 0));
        assert_eq!(got.norm_quantiles, [0.0, 0.0, 4.0, 5.0, 5.0]);
        let constant = VectorTable {
            vectors: vec![1.0, 2.0, 1.0, 5.0],
            ids: Ids::Int(vec![1, 2].into()),
            dim: 2,
        };
        assert_eq!(sanity(&constant).constant_columns, 1);
    }

    /// Every row of the second half repeats one of the first. Thinned to at least 131,072 of 700,000 different rows, the share has
    /// a standard error below 0.5 / sqrt(131072) = 0.0014, and the median of norms 1 to n one of n 0.0014: both within four.
    #[test]
    fn many_rows_are_estimated_from_a_sample_that_keeps_repetitions_together() {
        let n = 700_000;
        let row = |i: usize| [(i % 350_000) as f32 + 1.0];
        let mut count = SanityCount::new(1);
        for first in (0..n).step_by(10_000) {
            let rows: Vec<f32> = (first..first + 10_000).flat_map(row).collect();
            count.add(&rows);
        }
        let got = count.finish();
        let share = got.duplicate_vectors as f64 / n as f64;
        assert!((share - 0.5).abs() < 1e-9, "{share}"); // every kept row was seen twice
        assert_eq!((got.norm_quantiles[0], got.norm_quantiles[4]), (1.0, 350_000.0));
        assert!(
            (got.norm_quantiles[2] / 350_000.0 - 0.5).abs() < 0.0056,
            "{:?}",
            got.norm_quantiles
        );
    }
}
