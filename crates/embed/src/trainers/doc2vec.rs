//! Paragraph vectors (Le & Mikolov 2014; paper 000, F.2).
//!
//! PV-DBOW  the document predicts each of its words; with `words` neighbors predict it too, as in skip-gram
//! PV-DM    the mean h of the document and the words within b of a position predicts the word there; each of
//!          them is updated by the gradient at h, as in the word2vec code
//!
//! The loss and the step of a position are in `sgd/predict.rs`. SSE replaces documents, input words and the
//! predicted word (`context`). A new document is inferred with all words fixed, from zero, by the same steps:
//! its vector depends on the model and its own words alone.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;
use veridical_core::Progress;
use veridical_core::{Seed, Stream};
use veridical_core::{choices, settings};
use veridical_data::{Corpus, Lists};

use super::item2vec::first_vectors;
use crate::model::table;
use crate::sgd::{
    self, Desk, Dropout, Noise, Pieces, Plan, Position, Rows, Scratch, Step, Walk, add,
};
use crate::sse::{Mover, Moves};
use crate::{Embedding, Error, Graphs, Input, Model, Result, Trainer, Transition};

settings! {
    /// Settings of `doc2vec`.
    pub struct Settings {
        /// Embedding dimension
        pub dim: usize = 100,
        /// dbow: the document predicts its words; dm: document and neighbors predict a word
        pub algorithm: Algorithm = Algorithm::Dbow,
        /// dbow: also train word vectors by skip-gram
        pub words: bool = false,
        /// Maximum number of neighbors on each side
        pub window: usize = 5,
        /// Negative samples per positive sample
        pub negatives: usize = 5,
        /// Subsample tokens with a frequency above this; 0 keeps all
        pub subsample: f64 = 0.0,
        /// Negatives are drawn in proportion to count to this power
        pub power: f64 = 0.75,
        /// Number of epochs
        pub epochs: u32 = 10,
        /// Initial learning rate
        pub lr: f64 = 0.025,
        /// Learning-rate schedule: constant, linear (to a hundredth), inverse (lr / (1 + epoch)), exponential (lr 0.9^epoch)
        pub schedule: crate::Schedule = crate::Schedule::Linear,
        /// L2 penalty on the rows used by a sample
        pub weight_decay: f64 = 0.0,
        /// Dropout probability of a coordinate in a sample
        pub dropout: f64 = 0.0,
        /// SSE: probability that a document is replaced
        pub sse_doc: f64 = 0.0,
        /// SSE: probability that an input word is replaced
        pub sse_word: f64 = 0.0,
        /// SSE: probability that a target word is replaced
        pub sse_context: f64 = 0.0,
        /// SSE-Graph: how much more likely a neighbor is than another document
        pub rho_doc: f64 = 100.0 => [detail()],
        /// SSE-Graph: how much more likely a neighbor is than another word
        pub rho_word: f64 = 100.0 => [detail()],
        /// SSE-Graph: how much more likely a neighbor is than another target word
        pub rho_context: f64 = 100.0 => [detail()],
        /// deterministic (same result for any number of threads) or hogwild (fastest, not reproducible)
        pub mode: crate::Mode = crate::Mode::Deterministic,
    }
}

/// Makes a trainer that has not run an epoch yet.
///
/// # Errors
/// Settings out of range, and data that is not text.
pub fn trainer<'a>(
    settings: &Settings,
    input: Input<'a>,
    graphs: &'a Graphs,
    seed: Seed,
) -> Result<Box<dyn Trainer + 'a>> {
    let Input::Text(corpus) = input else {
        return Err(Error::request("doc2vec learns from ⟨text⟩, not from ⟨interactions⟩"));
    };
    let (n_docs, n_words, dim) = (corpus.docs.len(), corpus.words.len(), settings.dim);
    check(settings, n_words)?;
    let of_words = graphs.word.as_ref();
    let word_rows = if settings.has_words() { n_words } else { 0 };
    let Settings { sse_doc, sse_word, sse_context, rho_doc, rho_word, rho_context, .. } = *settings;
    Ok(Box::new(Doc2vec {
        noise: Noise::new(&corpus.counts, settings.power, settings.subsample)?,
        sse: Moves::new(
            seed,
            [
                Transition::new("doc", n_docs, sse_doc, rho_doc, graphs.doc.as_ref())?,
                Transition::new("word", n_words, sse_word, rho_word, of_words)?,
                Transition::new("context", n_words, sse_context, rho_context, of_words)?,
            ],
        ),
        model: Model::Documents {
            doc: first_vectors(n_docs, dim, seed, "doc2vec/doc"),
            word: first_vectors(word_rows, dim, seed, "doc2vec/word"),
            context: Embedding::zeros(n_words, dim),
            count: corpus.counts.iter().map(|&n| n as f32).collect(),
        },
        dropout: Dropout::new(settings.dropout),
        pieces: Pieces::new(&corpus.tokens),
        settings: settings.clone(),
        corpus,
        seed,
    }))
}

fn check(settings: &Settings, n_words: usize) -> Result<()> {
    let Settings { dim, window, negatives, .. } = *settings;
    sgd::check(dim, settings.lr, settings.weight_decay, settings.dropout)?;
    sgd::check_walk(window, negatives, n_words, "words")
}

impl Settings {
    /// Whether words have input vectors.
    fn has_words(&self) -> bool {
        self.algorithm == Algorithm::Dm || self.words
    }
}

struct Doc2vec<'a> {
    settings: Settings,
    seed: Seed,
    corpus: &'a Corpus,
    pieces: Pieces,
    noise: Noise,
    /// The transitions of documents, input words and targets.
    sse: Moves<'a, 3>,
    dropout: Option<Dropout>,
    model: Model,
}

impl Trainer for Doc2vec<'_> {
    fn samples(&self) -> u64 {
        self.pieces.len()
    }

    fn epochs(&self) -> u32 {
        self.settings.epochs
    }

    fn epoch(&mut self, epoch: u32, progress: &Progress) -> Result<Option<f64>> {
        let plan = Plan {
            epoch,
            epochs: self.settings.epochs,
            samples: self.samples(),
            lr: self.settings.lr,
            schedule: self.settings.schedule,
            mode: self.settings.mode,
        };
        let Model::Documents { doc, word, context, .. } = &mut self.model else {
            unreachable!("the trainer holds documents")
        };
        let Settings { dim, .. } = self.settings;
        let (noise, dropout) = (&self.noise, self.dropout);
        let step = Describe { settings: &self.settings, noise, dropout };
        let tokens = self.corpus.tokens.values();
        let pass = Walk::new(
            "doc2vec",
            self.seed,
            epoch,
            tokens,
            &self.pieces,
            noise,
            &self.sse,
            dim,
            step,
        );
        let tables = vec![table(doc, &mut []), table(word, &mut []), table(context, &mut [])];
        sgd::pass(&pass, tables, plan, progress).map(Some)
    }

    fn model(&self) -> &Model {
        &self.model
    }

    fn restore(&mut self, model: Model) -> Result<()> {
        self.model.check_replacement(&model)?;
        self.model = model;
        Ok(())
    }

    fn into_model(self: Box<Self>) -> Model {
        self.model
    }
}

/// The document, and words near a position, predict the word there.
struct Describe<'a> {
    settings: &'a Settings,
    noise: &'a Noise,
    dropout: Option<Dropout>,
}

impl Step<3> for Describe<'_> {
    #[inline(always)]
    fn step<S: Simd, R: Rows>(
        &self,
        simd: S,
        tables: &mut [R],
        scratch: &mut Scratch,
        [move_doc, move_word, move_target]: &mut [Mover<'_>; 3],
        mut here: Position<'_>,
    ) -> Option<f64> {
        let [docs, words, contexts] = tables else { return None };
        let Settings { negatives, window, .. } = *self.settings;
        let is_mean = self.settings.algorithm == Algorithm::Dm;
        let doc = move_doc.draw(here.sequence);
        scratch.inputs.clear();
        if self.settings.has_words() {
            for neighbor in here.neighbors(window) {
                scratch.inputs.push(move_word.draw(neighbor));
            }
        }
        let Scratch { desk, inputs: near, .. } = scratch;
        desk.clear();
        docs.with(
            doc,
            #[inline(always)]
            |row, _| desk.push_input(simd, row),
        );
        for &neighbor in near.iter() {
            words.with(
                neighbor,
                #[inline(always)]
                |row, _| match is_mean {
                    true => desk.sum_input(simd, row),
                    false => desk.push_input(simd, row),
                },
            );
        }
        if is_mean {
            desk.scale_inputs(1.0 / (1 + near.len()) as f32);
        }
        scratch.drop_out(self.dropout, &mut here.draws);
        let Scratch { desk, inputs: near, .. } = scratch;
        desk.targets.push(move_target.draw(here.token));
        self.noise.targets(here.token, negatives, &mut here.draws, &mut desk.targets);
        let keep = 1.0 - here.rate * self.settings.weight_decay as f32;
        desk.gather(simd, contexts, here.rate);
        let mut loss = 0.0;
        for a in (0..desk.n_inputs()).rev() {
            loss += desk.step(simd, a, here.is_measured);
            if is_mean {
                let error = desk.error(simd, a);
                for &neighbor in near.iter() {
                    words.with(
                        neighbor,
                        #[inline(always)]
                        |row, _| add(row, keep, error),
                    );
                }
                docs.with(
                    doc,
                    #[inline(always)]
                    |row, _| add(row, keep, error),
                );
            } else if a == 0 {
                docs.with(
                    doc,
                    #[inline(always)]
                    |row, _| desk.move_input(simd, a, row, keep),
                );
            } else {
                words.with(
                    near[a - 1],
                    #[inline(always)]
                    |row, _| desk.move_input(simd, a, row, keep),
                );
            }
        }
        desk.move_targets(simd, contexts, keep);
        here.is_measured.then(|| loss / desk.n_inputs() as f64)
    }
}

/// Infers the vectors of new documents, given as word numbers of the model; the vector of a document does not
/// depend on the other documents.
///
/// # Errors
/// [`veridical_core::Error::Shape`] for a model of another method.
pub fn infer(
    settings: &Settings,
    model: &Model,
    docs: &Lists,
    seed: Seed,
    progress: &Progress,
) -> Result<Embedding> {
    let Model::Documents { word, context, count, .. } = model else {
        return Err(Error::request("only a doc2vec model can infer document vectors"));
    };
    check(settings, context.n_rows())?;
    if docs.values().iter().any(|&w| w as usize >= context.n_rows()) {
        return Err(Error::request("a document contains words that the model does not know"));
    }
    if settings.has_words() && word.n_rows() != context.n_rows() {
        return Err(Error::request("the model has no input vectors for words"));
    }
    let counts: Vec<u64> = count.iter().map(|&n| n as u64).collect();
    let noise = Noise::new(&counts, settings.power, 0.0)?;
    let stream = Stream::new(seed, "doc2vec/infer");
    let arch = pulp::Arch::new();
    let mut vectors = Embedding::zeros(docs.len(), settings.dim);
    let dim = settings.dim;
    vectors.values_mut().par_chunks_mut(dim).enumerate().try_for_each_init(
        || Desk::new(dim),
        |desk, (d, vector)| {
            let tokens = docs.get(d);
            let infer =
                Infer { settings, word, context, noise: &noise, stream, tokens, desk, vector };
            arch.dispatch(infer);
            progress.advance(1);
            progress.check()
        },
    )?;
    Ok(vectors)
}

/// One new document.
struct Infer<'a> {
    settings: &'a Settings,
    word: &'a Embedding,
    context: &'a Embedding,
    noise: &'a Noise,
    stream: Stream,
    tokens: &'a [u32],
    desk: &'a mut Desk,
    vector: &'a mut [f32],
}

impl WithSimd for Infer<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { settings, word, context, noise, stream, tokens, desk, vector } = self;
        for epoch in 0..settings.epochs {
            for (position, &target) in tokens.iter().enumerate() {
                let done = (f64::from(epoch) + position as f64 / tokens.len() as f64)
                    / f64::from(settings.epochs);
                let rate = settings.schedule.rate(settings.lr, done, settings.epochs) as f32;
                let mut draws = stream.at(epoch, position as u64).draws();
                desk.clear();
                desk.push_input(simd, vector);
                if settings.algorithm == Algorithm::Dm {
                    let reach = 1 + draws.below(settings.window as u32) as usize;
                    let mut n = 1;
                    for &neighbor in sgd::neighbors(tokens, position, reach) {
                        desk.sum_input(simd, word.row(neighbor as usize));
                        n += 1;
                    }
                    desk.scale_inputs(1.0 / n as f32);
                }
                desk.targets.push(target);
                noise.targets(target, settings.negatives, &mut draws, &mut desk.targets);
                desk.look(simd, |target| context.row(target as usize), rate);
                desk.step(simd, 0, false);
                desk.move_input(simd, 0, vector, 1.0);
            }
        }
    }
}

choices! {
    /// The training algorithm of paragraph vectors.
    pub enum Algorithm {
        /// Distributed bag of words (PV-DBOW).
        Dbow = "dbow",
        /// Distributed memory (PV-DM).
        Dm = "dm",
    }
}
