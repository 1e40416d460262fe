//! What `train text` is asked for: layers of settings, as for other networks.

use std::path::Path;

use veridical_core::settings::{Layer, Settings as _, Values};
use veridical_core::{Seed, choices, settings};
use veridical_io::run::RunFolder;
use veridical_io::{ColumnMap, Input, LabelledOptions, TextOptions};
use veridical_nets::layers::{
    Activation, Direction, Dropout, Gru, Kind, Linear, Lstm, SequencePool,
};
use veridical_nets::{
    Builder, Curve, Loss, Net, OptimiserKind, OptimiserSettings, Schedule, Shape, TrainerSettings,
};

use super::super::options::STOPPING;
use crate::settings::{DocumentColumns, Start, TextFiles, TrainingSeed, Vocabulary};
use crate::{Error, Result, config};

/// The `method` of a run that reads text.
pub const METHOD: &str = "text";
/// Options that change no byte of the model, or stand elsewhere in `run.json`.
const ELSEWHERE: [&str; 2] = ["seed", "checkpoint-every"];
/// Values of a word's vector, unless chosen or given.
const DIM: usize = 64;
/// Documents of a step, unless chosen or there are fewer.
const BATCH: usize = 64;
/// The share of documents to test on, unless chosen.
pub(super) const TEST_SHARE: f64 = 0.1;
/// The largest size of a layer.
const WIDEST: f64 = 65_536.0;

settings! {
    /// A network that reads text, and how it is trained: the section `settings` of `run.json`.
    pub struct TextRecipe in "Training" {
        /// gru or lstm
        pub cell: CellKind = CellKind::Lstm => [heading("Model")],
        /// State of the cell in each direction
        pub hidden: usize = 32 => [heading("Model"), at_least(1.0), at_most(WIDEST)],
        /// Units of the dense layer
        pub dense: Option<usize> = None => [heading("Model"), at_least(1.0), at_most(WIDEST), otherwise("as ⟨hidden⟩")],
        /// Values of a word's vector
        pub dim: Option<usize> = None
            => [heading("Model"), at_least(1.0), at_most(WIDEST), otherwise(format!("{DIM}, or those of ⟨vectors⟩"))],
        /// Let the vectors of ⟨vectors⟩ move
        pub train_vectors: bool = false => [heading("Model"), switch()],
        /// Read the first N known words of a document
        pub max_length: usize = 256 => [heading("Documents"), at_least(1.0)],
        /// Leave out values of vectors and of the dense layer with this probability
        pub dropout: f64 = 0.0 => [heading("Model"), value("P"), at_least(0.0), below(1.0)],
        /// Passes over the documents
        pub epochs: u32 = 10 => [at_least(1.0)],
        /// Documents of a step
        pub batch: Option<usize> = None => [at_least(1.0), otherwise(BATCH.to_string())],
        /// Learning rate of Adam
        pub lr: f64 = 1e-3,
        /// Weight decay, also of vectors that move
        pub weight_decay: f64 = 0.0 => [at_least(0.0)],
        /// Scale gradients of the network of a larger norm down to it
        pub clip: Option<f64> = None => [value("NORM")],
        /// Stop after N epochs without a lower loss, on the validation documents (then the best epoch is kept) or on the
        /// training documents
        pub patience: Option<u32> = None => [heading(STOPPING), at_least(1.0)],
        /// What counts as lower
        pub min_delta: f64 = 0.0 => [heading(STOPPING), at_least(0.0)],
    }
}

choices! {
    /// Which cell goes along the words.
    pub enum CellKind {
        /// A gated recurrent unit
        Gru = "gru",
        /// A long short-term memory
        Lstm = "lstm",
    }
}

settings! {
    /// From what it learns.
    pub struct TextNetOptions in "Documents" {
        /// A table of documents with labels: CSV, TSV, Parquet, also compressed
        pub text: Option<Input> = None,
        /// Column of the labels
        pub label_column: Option<String> = None => [otherwise("`label`, or a usual name")],
        /// Column that says train, validation or test
        pub split_column: Option<String> = None,
        /// Share of the documents to test on, if no column says
        pub test_share: Option<f64> = None => [value("SHARE"), otherwise(TEST_SHARE.to_string())],
        /// Share of the documents to learn from that is held out to evaluate on while training
        pub validation: Option<f64> = None => [value("SHARE"), otherwise("0")],
        /// Seed of both shares, apart from ⟨seed⟩
        pub split_seed: Option<u64> = None => [value("S"), otherwise("0")],
        /// Vectors of words: a table, or a run that has some; words without one get zeros
        pub vectors: Option<Input> = None => [heading("Model"), value("FILE_OR_RUN")],
        /// Steps between two checkpoints
        pub checkpoint_every: Option<u64> = None
            => [heading(STOPPING), value("STEPS"), at_least(1.0), otherwise("by time, a twentieth of it at most")],
    } with {
        /// Which columns documents stand in.
        pub documents: DocumentColumns,
        /// Which words are known.
        pub vocabulary: Vocabulary,
        /// How text files are decoded.
        pub files: TextFiles,
        /// The seed.
        pub seed: TrainingSeed,
    }
}

impl TextNetOptions {
    pub(super) fn min_count(&self) -> u64 {
        self.vocabulary.min_count.unwrap_or(TextOptions::default().min_count)
    }

    /// How documents are read.
    pub(crate) fn reading(&self) -> LabelledOptions {
        let columns = ColumnMap::default()
            .with("text", self.documents.column.as_ref())
            .with("id", self.documents.id_column.as_ref())
            .with("label", self.label_column.as_ref())
            .with("split", self.split_column.as_ref());
        LabelledOptions { records: self.files.records(columns), without_labels: false }
    }

    /// The options that belong in `run.json`.
    pub(super) fn documented(&self) -> Values {
        config::documented(self, &ELSEWHERE)
    }
}

settings! {
    /// What to train.
    pub struct TextRequest {
    } with {
        /// From what.
        pub options: TextNetOptions,
        /// The network and its training.
        pub recipe: TextRecipe,
    }
}

settings! {
    /// What to train, and where to.
    pub struct TrainText {
    } with {
        /// Which network, from what.
        pub request: TextRequest,
        /// Seeds and output.
        pub start: Start,
    }
}

impl TrainText {
    /// From layers, the strongest first, over the run that they name with `from`.
    ///
    /// # Errors
    /// [`Error::Core`] names the setting that does not exist or does not fit.
    pub fn new(mut layers: Vec<Layer>) -> Result<Self> {
        let given = Self::layered(METHOD, &layers)?;
        layers.extend(given.start.from.as_deref().map(layer_of).transpose()?);
        Ok(Self::layered(METHOD, &layers)?)
    }
}

impl TextRequest {
    /// From layers, the strongest first, over the settings of the run `from`.
    ///
    /// # Errors
    /// [`Error::Core`] names the setting that does not exist or does not fit.
    pub fn new(mut layers: Vec<Layer>, from: Option<&Path>) -> Result<Self> {
        layers.extend(from.map(layer_of).transpose()?);
        Ok(Self::layered(METHOD, &layers)?)
    }
}

/// The settings of an earlier run, and the files it read.
///
/// # Errors
/// As [`RunFolder::open`].
pub fn layer_of(path: &Path) -> Result<Layer> {
    if !super::is_text(path) {
        let what = "is no run that reads text; name one, or its run.json";
        return Err(Error::request(format!("⟨from⟩ {} {what}", path.display()), ""));
    }
    Ok(config::of_run::<TextRequest>(&RunFolder::open(path)?, path, &[]))
}

impl TextRecipe {
    /// With every choice made that depends on the data: n documents, and vectors of some width if they are given.
    ///
    /// # Errors
    /// Sizes that do not fit the data.
    pub fn settled(mut self, n: usize, width: Option<usize>) -> Result<Self> {
        if let (Some(asked), Some(width)) = (self.dim, width)
            && asked != width
        {
            let what = format!("⟨dim⟩ {asked}, but the vectors of ⟨vectors⟩ have {width} values");
            return Err(Error::request(what, "leave ⟨dim⟩ out"));
        }
        if self.train_vectors && width.is_none() {
            let what = "⟨train-vectors⟩ is for ⟨vectors⟩; without them words are learnt anyway";
            return Err(Error::request(what, ""));
        }
        self.dim = Some(width.or(self.dim).unwrap_or(DIM));
        self.dense.get_or_insert(self.hidden);
        match self.batch {
            Some(batch) if batch > n => {
                let what = format!("⟨batch⟩ {batch} is larger than the data");
                return Err(Error::request(
                    format!("{what}: there are {n} documents to learn from"),
                    format!("choose ⟨batch⟩ {n} or less"),
                ));
            }
            Some(_) => {}
            None => self.batch = Some(n.min(BATCH)),
        }
        Ok(self)
    }

    /// Values of the vector of a word.
    pub fn dim(&self) -> usize {
        self.dim.unwrap_or(DIM)
    }

    /// The loss and the number of outputs: one for two classes (binary cross entropy), else one each.
    pub fn loss(classes: usize) -> (Loss, usize) {
        match classes {
            2 => (Loss::BinaryCrossEntropy, 1),
            n => (Loss::CrossEntropy { smoothing: 0.0 }, n),
        }
    }

    /// What it is, in a few words.
    pub(super) fn name(&self) -> String {
        let cell = self.cell.name();
        format!("bidirectional-{cell}:{},{}", self.hidden, self.dense.unwrap_or(self.hidden))
    }

    /// The network of a settled recipe: from vectors of words to outputs of documents (paper 000, Figure A.6).
    ///
    /// # Errors
    /// A dropout that is no probability.
    pub fn net(&self, outputs: usize, seed: Seed) -> Result<Net<f32>> {
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
    pub fn optimiser(&self) -> OptimiserSettings {
        let weight_decay = Some(self.weight_decay);
        OptimiserSettings { weight_decay, ..OptimiserSettings::of(OptimiserKind::Adam) }
    }

    /// The training of a settled recipe on n documents.
    pub fn training(&self, loss: Loss, n: usize) -> TrainerSettings {
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
