//! A bidirectional recurrent network on word embeddings (paper 000, F.2 and Figure A.6; TensorFlow's tutorial "Text
//! classification with an RNN").
//!
//! Word embeddings e_t, learned or pretrained; h_t = [h_t along, h_t against] of a GRU or LSTM; y = W_2 relu(W_1 [h_T along,
//! h_1 against] + b_1) + b_2. Two classes: one output and binary cross-entropy; more: one output each and cross-entropy.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use veridical_core::settings::Settings as _;
use veridical_core::{Job, Seed};
use veridical_data::{Checkpoint, Ids, NamedTensor, named};
use veridical_io::IfExists;
use veridical_io::run::{self, RunWriter};
use veridical_nets::fit::{Course, DocumentLearner, first_vectors, fit};
use veridical_nets::{EmbeddingTable, Loss};

use super::super::{Kept, Learned, NetRun, one_run};
use super::material::Material;
use super::options::{METHOD, TextModel, TextNetOptions, TextRecipe, TextRequest};
use super::{EMBEDDING, WORDS};
use crate::train::{RunTable, Seeded, host, log, now};
use crate::{Error, Result, config};

/// A request with its data loaded, for any seed.
pub(super) struct Prepared {
    recipe: TextRecipe,
    options: TextNetOptions,
    material: Material,
    loss: Loss,
    outputs: usize,
    /// Number of trainable parameters.
    parameters: usize,
}

impl Prepared {
    pub fn load(request: TextRequest, job: &Job<'_>) -> Result<Self> {
        let TextRequest { recipe, options, .. } = request;
        recipe.check()?;
        let material = Material::load(&options, recipe.max_length, job)?;
        let n = material.train.len();
        let recipe = recipe.settled(n, material.vectors.as_ref().map(|(width, _)| *width))?;
        let (loss, outputs) = TextRecipe::loss(material.classes.len());
        let settings = recipe.training(loss, n);
        if settings.schedule.total > u64::from(u32::MAX) {
            let what = format!("{} steps are too many", settings.schedule.total);
            return Err(Error::request(what, "choose fewer ⟨epochs⟩ or a larger ⟨batch⟩"));
        }
        let net = recipe.net(outputs, options.seed.get()?)?;
        let mut prepared = Self { recipe, options, material, loss, outputs, parameters: 0 };
        let words =
            if prepared.moves_words() { prepared.words() * prepared.recipe.dim() } else { 0 };
        prepared.parameters = net.params.len() + words;
        Ok(prepared)
    }

    /// Returns the architecture and the number of trainable parameters.
    pub fn described(&self) -> (String, usize) {
        (self.recipe.description(), self.parameters)
    }

    /// Number of rows of the word table: one more than there are words.
    fn words(&self) -> usize {
        self.material.vocabulary.words().len() + 1
    }

    fn moves_words(&self) -> bool {
        self.material.vectors.is_none() || self.recipe.train_vectors
    }

    /// Everything known before training: two runs with equal documents have equal bytes.
    fn document(&self, seed: Seed) -> Value {
        let mut settings = self.recipe.given();
        settings.insert("model".into(), TextModel::Rnn.name().into());
        let mut document = json!({
            "format": run::FORMAT,
            "version": env!("CARGO_PKG_VERSION"),
            "method": METHOD,
            "settings": settings,
            "seed": seed.get(),
            "options": self.options.documented(),
        });
        if let Some(document) = document.as_object_mut() {
            document.extend(self.material.sections.clone());
        }
        document
    }

    fn complete(
        &self,
        seed: Seed,
        writer: RunWriter,
        checkpoint: Option<Checkpoint>,
        mut document: Value,
        job: &Job<'_>,
    ) -> Result<Learned> {
        let begun = Instant::now();
        log(&writer, "data", config::files(&self.options))?;
        let threads = rayon::current_num_threads();
        let start = json!({ "threads": threads, "host": host(), "time": now() });
        log(&writer, "start", start)?;
        let Material { train, validation, vectors, classes, vocabulary, .. } = &self.material;
        let dim = self.recipe.dim();
        let vectors = vectors.as_ref().map(|(_, values)| values.clone());
        let vectors = vectors.unwrap_or_else(|| first_vectors(self.words(), dim, seed));
        let words = EmbeddingTable::new(dim, vectors, &self.recipe.optimizer())?;
        let settings = self.recipe.training(self.loss, train.len());
        let mut learner = DocumentLearner::new(
            self.recipe.net(self.outputs, seed)?,
            settings,
            (words, self.moves_words()),
            train,
            validation.as_ref(),
            classes.len(),
        )?;
        let course = Course {
            patience: self.recipe.patience,
            min_delta: self.recipe.min_delta,
            has_classes: true,
            keeps_best: validation.is_some(),
            checkpoint_every: self.options.checkpoint_every,
            ..Course::new(train.len(), self.recipe.epochs, seed)
        };
        let learned = fit(&course, &mut learner, Some(&Kept(&writer)), checkpoint, job)?;
        let (net, words) = learner.into_parts();
        let ids = Ids::Text(vocabulary.words().iter().map(Some).collect());
        let rows = ids.len();
        writer.write_table(WORDS, &ids, dim, &words.values()[..rows * dim], None)?;
        let table = RunTable { name: WORDS.into(), rows, dim, bias: false };
        document["tables"] = json!([table]);
        document["results"] = json!(learned);
        let end = json!({ "seconds": begun.elapsed().as_secs_f64(), "time": now() });
        log(&writer, "end", end)?;
        let shape = [words.len(), dim];
        let tensors = net.export();
        let mut model = named(&tensors);
        model.push(NamedTensor { name: EMBEDDING, shape: &shape, values: words.values() });
        writer.publish(&document, &model)?;
        Ok(learned)
    }
}

impl Seeded for Prepared {
    type Run = NetRun;

    fn method(&self) -> &str {
        METHOD
    }

    /// Steps are small sequential products: a second run in parallel gains more than a second thread.
    fn is_one_thread_enough(&self) -> bool {
        true
    }

    fn run(&self, seed: Seed, out: &Path, if_exists: IfExists, job: &Job<'_>) -> Result<NetRun> {
        one_run((seed, out, if_exists), self.document(seed), job, |writer, checkpoint, document| {
            self.complete(seed, writer, checkpoint, document, job)
        })
    }

    fn moved(run: &mut NetRun, ensemble: &Path) {
        run.folder = run::seed_folder(ensemble, run.seed).display().to_string();
    }
}
