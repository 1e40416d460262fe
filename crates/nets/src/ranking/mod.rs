//! Losses of rankings: a row h of numbers stands for what was seen, the rows E_i of a table for what may come next, and
//! s_i = h . E_i must be large for the target y.
//!
//! One file per family:
//! - [`Pairwise`]: the target against negatives of its own (binary cross entropy, gBCE, BPR);
//! - [`sampled_softmax`]: the target against negatives shared by the batch, corrected for how they were drawn;
//! - [`full_softmax`]: against every row of the table, by blocks.
//!
//! Each gives the mean loss of the positions, dL/dh, and dL/dE as addends of a row-sparse gradient or, where every row
//! is touched, as a whole.

mod full;
mod pairwise;
mod sampled;
#[cfg(test)]
mod tests;

pub use full::{FullSoftmax, full_softmax};
pub use pairwise::{Pairwise, gbce_beta};
pub use sampled::{SampledSoftmax, sampled_softmax};

use crate::Float;

/// Positions whose next row is known.
#[derive(Clone, Copy, Debug)]
pub struct Positions<'a, T> {
    /// Values of a row.
    pub dim: usize,
    /// h, n x dim.
    pub hidden: &'a [T],
    /// E, rows x dim.
    pub table: &'a [T],
    /// y, n rows of E.
    pub targets: &'a [u32],
}

impl<'a, T: Float> Positions<'a, T> {
    /// How many positions.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether there are none.
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
