//! Recurrent layers: a cell with a state of `hidden` values runs along each sequence, row by row.
//!
//! h_t = cell(x_t, h_{t-1}) with h_0 = 0; y_t = h_t. In the backward direction the cell runs from the last row to the first;
//! bidirectional layers have two cells with separate parameters and y_t = [h_t forward, h_t backward].
//!
//! Cells depend on x and h only through W_ih x + b_ih and W_hh h + b_hh (`gates` x `hidden` values each), so the products
//! with x are a single product over all rows. Those with h run time step by time step over the sequences that have not ended,
//! longest first. In the backward pass all h are known from y, so the gates of all rows are recomputed by two large products;
//! only the deltas run time step by time step, and the gradients are again large products:
//!
//! dW_ih = sum_t delta_t x_t', dW_hh = sum_t epsilon_t h_{t-1}', dx_t = W_ih' delta_t,
//! dh_{t-1} = W_hh' epsilon_t + the part that the cell passes on,
//! where delta_t and epsilon_t are the gradients at W_ih x + b_ih and at W_hh h + b_hh.
//!
//! Names, order and initialization are those of PyTorch's `nn.GRU` and `nn.LSTM`.

mod gru;
mod lstm;
mod steps;

use std::fmt::Debug;
use std::marker::PhantomData;

use veridical_core::{Seed, Stream};

use super::linear::{column_sums, uniform};
use crate::float::wide;
use crate::layer::take;
use crate::product::{Matrix, whole};
use crate::{
    Backward, Error, Factors, Float, Forward, Layer, Outer, Part, Result, Sequences, Shape, Spec,
};
pub use gru::GruCell;
pub use lstm::LstmCell;
use steps::{Packed, Steps};

/// Gated recurrent unit layer.
pub type Gru = Recurrent<GruCell>;
/// Long short-term memory layer.
pub type Lstm = Recurrent<LstmCell>;

/// Direction in which a cell runs along a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the first row to the last.
    Forward,
    /// From the last row to the first.
    Backward,
    /// Both directions, with outputs side by side.
    Both,
}

/// One step of a recurrent cell, row by row. p is W_ih x + b_ih and q is W_hh h + b_hh, gate by gate.
pub trait Cell: Debug + Clone + Send + Sync + 'static {
    /// Number of gates.
    const GATES: usize;
    /// Whether the cell has a memory besides h.
    const HAS_MEMORY: bool;
    /// Name in PyTorch, for messages.
    const NAME: &'static str;

    /// Computes the next h and the next memory.
    fn step<T: Float>(p: &[T], q: &mut [T], h: &mut [T], memory: &mut [T]);

    /// Prepares p and q for `back`. `before` is h, or the memory of a cell that has one; then `after` is the next memory.
    fn recall<T: Float>(p: &mut [T], q: &mut [T], before: &[T], after: &mut [T]);

    /// Computes delta in p and epsilon in q from dL/dh in `dh` and the gradient of the memory in `dmemory`.
    ///
    /// Then `dh` is the part of dL/dh_{t-1} that does not pass through epsilon, and `dmemory` the gradient of the previous memory.
    fn back<T: Float>(p: &mut [T], q: &mut [T], before: &[T], dh: &mut [T], dmemory: &mut [T]);
}

/// A recurrent layer that runs a cell along sequences.
#[derive(Clone, Debug)]
pub struct Recurrent<C> {
    inputs: usize,
    hidden: usize,
    direction: Direction,
    cell: PhantomData<C>,
}

impl<C: Cell> Recurrent<C> {
    /// Creates a layer from rows of `inputs` values to rows of `hidden` values, or twice as many in both directions.
    pub fn new(inputs: usize, hidden: usize, direction: Direction) -> Self {
        Self { inputs, hidden, direction, cell: PhantomData }
    }

    /// Values of y per row.
    fn outputs(&self) -> usize {
        self.hidden * self.directions().len()
    }

    /// Whether each cell runs backward.
    fn directions(&self) -> &'static [bool] {
        match self.direction {
            Direction::Forward => &[false],
            Direction::Backward => &[true],
            Direction::Both => &[false, true],
        }
    }

    fn gates(&self) -> usize {
        C::GATES * self.hidden
    }

    /// Number of parameters of one cell.
    fn count(&self) -> usize {
        self.gates() * (self.inputs + self.hidden + 2)
    }

    /// Splits the parameters into W_ih, W_hh, b_ih, b_hh.
    fn split<'a, T>(&self, params: &'a [T]) -> [&'a [T]; 4] {
        let (w_ih, rest) = params.split_at(self.gates() * self.inputs);
        let (w_hh, rest) = rest.split_at(self.gates() * self.hidden);
        let (b_ih, b_hh) = rest.split_at(self.gates());
        [w_ih, w_hh, b_ih, b_hh]
    }

    /// Computes W x + b for n rows.
    fn project<T: Float>(&self, n: usize, w: &[T], b: &[T], x: &[T], to: &mut [T]) {
        to.chunks_exact_mut(b.len()).for_each(|row| row.copy_from_slice(b));
        let inputs = w.len() / b.len();
        let weight = Matrix::rows(w, b.len(), inputs).transposed();
        whole(to, true, T::ONE, Matrix::rows(x, n, inputs), weight);
    }

    /// Recomputes the gates of all rows, and the memory before each row.
    fn recall<T: Float>(
        &self,
        steps: &Steps<'_>,
        [p, q]: [&mut [T]; 2],
        states: &[T],
        memories: &mut [T],
        after: &mut [T],
    ) {
        let (g, h) = (self.gates(), self.hidden);
        wide(
            #[inline(always)]
            move || {
                for sequence in 0..steps.len() {
                    after.fill(T::ZERO);
                    for row in steps.rows(sequence) {
                        let (p, q) = (&mut p[row * g..][..g], &mut q[row * g..][..g]);
                        let before = if C::HAS_MEMORY {
                            let memory = &mut memories[row * h..][..h];
                            memory.copy_from_slice(after);
                            memory
                        } else {
                            &states[row * h..][..h]
                        };
                        C::recall(p, q, before, after);
                    }
                }
            },
        );
    }
}

/// h before each row: that of the previous row in time, which is stored in y from column `first` on.
fn shift<T: Float>(
    steps: &Steps<'_>,
    y: &[T],
    outputs: usize,
    first: usize,
    to: &mut [T],
    h: usize,
) {
    for sequence in 0..steps.len() {
        let mut before = None;
        for row in steps.rows(sequence) {
            let to = &mut to[row * h..][..h];
            match before {
                None => to.fill(T::ZERO),
                Some(before) => to.copy_from_slice(&y[before * outputs + first..][..h]),
            }
            before = Some(row);
        }
    }
}

/// Splits scratch memory into parts of the given lengths, holding old values.
fn cut<T: Float, const N: usize>(scratch: &mut Vec<T>, lens: [usize; N]) -> [&mut [T]; N] {
    let mut rest = take(scratch, lens.iter().sum());
    lens.map(|len| rest.split_off_mut(..len).unwrap_or_default())
}

impl<T: Float, C: Cell> Layer<T> for Recurrent<C> {
    fn output(&self, input: Shape) -> Result<Shape> {
        if input != Shape::row(self.inputs) || self.outputs() == 0 {
            let what = format!(
                "expects rows of {} values for {} hidden units, got {input}",
                self.inputs, self.hidden
            );
            return Err(Error::Shape { layer: C::NAME.into(), what });
        }
        Ok(Shape::row(self.outputs()))
    }

    fn parameters(&self) -> Vec<Spec> {
        let (g, d, h) = (self.gates(), self.inputs, self.hidden);
        let specs = |reverse: &bool| {
            let [w_ih, w_hh, b_ih, b_hh] = match reverse {
                false => ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"],
                true => [
                    "weight_ih_l0_reverse",
                    "weight_hh_l0_reverse",
                    "bias_ih_l0_reverse",
                    "bias_hh_l0_reverse",
                ],
            };
            [
                Spec { name: w_ih, shape: vec![g, d] },
                Spec { name: w_hh, shape: vec![g, h] },
                Spec { name: b_ih, shape: vec![g] },
                Spec { name: b_hh, shape: vec![g] },
            ]
        };
        self.directions().iter().flat_map(specs).collect()
    }

    fn initialize(&self, params: &mut [T], _: &mut [T], seed: Seed, name: &str) {
        let stream = Stream::new(seed, &format!("init/{name}"));
        uniform(params, stream, 1.0 / (self.hidden as f64).sqrt());
    }

    fn forward(&self, pass: Forward<'_, T>) {
        let Forward { n, sequences, params, x, y, scratch, .. } = pass;
        let parts = params.chunks_exact(self.count()).zip(self.directions());
        for (which, (params, &reverse)) in parts.enumerate() {
            let (g, h) = (self.gates(), self.hidden);
            let [w_ih, w_hh, b_ih, b_hh] = self.split(params);
            let steps = Steps::new(sequences, reverse);
            let rows = steps.padded();
            let stride = Packed::<T>::padded(g);
            let memory = if C::HAS_MEMORY { rows * h } else { 0 };
            let lens = [n * g, Packed::<T>::len(h, g), rows * stride, rows * h, memory];
            let [p, packed, q, state, memory] = cut(scratch, lens);
            self.project(n, w_ih, b_ih, x, p);
            let packed = Packed::new(packed, Matrix::rows(w_hh, g, h).transposed());
            state.fill(T::ZERO);
            memory.fill(T::ZERO);
            let (y, outputs) = (&mut *y, self.outputs());
            wide(
                #[inline(always)]
                move || {
                    for t in 0..steps.times() {
                        let running = steps.running(t);
                        for q in q.chunks_exact_mut(stride).take(running.len()) {
                            q[..g].copy_from_slice(b_hh);
                        }
                        packed.add_product(state, q, running.len());
                        for (j, &sequence) in running.iter().enumerate() {
                            let row = steps.row(sequence, t);
                            let p = &p[row * g..][..g];
                            let q = &mut q[j * stride..][..g];
                            let state = &mut state[j * h..][..h];
                            let memory =
                                if C::HAS_MEMORY { &mut memory[j * h..][..h] } else { &mut [] };
                            C::step(p, q, state, memory);
                            y[row * outputs + which * h..][..h].copy_from_slice(state);
                        }
                    }
                },
            );
        }
    }

    fn backward(&self, pass: Backward<'_, T>) {
        let Backward { n, sequences, params, x, y, dy, mut dx, mut dparams, .. } = pass;
        let (mut tapped, scratch) = (pass.tapped, pass.scratch);
        let parts = params.chunks_exact(self.count()).zip(self.directions());
        for (which, (params, &reverse)) in parts.enumerate() {
            let (g, h, outputs) = (self.gates(), self.hidden, self.outputs());
            let [w_ih, w_hh, b_ih, b_hh] = self.split(params);
            let steps = Steps::new(sequences, reverse);
            let rows = steps.padded();
            let stride = Packed::<T>::padded(h);
            let memory = |rows: usize| if C::HAS_MEMORY { rows * h } else { 0 };
            let lens = [
                n * g,
                n * g,
                n * h,
                memory(n),
                Packed::<T>::len(g, h),
                rows * g,
                rows * stride,
                memory(rows),
                h,
            ];
            let [p, q, states, memories, packed, epsilon, dh, dmemory, spare] = cut(scratch, lens);
            // h before each row, and the recomputed gates.
            shift(&steps, y, outputs, which * h, states, h);
            self.project(n, w_ih, b_ih, x, p);
            self.project(n, w_hh, b_hh, states, q);
            self.recall(&steps, [&mut *p, &mut *q], states, memories, spare);
            // From the last time step to the first.
            let packed = Packed::new(packed, Matrix::rows(w_hh, g, h));
            epsilon.fill(T::ZERO);
            dh.fill(T::ZERO);
            dmemory.fill(T::ZERO);
            let before = if C::HAS_MEMORY { &*memories } else { &*states };
            {
                let (p, q) = (&mut *p, &mut *q);
                wide(
                    #[inline(always)]
                    move || {
                        for t in (0..steps.times()).rev() {
                            let running = steps.running(t);
                            for (j, &sequence) in running.iter().enumerate() {
                                let row = steps.row(sequence, t);
                                let dh = &mut dh[j * stride..][..h];
                                let dy = &dy[row * outputs + which * h..][..h];
                                dh.iter_mut().zip(dy).for_each(|(dh, &dy)| *dh += dy);
                                let dmemory = if C::HAS_MEMORY {
                                    &mut dmemory[j * h..][..h]
                                } else {
                                    &mut []
                                };
                                let (p, q) = (&mut p[row * g..][..g], &mut q[row * g..][..g]);
                                C::back(p, q, &before[row * h..][..h], dh, dmemory);
                                epsilon[j * g..][..g].copy_from_slice(q);
                            }
                            packed.add_product(epsilon, dh, running.len());
                        }
                    },
                );
            }
            if let Some(tapped) = tapped.as_deref_mut() {
                let rows = tapped.chunks_exact_mut(Layer::<T>::tapped(self));
                for ((to, p), q) in rows.zip(p.chunks_exact(g)).zip(q.chunks_exact(g)) {
                    let to = &mut to[2 * g * which..][..2 * g];
                    to[..g].copy_from_slice(p);
                    to[g..].copy_from_slice(q);
                }
            }
            let delta = Matrix::rows(p, n, g);
            if let Some(dx) = dx.as_deref_mut() {
                whole(dx, which > 0, T::ONE, delta, Matrix::rows(w_ih, g, self.inputs));
            }
            if let Some(dparams) = dparams.as_deref_mut() {
                let own = &mut dparams[which * self.count()..][..self.count()];
                let (dw_ih, rest) = own.split_at_mut(g * self.inputs);
                let (dw_hh, rest) = rest.split_at_mut(g * h);
                let (db_ih, db_hh) = rest.split_at_mut(g);
                whole(dw_ih, false, T::ONE, delta.transposed(), Matrix::rows(x, n, self.inputs));
                let epsilon = Matrix::rows(q, n, g).transposed();
                whole(dw_hh, false, T::ONE, epsilon, Matrix::rows(states, n, h));
                column_sums(p, db_ih);
                column_sums(q, db_hh);
            }
        }
    }

    /// For each direction W_ih with x and delta, and W_hh with the state before and epsilon.
    fn factors(&self, _: Shape) -> Factors {
        let (g, d, h) = (self.gates(), self.inputs, self.hidden);
        let part = |name, inputs, places, delta| {
            let sizes = Outer { positions: 1, groups: 1, inputs, outputs: g, bias: true };
            Part { name, sizes, places, delta }
        };
        let parts = |(which, reverse): (usize, &bool)| {
            let first = which * self.count();
            let biases = first + g * (d + h);
            let [ih, hh] = if *reverse { ["ih_reverse", "hh_reverse"] } else { ["ih", "hh"] };
            [
                part(ih, d, [first, biases], 2 * g * which),
                part(hh, h, [first + g * d, biases + g], 2 * g * which + g),
            ]
        };
        Factors::Parts(self.directions().iter().enumerate().flat_map(parts).collect())
    }

    fn tapped(&self) -> usize {
        2 * self.gates() * self.directions().len()
    }

    fn tap_part(&self, part: usize, sequences: Sequences<'_>, y: &[T], a: &mut Vec<T>) -> bool {
        let (which, is_state) = (part / 2, part % 2 == 1);
        if is_state {
            let (h, outputs) = (self.hidden, self.outputs());
            a.resize(sequences.rows() * h, T::ZERO);
            let steps = Steps::new(sequences, self.directions()[which]);
            shift(&steps, y, outputs, which * h, a, h);
        }
        is_state
    }
}

#[cfg(test)]
mod tests;
