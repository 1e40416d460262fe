//! Gram-Schmidt, twice, in f64 with a fixed order of summation.
//!
//! For rows g_0, g_1, ...: v = g_j; twice { c_i = q_i . v for all i < j; v -= sum_i c_i q_i };
//! q_j = v / |v|. Row j depends on rows up to j alone, so prefixes hold. The second pass brings the
//! loss of orthogonality down to rounding (Kahan's "twice is enough"; Giraud et al. 2005).
//!
//! Cost: 4 n^2 d flops for n rows of width d.

use crate::{Seed, Stream};

/// The dot product with eight partial sums by index mod 8, combined pairwise: an order that vector
/// units can follow and that is the same everywhere.
#[inline(always)]
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    debug_assert_eq!(a.len(), b.len());
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks(), b.as_chunks());
    let mut sums = PartialSums::default();
    a.iter().zip(b).for_each(|(a, b)| sums.add(*a, *b));
    sums.finish(a_rest.iter().copied().zip(b_rest.iter().copied()))
}

/// [`dot`] of a row of singles with itself, in doubles.
#[inline(always)]
pub fn squared_norm(x: &[f32]) -> f64 {
    let (x, rest) = x.as_chunks::<8>();
    let mut sums = PartialSums::default();
    for x in x {
        let x = x.map(f64::from);
        sums.add(x, x);
    }
    sums.finish(rest.iter().map(|&x| (f64::from(x), f64::from(x))))
}

#[derive(Default)]
struct PartialSums([f64; 8]);

impl PartialSums {
    #[inline(always)]
    fn add(&mut self, a: [f64; 8], b: [f64; 8]) {
        for t in 0..8 {
            self.0[t] += a[t] * b[t];
        }
    }

    #[inline(always)]
    fn finish(mut self, rest: impl Iterator<Item = (f64, f64)>) -> f64 {
        for (p, (a, b)) in self.0.iter_mut().zip(rest) {
            *p += a * b;
        }
        let p = self.0;
        ((p[0] + p[1]) + (p[2] + p[3])) + ((p[4] + p[5]) + (p[6] + p[7]))
    }
}

/// Replaces the rows of `rows` (each of width `dim`, at most `dim` of them) by orthonormal ones.
///
/// # Panics
/// If there are more rows than columns: such rows cannot be orthogonal.
pub fn orthonormalize_rows(rows: &mut [f64], dim: usize) {
    assert!(rows.len() <= dim * dim, "at most {dim} rows of width {dim} can be orthogonal");
    let mut coefficients = Vec::new();
    for j in 0..rows.len() / dim {
        let (done, rest) = rows.split_at_mut(j * dim);
        let v = &mut rest[..dim];
        for _pass in 0..2 {
            coefficients.clear();
            coefficients.extend(done.chunks_exact(dim).map(|q| dot(q, v)));
            for (q, &c) in done.chunks_exact(dim).zip(&coefficients) {
                for (v, &q) in v.iter_mut().zip(q) {
                    *v -= c * q;
                }
            }
        }
        let norm = dot(v, v).sqrt();
        for v in v {
            *v /= norm;
        }
    }
}

/// A random rotation (or reflection) of R^dim, row-major, uniform over the orthogonal group: the
/// orthonormalised rows of a Gaussian matrix drawn from stream `name`.
pub fn random_orthogonal(dim: usize, seed: Seed, name: &str) -> Vec<f64> {
    let stream = Stream::new(seed, name);
    let mut rows = vec![0.0; dim * dim];
    for (j, row) in rows.chunks_exact_mut(dim).enumerate() {
        stream.at(0, j as u64).fill_normals(row);
    }
    orthonormalize_rows(&mut rows, dim);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_is_exact_on_integers_of_any_length() {
        for n in 0..40 {
            let a: Vec<f64> = (0..n).map(f64::from).collect();
            let want: i32 = (0..n).map(|k| k * k).sum();
            assert_eq!(dot(&a, &a), f64::from(want));
            let single: Vec<f32> = a.iter().map(|&x| x as f32).collect();
            assert_eq!(squared_norm(&single), f64::from(want));
        }
    }

    /// Twice is enough: the error is a few roundings, d eps / 10 would already be a failure of it.
    #[test]
    fn random_orthogonal_is_orthogonal() {
        for dim in [1, 2, 9, 64] {
            let q = random_orthogonal(dim, Seed::new(1).unwrap(), "test");
            for (i, a) in q.chunks_exact(dim).enumerate() {
                for (j, b) in q.chunks_exact(dim).enumerate() {
                    let want = f64::from(u8::from(i == j));
                    assert!((dot(a, b) - want).abs() <= 8.0 * f64::EPSILON);
                }
            }
        }
    }
}
