//! Dense (fully connected) layer.
//!
//! y = s (W x) + t b
//!
//! Standard parameterization: s = t = 1, W and b uniform in +-1/sqrt(fan-in) (PyTorch's default). NTK
//! parameterization (Jacot et al. 2018; paper 004, section 5, eq. 79): s = 1/sqrt(fan-in), entries of W from N(0, 1), b from
//! N(0, 1) with t chosen by the model.
//!
//! dL/dW = s sum_i dy_i x_i',  dL/db = t sum_i dy_i,  dx = s W' dy. So a = x and delta = s dy.

use rayon::prelude::*;
use veridical_core::{Seed, Stream};

use crate::float::{sum, wide};
use crate::layer::take;
use crate::product::{Matrix, divided, whole};
use crate::transpose::transpose;
use crate::{
    Backward, Error, Factors, Float, Forward, Layer, Mode, Outer, Result, Scope, Shape, Spec,
};

/// Parameterization of a dense layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parameterization {
    /// PyTorch's parameterization.
    Standard,
    /// NTK parameterization: W / sqrt(fan-in) with entries from N(0, 1), and a scaled bias.
    Ntk {
        /// Scale t of the bias.
        bias: f64,
    },
}

impl Parameterization {
    /// Returns the scales s and t of a layer with `inputs` inputs.
    pub fn scales(self, inputs: usize) -> (f64, f64) {
        match self {
            Self::Standard => (1.0, 1.0),
            Self::Ntk { bias } => (1.0 / (inputs as f64).sqrt(), bias),
        }
    }
}

/// Explicit initialization of the weights, which replaces that of the parameterization; biases are then 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinearInit {
    /// Normal with mean 0 and this standard deviation.
    Normal(f64),
    /// Uniform in +-bound.
    Uniform(f64),
}

/// Dense (fully connected) layer.
///
/// ```
/// use veridical_nets::layers::Linear;
/// use veridical_nets::{Layer, Shape};
///
/// let layer = Linear::new(3, 2);
/// assert_eq!(Layer::<f32>::output(&layer, Shape::row(3))?, Shape::row(2));
/// assert!(Layer::<f32>::output(&layer, Shape::row(4)).is_err());
/// # Ok::<(), veridical_nets::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Linear {
    inputs: usize,
    outputs: usize,
    bias: bool,
    parameterization: Parameterization,
    init: Option<LinearInit>,
}

impl Linear {
    /// Creates a dense layer with a bias, in the standard parameterization.
    pub fn new(inputs: usize, outputs: usize) -> Self {
        let parameterization = Parameterization::Standard;
        Self { inputs, outputs, bias: true, parameterization, init: None }
    }

    /// Removes the bias.
    pub fn without_bias(self) -> Self {
        Self { bias: false, ..self }
    }

    /// Sets the parameterization.
    pub fn parameterized(self, parameterization: Parameterization) -> Self {
        Self { parameterization, ..self }
    }

    /// Sets the initialization of the weights.
    pub fn init(self, init: LinearInit) -> Self {
        Self { init: Some(init), ..self }
    }

    /// Returns the number of inputs.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Returns whether the layer has a bias.
    pub fn has_bias(&self) -> bool {
        self.bias
    }

    /// Returns the parameterization.
    pub fn parameterization(&self) -> Parameterization {
        self.parameterization
    }

    /// The scales s and t.
    fn scales<T: Float>(&self) -> (T, T) {
        let (s, t) = self.parameterization.scales(self.inputs);
        (T::of(s), T::of(t))
    }

    fn weights(&self) -> usize {
        self.inputs * self.outputs
    }

    /// Whether samples are processed independently.
    fn is_narrow(&self) -> bool {
        self.weights() <= NARROW
    }

    /// Computes alpha a b, or y + alpha a b, on this thread or on all.
    fn product<T: Float>(
        &self,
        y: &mut [T],
        add: bool,
        alpha: T,
        a: Matrix<'_, T>,
        b: Matrix<'_, T>,
    ) {
        let product = if self.is_narrow() { whole } else { divided };
        product(y, add, alpha, a, b);
    }
}

/// Up to this many weights, samples are processed independently: a copy of the gradient is cheap, and the activations of
/// adjacent layers stay in the cache.
const NARROW: usize = 1 << 15;
/// Rows to which one thread adds a bias, or that it sums, at once.
const ROWS: usize = 64;

impl<T: Float> Layer<T> for Linear {
    fn output(&self, input: Shape) -> Result<Shape> {
        if input != Shape::row(self.inputs) {
            let what = format!("expects rows of {} values, got {input}", self.inputs);
            return Err(Error::Shape { layer: "linear".into(), what });
        }
        Ok(Shape::row(self.outputs))
    }

    fn parameters(&self) -> Vec<Spec> {
        let weight = Spec { name: "weight", shape: vec![self.outputs, self.inputs] };
        let bias = self.bias.then(|| Spec { name: "bias", shape: vec![self.outputs] });
        std::iter::once(weight).chain(bias).collect()
    }

    fn initialize(&self, params: &mut [T], _: &mut [T], seed: Seed, name: &str) {
        let stream = Stream::new(seed, &format!("init/{name}"));
        if let Some(init) = self.init {
            let (weight, bias) = params.split_at_mut(self.weights());
            bias.fill(T::ZERO);
            return match init {
                LinearInit::Normal(deviation) => normal(weight, stream, deviation),
                LinearInit::Uniform(bound) => uniform(weight, stream, bound),
            };
        }
        match self.parameterization {
            Parameterization::Standard => {
                uniform(params, stream, 1.0 / (self.inputs as f64).sqrt());
            }
            Parameterization::Ntk { .. } => normal(params, stream, 1.0),
        }
    }

    fn scope(&self, _: Shape, _: Mode) -> Scope {
        if self.is_narrow() { Scope::Samples } else { Scope::Batch }
    }

    fn as_linear(&self) -> Option<&Linear> {
        Some(self)
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let Forward { n, params, x, y, .. } = pass;
        let (s, t) = self.scales::<T>();
        let (weight, bias) = params.split_at(self.weights());
        if self.bias {
            let fill = |y: &mut [T]| {
                wide(
                    #[inline(always)]
                    move || {
                        for row in y.chunks_exact_mut(bias.len()) {
                            for (y, &b) in row.iter_mut().zip(bias) {
                                *y = b * t;
                            }
                        }
                    },
                );
            };
            match self.is_narrow() {
                true => fill(y),
                false => y.par_chunks_mut(ROWS * self.outputs).for_each(fill),
            }
        }
        let (x, w) =
            (Matrix::rows(x, n, self.inputs), Matrix::rows(weight, self.outputs, self.inputs));
        self.product(y, self.bias, s, x, w.transposed());
    }

    fn backward(&self, pass: Backward<'_, T>) {
        let Backward { n, params, x, dy, dx, dparams, scratch, .. } = pass;
        let (s, t) = self.scales::<T>();
        let weight = Matrix::rows(params, self.outputs, self.inputs);
        let delta = Matrix::rows(dy, n, self.outputs);
        if let Some(dx) = dx {
            self.product(dx, false, s, delta, weight);
        }
        let Some(dparams) = dparams else { return };
        let (dweight, dbias) = dparams.split_at_mut(self.weights());
        let x = Matrix::rows(x, n, self.inputs);
        if self.is_narrow() {
            whole(dweight, false, s, delta.transposed(), x);
            if self.bias {
                column_sums(dy, dbias);
            }
        } else {
            // The product reads the columns of dy many times, with a large stride.
            let columns = take(scratch, dy.len());
            transpose(dy, self.outputs, columns);
            divided(dweight, false, s, Matrix::rows(columns, self.outputs, n), x);
            row_sums(columns, dbias);
        }
        dbias.iter_mut().for_each(|b| *b *= t);
    }

    fn factors(&self, _: Shape) -> Factors {
        let (inputs, outputs, bias) = (self.inputs, self.outputs, self.bias);
        Factors::Outer(Outer { positions: 1, groups: 1, inputs, outputs, bias })
    }

    fn tap_scale(&self) -> T {
        self.scales().0
    }

    fn tap_bias_scale(&self) -> T {
        self.scales().1
    }
}

/// Sums of the columns of a row-major matrix, row by row.
pub(crate) fn column_sums<T: Float>(values: &[T], sums: &mut [T]) {
    wide(
        #[inline(always)]
        move || {
            sums.fill(T::ZERO);
            for row in values.chunks_exact(sums.len()) {
                for (sum, &x) in sums.iter_mut().zip(row) {
                    *sum += x;
                }
            }
        },
    );
}

/// Sums of the rows of a row-major matrix.
fn row_sums<T: Float>(values: &[T], sums: &mut [T]) {
    let len = values.len() / sums.len().max(1);
    let rows = values.par_chunks(ROWS * len).zip(sums.par_chunks_mut(ROWS));
    rows.for_each(|(values, sums)| {
        wide(
            #[inline(always)]
            move || {
                for (row, to) in values.chunks_exact(len).zip(sums) {
                    *to = sum(
                        [row],
                        #[inline(always)]
                        |[x]| x,
                    );
                }
            },
        );
    });
}

/// Fills with uniform numbers in +-bound.
pub(crate) fn uniform<T: Float>(values: &mut [T], stream: Stream, bound: f64) {
    let place = stream.at(0, 0);
    for (i, x) in (0..).zip(values) {
        *x = T::of((2.0 * place.uniform(i) - 1.0) * bound);
    }
}

/// Fills with normal numbers of mean 0 and standard deviation `deviation`.
pub(crate) fn normal<T: Float>(values: &mut [T], stream: Stream, deviation: f64) {
    let mut drawn = vec![0.0; values.len()];
    stream.at(0, 0).fill_normals(&mut drawn);
    values.iter_mut().zip(drawn).for_each(|(x, z)| *x = T::of(z * deviation));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Trial;

    #[test]
    fn gradients_are_right_in_both_parameterizations() {
        for layer in [
            Linear::new(5, 4),
            Linear::new(3, 7).without_bias(),
            Linear::new(6, 3).parameterized(Parameterization::Ntk { bias: 0.1 }),
        ] {
            Trial::new(&layer, Shape::row(layer.inputs), 3, Mode::Training).check();
            Trial::new(&layer, Shape::row(layer.inputs), 3, Mode::Frozen).check();
        }
    }

    /// Layers that process the whole batch, compared with the formulas; sums of 30 to 200 terms of order 1 round by far less.
    #[test]
    fn wide_layers_are_the_formula() {
        let ntk = Parameterization::Ntk { bias: 0.1 };
        for layer in [
            Linear::new(205, 163),
            Linear::new(163, 205).without_bias(),
            Linear::new(190, 177).parameterized(ntk),
        ] {
            assert!(!layer.is_narrow());
            let (n, i, o) = (37, layer.inputs, layer.outputs);
            let (s, t) = layer.scales::<f64>();
            let trial = Trial::new(&layer, Shape::row(i), n, Mode::Training);
            let (weight, bias) = trial.params.split_at(i * o);
            let near = |what: &str, got: f64, want: f64| {
                assert!((got - want).abs() < 1e-11, "{what}: {got} {want}");
            };
            let (x, dy) =
                (|r: usize, k: usize| trial.x[r * i + k], |r: usize, k: usize| trial.c[r * o + k]);
            let (y, _) = trial.forward();
            let (dx, dparams) = trial.backward(0..n);
            for r in 0..n {
                for a in 0..o {
                    let product: f64 = (0..i).map(|b| weight[a * i + b] * x(r, b)).sum();
                    near("y", y[r * o + a], s * product + bias.get(a).map_or(0.0, |b| t * b));
                }
                for b in 0..i {
                    let product: f64 = (0..o).map(|a| weight[a * i + b] * dy(r, a)).sum();
                    near("dx", dx[r * i + b], s * product);
                }
            }
            for a in 0..o {
                for b in 0..i {
                    let product: f64 = (0..n).map(|r| dy(r, a) * x(r, b)).sum();
                    near("dW", dparams[a * i + b], s * product);
                }
                if layer.bias {
                    let sum: f64 = (0..n).map(|r| dy(r, a)).sum();
                    near("db", dparams[i * o + a], t * sum);
                }
            }
        }
    }
}
