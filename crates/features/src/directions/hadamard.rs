//! Structured directions that are never stored: blocks (1/p) H S_3 H S_2 H S_1 of Walsh-Hadamard matrices and
//! random signs, with row j rescaled to a length distributed as chi_p (Le, Sarlos & Smola 2013; Yu et al. 2016, who show
//! that the bias vanishes with p).
//!
//! p           smallest power of two with p >= d and p >= 64
//! projection  a_j = c_j (H S_3 H S_2 H S_1 y)_i,  c_j = r_j / (p^(3/2) l_j)
//! length      r_j^2 = chi^2_p = -2 ln of a product of p/2 uniforms

use rayon::prelude::*;
use veridical_core::elementary::ln;
use veridical_core::{Place, Stream};

use super::Scales;
use crate::FeatureSpec;

const MIN_SIZE: usize = 64;
/// Number of uniforms multiplied before a logarithm is taken: their product stays above 2^-848.
const FACTORS: usize = 16;

/// Signs and scale factors of hadamard directions, as the transform needs them.
#[derive(Clone, Debug)]
pub(crate) struct Hadamard {
    /// The block size p.
    pub size: usize,
    /// The three diagonals of each block, p signs each, as +1 and -1.
    pub signs: Vec<f32>,
    /// e_j in f64; the transform uses it rounded to f32.
    pub factors: Vec<f64>,
}

impl Hadamard {
    pub fn new(spec: &FeatureSpec) -> Self {
        let size = spec.input_dim().next_power_of_two().max(MIN_SIZE);
        let n_blocks = spec.n_directions().div_ceil(size);
        let signs = Stream::new(spec.seed(), "signs");
        let signs = (0..n_blocks as u64)
            .flat_map(|block| (1..=3).map(move |t| signs.at(t, block)))
            .flat_map(|place| (0..size).map(move |k| sign(place, k)))
            .collect();
        let radial = Stream::new(spec.seed(), "radial");
        let scales = Scales::new(spec);
        let p = size as f64;
        let factor = |j: usize| chi(radial.at(0, j as u64), size) / ((p * p.sqrt()) * scales.of(j));
        let factors = (0..spec.n_directions()).into_par_iter().map(factor).collect();
        Self { size, signs, factors }
    }

    /// Writes the dense matrix U, for callers that cannot run the fast transform.
    pub fn fill(&self, d: usize, u: &mut [f32]) {
        let p = self.size;
        let blocks = u.par_chunks_mut(p * d).zip(self.signs.par_chunks(3 * p));
        blocks.zip(self.factors.par_chunks(p)).for_each(|((u, signs), factors)| {
            let mut column = vec![0.0f64; p]; // integers below p^2 <= 2^40, exact
            for k in 0..d {
                column.fill(0.0);
                column[k] = 1.0;
                for signs in signs.chunks_exact(p) {
                    column.iter_mut().zip(signs).for_each(|(x, s)| *x *= f64::from(*s));
                    walsh_hadamard(&mut column);
                }
                for (i, factor) in factors.iter().enumerate() {
                    u[i * d + k] = (factor * (column[i] + 0.0)) as f32; // no -0
                }
            }
        });
    }
}

fn sign(place: Place, k: usize) -> f32 {
    let word = place.words((k / 128) as u32)[k / 32 % 4];
    if word >> (k % 32) & 1 == 1 { -1.0 } else { 1.0 }
}

/// A chi variable with an even number of degrees of freedom.
fn chi(place: Place, degrees: usize) -> f64 {
    let (mut sum, mut product, mut n) = (0.0, 1.0, 0);
    place.for_each_integer(degrees / 2, |k| {
        product *= (k + 1) as f64 * 2f64.powi(-53);
        n += 1;
        if n % FACTORS == 0 {
            sum += ln(product);
            product = 1.0;
        }
    });
    (-2.0 * sum).sqrt()
}

/// The Walsh-Hadamard transform H v in Sylvester order.
fn walsh_hadamard(v: &mut [f64]) {
    let mut h = 1;
    while h < v.len() {
        for pair in v.chunks_exact_mut(2 * h) {
            let (low, high) = pair.split_at_mut(h);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        h *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use veridical_core::Seed;

    #[test]
    fn walsh_hadamard_is_the_naive_product() {
        let v: Vec<f64> = (0..32).map(|k| f64::from(k * k % 11) - 3.0).collect();
        let entry =
            |i: usize, k: usize| if (i & k).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
        let naive: Vec<f64> = (0..32).map(|i| (0..32).map(|k| entry(i, k) * v[k]).sum()).collect();
        let mut fast = v;
        walsh_hadamard(&mut fast);
        assert_eq!(fast, naive);
    }

    /// Mean p and variance 2p of n draws: standard errors sqrt(2p / n) and about 2p sqrt(2 / n); five allowed.
    #[test]
    fn lengths_have_the_moments_of_chi_squared() {
        let (p, n) = (64, 4000);
        let stream = Stream::new(Seed::new(1).unwrap(), "radial");
        let mut moments = veridical_core::stats::Moments::default();
        (0..n).for_each(|j| moments.push(chi(stream.at(0, j), p).powi(2)));
        let (mean, variance) = (p as f64, 2.0 * p as f64);
        assert!((moments.mean() - mean).abs() < 5.0 * (variance / n as f64).sqrt());
        let spread = variance * ((2.0 + 12.0 / mean) / n as f64).sqrt();
        assert!((moments.variance() - variance).abs() < 5.0 * spread);
    }
}
