//! The best cut of numbers into a lower and an upper group: the largest variance between them (Otsu 1979), which is the smallest
//! variance within, 2-means on a line. It leans to groups of equal size: where a tenth of the numbers are apart, the upper group also
//! takes the upper end of the others.
//!
//! The cut of the smallest error takes the groups as normal with shares p and variances v of their own and minimizes
//! sum over both of p ln v - 2 p ln p, twice the expected error in bits up to a constant (Kittler & Illingworth 1986).
//! Variances are at least 1 % of the variance of all, and groups have at least two members.

use serde::Serialize;

/// Two groups of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Split {
    /// Halfway between the largest number below and the smallest above.
    pub threshold: f64,
    /// The number of values above the threshold.
    pub above: u64,
    /// The mean of the upper group less that of the lower one.
    pub gap: f64,
    /// The gap in standard deviations within the groups; infinite if both groups are constant.
    pub separation: f64,
}

/// Splits numbers into two groups; `None` if fewer than two differ.
///
/// ```
/// use veridical_inspect::forensics::split;
///
/// let found = split(&[0.1, 5.0, 0.0, 5.2, -0.1]).expect("five numbers");
/// assert_eq!((found.above, found.threshold), (2, 2.55));
/// ```
pub fn split(values: &[f64]) -> Option<Split> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let total: f64 = sorted.iter().sum();
    let mut best: Option<(f64, usize)> = None;
    let mut sum = 0.0;
    for (below, pair) in (1..).zip(sorted.windows(2)) {
        sum += pair[0];
        if pair[0] == pair[1] {
            continue;
        }
        let lower = below as f64;
        let gap = (total - sum) / (n - lower) - sum / lower;
        let between = lower * (n - lower) * gap * gap;
        if best.is_none_or(|(most, _)| between > most) {
            best = Some((between, below));
        }
    }
    let (_, below) = best?;
    Some(at(&sorted, below))
}

/// Splits numbers at the cut of the smallest error; `None` if there is none with two members on each side.
///
/// ```
/// use veridical_inspect::forensics::{smallest_error, split};
///
/// // The numbers 0 to 39 and two at 60: the least variance is that of two halves.
/// let values: Vec<f64> = (0..40).map(f64::from).chain([60.0, 60.5]).collect();
/// assert_eq!(split(&values).expect("two groups").above, 19);
/// assert_eq!(smallest_error(&values).expect("two groups").above, 2);
/// ```
pub fn smallest_error(values: &[f64]) -> Option<Split> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let mean = sorted.iter().sum::<f64>() / n as f64;
    // Sums of the numbers less their mean, and of their squares.
    let all: f64 = sorted.iter().map(|x| (x - mean).powi(2)).sum();
    let floor = 0.01 * all / n as f64;
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut best: Option<(f64, usize)> = None;
    for (below, pair) in (1..).zip(sorted.windows(2)) {
        sum += pair[0] - mean;
        squares += (pair[0] - mean).powi(2);
        if pair[0] == pair[1] || below < 2 || n - below < 2 {
            continue;
        }
        let cost = |members: usize, sum: f64, squares: f64| {
            let share = members as f64 / n as f64;
            let variance = (squares - sum * sum / members as f64) / members as f64;
            share * (variance.max(floor).ln() - 2.0 * share.ln())
        };
        let cost = cost(below, sum, squares) + cost(n - below, -sum, all - squares);
        if best.is_none_or(|(least, _)| cost < least) {
            best = Some((cost, below));
        }
    }
    best.map(|(_, below)| at(&sorted, below))
}

/// The cut behind the first `below` of sorted numbers.
fn at(sorted: &[f64], below: usize) -> Split {
    let (lower, upper) = sorted.split_at(below);
    let mean = |group: &[f64]| group.iter().sum::<f64>() / group.len() as f64;
    let squares = |group: &[f64]| {
        let mean = mean(group);
        group.iter().map(|x| (x - mean).powi(2)).sum::<f64>()
    };
    let within = ((squares(lower) + squares(upper)) / sorted.len() as f64).sqrt();
    let gap = mean(upper) - mean(lower);
    Split {
        threshold: f64::midpoint(sorted[below - 1], sorted[below]),
        above: upper.len() as u64,
        gap,
        separation: gap / within,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// No other cut has less variance within.
        #[test]
        fn the_cut_is_the_best(values in prop::collection::vec(-3.0..3.0f64, 2..30)) {
            let within = |t: f64| {
                let sum = |keep: &dyn Fn(f64) -> bool| {
                    let group: Vec<f64> = values.iter().copied().filter(|x| keep(*x)).collect();
                    let mean = group.iter().sum::<f64>() / group.len() as f64;
                    group.iter().map(|x| (x - mean).powi(2)).sum::<f64>()
                };
                sum(&|x| x > t) + sum(&|x| x <= t)
            };
            let got = split(&values).unwrap();
            prop_assert_eq!(values.iter().filter(|x| **x > got.threshold).count() as u64, got.above);
            let best = values.iter().map(|t| within(*t)).fold(f64::INFINITY, f64::min);
            prop_assert!(within(got.threshold) <= best + 1e-12);
        }
    }

    #[test]
    fn equal_numbers_have_no_groups() {
        assert_eq!((split(&[]), split(&[1.0]), split(&[2.0, 2.0])), (None, None, None));
        assert_eq!(split(&[1.0, 3.0]).unwrap().separation, f64::INFINITY);
        assert_eq!((smallest_error(&[]), smallest_error(&[1.0, 2.0, 3.0])), (None, None));
    }
}
