//! Layer norm (Ba, Kiros & Hinton 2016).
//!
//! y = w xhat + b,  xhat = (x - mean) r,  r = 1/sqrt(var + eps), mean and var (divided by d) over the d values of a row.
//!
//! With g = w dy:  dx = r (g - mean(g) - xhat mean(g xhat)),  dw = sum over rows of dy xhat,  db = sum dy.
//!
//! mean and r are recomputed in the backward pass: the row is in the cache anyway.

use veridical_core::Seed;

use crate::float::{sum, wide};
use crate::{Backward, Error, Factors, Float, Forward, Layer, Result, Shape, Spec};

/// Layer normalization: rows get mean 0 and variance 1, then a learned scale and shift per column.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    width: usize,
    eps: f64,
}

impl LayerNorm {
    /// Creates a layer norm for rows of `width` values, with eps = 1e-5.
    pub fn new(width: usize) -> Self {
        Self { width, eps: 1e-5 }
    }

    /// Sets eps.
    pub fn eps(self, eps: f64) -> Self {
        Self { eps, ..self }
    }
}

/// mean and r of a row.
#[inline(always)]
fn moments<T: Float>(x: &[T], eps: T) -> (T, T) {
    let share = T::of(1.0 / x.len() as f64);
    let mean = share
        * sum(
            [x],
            #[inline(always)]
            |[x]| x,
        );
    let var = share
        * sum(
            [x],
            #[inline(always)]
            |[x]| (x - mean) * (x - mean),
        );
    (mean, T::ONE / (var + eps).sqrt())
}

impl<T: Float> Layer<T> for LayerNorm {
    fn output(&self, input: Shape) -> Result<Shape> {
        if input != Shape::row(self.width) {
            let what = format!("expects rows of {} values, got {input}", self.width);
            return Err(Error::Shape { layer: "layer norm".into(), what });
        }
        Ok(input)
    }

    fn parameters(&self) -> Vec<Spec> {
        ["weight", "bias"].map(|name| Spec { name, shape: vec![self.width] }).into()
    }

    fn initialize(&self, params: &mut [T], _: &mut [T], _: Seed, _: &str) {
        let (weight, bias) = params.split_at_mut(self.width);
        weight.fill(T::ONE);
        bias.fill(T::ZERO);
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let Forward { params, x, y, .. } = pass;
        let (d, eps) = (self.width, T::of(self.eps));
        let (weight, bias) = params.split_at(d);
        wide(
            #[inline(always)]
            move || {
                for first in (0..x.len()).step_by(d) {
                    let (x, y) = (&x[first..][..d], &mut y[first..][..d]);
                    let (weight, bias) = (&weight[..d], &bias[..d]);
                    let (mean, r) = moments(x, eps);
                    for k in 0..d {
                        y[k] = (x[k] - mean) * r * weight[k] + bias[k];
                    }
                }
            },
        );
    }

    fn backward(&self, pass: Backward<'_, T>) {
        let Backward { params, x, dy, mut dx, dparams, .. } = pass;
        let (d, eps) = (self.width, T::of(self.eps));
        let (weight, share) = (&params[..d], T::of(1.0 / d as f64));
        let mut sums = dparams.map(|dparams| {
            dparams.fill(T::ZERO);
            dparams.split_at_mut(d)
        });
        wide(
            #[inline(always)]
            move || {
                for first in (0..x.len()).step_by(d) {
                    let (x, dy) = (&x[first..][..d], &dy[first..][..d]);
                    let weight = &weight[..d];
                    let (mean, r) = moments(x, eps);
                    if let Some((dweight, dbias)) = &mut sums {
                        let (dweight, dbias) = (&mut dweight[..d], &mut dbias[..d]);
                        for k in 0..d {
                            dweight[k] += dy[k] * ((x[k] - mean) * r);
                            dbias[k] += dy[k];
                        }
                    }
                    let Some(dx) = &mut dx else { continue };
                    let dx = &mut dx[first..][..d];
                    let along = share
                        * sum(
                            [dy, weight],
                            #[inline(always)]
                            |[dy, w]| dy * w,
                        );
                    let across = share
                        * r
                        * sum(
                            [dy, weight, x],
                            #[inline(always)]
                            |[dy, w, x]| dy * w * (x - mean),
                        );
                    for k in 0..d {
                        dx[k] = r * (dy[k] * weight[k] - along - (x[k] - mean) * r * across);
                    }
                }
            },
        );
    }

    fn factors(&self, _: Shape) -> Factors {
        Factors::Direct
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;
    use crate::testing::Trial;

    #[test]
    fn gradients_are_right() {
        for width in [1, 2, 16, 21, 40] {
            for eps in [1e-5, 1e-12, 0.5] {
                let layer = LayerNorm::new(width).eps(eps);
                Trial::of_sequences(&layer, Shape::row(width), &[2, 1, 3], Mode::Training).check();
            }
        }
    }

    /// Without scale and shift, the mean is 0 and the mean square is var/(var + eps).
    #[test]
    fn rows_have_mean_0_and_variance_1() {
        let layer = LayerNorm::new(37).eps(0.25);
        let mut trial = Trial::new(&layer, Shape::row(37), 3, Mode::Frozen);
        Layer::<f64>::initialize(&layer, &mut trial.params, &mut [], Seed::new(0).unwrap(), "");
        let (y, _) = trial.forward();
        for (y, x) in y.chunks(37).zip(trial.x.chunks(37)) {
            let mean = |values: &[f64]| values.iter().sum::<f64>() / 37.0;
            let square = |values: &[f64], m: f64| {
                values.iter().map(|v| (v - m) * (v - m)).sum::<f64>() / 37.0
            };
            let var = square(x, mean(x));
            assert!(mean(y).abs() < 1e-14);
            assert!((square(y, 0.0) - var / (var + 0.25)).abs() < 1e-14);
        }
    }
}
