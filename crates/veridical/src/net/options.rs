//! What `train net` is asked for.
//!
//! What is given, a configuration file and an earlier run are layers of one flat map from the names of settings to values,
//! as for embeddings: a [`Recipe`], which determines a network and its training, and [`NetOptions`]: from what, with which seed.

use std::path::Path;

use veridical_core::settings::{Layer, Settings as _, Values};
use veridical_core::{choices, settings};
use veridical_io::examples::ExampleOptions;
use veridical_io::run::RunFolder;
use veridical_io::{ColumnMap, Input};
use veridical_nets::layers::Parameterisation;
use veridical_nets::{
    Architecture, Augmentation, Curve, Init, Loss, Model, OptimiserKind, OptimiserSettings,
    Schedule, Shape, TrainerSettings,
};

use super::material::Task;
use crate::settings::{Start, TextFiles, TrainingSeed};
use crate::{Error, Result, config};

/// The `method` of a run that is a network.
pub const METHOD: &str = "net";
/// Samples of a step, unless chosen or there are fewer.
const BATCH: usize = 128;
/// Options that stand in the section `split` of `run.json` under other names.
const SPLIT: [(&str, &str); 3] =
    [("limit", "limit"), ("validation", "validation"), ("split-seed", "seed")];
/// Options that change no byte of the model, or stand elsewhere in `run.json`.
const ELSEWHERE: [&str; 5] = ["seed", "checkpoint-every", "limit", "validation", "split-seed"];

settings! {
    /// A network and how it is trained: the section `settings` of `run.json`.
    pub struct Recipe in "Training" {
        /// mlp:512,512, cnn-small, cnn:32,max,64,max, resnet20|32|44|56, resnet18|34
        pub model: String = String::new() => [heading("Model")],
        /// relu, gelu, tanh, sigmoid, softplus or erf, or normalized-relu and so on; of mlp and cnn-small
        pub activation: String = "relu".into() => [heading("Model")],
        /// standard, ntk, or ntk:BIAS; of mlp
        pub parameterization: String = "standard".into() => [heading("Model")],
        /// Start at 0 everywhere, with units that cancel in pairs; of mlp
        pub symmetric: bool = false => [heading("Model"), switch()],
        /// Leave out hidden values with this probability; of mlp and cnn-small
        pub dropout: f64 = 0.0 => [heading("Model"), value("P")],
        /// Layers that stay as they are: `features` (all but the last), or names such as conv1,layer1
        pub freeze: Option<String> = None => [heading("Model"), value("NAMES")],
        /// Passes over the examples; 0 with ⟨init⟩ takes weights into a run
        pub epochs: u32 = 10,
        /// Examples of a step
        pub batch: Option<usize> = None => [at_least(1.0), otherwise(format!("{BATCH}; of gd all"))],
        /// gd (all examples at once), sgd, adam, adamw or adagrad
        pub optimizer: OptimiserKind = OptimiserKind::Adam,
        /// Learning rate
        pub lr: Option<f64> = None => [otherwise(by_optimizer(|kind| Some(usual_rate(kind))))],
        /// Of gd and sgd
        pub momentum: f64 = 0.0,
        /// Nesterov's momentum
        pub nesterov: bool = false => [switch()],
        /// Weight decay; adamw's is decoupled
        pub weight_decay: Option<f64> = None => [otherwise(by_optimizer(|kind| Some(kind.usual_decay())))],
        /// constant, cosine (to 0), or step:EVERY,FACTOR with EVERY in epochs
        pub schedule: Curve = Curve::Constant => [value("CURVE")],
        /// Steps on which the rate rises to its value
        pub warmup: u64 = 0 => [value("STEPS")],
        /// Scale gradients of a larger norm down to it
        pub clip: Option<f64> = None => [value("NORM")],
        /// cross-entropy, squared or binary-cross-entropy (two classes, one output)
        pub loss: Option<LossName> = None => [otherwise("cross-entropy; squared with ⟨regression⟩")],
        /// How much of a target is spread over all classes
        pub label_smoothing: f64 = 0.0 => [at_least(0.0), below(1.0), value("SHARE")],
        /// Mirror images left and right with probability 1/2
        pub flip: bool = false => [switch()],
        /// Move images by up to N pixels, over a border of zeros
        pub crop: usize = 0,
        /// Stop after N epochs without a lower loss, on the validation examples (then the best epoch is kept) or on the
        /// training examples
        pub patience: Option<u32> = None => [heading(STOPPING), at_least(1.0)],
        /// What counts as lower; `⟨patience 3⟩ ⟨min-delta 1e-4⟩` is usual for recommenders
        pub min_delta: f64 = 0.0 => [heading(STOPPING), at_least(0.0)],
    }
}

/// The heading of early stopping.
pub(super) const STOPPING: &str = "Early stopping and checkpoints";

choices! {
    /// What is minimized.
    pub enum LossName {
        /// Of classes
        CrossEntropy = "cross-entropy",
        /// Of numbers, or of classes as numbers
        Squared = "squared",
        /// Of two classes, one output
        BinaryCrossEntropy = "binary-cross-entropy",
    }
}

choices! {
    /// What is done to values before a network sees them.
    pub enum Normalize {
        /// Less the mean of the training examples, divided by their deviation
        Data = "data",
        /// Nothing
        None = "none",
    }
}

/// The learning rate of an optimizer, unless chosen.
fn usual_rate(kind: OptimiserKind) -> f64 {
    match kind {
        OptimiserKind::Adam | OptimiserKind::Adamw => 1e-3,
        OptimiserKind::Sgd | OptimiserKind::Gd => 0.1,
        OptimiserKind::Adagrad => 0.01,
    }
}

/// A default that goes by the optimizer, in words: the optimizers of each value.
fn by_optimizer(value: impl Fn(OptimiserKind) -> Option<f64>) -> String {
    let mut groups: Vec<(f64, Vec<&str>)> = Vec::new();
    for kind in OptimiserKind::ALL {
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
    /// From what a network learns.
    pub struct NetOptions in "Data" {
        /// Examples: a folder with idx, CIFAR or image files, or a table
        pub data: Option<Input> = None => [value("FILE_OR_FOLDER")],
        /// The column of a table to predict; several for regression
        pub target: Option<String> = None => [value("COLUMN,COLUMN")],
        /// Targets are numbers, not classes
        pub regression: bool = false => [switch()],
        /// Learn to classify these classes alone
        pub classes: Option<String> = None => [value("NAME,NAME")],
        /// Columns of a table that are no inputs
        pub ignore_columns: Option<String> = None => [value("COLUMN,COLUMN")],
        /// data: subtract the mean of the training examples and divide by their deviation, channel by channel
        /// (of tables: column by column); none: as they are, bytes as 0 to 1
        pub normalize: Option<Normalize> = None => [value("HOW"), otherwise("data")],
        /// Subtract these from the channels instead, with bytes as 0 to 1
        pub mean: Option<String> = None => [value("X,X,X"), dashes()],
        /// Divide the channels by these
        pub std: Option<String> = None => [value("X,X,X"), dashes()],
        /// Learn from N examples, drawn by ⟨split-seed⟩
        pub limit: Option<usize> = None,
        /// Share of the examples that is held out to evaluate on while training
        pub validation: Option<f64> = None => [value("SHARE"), otherwise("0")],
        /// Seed of ⟨limit⟩ and ⟨validation⟩, apart from ⟨seed⟩
        pub split_seed: Option<u64> = None => [value("S"), otherwise("0")],
        /// Weights to start from: a safetensors file with PyTorch's names, or a run
        pub init: Option<Input> = None => [heading("Model"), value("FILE_OR_RUN")],
        /// Steps between two checkpoints
        pub checkpoint_every: Option<u64> = None
            => [heading(STOPPING), value("STEPS"), at_least(1.0), otherwise("by time, a twentieth of it at most")],
    } with {
        /// How text files are decoded.
        pub files: TextFiles,
        /// The seed.
        pub seed: TrainingSeed,
    }
}

impl NetOptions {
    /// How the examples are read.
    pub(super) fn reading(&self) -> ExampleOptions {
        ExampleOptions {
            target: names(self.target.as_deref()),
            regression: self.regression,
            classes: self.classes.as_deref().map(|list| names(Some(list))),
            known_classes: None,
            ignore_columns: names(self.ignore_columns.as_deref()),
            records: self.files.records(ColumnMap::default()),
        }
    }

    /// The options that belong in `run.json`: those that stand nowhere else and are no paths.
    pub(super) fn documented(&self) -> Values {
        config::documented(self, &ELSEWHERE)
    }
}

/// Names between commas.
pub(super) fn names(list: Option<&str>) -> Vec<String> {
    let items = list.into_iter().flat_map(|list| list.split(','));
    items.map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
}

settings! {
    /// What to train.
    pub struct NetRequest {
    } with {
        /// The network and its training.
        pub recipe: Recipe,
        /// From what.
        pub options: NetOptions,
    }
}

settings! {
    /// What to train, and where to.
    pub struct TrainNet {
    } with {
        /// Which network, from what.
        pub request: NetRequest,
        /// Seeds and output.
        pub start: Start,
    }
}

impl TrainNet {
    /// From layers, the strongest first, over the run that they name with `from`.
    ///
    /// # Errors
    /// [`Error::Core`] names the setting that does not exist or does not fit.
    pub fn new(mut layers: Vec<Layer>) -> Result<Self> {
        let given = Self::layered(METHOD, &layers)?;
        layers.extend(given.start.from.as_deref().map(layer_of).transpose()?);
        let settings = Self::layered(METHOD, &layers)?;
        settings.request.check_model()?;
        Ok(settings)
    }
}

impl NetRequest {
    /// From layers, the strongest first, over the settings of the run `from`.
    ///
    /// # Errors
    /// [`Error::Core`] names the setting that does not exist or does not fit.
    pub fn new(mut layers: Vec<Layer>, from: Option<&Path>) -> Result<Self> {
        layers.extend(from.map(layer_of).transpose()?);
        let request = Self::layered(METHOD, &layers)?;
        request.check_model()?;
        Ok(request)
    }

    fn check_model(&self) -> Result<()> {
        if self.recipe.model.is_empty() {
            let what = "name an architecture with ⟨model⟩, such as mlp:512,512 or resnet20";
            return Err(Error::request(what, ""));
        }
        Ok(())
    }
}

/// The settings of an earlier run, and the files it read.
///
/// # Errors
/// As [`RunFolder::open`].
pub fn layer_of(path: &Path) -> Result<Layer> {
    if !super::is_net(path) {
        let what = "is no run of a network; name one, or its run.json";
        return Err(Error::request(format!("⟨from⟩ {} {what}", path.display()), ""));
    }
    Ok(config::of_run::<NetRequest>(&RunFolder::open(path)?, path, &SPLIT))
}

impl Recipe {
    /// With every choice made that depends on the task and on the number of examples, if any are learnt from.
    ///
    /// # Errors
    /// [`Error::Core`] for what does not go together.
    pub(super) fn settled(mut self, task: &Task, n: Option<usize>) -> Result<Self> {
        use OptimiserKind::Gd;
        self.lr.get_or_insert(usual_rate(self.optimizer));
        self.loss.get_or_insert_with(|| task.usual_loss());
        let refuse = |what: String| Err(Error::request(what, ""));
        match (self.batch, n, self.optimizer) {
            (Some(batch), Some(n), _) if batch > n => {
                return refuse(format!(
                    "⟨batch⟩ {batch} is larger than the data: there are {n} examples to learn from; choose ⟨batch⟩ {n} or less"
                ));
            }
            (Some(batch), Some(n), Gd) if batch < n => {
                return refuse(format!(
                    "⟨optimizer⟩ gd takes all {n} examples at once; leave ⟨batch⟩ out, or use sgd"
                ));
            }
            (None, Some(n), Gd) => self.batch = Some(n),
            (None, Some(n), _) => self.batch = Some(BATCH.min(n)),
            _ => {}
        }
        self.loss(task)?;
        Ok(self)
    }

    /// The loss and the number of outputs.
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
                return refuse("⟨loss⟩ cross-entropy is for classes; numbers take ⟨loss⟩ squared");
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

    /// The network.
    pub(super) fn model(&self, input: Shape, outputs: usize) -> Result<Model> {
        let parameterisation = match self.parameterization.split_once(':') {
            None if self.parameterization == "standard" => Parameterisation::Standard,
            None if self.parameterization == "ntk" => Parameterisation::Ntk { bias: 1.0 },
            Some(("ntk", bias)) if bias.parse::<f64>().is_ok_and(|t| t >= 0.0 && t.is_finite()) => {
                Parameterisation::Ntk { bias: bias.parse().unwrap_or(1.0) }
            }
            _ => {
                let what = format!("⟨parameterization⟩ `{}` is not known", self.parameterization);
                return Err(Error::request(what, "it is standard, ntk, or ntk:BIAS"));
            }
        };
        let architecture: Architecture = self.model.parse()?;
        if input.positions() == 1 && !matches!(architecture, Architecture::Mlp(_)) {
            let what =
                format!("⟨model⟩ {} is for images, and the data is rows of numbers", self.model);
            return Err(Error::request(what, "use an MLP such as mlp:64,64"));
        }
        Ok(Model {
            activation: self.activation.parse()?,
            parameterisation,
            init: if self.symmetric { Init::Symmetric } else { Init::Usual },
            dropout: self.dropout,
            ..Model::new(architecture, input, outputs)
        })
    }

    /// The training of a settled recipe on n examples.
    pub(super) fn training(&self, loss: Loss, n: usize) -> TrainerSettings {
        let batch = self.batch.unwrap_or(BATCH).min(n);
        let steps = n.div_ceil(batch.max(1)) as u64;
        TrainerSettings {
            loss,
            optimiser: OptimiserSettings {
                momentum: self.momentum,
                nesterov: self.nesterov,
                weight_decay: self.weight_decay,
                ..OptimiserSettings::of(self.optimizer)
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

    /// What images undergo.
    pub(super) fn augmentation(&self, shape: Shape) -> Result<Augmentation> {
        let Self { flip, crop, .. } = *self;
        let is_image = shape.positions() > 1;
        if (flip || crop > 0) && !is_image {
            let flag = if flip { "⟨flip⟩" } else { "⟨crop⟩" };
            return Err(Error::request(
                format!("{flag} is for images, and the data is rows of numbers"),
                "",
            ));
        }
        if crop > 0 && crop >= shape.height.min(shape.width) {
            let what = format!("⟨crop⟩ {crop} would move images of {shape} out of sight");
            return Err(Error::request(what, "4 is usual for 32 x 32"));
        }
        Ok(Augmentation { flip, crop })
    }
}
