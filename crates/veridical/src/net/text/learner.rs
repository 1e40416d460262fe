//! A network that reads documents, with the table of its words.

use veridical_core::{Seed, Stream, interrupt};
use veridical_data::examples::Targets;
use veridical_data::run::TensorMap;
use veridical_nets::{
    Addend, Error as NetError, Mode, Net, Result as NetResult, Table, Target, Trainer,
    TrainerSettings, Workspace,
};

use super::super::fit::{Judged, Learner, Step};
use super::super::learner::{lists, restore, resume};
use super::super::measure::measures;
use super::material::Documents;
use crate::{Observer, Result};

/// Vectors of words in a checkpoint, and before the names of what their optimiser keeps.
const WORDS: &str = "words";
/// First vectors are uniform within it, as in the tutorial that the paper follows.
const BOUND: f64 = 0.05;
/// Words of one pass, or those of the longest document.
const PASS: usize = 1 << 13;

/// The first vectors of `n` words.
pub(super) fn first_vectors(n: usize, dim: usize, seed: Seed) -> Vec<f32> {
    let stream = Stream::new(seed, "init/embedding");
    let row = |word: usize| {
        let place = stream.at(0, word as u64);
        (0..dim as u32).map(move |k| ((2.0 * place.uniform(k) - 1.0) * BOUND) as f32)
    };
    (0..n).flat_map(row).collect()
}

/// A network, its words, and the documents that it learns from and is judged on.
pub(super) struct TextLearner<'a> {
    trainer: Trainer<f32>,
    words: Table<f32>,
    moves_words: bool,
    train: &'a Documents,
    validation: Option<&'a Documents>,
    classes: usize,
    passes: Passes,
    batch: Batch,
}

/// The documents of a step.
#[derive(Default)]
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

impl<'a> TextLearner<'a> {
    pub fn new(
        net: Net<f32>,
        settings: TrainerSettings,
        (words, moves_words): (Table<f32>, bool),
        train: &'a Documents,
        validation: Option<&'a Documents>,
        classes: usize,
    ) -> Result<Self> {
        let rows = train.most_words(settings.batch);
        let longest = validation.map_or(0, |kept| kept.most_words(1));
        let passes = Passes::new(&net, longest);
        let trainer = Trainer::of_sequences(net, settings, rows, moves_words, |_| true)?;
        let batch = Batch::default();
        Ok(Self { trainer, words, moves_words, train, validation, classes, passes, batch })
    }

    /// The network and the vectors of its words.
    pub fn parts(&self) -> (&Net<f32>, &Table<f32>) {
        (self.trainer.net(), &self.words)
    }

    /// The same, to keep.
    pub fn into_parts(self) -> (Net<f32>, Table<f32>) {
        (self.trainer.into_net(), self.words)
    }
}

impl Learner for TextLearner<'_> {
    fn steps(&self) -> u64 {
        self.trainer.steps()
    }

    fn step(&mut self, samples: &[usize], _: u32) -> NetResult<Step> {
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

    fn judge(&mut self) -> Result<Option<Judged>> {
        let Some(documents) = self.validation else { return Ok(None) };
        let (net, loss) = (self.trainer.net(), self.trainer.settings().loss);
        let outputs = self.passes.outputs(net, &self.words, documents, None)?;
        let targets = &documents.targets;
        let found = measures(&outputs, net.outputs(), targets, loss, self.classes)?;
        Ok(Some(found.judged()))
    }

    fn learnt(&self) -> Vec<(String, &[f32])> {
        let mut all = lists(self.trainer.net());
        if self.moves_words {
            all.push((WORDS.into(), self.words.values()));
        }
        all
    }

    fn kept(&self) -> Vec<(String, &[f32])> {
        let state = self.trainer.optimiser().state();
        let mut all: Vec<_> = state.into_iter().map(|(name, v)| (name.to_owned(), v)).collect();
        if self.moves_words {
            let state = self.words.optimiser().state();
            all.extend(state.into_iter().map(|(name, v)| (format!("{WORDS}.{name}"), v)));
        }
        all
    }

    fn resume(&mut self, state: TensorMap, steps: u64) -> NetResult<()> {
        let (words, state): (TensorMap, TensorMap) =
            state.into_iter().partition(|(name, _)| name.starts_with(WORDS));
        resume(&mut self.trainer, state, steps)?;
        if !self.moves_words {
            return Ok(());
        }
        let Some((_, values)) = words.get(WORDS) else {
            return Err(NetError::Setting("it has no vectors of words".into()));
        };
        let kept: Vec<(&str, &[f32])> = words
            .iter()
            .filter_map(|(name, (_, v))| {
                Some((name.strip_prefix(WORDS)?.strip_prefix('.')?, v.as_slice()))
            })
            .collect();
        self.words.resume(values, steps, &kept)
    }

    fn restore(&mut self, learnt: &TensorMap) -> bool {
        let is_restored = match (self.moves_words, learnt.get(WORDS)) {
            (false, _) => true,
            (true, Some((_, values))) => {
                // What was kept of the steps is of no use any more: training is over.
                self.words.resume(values, 0, &self.words.clone().optimiser().state()).is_ok()
            }
            (true, None) => false,
        };
        is_restored && restore(self.trainer.net_mut(), learnt)
    }
}

/// Room for passes over documents.
pub(super) struct Passes {
    work: Workspace<f32>,
    capacity: usize,
    batch: Batch,
}

impl Passes {
    /// For documents of up to so many words.
    pub fn new(net: &Net<f32>, longest: usize) -> Self {
        let capacity = longest.max(PASS);
        Self { work: Workspace::new(net, capacity, None), capacity, batch: Batch::default() }
    }

    /// The outputs of all documents, one after the other.
    pub fn outputs(
        &mut self,
        net: &Net<f32>,
        words: &Table<f32>,
        documents: &Documents,
        what: Option<(&str, &dyn Observer)>,
    ) -> Result<Vec<f32>> {
        let n = documents.len();
        let progress =
            what.map(|(what, observer)| observer.progress(what, "documents", Some(n as u64)));
        let mut outputs = Vec::with_capacity(n * net.outputs());
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
            outputs.extend_from_slice(self.work.outputs(net));
            progress.iter().for_each(|progress| progress.advance(count as u64));
            first += count;
            interrupt::check()?;
        }
        Ok(outputs)
    }
}
