//! Settings of `train net`.
//!
//! Flags, a configuration file and an earlier run are layers of one flat map from the names of settings to values, as for
//! embeddings: a [`Recipe`], which determines a network and its training, and [`NetOptions`]: the data and the seed.

use std::path::Path;

use veridical_core::settings::{Settings as _, SettingsLayer, Values};
use veridical_core::{Job, Seed, choices, settings};
use veridical_data::examples::Dataset;
use veridical_io::examples::ExampleOptions;
use veridical_io::run::RunFolder;
use veridical_io::{ColumnMap, Input};
use veridical_nets::layers::Parameterization;
use veridical_nets::{
    Architecture, Augmentation, Curve, Init, Loss, NetConfig, OptimizerKind, OptimizerSettings,
    Schedule, Shape, TrainerSettings,
};

use super::material::{self, Task};
use super::vectors::LabeledVectors;
use crate::settings::{Start, TextFiles, TrainingSeed};
use crate::{Error, Result, config};

/// The `method` of a run that is a network.
pub const METHOD: &str = "net";
/// Default batch size, unless there are fewer examples.
const BATCH: usize = 128;
/// Options stored in the section `split` of `run.json` under other names.
const SPLIT: [(&str, &str); 3] =
    [("limit", "limit"), ("validation", "validation"), ("split-seed", "seed")];
/// Options that change no byte of the model, or are stored elsewhere in `run.json`.
const ELSEWHERE: [&str; 5] = ["seed", "checkpoint-every", "limit", "validation", "split-seed"];

settings! {
    /// Architecture and training settings of a network: the section `settings` of `run.json`.
    pub struct Recipe in "Training" {
        /// Architecture: mlp:512,512, cnn-small, cnn:32,max,64,max, resnet20|32|44|56, resnet18|34
        pub model: String = String::new() => [heading("Model")],
        /// Activation: relu, gelu, tanh, sigmoid, softplus, erf, normalized-relu etc. (mlp, cnn-small)
        pub activation: String = "relu".into() => [heading("Model")],
        /// Parameterization of weights: standard, ntk, or ntk:BIAS (mlp)
        pub parameterization: String = "standard".into() => [detail(), heading("Model")],
        /// Symmetric initialization: hidden units cancel in pairs, so the initial output is 0 (mlp)
        pub symmetric: bool = false => [detail(), heading("Model"), switch()],
        /// Dropout probability of hidden layers (mlp and cnn-small)
        pub dropout: f64 = 0.0 => [heading("Model"), value("P")],
        /// Layers to freeze: `features` (all but the last), or names such as conv1,layer1
        pub freeze: Option<String> = None => [detail(), heading("Model"), value("NAMES")],
        /// Number of epochs; 0 with ⟨init⟩ imports weights into a run
        pub epochs: u32 = 10,
        /// Batch size
        pub batch: Option<usize> = None => [at_least(1.0), otherwise(format!("{BATCH}; all examples for gd"))],
        /// Optimizer: gd (full batch), sgd, adam, adamw or adagrad
        pub optimizer: OptimizerKind = OptimizerKind::Adam,
        /// Learning rate
        pub lr: Option<f64> = None => [otherwise(by_optimizer(|kind| Some(usual_rate(kind))))],
        /// Momentum (gd and sgd)
        pub momentum: f64 = 0.0 => [detail()],
        /// Use Nesterov momentum
        pub nesterov: bool = false => [detail(), switch()],
        /// Weight decay; decoupled for adamw
        pub weight_decay: Option<f64> = None => [otherwise(by_optimizer(|kind| Some(kind.usual_decay())))],
        /// Learning rate schedule: constant, cosine (to 0), or step:EVERY,FACTOR with EVERY in epochs
        pub schedule: Curve = Curve::Constant => [value("CURVE")],
        /// Warmup steps over which the learning rate rises linearly
        pub warmup: u64 = 0 => [detail(), value("STEPS")],
        /// Clip gradients to this norm
        pub clip: Option<f64> = None => [detail(), value("NORM")],
        /// Loss: cross-entropy, squared or binary-cross-entropy (two classes, one output)
        pub loss: Option<LossName> = None => [detail(), otherwise("cross-entropy; squared with ⟨regression⟩")],
        /// Label smoothing: fraction of the target spread over all classes
        pub label_smoothing: f64 = 0.0 => [detail(), at_least(0.0), below(1.0), value("SHARE")],
        /// Augmentation: flip images horizontally with probability 1/2
        pub flip: bool = false => [detail(), switch()],
        /// Augmentation: shift images by up to N pixels, with zero padding
        pub crop: usize = 0 => [detail()],
        /// Stop after N epochs without a lower validation loss (training loss if none is held out)
        pub patience: Option<u32> = None => [heading(STOPPING), at_least(1.0)],
        /// Minimum decrease of the loss that counts as an improvement
        pub min_delta: f64 = 0.0 => [heading(STOPPING), at_least(0.0)],
    }
}

/// Help heading of the early-stopping flags.
pub(super) const STOPPING: &str = "Early stopping and checkpoints";

choices! {
    /// Training loss.
    pub enum LossName {
        /// For classification
        CrossEntropy = "cross-entropy",
        /// For regression, or classification with numeric targets
        Squared = "squared",
        /// For two classes, with one output
        BinaryCrossEntropy = "binary-cross-entropy",
    }
}

choices! {
    /// Input normalization of a network.
    pub enum Normalize {
        /// Standardize with mean and standard deviation of the training examples
        Data = "data",
        /// No normalization
        None = "none",
    }
}

/// Default learning rate of an optimizer.
fn usual_rate(kind: OptimizerKind) -> f64 {
    match kind {
        OptimizerKind::Adam | OptimizerKind::Adamw => 1e-3,
        OptimizerKind::Sgd | OptimizerKind::Gd => 0.1,
        OptimizerKind::Adagrad => 0.01,
    }
}

/// Describes a default that depends on the optimizer: each value with its optimizers.
fn by_optimizer(value: impl Fn(OptimizerKind) -> Option<f64>) -> String {
    let mut groups: Vec<(f64, Vec<&str>)> = Vec::new();
    for kind in OptimizerKind::ALL {
        let Some(value) = value(kind) else { continue };
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, names)) => names.push(kind.name()),
            None => groups.push((value, vec![kind.name()])),
        }
    }
    let groups = groups.iter().map(|(value, names)| format!("{} {value}", names.join(", ")));
    groups.collect::<Vec<_>>().join("; ")
}

settings! {
    /// Training data of a network.
    pub struct NetOptions in "Data" {
        /// Examples: a folder of idx, CIFAR or images, a table, or vectors with ⟨labels⟩
        pub data: Option<Input> = None => [value("FILE_OR_FOLDER")],
        /// Target column of a table; several for regression
        pub target: Option<String> = None => [value("COLUMN,COLUMN")],
        /// Targets are numbers, not classes
        pub regression: bool = false => [switch()],
        /// Use only these classes
        pub classes: Option<String> = None => [detail(), value("NAME,NAME")],
        /// Columns of a table to exclude from the inputs
        pub ignore_columns: Option<String> = None => [detail(), value("COLUMN,COLUMN")],
        /// Training examples to leave out: row numbers from 0, one per line or in a column `row`
        pub exclude_rows: Option<Input> = None => [detail(), value("FILE")],
        /// data: standardize each channel or column on the training set; none: raw, bytes as 0..1
        pub normalize: Option<Normalize> = None => [detail(), value("HOW"), otherwise("data")],
        /// Mean per channel for normalization, with bytes scaled to 0..1
        pub mean: Option<String> = None => [detail(), value("X,X,X"), dashes()],
        /// Standard deviation per channel for normalization
        pub std: Option<String> = None => [detail(), value("X,X,X"), dashes()],
        /// Train on N examples, sampled with ⟨split-seed⟩
        pub limit: Option<usize> = None => [detail()],
        /// Fraction of the examples held out as validation set
        pub validation: Option<f64> = None => [value("SHARE"), otherwise("0")],
        /// Random seed of ⟨limit⟩ and ⟨validation⟩, independent of ⟨seed⟩
        pub split_seed: Option<u64> = None => [detail(), value("S"), otherwise("0")],
        /// Initial weights: a safetensors file with PyTorch's names, or a run
        pub init: Option<Input> = None => [heading("Model"), value("FILE_OR_RUN")],
        /// Steps between two checkpoints
        pub checkpoint_every: Option<u64> = None
            => [heading(STOPPING), value("STEPS"), at_least(1.0), otherwise("by time, at most 5 % overhead")],
    } with {
        /// The labels of a vector table.
        pub labeled: LabeledVectors,
        /// How text files are decoded.
        pub files: TextFiles,
        /// Random seed of training.
        pub seed: TrainingSeed,
    }
}

impl NetOptions {
    /// Reads the examples of a path, with ⟨labels⟩ those of a vector table; `known` are the classes of a trained network, `only` the
    /// classes to keep. Nothing of a vector table `is_other` than that of the training is held out.
    pub(super) fn read(
        &self,
        path: &Path,
        known: Option<&[String]>,
        only: Option<&str>,
        is_other: bool,
        job: &Job<'_>,
    ) -> Result<Dataset> {
        let only = only.or(self.classes.as_deref()).map(|list| names(Some(list)));
        if self.labeled.labels.is_some() {
            if self.target.is_some() || self.regression {
                let name = if self.regression { "regression" } else { "target" };
                let what = format!("⟨{name}⟩ is for tables of examples; vectors have ⟨labels⟩");
                return Err(Error::request(what, format!("leave ⟨{name}⟩ out")));
            }
            let seed = Seed::new(self.split_seed.unwrap_or(0))?;
            let held_out = (!is_other).then_some(seed);
            return self.labeled.read(path, &self.files, only.as_deref(), held_out, job);
        }
        let mut options = self.reading();
        options.known_classes = known.map(<[String]>::to_vec);
        options.classes = only;
        material::read(path, &options, job)
    }

    /// Returns the options for reading the examples.
    fn reading(&self) -> ExampleOptions {
        ExampleOptions {
            target: names(self.target.as_deref()),
            regression: self.regression,
            classes: None,
            known_classes: None,
            ignore_columns: names(self.ignore_columns.as_deref()),
            records: self.files.records(ColumnMap::default()),
        }
    }

    /// Returns the options to store in `run.json`: those not stored elsewhere that are not paths.
    pub(super) fn documented(&self) -> Values {
        config::documented(self, &ELSEWHERE)
    }
}

/// Splits a comma-separated list of names.
pub(crate) fn names(list: Option<&str>) -> Vec<String> {
    let items = list.into_iter().flat_map(|list| list.split(','));
    items.map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
}

settings! {
    /// A network and its training data.
    pub struct NetRequest {
    } with {
        /// Architecture and training settings.
        pub recipe: Recipe,
        /// Data and random seed.
        pub options: NetOptions,
    }
}

settings! {
    /// Settings of [`train`](super::train).
    pub struct TrainNet {
    } with {
        /// Network and data.
        pub request: NetRequest,
        /// Seeds and output folder.
        pub start: Start,
    }
}

impl TrainNet {
    /// Creates settings from layers, highest priority first, on top of the run that they name with `from`.
    ///
    /// # Errors
    /// [`Error::Core`] names the setting that is unknown or invalid.
    pub fn new(mut layers: Vec<SettingsLayer>) -> Result<Self> {
        let given = Self::layered(METHOD, &layers)?;
        layers.extend(given.start.from.as_deref().map(layer_of).transpose()?);
        let settings = Self::layered(METHOD, &layers)?;
        settings.request.check_model()?;
        Ok(settings)
    }
}

impl NetRequest {
    /// Creates a request from layers, highest priority first, on top of the settings of the run `from`.
    ///
    /// # Errors
    /// [`Error::Core`] names the setting that is unknown or invalid.
    pub fn new(mut layers: Vec<SettingsLayer>, from: Option<&Path>) -> Result<Self> {
        layers.extend(from.map(layer_of).transpose()?);
        let request = Self::layered(METHOD, &layers)?;
        request.check_model()?;
        Ok(request)
    }

    fn check_model(&self) -> Result<()> {
        if self.recipe.model.is_empty() {
            let what = "pass an architecture with ⟨model⟩, such as mlp:512,512 or resnet20";
            return Err(Error::request(what, ""));
        }
        Ok(())
    }
}

/// Returns the settings of an earlier run and its input files as a layer.
///
/// # Errors
/// As [`RunFolder::open`].
pub fn layer_of(path: &Path) -> Result<SettingsLayer> {
    if !super::is_net(path) {
        let what = "is not a run of a network; pass one, or its run.json";
        return Err(Error::request(format!("⟨from⟩ {} {what}", path.display()), ""));
    }
    Ok(config::of_run::<NetRequest>(&RunFolder::open(path)?, path, &SPLIT))
}

impl Recipe {
    /// Resolves the settings that depend on the task and on the number of training examples, if there are any.
    ///
    /// # Errors
    /// [`Error::Core`] for settings that cannot be combined.
    pub(super) fn settled(mut self, task: &Task, n: Option<usize>) -> Result<Self> {
        use OptimizerKind::Gd;
        self.lr.get_or_insert(usual_rate(self.optimizer));
        self.loss.get_or_insert_with(|| task.usual_loss());
        let refuse = |what: String| Err(Error::request(what, ""));
        match (self.batch, n, self.optimizer) {
            (Some(batch), Some(n), _) if batch > n => {
                return refuse(format!(
                    "⟨batch⟩ {batch} exceeds the data: there are {n} training examples; choose ⟨batch⟩ {n} or less"
                ));
            }
            (Some(batch), Some(n), Gd) if batch < n => {
                return refuse(format!(
                    "⟨optimizer⟩ gd uses all {n} examples in each step; leave ⟨batch⟩ out, or use sgd"
                ));
            }
            (None, Some(n), Gd) => self.batch = Some(n),
            (None, Some(n), _) => self.batch = Some(BATCH.min(n)),
            _ => {}
        }
        self.loss(task)?;
        Ok(self)
    }

    /// Returns the loss and the number of outputs.
    pub(super) fn loss(&self, task: &Task) -> Result<(Loss, usize)> {
        let name = self.loss.unwrap_or_else(|| task.usual_loss());
        let refuse = |what: &str| Err(Error::request(what, ""));
        let smoothing = self.label_smoothing;
        if smoothing > 0.0 && name != LossName::CrossEntropy {
            return refuse("⟨label-smoothing⟩ is for ⟨loss⟩ cross-entropy");
        }
        let loss = match name {
            LossName::CrossEntropy => Loss::CrossEntropy { smoothing },
            LossName::Squared => Loss::Squared,
            LossName::BinaryCrossEntropy => Loss::BinaryCrossEntropy,
        };
        let outputs = match (task, loss) {
            (Task::Numbers(_), Loss::CrossEntropy { .. }) => {
                return refuse(
                    "⟨loss⟩ cross-entropy is for classification; use ⟨loss⟩ squared for regression",
                );
            }
            (Task::Numbers(dim), _) => *dim,
            (Task::Classes(classes), Loss::CrossEntropy { .. }) => classes.len(),
            (Task::Classes(classes), Loss::BinaryCrossEntropy) if classes.len() != 2 => {
                return Err(Error::request(
                    format!(
                        "⟨loss⟩ binary-cross-entropy is for two classes, the data has {}",
                        classes.len()
                    ),
                    "use cross-entropy, or choose two with ⟨classes⟩",
                ));
            }
            (Task::Classes(classes), _) if classes.len() == 2 => 1,
            (Task::Classes(classes), _) => classes.len(),
        };
        Ok((loss, outputs))
    }

    /// Builds the model.
    pub(super) fn model(&self, input: Shape, outputs: usize) -> Result<NetConfig> {
        let parameterization = match self.parameterization.split_once(':') {
            None if self.parameterization == "standard" => Parameterization::Standard,
            None if self.parameterization == "ntk" => Parameterization::Ntk { bias: 1.0 },
            Some(("ntk", bias)) if bias.parse::<f64>().is_ok_and(|t| t >= 0.0 && t.is_finite()) => {
                Parameterization::Ntk { bias: bias.parse().unwrap_or(1.0) }
            }
            _ => {
                let what = format!("unknown ⟨parameterization⟩ `{}`", self.parameterization);
                return Err(Error::request(what, "choose standard, ntk, or ntk:BIAS"));
            }
        };
        let architecture: Architecture = self.model.parse()?;
        if input.positions() == 1 && !matches!(architecture, Architecture::Mlp(_)) {
            let what =
                format!("⟨model⟩ {} is for images, but the data is rows of numbers", self.model);
            return Err(Error::request(what, "use an MLP such as mlp:64,64"));
        }
        Ok(NetConfig {
            activation: self.activation.parse()?,
            parameterization,
            init: if self.symmetric { Init::Symmetric } else { Init::Usual },
            dropout: self.dropout,
            ..NetConfig::new(architecture, input, outputs)
        })
    }

    /// Returns the trainer settings of a resolved recipe on n examples.
    pub(super) fn training(&self, loss: Loss, n: usize) -> TrainerSettings {
        let batch = self.batch.unwrap_or(BATCH).min(n);
        let steps = n.div_ceil(batch.max(1)) as u64;
        TrainerSettings {
            loss,
            optimizer: OptimizerSettings {
                momentum: self.momentum,
                nesterov: self.nesterov,
                weight_decay: self.weight_decay,
                ..OptimizerSettings::of(self.optimizer)
            },
            lr: self.lr.unwrap_or_else(|| usual_rate(self.optimizer)),
            schedule: Schedule {
                curve: self.schedule.in_epochs(steps),
                warmup: self.warmup,
                total: steps * u64::from(self.epochs),
            },
            clip: self.clip,
            batch,
        }
    }

    /// Returns the data augmentation for images.
    pub(super) fn augmentation(&self, shape: Shape) -> Result<Augmentation> {
        let Self { flip, crop, .. } = *self;
        let is_image = shape.positions() > 1;
        if (flip || crop > 0) && !is_image {
            let flag = if flip { "⟨flip⟩" } else { "⟨crop⟩" };
            return Err(Error::request(
                format!("{flag} is for images, but the data is rows of numbers"),
                "",
            ));
        }
        if crop > 0 && crop >= shape.height.min(shape.width) {
            let what = format!("⟨crop⟩ {crop} would shift images of {shape} out of view");
            return Err(Error::request(what, "4 is common for 32 x 32"));
        }
        Ok(Augmentation { flip, crop })
    }
}
