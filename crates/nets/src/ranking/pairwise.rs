//! Pairwise losses: the target against its own k negatives.
//!
//! Binary  l = - beta ln sigma(s_y) - sum_j ln(1 - sigma(s_j))
//! Bpr     l = - 1/k sum_j ln sigma(s_y - s_j)                       (Rendle et al. 2009)
//!
//! beta = 1 is the loss of SASRec (Kang & McAuley 2018, eq. 7). With fewer negatives than items it is overconfident; gBCE
//! (Petrov & Macdonald 2023, eq. 8 and 11) takes beta = a (t (1 - 1/a) + 1/a) with the share a = k / (items - 1) of items drawn
//! and a calibration t from 0 (none: beta = 1) to 1 (full: beta = a).

use rayon::prelude::*;

use super::{Positions, dot};
use crate::elementary::{sigmoid, softplus};
use crate::float::wide;
use crate::{Addend, Float};

/// A pairwise ranking loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pairwise {
    /// Binary cross entropy of the target and each negative.
    Binary {
        /// Weight of the target.
        beta: f64,
    },
    /// Bayesian personalized ranking: the target should score higher than each negative.
    Bpr,
}

/// Computes beta of gBCE for `negatives` of `items` and a calibration t.
///
/// ```
/// use veridical_nets::ranking::gbce_beta;
///
/// assert_eq!(gbce_beta(10, 101, 0.0), 1.0); // no calibration
/// assert!((gbce_beta(10, 101, 1.0) - 0.1).abs() < 1e-12); // full calibration: the share of items drawn
/// ```
pub fn gbce_beta(negatives: usize, items: usize, calibration: f64) -> f64 {
    let share = negatives as f64 / (items.saturating_sub(1)).max(1) as f64;
    let share = share.min(1.0);
    share * (calibration * (1.0 - 1.0 / share) + 1.0 / share)
}

/// Positions that one thread processes at once.
const ROWS: usize = 256;

impl Pairwise {
    /// Computes the mean loss of the positions, with k negatives each.
    ///
    /// Writes dL/dh and one addend of dL/dE for each target and negative; their source is the list `source` that holds h.
    ///
    /// # Panics
    /// If the positions do not all have the same number of negatives, at least one.
    pub fn evaluate<T: Float>(
        self,
        positions: Positions<'_, T>,
        negatives: &[u32],
        dhidden: &mut [T],
        addends: &mut Vec<Addend<T>>,
        source: u32,
    ) -> f64 {
        let (n, dim) = (positions.len(), positions.dim);
        let k = negatives.len() / n.max(1);
        assert!(n > 0 && k > 0 && negatives.len() == n * k, "negatives for each position");
        addends.resize(n * (k + 1), Addend::default());
        let share = T::of(1.0 / n as f64);
        let blocks = dhidden[..n * dim]
            .par_chunks_mut(ROWS * dim)
            .zip(addends.par_chunks_mut(ROWS * (k + 1)))
            .enumerate();
        let losses: Vec<f64> = blocks
            .map(|(block, (dhidden, addends))| {
                wide(
                    #[inline(always)]
                    move || {
                        let mut sum = 0.0;
                        let rows =
                            dhidden.chunks_exact_mut(dim).zip(addends.chunks_exact_mut(k + 1));
                        for (i, (dh, addends)) in rows.enumerate() {
                            let i = block * ROWS + i;
                            let h = &positions.hidden[i * dim..][..dim];
                            let ids = std::iter::once(positions.targets[i])
                                .chain(negatives[i * k..][..k].iter().copied());
                            for (a, row) in addends.iter_mut().zip(ids) {
                                let weight = dot(h, positions.row(row));
                                *a = Addend { row, source, from: i as u32, weight };
                            }
                            sum += self.gradients(addends).wide();
                            dh.fill(T::ZERO);
                            for a in addends {
                                a.weight *= share;
                                let e = positions.row(a.row);
                                dh.iter_mut().zip(e).for_each(|(d, &e)| *d += a.weight * e);
                            }
                        }
                        sum
                    },
                )
            })
            .collect();
        losses.iter().sum::<f64>() / n as f64
    }

    /// Returns l of one position; scores, which are stored as weights, become dl/ds.
    #[inline(always)]
    fn gradients<T: Float>(self, addends: &mut [Addend<T>]) -> T {
        let [target, others @ ..] = addends else { return T::ZERO };
        let s = target.weight;
        let mut l = T::ZERO;
        match self {
            Self::Binary { beta } => {
                let beta = T::of(beta);
                l += beta * softplus(-s);
                target.weight = -beta * sigmoid(-s);
                for other in others {
                    l += softplus(other.weight);
                    other.weight = sigmoid(other.weight);
                }
            }
            Self::Bpr => {
                let share = T::of(1.0 / others.len() as f64);
                target.weight = T::ZERO;
                for other in others {
                    let gap = s - other.weight;
                    l += share * softplus(-gap);
                    other.weight = share * sigmoid(-gap);
                    target.weight -= other.weight;
                }
            }
        }
        l
    }
}
