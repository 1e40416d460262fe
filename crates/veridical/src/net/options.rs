//! What `train net` is asked for.
//!
//! Command line, `--config` and `--from` are layers of one flat map from the names of flags to values, as for embeddings. It
//! is taken apart into a [`Recipe`], which determines a network and its training, and [`NetOptions`]: from what, with
//! which seed.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use veridical_core::Seed;
use veridical_data::examples::ExampleOptions;
use veridical_data::run::RunFolder;
use veridical_nets::layers::Parameterisation;
use veridical_nets::{
    Architecture, Augmentation, Curve, Init, Loss, Model, OptimiserKind, OptimiserSettings,
    Schedule, Shape, TrainerSettings,
};

use super::material::Task;
use crate::train::Layer;
use crate::{Error, Result};

/// The `method` of a run that is a network.
pub const METHOD: &str = "net";
/// Samples of a step, unless chosen or there are fewer.
const BATCH: usize = 128;
/// Options that name files: they go to the log.
const FILES: [&str; 2] = ["data", "init"];
/// Options that stand in the section `split` of `run.json` under other names.
const SPLIT: [(&str, &str); 3] =
    [("limit", "limit"), ("validation", "validation"), ("split-seed", "seed")];
/// Options that change no byte of the model, or stand elsewhere in `run.json`.
const ELSEWHERE: [&str; 2] = ["seed", "checkpoint-every"];

/// A network and how it is trained: the section `settings` of `run.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Recipe {
    /// The architecture by its name.
    pub model: String,
    /// Between the layers of an MLP and of `cnn-small`.
    pub activation: String,
    /// `standard`, `ntk`, or `ntk:T` with the bias times T.
    pub parameterization: String,
    /// Units that cancel in pairs, so that the network is 0 at first.
    pub symmetric: bool,
    /// Values left out while training.
    pub dropout: f64,
    /// Layers that stay as they are: `features`, or names.
    pub freeze: Option<String>,
    /// Passes over the data.
    pub epochs: u32,
    /// Samples of a step; of `gd` all.
    pub batch: Option<usize>,
    /// The rule of a step.
    pub optimizer: OptimiserKind,
    /// The learning rate before the schedule.
    pub lr: Option<f64>,
    /// Of `gd` and `sgd`.
    pub momentum: f64,
    /// Of `gd` and `sgd`.
    pub nesterov: bool,
    /// 0, of `adamw` 0.01, unless given.
    pub weight_decay: Option<f64>,
    /// How the rate moves; steps count epochs.
    pub schedule: Curve,
    /// Steps on which the rate rises.
    pub warmup: u64,
    /// The largest norm of a gradient.
    pub clip: Option<f64>,
    /// `cross-entropy`, `squared` or `binary-cross-entropy`.
    pub loss: Option<String>,
    /// How much of a target is spread over all classes.
    pub label_smoothing: f64,
    /// Mirror images while training.
    pub flip: bool,
    /// Move images by up to so many pixels while training.
    pub crop: usize,
    /// End after so many epochs without an improvement.
    pub patience: Option<u32>,
    /// What counts as an improvement of the loss.
    pub min_delta: f64,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            model: String::new(),
            activation: "relu".into(),
            parameterization: "standard".into(),
            symmetric: false,
            dropout: 0.0,
            freeze: None,
            epochs: 10,
            batch: None,
            optimizer: OptimiserKind::Adam,
            lr: None,
            momentum: 0.0,
            nesterov: false,
            weight_decay: None,
            schedule: Curve::Constant,
            warmup: 0,
            clip: None,
            loss: None,
            label_smoothing: 0.0,
            flip: false,
            crop: 0,
            patience: None,
            min_delta: 0.0,
        }
    }
}

/// From what a network learns; what is `None` has its default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct NetOptions {
    /// Examples: a table or a folder.
    pub data: Option<PathBuf>,
    /// The columns of a table that are predicted.
    pub target: Option<String>,
    /// Targets are numbers.
    pub regression: Option<bool>,
    /// The classes to keep.
    pub classes: Option<String>,
    /// Columns of a table that are no inputs.
    pub ignore_columns: Option<String>,
    /// The first line of a table is data.
    pub no_header: Option<bool>,
    /// The encoding of text.
    pub encoding: Option<String>,
    /// `data` or `none`.
    pub normalize: Option<String>,
    /// What is subtracted from each channel.
    pub mean: Option<String>,
    /// What each channel is divided by.
    pub std: Option<String>,
    /// Learn from so many examples.
    pub limit: Option<usize>,
    /// The share of these that is kept back to judge on.
    pub validation: Option<f64>,
    /// Decides which.
    pub split_seed: Option<u64>,
    /// Weights to start from: a file or a run.
    pub init: Option<PathBuf>,
    /// Steps between two checkpoints.
    pub checkpoint_every: Option<u64>,
    /// The seed of the training.
    pub seed: Option<u64>,
}

impl NetOptions {
    /// The seed of the training.
    ///
    /// # Errors
    /// [`Error::Core`] above 2^53 - 1.
    pub fn seed(&self) -> Result<Seed> {
        Ok(Seed::new(self.seed.unwrap_or(0))?)
    }

    /// How the examples are read.
    pub(super) fn reading(&self) -> ExampleOptions {
        ExampleOptions {
            target: names(self.target.as_deref()),
            regression: self.regression.unwrap_or(false),
            classes: self.classes.as_deref().map(|list| names(Some(list))),
            known_classes: None,
            ignore_columns: names(self.ignore_columns.as_deref()),
            has_header: self.no_header.filter(|&no| no).map(|_| false),
            encoding: self.encoding.clone(),
        }
    }

    fn flat(&self) -> Map<String, Value> {
        let mut map = object(self);
        map.retain(|_, value| !value.is_null());
        map
    }

    /// The options that belong in `run.json`: those that stand nowhere else and are no paths.
    pub(super) fn documented(&self) -> Map<String, Value> {
        let mut map = self.flat();
        let stands_elsewhere = |name: &str| {
            FILES.contains(&name)
                || ELSEWHERE.contains(&name)
                || SPLIT.iter().any(|(flag, _)| *flag == name)
        };
        map.retain(|name, _| !stands_elsewhere(name));
        map
    }

    /// The files, as absolute paths, for the log.
    pub(super) fn files(&self) -> Map<String, Value> {
        files(self.flat(), &FILES)
    }
}

/// Names between commas.
pub(super) fn names(list: Option<&str>) -> Vec<String> {
    let items = list.into_iter().flat_map(|list| list.split(','));
    items.map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
}

/// What to train.
#[derive(Clone, Debug, PartialEq)]
pub struct NetRequest {
    /// The network and its training.
    pub recipe: Recipe,
    /// The rest.
    pub options: NetOptions,
}

impl NetRequest {
    /// From layers, the strongest first.
    ///
    /// # Errors
    /// [`Error::Usage`] names the flag that does not exist or does not fit.
    pub fn new(layers: &[Layer]) -> Result<Self> {
        let (recipe, options): (Recipe, NetOptions) = taken_apart(METHOD, layers)?;
        if recipe.model.is_empty() {
            let what = "name an architecture with --model, such as mlp:512,512 or resnet20";
            return Err(Error::Usage(what.into()));
        }
        Ok(Self { recipe, options })
    }
}

/// Layers, the strongest first, as settings, whose names those of a default one are, and the rest.
pub(super) fn taken_apart<R, O>(method: &str, layers: &[Layer]) -> Result<(R, O)>
where
    R: Default + Serialize + DeserializeOwned,
    O: DeserializeOwned,
{
    let known = object(&R::default());
    let (mut recipe, mut options) = (Map::new(), Map::new());
    for Layer { origin, values } in layers.iter().rev() {
        let place = origin.as_ref().map_or(String::new(), |path| format!("{}: ", path.display()));
        for (name, value) in values {
            let alone = Map::from_iter([(name.clone(), value.clone())]);
            let (map, outcome) = match known.contains_key(name) {
                true => (&mut recipe, read::<R>(alone).map(drop)),
                false => (&mut options, read::<O>(alone).map(drop)),
            };
            outcome.map_err(|why| match why.starts_with("unknown field") {
                true => Error::Usage(format!("{place}`{method}` has no setting `{name}`")),
                false => Error::Usage(format!("{place}--{name}: {why}")),
            })?;
            map.insert(name.clone(), value.clone());
        }
    }
    Ok((read(recipe).map_err(Error::Usage)?, read(options).map_err(Error::Usage)?))
}

/// The settings of an earlier run, and the files it read.
///
/// # Errors
/// As [`RunFolder::open`].
pub fn layer_of(path: &Path) -> Result<Layer> {
    earlier(&RunFolder::open(path)?, path, &SPLIT, &FILES)
}

/// The settings of a run; those of `split` stand in its section under other names, `files` in its log.
pub(super) fn earlier(
    run: &RunFolder,
    path: &Path,
    split: &[(&str, &str)],
    files: &[&str],
) -> Result<Layer> {
    let document = run.document();
    let section = |name: &str| document.get(name).and_then(Value::as_object).into_iter().flatten();
    let own = |(name, value): (&String, &Value)| (name.clone(), value.clone());
    let mut values: Map<String, Value> =
        section("settings").chain(section("options")).map(own).collect();
    for (flag, name) in split {
        let value = document.get("split").and_then(|split| split.get(name));
        values.extend(value.map(|value| ((*flag).to_owned(), value.clone())));
    }
    values.extend(document.get("seed").map(|seed| ("seed".to_owned(), seed.clone())));
    let logged = run.logged("data").unwrap_or_default();
    values.extend(files.iter().filter_map(|&file| Some((file.into(), logged.get(file)?.clone()))));
    values.retain(|_, value| !value.is_null());
    Ok(Layer { origin: Some(path.to_owned()), values })
}

/// The options that name files, as absolute paths, for the log.
pub(super) fn files(mut map: Map<String, Value>, files: &[&str]) -> Map<String, Value> {
    map.retain(|name, _| files.contains(&name.as_str()));
    for value in map.values_mut() {
        let path = value.as_str().filter(|path| !path.contains("://"));
        if let Some(path) = path.and_then(|path| std::path::absolute(path).ok()) {
            *value = path.display().to_string().into();
        }
    }
    map
}

impl Recipe {
    /// With every choice made that depends on the task and on the number of examples, if any are learnt from.
    ///
    /// # Errors
    /// [`Error::Usage`] for what does not go together.
    pub(super) fn settled(mut self, task: &Task, n: Option<usize>) -> Result<Self> {
        use OptimiserKind::{Adagrad, Adam, Adamw, Gd, Sgd};
        self.lr.get_or_insert(match self.optimizer {
            Adam | Adamw => 1e-3,
            Sgd | Gd => 0.1,
            Adagrad => 0.01,
        });
        self.loss.get_or_insert_with(|| task.usual_loss().into());
        let refuse = |what: String| Err(Error::Usage(what));
        match (self.batch, n, self.optimizer) {
            (Some(0), ..) => return refuse("--batch must be at least 1, got 0".into()),
            (Some(batch), Some(n), _) if batch > n => {
                return refuse(format!(
                    "--batch {batch} is larger than the data: there are {n} examples to learn from; choose --batch {n} or less"
                ));
            }
            (Some(batch), Some(n), Gd) if batch < n => {
                return refuse(format!(
                    "--optimizer gd takes all {n} examples at once; leave --batch out, or use sgd"
                ));
            }
            (None, Some(n), Gd) => self.batch = Some(n),
            (None, Some(n), _) => self.batch = Some(BATCH.min(n)),
            _ => {}
        }
        if self.patience == Some(0) {
            return refuse("--patience must be at least 1, got 0".into());
        }
        if !(self.min_delta >= 0.0 && self.min_delta.is_finite()) {
            return refuse(format!("--min-delta must be at least 0, got {}", self.min_delta));
        }
        self.loss(task)?;
        Ok(self)
    }

    /// The loss and the number of outputs.
    pub(super) fn loss(&self, task: &Task) -> Result<(Loss, usize)> {
        let name = self.loss.as_deref().unwrap_or_else(|| task.usual_loss());
        let refuse = |what: &str| Err(Error::Usage(what.into()));
        let smoothing = self.label_smoothing;
        if !(0.0..1.0).contains(&smoothing) {
            return Err(Error::Usage(format!(
                "--label-smoothing must be at least 0 and below 1, got {smoothing}"
            )));
        }
        if smoothing > 0.0 && name != "cross-entropy" {
            return refuse("--label-smoothing is for --loss cross-entropy");
        }
        let loss = match name {
            "cross-entropy" => Loss::CrossEntropy { smoothing },
            "squared" => Loss::Squared,
            "binary-cross-entropy" => Loss::BinaryCrossEntropy,
            other => {
                let known = "cross-entropy, squared and binary-cross-entropy";
                return Err(Error::Usage(format!(
                    "--loss `{other}` is not known; there are {known}"
                )));
            }
        };
        let outputs = match (task, loss) {
            (Task::Numbers(_), Loss::CrossEntropy { .. }) => {
                return refuse("--loss cross-entropy is for classes; numbers take --loss squared");
            }
            (Task::Numbers(dim), _) => *dim,
            (Task::Classes(classes), Loss::CrossEntropy { .. }) => classes.len(),
            (Task::Classes(classes), Loss::BinaryCrossEntropy) if classes.len() != 2 => {
                return Err(Error::Usage(format!(
                    "--loss binary-cross-entropy is for two classes, the data has {}; use cross-entropy, or choose two with --classes",
                    classes.len()
                )));
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
                let what = format!("--parameterization `{}` is not known", self.parameterization);
                return Err(Error::Usage(format!("{what}; it is standard, ntk, or ntk:BIAS")));
            }
        };
        let architecture: Architecture = self.model.parse()?;
        if input.positions() == 1 && !matches!(architecture, Architecture::Mlp(_)) {
            let what =
                format!("--model {} is for images, and the data is rows of numbers", self.model);
            return Err(Error::Usage(format!("{what}; use an MLP such as mlp:64,64")));
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
            lr: self.lr.unwrap_or(1e-3),
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
            let flag = if flip { "--flip" } else { "--crop" };
            return Err(Error::Usage(format!(
                "{flag} is for images, and the data is rows of numbers"
            )));
        }
        if crop > 0 && crop >= shape.height.min(shape.width) {
            let what = format!("--crop {crop} would move images of {shape} out of sight");
            return Err(Error::Usage(format!("{what}; 4 is usual for 32 x 32")));
        }
        Ok(Augmentation { flip, crop })
    }
}

pub(super) fn object(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(), // options are structs
    }
}

fn read<T: DeserializeOwned>(map: Map<String, Value>) -> std::result::Result<T, String> {
    serde_json::from_value(Value::Object(map)).map_err(|e| e.to_string())
}
