//! Random directions U of a spec, bit for bit the same on every platform.
//!
//! iid         u_j = g_j / l_j, g_j standard normal (laplace: Cauchy, cauchy: Laplace, by coordinate)
//! orthogonal  blocks of d: q_j from Gram-Schmidt on g_j in order, u_j = |g_j| q_j / l_j, so that each
//!             u_j has the marginal distribution of an iid one (Yu et al. 2016) and prefixes hold
//! hadamard    products of Hadamard matrices and signs: `hadamard.rs`
//! halton      scrambled Halton points: `halton.rs`
//!
//! Element i of g_j is drawn at its own counter [i/2, j_lo, j_hi, 0] of stream `directions`; l_j is defined in
//! `scales.rs`.

pub(crate) mod hadamard;
mod halton;
mod scales;

use rayon::prelude::*;
use veridical_core::Stream;
use veridical_core::elementary::{cos_sin_turn, ln};
use veridical_core::orthogonal::{dot, orthonormalize_rows};

use self::scales::Scales;
use crate::{Directions, Error, FeatureSpec, Kernel};

/// Returns U, row-major: m rows of width d.
///
/// ```
/// use veridical_features::{FeatureSpec, directions};
///
/// let spec = FeatureSpec::params(4, 12).build()?;
/// let u = directions::matrix(&spec);
/// assert_eq!(u.len(), 6 * 4);
/// let shorter = directions::matrix(&spec.prefix(8)?);
/// assert_eq!(shorter, u[..4 * 4]);
/// # Ok::<(), veridical_features::Error>(())
/// ```
pub fn matrix(spec: &FeatureSpec) -> Vec<f32> {
    let d = spec.input_dim();
    let mut u = vec![0.0f32; spec.n_directions() * d];
    match (spec.directions(), spec.kernel()) {
        (Directions::Iid, Kernel::Laplace) => by_coordinate(spec, &mut u, cauchy),
        (Directions::Iid, Kernel::Cauchy) => by_coordinate(spec, &mut u, laplace),
        (Directions::Iid, _) => iid(spec, &mut u),
        (Directions::Orthogonal, _) => orthogonal(spec, &mut u),
        (Directions::Hadamard, _) => hadamard::Hadamard::new(spec).fill(d, &mut u),
        (Directions::Halton, _) => halton::fill(spec, &mut u),
    }
    u
}

/// Returns [`matrix`] after checking that every direction is in the range of f32.
///
/// # Errors
/// [`Error::Param`] if a direction is out of the range of f32 (an extreme length scale).
pub fn checked_matrix(spec: &FeatureSpec) -> Result<Vec<f32>, Error> {
    let u = matrix(spec);
    check_range(
        u.iter().fold(0.0, |m, u| if u.is_nan() { f32::NAN } else { u.abs().max(m) }),
        spec,
    )?;
    Ok(u)
}

/// Rejects a length scale that makes the largest element of the directions infinite or subnormal.
pub(crate) fn check_range(largest: f32, spec: &FeatureSpec) -> Result<(), Error> {
    if largest.is_normal() {
        return Ok(());
    }
    let must_be = "such that the directions stay within the range of f32";
    Err(Error::param("length_scale", must_be, spec.length_scale()))
}

fn gaussians(spec: &FeatureSpec, first: usize, out: &mut [f64]) {
    let stream = Stream::new(spec.seed(), "directions");
    for (j, g) in out.chunks_exact_mut(spec.input_dim()).enumerate() {
        stream.at(0, (first + j) as u64).fill_normals(g);
    }
}

fn iid(spec: &FeatureSpec, u: &mut [f32]) {
    let d = spec.input_dim();
    let scales = Scales::new(spec);
    u.par_chunks_exact_mut(d).enumerate().for_each_init(
        || vec![0.0; d],
        |g, (j, u)| {
            gaussians(spec, j, g);
            let l = scales.of(j);
            for (u, g) in u.iter_mut().zip(g) {
                *u = (*g / l) as f32;
            }
        },
    );
}

/// Fills U with independent coordinates, each from its own 53-bit integer.
fn by_coordinate(spec: &FeatureSpec, u: &mut [f32], draw: fn(u64) -> f64) {
    let stream = Stream::new(spec.seed(), "directions");
    let l = spec.length_scale();
    u.par_chunks_exact_mut(spec.input_dim()).enumerate().for_each(|(j, u)| {
        let mut u = u.iter_mut();
        stream.at(0, j as u64).for_each_integer(u.len(), |k| {
            if let Some(u) = u.next() {
                *u = (draw(k) / l) as f32;
            }
        });
    });
}

/// A standard Cauchy variable: the tangent of a uniform angle, an odd multiple of pi 2^-53, so that
/// the cosine is never 0.
fn cauchy(k: u64) -> f64 {
    let (cos, sin) = cos_sin_turn((2 * (k >> 1) + 1) as f64 * 2f64.powi(-54));
    sin / cos
}

/// A standard Laplace variable: an exponential one with the sign of the last bit.
fn laplace(k: u64) -> f64 {
    let exponential = -ln(((k >> 1) + 1) as f64 * 2f64.powi(-52));
    if k.is_multiple_of(2) { exponential } else { -exponential }
}

fn orthogonal(spec: &FeatureSpec, u: &mut [f32]) {
    let d = spec.input_dim();
    let scales = Scales::new(spec);
    u.par_chunks_mut(d * d).enumerate().for_each(|(block, u)| {
        let mut q = vec![0.0; u.len()];
        gaussians(spec, block * d, &mut q);
        let lengths: Vec<f64> = q.chunks_exact(d).map(|g| dot(g, g).sqrt()).collect();
        orthonormalize_rows(&mut q, d);
        let rows = u.chunks_exact_mut(d).zip(q.chunks_exact(d)).zip(lengths);
        for (j, ((u, q), length)) in rows.enumerate() {
            let l = scales.of(block * d + j);
            for (u, q) in u.iter_mut().zip(q) {
                *u = (length * q / l) as f32;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounding u to f32 perturbs each of the d coordinates of a direction by at most 2^-24.
    #[test]
    fn blocks_are_orthogonal() {
        for (d, m) in [(1, 3), (5, 11), (16, 40)] {
            let spec = FeatureSpec::params(d, 2 * m).seed(3).length_scale(0.7).build().unwrap();
            let u: Vec<f64> = matrix(&spec).iter().map(|&x| f64::from(x)).collect();
            for block in u.chunks(d * d) {
                for (i, a) in block.chunks(d).enumerate() {
                    for b in block.chunks(d).skip(i + 1) {
                        let cosine = dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
                        assert!(cosine.abs() < d as f64 * 2f64.powi(-22), "cosine {cosine}");
                    }
                }
            }
        }
    }

    #[test]
    fn prefixes_hold_for_every_family_and_a_partial_block() {
        for directions in Directions::ALL {
            let spec = FeatureSpec::params(5, 2 * 70).directions(directions).build().unwrap();
            let u = matrix(&spec);
            for m in [1, 2, 4, 5, 6, 16, 63, 64, 65, 69] {
                assert_eq!(matrix(&spec.prefix(2 * m).unwrap()), u[..m * 5]);
            }
        }
    }

    #[test]
    fn the_length_scale_divides_and_the_seed_changes_everything() {
        let u = |l, seed| {
            matrix(&FeatureSpec::params(3, 12).length_scale(l).seed(seed).build().unwrap())
        };
        assert!(u(2.0, 0).iter().zip(u(1.0, 0)).all(|(a, b)| *a * 2.0 == b));
        assert!(u(1.0, 0).iter().zip(u(1.0, 1)).all(|(a, b)| *a != b));
    }
}
