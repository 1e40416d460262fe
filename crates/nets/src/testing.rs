//! Shared tests of layers: gradients against finite differences, taps against gradients.
//!
//! Central differences of a smooth function with h = 1e-5 in f64 are off by h^2 |f'''| / 6 ~ 2e-11 and by rounding
//! eps |f| / h ~ 2e-11, so a tolerance of 1e-6 of the size of the gradient is loose for a correct gradient and tight for a wrong
//! one. Inputs stay away from kinks (relu, ties of maxima) by more than h.

use std::ops::Range;

use veridical_core::{Seed, Stream};

use crate::{Backward, Factors, Forward, Layer, Mode, Noise, Outer, Sequences, Shape};

const H: f64 = 1e-5;
const TOLERANCE: f64 = 1e-6;

/// Normal numbers from a named stream.
pub(crate) fn normals(n: usize, name: &str) -> Vec<f64> {
    let mut values = vec![0.0; n];
    // INVARIANT: 7 is a valid seed.
    Stream::new(Seed::new(7).unwrap(), name).at(0, 0).fill_normals(&mut values);
    values
}

pub(crate) fn noise(first: usize) -> Noise {
    Noise { stream: Stream::new(Seed::new(3).unwrap(), "test"), step: 5, first }
}

/// A layer with values to test it on.
pub(crate) struct Trial<'a> {
    pub layer: &'a dyn Layer<f64>,
    pub input: Shape,
    pub n: usize,
    /// Offsets of the sequences, ending with the number of rows.
    pub starts: Vec<usize>,
    pub mode: Mode,
    pub params: Vec<f64>,
    pub buffers: Vec<f64>,
    pub x: Vec<f64>,
    /// The loss is <c, y>.
    pub c: Vec<f64>,
}

impl<'a> Trial<'a> {
    /// `n` samples, each its own sequence.
    pub fn new(layer: &'a dyn Layer<f64>, input: Shape, n: usize, mode: Mode) -> Self {
        Self::of_sequences(layer, input, &vec![1; n], mode)
    }

    /// Sequences of the given lengths.
    pub fn of_sequences(
        layer: &'a dyn Layer<f64>,
        input: Shape,
        lengths: &[usize],
        mode: Mode,
    ) -> Self {
        let mut starts = vec![0];
        starts.extend(lengths.iter().scan(0, |end, len| {
            *end += len;
            Some(*end)
        }));
        let n = starts[lengths.len()];
        let samples = if layer.pools() { lengths.len() } else { n };
        let output = layer.output(input).unwrap();
        let len = |specs: Vec<crate::Spec>| specs.iter().map(crate::Spec::len).sum();
        let mut params = vec![0.0; len(layer.parameters())];
        let mut buffers = vec![0.0; len(layer.buffers())];
        layer.initialize(&mut params, &mut buffers, Seed::new(1).unwrap(), "test");
        // Away from the initialization, where some gradients are 0.
        let (off, moved) = (normals(params.len(), "params"), normals(buffers.len(), "buffers"));
        params.iter_mut().zip(off).for_each(|(p, z)| *p += 0.3 * z);
        buffers.iter_mut().zip(moved).for_each(|(b, z)| *b += 0.1 * z.abs());
        // Away from kinks at 0.
        let mut x = normals(n * input.values(), "x");
        x.iter_mut().for_each(|x| *x += 0.01 * x.signum());
        let c = normals(samples * output.values(), "c");
        Self { layer, input, n, starts, mode, params, buffers, x, c }
    }

    pub fn output(&self) -> Shape {
        self.layer.output(self.input).unwrap()
    }

    /// y and the saved values.
    pub fn forward(&self) -> (Vec<f64>, Vec<f64>) {
        let mut y = vec![f64::NAN; self.c.len()];
        let mut kept = vec![f64::NAN; self.layer.kept(self.input)];
        self.layer.forward(Forward {
            n: self.n,
            sequences: Sequences::new(&self.starts),
            input: self.input,
            output: self.output(),
            mode: self.mode,
            params: &self.params,
            buffers: &self.buffers,
            x: &self.x,
            y: &mut y,
            kept: &mut kept,
            noise: noise(0),
            scratch: &mut vec![f64::NAN; 3],
        });
        (y, kept)
    }

    fn loss(&self) -> f64 {
        self.forward().0.iter().zip(&self.c).map(|(y, c)| y * c).sum()
    }

    /// The rows of y of some sequences.
    fn rows_out(&self, sequences: &Range<usize>) -> Range<usize> {
        match self.layer.pools() {
            true => sequences.clone(),
            false => self.starts[sequences.start]..self.starts[sequences.end],
        }
    }

    /// dx and the gradient of the parameters, for some sequences.
    pub fn backward(&self, sequences: Range<usize>) -> (Vec<f64>, Vec<f64>) {
        let (y, kept) = self.forward();
        let (i, o) = (self.input.values(), self.output().values());
        let starts = &self.starts[sequences.start..=sequences.end];
        let (first, n) = (starts[0], starts[starts.len() - 1] - starts[0]);
        let mut dx = vec![f64::NAN; n * i];
        let mut dparams = vec![f64::NAN; self.params.len()];
        let of = |values: &'_ [f64], rows: Range<usize>, len: usize| {
            values[rows.start * len..rows.end * len].to_vec()
        };
        let out = self.rows_out(&sequences);
        let x = of(&self.x, first..first + n, i);
        let (y, dy) = (of(&y, out.clone(), o), of(&self.c, out, o));
        self.layer.backward(Backward {
            n,
            sequences: Sequences::new(starts),
            input: self.input,
            output: self.output(),
            mode: self.mode,
            params: &self.params,
            buffers: &self.buffers,
            x: &x,
            y: &y,
            dy: &dy,
            dx: Some(&mut dx),
            dparams: Some(&mut dparams),
            tapped: None,
            kept: &kept,
            noise: noise(first),
            scratch: &mut vec![f64::NAN; 3],
        });
        (dx, dparams)
    }

    /// The gradient of the parameters of sequence i, computed from the taps.
    fn gradient_of_taps(&self, i: usize) -> Vec<f64> {
        let (inputs, outputs) = (self.input.values(), self.output().values());
        match self.layer.factors(self.input) {
            Factors::None => Vec::new(),
            Factors::Direct => self.backward(i..i + 1).1,
            Factors::Parts(parts) => self.parts(&parts, i),
            Factors::Rows => {
                let mut rows = Vec::new();
                self.layer.tap_rows(Sequences::new(&self.starts[i..i + 2]), &mut rows);
                let mut sum = vec![0.0; self.params.len()];
                for (row, to) in (self.starts[i]..self.starts[i + 1]).zip(rows) {
                    let dy = &self.c[row * outputs..][..outputs];
                    sum[to * outputs..].iter_mut().zip(dy).for_each(|(s, dy)| *s += dy);
                }
                sum
            }
            Factors::Outer(sizes) => {
                let mut sum = vec![0.0; self.params.len()];
                for row in self.starts[i]..self.starts[i + 1] {
                    let x = &self.x[row * inputs..][..inputs];
                    let dy = &self.c[row * outputs..][..outputs];
                    let gradient = self.outer(sizes, x, dy);
                    sum.iter_mut().zip(gradient).for_each(|(s, g)| *s += g);
                }
                sum
            }
        }
    }

    /// The gradient of sequence i from what its backward pass writes for the taps.
    fn parts(&self, parts: &[crate::Part], i: usize) -> Vec<f64> {
        let (y, kept) = self.forward();
        let (inputs, outputs) = (self.input.values(), self.output().values());
        let starts = &self.starts[i..i + 2];
        let (rows, n) = (starts[0]..starts[1], starts[1] - starts[0]);
        let out = self.rows_out(&(i..i + 1));
        let per_row = self.layer.tapped();
        let mut tapped = vec![f64::NAN; n * per_row];
        let x = &self.x[rows.start * inputs..rows.end * inputs];
        let y = &y[out.start * outputs..out.end * outputs];
        self.layer.backward(Backward {
            n,
            sequences: Sequences::new(starts),
            input: self.input,
            output: self.output(),
            mode: self.mode,
            params: &self.params,
            buffers: &self.buffers,
            x,
            y,
            dy: &self.c[out.start * outputs..out.end * outputs],
            dx: None,
            dparams: None,
            tapped: Some(&mut tapped),
            kept: &kept,
            noise: noise(rows.start),
            scratch: &mut vec![f64::NAN; 3],
        });
        let mut gradient = vec![f64::NAN; self.params.len()];
        for (number, part) in parts.iter().enumerate() {
            let Outer { inputs, outputs, .. } = part.sizes;
            let mut a = Vec::new();
            if !self.layer.tap_part(number, Sequences::new(starts), y, &mut a) {
                a = x.to_vec();
            }
            let delta = |r: usize, o: usize| tapped[r * per_row + part.delta + o];
            for o in 0..outputs {
                for k in 0..inputs {
                    gradient[part.places[0] + o * inputs + k] =
                        (0..n).map(|r| delta(r, o) * a[r * inputs + k]).sum();
                }
                gradient[part.places[1] + o] = (0..n).map(|r| delta(r, o)).sum();
            }
        }
        gradient
    }

    fn outer(&self, sizes: Outer, x: &[f64], dy: &[f64]) -> Vec<f64> {
        let Outer { positions, groups, inputs, outputs, bias } = sizes;
        let mut a = Vec::new();
        if !self.layer.tap_input(self.input, 1, x, &mut a) {
            a = x.to_vec();
        }
        assert_eq!(a.len(), positions * groups * inputs);
        let s = self.layer.tap_scale();
        let mut weight = vec![0.0; groups * outputs * inputs];
        let mut sums = vec![0.0; groups * outputs];
        for p in 0..positions {
            for g in 0..groups {
                for o in 0..outputs {
                    let delta = s * dy[(p * groups + g) * outputs + o];
                    sums[g * outputs + o] += delta / s * self.bias_scale();
                    for k in 0..inputs {
                        weight[(g * outputs + o) * inputs + k] +=
                            delta * a[(p * groups + g) * inputs + k];
                    }
                }
            }
        }
        if bias {
            weight.extend(sums);
        }
        weight
    }

    /// t of a bias, derived from the gradient.
    fn bias_scale(&self) -> f64 {
        self.layer.tap_bias_scale()
    }

    /// Checks everything that must hold for a layer.
    #[expect(clippy::needless_range_loop, reason = "x and the parameters change inside the loops")]
    pub fn check(mut self) {
        let (dx, dparams) = self.backward(0..self.starts.len() - 1);
        let scale = |g: &[f64]| g.iter().fold(1e-3f64, |m, g| m.max(g.abs()));
        let (size_x, size_p) = (scale(&dx), scale(&dparams));
        for i in 0..self.x.len() {
            let at = self.x[i];
            let [up, down] = [H, -H].map(|h| {
                self.x[i] = at + h;
                self.loss()
            });
            self.x[i] = at;
            let want = (up - down) / (2.0 * H);
            assert!(
                (dx[i] - want).abs() < TOLERANCE * size_x,
                "dx[{i}] = {}, differences give {want}",
                dx[i]
            );
        }
        for i in 0..self.params.len() {
            let at = self.params[i];
            let [up, down] = [H, -H].map(|h| {
                self.params[i] = at + h;
                self.loss()
            });
            self.params[i] = at;
            let want = (up - down) / (2.0 * H);
            assert!(
                (dparams[i] - want).abs() < TOLERANCE * size_p,
                "dparams[{i}] = {}, differences give {want}",
                dparams[i]
            );
        }
        if self.layer.scope(self.input, self.mode) == crate::Scope::Samples
            || self.mode == Mode::Frozen
        {
            self.check_samples(&dx, &dparams);
        }
    }

    /// Samples are independent: alone they have the same dx, their gradients add up, and taps reproduce them.
    fn check_samples(&self, dx: &[f64], dparams: &[f64]) {
        let len = self.input.values();
        let mut sum = vec![0.0; dparams.len()];
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * (1.0 + a.abs().max(b.abs()));
        for i in 0..self.starts.len() - 1 {
            let (own, gradient) = self.backward(i..i + 1);
            assert!(
                own.iter().zip(&dx[self.starts[i] * len..]).all(|(a, b)| near(*a, *b)),
                "dx of sample {i} alone"
            );
            let taps = self.gradient_of_taps(i);
            if !gradient.is_empty() {
                assert_eq!(taps.len(), gradient.len());
            }
            for (k, (a, b)) in taps.iter().zip(&gradient).enumerate() {
                assert!(
                    near(*a, *b),
                    "parameter {k} of sample {i}: {a} from taps, {b} from the gradient"
                );
            }
            sum.iter_mut().zip(gradient).for_each(|(s, g)| *s += g);
        }
        for (k, (a, b)) in sum.iter().zip(dparams).enumerate() {
            assert!(
                (a - b).abs() <= 1e-11 * (1.0 + b.abs()),
                "parameter {k}: {a} summed, {b} in one pass"
            );
        }
    }
}
