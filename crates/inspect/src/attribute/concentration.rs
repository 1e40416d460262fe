//! Do few rows carry an attribution? Of the positive effects of a query on its training rows:
//!
//! share for half    the smallest share of all rows whose positive effects sum to half of the positive mass; 1/2 where all are equal
//! Gini              1 - 2 times the area under the Lorenz curve (Gini 1912), 0 where all rows are equal, near 1 for one row

use serde::Serialize;
use veridical_core::{Estimate, Rows};

/// How concentrated attributions are, with means over queries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Concentration {
    /// The share of rows that carries half of the positive mass.
    pub share_for_half: Option<Estimate>,
    /// The Gini coefficient of the positive effects, rows without one counted as 0.
    pub gini: Option<Estimate>,
}

/// Returns the smallest number of rows whose positive effects sum to half of the positive mass; 0 without positive effects.
///
/// ```
/// use veridical_inspect::attribute::rows_for_half;
///
/// assert_eq!(rows_for_half(&[5.0, 3.0, 1.0, 1.0, -7.0]), 1);
/// assert_eq!(rows_for_half(&[1.0; 10]), 5);
/// ```
pub fn rows_for_half(effects: &[f64]) -> usize {
    let mut positive = rising(effects);
    positive.reverse();
    let half = positive.iter().sum::<f64>() / 2.0;
    let mut sum = 0.0;
    let reaches = |effect: &f64| {
        sum += effect;
        sum >= half
    };
    positive.iter().position(reaches).map_or(0, |at| if half > 0.0 { at + 1 } else { 0 })
}

/// Returns the Gini coefficient of the positive parts of effects; NaN without positive effects.
pub fn gini(effects: &[f64]) -> f64 {
    let n = effects.len() as f64;
    let positive = rising(effects);
    let total: f64 = positive.iter().sum();
    let ranked: f64 = positive.iter().zip(1..).map(|(x, rank)| f64::from(rank) * x).sum();
    2.0 * ranked / (n * total) - (n + 1.0) / n
}

/// Returns the Lorenz curve of the positive effects, mean over queries: the share of the positive mass that the smallest share of the
/// rows carries, at `points` + 1 equal steps; empty if no query has positive effects.
///
/// ```
/// use veridical_core::Rows;
/// use veridical_inspect::attribute::lorenz;
///
/// assert_eq!(lorenz(Rows::new(&[3.0, -1.0, 1.0, 0.0], 4)?, 2), [[0.0, 0.0], [0.5, 0.0], [1.0, 1.0]]);
/// # Ok::<(), veridical_core::Error>(())
/// ```
pub fn lorenz(effects: Rows<'_, f64>, points: usize) -> Vec<[f64; 2]> {
    let mut sums = vec![0.0; points + 1];
    let mut queries = 0.0;
    for row in effects.iter().filter(|row| row.iter().any(|x| *x > 0.0)) {
        let positive = rising(row);
        let total: f64 = positive.iter().sum();
        let (mut sum, mut next) = (0.0, 0);
        for (k, out) in sums.iter_mut().enumerate() {
            let end = k * positive.len() / points;
            sum += positive[next..end].iter().sum::<f64>();
            next = end;
            *out += sum / total;
        }
        queries += 1.0;
    }
    if queries == 0.0 {
        return Vec::new();
    }
    sums.iter().enumerate().map(|(k, sum)| [k as f64 / points as f64, sum / queries]).collect()
}

/// The positive parts, smallest first.
fn rising(effects: &[f64]) -> Vec<f64> {
    let mut positive: Vec<f64> = effects.iter().map(|x| x.max(0.0)).collect();
    positive.sort_by(f64::total_cmp);
    positive
}

/// Measures the attributions of queries, rows of one effect per training row; queries without positive effects are left out.
pub fn concentration(effects: Rows<'_, f64>) -> Concentration {
    let queries = || effects.iter().filter(|row| row.iter().any(|x| *x > 0.0));
    let n = effects.dim() as f64;
    Concentration {
        share_for_half: Estimate::mean(queries().map(|row| rows_for_half(row) as f64 / n)),
        gini: Estimate::mean(queries().map(gini)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Gini by its definition, the mean absolute difference over twice the mean.
        #[test]
        fn gini_is_the_mean_difference(x in prop::collection::vec(-1.0..3.0f64, 2..30)) {
            let x: Vec<f64> = x.into_iter().chain([0.5]).collect();
            let positive: Vec<f64> = x.iter().map(|x| x.max(0.0)).collect();
            let n = x.len() as f64;
            let differences: f64 =
                positive.iter().flat_map(|a| positive.iter().map(move |b| (a - b).abs())).sum();
            let mean = positive.iter().sum::<f64>() / n;
            prop_assert!((gini(&x) - differences / (2.0 * n * n * mean)).abs() < 1e-12);
        }
    }

    #[test]
    fn one_row_is_concentrated_and_all_rows_are_not() {
        let mut one = [0.0; 100];
        one[3] = 2.0;
        assert_eq!(rows_for_half(&one), 1);
        assert!((gini(&one) - 0.99).abs() < 1e-12 && gini(&[1.0; 7]).abs() < 1e-12);
        assert!(rows_for_half(&[-1.0, 0.0]) == 0 && gini(&[-1.0, 0.0]).is_nan());
        let both = [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, -1.0, -1.0, -1.0, -1.0];
        let got = concentration(Rows::new(&both, 4).unwrap());
        // Halves of 4 and of 1 rows of 4; the last query has no positive effect.
        assert_eq!(got.share_for_half.unwrap().value, (0.5 + 0.25) / 2.0);
        assert_eq!(got.share_for_half.unwrap().n, 2);
    }
}
