//! The layer interface: a formula, its gradient, and how both depend on single samples.
//!
//! A layer maps x to y for n samples at once and, given dy = dL/dy, computes dx = dL/dx and the gradient of its
//! parameters. It owns no values: parameters and buffers are stored in flat lists of the network, in the order of
//! [`Layer::parameters`] and [`Layer::buffers`].
//!
//! Most layers treat samples independently ([`Scope::Samples`]): the network passes them a few samples at a time, on several
//! threads, and adds up the gradients of these chunks in order. A layer that needs the whole batch
//! ([`Scope::Batch`]), because samples are coupled or because one large product is faster, splits the work itself, by
//! size and never by the number of threads.

use std::fmt::Debug;

use veridical_core::{Place, Seed, Stream};

use crate::{Float, Result, Sequences, Shape};

/// Mode of a forward or backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Dropout is active and batch norm uses the statistics of the batch.
    Training,
    /// Dropout is off and statistics are frozen, so samples are independent.
    Frozen,
}

/// Number of samples that a layer processes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Any few samples: they are independent.
    Samples,
    /// The whole batch.
    Batch,
}

/// A parameter or buffer of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// PyTorch's name inside the layer: `weight`, `bias`, `running_mean`.
    pub name: &'static str,
    /// Shape in PyTorch.
    pub shape: Vec<usize>,
}

impl Spec {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Random numbers of one layer in one step.
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    /// Random stream of the layer.
    pub stream: Stream,
    /// Training step.
    pub step: u32,
    /// Index in the batch of the first sample of the pass.
    pub first: usize,
}

impl Noise {
    /// Returns the position in the stream of sample `i` of the pass.
    pub fn at(&self, i: usize) -> Place {
        self.stream.at(self.step, (self.first + i) as u64)
    }
}

/// Inputs and outputs of a forward pass from x to y.
#[derive(Debug)]
pub struct Forward<'a, T> {
    /// Number of samples of x.
    pub n: usize,
    /// Division of the samples into sequences; one sample each for networks without sequences.
    pub sequences: Sequences<'a>,
    /// Shape of a sample of x.
    pub input: Shape,
    /// Shape of a sample of y.
    pub output: Shape,
    /// Mode of the pass.
    pub mode: Mode,
    /// Parameters of the layer.
    pub params: &'a [T],
    /// Buffers of the layer.
    pub buffers: &'a [T],
    /// Input of n samples.
    pub x: &'a [T],
    /// Output of n samples, or of one per sequence if the layer pools; holds old values and must be overwritten.
    pub y: &'a mut [T],
    /// Values that a [`Scope::Batch`] layer saves for the backward pass ([`Layer::kept`] of them).
    pub kept: &'a mut [T],
    /// Random numbers of the pass.
    pub noise: Noise,
    /// Scratch memory of any length, holding old values.
    pub scratch: &'a mut Vec<T>,
}

/// Inputs and outputs of a backward pass.
#[derive(Debug)]
pub struct Backward<'a, T> {
    /// Number of samples of x.
    pub n: usize,
    /// Division of the samples into sequences; one sample each for networks without sequences.
    pub sequences: Sequences<'a>,
    /// Shape of a sample of x.
    pub input: Shape,
    /// Shape of a sample of y.
    pub output: Shape,
    /// Mode of the pass.
    pub mode: Mode,
    /// Parameters of the layer.
    pub params: &'a [T],
    /// Buffers of the layer.
    pub buffers: &'a [T],
    /// Input of the forward pass.
    pub x: &'a [T],
    /// Output of the forward pass.
    pub y: &'a [T],
    /// Gradient dL/dy.
    pub dy: &'a [T],
    /// Gradient dL/dx, to be overwritten (not added to); `None` if it is not needed.
    pub dx: Option<&'a mut [T]>,
    /// Gradient of the parameters summed over the n samples, to be overwritten (not added to); `None` if it is not needed.
    pub dparams: Option<&'a mut [T]>,
    /// Values for the taps of a [`Factors::Parts`] layer, to be overwritten ([`Layer::tapped`] per sample of x); `None` if no
    /// taps are wanted.
    pub tapped: Option<&'a mut [T]>,
    /// Values saved by the forward pass.
    pub kept: &'a [T],
    /// Random numbers of the forward pass.
    pub noise: Noise,
    /// Scratch memory of any length, holding old values.
    pub scratch: &'a mut Vec<T>,
}

/// The first `len` values of the scratch memory, holding old values.
pub(crate) fn take<T: Float>(scratch: &mut Vec<T>, len: usize) -> &mut [T] {
    if scratch.len() < len {
        scratch.resize(len, T::ZERO);
    }
    &mut scratch[..len]
}

/// How the gradient of one sample follows from the layer's input a and the gradient delta at its output.
#[derive(Clone, Debug, PartialEq)]
pub enum Factors {
    /// The layer has no parameters.
    None,
    /// dW_g = sum over positions p of delta_gp a_gp', group by group, and the bias, if there is one, sum_p delta_p.
    Outer(Outer),
    /// Several products of the same form, such as those of a recurrent layer with its input and with its state: the backward
    /// pass writes their delta ([`Layer::tapped`]), and [`Layer::tap_part`] their a.
    Parts(Vec<Part>),
    /// Rows of a table are added to the rows of x ([`Layer::tap_rows`]): the gradient of a table row is the sum of delta over
    /// the rows of x that it was added to.
    Rows,
    /// There are few parameters: the gradient of each sample is computed explicitly, by a separate backward pass.
    Direct,
}

/// Sizes of the outer product of a and delta.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outer {
    /// Number of positions of a sample.
    pub positions: usize,
    /// Number of groups of channels that do not mix.
    pub groups: usize,
    /// Number of values of a per position and group.
    pub inputs: usize,
    /// Number of values of delta per position and group.
    pub outputs: usize,
    /// Whether a bias follows the weight.
    pub bias: bool,
}

impl Outer {
    /// Returns the number of parameters: of the weights of all groups, and of the bias.
    pub fn parameters(self) -> usize {
        self.groups * self.outputs * (self.inputs + usize::from(self.bias))
    }
}

/// One of several products whose sum over positions is a gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Name inside the layer.
    pub name: &'static str,
    /// Sizes of the product; one position per row.
    pub sizes: Outer,
    /// Where the weight and the bias begin in the parameters of the layer.
    pub places: [usize; 2],
    /// Where delta begins in the values that the backward pass writes for a row.
    pub delta: usize,
}

/// A kind of layer: forward and backward pass, parameters, and factors of the gradient of a sample.
pub trait Layer<T: Float>: Debug + Send + Sync {
    /// Returns the shape of a sample of y.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] if the layer does not accept such an input.
    fn output(&self, input: Shape) -> Result<Shape>;

    /// Lists the parameters, in the order of storage.
    fn parameters(&self) -> Vec<Spec> {
        Vec::new()
    }

    /// Lists the buffers, such as running statistics, in the order of storage.
    fn buffers(&self) -> Vec<Spec> {
        Vec::new()
    }

    /// Initializes the parameters from the random stream of the layer's `name`, and sets the buffers.
    fn initialize(&self, _params: &mut [T], _buffers: &mut [T], _seed: Seed, _name: &str) {}

    /// Returns which samples the layer processes at once.
    fn scope(&self, _input: Shape, _mode: Mode) -> Scope {
        Scope::Samples
    }

    /// Returns whether y has one sample per sequence of x instead of one per sample.
    fn pools(&self) -> bool {
        false
    }

    /// Returns the number of values that a [`Scope::Batch`] layer saves between the two passes.
    fn kept(&self, _input: Shape) -> usize {
        0
    }

    /// Computes y from x.
    fn forward(&self, pass: Forward<'_, T>);

    /// Computes dx and the gradient of the parameters from dy.
    fn backward(&self, pass: Backward<'_, T>);

    /// Updates the buffers after a forward pass in training, from the saved values.
    fn settle(&self, _kept: &[T], _buffers: &mut [T]) {}

    /// Returns how the gradient of one sample factors.
    fn factors(&self, _input: Shape) -> Factors {
        Factors::None
    }

    /// For [`Factors::Outer`]: writes the input a of `n` samples, n x positions x groups x inputs; returns `false` if x already
    /// has that form.
    fn tap_input(&self, _input: Shape, _n: usize, _x: &[T], _a: &mut Vec<T>) -> bool {
        false
    }

    /// For [`Factors::Parts`]: returns the number of values that a backward pass writes for the taps of each row of x.
    fn tapped(&self) -> usize {
        0
    }

    /// For [`Factors::Parts`]: writes the input a of a part, one row per row of x; returns `false` if it is x itself.
    fn tap_part(&self, _part: usize, _sequences: Sequences<'_>, _y: &[T], _a: &mut Vec<T>) -> bool {
        false
    }

    /// For [`Factors::Rows`]: writes which row of the table was added to each row of x.
    fn tap_rows(&self, _sequences: Sequences<'_>, _rows: &mut Vec<usize>) {}

    /// For [`Factors::Outer`]: returns the factor from dy to delta.
    fn tap_scale(&self) -> T {
        T::ONE
    }

    /// For [`Factors::Outer`] with a bias: returns the factor from the sum of dy over positions to the gradient of the bias.
    fn tap_bias_scale(&self) -> T {
        T::ONE
    }

    /// Returns the layer as a dense layer, if it is one, which a refit can solve for.
    fn as_linear(&self) -> Option<&crate::layers::Linear> {
        None
    }

    /// Converts parameter `which` from PyTorch's order of values to the layer's; most layers have the same order.
    fn import(&self, _which: usize, _values: &mut Vec<T>) {}

    /// Converts parameter `which` from the layer's order of values to PyTorch's.
    fn export(&self, _which: usize, _values: &mut Vec<T>) {}
}
