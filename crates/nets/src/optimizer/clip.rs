//! Gradient clipping by norm (Pascanu, Mikolov & Bengio 2013, algorithm 1): g <- g min(1, limit / (|g| + 1e-6)), |g| over
//! all trained parameters, as in `torch.nn.utils.clip_grad_norm_`.

use std::ops::Range;

use rayon::prelude::*;

use super::BLOCK;
use crate::Float;
use crate::float::wide;

/// Scales the gradient inside `trained` to a norm of at most `limit` and returns its norm before.
///
/// ```
/// let mut gradient = [3.0f64, 4.0];
/// assert_eq!(veridical_nets::clip(&mut gradient, &[0..2], 1.0), 5.0);
/// assert!((gradient[0] - 0.6).abs() < 1e-6 && (gradient[1] - 0.8).abs() < 1e-6);
/// ```
pub fn clip<T: Float>(grads: &mut [T], trained: &[Range<usize>], limit: f64) -> f64 {
    let squares = |range: &Range<usize>| -> Vec<f64> {
        grads[range.clone()].par_chunks(BLOCK).map(sum_of_squares).collect()
    };
    // Blocks are added in order, on any threads.
    let norm = trained.iter().flat_map(squares).sum::<f64>().sqrt();
    let factor = limit / (norm + 1e-6);
    if factor < 1.0 {
        let factor = T::of(factor);
        for range in trained {
            grads[range.clone()]
                .par_chunks_mut(BLOCK)
                .for_each(|block| block.iter_mut().for_each(|g| *g *= factor));
        }
    }
    norm
}

/// The sum of squares, in 16 interleaved sums.
fn sum_of_squares<T: Float>(values: &[T]) -> f64 {
    wide(
        #[inline(always)]
        || {
            let mut sums = [0.0; 16];
            let (groups, rest) = values.as_chunks::<16>();
            for group in groups {
                for (sum, x) in sums.iter_mut().zip(group) {
                    *sum += x.wide() * x.wide();
                }
            }
            sums.iter().sum::<f64>() + rest.iter().map(|x| x.wide() * x.wide()).sum::<f64>()
        },
    )
}
