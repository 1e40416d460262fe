//! Pooling: the maximum or mean of windows, or the mean of the whole grid, channel by channel.
//!
//! max      y = max over the window of x; dx = dy at the first maximum in row-major order, 0 elsewhere (PyTorch)
//! average  y = sum over the window of x / k^2; dx = sum of dy / k^2 over the windows that contain x
//! global   y = sum over all P positions of x / P; dx = dy / P
//!
//! Window (i, j) starts at (i s - p, j s - p). Positions outside the grid are never the maximum, and count as zeros in a
//! mean (PyTorch's `count_include_pad`). The padding is at most k/2, so every window contains a position of the grid. NaN
//! counts as larger than any number.

use crate::float::wide;
use crate::{Backward, Error, Float, Forward, Layer, Result, Shape};

/// Geometry of square windows.
#[derive(Clone, Copy, Debug)]
struct Windows {
    kernel: usize,
    stride: usize,
    padding: usize,
}

impl Windows {
    fn output(&self, layer: &str, input: Shape) -> Result<Shape> {
        let Self { kernel, stride, padding } = *self;
        let wrong = |what: String| Err(Error::Shape { layer: layer.into(), what });
        if kernel == 0 || stride == 0 || padding > kernel / 2 {
            return wrong(format!(
                "kernel {kernel}, stride {stride}, padding {padding}: kernel and stride must be at least 1 \
                 and the padding at most half of the kernel"
            ));
        }
        let (height, width) = (input.height + 2 * padding, input.width + 2 * padding);
        if height < kernel || width < kernel {
            return wrong(format!("windows of {kernel}x{kernel} do not fit into {input}"));
        }
        let count = |length: usize| (length - kernel) / stride + 1;
        Ok(Shape { height: count(height), width: count(width), channels: input.channels })
    }

    /// The positions along an axis of `length` that window `i` contains.
    #[inline(always)]
    fn along(&self, i: usize, length: usize) -> std::ops::Range<usize> {
        let start = i * self.stride;
        start.saturating_sub(self.padding)..(start + self.kernel - self.padding).min(length)
    }

    /// Visits the positions of all windows in order: the index of the window, whether the position is its first, and the
    /// index of the position, both counted over n samples.
    #[inline(always)]
    fn walk(
        &self,
        n: usize,
        input: Shape,
        output: Shape,
        mut visit: impl FnMut(usize, bool, usize),
    ) {
        let mut window = 0;
        for sample in 0..n {
            for i in 0..output.height {
                let rows = self.along(i, input.height);
                for j in 0..output.width {
                    let columns = self.along(j, input.width);
                    let mut first = true;
                    for row in rows.clone() {
                        let at = (sample * input.height + row) * input.width;
                        for column in columns.clone() {
                            visit(window, first, at + column);
                            first = false;
                        }
                    }
                    window += 1;
                }
            }
        }
    }
}

/// Row `i` of a matrix with rows of `c`.
#[inline(always)]
fn row<T>(values: &[T], i: usize, c: usize) -> &[T] {
    &values[i * c..][..c]
}

/// Row `i` of a matrix with rows of `c`.
#[inline(always)]
fn row_mut<T>(values: &mut [T], i: usize, c: usize) -> &mut [T] {
    &mut values[i * c..][..c]
}

#[inline(always)]
fn add<T: Float>(to: &mut [T], values: &[T]) {
    for (to, &x) in to.iter_mut().zip(values) {
        *to += x;
    }
}

/// Max pooling.
#[derive(Clone, Debug)]
pub struct MaxPool(Windows);

impl MaxPool {
    /// Creates max pooling with windows of `kernel` x `kernel`.
    pub fn new(kernel: usize, stride: usize, padding: usize) -> Self {
        Self(Windows { kernel, stride, padding })
    }

    /// Computes dx. `ADDS` is whether windows overlap: if not, every value of a window is written once.
    fn backward_windows<T: Float, const ADDS: bool>(&self, pass: Backward<'_, T>) {
        let Backward { n, input, output, x, y, dy, dx: Some(dx), scratch, .. } = pass else {
            return;
        };
        let (windows, c) = (self.0, input.channels);
        scratch.resize(c.max(scratch.len()), T::ZERO);
        let left = &mut scratch[..c];
        let held = output.positions() * windows.kernel * windows.kernel;
        if ADDS || held < input.positions() {
            dx.fill(T::ZERO);
        }
        wide(
            #[inline(always)]
            move || {
                windows.walk(
                    n,
                    input,
                    output,
                    #[inline(always)]
                    |window, first, at| {
                        if first {
                            left.copy_from_slice(row(dy, window, c));
                        }
                        let (dx, x, y) = (row_mut(dx, at, c), row(x, at, c), row(y, window, c));
                        give::<T, ADDS>(dx, left, x, y);
                    },
                );
            },
        );
    }
}

/// Channels that are always processed together, so that even a few of them vectorize.
const LANES: usize = 8;

#[inline(always)]
fn larger<T: Float>(old: T, x: T) -> T {
    let larger = if x > old { x } else { old };
    if x.is_number() { larger } else { x }
}

#[inline(always)]
fn keep_larger<T: Float>(best: &mut [T], values: &[T]) {
    let (most, rest) = best.as_chunks_mut::<LANES>();
    let (values, last) = values.as_chunks::<LANES>();
    for (best, x) in most.iter_mut().zip(values) {
        let old = *best;
        *best = std::array::from_fn(
            #[inline(always)]
            |k| larger(old[k], x[k]),
        );
    }
    rest.iter_mut().zip(last).for_each(|(best, &x)| *best = larger(*best, x));
}

/// Passes the remaining dy to the values that are the maximum, unless an earlier one received it; with `ADDS`, adds to the
/// gradients from other windows.
#[inline(always)]
fn give<T: Float, const ADDS: bool>(dx: &mut [T], left: &mut [T], x: &[T], y: &[T]) {
    let ((dx, dx_rest), (left, left_rest)) =
        (dx.as_chunks_mut::<LANES>(), left.as_chunks_mut::<LANES>());
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    for ((dx, left), (x, y)) in dx.iter_mut().zip(left).zip(x.iter().zip(y)) {
        let (given, share) = (*dx, *left);
        *dx = std::array::from_fn(
            #[inline(always)]
            |k| {
                (if ADDS { given[k] } else { T::ZERO })
                    + if x[k] == y[k] { share[k] } else { T::ZERO }
            },
        );
        *left = std::array::from_fn(
            #[inline(always)]
            |k| if x[k] == y[k] { T::ZERO } else { share[k] },
        );
    }
    for ((dx, left), (x, y)) in dx_rest.iter_mut().zip(left_rest).zip(x_rest.iter().zip(y_rest)) {
        let given = if ADDS { *dx } else { T::ZERO };
        *dx = given + if x == y { std::mem::replace(left, T::ZERO) } else { T::ZERO };
    }
}

impl<T: Float> Layer<T> for MaxPool {
    fn output(&self, input: Shape) -> Result<Shape> {
        self.0.output("max pool", input)
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let Forward { n, input, output, x, y, .. } = pass;
        let (windows, c) = (self.0, input.channels);
        wide(
            #[inline(always)]
            move || {
                windows.walk(
                    n,
                    input,
                    output,
                    #[inline(always)]
                    |window, first, at| {
                        let (y, x) = (row_mut(y, window, c), row(x, at, c));
                        if first {
                            y.copy_from_slice(x);
                        } else {
                            keep_larger(y, x);
                        }
                    },
                );
            },
        );
    }

    fn backward(&self, pass: Backward<'_, T>) {
        let Windows { kernel, stride, padding } = self.0;
        if stride < kernel || padding > 0 {
            return self.backward_windows::<T, true>(pass);
        }
        self.backward_windows::<T, false>(pass);
    }
}

/// Average pooling.
#[derive(Clone, Debug)]
pub struct AveragePool(Windows);

impl AveragePool {
    /// Creates average pooling with windows of `kernel` x `kernel`.
    pub fn new(kernel: usize, stride: usize, padding: usize) -> Self {
        Self(Windows { kernel, stride, padding })
    }

    /// Number of values per window, k^2.
    fn values<T: Float>(&self) -> T {
        T::of((self.0.kernel * self.0.kernel) as f64)
    }
}

impl<T: Float> Layer<T> for AveragePool {
    fn output(&self, input: Shape) -> Result<Shape> {
        self.0.output("average pool", input)
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let Forward { n, input, output, x, y, .. } = pass;
        let (windows, c, values) = (self.0, input.channels, self.values::<T>());
        wide(
            #[inline(always)]
            move || {
                windows.walk(
                    n,
                    input,
                    output,
                    #[inline(always)]
                    |window, first, at| {
                        let (y, x) = (row_mut(y, window, c), row(x, at, c));
                        if first {
                            y.copy_from_slice(x);
                        } else {
                            add(y, x);
                        }
                    },
                );
                y.iter_mut().for_each(|y| *y /= values);
            },
        );
    }

    fn backward(&self, pass: Backward<'_, T>) {
        let Backward { n, input, output, dy, dx: Some(dx), .. } = pass else { return };
        let (windows, c, values) = (self.0, input.channels, self.values::<T>());
        dx.fill(T::ZERO);
        wide(
            #[inline(always)]
            move || {
                windows.walk(
                    n,
                    input,
                    output,
                    #[inline(always)]
                    |window, _, at| {
                        add(row_mut(dx, at, c), row(dy, window, c));
                    },
                );
                dx.iter_mut().for_each(|dx| *dx /= values);
            },
        );
    }
}

/// Global average pooling: the mean over all positions, as a row.
#[derive(Clone, Debug)]
pub struct GlobalAverage;

impl<T: Float> Layer<T> for GlobalAverage {
    fn output(&self, input: Shape) -> Result<Shape> {
        if input.values() == 0 {
            let what = format!("{input} has no positions");
            return Err(Error::Shape { layer: "global average".into(), what });
        }
        Ok(Shape::row(input.channels))
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let Forward { input, x, y, .. } = pass;
        let positions = T::of(input.positions() as f64);
        wide(
            #[inline(always)]
            move || {
                let samples = x.chunks_exact(input.values());
                for (x, y) in samples.zip(y.chunks_exact_mut(input.channels)) {
                    y.fill(T::ZERO);
                    for x in x.chunks_exact(input.channels) {
                        add(y, x);
                    }
                    y.iter_mut().for_each(|y| *y /= positions);
                }
            },
        );
    }

    fn backward(&self, pass: Backward<'_, T>) {
        let Backward { input, dy, dx: Some(dx), .. } = pass else { return };
        let positions = T::of(input.positions() as f64);
        wide(
            #[inline(always)]
            move || {
                let samples = dx.chunks_exact_mut(input.values());
                for (dx, dy) in samples.zip(dy.chunks_exact(input.channels)) {
                    for dx in dx.chunks_exact_mut(input.channels) {
                        dx.iter_mut().zip(dy).for_each(|(dx, &dy)| *dx = dy / positions);
                    }
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;
    use crate::testing::Trial;
    use proptest::prelude::*;

    /// Kernel, stride, padding: separate, adjacent and overlapping windows, with gaps, with padding.
    const OPTIONS: [[usize; 3]; 6] =
        [[2, 2, 0], [3, 2, 1], [3, 1, 1], [2, 3, 0], [2, 1, 1], [1, 1, 0]];

    #[test]
    fn gradients_are_right_for_every_option() {
        for input in [Shape::image(6, 5, 3), Shape::image(4, 4, 1)] {
            for mode in [Mode::Training, Mode::Frozen] {
                for [kernel, stride, padding] in OPTIONS {
                    let max = MaxPool::new(kernel, stride, padding);
                    Trial::new(&max, input, 2, mode).check();
                    let average = AveragePool::new(kernel, stride, padding);
                    Trial::new(&average, input, 2, mode).check();
                }
                Trial::new(&GlobalAverage, input, 3, mode).check();
            }
        }
    }

    /// Compared with the definition value by value, over a grid with padding.
    #[test]
    fn it_is_the_definition() {
        let (input, n) = (Shape::image(5, 7, 2), 2);
        for [k, s, p] in OPTIONS {
            let (max, average) = (MaxPool::new(k, s, p), AveragePool::new(k, s, p));
            let trial = Trial::new(&max, input, n, Mode::Frozen);
            let out = trial.output();
            let largest = trial.forward().0;
            let mean = Trial::new(&average, input, n, Mode::Frozen).forward().0;
            for at in 0..n * out.values() {
                let (c, q) = (at % 2, at / 2);
                let (j, i, sample) =
                    (q % out.width, q / out.width % out.height, q / out.positions());
                let mut window = Vec::new();
                for (di, dj) in (0..k).flat_map(|di| (0..k).map(move |dj| (di, dj))) {
                    let (row, column) = (i * s + di, j * s + dj);
                    if (p..p + 5).contains(&row) && (p..p + 7).contains(&column) {
                        let position = (sample * 5 + row - p) * 7 + column - p;
                        window.push(trial.x[position * 2 + c]);
                    }
                }
                assert_eq!(largest[at], window.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b)));
                let want = window.iter().sum::<f64>() / (k * k) as f64;
                assert!((mean[at] - want).abs() < 1e-15);
            }
        }
    }

    #[test]
    fn the_first_of_equal_maxima_gets_the_gradient_and_nan_does_not_panic() {
        let layer = MaxPool::new(2, 2, 0);
        let mut trial = Trial::new(&layer, Shape::image(2, 4, 1), 1, Mode::Frozen);
        trial.x = vec![1., 5., 0., 0., 5., 5., 0., 0.];
        trial.c = vec![3., 7.];
        assert_eq!(trial.backward(0..1).0, [0., 3., 7., 0., 0., 0., 0., 0.]);
        trial.x[4] = f64::NAN;
        let (y, _) = trial.forward();
        assert!(y[0].is_nan() && y[1] == 0.0);
        assert_eq!(trial.backward(0..1).0[2], 7.0);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = |[k, s, p]: [usize; 3]| {
            let layer = MaxPool::new(k, s, p);
            Layer::<f32>::output(&layer, Shape::image(3, 8, 2)).unwrap_err().to_string()
        };
        assert!(refused([4, 2, 0]).contains("4x4 do not fit into 3x8x2"));
        for options in [[0, 1, 0], [2, 0, 0], [2, 1, 2]] {
            assert!(refused(options).contains("at most half of the kernel"));
        }
    }

    proptest! {
        /// Sums of k^2 equal values divided by k^2: at most k^2 roundings.
        #[test]
        fn the_average_of_a_constant_is_the_constant(
            k in 1usize..5, s in 1usize..4, side in 4usize..9, value in -9.0..9.0,
        ) {
            let layer = AveragePool::new(k, s, 0);
            for layer in [&layer as &dyn Layer<f64>, &GlobalAverage] {
                let mut trial = Trial::new(layer, Shape::image(side, side, 3), 2, Mode::Frozen);
                trial.x.fill(value);
                for y in trial.forward().0 {
                    prop_assert!((y - value).abs() <= 64.0 * f64::EPSILON * value.abs());
                }
            }
        }
    }
}
