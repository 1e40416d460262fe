//! Trainings in memory, for experiments with many small ones on the same documents.

use veridical_core::{Order, Seed, interrupt};
use veridical_data::{LabelledTexts, Part};
use veridical_nets::{Loss, Table};

use super::super::fit::Learner as _;
use super::super::measure::measures;
use super::learner::{Passes, TextLearner, first_vectors};
use super::material::{Documents, classes, divide, numbers, vocabulary};
use super::options::{TextNetOptions, TextRecipe};
use crate::{Error, Result};

/// Documents to learn from, to stop on and to be judged on.
pub(crate) struct Trial {
    classes: usize,
    words: usize,
    train: Documents,
    validation: Documents,
    test: Documents,
}

/// What came out of a training: shares that are right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tried {
    /// The best epoch by accuracy on validation, and how many there were.
    pub best: u32,
    pub epochs: u32,
    pub validation: f64,
    pub test: f64,
}

impl Trial {
    /// Divides documents; words and classes are those of the documents to learn from.
    pub fn new(texts: &LabelledTexts, options: &TextNetOptions, max_length: usize) -> Result<Self> {
        let path = options.text.clone().unwrap_or_default();
        let parts = divide(texts, options, &path)?;
        let of =
            |part: Part| -> Vec<usize> { (0..parts.len()).filter(|&i| parts[i] == part).collect() };
        let [train, validation, test] = [Part::Train, Part::Validation, Part::Test].map(of);
        let labels = |of: &[usize]| of.iter().map(|&i| &texts.labels[i]).collect::<Vec<_>>();
        let classes = classes(labels(&train).into_iter());
        let vocabulary = vocabulary(texts, &train, options, &path)?;
        let documents = |of: &[usize]| {
            let numbers = numbers(labels(of).into_iter(), &classes, &path)?;
            let texts = of.iter().map(|&i| texts.texts[i].as_str());
            Ok::<_, Error>(Documents::new(texts, &vocabulary, max_length, numbers))
        };
        Ok(Self {
            train: documents(&train)?,
            validation: documents(&validation)?,
            test: documents(&test)?,
            classes: classes.len(),
            words: vocabulary.words().len(),
        })
    }

    /// Documents to learn from, to stop on and to be judged on.
    pub fn sizes(&self) -> [usize; 3] {
        [&self.train, &self.validation, &self.test].map(Documents::len)
    }

    /// How many words are known.
    pub fn words(&self) -> usize {
        self.words
    }

    /// The words of the documents to learn from, as far as they are read.
    pub fn sentences(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.train.len())
            .map(|i| self.train.words(i))
            .filter(|words| words[0] < self.words as u32)
    }

    /// Trains on vectors of all words, which stay as they are, or on learnt ones; ends after `recipe.patience` epochs without a
    /// better accuracy on validation, and the best epoch is judged (paper 000, appendix: experiments with NLP dataset).
    pub fn run(
        &self,
        recipe: &TextRecipe,
        vectors: Option<(usize, &[f32])>,
        seed: Seed,
    ) -> Result<Tried> {
        let recipe = recipe.clone().settled(self.train.len(), vectors.map(|(width, _)| width))?;
        recipe.check()?;
        let (loss, outputs) = TextRecipe::loss(self.classes);
        let (dim, rows) = (recipe.dim(), self.words + 1);
        let values = match vectors {
            None => first_vectors(rows, dim, seed),
            // One of zeros for documents without a known word.
            Some((width, values)) => {
                values.iter().copied().chain(std::iter::repeat_n(0.0, width)).collect()
            }
        };
        let table = Table::new(dim, values, &recipe.optimiser())?;
        let settings = recipe.training(loss, self.train.len());
        let net = recipe.net(outputs, seed)?;
        let mut learner = TextLearner::new(
            net,
            settings,
            (table, vectors.is_none()),
            &self.train,
            Some(&self.validation),
            self.classes,
        )?;
        let (n, batch) = (self.train.len(), recipe.batch.unwrap_or(self.train.len()));
        let mut best: Option<Tried> = None;
        for epoch in 0..recipe.epochs {
            let order = Order::new(n as u64, seed, "order", epoch);
            let samples: Vec<usize> = (0..n as u64).map(|t| order.at(t) as usize).collect();
            for samples in samples.chunks(batch) {
                interrupt::check()?;
                learner.step(samples, epoch)?;
            }
            let validation = self.right(&learner, &self.validation, loss)?;
            if best.is_none_or(|best| validation > best.validation) {
                let test = self.right(&learner, &self.test, loss)?;
                best = Some(Tried { best: epoch + 1, epochs: 0, validation, test });
            }
            let Some(best) = &mut best else { continue };
            best.epochs = epoch + 1;
            if recipe.patience.is_some_and(|patience| best.epochs - best.best >= patience) {
                break;
            }
        }
        best.ok_or_else(|| Error::Usage("--epochs must be at least 1, got 0".into()))
    }

    /// The share of documents that are told apart rightly.
    fn right(&self, learner: &TextLearner<'_>, documents: &Documents, loss: Loss) -> Result<f64> {
        let (net, words) = learner.parts();
        let outputs =
            Passes::new(net, documents.most_words(1)).outputs(net, words, documents, None)?;
        let found = measures(&outputs, net.outputs(), &documents.targets, loss, self.classes)?;
        Ok(found.accuracy.map_or(f64::NAN, |share| share.value))
    }
}
