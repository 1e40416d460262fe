//! Classifiers that let labeled rows vote: k-nearest neighbors and Nadaraya-Watson.
//!
//! k-NN             each of the k nearest rows casts one vote (Fix & Hodges 1951); by cosine, or by Euclidean distance
//! Nadaraya-Watson  row x casts exp(-|q - x|^2 / (2 l^2)) votes for a query q (Nadaraya 1964, Watson 1964)
//!
//! Ties between distances go to the earlier row, ties between votes to the smaller class. The order of distances to q is
//! that of <q, x> - |x|^2 / 2, computed after subtracting the mean of the labeled rows. Votes are relative to the vote of
//! the nearest row, which is 1: they are never all 0, however small the length scale.

use rayon::prelude::*;
use veridical_core::{Error, Result, Rows};

use crate::exp::exp;
use crate::{products, top_k, unit_rows};

/// Similarity or distance that defines the nearest neighbors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Cosine similarity <q, x> / (|q| |x|), largest first.
    Cosine,
    /// Euclidean distance |q - x|, smallest first.
    Euclidean,
}

/// Predicts the majority class among the `k` nearest labeled rows, for every row of `test`.
///
/// # Errors
/// [`Error::Shape`] if the widths differ or there is not one label per row, [`Error::Unfit`] if there are no labeled
/// rows or a label is not below `classes`.
///
/// ```
/// use veridical_core::Rows;
/// use veridical_learn::{Metric, knn_predict};
///
/// let (train, test) = (Rows::new(&[0.0, 1.0, 9.0, 10.0], 1)?, Rows::new(&[0.4, 9.6], 1)?);
/// let classes = knn_predict(train, &[0, 0, 1, 1], 2, test, 2, Metric::Euclidean)?;
/// assert_eq!(classes, [0, 1]);
/// # Ok::<(), veridical_core::Error>(())
/// ```
pub fn knn_predict(
    train: Rows<'_, f32>,
    labels: &[u32],
    classes: usize,
    test: Rows<'_, f32>,
    k: usize,
    metric: Metric,
) -> Result<Vec<u32>> {
    check(train, labels, classes, test)?;
    let vote = |nearness: &[f32]| {
        let mut votes = vec![0u32; classes];
        for near in top_k((0..).zip(nearness.iter().copied()), k) {
            votes[labels[near.number as usize] as usize] += 1;
        }
        most(&votes)
    };
    Ok(Tables::new(train, test, metric).map(labels, train.dim(), vote))
}

/// Returns the labels of the `k` nearest labeled rows (of all, if there are fewer), nearest first, for every row of `test`: the
/// votes of any smaller k are a prefix.
///
/// # Errors
/// The same as [`knn_predict`].
///
/// ```
/// use veridical_core::Rows;
/// use veridical_learn::{Metric, nearest_labels};
///
/// let (train, test) = (Rows::new(&[0.0, 1.0, 9.0, 10.0], 1)?, Rows::new(&[0.4, 9.6], 1)?);
/// assert_eq!(nearest_labels(train, &[0, 1, 2, 3], 4, test, 2, Metric::Euclidean)?, [0, 1, 3, 2]);
/// # Ok::<(), veridical_core::Error>(())
/// ```
pub fn nearest_labels(
    train: Rows<'_, f32>,
    labels: &[u32],
    classes: usize,
    test: Rows<'_, f32>,
    k: usize,
    metric: Metric,
) -> Result<Vec<u32>> {
    check(train, labels, classes, test)?;
    let nearest = |nearness: &[f32]| -> Vec<u32> {
        let near = top_k((0..).zip(nearness.iter().copied()), k);
        near.into_iter().map(|near| labels[near.number as usize]).collect()
    };
    Ok(Tables::new(train, test, metric).map(labels, train.dim(), nearest).concat())
}

/// Predicts the class with the most Gaussian kernel votes, for every row of `test`.
///
/// # Errors
/// The same as [`knn_predict`], and [`Error::Unfit`] if the length scale is not positive.
///
/// ```
/// use veridical_core::Rows;
/// use veridical_learn::nadaraya_watson;
///
/// let (train, test) = (Rows::new(&[0.0, 1.0, 9.0], 1)?, Rows::new(&[0.4, 9.6], 1)?);
/// assert_eq!(nadaraya_watson(train, &[0, 0, 1], 2, test, 1.0)?, [0, 1]);
/// # Ok::<(), veridical_core::Error>(())
/// ```
pub fn nadaraya_watson(
    train: Rows<'_, f32>,
    labels: &[u32],
    classes: usize,
    test: Rows<'_, f32>,
    length_scale: f64,
) -> Result<Vec<u32>> {
    check(train, labels, classes, test)?;
    if length_scale.is_nan() || length_scale <= 0.0 {
        let what = format!("the length scale of a kernel must be above 0, got {length_scale}");
        return Err(Error::unfit(what, ""));
    }
    let precision = (1.0 / (length_scale * length_scale)) as f32;
    let vote = |nearness: &[f32]| {
        let nearest = nearness.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weight = |near: &f32| exp(f64::from((near - nearest) * precision));
        let weights: Vec<f64> = nearness.iter().map(weight).collect();
        let mut votes = vec![0.0f64; classes];
        weights.iter().zip(labels).for_each(|(w, &label)| votes[label as usize] += w);
        most(&votes)
    };
    Ok(Tables::euclidean(train, test).map(labels, train.dim(), vote))
}

fn check(train: Rows<'_, f32>, labels: &[u32], classes: usize, test: Rows<'_, f32>) -> Result<()> {
    check_labels(train, labels.len(), labels, classes)?;
    if train.dim() != test.dim() {
        let what =
            format!("labeled rows have {} values but the test rows {}", train.dim(), test.dim());
        return Err(Error::shape(what, ""));
    }
    Ok(())
}

/// Checks that there are rows with one label each, all below `classes`.
pub(crate) fn check_labels<'l>(
    rows: Rows<'_, f32>,
    n_labels: usize,
    labels: impl IntoIterator<Item = &'l u32>,
    classes: usize,
) -> Result<()> {
    if rows.n() != n_labels {
        return Err(Error::shape(
            format!("{} rows were given with {n_labels} labels", rows.n()),
            "",
        ));
    }
    if n_labels == 0 {
        return Err(Error::unfit("there are no labeled rows", ""));
    }
    if let Some(bad) = labels.into_iter().find(|&&label| label as usize >= classes) {
        return Err(Error::unfit(
            format!("labels must be below the number of classes, {classes}, got {bad}"),
            "",
        ));
    }
    Ok(())
}

/// The class with the most votes, the smallest class on ties.
fn most<T: PartialOrd + Copy>(votes: &[T]) -> u32 {
    let better = |best: usize, k: usize| if votes[k] > votes[best] { k } else { best };
    (0..votes.len()).reduce(better).unwrap_or(0) as u32
}

/// Rows whose products, minus `offsets`, order the labeled rows by proximity.
struct Tables {
    train: Vec<f32>,
    test: Vec<f32>,
    offsets: Vec<f32>,
}

impl Tables {
    fn new(train: Rows<'_, f32>, test: Rows<'_, f32>, metric: Metric) -> Self {
        match metric {
            Metric::Cosine => Self::cosine(train, test),
            Metric::Euclidean => Self::euclidean(train, test),
        }
    }

    fn cosine(train: Rows<'_, f32>, test: Rows<'_, f32>) -> Self {
        let unit = |rows: Rows<'_, f32>| unit_rows(rows.values(), rows.dim());
        Self { train: unit(train), test: unit(test), offsets: vec![0.0; train.n()] }
    }

    fn euclidean(train: Rows<'_, f32>, test: Rows<'_, f32>) -> Self {
        let dim = train.dim();
        let mut mean = vec![0.0f64; dim];
        for row in train {
            mean.iter_mut().zip(row).for_each(|(m, &x)| *m += f64::from(x));
        }
        let n = train.n() as f64;
        let center = |rows: Rows<'_, f32>| -> Vec<f32> {
            let row = |row: &[f32]| -> Vec<f32> {
                row.iter().zip(&mean).map(|(&x, m)| (f64::from(x) - m / n) as f32).collect()
            };
            rows.iter().flat_map(row).collect()
        };
        let (train, test) = (center(train), center(test));
        let half =
            |row: &[f32]| row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>() / 2.0;
        let offsets = train.chunks_exact(dim).map(|row| half(row) as f32).collect();
        Self { train, test, offsets }
    }

    /// Applies `answer` to the proximities of all labeled rows, for every query.
    fn map<T: Clone + Send>(
        self,
        labels: &[u32],
        dim: usize,
        answer: impl Fn(&[f32]) -> T + Sync,
    ) -> Vec<T> {
        let n = labels.len();
        debug_assert!(n > 0 && self.train.len() == n * dim, "labeled rows");
        let block = ((1 << 20) / n).clamp(1, 256);
        let blocks = self.test.par_chunks(block * dim).map_init(Vec::new, |scores, queries| {
            scores.resize(queries.len() / dim * n, 0.0);
            products(queries, &self.train, dim, scores);
            let one = |scores: &mut [f32]| {
                scores.iter_mut().zip(&self.offsets).for_each(|(s, offset)| *s -= offset);
                answer(scores)
            };
            scores.chunks_exact_mut(n).map(one).collect::<Vec<T>>()
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

    fn rows(values: &[f32], dim: usize) -> Rows<'_, f32> {
        Rows::new(values, dim).unwrap()
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

        /// The textbook definition: sort all distances in f64. Random distances differ by far more than f32 rounding.
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
            let fast = |metric| knn_predict(rows(&train, dim), &labels, 4, rows(&test, dim), k, metric).unwrap();
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
            prop_assert_eq!(nadaraya_watson(rows(&train, dim), &labels, 4, rows(&test, dim), scale).unwrap(), want);
        }
    }

    #[test]
    fn equal_votes_go_to_the_smaller_class() {
        let train = [0.0, 1.0, 2.0, 3.0];
        let knn = |labels: &[u32], q: f32, k| {
            let (train, test) = (rows(&train, 1), [q]);
            knn_predict(train, labels, 3, rows(&test, 1), k, Metric::Euclidean).unwrap()[0]
        };
        assert_eq!(knn(&[2, 1, 2, 1], 0.1, 4), 1);
        assert_eq!(knn(&[2, 1, 2, 1], 0.1, 1), 2);
        assert_eq!(knn(&[2, 1, 2, 1], 0.1, 99), 1);
    }

    /// exp(-10^8) is zero in every float format: the nearest row still votes.
    #[test]
    fn a_tiny_length_scale_is_the_nearest_row() {
        let train = [0.0, 1.0, 2.0];
        let test = [1.4, 5.0, -3.0];
        let got = nadaraya_watson(rows(&train, 1), &[0, 1, 2], 3, rows(&test, 1), 1e-4);
        assert_eq!(got.unwrap(), [1, 2, 0]);
    }

    #[test]
    fn what_cannot_vote_is_refused() {
        let values = [0.0f32, 1.0, 2.0, 3.0];
        let message = |dim: usize, labels: &[u32], l: f64| {
            let (train, test) = (rows(&values, 1), rows(&values, dim));
            nadaraya_watson(train, labels, 2, test, l).unwrap_err().to_string()
        };
        assert_eq!(message(1, &[0; 3], 1.0), "4 rows were given with 3 labels");
        assert_eq!(message(2, &[0; 4], 1.0), "labeled rows have 1 values but the test rows 2");
        assert_eq!(
            message(1, &[0, 1, 2, 0], 1.0),
            "labels must be below the number of classes, 2, got 2"
        );
        assert!(message(1, &[0; 4], f64::NAN).starts_with("the length scale"));
        let none = knn_predict(rows(&[], 1), &[], 2, rows(&values, 1), 1, Metric::Cosine);
        assert_eq!(none.unwrap_err().to_string(), "there are no labeled rows");
    }
}
