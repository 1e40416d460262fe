//! The best cut of numbers into a lower and an upper group: the largest variance between them (Otsu 1979), which is the smallest
//! variance within, 2-means on a line.

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
    let mut best: Option<(f64, usize, f64)> = None;
    let mut sum = 0.0;
    for (below, pair) in (1..).zip(sorted.windows(2)) {
        sum += pair[0];
        if pair[0] == pair[1] {
            continue;
        }
        let lower = below as f64;
        let gap = (total - sum) / (n - lower) - sum / lower;
        let between = lower * (n - lower) * gap * gap;
        if best.is_none_or(|(most, _, _)| between > most) {
            best = Some((between, below, gap));
        }
    }
    let (_, below, gap) = best?;
    let (lower, upper) = sorted.split_at(below);
    let squares = |group: &[f64]| {
        let mean = group.iter().sum::<f64>() / group.len() as f64;
        group.iter().map(|x| (x - mean).powi(2)).sum::<f64>()
    };
    let within = ((squares(lower) + squares(upper)) / n).sqrt();
    Some(Split {
        threshold: f64::midpoint(sorted[below - 1], sorted[below]),
        above: upper.len() as u64,
        gap,
        separation: gap / within,
    })
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
    }
}
