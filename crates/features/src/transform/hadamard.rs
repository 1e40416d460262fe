//! Hadamard projection: as many rows as a vector has lanes pass through three Walsh-Hadamard transforms
//! side by side, so that every butterfly is one vector addition and one subtraction without shuffles.
//!
//! Three stages are computed at a time on eight vectors in registers: a transform of size p = 512 passes
//! over its 16 KB in the L1 cache three times. Cost for a row and a block of p directions:
//! 3 p log2 p additions, compared with p d fused multiply-adds for a dense projection.
//!
//! Stages run in the order h = 1, 2, 4, .. p/2 for any grouping, so the bits do not depend on it.

use pulp::{Simd, WithSimd};

use super::Checked;
use super::features::{Features, PAIR, lane_order};
use super::rows::Task;
use super::sincos::FAST_LIMIT;
use crate::Error;
use crate::directions::hadamard::Hadamard;

/// Vectors in registers: three stages at once take 2^3 of them.
const RADIX: usize = 8;

/// Hadamard directions in the layout that the projection reads.
#[derive(Debug)]
pub(crate) struct Prepared {
    size: usize,
    signs: Vec<f32>,
    /// c_j, in the lane order that interleaves to cos, sin, and padded to whole pairs of vectors.
    factors: Vec<f32>,
    order: Vec<usize>,
    n_directions: usize,
}

/// Lays out [`Hadamard`] directions for this machine.
pub(super) struct Prepare(pub Hadamard);

impl WithSimd for Prepare {
    type Output = Prepared;

    fn with_simd<S: Simd>(self, simd: S) -> Prepared {
        let Hadamard { size, signs, factors } = self.0;
        let order = lane_order(simd);
        let lanes = S::F32_LANES;
        let n_directions = factors.len();
        let mut laid_out = vec![0.0; n_directions.next_multiple_of(PAIR * lanes)];
        for (j, factor) in factors.into_iter().enumerate() {
            laid_out[j / lanes * lanes + order[j % lanes]] = factor as f32;
        }
        Prepared { size, signs, factors: laid_out, order, n_directions }
    }
}

/// Hadamard projection of a block of rows.
pub(super) struct Structured<'a, 'b> {
    pub prepared: &'a Prepared,
    pub task: Task<'b>,
}

impl WithSimd for Structured<'_, '_> {
    type Output = Result<Checked, Error>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let Self { prepared, task } = self;
        let Task { preparation, scale, rows, out, scratch } = task;
        let (lanes, dim, p) = (S::F32_LANES, preparation.dim, prepared.size);
        let features = Features { simd, scale };
        let width = 2 * prepared.n_directions;
        let mut seen = Checked::default();
        let mut largest = simd.splat_f32s(0.0);
        scratch.rows.resize(lanes * dim.max(p), 0.0);
        scratch.packed.clear();
        scratch.packed.resize(lanes * p, 0.0);
        scratch.work.resize(lanes * p, 0.0);

        let groups = rows.chunks(lanes * dim).zip(out.chunks_mut(lanes * width));
        for (g, (group, out)) in groups.enumerate() {
            preparation.apply(group, g * lanes, &mut scratch.rows, &mut seen)?;
            // Lanes without a row keep stale values, which are never read.
            for (lane, y) in scratch.rows.chunks_exact(dim).take(group.len() / dim).enumerate() {
                scratch.packed[lane..].iter_mut().step_by(lanes).zip(y).for_each(|(x, y)| *x = *y);
            }
            for (b, signs) in prepared.signs.chunks_exact(3 * p).enumerate() {
                let x = S::as_simd_f32s(&scratch.packed).0;
                project(simd, x, signs, S::as_mut_simd_f32s(&mut scratch.work).0);
                let factors = &prepared.factors[b * p..];
                let factors = S::as_simd_f32s(&factors[..factors.len().min(p)]).0;
                for (lane, out) in out.chunks_exact_mut(width).enumerate() {
                    let a = &mut scratch.rows[..factors.len() * lanes];
                    gather(&scratch.work, lane, &prepared.order, a);
                    let a = S::as_mut_simd_f32s(a).0;
                    let size = scale_rows(simd, a, factors);
                    largest = simd.max_f32s(largest, size);
                    let fast = simd.reduce_max_f32s(size) <= FAST_LIMIT;
                    let pairs = a.as_chunks::<PAIR>().0;
                    for (a, out) in pairs.iter().zip(out[2 * b * p..].chunks_mut(2 * PAIR * lanes))
                    {
                        features.store(*a, out, fast);
                    }
                }
            }
        }
        Ok(Checked { largest_projection: simd.reduce_max_f32s(largest), ..seen })
    }
}

/// Element j of one lane, for all j, each vector in lane order.
#[inline(always)]
fn gather(work: &[f32], lane: usize, order: &[usize], a: &mut [f32]) {
    let lanes = order.len();
    let vectors = work.chunks_exact(lanes * lanes).zip(a.chunks_exact_mut(lanes));
    for (work, a) in vectors {
        for (direction, place) in work[lane..].iter().step_by(lanes).zip(order) {
            a[*place] = *direction;
        }
    }
}

/// Computes a_j = c_j w_j and returns the largest |a_j|.
#[inline(always)]
fn scale_rows<S: Simd>(simd: S, a: &mut [S::f32s], factors: &[S::f32s]) -> S::f32s {
    let mut size = simd.splat_f32s(0.0);
    for (a, c) in a.iter_mut().zip(factors) {
        *a = simd.mul_f32s(*a, *c);
        size = simd.max_f32s(size, simd.abs_f32s(*a));
    }
    size
}

/// Computes H S_3 H S_2 H S_1 x.
#[inline(always)]
fn project<S: Simd>(simd: S, x: &[S::f32s], signs: &[f32], v: &mut [S::f32s]) {
    v.copy_from_slice(x);
    for signs in signs.chunks_exact(v.len()) {
        let first = v.as_chunks_mut::<RADIX>().0.iter_mut().zip(signs.as_chunks::<RADIX>().0);
        for (v, signs) in first {
            for (v, sign) in v.iter_mut().zip(signs) {
                *v = simd.mul_f32s(*v, simd.splat_f32s(*sign));
            }
            butterflies(simd, v);
        }
        let mut h = RADIX;
        while h < v.len() {
            h *= match v.len() / h {
                2 => stages::<S, 2>(simd, v, h),
                4 => stages::<S, 4>(simd, v, h),
                _ => stages::<S, RADIX>(simd, v, h),
            };
        }
    }
}

/// Computes the stages h, 2h, .. below R h; returns R.
#[inline(always)]
fn stages<S: Simd, const R: usize>(simd: S, v: &mut [S::f32s], h: usize) -> usize {
    for block in v.chunks_exact_mut(R * h) {
        let mut rest = block;
        let mut columns: [&mut [S::f32s]; R] = std::array::from_fn(|_| {
            let (column, after) = std::mem::take(&mut rest).split_at_mut(h);
            rest = after;
            column
        });
        for i in 0..h {
            let mut x: [S::f32s; R] = std::array::from_fn(|r| columns[r][i]);
            butterflies(simd, &mut x);
            for (column, x) in columns.iter_mut().zip(x) {
                column[i] = x;
            }
        }
    }
    R
}

/// Computes all stages of a transform of size R, in registers.
#[inline(always)]
fn butterflies<S: Simd, const R: usize>(simd: S, x: &mut [S::f32s; R]) {
    let mut h = 1;
    while h < R {
        for k in (0..R).filter(|k| k & h == 0) {
            (x[k], x[k + h]) = (simd.add_f32s(x[k], x[k + h]), simd.sub_f32s(x[k], x[k + h]));
        }
        h *= 2;
    }
}
