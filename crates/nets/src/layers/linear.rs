//! A dense layer.
//!
//! y = s (W x) + t b
//!
//! Standard parameterisation: s = t = 1, W and b uniform in +-1/sqrt(fan-in) (PyTorch's default). NTK
//! parameterisation (Jacot et al. 2018; paper 004, section 5, eq. 79): s = 1/sqrt(fan-in), entries of W from N(0, 1), b from
//! N(0, 1) with t of the model's choice.
//!
//! dL/dW = s sum_i dy_i x_i',  dL/db = t sum_i dy_i,  dx = s W' dy. So a = x and delta = s dy.

use rayon::prelude::*;
use veridical_core::{Seed, Stream};

use crate::float::wide;
use crate::layer::take;
use crate::product::{Matrix, divided, whole};
use crate::{
    Backward, Error, Factors, Float, Forward, Layer, Mode, Outer, Result, Scope, Shape, Spec,
};

/// How parameters enter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parameterisation {
    /// PyTorch's.
    Standard,
    /// W / sqrt(fan-in) with entries from N(0, 1), and the bias times this.
    Ntk {
        /// t.
        bias: f64,
    },
}

impl Parameterisation {
    /// s and t of a layer with so many inputs.
    pub fn scales(self, inputs: usize) -> (f64, f64) {
        match self {
            Self::Standard => (1.0, 1.0),
            Self::Ntk { bias } => (1.0 / (inputs as f64).sqrt(), bias),
        }
    }
}

/// How weights are drawn where the parameterisation does not say; biases are 0 then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinearInit {
    /// N(0, deviation^2).
    Normal(f64),
    /// Uniform in +-bound.
    Uniform(f64),
}

/// A dense layer.
#[derive(Clone, Debug)]
pub struct Linear {
    inputs: usize,
    outputs: usize,
    bias: bool,
    parameterisation: Parameterisation,
    init: Option<LinearInit>,
}

impl Linear {
    /// With a bias, in the standard parameterisation.
    pub fn new(inputs: usize, outputs: usize) -> Self {
        let parameterisation = Parameterisation::Standard;
        Self { inputs, outputs, bias: true, parameterisation, init: None }
    }

    /// Without a bias.
    pub fn without_bias(self) -> Self {
        Self { bias: false, ..self }
    }

    /// In another parameterisation.
    pub fn parameterised(self, parameterisation: Parameterisation) -> Self {
        Self { parameterisation, ..self }
    }

    /// With first weights drawn in another way.
    pub fn init(self, init: LinearInit) -> Self {
        Self { init: Some(init), ..self }
    }

    /// How many values it takes.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Whether it has a bias.
    pub fn has_bias(&self) -> bool {
        self.bias
    }

    /// How its parameters enter.
    pub fn parameterisation(&self) -> Parameterisation {
        self.parameterisation
    }

    /// s and t.
    fn scales<T: Float>(&self) -> (T, T) {
        let (s, t) = self.parameterisation.scales(self.inputs);
        (T::of(s), T::of(t))
    }

    fn weights(&self) -> usize {
        self.inputs * self.outputs
    }

    /// dW and db of many rows with few values: parts of the rows apart, then their sum in order.
    fn sum_parts<T: Float>(&self, x: &[T], dy: &[T], dparams: &mut [T], room: &mut Vec<T>) {
        let (i, o) = (self.inputs, self.outputs);
        let (s, t) = self.scales::<T>();
        let n = x.len() / i;
        let rows = n.div_ceil(PARTS);
        let sums = take(room, n.div_ceil(rows) * dparams.len());
        let parts = x.par_chunks(rows * i).zip(dy.par_chunks(rows * o));
        parts.zip(sums.par_chunks_mut(dparams.len())).for_each(|((x, dy), sums)| {
            let n = x.len() / i;
            let (dweight, dbias) = sums.split_at_mut(self.weights());
            let delta = Matrix::rows(dy, n, o).transposed();
            whole(dweight, false, s, delta, Matrix::rows(x, n, i));
            if self.bias {
                column_sums(dy, dbias);
                dbias.iter_mut().for_each(|b| *b *= t);
            }
        });
        column_sums(sums, dparams);
    }
}

/// Rows that one thread adds a bias to at once, or sums.
const ROWS: usize = 64;
/// So many times more rows than values of a row are many,
const TALL: usize = 32;
/// and are divided into so many parts.
const PARTS: usize = 8;

impl<T: Float> Layer<T> for Linear {
    fn output(&self, input: Shape) -> Result<Shape> {
        if input != Shape::row(self.inputs) {
            let what = format!("takes rows of {} values, got {input}", self.inputs);
            return Err(Error::Shape { layer: "linear".into(), what });
        }
        Ok(Shape::row(self.outputs))
    }

    fn parameters(&self) -> Vec<Spec> {
        let weight = Spec { name: "weight", shape: vec![self.outputs, self.inputs] };
        let bias = self.bias.then(|| Spec { name: "bias", shape: vec![self.outputs] });
        std::iter::once(weight).chain(bias).collect()
    }

    fn initialise(&self, params: &mut [T], _: &mut [T], seed: Seed, name: &str) {
        let stream = Stream::new(seed, &format!("init/{name}"));
        if let Some(init) = self.init {
            let (weight, bias) = params.split_at_mut(self.weights());
            bias.fill(T::ZERO);
            return match init {
                LinearInit::Normal(deviation) => normal(weight, stream, deviation),
                LinearInit::Uniform(bound) => uniform(weight, stream, bound),
            };
        }
        match self.parameterisation {
            Parameterisation::Standard => {
                uniform(params, stream, 1.0 / (self.inputs as f64).sqrt());
            }
            Parameterisation::Ntk { .. } => normal(params, stream, 1.0),
        }
    }

    fn scope(&self, _: Shape, _: Mode) -> Scope {
        Scope::Batch
    }

    fn as_linear(&self) -> Option<&Linear> {
        Some(self)
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let Forward { n, params, x, y, .. } = pass;
        let (s, t) = self.scales::<T>();
        let (weight, bias) = params.split_at(self.weights());
        if self.bias {
            let scaled = |b: &T| *b * t;
            y.par_chunks_mut(ROWS * self.outputs).for_each(|y| {
                for row in y.chunks_exact_mut(self.outputs) {
                    row.iter_mut().zip(bias).for_each(|(y, b)| *y = scaled(b));
                }
            });
        }
        let (x, w) =
            (Matrix::rows(x, n, self.inputs), Matrix::rows(weight, self.outputs, self.inputs));
        divided(y, self.bias, s, x, w.transposed());
    }

    fn backward(&self, pass: Backward<'_, T>) {
        let Backward { n, params, x, dy, dx, dparams, room, .. } = pass;
        let (s, t) = self.scales::<T>();
        let weight = Matrix::rows(params, self.outputs, self.inputs);
        let delta = Matrix::rows(dy, n, self.outputs);
        if let Some(dx) = dx {
            divided(dx, false, s, delta, weight);
        }
        let Some(dparams) = dparams else { return };
        if n >= TALL * self.inputs.max(self.outputs) {
            return self.sum_parts(x, dy, dparams, room);
        }
        let (dweight, dbias) = dparams.split_at_mut(self.weights());
        divided(dweight, false, s, delta.transposed(), Matrix::rows(x, n, self.inputs));
        if self.bias {
            let len = ROWS * self.outputs;
            let sums = take(room, dy.len().div_ceil(len) * self.outputs);
            let parts = sums.par_chunks_mut(self.outputs).zip(dy.par_chunks(len));
            parts.for_each(|(sums, dy)| column_sums(dy, sums));
            column_sums(sums, dbias);
            dbias.iter_mut().for_each(|b| *b *= t);
        }
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

/// The sums of the columns of a row-major matrix, row by row.
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

/// Uniform in +-bound.
pub(crate) fn uniform<T: Float>(values: &mut [T], stream: Stream, bound: f64) {
    let place = stream.at(0, 0);
    for (i, x) in (0..).zip(values) {
        *x = T::of((2.0 * place.uniform(i) - 1.0) * bound);
    }
}

/// N(0, deviation^2).
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
    fn gradients_are_right_in_both_parameterisations() {
        for layer in [
            Linear::new(5, 4),
            Linear::new(3, 7).without_bias(),
            Linear::new(6, 3).parameterised(Parameterisation::Ntk { bias: 0.1 }),
        ] {
            Trial::new(&layer, Shape::row(layer.inputs), 3, Mode::Training).check();
            // Rows in parts.
            Trial::new(&layer, Shape::row(layer.inputs), 7 * TALL + 3, Mode::Training).check();
            Trial::new(&layer, Shape::row(layer.inputs), 3, Mode::Frozen).check();
        }
    }
}
