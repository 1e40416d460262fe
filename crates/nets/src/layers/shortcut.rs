//! Parameter-free shortcut of CIFAR ResNets (He et al. 2015, section 4.2, option A).
//!
//! y[i, j] = (0, .., 0, x[s i, s j], 0, .., 0)
//!
//! Every s-th position of the grid; the additional channels are zeros, half of them (rounded down) before and the
//! rest after. With s = 2 and twice the channels it is `F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, out // 4, out // 4))`.
//!
//! dx[s i, s j] = the middle of dy[i, j], and 0 elsewhere.

use crate::{Backward, Error, Float, Forward, Layer, Result, Shape};

/// Shortcut without parameters: subsamples positions and pads channels with zeros.
#[derive(Clone, Debug)]
pub struct PadShortcut {
    stride: usize,
    channels_in: usize,
    channels_out: usize,
}

impl PadShortcut {
    /// Creates a shortcut that keeps every `stride`-th position and pads with zeros to `channels_out` channels.
    pub fn new(stride: usize, channels_in: usize, channels_out: usize) -> Self {
        Self { stride, channels_in, channels_out }
    }

    /// Number of zeros before the values of a position.
    fn before(&self) -> usize {
        (self.channels_out - self.channels_in) / 2
    }

    /// Offset in x of the first value of each position of y.
    fn places(&self, n: usize, input: Shape, output: Shape) -> impl Iterator<Item = usize> {
        let (s, c) = (self.stride, self.channels_in);
        (0..n * output.height).flat_map(move |row| {
            let (sample, i) = (row / output.height, row % output.height);
            let first = sample * input.height + s * i;
            (0..output.width).map(move |j| (first * input.width + s * j) * c)
        })
    }
}

impl<T: Float> Layer<T> for PadShortcut {
    fn output(&self, input: Shape) -> Result<Shape> {
        let (s, c, channels) = (self.stride, self.channels_in, self.channels_out);
        let wrong = |what: String| Err(Error::Shape { layer: "padding shortcut".into(), what });
        if s == 0 || c == 0 || channels < c {
            return wrong(format!("cannot pad {c} channels to {channels} with stride {s}"));
        }
        if input.channels != c {
            return wrong(format!("expects samples of {c} channels, got {input}"));
        }
        Ok(Shape { height: input.height.div_ceil(s), width: input.width.div_ceil(s), channels })
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let Forward { n, input, output, x, y, .. } = pass;
        let (before, c) = (self.before(), self.channels_in);
        let places = self.places(n, input, output);
        for (y, at) in y.chunks_exact_mut(self.channels_out).zip(places) {
            y[..before].fill(T::ZERO);
            y[before..before + c].copy_from_slice(&x[at..at + c]);
            y[before + c..].fill(T::ZERO);
        }
    }

    fn backward(&self, pass: Backward<'_, T>) {
        let Backward { n, input, output, dy, dx: Some(dx), .. } = pass else { return };
        let (before, c) = (self.before(), self.channels_in);
        dx.fill(T::ZERO);
        let places = self.places(n, input, output);
        for (dy, at) in dy.chunks_exact(self.channels_out).zip(places) {
            dx[at..at + c].copy_from_slice(&dy[before..before + c]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;
    use crate::testing::Trial;

    #[test]
    fn gradients_are_right() {
        for (layer, input) in [
            (PadShortcut::new(2, 2, 4), Shape::image(4, 6, 2)),
            (PadShortcut::new(2, 3, 6), Shape::image(5, 3, 3)),
            (PadShortcut::new(3, 2, 7), Shape::image(7, 1, 2)),
            (PadShortcut::new(1, 4, 4), Shape::image(2, 2, 4)),
        ] {
            for mode in [Mode::Training, Mode::Frozen] {
                Trial::new(&layer, input, 3, mode).check();
            }
        }
    }

    #[test]
    fn every_second_position_between_zeros() {
        let layer = PadShortcut::new(2, 2, 5);
        let mut trial = Trial::new(&layer, Shape::image(3, 2, 2), 2, Mode::Frozen);
        trial.x = (1..=24).map(f64::from).collect();
        assert_eq!(trial.output(), Shape::image(2, 1, 5));
        let rows = [[1., 2.], [9., 10.], [13., 14.], [21., 22.]];
        let want: Vec<f64> = rows.iter().flat_map(|[a, b]| [0., *a, *b, 0., 0.]).collect();
        assert_eq!(trial.forward().0, want);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = |layer: PadShortcut| {
            Layer::<f32>::output(&layer, Shape::image(4, 4, 2)).unwrap_err().to_string()
        };
        assert!(refused(PadShortcut::new(2, 4, 8)).contains("4 channels, got 4x4x2"));
        assert!(refused(PadShortcut::new(2, 2, 1)).contains("cannot pad 2 channels to 1"));
        assert!(refused(PadShortcut::new(0, 2, 4)).contains("stride 0"));
    }
}
