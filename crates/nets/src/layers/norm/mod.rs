//! Batch normalization (Ioffe & Szegedy 2015), optionally fused with relu.
//!
//! y = w xhat + b,  xhat = (x - mean) r,  r = 1/sqrt(var + eps), channel by channel; with relu y = max(0, w xhat + b).
//!
//! In training, mean and var are those of the channel over all m samples and positions of the batch (var divided by m),
//! and the running statistics are updated: running = 0.9 running + 0.1 batch, with var divided by m - 1 (PyTorch). Frozen,
//! the running statistics are used, so that samples are independent.
//!
//! db = sum dy,  dw = sum dy xhat, and
//! training  dx = w r (dy - db/m - xhat dw/m),
//! frozen    dx = w r dy,
//! where dy is 0 where relu is inactive.
//!
//! The cost is memory traffic. Forward: x is read twice and y written once. Backward: x and dy are read twice and dx
//! written once; y is not read, since the relu mask follows from x by the same operations as in the forward pass.

mod sums;

use rayon::prelude::*;
use veridical_core::Seed;

use self::sums::{Moments, sums};
use crate::float::wide;
use crate::{Backward, Error, Factors, Float, Forward, Layer, Mode, Result, Scope, Shape, Spec};

/// Constant added to the variance.
const EPS: f64 = 1e-5;
/// Weight of the batch in the running statistics.
const MOMENTUM: f64 = 0.1;
/// Approximate number of values per part, which one thread processes.
const PART: usize = 1 << 16;
/// Minimum length of a tile: short rows are grouped.
const TILE: usize = 256;

/// Batch normalization layer.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    channels: usize,
    relu: bool,
}

impl BatchNorm {
    /// Creates a batch norm for samples with `channels` channels.
    pub fn new(channels: usize) -> Self {
        Self { channels, relu: false }
    }

    /// Fuses a relu after the normalization.
    pub fn with_relu(self) -> Self {
        Self { relu: true, ..self }
    }

    /// Lower bound of y.
    fn floor<T: Float>(&self) -> T {
        T::of(if self.relu { 0.0 } else { f64::NEG_INFINITY })
    }

    /// Number of rows that are grouped into one.
    fn fold(&self) -> usize {
        TILE.div_ceil(self.channels)
    }

    /// Length of a part.
    fn part(&self) -> usize {
        (PART / self.channels).max(1) * self.channels
    }

    /// mean and r, of the batch in training and otherwise the running ones.
    fn statistics<T: Float>(&self, mode: Mode, buffers: &[T], kept: &[T]) -> [Vec<T>; 2] {
        let c = self.channels;
        match mode {
            Mode::Training => [kept[..c].to_vec(), kept[c..2 * c].to_vec()],
            Mode::Frozen => {
                let (mean, var) = buffers.split_at(c);
                [mean.to_vec(), var.iter().map(|v| reciprocal_deviation(v.wide())).collect()]
            }
        }
    }

    /// Per-channel mean, w r and b, repeated along a tile.
    fn tiles<T: Float>(&self, params: &[T], [mean, r]: &[Vec<T>; 2]) -> [Vec<T>; 3] {
        let (w, b) = params.split_at(self.channels);
        let scale: Vec<T> = w.iter().zip(r).map(|(&w, &r)| w * r).collect();
        [mean, &scale, b].map(|values| values.repeat(self.fold()))
    }

    /// Sums of dy and of dy (x - mean) over rows, where relu is active.
    fn gradient_sums<T: Float>(&self, x: &[T], dy: &[T], tiles: &[Vec<T>; 3]) -> [Vec<f64>; 2] {
        let floor = self.floor::<T>();
        sums(
            self.channels,
            x,
            dy,
            tiles.each_ref().map(Vec::as_slice),
            #[inline(always)]
            move |x, dy, [mean, scale, shift]| {
                let centered = x - mean;
                let dy = if centered * scale + shift > floor { dy } else { T::ZERO };
                [dy, dy * centered]
            },
        )
    }

    /// Writes the gradients of w and b from the sums.
    fn write_gradients<T: Float>(&self, [plain, centered]: &[Vec<f64>; 2], r: &[T], out: &mut [T]) {
        let (dw, db) = out.split_at_mut(self.channels);
        for ((dw, s), r) in dw.iter_mut().zip(centered).zip(r) {
            *dw = T::of(s * r.wide());
        }
        db.iter_mut().zip(plain).for_each(|(db, s)| *db = T::of(*s));
    }
}

fn reciprocal_deviation<T: Float>(variance: f64) -> T {
    T::of(1.0 / (variance + EPS).sqrt())
}

/// y = max(floor, (x - mean) scale + shift).
fn apply<T: Float>(x: &[T], y: &mut [T], tiles: &[Vec<T>; 3], floor: T) {
    let [mean, scale, shift] = tiles.each_ref().map(Vec::as_slice);
    wide(
        #[inline(always)]
        move || {
            for (x, y) in x.chunks(mean.len()).zip(y.chunks_mut(mean.len())) {
                apply_row(x, y, [mean, scale, shift], floor);
            }
        },
    );
}

#[inline(always)]
fn apply_row<T: Float>(x: &[T], y: &mut [T], [mean, scale, shift]: [&[T]; 3], floor: T) {
    let n = x.len();
    let y = &mut y[..n];
    let (mean, scale, shift) = (&mean[..n], &scale[..n], &shift[..n]);
    for i in 0..n {
        y[i] = floor.larger((x[i] - mean[i]) * scale[i] + shift[i]);
    }
}

/// dx = scale (dy - plain - (x - mean) centered), with dy 0 where relu is inactive.
fn pull_back<T: Float>(
    x: &[T],
    dy: &[T],
    dx: &mut [T],
    tiles: &[Vec<T>; 3],
    subtracted: &[Vec<T>; 2],
    floor: T,
) {
    let tiles = tiles.each_ref().map(Vec::as_slice);
    let subtracted = subtracted.each_ref().map(Vec::as_slice);
    let width = tiles[0].len();
    wide(
        #[inline(always)]
        move || {
            let rows = x.chunks(width).zip(dy.chunks(width)).zip(dx.chunks_mut(width));
            for ((x, dy), dx) in rows {
                pull_back_row(x, dy, dx, tiles, subtracted, floor);
            }
        },
    );
}

#[inline(always)]
fn pull_back_row<T: Float>(
    x: &[T],
    dy: &[T],
    dx: &mut [T],
    [mean, scale, shift]: [&[T]; 3],
    [plain, centered]: [&[T]; 2],
    floor: T,
) {
    let n = x.len();
    let (dy, dx) = (&dy[..n], &mut dx[..n]);
    let (mean, scale, shift) = (&mean[..n], &scale[..n], &shift[..n]);
    let (plain, centered) = (&plain[..n], &centered[..n]);
    for i in 0..n {
        let d = x[i] - mean[i];
        let dy = if d * scale[i] + shift[i] > floor { dy[i] } else { T::ZERO };
        dx[i] = scale[i] * (dy - plain[i] - d * centered[i]);
    }
}

impl<T: Float> Layer<T> for BatchNorm {
    fn output(&self, input: Shape) -> Result<Shape> {
        if input.channels != self.channels || self.channels == 0 {
            let what = format!("expects samples of {} channels, got {input}", self.channels);
            return Err(Error::Shape { layer: "batch norm".into(), what });
        }
        Ok(input)
    }

    fn parameters(&self) -> Vec<Spec> {
        ["weight", "bias"].map(|name| Spec { name, shape: vec![self.channels] }).into()
    }

    fn buffers(&self) -> Vec<Spec> {
        ["running_mean", "running_var"].map(|name| Spec { name, shape: vec![self.channels] }).into()
    }

    fn initialize(&self, params: &mut [T], buffers: &mut [T], _: Seed, _: &str) {
        let (weight, bias) = params.split_at_mut(self.channels);
        let (mean, var) = buffers.split_at_mut(self.channels);
        weight.fill(T::ONE);
        bias.fill(T::ZERO);
        mean.fill(T::ZERO);
        var.fill(T::ONE);
    }

    fn scope(&self, _: Shape, mode: Mode) -> Scope {
        match mode {
            Mode::Training => Scope::Batch,
            Mode::Frozen => Scope::Samples,
        }
    }

    /// mean, r and the variance divided by m - 1.
    fn kept(&self, _: Shape) -> usize {
        3 * self.channels
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let Forward { mode, params, buffers, x, y, kept, .. } = pass;
        let floor = self.floor();
        if mode == Mode::Frozen {
            let tiles = self.tiles(params, &self.statistics(mode, buffers, kept));
            return apply(x, y, &tiles, floor);
        }
        let parts: Vec<Moments> =
            x.par_chunks(self.part()).map(|x| Moments::of(x, self.channels, self.fold())).collect();
        let Some(whole) = parts.into_iter().reduce(Moments::and) else { return };
        let m = whole.rows;
        for (c, (mean, squares)) in whole.mean.iter().zip(&whole.squares).enumerate() {
            kept[c] = T::of(*mean);
            kept[self.channels + c] = reciprocal_deviation(squares / m);
            kept[2 * self.channels + c] = T::of(squares / (m - 1.0).max(1.0));
        }
        let tiles = self.tiles(params, &self.statistics(mode, buffers, kept));
        x.par_chunks(self.part())
            .zip(y.par_chunks_mut(self.part()))
            .for_each(|(x, y)| apply(x, y, &tiles, floor));
    }

    fn backward(&self, pass: Backward<'_, T>) {
        let Backward { n, input, mode, params, buffers, x, dy, dx, dparams, kept, .. } = pass;
        let statistics = self.statistics(mode, buffers, kept);
        let tiles = self.tiles(params, &statistics);
        let [_, r] = statistics;
        let floor = self.floor();
        if mode == Mode::Frozen {
            if let Some(dparams) = dparams {
                self.write_gradients(&self.gradient_sums(x, dy, &tiles), &r, dparams);
            }
            if let Some(dx) = dx {
                let zeros = vec![T::ZERO; tiles[0].len()];
                pull_back(x, dy, dx, &tiles, &[zeros.clone(), zeros], floor);
            }
            return;
        }
        let parts: Vec<[Vec<f64>; 2]> = x
            .par_chunks(self.part())
            .zip(dy.par_chunks(self.part()))
            .map(|(x, dy)| self.gradient_sums(x, dy, &tiles))
            .collect();
        let add = |mut a: [Vec<f64>; 2], b: [Vec<f64>; 2]| {
            for (a, b) in a.iter_mut().flatten().zip(b.iter().flatten()) {
                *a += b;
            }
            a
        };
        let Some(sums) = parts.into_iter().reduce(add) else { return };
        if let Some(dparams) = dparams {
            self.write_gradients(&sums, &r, dparams);
        }
        let Some(dx) = dx else { return };
        let m = (n * input.positions()) as f64;
        let plain: Vec<T> = sums[0].iter().map(|s| T::of(s / m)).collect();
        let centered: Vec<T> =
            sums[1].iter().zip(&r).map(|(s, r)| T::of(s / m * r.wide() * r.wide())).collect();
        let subtracted = [plain, centered].map(|values| values.repeat(self.fold()));
        x.par_chunks(self.part())
            .zip(dy.par_chunks(self.part()))
            .zip(dx.par_chunks_mut(self.part()))
            .for_each(|((x, dy), dx)| pull_back(x, dy, dx, &tiles, &subtracted, floor));
    }

    fn settle(&self, kept: &[T], buffers: &mut [T]) {
        let c = self.channels;
        let batch = kept[..c].iter().chain(&kept[2 * c..3 * c]);
        for (running, batch) in buffers.iter_mut().zip(batch) {
            *running = *running * T::of(1.0 - MOMENTUM) + *batch * T::of(MOMENTUM);
        }
    }

    fn factors(&self, _: Shape) -> Factors {
        Factors::Direct
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Trial, normals};
    use proptest::prelude::*;

    #[test]
    fn gradients_are_right() {
        for layer in [BatchNorm::new(3), BatchNorm::new(3).with_relu()] {
            for mode in [Mode::Training, Mode::Frozen] {
                for (n, input) in [(4, Shape::image(3, 2, 3)), (7, Shape::row(3))] {
                    Trial::new(&layer, input, n, mode).check();
                }
            }
        }
    }

    /// The formulas row by row in f64: y, mean, variance (divided by m).
    fn textbook(x: &[f64], c: usize, params: &[f64]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
        let (m, x0) = ((x.len() / c) as f64, x[..c].to_vec());
        let over = |f: &dyn Fn(usize, f64) -> f64| -> Vec<f64> {
            (0..c).map(|k| x.iter().skip(k).step_by(c).map(|x| f(k, *x)).sum::<f64>() / m).collect()
        };
        let mean: Vec<f64> =
            over(&|k, x| x - x0[k]).iter().zip(&x0).map(|(d, x0)| x0 + d).collect();
        let var = over(&|k, x| (x - mean[k]).powi(2));
        let y = x.iter().enumerate().map(|(i, x)| {
            let k = i % c;
            params[k] * (x - mean[k]) / (var[k] + EPS).sqrt() + params[c + k]
        });
        (y.collect(), mean, var)
    }

    /// Several parts and blocks, a mean 1e6 times the standard deviation: x has 16 - 6 digits below the standard deviation, so
    /// 1e-9 is a loose tolerance, and uncentered squares, off by 1e12 2^-53 = 1e-4, would fail.
    #[test]
    fn it_is_the_formula_over_many_parts_and_for_a_large_mean() {
        for c in [1, 5, 300] {
            let n = 2 * PART / c + 3;
            for layer in [BatchNorm::new(c), BatchNorm::new(c).with_relu()] {
                let mut trial = Trial::new(&layer, Shape::row(c), n, Mode::Training);
                trial.x.iter_mut().for_each(|x| *x += 1e6);
                let (y, kept) = trial.forward();
                let (want, mean, var) = textbook(&trial.x, c, &trial.params);
                for (y, want) in y.iter().zip(&want) {
                    let want = if layer.relu { want.max(0.0) } else { *want };
                    assert!((y - want).abs() < 1e-8, "{y} instead of {want}");
                }
                let m = n as f64;
                for k in 0..c {
                    assert!((kept[k] - mean[k]).abs() < 1e-9);
                    assert!((kept[2 * c + k] - var[k] * m / (m - 1.0)).abs() < 1e-9);
                }
                let mut buffers = trial.buffers.clone();
                Layer::<f64>::settle(&layer, &kept, &mut buffers);
                for k in 0..c {
                    let var = 0.9 * trial.buffers[c + k] + 0.1 * kept[2 * c + k];
                    assert!((buffers[k] - 0.9 * trial.buffers[k] - 0.1 * mean[k]).abs() < 1e-9);
                    assert!((buffers[c + k] - var).abs() < 1e-12);
                }
            }
        }
    }

    /// f32 with a mean of 1,000 standard deviations. Values differ by steps of 6e-5, so the variance of the batch is
    /// computed in f64 for comparison. The mean of a part is off by d with d^2 <= 8 var, so sums of squares over blocks of
    /// n <= 32 tile rows are accurate to 9 n 2^-24 = 2e-5; without centering the error would be 1e6 2^-24 = 6e-2.
    #[test]
    fn a_large_mean_in_f32() {
        let (c, n) = (3, 50_000);
        let x: Vec<f32> = normals(n * c, "x").iter().map(|z| (1000.0 + z) as f32).collect();
        let wide: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        let (_, mean, var) = textbook(&wide, c, &[1.0; 6]);
        let got = Moments::of(&x, c, 90);
        for k in 0..c {
            assert!((got.mean[k] - mean[k]).abs() < 2e-5);
            assert!((got.squares[k] / n as f64 / var[k] - 1.0).abs() < 2e-5);
        }
    }

    #[test]
    fn one_row_has_no_variance_and_no_nan() {
        let layer = BatchNorm::new(2);
        let (y, kept) = Trial::new(&layer, Shape::row(2), 1, Mode::Training).forward();
        assert!(y.iter().chain(&kept).all(|v| v.is_finite()));
    }

    proptest! {
        /// Rounding of 1/sqrt and of the two ways to compute the variance: 1e-12 of values of order 10.
        #[test]
        fn frozen_with_the_statistics_of_the_batch_is_training(
            n in 2usize..9, side in 1usize..4, c in 1usize..20, relu: bool,
        ) {
            let layer = if relu { BatchNorm::new(c).with_relu() } else { BatchNorm::new(c) };
            let input = Shape::image(side, side, c);
            let mut trial = Trial::new(&layer, input, n, Mode::Training);
            let spread = normals(c, "spread");
            trial.x.iter_mut().zip(spread.iter().cycle()).for_each(|(x, z)| *x = *x * z + 3.0 * z);
            let (want, kept) = trial.forward();
            let m = (n * side * side) as f64;
            trial.buffers = kept[..c].to_vec();
            trial.buffers.extend(kept[2 * c..].iter().map(|v| v * (m - 1.0) / m));
            trial.mode = Mode::Frozen;
            let (got, _) = trial.forward();
            for (got, want) in got.iter().zip(&want) {
                prop_assert!((got - want).abs() < 1e-11 * (1.0 + want.abs()), "{} {}", got, want);
            }
        }
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bytes() {
        let layer = BatchNorm::new(7).with_relu();
        let trial = Trial::new(&layer, Shape::image(40, 40, 7), 20, Mode::Training);
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| (trial.forward(), trial.backward(0..trial.n)))
        };
        let one = on(1);
        assert!(one == on(2) && one == on(3));
    }
}
