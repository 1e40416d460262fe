//! One mode or more: the dip test (Hartigan & Hartigan 1985).
//!
//! D = min over unimodal G of sup |F - G|,  F the distribution function of the sample
//!
//! G is convex up to its mode and concave after it. The algorithm (Hartigan 1985, AS 217) begins with the greatest convex
//! minorant and the least concave majorant of F over all points and narrows the interval between its ends to the one where
//! they are furthest apart, until the distance inside is below that of F to the parts outside. p is the share of uniform
//! samples of the same size whose dip is at least as large: of all unimodal laws, the uniform one has the largest dip.

use veridical_core::{Seed, Stream};

/// Returns Hartigan's dip of a sample; 0 without values.
pub fn dip(sample: &[f64]) -> f64 {
    let mut x = sample.to_vec();
    x.sort_unstable_by(f64::total_cmp);
    dip_of_sorted(&x)
}

/// Returns the dip of a sample, and the share of uniform samples of its size, out of `draws` and itself, with a dip at least as
/// large.
pub fn dip_test(sample: &[f64], draws: u64, seed: Seed) -> (f64, f64) {
    let own = dip(sample);
    let stream = Stream::new(seed, "reproduce/dip");
    let is_larger = |draw: &u64| {
        let mut draws = stream.at(0, *draw).draws();
        let uniform: Vec<f64> = sample.iter().map(|_| f64::from(draws.uniform())).collect();
        dip(&uniform) >= own
    };
    let larger = (0..draws).filter(is_larger).count();
    (own, (1 + larger) as f64 / (1 + draws) as f64)
}

/// Distances are in units of a point until the end.
fn dip_of_sorted(x: &[f64]) -> f64 {
    let n = x.len();
    if n == 0 {
        return 0.0;
    }
    let ends_at = 2.0 * n as f64;
    if x[0] == x[n - 1] {
        return 1.0 / ends_at;
    }
    let (before, after) = (minorant(x), majorant(x));
    let (mut low, mut high) = (0, n - 1);
    let mut dip = 1.0f64;
    loop {
        // Knots of the minorant from `high` down, of the majorant from `low` up.
        let down = knots(high, low, &before);
        let up = knots(low, high, &after);
        let (distance, [at_down, at_up]) = furthest(x, &down, &up);
        if distance < dip {
            break;
        }
        let below = down[at_down..].windows(2).map(|knots| bulge(x, [knots[1], knots[0]], true));
        let above = up[at_up..].windows(2).map(|knots| bulge(x, [knots[0], knots[1]], false));
        dip = below.chain(above).fold(dip, f64::max);
        if (low, high) == (down[at_down], up[at_up]) {
            break;
        }
        (low, high) = (down[at_down], up[at_up]);
    }
    dip / ends_at
}

/// The knot before each point on the greatest convex minorant of the points up to it.
fn minorant(x: &[f64]) -> Vec<usize> {
    let mut before = vec![0; x.len()];
    for j in 1..x.len() {
        let mut a = j - 1;
        while a > 0 {
            let b = before[a];
            if (x[j] - x[a]) * ((a - b) as f64) < (x[a] - x[b]) * (j - a) as f64 {
                break;
            }
            a = b;
        }
        before[j] = a;
    }
    before
}

/// The knot after each point on the least concave majorant of the points from it on.
fn majorant(x: &[f64]) -> Vec<usize> {
    let last = x.len() - 1;
    let mut after = vec![last; x.len()];
    for k in (0..last).rev() {
        let mut a = k + 1;
        while a < last {
            let b = after[a];
            if (x[a] - x[k]) * ((b - a) as f64) < (x[b] - x[a]) * (a - k) as f64 {
                break;
            }
            a = b;
        }
        after[k] = a;
    }
    after
}

fn knots(from: usize, to: usize, next: &[usize]) -> Vec<usize> {
    let mut knots = vec![from];
    let mut at = from;
    while at != to {
        at = next[at];
        knots.push(at);
    }
    knots
}

/// The largest distance between minorant and majorant, and the knots of both (as indices) between which it is.
fn furthest(x: &[f64], down: &[usize], up: &[usize]) -> (f64, [usize; 2]) {
    let mut found = (0.0, [down.len() - 1, up.len() - 1]);
    if down.len() == 2 && up.len() == 2 {
        return (1.0, found.1);
    }
    let (mut i, mut v) = (down.len() - 2, 1);
    loop {
        let (g, l) = (down[i], up[v]);
        if g > l {
            // A knot of the majorant above a piece of the minorant.
            let first = down[i + 1];
            let slope = (g - first) as f64 / (x[g] - x[first]);
            let distance = (l - first + 1) as f64 - (x[l] - x[first]) * slope;
            if distance >= found.0 {
                found = (distance, [i + 1, v]);
            }
            v += 1;
        } else {
            // A knot of the minorant below a piece of the majorant.
            let first = up[v - 1];
            let slope = (l - first) as f64 / (x[l] - x[first]);
            let distance = (x[g] - x[first]) * slope - (g as f64 - first as f64 - 1.0);
            if distance >= found.0 {
                found = (distance, [i, v]);
            }
            i = i.saturating_sub(1);
        }
        v = v.min(up.len() - 1);
        if down[i] == up[v] {
            return found;
        }
    }
}

/// The largest distance of F from the piece between two knots, over it for the minorant and under it for the majorant; at
/// least 1.
fn bulge(x: &[f64], [from, to]: [usize; 2], is_minorant: bool) -> f64 {
    if to - from < 2 || x[from] == x[to] {
        return 1.0;
    }
    let slope = (to - from) as f64 / (x[to] - x[from]);
    let distance = |j: usize| {
        let (steps, line) = ((j - from) as f64, (x[j] - x[from]) * slope);
        if is_minorant { steps + 1.0 - line } else { line - steps + 1.0 }
    };
    (from..=to).map(distance).fold(1.0, f64::max)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Case {
        sample: Vec<f64>,
        dip: f64,
    }

    /// Linear programs with 1e-9 of slack: tests/oracles/dip.
    #[test]
    fn dips_are_those_of_linear_programs() {
        const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracles/dip/dip.json");
        let cases: Vec<Case> = serde_json::from_slice(&std::fs::read(FILE).unwrap()).unwrap();
        for Case { sample, dip: want } in cases {
            let got = dip(&sample);
            assert!((got - want).abs() < 1e-9, "{} values: {got} {want}", sample.len());
        }
    }

    fn normals(n: usize, draw: u64) -> Vec<f64> {
        let mut values = vec![0.0; n];
        Stream::new(Seed::new(0).unwrap(), "modes").at(0, draw).fill_normals(&mut values);
        values
    }

    /// 500 normal values have one mode; moved apart by four deviations, they have two.
    #[test]
    fn two_modes_are_told_from_one() {
        let seed = Seed::new(1).unwrap();
        let one = normals(500, 0);
        let two: Vec<f64> = one.iter().enumerate().map(|(i, x)| x + 4.0 * (i % 2) as f64).collect();
        assert!(dip_test(&one, 99, seed).1 > 0.2);
        assert_eq!(dip_test(&two, 99, seed).1, 0.01);
    }

    #[test]
    fn equal_values_and_none_have_no_mode_to_tell() {
        assert_eq!(dip(&[3.0; 5]), 0.1);
        assert_eq!(dip(&[]), 0.0);
    }
}
