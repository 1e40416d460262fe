//! Synthetic data with planted truth: the correct result of a measurement is known in advance.
//!
//! clusters    x = c_(label) + 0.3 e, unit rows; label = row mod k        neighbors share labels
//! low_rank    X = A B / sqrt(r) with A n x r, B r x d, Gaussian          rank r exactly
//! rotated     x Q with Q uniform over the orthogonal group               same Gram matrix
//! noisy       x + sigma e                                                Gram error grows with sigma
//! shop        interactions of users with tastes                          the best ranking and the best RMSE are known
//! images      smooth patterns at random shifts, with noise               knowing the patterns, errors are rare
//! corpus      documents of topics                                        documents of a topic belong together

mod corpus;
mod images;
mod shop;

use arrow_array::StringArray;
use veridical_core::orthogonal::random_orthogonal;
use veridical_core::{Seed, Stream};

pub use self::corpus::{CorpusSettings, PlantedCorpus, SequenceTokens, corpus, sequence_tokens};
pub use self::images::images;
pub use self::shop::{Shop, ShopSettings, shop, shop_in_order};
use crate::{Ids, VectorTable};

const CLUSTER_SPREAD: f64 = 0.3;

/// Generates unit rows around `k` random centers; row r belongs to cluster r mod k and has the id
/// `item-<r>`.
pub fn clusters(n: usize, dim: usize, k: usize, seed: Seed) -> VectorTable {
    let centers = gaussian(k, dim, seed, "generate/centres");
    let noise = gaussian(n, dim, seed, "generate/clusters");
    let mut vectors = Vec::with_capacity(n * dim);
    for (r, noise) in noise.chunks_exact(dim).enumerate() {
        let center = &centers[(r % k) * dim..][..dim];
        let row: Vec<f64> = center.iter().zip(noise).map(|(c, e)| c + CLUSTER_SPREAD * e).collect();
        let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        vectors.extend(row.iter().map(|x| (x / norm) as f32));
    }
    named(n, dim, vectors)
}

/// Generates a Gaussian table of rank `rank`.
pub fn low_rank(n: usize, dim: usize, rank: usize, seed: Seed) -> VectorTable {
    let a = gaussian(n, rank, seed, "generate/left");
    let b = gaussian(rank, dim, seed, "generate/right");
    named(n, dim, product(&a, &b, rank, dim, 1.0 / (rank as f64).sqrt()))
}

/// Applies a random rotation or reflection to a table: the coordinates change, the Gram matrix does not.
pub fn rotated(table: &VectorTable, seed: Seed) -> VectorTable {
    let q = random_orthogonal(table.dim, seed, "generate/rotation");
    let x: Vec<f64> = table.vectors.iter().map(|&x| f64::from(x)).collect();
    VectorTable { vectors: product(&x, &q, table.dim, table.dim, 1.0), ..table.clone() }
}

/// Adds Gaussian noise with standard deviation `sigma` to every coordinate of a table.
pub fn noisy(table: &VectorTable, sigma: f64, seed: Seed) -> VectorTable {
    let noise = gaussian(table.n_rows(), table.dim, seed, "generate/noise");
    let add = |(x, e): (&f32, f64)| (f64::from(*x) + sigma * e) as f32;
    VectorTable { vectors: table.vectors.iter().zip(noise).map(add).collect(), ..table.clone() }
}

fn named(n: usize, dim: usize, vectors: Vec<f32>) -> VectorTable {
    let ids = StringArray::from_iter_values((0..n).map(|r| format!("item-{r}")));
    VectorTable { ids: Ids::Text(ids), dim, vectors }
}

/// Row r is drawn at address r, so a longer table begins with the shorter one.
fn gaussian(n: usize, dim: usize, seed: Seed, name: &str) -> Vec<f64> {
    let stream = Stream::new(seed, name);
    let mut rows = vec![0.0; n * dim];
    for (r, row) in rows.chunks_exact_mut(dim).enumerate() {
        stream.at(0, r as u64).fill_normals(row);
    }
    rows
}

/// `scale` times A B with A of width `inner` and B of width `dim`.
fn product(a: &[f64], b: &[f64], inner: usize, dim: usize, scale: f64) -> Vec<f32> {
    let mut out = Vec::with_capacity(a.len() / inner * dim);
    let mut sum = vec![0.0; dim];
    for a in a.chunks_exact(inner) {
        sum.fill(0.0);
        for (a, b) in a.iter().zip(b.chunks_exact(dim)) {
            sum.iter_mut().zip(b).for_each(|(s, b)| *s += a * b);
        }
        out.extend(sum.iter().map(|s| (s * scale) as f32));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed(s: u64) -> Seed {
        Seed::new(s).unwrap()
    }

    fn inner(table: &VectorTable, i: usize, j: usize) -> f64 {
        table.row(i).iter().zip(table.row(j)).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    }

    #[test]
    fn rows_of_a_cluster_are_closer_than_rows_of_two() {
        let table = clusters(60, 32, 3, seed(1));
        let (mut same, mut other) = (f64::INFINITY, f64::NEG_INFINITY);
        for i in 0..60 {
            for j in 0..i {
                let value = inner(&table, i, j);
                if i % 3 == j % 3 { same = same.min(value) } else { other = other.max(value) }
            }
        }
        assert!(same > other, "{same} {other}");
    }

    /// Rounding to f32 and sums of 16 products of size 1: a few 1e-7.
    #[test]
    fn a_rotation_changes_coordinates_and_keeps_the_gram_matrix() {
        let table = clusters(20, 16, 4, seed(2));
        let turned = rotated(&table, seed(3));
        assert!(table.vectors.iter().zip(&turned.vectors).any(|(a, b)| (a - b).abs() > 0.1));
        for i in 0..20 {
            for j in 0..20 {
                assert!((inner(&table, i, j) - inner(&turned, i, j)).abs() < 1e-6);
            }
        }
    }

    /// In a table of rank 2 every third row is a combination of two: the Gram determinant of three
    /// rows vanishes up to rounding.
    #[test]
    fn low_rank_is_of_low_rank() {
        let t = low_rank(3, 10, 2, seed(4));
        let g = |i, j| inner(&t, i, j);
        let det = g(0, 0) * (g(1, 1) * g(2, 2) - g(1, 2) * g(2, 1))
            - g(0, 1) * (g(1, 0) * g(2, 2) - g(1, 2) * g(2, 0))
            + g(0, 2) * (g(1, 0) * g(2, 1) - g(1, 1) * g(2, 0));
        assert!(det.abs() < 1e-5 * g(0, 0) * g(1, 1) * g(2, 2), "{det}");
    }

    /// The mean square of n d = 16,000 noise values is sigma^2 (1 +- 5 sqrt(2 / n d)).
    #[test]
    fn noise_has_the_requested_standard_deviation() {
        let table = clusters(1000, 16, 4, seed(5));
        let noisy = noisy(&table, 0.1, seed(6));
        let difference = |(a, b): (&f32, &f32)| f64::from(a - b).powi(2);
        let mean = table.vectors.iter().zip(&noisy.vectors).map(difference).sum::<f64>() / 16_000.0;
        assert!((mean / 0.01 - 1.0).abs() < 5.0 * (2.0f64 / 16_000.0).sqrt(), "{mean}");
    }

    #[test]
    fn a_longer_table_begins_with_the_shorter_one() {
        let (short, long) = (clusters(10, 4, 2, seed(7)), clusters(20, 4, 2, seed(7)));
        assert_eq!(short.vectors, long.vectors[..40]);
    }
}
