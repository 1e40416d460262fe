//! Settings of `train text`: layers of settings, as for other networks.

use std::path::Path;

use veridical_core::settings::{Settings as _, SettingsLayer, Values};
use veridical_core::{Seed, choices, settings};
use veridical_io::run::RunFolder;
use veridical_io::{ColumnMap, Input, LabeledOptions, TextOptions};
use veridical_nets::layers::{
    Activation, Direction, Dropout, Gru, Kind, Linear, Lstm, SequencePool,
};
use veridical_nets::{
    Builder, Curve, Loss, Net, OptimizerKind, OptimizerSettings, Schedule, Shape, TrainerSettings,
};

use super::super::options::STOPPING;
use crate::settings::{DocumentColumns, Start, TextFiles, TrainingSeed, Vocabulary};
use crate::{Error, Result, config};

/// The `method` of a run that is a text model.
pub const METHOD: &str = "text";
/// Options that change no byte of the model, or are stored elsewhere in `run.json`.
const ELSEWHERE: [&str; 2] = ["seed", "checkpoint-every"];
/// Default embedding dimension.
const DIM: usize = 64;
/// Default batch size, unless there are fewer documents.
const BATCH: usize = 64;
/// Default fraction of test documents.
pub(super) const TEST_SHARE: f64 = 0.1;
/// Maximum size of a layer.
const WIDEST: f64 = 65_536.0;

choices! {
    /// Kind of text model.
    pub enum TextModel {
        /// Words and pairs of words, weighted by TF-IDF, and a sparse logistic regression
        Tfidf = "tfidf",
        /// Word embeddings and a bidirectional recurrent network
        Rnn = "rnn",
    }
}

settings! {
    /// Settings of a model on words and pairs of words: a part of the section `settings` of `run.json`.
    pub struct TfidfRecipe in "Model tfidf" {
        /// Longest sequence of words that is a term: 1 or 2
        pub ngrams: usize = 2 => [at_least(1.0), at_most(2.0), detail()],
        /// Fewest training documents of a term
        pub min_documents: u64 = 2 => [at_least(1.0)],
        /// Most terms; those of most documents are kept
        pub max_terms: usize = 1 << 20 => [at_least(1.0), detail()],
        /// Inverse penalty of the logistic regression, as in scikit-learn
        pub c: Option<f64> = None => [value("C"), otherwise("by cross-validation")],
        /// Number of folds of the cross-validation
        pub folds: usize = 5 => [at_least(2.0), detail()],
    }
}

settings! {
    /// Architecture and training settings of a recurrent network: a part of the section `settings` of `run.json`.
    pub struct TextRecipe in "Training of rnn" {
        /// Recurrent cell: gru or lstm
        pub cell: CellKind = CellKind::Lstm => [heading("Model rnn")],
        /// Hidden size of the cell, per direction
        pub hidden: usize = 32 => [heading("Model rnn"), at_least(1.0), at_most(WIDEST)],
        /// Units of the dense layer
        pub dense: Option<usize> = None => [heading("Model rnn"), at_least(1.0), at_most(WIDEST), otherwise("same as ⟨hidden⟩"), detail()],
        /// Embedding dimension
        pub dim: Option<usize> = None
            => [heading("Model rnn"), at_least(1.0), at_most(WIDEST), otherwise(format!("{DIM}, or that of ⟨vectors⟩"))],
        /// Fine-tune the word embeddings of ⟨vectors⟩
        pub train_vectors: bool = false => [heading("Model rnn"), switch(), detail()],
        /// Maximum document length: the first N known words are read
        pub max_length: usize = 256 => [heading("Model rnn"), at_least(1.0), detail()],
        /// Dropout probability of embeddings and dense layer
        pub dropout: f64 = 0.0 => [heading("Model rnn"), value("P"), at_least(0.0), below(1.0), detail()],
        /// Number of epochs
        pub epochs: u32 = 10 => [at_least(1.0)],
        /// Batch size
        pub batch: Option<usize> = None => [at_least(1.0), otherwise(BATCH.to_string()), detail()],
        /// Learning rate of Adam
        pub lr: f64 = 1e-3,
        /// Weight decay, also of trainable embeddings
        pub weight_decay: f64 = 0.0 => [at_least(0.0), detail()],
        /// Clip gradients of the network to this norm
        pub clip: Option<f64> = None => [value("NORM"), detail()],
        /// Stop after N epochs without a lower validation loss (training loss if none is held out)
        pub patience: Option<u32> = None => [heading(STOPPING), at_least(1.0)],
        /// Minimum decrease of the loss that counts as an improvement
        pub min_delta: f64 = 0.0 => [heading(STOPPING), at_least(0.0)],
    }
}

choices! {
    /// Recurrent cell.
    pub enum CellKind {
        /// Gated recurrent unit
        Gru = "gru",
        /// Long short-term memory
        Lstm = "lstm",
    }
}

settings! {
    /// Training data of a text model.
    pub struct TextNetOptions in "Documents" {
        /// Labeled documents: CSV, TSV or Parquet, optionally compressed
        pub text: Option<Input> = None,
        /// Column with the labels
        pub label_column: Option<String> = None => [otherwise("`label`, or a common name")],
        /// Column that assigns documents to train, validation or test
        pub split_column: Option<String> = None,
        /// Fraction of the documents held out as test set, without ⟨split-column⟩
        pub test_share: Option<f64> = None => [value("SHARE"), otherwise(TEST_SHARE.to_string())],
        /// Fraction of the training documents held out as validation set
        pub validation: Option<f64> = None => [value("SHARE"), otherwise("0")],
        /// Random seed of both fractions, independent of ⟨seed⟩
        pub split_seed: Option<u64> = None => [value("S"), otherwise("0"), detail()],
        /// Pretrained word embeddings: a vector table or a run; missing words get zeros
        pub vectors: Option<Input> = None => [heading("Model rnn"), value("FILE_OR_RUN")],
        /// Steps between two checkpoints
        pub checkpoint_every: Option<u64> = None
            => [heading(STOPPING), value("STEPS"), at_least(1.0), otherwise("by time, at most 5 % overhead")],
    } with {
        /// Which columns hold the documents.
        pub documents: DocumentColumns,
        /// Which words are in the vocabulary.
        pub vocabulary: Vocabulary,
        /// How text files are decoded.
        pub files: TextFiles,
        /// Random seed of training.
        pub seed: TrainingSeed,
    }
}

impl TextNetOptions {
    pub(super) fn min_count(&self) -> u64 {
        self.vocabulary.min_count.unwrap_or(TextOptions::default().min_count)
    }

    /// Returns the options for reading documents.
    pub(crate) fn reading(&self) -> LabeledOptions {
        let columns = ColumnMap::default()
            .with("text", self.documents.column.as_ref())
            .with("id", self.documents.id_column.as_ref())
            .with("label", self.label_column.as_ref())
            .with("split", self.split_column.as_ref());
        LabeledOptions { records: self.files.records(columns), without_labels: false }
    }

    /// Returns the options to store in `run.json`.
    pub(super) fn documented(&self) -> Values {
        config::documented(self, &ELSEWHERE)
    }
}

settings! {
    /// A text model and its training data.
    pub struct TextRequest {
        /// Kind of model: tfidf or rnn
        pub model: TextModel = TextModel::Tfidf => [heading("Model")],
    } with {
        /// Data and random seed.
        pub options: TextNetOptions,
        /// Settings of ⟨model⟩ tfidf.
        pub tfidf: TfidfRecipe,
        /// Settings of ⟨model⟩ rnn.
        pub recipe: TextRecipe,
    }
}

settings! {
    /// Settings of [`train`](super::train).
    pub struct TrainText {
    } with {
        /// Model and data.
        pub request: TextRequest,
        /// Seeds and output folder.
        pub start: Start,
    }
}

impl TrainText {
    /// Creates settings from layers, highest priority first, on top of the run that they name with `from`.
    ///
    /// # Errors
    /// [`Error::Core`] names the setting that is unknown or invalid.
    pub fn new(mut layers: Vec<SettingsLayer>) -> Result<Self> {
        let given = Self::layered(METHOD, &layers)?;
        let from = given.start.from.as_deref().map(layer_of).transpose()?;
        let own = layers.len();
        layers.extend(from);
        let settings = Self::layered(METHOD, &layers)?;
        let model = settings.request.model;
        match layers[..own].iter().find_map(|layer| foreign(model, layer)) {
            None => Ok(settings),
            Some((setting, of)) => Err(Error::request(
                format!("⟨{setting}⟩ is a setting of ⟨model⟩ {}", of.name()),
                format!("pass ⟨model⟩ {}, or leave ⟨{setting}⟩ out", of.name()),
            )),
        }
    }
}

/// Returns a setting of a layer that belongs to another model.
fn foreign(model: TextModel, layer: &SettingsLayer) -> Option<(String, TextModel)> {
    const ONLY_RNN: [&str; 3] = ["vectors", "min-count", "checkpoint-every"];
    let (other, mut names) = match model {
        TextModel::Tfidf => (TextModel::Rnn, TextRecipe::fields()),
        TextModel::Rnn => (TextModel::Tfidf, TfidfRecipe::fields()),
    };
    names.retain(|field| layer.values.contains_key(&field.name));
    let only = ONLY_RNN.iter().find(|name| layer.values.contains_key(**name));
    let first = names.first().map(|field| field.name.clone());
    let only = only.filter(|_| model == TextModel::Tfidf).map(|name| (*name).to_owned());
    first.or(only).map(|name| (name, other))
}

impl TextRequest {
    /// Creates a request from layers, highest priority first, on top of the settings of the run `from`.
    ///
    /// # Errors
    /// [`Error::Core`] names the setting that is unknown or invalid.
    pub fn new(mut layers: Vec<SettingsLayer>, from: Option<&Path>) -> Result<Self> {
        layers.extend(from.map(layer_of).transpose()?);
        Ok(Self::layered(METHOD, &layers)?)
    }
}

/// Returns the settings of an earlier run and its input files as a layer.
///
/// # Errors
/// As [`RunFolder::open`].
pub fn layer_of(path: &Path) -> Result<SettingsLayer> {
    if !super::is_text(path) {
        let what = "is not a run of a text model; pass one, or its run.json";
        return Err(Error::request(format!("⟨from⟩ {} {what}", path.display()), ""));
    }
    let mut layer = config::of_run::<TextRequest>(&RunFolder::open(path)?, path, &[]);
    // Runs of the first versions are recurrent networks and do not say so.
    layer.values.entry("model").or_insert_with(|| TextModel::Rnn.name().into());
    Ok(layer)
}

impl TextRecipe {
    /// Resolves the settings that depend on the data: n documents, and the dimension of pretrained embeddings, if given.
    ///
    /// # Errors
    /// Sizes that do not match the data.
    pub fn settled(mut self, n: usize, width: Option<usize>) -> Result<Self> {
        if let (Some(requested), Some(width)) = (self.dim, width)
            && requested != width
        {
            let what = format!(
                "⟨dim⟩ is {requested}, but the vectors of ⟨vectors⟩ have dimension {width}"
            );
            return Err(Error::request(what, "leave ⟨dim⟩ out"));
        }
        if self.train_vectors && width.is_none() {
            let what =
                "⟨train-vectors⟩ needs ⟨vectors⟩; without them word embeddings are always trained";
            return Err(Error::request(what, ""));
        }
        self.dim = Some(width.or(self.dim).unwrap_or(DIM));
        self.dense.get_or_insert(self.hidden);
        match self.batch {
            Some(batch) if batch > n => {
                let what = format!("⟨batch⟩ {batch} exceeds the data");
                return Err(Error::request(
                    format!("{what}: there are {n} training documents"),
                    format!("choose ⟨batch⟩ {n} or less"),
                ));
            }
            Some(_) => {}
            None => self.batch = Some(n.min(BATCH)),
        }
        Ok(self)
    }

    /// Returns the embedding dimension.
    pub fn dim(&self) -> usize {
        self.dim.unwrap_or(DIM)
    }

    /// Returns the loss and the number of outputs: one for two classes (binary cross-entropy), otherwise one per class.
    pub fn loss(classes: usize) -> (Loss, usize) {
        match classes {
            2 => (Loss::BinaryCrossEntropy, 1),
            n => (Loss::CrossEntropy { smoothing: 0.0 }, n),
        }
    }

    /// Returns a short description of the architecture.
    pub(super) fn description(&self) -> String {
        let cell = self.cell.name();
        format!("bidirectional-{cell}:{},{}", self.hidden, self.dense.unwrap_or(self.hidden))
    }

    /// Builds the network of a resolved recipe: from word embeddings to class outputs (paper 000, Figure A.6).
    ///
    /// # Errors
    /// A dropout that is not a probability.
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

    /// Returns the optimizer settings of network and embeddings.
    pub fn optimizer(&self) -> OptimizerSettings {
        let weight_decay = Some(self.weight_decay);
        OptimizerSettings { weight_decay, ..OptimizerSettings::of(OptimizerKind::Adam) }
    }

    /// Returns the trainer settings of a resolved recipe on n documents.
    pub fn training(&self, loss: Loss, n: usize) -> TrainerSettings {
        let batch = self.batch.unwrap_or(n).min(n);
        let total = n.div_ceil(batch.max(1)) as u64 * u64::from(self.epochs);
        TrainerSettings {
            loss,
            optimizer: self.optimizer(),
            lr: self.lr,
            schedule: Schedule { curve: Curve::Constant, warmup: 0, total },
            clip: self.clip,
            batch,
        }
    }
}
