//! When did a series of daily values change? Circular binary segmentation (Olshen et al., Biostatistics 5, 2004) by ranks, with a
//! permutation p-value.
//!
//! For the ranks r_i of n values and an arc of m consecutive days with the rank sum R,
//! Z = |R - m (n + 1) / 2| / sqrt(m (n - m) (n + 1) / 12)
//! is the rank-sum statistic of the arc against all other days. The test statistic is the largest Z over all arcs, so that a level
//! that lasts and one that comes and goes are both found, and p = (1 + k) / (1 + permutations), where k permutations have one at
//! least as large. Under exchangeable days it has its level at any length, whatever the distribution of the values. The ends of the
//! arc are the changes, and the test is applied again between them.

use veridical_core::{Order, Seed};

/// The level of every test.
const LEVEL: f64 = 0.01;
/// The number of permutations.
const PERMUTATIONS: u32 = 999;
/// The fewest days that are tested: with fewer, no order of the days is rare enough.
const LEAST: usize = 8;
/// The fewest days of a level.
const SHORTEST: usize = 3;

/// Returns the positions at which a new level begins, in ascending order.
///
/// ```
/// use veridical_core::Seed;
/// use veridical_inspect::stability::change_points;
///
/// let daily: Vec<f64> = (0..20).map(|day| f64::from(u8::from(day >= 12)) + 0.01 * f64::from(day * 7 % 5)).collect();
/// assert_eq!(change_points(&daily, Seed::new(0)?), [12]);
/// # Ok::<(), veridical_core::Error>(())
/// ```
pub fn change_points(values: &[f64], seed: Seed) -> Vec<usize> {
    let mut found = Vec::new();
    let mut segments = Vec::from([(0, values.len())]);
    while let Some((start, end)) = segments.pop() {
        let Some([from, to]) = change(&values[start..end], seed, PERMUTATIONS) else { continue };
        let ends = [start, start + from, start + to, end];
        found.extend([ends[1], ends[2]].into_iter().filter(|at| start < *at && *at < end));
        segments.extend(ends.windows(2).map(|ends| (ends[0], ends[1])));
    }
    found.sort_unstable();
    found
}

/// The arc of days that differs from the others, if there is one: its first day, and the first day after it.
fn change(values: &[f64], seed: Seed, permutations: u32) -> Option<[usize; 2]> {
    if values.len() < LEAST || values.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let ranks = doubled_ranks(values);
    let (observed, arc) = largest(&ranks);
    let mut shuffled = ranks.clone();
    let as_large = (0..permutations).filter(|&i| {
        let order = Order::new(ranks.len() as u64, seed, "change-points", i);
        let day = |day: usize| ranks[order.at(day as u64) as usize];
        shuffled.iter_mut().enumerate().for_each(|(at, rank)| *rank = day(at));
        largest(&shuffled).0 >= observed
    });
    let p = (1 + as_large.count()) as f64 / f64::from(1 + permutations);
    (p <= LEVEL).then_some(arc)
}

/// Twice the ranks from 1, so that the mean ranks of ties are whole.
fn doubled_ranks(values: &[f64]) -> Vec<i64> {
    let rank = |x: &f64| {
        let (mut below, mut equal) = (0, 0);
        for y in values {
            below += i64::from(y < x);
            equal += i64::from(y == x);
        }
        2 * below + equal + 1
    };
    values.iter().map(rank).collect()
}

/// The largest Z^2 of an arc, up to a factor, and the arc. An arc and all other days have the same Z, so arcs of up to half of
/// the days, around the end as well, are enough.
fn largest(doubled_ranks: &[i64]) -> (f64, [usize; 2]) {
    let n = doubled_ranks.len();
    let mut sums = vec![0];
    sums.extend(doubled_ranks.iter().scan(0, |sum, rank| {
        *sum += rank;
        Some(*sum)
    }));
    let mut best = (-1.0, [0, 0]);
    for from in 0..=n - SHORTEST {
        for to in from + SHORTEST..=n {
            let days = to - from;
            let rest_is_short = |rest: usize| 0 < rest && rest < SHORTEST;
            if days == n || rest_is_short(from) || rest_is_short(n - to) {
                continue;
            }
            let u = (sums[to] - sums[from] - (days * (n + 1)) as i64) as f64;
            let z = u * u / (days * (n - days)) as f64;
            if z > best.0 {
                best = (z, [from, to]);
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use veridical_core::Stream;

    use super::*;

    fn noise(series: u32, n: usize) -> Vec<f64> {
        let mut values = vec![0.0; n];
        let stream = Stream::new(Seed::new(3).unwrap(), "series");
        stream.at(series, 0).fill_normals(&mut values);
        values
    }

    /// The definition: twice U of Mann and Whitney counts pairs of a day inside and one outside by their order.
    #[test]
    fn the_statistic_is_the_rank_sum_of_an_arc() {
        for series in 0..20 {
            let mut values = noise(series, 12);
            values[3] = values[9]; // a tie
            let sign = |a: f64, b: f64| i64::from(a > b) - i64::from(a < b);
            let z = |[from, to]: [usize; 2]| {
                let inside = |day: usize| (from..to).contains(&day);
                let pairs = (0..12).flat_map(|i| (0..12).map(move |j| (i, j)));
                let across = pairs.filter(|&(i, j)| inside(i) && !inside(j));
                let u = across.map(|(i, j)| sign(values[i], values[j])).sum::<i64>() as f64;
                u * u / ((to - from) * (12 - to + from)) as f64
            };
            let (got, arc) = largest(&doubled_ranks(&values));
            assert!((got - z(arc)).abs() < 1e-9, "{got} {}", z(arc));
            let arcs = (0..10).flat_map(|from| (from + 3..=12).map(move |to| [from, to]));
            let allowed = arcs.filter(|[from, to]| {
                [*from, 12 - to].iter().all(|rest| *rest == 0 || *rest >= 3) && to - from < 12
            });
            assert!(allowed.map(z).all(|z| z <= got + 1e-9));
        }
    }

    /// 400 series without a change: a rate of false alarms of 0.01 has at most 10 of them with probability 0.997.
    #[test]
    fn the_level_holds() {
        let seed = Seed::new(1).unwrap();
        let alarms = (0..400).filter(|&i| change(&noise(i, 20), seed, 199).is_some()).count();
        assert!(alarms <= 10, "{alarms} of 400");
    }

    #[test]
    fn two_changes_are_found_and_a_constant_has_none() {
        let seed = Seed::new(1).unwrap();
        let mut values = noise(0, 45);
        values[15..30].iter_mut().for_each(|x| *x += 8.0);
        let found = change_points(&values, seed);
        // By ranks, the end of a level is known to a day.
        assert!(matches!(found[..], [14..=16, 29..=31]), "{found:?}");
        assert!(change_points(&[0.5; 30], seed).is_empty());
        assert!(change_points(&values[..5], seed).is_empty());
        values[3] = f64::NAN;
        assert!(change_points(&values, seed).is_empty());
    }
}
