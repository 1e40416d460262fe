//! Training of a document classifier together with its word embeddings.

use veridical_core::{Job, Seed, Stream};
use veridical_data::examples::Targets;
use veridical_data::{TensorMap, Vocabulary};

use super::examples::{lists, restore, resume};
use super::{Evaluation, Learner, Step};
use crate::metrics::{Measures, measures};
use crate::{
    Addend, EmbeddingTable, Error, Mode, Net, Result, Target, Trainer, TrainerSettings, Workspace,
};

/// Name of the word embeddings in a checkpoint, and prefix of the names of their optimizer state.
const WORDS: &str = "words";
/// Word embeddings are initialized uniformly within this bound, as in the tutorial that the paper follows.
const BOUND: f64 = 0.05;
/// Words per forward pass, unless the longest document has more.
const PASS: usize = 1 << 13;

/// Initializes the embeddings of `n` words.
pub fn first_vectors(n: usize, dim: usize, seed: Seed) -> Vec<f32> {
    let stream = Stream::new(seed, "init/embedding");
    let row = |word: usize| {
        let place = stream.at(0, word as u64);
        (0..dim as u32).map(move |k| ((2.0 * place.uniform(k) - 1.0) * BOUND) as f32)
    };
    (0..n).flat_map(row).collect()
}

/// Tokenized documents with their classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Documents {
    /// Offsets of the documents in the words, ending with the number of words.
    starts: Vec<usize>,
    words: Vec<u32>,
    /// Classes of the documents.
    pub targets: Targets,
    /// Number of documents that were truncated.
    pub cut: usize,
    /// Number of documents without any word of the vocabulary.
    pub unknown: usize,
}

impl Documents {
    /// Tokenizes texts and keeps the first `most` known words of each.
    ///
    /// A document without known words gets a single placeholder word, the one after the last of the vocabulary.
    pub fn new<'a>(
        texts: impl Iterator<Item = &'a str>,
        vocabulary: &Vocabulary,
        most: usize,
        classes: Vec<u32>,
    ) -> Self {
        let targets = Targets::Classes(classes);
        let mut new = Self { starts: vec![0], words: Vec::new(), targets, cut: 0, unknown: 0 };
        for text in texts {
            let mut words = vocabulary.tokenize(text);
            new.cut += usize::from(words.len() > most);
            words.truncate(most);
            if words.is_empty() {
                new.unknown += 1;
                words.push(vocabulary.words().len() as u32);
            }
            new.words.extend(words);
            new.starts.push(new.words.len());
        }
        new
    }

    /// Returns the number of documents.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the words of document `i`.
    pub fn words(&self, i: usize) -> &[u32] {
        &self.words[self.starts[i]..self.starts[i + 1]]
    }

    /// Returns the total number of words of the `n` longest documents.
    pub fn most_words(&self, n: usize) -> usize {
        let mut lengths: Vec<usize> = (0..self.len()).map(|i| self.words(i).len()).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths.iter().take(n).sum()
    }

    /// Returns a note about truncated documents and documents without known words, if there are any.
    pub fn note(&self, what: &str, most: usize) -> Option<String> {
        let all = self.len();
        let cut = format!("{} of {all} {what} are longer than ⟨max-length⟩ {most}", self.cut);
        let cut = (self.cut > 0).then(|| format!("{cut}: only their first {most} words are used"));
        let unknown = format!("{} of {all} {what} have no known word", self.unknown);
        let unknown = (self.unknown > 0).then_some(unknown);
        let notes: Vec<String> = cut.into_iter().chain(unknown).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}

/// A network with its word embeddings, and the documents it is trained and evaluated on.
#[derive(Debug)]
pub struct DocumentLearner<'a> {
    trainer: Trainer<f32>,
    words: EmbeddingTable<f32>,
    moves_words: bool,
    train: &'a Documents,
    validation: Option<&'a Documents>,
    classes: usize,
    passes: DocumentPasses,
    batch: Batch,
}

/// The documents of one step.
#[derive(Debug, Default)]
struct Batch {
    starts: Vec<usize>,
    words: Vec<u32>,
    classes: Vec<u32>,
    addends: Vec<Addend<f32>>,
}

impl Batch {
    fn fill(&mut self, documents: &Documents, samples: impl Iterator<Item = usize>) {
        self.starts.clear();
        self.words.clear();
        self.classes.clear();
        self.starts.push(0);
        for i in samples {
            self.words.extend_from_slice(documents.words(i));
            self.starts.push(self.words.len());
            if let Targets::Classes(classes) = &documents.targets {
                self.classes.extend(classes.get(i));
            }
        }
    }
}

impl<'a> DocumentLearner<'a> {
    /// Prepares training on documents with the given number of `classes`; with `moves_words` the embeddings are trained too.
    ///
    /// # Errors
    /// The same as [`Trainer::new`].
    pub fn new(
        net: Net<f32>,
        settings: TrainerSettings,
        (words, moves_words): (EmbeddingTable<f32>, bool),
        train: &'a Documents,
        validation: Option<&'a Documents>,
        classes: usize,
    ) -> Result<Self> {
        let rows = train.most_words(settings.batch);
        let longest = validation.map_or(0, |kept| kept.most_words(1));
        let passes = DocumentPasses::new(&net, longest);
        let trainer = Trainer::of_sequences(net, settings, rows, moves_words, |_| true)?;
        let batch = Batch::default();
        Ok(Self { trainer, words, moves_words, train, validation, classes, passes, batch })
    }

    /// Evaluates the network on documents.
    ///
    /// # Errors
    /// If an output is NaN or infinite, or the user stops the job.
    pub fn measure(&self, documents: &Documents, job: &Job<'_>) -> Result<Measures> {
        let (net, loss) = (self.trainer.net(), self.trainer.settings().loss);
        let mut passes = DocumentPasses::new(net, documents.most_words(1));
        let outputs = passes.outputs(net, &self.words, documents, ("", job))?;
        measures(&outputs, net.outputs(), &documents.targets, loss, self.classes)
    }

    /// Returns the output of a layer for every document, such as a hidden representation.
    ///
    /// # Errors
    /// If the network has no such layer, or the user stops the job.
    pub fn hidden(&self, layer: &str, documents: &Documents, job: &Job<'_>) -> Result<Vec<f32>> {
        let net = self.trainer.net();
        let mut passes = DocumentPasses::new(net, documents.most_words(1));
        passes.hidden(net, &self.words, documents, layer, ("", job))
    }

    /// Returns the trained network and its word embeddings.
    pub fn into_parts(self) -> (Net<f32>, EmbeddingTable<f32>) {
        (self.trainer.into_net(), self.words)
    }
}

impl Learner for DocumentLearner<'_> {
    fn settings(&self) -> &TrainerSettings {
        self.trainer.settings()
    }

    fn rate(&self) -> f64 {
        self.trainer.rate()
    }

    fn steps(&self) -> u64 {
        self.trainer.steps()
    }

    fn step(&mut self, samples: &[usize], _: u32) -> Result<Step> {
        let Self { trainer, words, batch, .. } = self;
        batch.fill(self.train, samples.iter().copied());
        let rate = trainer.rate();
        let targets = Target::Classes(&batch.classes);
        let fill = |slot: &mut [f32]| words.gather(&batch.words, slot);
        let step = trainer.step_sequences(&batch.starts, targets, fill)?;
        if self.moves_words {
            let addend = |(&row, from)| Addend { row, source: 0, from, weight: 1.0 };
            batch.addends.clear();
            batch.addends.extend(batch.words.iter().zip(0..).map(addend));
            words.step(rate, &batch.addends, &[trainer.input_gradient()]);
        }
        Ok(step)
    }

    fn evaluate(&mut self, job: &Job<'_>) -> Result<Option<Evaluation>> {
        let Some(documents) = self.validation else { return Ok(None) };
        let (net, loss) = (self.trainer.net(), self.trainer.settings().loss);
        let outputs = self.passes.outputs(net, &self.words, documents, ("", &job.quiet()))?;
        let targets = &documents.targets;
        let found = measures(&outputs, net.outputs(), targets, loss, self.classes)?;
        Ok(Some(found.evaluation()))
    }

    fn learned(&self) -> Vec<(String, &[f32])> {
        let mut all = lists(self.trainer.net());
        if self.moves_words {
            all.push((WORDS.into(), self.words.values()));
        }
        all
    }

    fn kept(&self) -> Vec<(String, &[f32])> {
        let state = self.trainer.optimizer().state();
        let mut all: Vec<_> = state.into_iter().map(|(name, v)| (name.to_owned(), v)).collect();
        if self.moves_words {
            let state = self.words.optimizer().state();
            all.extend(state.into_iter().map(|(name, v)| (format!("{WORDS}.{name}"), v)));
        }
        all
    }

    fn resume(&mut self, state: TensorMap, steps: u64) -> Result<()> {
        let (words, state): (TensorMap, TensorMap) =
            state.into_iter().partition(|(name, _)| name.starts_with(WORDS));
        resume(&mut self.trainer, state, steps)?;
        if !self.moves_words {
            return Ok(());
        }
        let Some((_, values)) = words.get(WORDS) else {
            return Err(Error::damaged("it has no word embeddings".into()));
        };
        let kept: Vec<(&str, &[f32])> = words
            .iter()
            .filter_map(|(name, (_, v))| {
                Some((name.strip_prefix(WORDS)?.strip_prefix('.')?, v.as_slice()))
            })
            .collect();
        self.words.resume(values, steps, &kept)
    }

    fn restore(&mut self, learned: &TensorMap) -> bool {
        let is_restored = match (self.moves_words, learned.get(WORDS)) {
            (false, _) => true,
            (true, Some((_, values))) => {
                // The optimizer state is not restored: training is over.
                self.words.resume(values, 0, &self.words.clone().optimizer().state()).is_ok()
            }
            (true, None) => false,
        };
        is_restored && restore(self.trainer.net_mut(), learned)
    }
}

/// Workspace for evaluating a network on documents.
#[derive(Debug)]
pub struct DocumentPasses {
    work: Workspace<f32>,
    capacity: usize,
    batch: Batch,
}

impl DocumentPasses {
    /// Allocates a workspace for documents of up to `longest` words.
    pub fn new(net: &Net<f32>, longest: usize) -> Self {
        let capacity = longest.max(PASS);
        Self { work: Workspace::new(net, capacity, None), capacity, batch: Batch::default() }
    }

    /// Computes the outputs of all documents, one after the other, reporting progress to `job` as `what`.
    ///
    /// # Errors
    /// If the user stops the job.
    pub fn outputs(
        &mut self,
        net: &Net<f32>,
        words: &EmbeddingTable<f32>,
        documents: &Documents,
        report: (&str, &Job<'_>),
    ) -> Result<Vec<f32>> {
        self.values(net, words, documents, report, |work| work.outputs(net))
    }

    /// As [`outputs`](Self::outputs), of the layer with this name.
    ///
    /// # Errors
    /// If the network has no such layer, or the user stops the job.
    pub fn hidden(
        &mut self,
        net: &Net<f32>,
        words: &EmbeddingTable<f32>,
        documents: &Documents,
        layer: &str,
        report: (&str, &Job<'_>),
    ) -> Result<Vec<f32>> {
        if !net.names().any(|name| name == layer) {
            return Err(Error::request(format!("the network has no layer {layer:?}")));
        }
        self.values(net, words, documents, report, |work| {
            work.activations(net, layer).unwrap_or_default()
        })
    }

    /// Returns what `of` takes from the workspace after every forward pass.
    ///
    /// # Errors
    /// If the user stops the job.
    pub fn values(
        &mut self,
        net: &Net<f32>,
        words: &EmbeddingTable<f32>,
        documents: &Documents,
        (what, job): (&str, &Job<'_>),
        of: impl Fn(&Workspace<f32>) -> &[f32],
    ) -> Result<Vec<f32>> {
        let n = documents.len();
        let progress = job.progress(what, "documents", Some(n as u64));
        let mut values = Vec::new();
        let mut first = 0;
        while first < n {
            let mut rows = 0;
            let fits = |i: &usize| {
                rows += documents.words(*i).len();
                rows <= self.capacity
            };
            let count = (first..n).take_while(fits).count().max(1);
            self.batch.fill(documents, first..first + count);
            let Batch { starts, words: ids, .. } = &self.batch;
            let fill = |slot: &mut [f32]| words.gather(ids, slot);
            net.forward_sequences(&mut self.work, starts, Mode::Frozen, 0, fill);
            values.extend_from_slice(of(&self.work));
            progress.advance(count as u64);
            first += count;
            progress.check()?;
        }
        Ok(values)
    }
}
