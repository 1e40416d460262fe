//! Gram-Schmidt, twice, in f64 with a fixed order of summation (`docs/format-spec.md`).
//!
//! Rows are processed in panels of 32. *Project v on q_1, q_2, ...*: c_i = q_i . v for all i, then
//! v -= c_i q_i in order of i. A row is projected twice on all rows of earlier panels, then twice on
//! the earlier rows of its own panel; q_j = v / |v|. Row j depends on rows up to j alone, so prefixes
//! hold. The second pass reduces the loss of orthogonality to rounding (Kahan's "twice is enough";
//! Giraud et al. 2005).
//!
//! Cost: 4 n^2 d flops for n rows of width d. The rows of a panel are projected on the earlier rows together,
//! block of columns by block of columns, so the earlier rows are read from memory once per panel and not once
//! per row.

use rayon::prelude::*;

use crate::{Seed, Stream};

/// Rows per panel.
const PANEL: usize = 32;
/// Rows of a panel that one task projects.
const TASK_ROWS: usize = 16;
/// Columns processed at once, a multiple of the eight partial sums: sixteen rows of them fit the level-two
/// cache many times over.
const BLOCK: usize = 1024;

/// Computes the dot product with eight partial sums by index mod 8, combined pairwise: an order that SIMD
/// units can follow and that is the same everywhere.
#[inline(always)]
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    debug_assert_eq!(a.len(), b.len());
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks(), b.as_chunks());
    let mut sums = PartialSums::default();
    a.iter().zip(b).for_each(|(a, b)| sums.add(*a, *b));
    sums.finish(a_rest.iter().copied().zip(b_rest.iter().copied()))
}

/// Computes the squared norm of a row of `f32` values in `f64`, in the order of [`dot`].
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

#[derive(Clone, Copy, Default)]
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
/// ```
/// use veridical_core::orthogonal::{dot, orthonormalize_rows};
///
/// let mut rows = [3.0, 4.0, 1.0, 0.0];
/// orthonormalize_rows(&mut rows, 2);
/// assert!((dot(&rows[..2], &rows[..2]) - 1.0).abs() < 1e-15);
/// assert!(dot(&rows[..2], &rows[2..]).abs() < 1e-15);
/// ```
///
/// # Panics
/// If there are more rows than columns: such rows cannot be orthogonal.
pub fn orthonormalize_rows(rows: &mut [f64], dim: usize) {
    assert!(rows.len() <= dim * dim, "at most {dim} rows of width {dim} can be orthogonal");
    for first in (0..rows.len()).step_by(PANEL * dim) {
        let (done, rest) = rows.split_at_mut(first);
        let n = rest.len().min(PANEL * dim);
        let panel = &mut rest[..n];
        for _pass in 0..2 {
            panel.par_chunks_mut(TASK_ROWS * dim).for_each(|v| project(v, done, dim));
        }
        for j in 0..n / dim {
            let (before, rest) = panel.split_at_mut(j * dim);
            let v = &mut rest[..dim];
            for _pass in 0..2 {
                project(v, before, dim);
            }
            let norm = dot(v, v).sqrt();
            v.iter_mut().for_each(|v| *v /= norm);
        }
    }
}

/// Projects every row of `vs` on the rows of `qs`.
fn project(vs: &mut [f64], qs: &[f64], dim: usize) {
    if !qs.is_empty() {
        pulp::Arch::new().dispatch(Project { vs, qs, dim });
    }
}

/// The work of [`project`], compiled for the widest SIMD unit available; the operations and their
/// order are fixed, so the width does not change any bit of the result.
struct Project<'a> {
    vs: &'a mut [f64],
    qs: &'a [f64],
    dim: usize,
}

impl pulp::WithSimd for Project<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _simd: S) {
        let coefficients = dots(self.vs, self.qs, self.dim);
        subtract(self.vs, self.qs, &coefficients, self.dim);
    }
}

/// dot(q_i, v_j) for all i and j; entry [j][i] at `j * n_q + i`.
#[inline(always)]
fn dots(vs: &[f64], qs: &[f64], dim: usize) -> Vec<f64> {
    let (n_v, n_q) = (vs.len() / dim, qs.len() / dim);
    let mut sums = vec![PartialSums::default(); n_v * n_q];
    let whole = dim / 8 * 8;
    for from in (0..whole).step_by(BLOCK) {
        let columns = from..whole.min(from + BLOCK);
        for (i, q) in qs.chunks_exact(dim).enumerate() {
            let q = q[columns.clone()].as_chunks::<8>().0;
            // Two rows at a time: q is loaded once for both.
            for (pair, v) in vs.chunks(2 * dim).enumerate() {
                let j = 2 * pair;
                let first = v[columns.clone()].as_chunks::<8>().0;
                let mut a = sums[j * n_q + i];
                if let Some(second) = v.get(dim..2 * dim) {
                    let second = second[columns.clone()].as_chunks::<8>().0;
                    let mut b = sums[(j + 1) * n_q + i];
                    for ((q, first), second) in q.iter().zip(first).zip(second) {
                        a.add(*q, *first);
                        b.add(*q, *second);
                    }
                    sums[(j + 1) * n_q + i] = b;
                } else {
                    q.iter().zip(first).for_each(|(q, first)| a.add(*q, *first));
                }
                sums[j * n_q + i] = a;
            }
        }
    }
    let mut sums = sums.into_iter();
    let mut finished = Vec::with_capacity(n_v * n_q);
    for v in vs.chunks_exact(dim) {
        for (q, sums) in qs.chunks_exact(dim).zip(&mut sums) {
            let rest = q[whole..].iter().copied().zip(v[whole..].iter().copied());
            finished.push(sums.finish(rest));
        }
    }
    finished
}

/// v_j -= c_ji q_i in order of i, four q at a time to spare loads and stores of v.
#[inline(always)]
fn subtract(vs: &mut [f64], qs: &[f64], coefficients: &[f64], dim: usize) {
    let n_q = qs.len() / dim;
    for from in (0..dim).step_by(BLOCK) {
        let columns = from..dim.min(from + BLOCK);
        for (group, q) in qs.chunks(4 * dim).enumerate() {
            for (v, c) in vs.chunks_exact_mut(dim).zip(coefficients.chunks_exact(n_q)) {
                let v = &mut v[columns.clone()];
                let c = &c[4 * group..];
                if let (Some((q, _)), [c0, c1, c2, c3, ..]) = (q.split_at_checked(4 * dim), c) {
                    let q = |i: usize| &q[i * dim..][columns.clone()];
                    let rows = v.iter_mut().zip(q(0)).zip(q(1)).zip(q(2)).zip(q(3));
                    for ((((v, q0), q1), q2), q3) in rows {
                        *v = (((*v - c0 * q0) - c1 * q1) - c2 * q2) - c3 * q3;
                    }
                } else {
                    for (q, c) in q.chunks_exact(dim).zip(c) {
                        v.iter_mut().zip(&q[columns.clone()]).for_each(|(v, q)| *v -= c * q);
                    }
                }
            }
        }
    }
}

/// Returns a random rotation (or reflection) of R^dim, row-major, uniform over the orthogonal group: the
/// orthonormalized rows of a Gaussian matrix drawn from stream `name`.
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

    /// The definition, one row and one number at a time.
    fn textbook(rows: &mut [f64], dim: usize) {
        for j in 0..rows.len() / dim {
            let (done, rest) = rows.split_at_mut(j * dim);
            let v = &mut rest[..dim];
            let (earlier, own) = done.split_at(j / PANEL * PANEL * dim);
            for qs in [earlier, earlier, own, own] {
                let c: Vec<f64> = qs.chunks_exact(dim).map(|q| dot(q, v)).collect();
                for (q, c) in qs.chunks_exact(dim).zip(c) {
                    v.iter_mut().zip(q).for_each(|(v, q)| *v -= c * q);
                }
            }
            let norm = dot(v, v).sqrt();
            v.iter_mut().for_each(|v| *v /= norm);
        }
    }

    /// Bit for bit, over panel, task, pair and column edges.
    #[test]
    fn blocked_work_equals_the_textbook() {
        for (n, dim) in [(1, 1), (3, 5), (32, 32), (33, 40), (75, 75), (100, 101), (40, BLOCK + 13)]
        {
            let stream = Stream::new(Seed::new(2).unwrap(), "test");
            let mut got = vec![0.0; n * dim];
            stream.at(0, 0).fill_normals(&mut got);
            let mut want = got.clone();
            orthonormalize_rows(&mut got, dim);
            textbook(&mut want, dim);
            assert_eq!(got, want, "{n} x {dim}");
        }
    }

    /// Within one panel twice is enough: a few roundings. Projecting on the row's own panel then shrinks v,
    /// at the worst from sqrt(32) to |z| with z standard normal (the last row of a square block), and
    /// what rounding had left of the earlier panels grows by that factor; 32 of them may add up. With
    /// |z| > 0.02 that is below 32 x 300 eps, and all of it far below the rounding to f32.
    #[test]
    fn random_orthogonal_is_orthogonal() {
        for (dim, roundings) in
            [(1, 8.0), (2, 8.0), (9, 8.0), (32, 8.0), (64, 9600.0), (150, 9600.0)]
        {
            let q = random_orthogonal(dim, Seed::new(1).unwrap(), "test");
            for (i, a) in q.chunks_exact(dim).enumerate() {
                for (j, b) in q.chunks_exact(dim).enumerate() {
                    let want = f64::from(u8::from(i == j));
                    let error = (dot(a, b) - want).abs();
                    assert!(error <= roundings * f64::EPSILON, "{dim}: {error:e}");
                }
            }
        }
    }
}
