//! Flattens a grid to a row.
//!
//! y[c P + p] = x[p C + c] for position p of P and channel c of C: PyTorch's order (channels, height, width), so that the
//! weights of a following dense layer match PyTorch's. dx[p C + c] = dy[c P + p].

use crate::{Backward, Float, Forward, Layer, Result, Shape};

/// Layer that flattens a grid to a row, in PyTorch's order.
#[derive(Clone, Debug)]
pub struct Flatten;

/// Rows and columns of a block that stays in the L1 cache while it is transposed.
const BLOCK: usize = 32;

/// Transposes rows x columns to columns x rows for each sample.
fn transpose<T: Float>(from: &[T], to: &mut [T], rows: usize, columns: usize) {
    if rows == 1 || columns == 1 {
        return to.copy_from_slice(from);
    }
    let samples = from.chunks_exact(rows * columns);
    for (from, to) in samples.zip(to.chunks_exact_mut(rows * columns)) {
        for first in (0..columns).step_by(BLOCK) {
            let last = (first + BLOCK).min(columns);
            for start in (0..rows).step_by(BLOCK) {
                let block = &from[start * columns..(start + BLOCK).min(rows) * columns];
                for column in first..last {
                    let values = block[column..].iter().step_by(columns);
                    to[column * rows + start..].iter_mut().zip(values).for_each(|(to, x)| *to = *x);
                }
            }
        }
    }
}

impl<T: Float> Layer<T> for Flatten {
    fn output(&self, input: Shape) -> Result<Shape> {
        Ok(Shape::row(input.values()))
    }

    fn forward(&self, pass: Forward<'_, T>) {
        transpose(pass.x, pass.y, pass.input.positions(), pass.input.channels);
    }

    fn backward(&self, pass: Backward<'_, T>) {
        let Some(dx) = pass.dx else { return };
        transpose(pass.dy, dx, pass.input.channels, pass.input.positions());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;
    use crate::testing::Trial;

    #[test]
    fn gradients_are_right() {
        for input in [Shape::image(3, 2, 4), Shape::row(5), Shape::image(3, 3, 1)] {
            for mode in [Mode::Training, Mode::Frozen] {
                Trial::new(&Flatten, input, 3, mode).check();
            }
        }
    }

    /// More than one block in both directions.
    #[test]
    fn channels_come_first() {
        for input in [Shape::image(7, 9, 70), Shape::image(2, 2, 3), Shape::image(1, 40, 33)] {
            let trial = Trial::new(&Flatten, input, 2, Mode::Frozen);
            let (y, _) = trial.forward();
            let (positions, channels) = (input.positions(), input.channels);
            for (i, x) in trial.x.iter().enumerate() {
                let (sample, p, c) = (i / input.values(), i / channels % positions, i % channels);
                assert_eq!(y[sample * input.values() + c * positions + p], *x);
            }
        }
    }
}
