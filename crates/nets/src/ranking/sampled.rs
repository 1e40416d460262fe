//! Sampled softmax: the target against k negatives that all positions share.
//!
//! l = - z_y + ln(exp z_y + sum_j exp z_j),  z_i = s_i - ln(k q_i)
//!
//! where q_i is the probability that one draw is i: subtracting the log of the expected count makes the expected gradient
//! approach that of the full softmax as k grows (Bengio & Senecal 2008; Jean et al. 2015). A negative that equals the
//! target of a position is excluded there.

use rayon::prelude::*;

use super::Positions;
use crate::float::wide;
use crate::product::{Matrix, divided};
use crate::{Addend, Float};

/// Buffers of the sampled softmax, reused between batches.
#[derive(Clone, Debug, Default)]
pub struct SampledSoftmax<T> {
    /// Rows of the negatives, k x dim.
    drawn: Vec<T>,
    /// Scores, then dL/dz, n x k.
    scores: Vec<T>,
    /// Gradient dL/dE of the negatives, k x dim: the second source of the addends.
    pub gradient: Vec<T>,
}

/// Positions that one thread processes at once.
const ROWS: usize = 64;

/// Computes the mean loss of the positions and writes dL/dh and addends of dL/dE.
///
/// Addends of the targets have the source `source`, the list that holds h; those of the negatives have the source
/// `source` + 1, which is [`SampledSoftmax::gradient`].
///
/// `correction` is ln(k q_i) for a row i of the table.
///
/// # Panics
/// If there are no positions or no negatives.
pub fn sampled_softmax<T: Float>(
    work: &mut SampledSoftmax<T>,
    positions: Positions<'_, T>,
    negatives: &[u32],
    correction: impl Fn(u32) -> f64 + Sync,
    dhidden: &mut [T],
    addends: &mut Vec<Addend<T>>,
    source: u32,
) -> f64 {
    let (n, k, dim) = (positions.len(), negatives.len(), positions.dim);
    assert!(n > 0 && k > 0, "positions and negatives");
    let SampledSoftmax { drawn, scores, gradient } = work;
    drawn.clear();
    negatives.iter().for_each(|&id| drawn.extend_from_slice(positions.row(id)));
    scores.resize(n * k, T::ZERO);
    gradient.resize(k * dim, T::ZERO);
    let hidden = Matrix::rows(positions.hidden, n, dim);
    let rows = Matrix::rows(drawn, k, dim);
    divided(&mut scores[..n * k], false, T::ONE, hidden, rows.transposed());

    let shifts: Vec<T> = negatives.iter().map(|&id| T::of(-correction(id))).collect();
    let share = 1.0 / n as f64;
    addends.resize(n + k, Addend::default());
    let (of_targets, of_negatives) = addends.split_at_mut(n);
    let blocks = scores.par_chunks_mut(ROWS * k).zip(of_targets.par_chunks_mut(ROWS)).enumerate();
    let (shifts, correction) = (&shifts, &correction);
    let losses: Vec<f64> = blocks
        .map(|(block, (scores, addends))| {
            wide(
                #[inline(always)]
                move || {
                    let mut sum = 0.0;
                    for (i, (z, a)) in scores.chunks_exact_mut(k).zip(addends).enumerate() {
                        let i = block * ROWS + i;
                        let y = positions.targets[i];
                        let h = &positions.hidden[i * dim..][..dim];
                        let z_y = super::dot(h, positions.row(y)) - T::of(correction(y));
                        z.iter_mut().zip(shifts).for_each(|(z, &shift)| *z += shift);
                        // exp of this is negligible beside that of the target.
                        let none = z_y - T::of(1e4);
                        for (z, &id) in z.iter_mut().zip(negatives) {
                            *z = if id == y { none } else { *z };
                        }
                        let top = z.iter().fold(z_y, |top, &z| top.larger(z));
                        let own = (z_y - top).exp();
                        let mut total = own.wide();
                        for z in z.iter_mut() {
                            *z = (*z - top).exp();
                            total += z.wide();
                        }
                        sum += total.ln() - (z_y - top).wide();
                        let scale = T::of(share / total);
                        z.iter_mut().for_each(|z| *z *= scale);
                        let weight = own * scale - T::of(share);
                        *a = Addend { row: y, source, from: i as u32, weight };
                    }
                    sum
                },
            )
        })
        .collect();

    let g = Matrix::rows(scores, n, k);
    let dhidden = &mut dhidden[..n * dim];
    divided(dhidden, false, T::ONE, g, rows);
    dhidden.par_chunks_mut(ROWS * dim).zip(of_targets.par_chunks(ROWS)).for_each(
        |(dh, addends)| {
            for (dh, a) in dh.chunks_exact_mut(dim).zip(addends) {
                let e = positions.row(a.row);
                dh.iter_mut().zip(e).for_each(|(d, &e)| *d += a.weight * e);
            }
        },
    );
    divided(&mut gradient[..k * dim], false, T::ONE, g.transposed(), hidden);
    for (j, (a, &row)) in of_negatives.iter_mut().zip(negatives).enumerate() {
        *a = Addend { row, source: source + 1, from: j as u32, weight: T::ONE };
    }
    losses.iter().sum::<f64>() * share
}
