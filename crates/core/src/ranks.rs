//! Measures that see only the order of values: ranks, Spearman's and Kendall's correlations, isotonic regression.
//!
//! Pairs (i, j), i < j, of n points: c concordant, d discordant, the others tied in x (t_x pairs), in y (t_y) or in both;
//! N = n (n - 1) / 2.
//!
//! tau-b       (c - d) / sqrt((N - t_x) (N - t_y)) (Kendall 1945)
//! tau-paper   (c - (N - c)) / N: a tie counts as discordant, as paper 004 writes it
//! Spearman    Pearson's correlation of the ranks, ties at their mean rank
//! isotonic    the nondecreasing function of x with the least sum of squares, by pooling adjacent violators (Ayer et al. 1955);
//!             points with equal x share one value
//!
//! Every point's own c_i, d_i come from a Fenwick tree over the ranks of y while x is swept in order, O(n log n) as Knight's
//! merge sort (1966). c = sum c_i / 2, and without point i there are c - c_i: so the leave-one-out values of both taus, and the
//! jackknife interval from them (Arvesen 1969), cost O(n) more.

use std::cmp::Ordering;

use rayon::prelude::*;

use crate::Estimate;

/// Kendall's rank correlation under two conventions for ties; both NaN where no pair is left to count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kendall {
    /// tau-b, which leaves ties out.
    pub tau_b: Estimate,
    /// The tau that counts ties as discordant.
    pub tau_paper: Estimate,
}

/// What one point contributes to the pairs.
#[derive(Clone, Copy, Default)]
struct Own {
    concordant: u64,
    discordant: u64,
    tied_x: u64,
    tied_y: u64,
}

/// Computes Kendall's correlations of paired values with jackknife intervals; `None` for fewer than two points or a NaN.
///
/// # Panics
/// If x and y are not equally long, or longer than 2^32.
///
/// ```
/// use veridical_core::ranks::kendall;
///
/// let tau = kendall(&[1.0, 2.0, 3.0, 4.0], &[1.0, 3.0, 2.0, 4.0]).expect("four points");
/// assert_eq!(tau.tau_b.value, 4.0 / 6.0); // five pairs agree, one does not
/// ```
pub fn kendall(x: &[f64], y: &[f64]) -> Option<Kendall> {
    assert_eq!(x.len(), y.len(), "paired values");
    let n = x.len();
    if n < 2 || x.iter().chain(y).any(|value| value.is_nan()) {
        return None;
    }
    let own = contributions(x, y);
    let half = |of: fn(&Own) -> u64| own.iter().map(of).sum::<u64>() / 2;
    let all = Own {
        concordant: half(|o| o.concordant),
        discordant: half(|o| o.discordant),
        tied_x: half(|o| o.tied_x),
        tied_y: half(|o| o.tied_y),
    };
    let pairs = |n: usize| (n as u64) * (n as u64 - 1) / 2;
    let without = |o: &Own| Own {
        concordant: all.concordant - o.concordant,
        discordant: all.discordant - o.discordant,
        tied_x: all.tied_x - o.tied_x,
        tied_y: all.tied_y - o.tied_y,
    };
    let estimate = |tau: fn(&Own, u64) -> f64| {
        let value = tau(&all, pairs(n));
        let left: Vec<f64> = own.iter().map(|o| tau(&without(o), pairs(n - 1))).collect();
        Estimate::jackknife(value, &left, n as u64)
            .map_or(Estimate::point(value, n as u64), |tau| tau.within(-1.0, 1.0))
    };
    Some(Kendall { tau_b: estimate(tau_b), tau_paper: estimate(tau_paper) })
}

fn tau_b(pairs: &Own, all: u64) -> f64 {
    let difference = pairs.concordant as f64 - pairs.discordant as f64;
    // Two roots: the product of both counts may need more than 53 bits, and 1 must come out as 1.
    let [by_x, by_y] = [pairs.tied_x, pairs.tied_y].map(|tied| all - tied);
    if by_x == by_y {
        difference / by_x as f64
    } else {
        difference / (by_x as f64).sqrt() / (by_y as f64).sqrt()
    }
}

fn tau_paper(pairs: &Own, all: u64) -> f64 {
    (2.0 * pairs.concordant as f64 - all as f64) / all as f64
}

/// The pairs of every point.
fn contributions(x: &[f64], y: &[f64]) -> Vec<Own> {
    let n = x.len();
    let (rank, equal) = dense_ranks(y);
    // The number of points with a smaller y, by rank.
    let below: Vec<u64> = equal
        .iter()
        .scan(0, |sum, &count| {
            let before = *sum;
            *sum += count;
            Some(before)
        })
        .collect();
    let mut order: Vec<(u64, u32, u32)> = (0..n).map(|i| (key(x[i]), rank[i], i as u32)).collect();
    order.par_sort_unstable();
    let mut tree = vec![0u32; equal.len() + 1];
    let mut own = vec![Own::default(); n];
    let mut before = 0; // points of smaller x, all in the tree
    for group in order.chunk_by(|a, b| a.0 == b.0) {
        let mut lower = 0; // points of this group with a smaller y
        for same in group.chunk_by(|a, b| a.1 == b.1) {
            let r = same[0].1 as usize;
            let (both, tied) = (same.len() as u64, equal[r]);
            let (less_before, up_to) = (count(&tree, r), count(&tree, r + 1));
            let more_before = before - up_to;
            let less_after = below[r] - less_before - lower;
            let higher = group.len() as u64 - lower - both;
            let more_after = n as u64 - below[r] - tied - more_before - higher;
            let each = Own {
                concordant: less_before + more_after,
                discordant: more_before + less_after,
                tied_x: group.len() as u64 - 1,
                tied_y: tied - 1,
            };
            same.iter().for_each(|&(_, _, i)| own[i as usize] = each);
            lower += both;
        }
        group.iter().for_each(|&(_, r, _)| add(&mut tree, r as usize));
        before += group.len() as u64;
    }
    own
}

/// Counts the points of a rank below `rank` in a Fenwick tree (1994).
fn count(tree: &[u32], mut rank: usize) -> u64 {
    let mut sum = 0;
    while rank > 0 {
        sum += u64::from(tree[rank]);
        rank &= rank - 1;
    }
    sum
}

fn add(tree: &mut [u32], rank: usize) {
    let mut at = rank + 1;
    while at < tree.len() {
        tree[at] += 1;
        at += at & at.wrapping_neg();
    }
}

/// An integer with the order of a number that is not NaN; 0 and -0 are equal.
fn key(x: f64) -> u64 {
    let bits = (x + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// The rank of every value, from 0 without gaps, and how many values have each rank.
fn dense_ranks(values: &[f64]) -> (Vec<u32>, Vec<u64>) {
    let mut order: Vec<(u64, u32)> =
        values.iter().enumerate().map(|(i, &x)| (key(x), i as u32)).collect();
    order.par_sort_unstable();
    let (mut rank, mut equal) = (vec![0; values.len()], Vec::new());
    for group in order.chunk_by(|a, b| a.0 == b.0) {
        group.iter().for_each(|&(_, i)| rank[i as usize] = equal.len() as u32);
        equal.push(group.len() as u64);
    }
    (rank, equal)
}

/// Returns the ranks of values from 1 on; equal values get the mean of their ranks.
///
/// # Panics
/// If a value is NaN.
///
/// ```
/// assert_eq!(veridical_core::ranks::ranks(&[5.0, 1.0, 5.0]), [2.5, 1.0, 2.5]);
/// ```
pub fn ranks(values: &[f64]) -> Vec<f64> {
    assert!(values.iter().all(|x| !x.is_nan()), "values that can be ordered");
    let (rank, equal) = dense_ranks(values);
    let mut before = 0;
    let mean: Vec<f64> = equal
        .iter()
        .map(|&count| {
            before += count;
            before as f64 - (count as f64 - 1.0) / 2.0
        })
        .collect();
    rank.into_iter().map(|r| mean[r as usize]).collect()
}

/// Returns Pearson's correlation; NaN where one side does not vary.
///
/// # Panics
/// If x and y are not equally long.
pub fn pearson(x: &[f64], y: &[f64]) -> f64 {
    assert_eq!(x.len(), y.len(), "paired values");
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_x, mean_y) = (mean(x), mean(y));
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in x.iter().zip(y) {
        let (x, y) = (x - mean_x, y - mean_y);
        xy += x * y;
        xx += x * x;
        yy += y * y;
    }
    (xy / (xx.sqrt() * yy.sqrt())).clamp(-1.0, 1.0)
}

/// Returns Spearman's rank correlation; NaN where one side does not vary.
///
/// # Panics
/// If x and y are not equally long, or a value is NaN.
///
/// ```
/// let rising = veridical_core::ranks::spearman(&[1.0, 2.0, 9.0], &[0.1, 0.2, 0.3]);
/// assert!((rising - 1.0).abs() < 1e-15);
/// ```
pub fn spearman(x: &[f64], y: &[f64]) -> f64 {
    pearson(&ranks(x), &ranks(y))
}

/// Returns, for every point in its order, the value of the nondecreasing function of x that is nearest to y in the sum of squares.
///
/// # Panics
/// If x and y are not equally long, or x holds a NaN.
///
/// ```
/// let fitted = veridical_core::ranks::isotonic(&[1.0, 2.0, 3.0], &[0.0, 4.0, 2.0]);
/// assert_eq!(fitted, [0.0, 3.0, 3.0]);
/// ```
pub fn isotonic(x: &[f64], y: &[f64]) -> Vec<f64> {
    assert_eq!(x.len(), y.len(), "paired values");
    assert!(x.iter().all(|x| !x.is_nan()), "values that can be ordered");
    let (rank, equal) = dense_ranks(x);
    let mut sums = vec![0.0; equal.len()];
    rank.iter().zip(y).for_each(|(&r, y)| sums[r as usize] += y);
    // Blocks of ranks with rising means: sum, weight, and the rank behind the last.
    let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
    for (r, (&sum, &weight)) in sums.iter().zip(&equal).enumerate() {
        let mut block = (sum, weight as f64, r + 1);
        while let Some(&(sum, weight, _)) = blocks.last()
            && (sum / weight).partial_cmp(&(block.0 / block.1)) != Some(Ordering::Less)
        {
            blocks.pop();
            block = (sum + block.0, weight + block.1, block.2);
        }
        blocks.push(block);
    }
    let mut of_rank = Vec::with_capacity(equal.len());
    for (sum, weight, end) in blocks {
        of_rank.resize(end, sum / weight);
    }
    rank.into_iter().map(|r| of_rank[r as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn oracle() -> Value {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracles/ranks/ranks.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    fn numbers(value: &Value) -> Vec<f64> {
        value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    }

    /// `scipy.stats.kendalltau`, `spearmanr` and `pearsonr`: a few roundings of numbers below 1, 1e-13 for sums of 300.
    #[test]
    fn correlations_are_those_of_scipy() {
        for case in oracle()["correlations"].as_array().unwrap() {
            let (x, y) = (numbers(&case["x"]), numbers(&case["y"]));
            let got = [
                ("kendall", kendall(&x, &y).unwrap().tau_b.value),
                ("spearman", spearman(&x, &y)),
                ("pearson", pearson(&x, &y)),
            ];
            for (name, got) in got {
                match case[name].as_f64() {
                    Some(want) => assert!((got - want).abs() < 1e-13, "{name}: {got} not {want}"),
                    None => assert!(got.is_nan(), "{name}: {got}"),
                }
            }
        }
    }

    /// `sklearn.isotonic.IsotonicRegression`: means of at most 60 values below 10.
    #[test]
    fn isotonic_regression_is_that_of_scikit_learn() {
        for case in oracle()["isotonic"].as_array().unwrap() {
            let got = isotonic(&numbers(&case["x"]), &numbers(&case["y"]));
            for (got, want) in got.iter().zip(numbers(&case["fitted"])) {
                assert!((got - want).abs() < 1e-13, "{got} is not {want}");
            }
        }
    }

    fn brute_force(x: &[f64], y: &[f64]) -> [f64; 2] {
        let (mut c, mut d, mut tied_x, mut tied_y, mut all) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for i in 0..x.len() {
            for j in 0..i {
                let product = (x[i] - x[j]) * (y[i] - y[j]);
                c += f64::from(u8::from(product > 0.0));
                d += f64::from(u8::from(product < 0.0));
                tied_x += f64::from(u8::from(x[i] == x[j]));
                tied_y += f64::from(u8::from(y[i] == y[j]));
                all += 1.0f64;
            }
        }
        [(c - d) / ((all - tied_x) * (all - tied_y)).sqrt(), (c - (all - c)) / all]
    }

    proptest! {
        /// The definition by pairs, and the jackknife by leaving out one point after the other.
        #[test]
        fn taus_and_their_jackknife_equal_the_definition(
            points in prop::collection::vec((0i8..9, -4i8..5), 3..40)
        ) {
            let x: Vec<f64> = points.iter().map(|p| f64::from(p.0)).collect();
            let y: Vec<f64> = points.iter().map(|p| f64::from(p.1)).collect();
            let got = kendall(&x, &y).unwrap();
            let want = brute_force(&x, &y);
            let without: Vec<[f64; 2]> = (0..x.len()).map(|i| {
                let (mut x, mut y) = (x.clone(), y.clone());
                x.remove(i);
                y.remove(i);
                brute_force(&x, &y)
            }).collect();
            for (k, got) in [got.tau_b, got.tau_paper].into_iter().enumerate() {
                if want[k].is_nan() {
                    prop_assert!(got.value.is_nan());
                    continue;
                }
                prop_assert!((got.value - want[k]).abs() < 1e-14);
                let left: Vec<f64> = without.iter().map(|w| w[k]).collect();
                match Estimate::jackknife(want[k], &left, x.len() as u64) {
                    Some(slow) => prop_assert!((got.error - slow.error).abs() < 1e-12),
                    None => prop_assert!(!got.has_interval()),
                }
            }
        }

        /// The order decides alone: an increasing map of x changes nothing, a decreasing one the sign of tau-b.
        #[test]
        fn only_the_order_counts(points in prop::collection::vec((-5.0..5.0f64, -5i8..5), 2..60)) {
            let x: Vec<f64> = points.iter().map(|p| p.0).collect();
            let y: Vec<f64> = points.iter().map(|p| f64::from(p.1)).collect();
            let tau = kendall(&x, &y).unwrap();
            let scaled: Vec<f64> = x.iter().map(|x| 4.0 * x).collect();
            let turned: Vec<f64> = x.iter().map(|x| -x).collect();
            prop_assert_eq!(kendall(&scaled, &y).unwrap().tau_b.value.to_bits(), tau.tau_b.value.to_bits());
            let back = kendall(&turned, &y).unwrap().tau_b.value;
            prop_assert!(back == -tau.tau_b.value || back.is_nan());
        }

        /// Nondecreasing in x, blocks at their means, and no other block mean is better: the residuals of a fit sum to zero.
        #[test]
        fn the_isotonic_fit_rises_and_keeps_the_mean(
            points in prop::collection::vec((0i8..30, -9.0..9.0f64), 1..60)
        ) {
            let x: Vec<f64> = points.iter().map(|p| f64::from(p.0)).collect();
            let y: Vec<f64> = points.iter().map(|p| p.1).collect();
            let fitted = isotonic(&x, &y);
            for i in 0..x.len() {
                for j in 0..x.len() {
                    prop_assert!(x[i] > x[j] || fitted[i] <= fitted[j]);
                }
            }
            let sum = |v: &[f64]| v.iter().sum::<f64>();
            prop_assert!((sum(&fitted) - sum(&y)).abs() < 1e-11);
            let again = isotonic(&x, &fitted);
            prop_assert!(again.iter().zip(&fitted).all(|(a, b)| (a - b).abs() < 1e-13));
        }
    }

    #[test]
    fn what_has_no_order_has_no_correlation() {
        assert_eq!(kendall(&[1.0], &[1.0]), None);
        assert_eq!(kendall(&[1.0, f64::NAN], &[1.0, 2.0]), None);
        let two = kendall(&[1.0, 2.0], &[5.0, 4.0]).unwrap();
        assert_eq!((two.tau_b.value, two.tau_b.has_interval()), (-1.0, false));
        let tied = kendall(&[1.0, 1.0, 1.0], &[1.0, 2.0, 3.0]).unwrap();
        assert!(tied.tau_b.value.is_nan() && tied.tau_paper.value == -1.0);
        assert_eq!(kendall(&[0.0, -0.0, 1.0], &[0.0, 0.0, 1.0]).unwrap().tau_b.value, 1.0);
        let infinite = [f64::NEG_INFINITY, 0.0, f64::INFINITY];
        assert_eq!(kendall(&infinite, &[1.0, 2.0, 3.0]).unwrap().tau_b.value, 1.0);
        assert!(isotonic(&[], &[]).is_empty());
    }

    /// By simulation: points (z + a, z + b) of normal z, a, b have correlation 1/2 and tau 2 / pi asin(1/2) = 1/3. At level
    /// 95 %, 600 intervals cover within four binomial errors, 4 sqrt(0.95 * 0.05 / 600) = 0.036.
    #[test]
    fn intervals_of_tau_cover_at_their_level() {
        let stream = crate::Stream::new(crate::Seed::new(0).unwrap(), "test/kendall");
        let covered = (0..600).filter(|&draw| {
            let mut drawn = [0.0; 300];
            stream.at(0, draw).fill_normals(&mut drawn);
            let of = |k: usize| -> Vec<f64> {
                drawn.chunks_exact(3).map(|values| values[0] + values[k]).collect()
            };
            let [low, high] = kendall(&of(1), &of(2)).unwrap().tau_b.interval();
            low <= 1.0 / 3.0 && 1.0 / 3.0 <= high
        });
        let share = covered.count() as f64 / 600.0;
        assert!((share - 0.95).abs() < 0.036, "{share}");
    }
}
