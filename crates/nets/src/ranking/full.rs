//! Full softmax: the target against every row of the table.
//!
//! l = - s_y + ln sum_i exp s_i,  dl/ds = p - 1[y],  p = softmax(s),  dh = E'(p - 1[y]),  dE = (p - 1[y]) h'
//!
//! Positions are processed in blocks whose scores fit in the cache. For a small table, each of a few groups of blocks has its
//! own sum of dE, and these are added in order at the end: three products in total. For a large table that would take too much
//! memory: its scores are computed a second time, in strips of rows, each with its own part of dE: four products. Memory is
//! bounded for any size, and the bytes depend on the sizes alone, not on the threads.

use rayon::prelude::*;

use super::Positions;
use crate::Float;
use crate::float::wide;
use crate::product::{Matrix, whole};

/// Scores per block of positions.
const BLOCK: usize = 1 << 19;
/// Maximum number of positions per block.
const MOST: usize = 128;
/// Number of groups of blocks, each with a sum of dE.
const GROUPS: usize = 8;
/// Maximum number of values of a table for which each group has a copy.
const SMALL: usize = 1 << 22;
/// Rows per strip of a large table.
const STRIP: usize = 1 << 10;

/// Buffers of the full softmax, reused between batches.
#[derive(Clone, Debug, Default)]
pub struct FullSoftmax<T> {
    groups: Vec<Group<T>>,
    /// ln sum exp s of each position.
    totals: Vec<T>,
}

#[derive(Clone, Debug, Default)]
struct Group<T> {
    scores: Vec<T>,
    gradient: Vec<T>,
}

/// Returns the bytes that [`FullSoftmax`] has for a table of so many rows in f32.
pub const fn full_softmax_bytes(rows: u64, dim: u64) -> u64 {
    let values = rows.saturating_mul(dim);
    let copies = if values <= SMALL as u64 { values } else { 0 };
    let scores = if rows < BLOCK as u64 { BLOCK as u64 } else { rows };
    copies.saturating_add(scores).saturating_mul(4 * GROUPS as u64)
}

/// Computes the mean loss of the positions and writes dL/dh and dL/dE.
///
/// # Panics
/// If there are no positions, or a list is too short.
pub fn full_softmax<T: Float>(
    work: &mut FullSoftmax<T>,
    positions: Positions<'_, T>,
    dhidden: &mut [T],
    dtable: &mut [T],
) -> f64 {
    let (n, dim, rows) = (positions.len(), positions.dim, positions.rows());
    assert!(n > 0, "positions");
    let size = (BLOCK / rows).clamp(1, MOST);
    let per_group = n.div_ceil(size).div_ceil(GROUPS) * size;
    let is_small = rows * dim <= SMALL;
    let FullSoftmax { groups, totals } = work;
    groups.resize_with(n.div_ceil(per_group), Group::default);
    totals.resize(n, T::ZERO);
    let parts = dhidden[..n * dim].par_chunks_mut(per_group * dim);
    let parts = parts.zip(totals.par_chunks_mut(per_group)).zip(groups.par_iter_mut());
    let losses: Vec<f64> = parts
        .enumerate()
        .map(|(g, ((dhidden, totals), group))| {
            group.scores.resize(size * rows, T::ZERO);
            if is_small {
                group.gradient.resize(rows * dim, T::ZERO);
                group.gradient.fill(T::ZERO);
            }
            let mut sum = 0.0;
            let blocks = dhidden.chunks_mut(size * dim).zip(totals.chunks_mut(size));
            for (b, (dhidden, totals)) in blocks.enumerate() {
                let first = g * per_group + b * size;
                let block = part(&positions, first..first + totals.len());
                sum += group.block(&block, n, dhidden, totals, is_small);
            }
            sum
        })
        .collect();
    let dtable = &mut dtable[..rows * dim];
    match is_small {
        true => add_up(groups, dtable),
        false => strips(&positions, size, totals, dtable),
    }
    losses.iter().sum::<f64>() / n as f64
}

fn part<'a, T>(all: &Positions<'a, T>, range: std::ops::Range<usize>) -> Positions<'a, T> {
    Positions {
        hidden: &all.hidden[range.start * all.dim..range.end * all.dim],
        targets: &all.targets[range],
        ..*all
    }
}

impl<T: Float> Group<T> {
    /// The summed loss of a block of n positions in total; writes dh, ln sum exp s and, if requested, its part of dE.
    fn block(
        &mut self,
        block: &Positions<'_, T>,
        n: usize,
        dhidden: &mut [T],
        totals: &mut [T],
        has_gradient: bool,
    ) -> f64 {
        let (len, dim, rows) = (block.len(), block.dim, block.rows());
        let h = Matrix::rows(block.hidden, len, dim);
        let e = Matrix::rows(block.table, rows, dim);
        let scores = &mut self.scores[..len * rows];
        whole(scores, false, T::ONE, h, e.transposed());
        let share = 1.0 / n as f64;
        let mut sum = 0.0;
        for ((s, &y), total) in scores.chunks_exact_mut(rows).zip(block.targets).zip(totals) {
            let s_y = s[y as usize];
            *total = softmax(s, share);
            sum += (*total - s_y).wide();
            s[y as usize] -= T::of(share);
        }
        let p = Matrix::rows(scores, len, rows);
        whole(dhidden, false, T::ONE, p, e);
        if has_gradient {
            whole(&mut self.gradient, true, T::ONE, p.transposed(), h);
        }
        sum
    }
}

/// Replaces s by `share` softmax(s) and returns ln sum exp s.
fn softmax<T: Float>(s: &mut [T], share: f64) -> T {
    wide(
        #[inline(always)]
        move || {
            let top = largest(s);
            let mut sums = [T::ZERO; 16];
            let (lanes, rest) = s.as_chunks_mut::<16>();
            for lane in lanes.iter_mut() {
                for (s, sum) in lane.iter_mut().zip(&mut sums) {
                    *s = (*s - top).exp();
                    *sum += *s;
                }
            }
            let mut total = sums.iter().fold(0.0, |total, sum| total + sum.wide());
            for s in rest.iter_mut() {
                *s = (*s - top).exp();
                total += s.wide();
            }
            let scale = T::of(share / total);
            s.iter_mut().for_each(|s| *s *= scale);
            T::of(total.ln()) + top
        },
    )
}

#[inline(always)]
fn largest<T: Float>(s: &[T]) -> T {
    let mut tops = [s[0]; 16];
    let (lanes, rest) = s.as_chunks::<16>();
    for lane in lanes {
        for (top, &s) in tops.iter_mut().zip(lane) {
            // NaN is kept, so that it is not hidden by a sum.
            *top = if s > *top { s } else { *top };
        }
    }
    tops.iter().chain(rest).fold(s[0], |top, &s| top.larger(s))
}

/// Adds the sums of the groups, in order.
fn add_up<T: Float>(groups: &[Group<T>], dtable: &mut [T]) {
    const PIECE: usize = 1 << 13;
    dtable.par_chunks_mut(PIECE).enumerate().for_each(|(b, sum)| {
        wide(
            #[inline(always)]
            move || {
                let at = b * PIECE;
                sum.copy_from_slice(&groups[0].gradient[at..][..sum.len()]);
                for group in &groups[1..] {
                    let part = &group.gradient[at..][..sum.len()];
                    sum.iter_mut().zip(part).for_each(|(s, &g)| *s += g);
                }
            },
        );
    });
}

/// dE of a large table: recomputes the scores, and p from the totals.
pub(super) fn strips<T: Float>(
    positions: &Positions<'_, T>,
    size: usize,
    totals: &[T],
    dtable: &mut [T],
) {
    let (n, dim) = (positions.len(), positions.dim);
    let share = T::of(1.0 / n as f64);
    dtable.par_chunks_mut(STRIP * dim).enumerate().for_each_init(
        Vec::new,
        |scratch, (strip, de)| {
            let (first, rows) = (strip * STRIP, de.len() / dim);
            let e = Matrix::rows(&positions.table[first * dim..], rows, dim);
            scratch.resize(size * rows, T::ZERO);
            for at in (0..n).step_by(size) {
                let block = part(positions, at..(at + size).min(n));
                let h = Matrix::rows(block.hidden, block.len(), dim);
                let p = &mut scratch[..block.len() * rows];
                whole(p, false, T::ONE, h, e.transposed());
                for ((p, &total), &y) in
                    p.chunks_exact_mut(rows).zip(&totals[at..]).zip(block.targets)
                {
                    wide(
                        #[inline(always)]
                        || p.iter_mut().for_each(|s| *s = share * (*s - total).exp()),
                    );
                    if let Some(own) = (y as usize).checked_sub(first).filter(|own| *own < rows) {
                        p[own] -= share;
                    }
                }
                whole(de, at > 0, T::ONE, Matrix::rows(p, block.len(), rows).transposed(), h);
            }
        },
    );
}
