//! Scrambled Halton points as directions: coordinate i of point j is the radical inverse of j in the i-th prime
//! base, with each digit permuted by a random linear map (Matousek 1998), passed through the normal quantile
//! function.
//!
//! Each single point is uniform in the cube, so the estimate is unbiased over seeds; jointly the points are
//! spread more evenly than independent ones, which helps in few dimensions (Avron et al. 2016).

use rayon::prelude::*;
use veridical_core::Stream;
use veridical_core::elementary::normal_quantile;

use super::Scales;
use crate::FeatureSpec;

/// b^K stays below this, so that 2N + 1 is an exact f64.
const LARGEST_POWER: u64 = 1 << 52;

/// Fills U with the directions of the spec.
pub(super) fn fill(spec: &FeatureSpec, u: &mut [f32]) {
    let d = spec.input_dim();
    let stream = Stream::new(spec.seed(), "halton");
    let coordinates: Vec<Coordinate> = primes(d)
        .enumerate()
        .map(|(i, base)| Coordinate::new(base, |place| stream.at(place, i as u64)))
        .collect();
    let scales = Scales::new(spec);
    u.par_chunks_exact_mut(d).enumerate().for_each(|(j, u)| {
        let l = scales.of(j);
        for (u, coordinate) in u.iter_mut().zip(&coordinates) {
            *u = (normal_quantile(coordinate.point(j as u64)) / l) as f32;
        }
    });
}

/// One coordinate of the sequence.
struct Coordinate {
    base: u64,
    /// Multiplier and shift for each digit, least significant digit of j first.
    digits: Vec<(u64, u64)>,
    /// base^K.
    power: u64,
}

impl Coordinate {
    fn new(base: u64, at: impl Fn(u32) -> veridical_core::Place) -> Self {
        let (mut power, mut digits) = (1u64, Vec::new());
        while power <= LARGEST_POWER / base {
            let place = at(digits.len() as u32);
            let shift = (place.uniform(0) * base as f64) as u64;
            let multiplier = 1 + (place.uniform(1) * (base - 1) as f64) as u64;
            digits.push((multiplier, shift));
            power *= base;
        }
        Self { base, digits, power }
    }

    /// Returns the uniform of point j, inside (0, 1).
    fn point(&self, mut j: u64) -> f64 {
        let mut n = 0;
        for (multiplier, shift) in &self.digits {
            n = n * self.base + (multiplier * (j % self.base) + shift) % self.base;
            j /= self.base;
        }
        (2 * n + 1) as f64 / (2 * self.power) as f64
    }
}

/// The first `n` primes.
fn primes(n: usize) -> impl Iterator<Item = u64> {
    // The n-th prime is below n (ln n + ln ln n) for n >= 6 (Rosser 1941).
    let x = n.max(6) as f64;
    let limit = (x * (x.ln() + x.ln().ln())) as usize + 1;
    let mut composite = vec![false; limit + 1];
    let mut found = Vec::with_capacity(n);
    for candidate in 2..=limit {
        if found.len() == n {
            break;
        }
        if !composite[candidate] {
            found.push(candidate as u64);
            composite
                .iter_mut()
                .skip(candidate * candidate)
                .step_by(candidate)
                .for_each(|c| *c = true);
        }
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use veridical_core::Seed;

    #[test]
    fn primes_are_counted_right() {
        assert_eq!(primes(8).collect::<Vec<_>>(), [2, 3, 5, 7, 11, 13, 17, 19]);
        for (n, last) in [(1, 2), (6, 13), (1000, 7919), (10_000, 104_729)] {
            assert_eq!((primes(n).count(), primes(n).last()), (n, Some(last)));
        }
    }

    /// The first b^2 points fall into each of the b^2 equal intervals once, for any scrambling.
    #[test]
    fn a_coordinate_fills_every_interval_once() {
        let stream = Stream::new(Seed::new(4).unwrap(), "halton");
        for (i, base) in primes(6).enumerate() {
            let coordinate = Coordinate::new(base, |place| stream.at(place, i as u64));
            let cells = base * base;
            let mut hits = vec![0; cells as usize];
            (0..cells).for_each(|j| hits[(coordinate.point(j) * cells as f64) as usize] += 1);
            assert!(hits.iter().all(|&h| h == 1), "base {base}: {hits:?}");
        }
    }
}
