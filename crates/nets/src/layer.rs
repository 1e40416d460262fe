//! What a layer is: a formula, its gradient, and how both depend on single samples.
//!
//! A layer maps x to y for n samples at once and, given dy = dL/dy, computes dx = dL/dx and the gradient of its
//! parameters. It owns no numbers: parameters and buffers stand in flat lists of the network, in the order of
//! [`Layer::parameters`] and [`Layer::buffers`].
//!
//! Most layers treat samples apart ([`Scope::Samples`]): the network hands them a few samples at a time, on several
//! threads, and adds up the gradients of these chunks in order. A layer that wants the whole batch
//! ([`Scope::Batch`]), because samples are coupled or because one large product is faster, divides the work itself, by
//! sizes and never by threads.

use std::fmt::Debug;

use veridical_core::{Place, Seed, Stream};

use crate::{Float, Result, Sequences, Shape};

/// What a pass is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Dropout is on and batch norm uses the statistics of the batch.
    Training,
    /// Dropout is off and statistics are frozen: samples do not see each other.
    Frozen,
}

/// How many samples a layer wants to see at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Any few: samples are treated apart.
    Samples,
    /// All.
    Batch,
}

/// A list of numbers of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// PyTorch's name inside the layer: `weight`, `bias`, `running_mean`.
    pub name: &'static str,
    /// PyTorch's shape.
    pub shape: Vec<usize>,
}

impl Spec {
    /// How many numbers.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The random numbers of one layer in one step.
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    /// The layer's stream.
    pub stream: Stream,
    /// The step of the training.
    pub step: u32,
    /// The number of the first sample of the pass in its batch.
    pub first: usize,
}

impl Noise {
    /// The place of sample `i` of the pass.
    pub fn at(&self, i: usize) -> Place {
        self.stream.at(self.step, (self.first + i) as u64)
    }
}

/// The way from x to y.
#[derive(Debug)]
pub struct Forward<'a, T> {
    /// How many samples of x.
    pub n: usize,
    /// How they divide into sequences; one each where the network has none.
    pub sequences: Sequences<'a>,
    /// The size of a sample of x.
    pub input: Shape,
    /// The size of a sample of y.
    pub output: Shape,
    /// What the pass is for.
    pub mode: Mode,
    /// The layer's parameters.
    pub params: &'a [T],
    /// The layer's buffers.
    pub buffers: &'a [T],
    /// n samples.
    pub x: &'a [T],
    /// n samples, or one per sequence if the layer pools, to be written; holds old values.
    pub y: &'a mut [T],
    /// What the layer keeps of a batch for the way back ([`Layer::kept`] numbers).
    pub kept: &'a mut [T],
    /// Random numbers.
    pub noise: Noise,
    /// Room to work in, of any length, holding old values.
    pub room: &'a mut Vec<T>,
}

/// The way back.
#[derive(Debug)]
pub struct Backward<'a, T> {
    /// How many samples of x.
    pub n: usize,
    /// How they divide into sequences; one each where the network has none.
    pub sequences: Sequences<'a>,
    /// The size of a sample of x.
    pub input: Shape,
    /// The size of a sample of y.
    pub output: Shape,
    /// What the pass is for.
    pub mode: Mode,
    /// The layer's parameters.
    pub params: &'a [T],
    /// The layer's buffers.
    pub buffers: &'a [T],
    /// As on the way forward.
    pub x: &'a [T],
    /// As on the way forward.
    pub y: &'a [T],
    /// dL/dy.
    pub dy: &'a [T],
    /// dL/dx, to be written (not added to); `None` if nobody needs it.
    pub dx: Option<&'a mut [T]>,
    /// The gradient of the parameters summed over the n samples, to be written (not added to); `None` if nobody needs
    /// it.
    pub dparams: Option<&'a mut [T]>,
    /// What was kept on the way forward.
    pub kept: &'a [T],
    /// Random numbers, those of the way forward.
    pub noise: Noise,
    /// Room to work in, of any length, holding old values.
    pub room: &'a mut Vec<T>,
}

/// So many numbers of a room, holding old values.
pub(crate) fn take<T: Float>(room: &mut Vec<T>, len: usize) -> &mut [T] {
    if room.len() < len {
        room.resize(len, T::ZERO);
    }
    &mut room[..len]
}

/// How the gradient of one sample follows from the layer's input a and the gradient delta at its output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Factors {
    /// The layer has no parameters.
    None,
    /// dW_g = sum over positions p of delta_gp a_gp', group by group, and the bias, if there is one, sum_p delta_p.
    Outer(Outer),
    /// Rows of a table are added to the rows of x ([`Layer::tap_rows`]): the gradient of such a row is the sum of delta over
    /// the rows of x that it was added to.
    Rows,
    /// Few parameters: the gradients of each sample are formed, by a backward pass of its own.
    Direct,
}

/// The sizes of an outer product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outer {
    /// Positions of a sample.
    pub positions: usize,
    /// Groups of channels that do not mix.
    pub groups: usize,
    /// Values of a per position and group.
    pub inputs: usize,
    /// Values of delta per position and group.
    pub outputs: usize,
    /// Whether a bias follows the weight.
    pub bias: bool,
}

/// One kind of layer.
pub trait Layer<T: Float>: Debug + Send + Sync {
    /// The size of a sample of y.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] if such an input cannot be taken.
    fn output(&self, input: Shape) -> Result<Shape>;

    /// What is learned.
    fn parameters(&self) -> Vec<Spec> {
        Vec::new()
    }

    /// What is kept besides, such as running statistics.
    fn buffers(&self) -> Vec<Spec> {
        Vec::new()
    }

    /// Draws the first parameters, from a stream of the layer's own `name`, and sets the buffers.
    fn initialise(&self, _params: &mut [T], _buffers: &mut [T], _seed: Seed, _name: &str) {}

    /// Which samples it wants to see at once.
    fn scope(&self, _input: Shape, _mode: Mode) -> Scope {
        Scope::Samples
    }

    /// Whether y has one sample for each sequence of x instead of one for each sample.
    fn pools(&self) -> bool {
        false
    }

    /// How many numbers a [`Scope::Batch`] layer keeps between the two passes.
    fn kept(&self, _input: Shape) -> usize {
        0
    }

    /// y from x.
    fn forward(&self, pass: Forward<'_, T>);

    /// dx and the gradient of the parameters from dy.
    fn backward(&self, pass: Backward<'_, T>);

    /// Updates the buffers after a forward pass in training, from what was kept.
    fn settle(&self, _kept: &[T], _buffers: &mut [T]) {}

    /// How the gradient of one sample factors.
    fn factors(&self, _input: Shape) -> Factors {
        Factors::None
    }

    /// Of [`Factors::Outer`]: the input a of `n` samples, n x positions x groups x inputs; `None` if x is already
    /// that.
    fn tap_input(&self, _input: Shape, _n: usize, _x: &[T], _a: &mut Vec<T>) -> bool {
        false
    }

    /// Of [`Factors::Rows`]: which row of the table was added to each row of x.
    fn tap_rows(&self, _sequences: Sequences<'_>, _rows: &mut Vec<usize>) {}

    /// Of [`Factors::Outer`]: what dy is multiplied with to be delta.
    fn tap_scale(&self) -> T {
        T::ONE
    }

    /// Of [`Factors::Outer`] with a bias: what the sum of dy over positions is multiplied with to be its gradient.
    fn tap_bias_scale(&self) -> T {
        T::ONE
    }

    /// The dense layer that it is, if it is one: what a refit can solve for.
    fn as_linear(&self) -> Option<&crate::layers::Linear> {
        None
    }

    /// From PyTorch's order of the numbers of parameter `which` to the layer's own; most have the same.
    fn import(&self, _which: usize, _values: &mut Vec<T>) {}

    /// From the layer's own order to PyTorch's.
    fn export(&self, _which: usize, _values: &mut Vec<T>) {}
}
