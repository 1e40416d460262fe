//! A network: layers in topological order, each reading outputs of earlier ones.
//!
//! Slot 0 is the input and slot i + 1 the output of node i. Nodes apply a layer to one slot, add two slots
//! (residual connections) or concatenate two. Parameters and buffers of all nodes are stored in two flat lists, so optimizers,
//! checkpoints and norms see one slice.

use std::ops::Range;

use veridical_core::{Seed, Stream};

use crate::{Error, Factors, Float, Layer, Mode, Result, Scope, Shape, Spec};

/// Handle to the output of a node, or to the input of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub(crate) usize);

/// Operation of a node.
#[derive(Debug)]
pub(crate) enum Op<T> {
    Layer(Box<dyn Layer<T>>),
    /// The sum of two slots, followed by relu if `relu`.
    Add {
        other: usize,
        relu: bool,
    },
    /// The concatenation of two slots.
    Join {
        other: usize,
    },
}

/// One node of the network.
#[derive(Debug)]
pub(crate) struct Node<T> {
    pub name: String,
    pub op: Op<T>,
    /// The slot that is read.
    pub from: usize,
    pub input: Shape,
    pub output: Shape,
    /// Whether it outputs one sample per sequence instead of one per row.
    pub is_pooled: bool,
    pub params: Range<usize>,
    pub buffers: Range<usize>,
    /// Random stream of this node.
    pub stream: Stream,
}

impl<T: Float> Node<T> {
    pub fn scope(&self, mode: Mode) -> Scope {
        match &self.op {
            Op::Layer(layer) => layer.scope(self.input, mode),
            Op::Add { .. } | Op::Join { .. } => Scope::Samples,
        }
    }

    pub fn layer(&self) -> Option<&dyn Layer<T>> {
        match &self.op {
            Op::Layer(layer) => Some(&**layer),
            Op::Add { .. } | Op::Join { .. } => None,
        }
    }

    pub fn factors(&self) -> Factors {
        self.layer().map_or(Factors::None, |layer| layer.factors(self.input))
    }

    /// The slots that are read.
    pub fn reads(&self) -> impl Iterator<Item = usize> {
        let other = match self.op {
            Op::Add { other, .. } | Op::Join { other } => Some(other),
            Op::Layer(_) => None,
        };
        std::iter::once(self.from).chain(other)
    }
}

/// A network: layers with their parameters and buffers.
#[derive(Debug)]
pub struct Net<T> {
    pub(crate) nodes: Vec<Node<T>>,
    input: Shape,
    /// All learned parameters.
    pub params: Vec<T>,
    /// All buffers, such as running statistics.
    pub buffers: Vec<T>,
}

/// A parameter or buffer of a network, under PyTorch's name.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// Name in PyTorch, such as `layer1.0.conv1.weight`.
    pub name: String,
    /// Shape in PyTorch.
    pub shape: Vec<usize>,
    /// Range in [`Net::params`] or [`Net::buffers`].
    pub place: Range<usize>,
    /// Whether it is a parameter rather than a buffer.
    pub is_parameter: bool,
    pub(crate) node: usize,
    pub(crate) which: usize,
}

/// Builds a network layer by layer.
///
/// ```
/// use veridical_core::Seed;
/// use veridical_nets::layers::{Activation, Kind, Linear};
/// use veridical_nets::{Builder, Shape};
///
/// let mut builder = Builder::<f32>::new(Shape::row(4), Seed::new(0)?);
/// let input = builder.last();
/// builder.push("fc1", Linear::new(4, 4))?;
/// let hidden = builder.push("act", Activation::new(Kind::Relu))?;
/// builder.add("sum", input, hidden, false)?; // a residual connection
/// builder.push("fc2", Linear::new(4, 2))?;
/// let net = builder.finish()?;
/// assert_eq!((net.outputs(), net.params.len()), (2, 4 * 4 + 4 + 4 * 2 + 2));
/// # Ok::<(), veridical_nets::Error>(())
/// ```
#[derive(Debug)]
pub struct Builder<T> {
    net: Net<T>,
    seed: Seed,
}

impl<T: Float> Builder<T> {
    /// Starts a network without layers; `seed` determines its initialization and its random numbers.
    pub fn new(input: Shape, seed: Seed) -> Self {
        let net = Net { nodes: Vec::new(), input, params: Vec::new(), buffers: Vec::new() };
        Self { net, seed }
    }

    /// Returns the output of the last layer.
    pub fn last(&self) -> Slot {
        Slot(self.net.nodes.len())
    }

    /// Returns the shape of a sample in a slot.
    pub fn shape(&self, slot: Slot) -> Shape {
        self.net.shape(slot.0)
    }

    /// Adds a layer after the last one.
    ///
    /// # Errors
    /// [`Error::Shape`] if the layer does not accept its input.
    pub fn push(&mut self, name: &str, layer: impl Layer<T> + 'static) -> Result<Slot> {
        self.after(self.last(), name, layer)
    }

    /// Adds a layer that reads the given slot.
    ///
    /// # Errors
    /// [`Error::Shape`] if the layer does not accept its input.
    pub fn after(
        &mut self,
        from: Slot,
        name: &str,
        layer: impl Layer<T> + 'static,
    ) -> Result<Slot> {
        let input = self.shape(from);
        let output = layer.output(input).map_err(|error| match error {
            Error::Shape { what, .. } => Error::Shape { layer: name.into(), what },
            other => other,
        })?;
        let grow = |values: &mut Vec<T>, specs: Vec<Spec>| {
            let first = values.len();
            values.resize(first + specs.iter().map(Spec::len).sum::<usize>(), T::ZERO);
            first..values.len()
        };
        let params = grow(&mut self.net.params, layer.parameters());
        let buffers = grow(&mut self.net.buffers, layer.buffers());
        layer.initialize(
            &mut self.net.params[params.clone()],
            &mut self.net.buffers[buffers.clone()],
            self.seed,
            name,
        );
        let stream = Stream::new(self.seed, &format!("noise/{name}"));
        let is_pooled = layer.pools() || self.net.is_pooled(from.0);
        let op = Op::Layer(Box::new(layer));
        let (name, from) = (name.to_owned(), from.0);
        let node = Node { name, op, from, input, output, is_pooled, params, buffers, stream };
        self.net.nodes.push(node);
        Ok(self.last())
    }

    /// Adds the sum of two slots, followed by relu if `relu`.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes differ.
    pub fn add(&mut self, name: &str, a: Slot, b: Slot, relu: bool) -> Result<Slot> {
        let (input, other) = (self.shape(a), self.shape(b));
        if input != other || self.net.is_pooled(a.0) != self.net.is_pooled(b.0) {
            let what = format!("cannot add {input} and {other}");
            return Err(Error::Shape { layer: name.into(), what });
        }
        Ok(self.combine(name, a, Op::Add { other: b.0, relu }, input))
    }

    /// Adds the concatenation of two slots, sample by sample.
    ///
    /// # Errors
    /// [`Error::Shape`] if they are not rows of the same samples.
    pub fn join(&mut self, name: &str, a: Slot, b: Slot) -> Result<Slot> {
        let (input, other) = (self.shape(a), self.shape(b));
        let (wide, more) = (input.values(), other.values());
        let are_rows = input == Shape::row(wide) && other == Shape::row(more);
        if !are_rows || self.net.is_pooled(a.0) != self.net.is_pooled(b.0) {
            let what = format!("cannot concatenate {input} and {other}");
            return Err(Error::Shape { layer: name.into(), what });
        }
        Ok(self.combine(name, a, Op::Join { other: b.0 }, Shape::row(wide + more)))
    }

    fn combine(&mut self, name: &str, from: Slot, op: Op<T>, output: Shape) -> Slot {
        let (p, b) = (self.net.params.len(), self.net.buffers.len());
        self.net.nodes.push(Node {
            name: name.into(),
            op,
            from: from.0,
            input: self.shape(from),
            output,
            is_pooled: self.net.is_pooled(from.0),
            params: p..p,
            buffers: b..b,
            stream: Stream::new(self.seed, name),
        });
        self.last()
    }

    /// Returns the finished network.
    ///
    /// # Errors
    /// A request error if it has no layer.
    pub fn finish(self) -> Result<Net<T>> {
        match self.net.nodes.is_empty() {
            true => Err(Error::request("a network needs at least one layer".into())),
            false => Ok(self.net),
        }
    }
}

impl<T: Float> Net<T> {
    /// Returns the shape of a sample.
    pub fn input(&self) -> Shape {
        self.input
    }

    /// Returns the number of outputs per sample.
    pub fn outputs(&self) -> usize {
        self.shape(self.nodes.len()).values()
    }

    pub(crate) fn shape(&self, slot: usize) -> Shape {
        slot.checked_sub(1).map_or(self.input, |node| self.nodes[node].output)
    }

    /// Whether a slot has one sample per sequence instead of one per row.
    pub(crate) fn is_pooled(&self, slot: usize) -> bool {
        slot.checked_sub(1).is_some_and(|node| self.nodes[node].is_pooled)
    }

    /// Returns the names of the nodes, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.name.as_str())
    }

    /// Returns the names of the layers that do more than apply a function to each value: those with parameters, and those that
    /// change the number of values, such as pooling.
    pub fn maps(&self) -> impl Iterator<Item = &str> {
        let maps = |node: &&Node<T>| {
            let changes = node.input.values() != node.output.values();
            let pools = node.layer().is_some_and(|layer| layer.pools() || changes);
            !node.params.is_empty() || pools
        };
        self.nodes.iter().filter(maps).map(|node| node.name.as_str())
    }

    /// Returns the shape of the output of a node.
    pub fn output_of(&self, name: &str) -> Option<Shape> {
        self.nodes.iter().find(|node| node.name == name).map(|node| node.output)
    }

    /// Returns whether a node has one output per sequence, not one per position.
    pub fn is_of_sequences(&self, name: &str) -> Option<bool> {
        let node = self.nodes.iter().position(|node| node.name == name)?;
        Some(self.is_pooled(node + 1))
    }

    /// Lists parameters and buffers in the order of PyTorch's `state_dict`.
    pub fn tensors(&self) -> Vec<Named> {
        let mut named = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            let Some(layer) = node.layer() else { continue };
            let lists = [
                (layer.parameters(), node.params.start, true),
                (layer.buffers(), node.buffers.start, false),
            ];
            for (specs, mut first, is_parameter) in lists {
                for (which, spec) in specs.into_iter().enumerate() {
                    let place = first..first + spec.len();
                    first = place.end;
                    let name = match node.name.as_str() {
                        "" => spec.name.to_owned(),
                        own => format!("{own}.{}", spec.name),
                    };
                    named.push(Named {
                        name,
                        shape: spec.shape,
                        place,
                        is_parameter,
                        node: number,
                        which,
                    });
                }
            }
        }
        named
    }

    /// The index of the last node with parameters: the head that a refit solves for.
    pub(crate) fn head(&self) -> Option<usize> {
        self.nodes.iter().rposition(|node| !node.params.is_empty())
    }

    /// Returns the name of the last layer with parameters.
    pub fn head_name(&self) -> Option<&str> {
        self.head().map(|head| self.nodes[head].name.as_str())
    }
}
