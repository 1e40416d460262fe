//! Ranking losses: a row h represents the history, the rows E_i of a table the candidates for the next item, and
//! s_i = h . E_i should be large for the target y.
//!
//! One file per family:
//! - [`Pairwise`]: the target against its own negatives (binary cross entropy, gBCE, BPR);
//! - [`sampled_softmax`]: the target against negatives shared by the batch, corrected for their sampling probability;
//! - [`full_softmax`]: the target against every row of the table, in blocks.
//!
//! Each returns the mean loss of the positions, dL/dh, and dL/dE as addends of a row-sparse gradient or, where every row
//! is touched, as a dense one.

mod full;
mod pairwise;
mod sampled;
#[cfg(test)]
mod tests;

pub use full::{FullSoftmax, full_softmax, full_softmax_bytes};
pub use pairwise::{Pairwise, gbce_beta};
pub use sampled::{SampledSoftmax, sampled_softmax};

use crate::Float;

/// Positions with a known target.
#[derive(Clone, Copy, Debug)]
pub struct Positions<'a, T> {
    /// Embedding dimension.
    pub dim: usize,
    /// Hidden rows h, n x dim.
    pub hidden: &'a [T],
    /// Embedding table E, rows x dim.
    pub table: &'a [T],
    /// Targets y, n rows of E.
    pub targets: &'a [u32],
}

impl<'a, T: Float> Positions<'a, T> {
    /// Returns the number of positions.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Returns whether there are no positions.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    fn row(&self, id: u32) -> &'a [T] {
        &self.table[id as usize * self.dim..][..self.dim]
    }

    fn rows(&self) -> usize {
        self.table.len() / self.dim
    }
}

/// a . b in eight interleaved sums.
#[inline(always)]
fn dot<T: Float>(a: &[T], b: &[T]) -> T {
    let (eights, rest) = a.as_chunks::<8>();
    let (others, last) = b[..a.len()].as_chunks::<8>();
    let mut sums = [T::ZERO; 8];
    for (a, b) in eights.iter().zip(others) {
        for l in 0..8 {
            sums[l] += a[l] * b[l];
        }
    }
    let [a, b, c, d, e, f, g, h] = sums;
    let whole = ((a + b) + (c + d)) + ((e + f) + (g + h));
    rest.iter().zip(last).fold(whole, |sum, (&x, &y)| sum + x * y)
}
