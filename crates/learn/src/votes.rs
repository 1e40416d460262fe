//! Classes by the votes of labelled rows.
//!
//! k-NN             each of the k nearest rows has one vote (Fix & Hodges 1951); by cosine, or by Euclidean distance
//! Nadaraya-Watson  row x has exp(-|q - x|^2 / (2 l^2)) votes for a query q (Nadaraya 1964, Watson 1964)
//!
//! Equal distances are decided for the earlier row, equal votes for the smaller class. The order of distances to q is
//! that of <q, x> - |x|^2 / 2, computed less the mean of the labelled rows. Votes are relative to the nearest row's,
//! which is 1: they are never all 0, however small the length scale.

use rayon::prelude::*;

use crate::exp::exp;
use crate::{products, top_k, unit_rows};

/// What "near" means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Large <q, x> / (|q| |x|).
    Cosine,
    /// Small |q - x|.
    Euclidean,
}

/// The class with most votes among the `k` nearest of the labelled rows, for every row of `test`.
///
/// # Panics
/// If there are no labelled rows, a label is not below `classes`, or rows are not whole.
pub fn knn_predict(
    train: &[f32],
    labels: &[u32],
    classes: usize,
    test: &[f32],
    dim: usize,
    k: usize,
    metric: Metric,
) -> Vec<u32> {
    let vote = |nearness: &[f32]| {
        let mut votes = vec![0u32; classes];
        for near in top_k((0..).zip(nearness.iter().copied()), k) {
            votes[labels[near.number as usize] as usize] += 1;
        }
        most(&votes)
    };
    let tables = match metric {
        Metric::Cosine => Tables::cosine(train, test, dim),
        Metric::Euclidean => Tables::euclidean(train, test, dim),
    };
    tables.map(labels, dim, vote)
}

/// The class with most votes of a Gaussian kernel around every row of `test`.
///
/// # Panics
/// If there are no labelled rows, a label is not below `classes`, rows are not whole, or the length scale is not
/// positive.
pub fn nadaraya_watson(
    train: &[f32],
    labels: &[u32],
    classes: usize,
    test: &[f32],
    dim: usize,
    length_scale: f64,
) -> Vec<u32> {
    assert!(length_scale > 0.0, "a positive length scale");
    let precision = (1.0 / (length_scale * length_scale)) as f32;
    let vote = |nearness: &[f32]| {
        let nearest = nearness.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weight = |near: &f32| exp(f64::from((near - nearest) * precision));
        let weights: Vec<f64> = nearness.iter().map(weight).collect();
        let mut votes = vec![0.0f64; classes];
        weights.iter().zip(labels).for_each(|(w, &label)| votes[label as usize] += w);
        most(&votes)
    };
    Tables::euclidean(train, test, dim).map(labels, dim, vote)
}

/// The class with most votes, the smallest of equal ones.
fn most<T: PartialOrd + Copy>(votes: &[T]) -> u32 {
    let better = |best: usize, k: usize| if votes[k] > votes[best] { k } else { best };
    (0..votes.len()).reduce(better).unwrap_or(0) as u32
}

/// Rows whose products, less `offsets`, order the labelled rows by nearness.
struct Tables {
    train: Vec<f32>,
    test: Vec<f32>,
    offsets: Vec<f32>,
}

impl Tables {
    fn cosine(train: &[f32], test: &[f32], dim: usize) -> Self {
        let offsets = vec![0.0; train.len() / dim];
        Self { train: unit_rows(train, dim), test: unit_rows(test, dim), offsets }
    }

    fn euclidean(train: &[f32], test: &[f32], dim: usize) -> Self {
        let mut mean = vec![0.0f64; dim];
        for row in train.chunks_exact(dim) {
            mean.iter_mut().zip(row).for_each(|(m, &x)| *m += f64::from(x));
        }
        let n = (train.len() / dim) as f64;
        let centre = |rows: &[f32]| -> Vec<f32> {
            let row = |row: &[f32]| -> Vec<f32> {
                row.iter().zip(&mean).map(|(&x, m)| (f64::from(x) - m / n) as f32).collect()
            };
            rows.chunks_exact(dim).flat_map(row).collect()
        };
        let (train, test) = (centre(train), centre(test));
        let half =
            |row: &[f32]| row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>() / 2.0;
        let offsets = train.chunks_exact(dim).map(|row| half(row) as f32).collect();
        Self { train, test, offsets }
    }

    /// `answer` of the nearness of all labelled rows, for every query.
    fn map(self, labels: &[u32], dim: usize, answer: impl Fn(&[f32]) -> u32 + Sync) -> Vec<u32> {
        let n = labels.len();
        assert!(n > 0 && self.train.len() == n * dim, "labelled rows");
        let block = ((1 << 20) / n).clamp(1, 256);
        let blocks = self.test.par_chunks(block * dim).map_init(Vec::new, |scores, queries| {
            scores.resize(queries.len() / dim * n, 0.0);
            products(queries, &self.train, dim, scores);
            let one = |scores: &mut [f32]| {
                scores.iter_mut().zip(&self.offsets).for_each(|(s, offset)| *s -= offset);
                answer(scores)
            };
            scores.chunks_exact_mut(n).map(one).collect::<Vec<u32>>()
        });
        blocks.collect::<Vec<_>>().concat()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use veridical_core::{Seed, Stream};

    use super::*;

    fn table(n: usize, dim: usize, at: u64) -> Vec<f32> {
        let mut x = vec![0.0; n * dim];
        Stream::new(Seed::new(7).unwrap(), "test/votes").at(0, at).fill_normals(&mut x);
        x.iter().map(|&x| x as f32 + 3.0).collect()
    }

    fn squared_distance(q: &[f32], x: &[f32]) -> f64 {
        q.iter().zip(x).map(|(q, x)| (f64::from(*q) - f64::from(*x)).powi(2)).sum()
    }

    fn cosine(q: &[f32], x: &[f32]) -> f64 {
        let dot = |a: &[f32], b: &[f32]| -> f64 {
            a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        dot(q, x) / (dot(q, q) * dot(x, x)).sqrt()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// The textbook: sort all distances in f64. Random distances differ by far more than f32 rounds.
        #[test]
        fn votes_are_those_of_the_textbook(
            n in 1usize..50, dim in 1usize..6, k in 1usize..12, at in 0u64..1000, scale in 0.2f64..3.0,
        ) {
            let (train, test) = (table(n, dim, 2 * at), table(20, dim, 2 * at + 1));
            let labels: Vec<u32> = (0..n as u32).map(|i| (i * i + 1) % 4).collect();
            let slow = |nearness: &dyn Fn(&[f32], &[f32]) -> f64| -> Vec<u32> {
                let vote = |q: &[f32]| {
                    let mut near: Vec<(f64, u32)> =
                        train.chunks(dim).map(|x| nearness(q, x)).zip(labels.clone()).collect();
                    near.sort_by(|a, b| b.0.total_cmp(&a.0));
                    let votes = |class: u32| near.iter().take(k).filter(|l| l.1 == class).count();
                    (0..4).rev().max_by_key(|&class| votes(class)).unwrap()
                };
                test.chunks(dim).map(vote).collect()
            };
            let fast = |metric| knn_predict(&train, &labels, 4, &test, dim, k, metric);
            if dim > 1 {
                prop_assert_eq!(fast(Metric::Cosine), slow(&cosine));
            }
            prop_assert_eq!(fast(Metric::Euclidean), slow(&|q, x| -squared_distance(q, x)));

            let kernel = |q: &[f32]| {
                let mut votes = [0.0f64; 4];
                for (x, &l) in train.chunks(dim).zip(&labels) {
                    votes[l as usize] += (-squared_distance(q, x) / (2.0 * scale * scale)).exp();
                }
                (0..4u32).rev().max_by(|&a, &b| votes[a as usize].total_cmp(&votes[b as usize])).unwrap()
            };
            let want: Vec<u32> = test.chunks(dim).map(kernel).collect();
            prop_assert_eq!(nadaraya_watson(&train, &labels, 4, &test, dim, scale), want);
        }
    }

    #[test]
    fn equal_votes_go_to_the_smaller_class() {
        let train = [0.0, 1.0, 2.0, 3.0];
        let knn = |labels: &[u32], q: f32, k| {
            knn_predict(&train, labels, 3, &[q], 1, k, Metric::Euclidean)[0]
        };
        assert_eq!(knn(&[2, 1, 2, 1], 0.1, 4), 1);
        assert_eq!(knn(&[2, 1, 2, 1], 0.1, 1), 2);
        assert_eq!(knn(&[2, 1, 2, 1], 0.1, 99), 1);
    }

    /// exp(-10^8) is zero in every float: the nearest row still votes.
    #[test]
    fn a_tiny_length_scale_is_the_nearest_row() {
        let train = [0.0, 1.0, 2.0];
        assert_eq!(nadaraya_watson(&train, &[0, 1, 2], 3, &[1.4, 5.0, -3.0], 1, 1e-4), [1, 2, 0]);
    }
}
