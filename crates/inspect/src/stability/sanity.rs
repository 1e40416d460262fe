//! Checks of a single table before any geometry: most broken refreshes fail here.

use std::collections::HashSet;

use serde::Serialize;
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
    let dim = table.dim;
    let mut low = table.row(0).to_vec();
    let mut high = low.clone();
    let mut seen = HashSet::with_capacity(table.n_rows());
    let (mut zero_vectors, mut duplicate_vectors) = (0, 0);
    let mut norms = Vec::with_capacity(table.n_rows());
    for row in table.vectors.chunks_exact(dim) {
        let norm = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        if norm == 0.0 {
            zero_vectors += 1;
        } else if !seen.insert(hash(row)) {
            duplicate_vectors += 1;
        }
        norms.push(norm);
        for ((&x, low), high) in row.iter().zip(&mut low).zip(&mut high) {
            *low = low.min(x);
            *high = high.max(x);
        }
    }
    let quantiles = [0.0, 0.05, 0.5, 0.95, 1.0];
    Sanity {
        rows: table.n_rows(),
        dim,
        zero_vectors,
        duplicate_vectors,
        constant_columns: low.iter().zip(&high).filter(|(low, high)| low == high).count(),
        norm_quantiles: quantiles.map(|q| quantile(&mut norms, q).unwrap_or(f64::NAN)),
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
}
