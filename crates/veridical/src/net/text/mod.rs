//! `veridical train text`: documents told apart by a bidirectional recurrent network on vectors of words
//! (paper 000, F.2 and Figure A.6; TensorFlow's tutorial "Text classification with an RNN").
//!
//! word vectors e_t, learnt or given; h_t = [h_t along, h_t against] of a GRU or LSTM; y = W_2 relu(W_1 [h_T along, h_1
//! against] + b_1) + b_2. Two classes have one output and binary cross entropy, more have one each and cross entropy.

mod learner;
mod material;
mod options;
mod saved;
mod trial;

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};
use veridical_core::Seed;
use veridical_data::run::{self, Checkpoint, NamedTensor, RunFolder, RunWriter};
use veridical_data::{Ids, IfExists};
use veridical_nets::{Loss, Table};

use self::learner::{TextLearner, first_vectors};
use self::material::Material;
pub use self::options::{CellKind, METHOD, TextNetOptions, TextRecipe, TextRequest, layer_of};
pub(super) use self::saved::evaluate;
pub use self::saved::{PredictText, Predicted, predict};
pub(crate) use self::trial::Trial;
use super::fit::{self, Course};
use super::{Learnt, NetRun, TrainedNet, finished, weights};
use crate::train::{RunTable, Seeded, ensemble, give_up, host, log, now};
use crate::{Error, Observer, Result};

/// The table of the words in a run, and its name in the model.
const WORDS: &str = "word";
const EMBEDDING: &str = "embedding.weight";

/// What to train, and where to.
#[derive(Clone, Debug)]
pub struct TrainText {
    /// Which network, from what.
    pub request: TextRequest,
    /// The run folder, or the folder of an ensemble.
    pub out: PathBuf,
    /// Train so many runs with consecutive seeds.
    pub seeds: Option<u64>,
    /// What to do with a folder that is there.
    pub if_exists: IfExists,
}

/// Whether a run folder, or the first of an ensemble, reads text.
pub fn is_text(path: &Path) -> bool {
    let first = run::seeds(path).into_iter().next();
    RunFolder::open(first.as_deref().unwrap_or(path)).is_ok_and(|run| super::method(&run) == METHOD)
}

/// Trains and publishes.
///
/// # Errors
/// Bad data, bad settings and a loss that diverges leave nothing behind; an interruption and a full disk
/// leave what can be resumed.
pub fn train(settings: &TrainText, observer: &dyn Observer) -> Result<TrainedNet> {
    let TrainText { request, out, seeds, if_exists } = settings;
    run::check_output(out, *if_exists)?;
    let seed = request.options.seed()?;
    let seeds = seeds.map(|n| ensemble::seeds(seed, n)).transpose()?;
    let job = Job::load(request.clone(), observer)?;
    let runs = match seeds {
        None => vec![job.run(seed, out, *if_exists, observer)?],
        Some(seeds) => ensemble::train(&job, &seeds, out, *if_exists, observer)?,
    };
    Ok(TrainedNet {
        method: METHOD,
        model: job.recipe.name(),
        parameters: job.parameters,
        out: out.display().to_string(),
        runs,
    })
}

/// A request with everything it needs, for any seed.
struct Job {
    recipe: TextRecipe,
    options: TextNetOptions,
    material: Material,
    loss: Loss,
    outputs: usize,
    /// Numbers that are learnt.
    parameters: usize,
}

impl Job {
    fn load(request: TextRequest, observer: &dyn Observer) -> Result<Self> {
        let TextRequest { recipe, options } = request;
        recipe.check()?;
        if options.checkpoint_every == Some(0) {
            return Err(Error::Usage("--checkpoint-every must be at least 1, got 0".into()));
        }
        let material = Material::load(&options, recipe.max_length, observer)?;
        let n = material.train.len();
        let recipe = recipe.settled(n, material.vectors.as_ref().map(|(width, _)| *width))?;
        let (loss, outputs) = TextRecipe::loss(material.classes.len());
        let settings = recipe.training(loss, n);
        if settings.schedule.total > u64::from(u32::MAX) {
            let what = format!("{} steps are too many", settings.schedule.total);
            return Err(Error::Usage(format!("{what}; choose fewer --epochs or a larger --batch")));
        }
        let net = recipe.net(outputs, options.seed()?)?;
        let mut job = Self { recipe, options, material, loss, outputs, parameters: 0 };
        let words = if job.moves_words() { job.words() * job.recipe.dim() } else { 0 };
        job.parameters = net.params.len() + words;
        Ok(job)
    }

    /// Rows of the table of words: one more than there are words.
    fn words(&self) -> usize {
        self.material.vocabulary.words().len() + 1
    }

    fn moves_words(&self) -> bool {
        self.material.vectors.is_none() || self.recipe.train_vectors
    }

    /// What is known before training: two runs with the same one have the same bytes.
    fn document(&self, seed: Seed) -> Value {
        let mut document = json!({
            "format": run::FORMAT,
            "version": env!("CARGO_PKG_VERSION"),
            "method": METHOD,
            "settings": self.recipe,
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
        observer: &dyn Observer,
    ) -> Result<Learnt> {
        let begun = Instant::now();
        log(&writer, "data", self.options.files())?;
        let threads = rayon::current_num_threads();
        let start = json!({ "threads": threads, "host": host(), "time": now() });
        log(&writer, "start", super::options::object(&start))?;
        let Material { train, validation, vectors, classes, vocabulary, .. } = &self.material;
        let dim = self.recipe.dim();
        let vectors = vectors.as_ref().map(|(_, values)| values.clone());
        let vectors = vectors.unwrap_or_else(|| first_vectors(self.words(), dim, seed));
        let words = Table::new(dim, vectors, &self.recipe.optimiser())?;
        let settings = self.recipe.training(self.loss, train.len());
        let mut learner = TextLearner::new(
            self.recipe.net(self.outputs, seed)?,
            settings.clone(),
            (words, self.moves_words()),
            train,
            validation.as_ref(),
            classes.len(),
        )?;
        let course = Course {
            n: train.len(),
            seed,
            settings: &settings,
            epochs: self.recipe.epochs,
            patience: self.recipe.patience,
            min_delta: self.recipe.min_delta,
            has_classes: true,
            has_validation: validation.is_some(),
            checkpoint_every: self.options.checkpoint_every,
        };
        let learnt = fit::fit(&course, &mut learner, &writer, checkpoint, observer)?;
        let (net, words) = learner.into_parts();
        let named = Ids::Text(vocabulary.words().iter().map(Some).collect());
        let rows = named.len();
        writer.write_table(WORDS, &named, dim, &words.values()[..rows * dim], None)?;
        let table = RunTable { name: WORDS.into(), rows, dim, bias: false };
        document["tables"] = json!([table]);
        document["results"] = json!(learnt);
        let end = json!({ "seconds": begun.elapsed().as_secs_f64(), "time": now() });
        log(&writer, "end", super::options::object(&end))?;
        let shape = [words.len(), dim];
        let tensors = net.export();
        let mut model = weights::named(&tensors);
        model.push(NamedTensor { name: EMBEDDING, shape: &shape, values: words.values() });
        writer.publish(&document, &model)?;
        Ok(learnt)
    }
}

impl Seeded for Job {
    type Run = NetRun;

    fn method(&self) -> &str {
        METHOD
    }

    /// Steps are small products one after the other: a second run gains more than a second thread.
    fn is_one_thread_enough(&self) -> bool {
        true
    }

    fn run(
        &self,
        seed: Seed,
        out: &Path,
        if_exists: IfExists,
        observer: &dyn Observer,
    ) -> Result<NetRun> {
        let document = self.document(seed);
        let folder = out.display().to_string();
        let Some((writer, checkpoint)) = RunWriter::begin(out, &document, if_exists)? else {
            observer.note(&format!("{folder} is finished already"));
            let learnt = finished(out)?;
            return Ok(NetRun { folder, seed: seed.get(), learnt, was_finished: true });
        };
        let partial = writer.folder().to_owned();
        let outcome = self.complete(seed, writer, checkpoint, document, observer);
        let learnt = outcome.map_err(|error| give_up(error, &partial))?;
        Ok(NetRun { folder, seed: seed.get(), learnt, was_finished: false })
    }

    fn moved(run: &mut NetRun, ensemble: &Path) {
        run.folder = run::seed_folder(ensemble, run.seed).display().to_string();
    }
}
