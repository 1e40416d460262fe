//! Pooling of the rows of a sequence into one sample.
//!
//! | pooling | y                                                                          |
//! |---------|----------------------------------------------------------------------------|
//! | first   | x_1                                                                        |
//! | last    | x_T                                                                        |
//! | mean    | sum_t x_t / T                                                              |
//! | ends    | first half of x_T, second half of x_1: the final states of both directions |

use crate::{Backward, Error, Float, Forward, Layer, Result, Shape};

/// Pooling of the rows of a sequence into one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequencePool {
    /// The first row.
    First,
    /// The last row.
    Last,
    /// The mean of all rows.
    Mean,
    /// The first half of the last row and the second half of the first row: the final states of a bidirectional recurrent
    /// layer.
    Ends,
}

impl SequencePool {
    /// The columns that come from the last row, and those that come from the first.
    fn sources(self, width: usize) -> [(std::ops::Range<usize>, bool); 2] {
        let half = match self {
            Self::Ends => width / 2,
            Self::First => 0,
            Self::Last | Self::Mean => width,
        };
        [(0..half, true), (half..width, false)]
    }
}

impl<T: Float> Layer<T> for SequencePool {
    fn output(&self, input: Shape) -> Result<Shape> {
        let width = input.values();
        if input != Shape::row(width) || (*self == Self::Ends && width % 2 == 1) {
            let what = format!("expects rows of both directions of a sequence, got {input}");
            return Err(Error::Shape { layer: "pooling".into(), what });
        }
        Ok(input)
    }

    fn pools(&self) -> bool {
        true
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let Forward { sequences, input, x, y, .. } = pass;
        let d = input.values();
        for (rows, y) in sequences.ranges().zip(y.chunks_exact_mut(d)) {
            if *self == Self::Mean {
                y.fill(T::ZERO);
                for row in x[rows.start * d..rows.end * d].chunks_exact(d) {
                    y.iter_mut().zip(row).for_each(|(y, &x)| *y += x);
                }
                let scale = T::of(1.0 / rows.len() as f64);
                y.iter_mut().for_each(|y| *y *= scale);
            } else {
                for (columns, is_last) in self.sources(d) {
                    let row = if is_last { rows.end - 1 } else { rows.start };
                    y[columns.clone()].copy_from_slice(&x[row * d..][..d][columns]);
                }
            }
        }
    }

    fn backward(&self, pass: Backward<'_, T>) {
        let Backward { sequences, input, dy, dx: Some(dx), .. } = pass else { return };
        let d = input.values();
        for (rows, dy) in sequences.ranges().zip(dy.chunks_exact(d)) {
            let dx = &mut dx[rows.start * d..rows.end * d];
            if *self == Self::Mean {
                let scale = T::of(1.0 / rows.len() as f64);
                for row in dx.chunks_exact_mut(d) {
                    row.iter_mut().zip(dy).for_each(|(dx, &dy)| *dx = dy * scale);
                }
            } else {
                dx.fill(T::ZERO);
                for (columns, is_last) in self.sources(d) {
                    let row = if is_last { rows.len() - 1 } else { 0 };
                    dx[row * d..][..d][columns.clone()].copy_from_slice(&dy[columns]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;
    use crate::testing::Trial;

    const ALL: [SequencePool; 4] =
        [SequencePool::First, SequencePool::Last, SequencePool::Mean, SequencePool::Ends];

    #[test]
    fn gradients_are_right() {
        for layer in ALL {
            for d in [2, 6] {
                let lengths = [1, 3, 2, 1, 5];
                Trial::of_sequences(&layer, Shape::row(d), &lengths, Mode::Training).check();
            }
        }
    }

    #[test]
    fn what_is_taken() {
        let y = ALL.map(|layer| {
            let mut trial = Trial::of_sequences(&layer, Shape::row(2), &[3, 1], Mode::Frozen);
            trial.x = vec![1.0, 2.0, 3.0, 5.0, 8.0, 11.0, 7.0, 9.0];
            trial.forward().0
        });
        assert_eq!(y[0], [1.0, 2.0, 7.0, 9.0]);
        assert_eq!(y[1], [8.0, 11.0, 7.0, 9.0]);
        assert_eq!(y[2], [4.0, 6.0, 7.0, 9.0]);
        assert_eq!(y[3], [8.0, 2.0, 7.0, 9.0]);
    }

    #[test]
    fn odd_rows_have_no_ends() {
        let error = Layer::<f32>::output(&SequencePool::Ends, Shape::row(3)).unwrap_err();
        assert!(error.to_string().contains("both directions of a sequence, got 3"), "{error}");
    }
}
