//! What `train text` is asked for: layers of flags, as for other networks.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use veridical_core::Seed;
use veridical_data::run::RunFolder;
use veridical_data::{LabelledOptions, TextOptions};
use veridical_nets::layers::{
    Activation, Direction, Dropout, Gru, Kind, Linear, Lstm, SequencePool,
};
use veridical_nets::{
    Builder, Curve, Loss, Net, OptimiserKind, OptimiserSettings, Schedule, Shape, TrainerSettings,
};

use super::super::options::{object, taken_apart};
use crate::train::Layer;
use crate::{Error, Result};

/// The `method` of a run that reads text.
pub const METHOD: &str = "text";
/// Options that name files: they go to the log.
const FILES: [&str; 2] = ["text", "vectors"];
/// Options that change no byte of the model, or stand elsewhere in `run.json`.
const ELSEWHERE: [&str; 2] = ["seed", "checkpoint-every"];
/// Values of a word's vector, unless chosen or given.
const DIM: usize = 64;

/// A network that reads text, and how it is trained: the section `settings` of `run.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct TextRecipe {
    /// What goes along the words: `gru` or `lstm`.
    pub cell: CellKind,
    /// Its state in each direction.
    pub hidden: usize,
    /// Units of the dense layer after it; as many as `hidden` unless given.
    pub dense: Option<usize>,
    /// Values of a word's vector; those of `--vectors` if given.
    pub dim: Option<usize>,
    /// Whether vectors that were given move.
    pub train_vectors: bool,
    /// Words of a document that are read.
    pub max_length: usize,
    /// Values left out while training, of the word vectors and before the output.
    pub dropout: f64,
    /// Passes over the documents.
    pub epochs: u32,
    /// Documents of a step; 64, or all if there are fewer.
    pub batch: Option<usize>,
    /// The learning rate of Adam.
    pub lr: f64,
    /// Added to the gradient, times the weights.
    pub weight_decay: f64,
    /// The largest norm of the gradient of the network.
    pub clip: Option<f64>,
    /// End after so many epochs without an improvement.
    pub patience: Option<u32>,
    /// What counts as an improvement of the loss.
    pub min_delta: f64,
}

/// Which cell goes along the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CellKind {
    /// A gated recurrent unit.
    Gru,
    /// A long short-term memory.
    Lstm,
}

impl Default for TextRecipe {
    fn default() -> Self {
        Self {
            cell: CellKind::Lstm,
            hidden: 32,
            dense: None,
            dim: None,
            train_vectors: false,
            max_length: 256,
            dropout: 0.0,
            epochs: 10,
            batch: None,
            lr: 1e-3,
            weight_decay: 0.0,
            clip: None,
            patience: None,
            min_delta: 0.0,
        }
    }
}

/// From what it learns; what is `None` has its default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct TextNetOptions {
    /// A table of documents.
    pub text: Option<PathBuf>,
    /// The column of the documents.
    pub column: Option<String>,
    /// The column of their ids.
    pub id_column: Option<String>,
    /// The column of their labels.
    pub label_column: Option<String>,
    /// The column that says train, validation or test.
    pub split_column: Option<String>,
    /// The share to test on, if no column says.
    pub test_share: Option<f64>,
    /// The share of the others that is kept back to judge on while training.
    pub validation: Option<f64>,
    /// Decides which.
    pub split_seed: Option<u64>,
    /// Rarer words are left out.
    pub min_count: Option<u64>,
    /// Vectors of words: a table or a run.
    pub vectors: Option<PathBuf>,
    /// The encoding of text.
    pub encoding: Option<String>,
    /// The first line of a table is data.
    pub no_header: Option<bool>,
    /// Steps between two checkpoints.
    pub checkpoint_every: Option<u64>,
    /// The seed of the training.
    pub seed: Option<u64>,
}

impl TextNetOptions {
    /// The seed of the training.
    ///
    /// # Errors
    /// [`Error::Core`] above 2^53 - 1.
    pub fn seed(&self) -> Result<Seed> {
        Ok(Seed::new(self.seed.unwrap_or(0))?)
    }

    pub(super) fn min_count(&self) -> u64 {
        self.min_count.unwrap_or(TextOptions::default().min_count)
    }

    /// How documents are read.
    pub(crate) fn reading(&self) -> LabelledOptions {
        LabelledOptions {
            text: TextOptions {
                column: self.column.clone(),
                id_column: self.id_column.clone(),
                encoding: self.encoding.clone(),
                has_header: self.no_header.filter(|&no| no).map(|_| false),
                ..TextOptions::default()
            },
            label_column: self.label_column.clone(),
            split_column: self.split_column.clone(),
            without_labels: false,
        }
    }

    fn flat(&self) -> Map<String, Value> {
        let mut map = object(self);
        map.retain(|_, value| !value.is_null());
        map
    }

    /// The options that belong in `run.json`.
    pub(super) fn documented(&self) -> Map<String, Value> {
        let mut map = self.flat();
        map.retain(|name, _| {
            !FILES.contains(&name.as_str()) && !ELSEWHERE.contains(&name.as_str())
        });
        map
    }

    /// The files, as absolute paths, for the log.
    pub(super) fn files(&self) -> Map<String, Value> {
        super::super::options::files(self.flat(), &FILES)
    }
}

/// What to train.
#[derive(Clone, Debug, PartialEq)]
pub struct TextRequest {
    /// The network and its training.
    pub recipe: TextRecipe,
    /// The rest.
    pub options: TextNetOptions,
}

impl TextRequest {
    /// From layers, the strongest first.
    ///
    /// # Errors
    /// [`Error::Usage`] names the flag that does not exist or does not fit.
    pub fn new(layers: &[Layer]) -> Result<Self> {
        let (recipe, options) = taken_apart(METHOD, layers)?;
        Ok(Self { recipe, options })
    }
}

/// The settings of an earlier run, and the files it read.
///
/// # Errors
/// As [`RunFolder::open`].
pub fn layer_of(path: &Path) -> Result<Layer> {
    super::super::options::earlier(&RunFolder::open(path)?, path, &[], &FILES)
}

impl TextRecipe {
    /// Refuses numbers that make no sense, before data is read.
    pub(super) fn check(&self) -> Result<()> {
        let refuse = |what: String| Err(Error::Usage(what));
        let sizes = [
            ("hidden", Some(self.hidden)),
            ("dense", self.dense),
            ("dim", self.dim),
            ("max-length", Some(self.max_length)),
            ("batch", self.batch),
            ("epochs", Some(self.epochs as usize)),
            ("patience", self.patience.map(|n| n as usize)),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, size)| *size == Some(0)) {
            return refuse(format!("--{name} must be at least 1, got 0"));
        }
        const MOST: usize = 1 << 16;
        if let Some((name, size)) =
            sizes[..3].iter().find_map(|(name, size)| size.filter(|s| *s > MOST).map(|s| (name, s)))
        {
            return refuse(format!("--{name} {size} is too large; {MOST} is the most"));
        }
        if !(self.min_delta >= 0.0 && self.min_delta.is_finite()) {
            return refuse(format!("--min-delta must be at least 0, got {}", self.min_delta));
        }
        if !(self.weight_decay >= 0.0 && self.weight_decay.is_finite()) {
            return refuse(format!("--weight-decay must be at least 0, got {}", self.weight_decay));
        }
        Dropout::new(self.dropout)?;
        Ok(())
    }

    /// With every choice made that depends on the data: n documents, and vectors of some width if they are given.
    pub(super) fn settled(mut self, n: usize, width: Option<usize>) -> Result<Self> {
        if let (Some(asked), Some(width)) = (self.dim, width)
            && asked != width
        {
            let what = format!("--dim {asked}, but the vectors of --vectors have {width} values");
            return Err(Error::Usage(format!("{what}; leave --dim out")));
        }
        if self.train_vectors && width.is_none() {
            let what = "--train-vectors is for --vectors; without them words are learnt anyway";
            return Err(Error::Usage(what.into()));
        }
        self.dim = Some(width.or(self.dim).unwrap_or(DIM));
        self.dense.get_or_insert(self.hidden);
        match self.batch {
            Some(batch) if batch > n => {
                let what = format!("--batch {batch} is larger than the data");
                return Err(Error::Usage(format!(
                    "{what}: there are {n} documents to learn from; choose --batch {n} or less"
                )));
            }
            Some(_) => {}
            None => self.batch = Some(n.min(64)),
        }
        Ok(self)
    }

    pub(super) fn dim(&self) -> usize {
        self.dim.unwrap_or(DIM)
    }

    /// The loss and the number of outputs: one for two classes (binary cross entropy), else one each.
    pub(super) fn loss(classes: usize) -> (Loss, usize) {
        match classes {
            2 => (Loss::BinaryCrossEntropy, 1),
            n => (Loss::CrossEntropy { smoothing: 0.0 }, n),
        }
    }

    /// What it is, in a few words.
    pub(super) fn name(&self) -> String {
        let cell = match self.cell {
            CellKind::Gru => "gru",
            CellKind::Lstm => "lstm",
        };
        format!("bidirectional-{cell}:{},{}", self.hidden, self.dense.unwrap_or(self.hidden))
    }

    /// The network of a settled recipe: from vectors of words to outputs of documents (paper 000, Figure A.6).
    pub(super) fn net(&self, outputs: usize, seed: Seed) -> Result<Net<f32>> {
        let (dim, hidden) = (self.dim(), self.hidden);
        let dense = self.dense.unwrap_or(hidden);
        let mut b = Builder::new(Shape::row(dim), seed);
        if self.dropout > 0.0 {
            b.push("dropout", Dropout::new(self.dropout)?)?;
        }
        match self.cell {
            CellKind::Gru => b.push("rnn", Gru::new(dim, hidden, Direction::Both))?,
            CellKind::Lstm => b.push("rnn", Lstm::new(dim, hidden, Direction::Both))?,
        };
        b.push("ends", SequencePool::Ends)?;
        b.push("fc1", Linear::new(2 * hidden, dense))?;
        b.push("relu", Activation::new(Kind::Relu))?;
        if self.dropout > 0.0 {
            b.push("dropout2", Dropout::new(self.dropout)?)?;
        }
        b.push("fc2", Linear::new(dense, outputs))?;
        Ok(b.finish()?)
    }

    /// Of the network and of the vectors.
    pub(super) fn optimiser(&self) -> OptimiserSettings {
        let weight_decay = Some(self.weight_decay);
        OptimiserSettings { weight_decay, ..OptimiserSettings::of(OptimiserKind::Adam) }
    }

    /// The training of a settled recipe on n documents.
    pub(super) fn training(&self, loss: Loss, n: usize) -> TrainerSettings {
        let batch = self.batch.unwrap_or(n).min(n);
        let total = n.div_ceil(batch.max(1)) as u64 * u64::from(self.epochs);
        TrainerSettings {
            loss,
            optimiser: self.optimiser(),
            lr: self.lr,
            schedule: Schedule { curve: Curve::Constant, warmup: 0, total },
            clip: self.clip,
            batch,
        }
    }
}
