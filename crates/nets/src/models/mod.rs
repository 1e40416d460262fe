//! Architectures by name.
//!
//! | name | layers |
//! |---|---|
//! | `mlp:512,512` | dense layers with an activation between them |
//! | `cnn-small` | two convolutions with pooling, two dense layers, for images of about 28 x 28 |
//! | `cnn:32,32,max,64,64,max` | 3 x 3 convolutions with batch norm, max pooling at `max`, global average pooling, a dense layer |
//! | `resnet20` .. `resnet56` | the CIFAR family of He et al. 2015, zero-padded shortcuts |
//! | `resnet18`, `resnet34` | for 32 x 32: a 3 x 3 stem without pooling, projection shortcuts |
//!
//! Sequence models are built from their sizes: [`TransformerBlock`], [`Sasrec`], [`Bert`].

mod bert;
mod cnn;
mod mlp;
mod resnet;
mod sasrec;
mod transformer;

use std::fmt;
use std::str::FromStr;

pub use bert::Bert;
pub use sasrec::Sasrec;
pub use transformer::TransformerBlock;
use veridical_core::{Error as CoreError, Seed};

use crate::layers::{Activation, Kind, Parameterization};
use crate::{Error, Float, Net, Result, Shape};

const RELU: Activation = Activation::new(Kind::Relu);

/// Architecture of a network: which layers in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Multilayer perceptron with hidden layers of these widths.
    Mlp(Vec<usize>),
    /// Two convolutions and two dense layers.
    CnnSmall,
    /// Convolutions of these widths; `None` is max pooling.
    Cnn(Vec<Option<usize>>),
    /// CIFAR ResNet with 6 n + 2 layers.
    CifarResNet {
        /// Number of layers: 20, 32, 44 or 56.
        depth: usize,
    },
    /// ResNet with four stages of basic blocks.
    ResNet {
        /// Number of layers: 18 or 34.
        depth: usize,
    },
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let commas = |items: Vec<String>| items.join(",");
        match self {
            Self::Mlp(widths) => {
                write!(f, "mlp:{}", commas(widths.iter().map(ToString::to_string).collect()))
            }
            Self::CnnSmall => f.write_str("cnn-small"),
            Self::Cnn(blocks) => {
                let block = |block: &Option<usize>| block.map_or("max".into(), |w| w.to_string());
                write!(f, "cnn:{}", commas(blocks.iter().map(block).collect()))
            }
            Self::CifarResNet { depth } | Self::ResNet { depth } => write!(f, "resnet{depth}"),
        }
    }
}

impl FromStr for Architecture {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || {
            let known = "mlp:512,512, cnn-small, cnn:32,max,64,max, resnet20, resnet32, resnet44, resnet56, resnet18, resnet34";
            Error::request(format!("⟨model⟩ `{text}` is unknown; choose one of {known}"))
        };
        let width = |item: &str| item.trim().parse().ok().filter(|w| (1..=1 << 20).contains(w));
        match text.split_once(':') {
            Some(("mlp", "")) => Ok(Self::Mlp(Vec::new())),
            Some(("mlp", list)) => {
                list.split(',').map(width).collect::<Option<_>>().map(Self::Mlp).ok_or_else(unknown)
            }
            Some(("cnn", list)) => {
                let block = |item| match item {
                    "max" => Some(None),
                    other => width(other).map(Some),
                };
                let blocks: Vec<_> =
                    list.split(',').map(block).collect::<Option<_>>().ok_or_else(unknown)?;
                blocks.iter().any(Option::is_some).then_some(Self::Cnn(blocks)).ok_or_else(unknown)
            }
            Some(_) => Err(unknown()),
            None => match text {
                "mlp" => Ok(Self::Mlp(vec![512, 512])),
                "cnn-small" => Ok(Self::CnnSmall),
                "resnet20" => Ok(Self::CifarResNet { depth: 20 }),
                "resnet32" => Ok(Self::CifarResNet { depth: 32 }),
                "resnet44" => Ok(Self::CifarResNet { depth: 44 }),
                "resnet56" => Ok(Self::CifarResNet { depth: 56 }),
                "resnet18" => Ok(Self::ResNet { depth: 18 }),
                "resnet34" => Ok(Self::ResNet { depth: 34 }),
                _ => Err(unknown()),
            },
        }
    }
}

/// Initialization of the parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Init {
    /// The default of the architecture.
    #[default]
    Usual,
    /// Pairs of units that cancel, so that the network is initially 0 everywhere (paper 003, initialization). MLPs only.
    Symmetric,
}

/// Everything that determines an untrained network.
///
/// ```
/// use veridical_core::Seed;
/// use veridical_nets::{NetConfig, Shape};
///
/// let model = NetConfig::new("cnn-small".parse()?, Shape::image(28, 28, 1), 10);
/// let net = model.build::<f32>(Seed::new(0)?)?;
/// assert_eq!((net.outputs(), net.head_name()), (10, Some("fc2")));
/// # Ok::<(), veridical_nets::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NetConfig {
    /// Architecture of the network.
    pub architecture: Architecture,
    /// Shape of a sample.
    pub input: Shape,
    /// Number of outputs.
    pub outputs: usize,
    /// Activation of an MLP and of `cnn-small`; other architectures use relu.
    pub activation: Activation,
    /// Parameterization of the layers of an MLP.
    pub parameterization: Parameterization,
    /// Initialization of the parameters.
    pub init: Init,
    /// Dropout probability after each hidden layer of an MLP, and before the output of `cnn-small`.
    pub dropout: f64,
}

impl NetConfig {
    /// Creates a model with relu, in the standard parameterization.
    pub fn new(architecture: Architecture, input: Shape, outputs: usize) -> Self {
        Self {
            architecture,
            input,
            outputs,
            activation: RELU,
            parameterization: Parameterization::Standard,
            init: Init::Usual,
            dropout: 0.0,
        }
    }

    /// Builds the network, initialized from a random seed.
    ///
    /// # Errors
    /// [`Error::Shape`] if the input is too small or has too few dimensions, a request error for options that the
    /// architecture does not support.
    pub fn build<T: Float>(&self, seed: Seed) -> Result<Net<T>> {
        if self.input.values() == 0 || self.outputs == 0 {
            return Err(Error::request("a network needs inputs and outputs".into()));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(
                CoreError::setting("dropout", "at least 0 and below 1", self.dropout).into()
            );
        }
        let is_mlp = matches!(self.architecture, Architecture::Mlp(_));
        let is_small = self.architecture == Architecture::CnnSmall;
        let refuse = |flag: &str| {
            Err(Error::request(format!("{flag} is not supported by {}", self.architecture)))
        };
        if !is_mlp && self.parameterization != Parameterization::Standard {
            return refuse("⟨parameterization⟩ ntk");
        }
        if !is_mlp && self.init != Init::Usual {
            return refuse("⟨symmetric⟩");
        }
        if !is_mlp && !is_small && self.dropout > 0.0 {
            return refuse("⟨dropout⟩");
        }
        if !is_mlp && !is_small && self.activation != RELU {
            return refuse("⟨activation⟩");
        }
        match &self.architecture {
            Architecture::Mlp(hidden) => mlp::build(self, hidden, seed),
            Architecture::CnnSmall => cnn::small(self, seed),
            Architecture::Cnn(blocks) => cnn::blocks(self, blocks, seed),
            Architecture::CifarResNet { depth } => resnet::cifar(self, *depth, seed),
            Architecture::ResNet { depth } => resnet::staged(self, *depth, seed),
        }
    }
}
