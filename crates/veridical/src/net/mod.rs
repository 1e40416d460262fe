//! `veridical train net`, and what follows: networks from examples, into run folders.
//!
//! A [`NetRequest`] says which network learns from what; [`train`] reads the examples, trains one run, or one for each of
//! several seeds, and publishes folders that say everything about themselves. [`evaluate()`] judges them, [`refit()`] solves for
//! the last layer of one.

mod evaluate;
mod fit;
mod learner;
mod material;
mod measure;
mod options;
mod page;
mod refit;
mod saved;
pub mod text;
mod weights;

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use serde_json::{Value, json};
use veridical_core::Seed;
use veridical_data::examples::Examples;
use veridical_data::run::{self, Checkpoint, RunFolder, RunWriter, TensorMap};
use veridical_data::{IfExists, fingerprint};
use veridical_nets::{Loss, Model, Net, Trainer};

pub use self::evaluate::{EvaluateNet, JudgedNet, NetEvaluation, Spread, evaluate};
use self::fit::Course;
pub use self::fit::{Judged, Learnt};
use self::learner::ExampleLearner;
use self::material::{Material, Task};
pub use self::measure::{Measures, Share};
pub use self::options::{METHOD, NetOptions, NetRequest, Recipe, layer_of};
pub use self::refit::{Compared, RefitHead, RefitNet, Tried, refit};
use crate::train::{Seeded, ensemble, give_up, host, log, now};
use crate::{Error, Observer, Result};

/// Runs of several seeds share the threads, one each, up to so many products of weights and samples in a step: below it a
/// second thread helps a step little.
const SMALL_STEP: usize = 1 << 24;

/// What to train, and where to.
#[derive(Clone, Debug)]
pub struct TrainNet {
    /// Which network, from what.
    pub request: NetRequest,
    /// The run folder, or the folder of an ensemble.
    pub out: PathBuf,
    /// Train so many runs with consecutive seeds.
    pub seeds: Option<u64>,
    /// What to do with a folder that is there.
    pub if_exists: IfExists,
}

/// What was trained.
#[derive(Clone, Debug, Serialize)]
pub struct TrainedNet {
    /// `net`.
    pub method: &'static str,
    /// The architecture.
    pub model: String,
    /// Numbers that are learnt.
    pub parameters: usize,
    /// The folder.
    pub out: String,
    /// One entry per seed.
    pub runs: Vec<NetRun>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct NetRun {
    /// Its folder.
    pub folder: String,
    /// Its seed.
    pub seed: u64,
    /// How it went.
    #[serde(flatten)]
    pub learnt: Learnt,
    /// Whether it was there already.
    pub was_finished: bool,
}

/// Whether a run folder, or the first of an ensemble, is a network.
pub fn is_net(path: &Path) -> bool {
    let first = run::seeds(path).into_iter().next();
    RunFolder::open(first.as_deref().unwrap_or(path)).is_ok_and(|run| method(&run) == METHOD)
}

fn method(run: &RunFolder) -> &str {
    run.document().get("method").and_then(Value::as_str).unwrap_or("")
}

/// Refuses runs that are no networks.
fn check_is_net(run: &RunFolder) -> Result<()> {
    match method(run) {
        METHOD => Ok(()),
        other => {
            let what = format!("is a run of `{other}`, not a network");
            Err(Error::Usage(format!(
                "{} {what}; train one with `train net`",
                run.path().display()
            )))
        }
    }
}

/// Trains and publishes.
///
/// # Errors
/// Bad data, bad settings and a loss that diverges leave nothing behind; an interruption and a full disk
/// leave what can be resumed.
pub fn train(settings: &TrainNet, observer: &dyn Observer) -> Result<TrainedNet> {
    let TrainNet { request, out, seeds, if_exists } = settings;
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
        model: job.recipe.model.clone(),
        parameters: job.parameters,
        out: out.display().to_string(),
        runs,
    })
}

/// A request with everything it needs, for any seed.
struct Job {
    recipe: Recipe,
    options: NetOptions,
    material: Material,
    model: Model,
    parameters: usize,
    loss: Loss,
    /// Weights to start from, and where they were found.
    init: Option<(PathBuf, TensorMap)>,
}

impl Job {
    fn load(request: NetRequest, observer: &dyn Observer) -> Result<Self> {
        let NetRequest { recipe, options } = request;
        if recipe.epochs == 0 && options.init.is_none() {
            let what = "--epochs must be at least 1; 0 takes weights into a run with --init";
            return Err(Error::Usage(what.into()));
        }
        if options.checkpoint_every == Some(0) {
            return Err(Error::Usage("--checkpoint-every must be at least 1, got 0".into()));
        }
        recipe.model.parse::<veridical_nets::Architecture>()?; // before data is read
        let mut material = Material::load(&options, observer)?;
        let n = material.train.as_ref().map(Examples::n);
        let recipe = recipe.settled(&material.task, n)?;
        let (loss, outputs) = recipe.loss(&material.task)?;
        let model = recipe.model(material.shape, outputs)?;
        let net = model.build::<f32>(options.seed()?)?;
        recipe.augmentation(material.shape)?;
        drop(weights::is_trained(&net, recipe.freeze.as_deref())?); // before anything is written
        if recipe.epochs > 0 {
            let Some(train) = &material.train else {
                let what = "has test examples alone; there is nothing to learn from";
                let data = options.data.as_deref().unwrap_or(Path::new("")).display();
                return Err(Error::Usage(format!("{data} {what}")));
            };
            measure::check_targets(loss, outputs, train)?;
            let settings = recipe.training(loss, train.n());
            if settings.schedule.total > u64::from(u32::MAX) {
                let what = format!("{} steps are too many", settings.schedule.total);
                return Err(Error::Usage(format!(
                    "{what}; choose fewer --epochs or a larger --batch"
                )));
            }
        }
        let init =
            options.init.clone().map(|path| Ok::<_, Error>((path.clone(), weights::load(&path)?)));
        let init = init.transpose()?;
        if let Some((_, tensors)) = &init {
            material.sections.insert("init".into(), fingerprint::of_tensors(tensors).into());
        }
        let parameters = net.params.len();
        Ok(Self { recipe, options, material, model, parameters, loss, init })
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

    /// The network before its first step.
    fn net(&self, seed: Seed, observer: &dyn Observer) -> Result<Net<f32>> {
        let mut net = self.model.build(seed)?;
        if let Some((path, tensors)) = &self.init {
            weights::import(&mut net, tensors, path, observer)?;
        }
        Ok(net)
    }

    fn complete(
        &self,
        net: Net<f32>,
        seed: Seed,
        writer: RunWriter,
        checkpoint: Option<Checkpoint>,
        mut document: Value,
        observer: &dyn Observer,
    ) -> Result<Learnt> {
        let begun = Instant::now();
        log(&writer, "data", self.options.files())?;
        let threads = rayon::current_num_threads();
        log(
            &writer,
            "start",
            options::object(&json!({ "threads": threads, "host": host(), "time": now() })),
        )?;
        let (net, learnt) = match &self.material.train {
            Some(examples) if self.recipe.epochs > 0 => {
                let feed = |examples| self.material.normalisation.feed(examples, seed);
                let augmentation = self.recipe.augmentation(self.material.shape)?;
                let settings = self.recipe.training(self.loss, examples.n());
                let kept_back = self.material.validation.as_ref();
                let course = Course {
                    n: examples.n(),
                    seed,
                    settings: &settings,
                    epochs: self.recipe.epochs,
                    patience: self.recipe.patience,
                    min_delta: self.recipe.min_delta,
                    has_classes: matches!(self.material.task, Task::Classes(_)),
                    has_validation: kept_back.is_some(),
                    checkpoint_every: self.options.checkpoint_every,
                };
                let is_trained = weights::is_trained(&net, self.recipe.freeze.as_deref())?;
                let trainer = Trainer::new(net, settings.clone(), is_trained)?;
                let mut learner = ExampleLearner::new(
                    trainer,
                    (feed(examples).augmented(augmentation), examples),
                    kept_back.map(|kept| (feed(kept), kept)),
                    self.material.task.classes(),
                );
                let learnt = fit::fit(&course, &mut learner, &writer, checkpoint, observer)?;
                (learner.into_net(), learnt)
            }
            _ => (net, Learnt::default()),
        };
        document["results"] = json!(learnt);
        let end = json!({ "seconds": begun.elapsed().as_secs_f64(), "time": now() });
        log(&writer, "end", options::object(&end))?;
        writer.publish(&document, &weights::named(&net.export()))?;
        Ok(learnt)
    }
}

impl Seeded for Job {
    type Run = NetRun;

    fn method(&self) -> &str {
        METHOD
    }

    fn is_one_thread_enough(&self) -> bool {
        self.parameters.saturating_mul(self.recipe.batch.unwrap_or(0)) < SMALL_STEP
            && self.model.input.positions() == 1
    }

    fn run(
        &self,
        seed: Seed,
        out: &Path,
        if_exists: IfExists,
        observer: &dyn Observer,
    ) -> Result<NetRun> {
        let document = self.document(seed);
        let net = self.net(seed, observer)?;
        let folder = out.display().to_string();
        let Some((writer, checkpoint)) = RunWriter::begin(out, &document, if_exists)? else {
            observer.note(&format!("{folder} is finished already"));
            let learnt = finished(out)?;
            return Ok(NetRun { folder, seed: seed.get(), learnt, was_finished: true });
        };
        let partial = writer.folder().to_owned();
        let outcome = self.complete(net, seed, writer, checkpoint, document, observer);
        let learnt = outcome.map_err(|error| give_up(error, &partial))?;
        Ok(NetRun { folder, seed: seed.get(), learnt, was_finished: false })
    }

    fn moved(run: &mut NetRun, ensemble: &Path) {
        run.folder = run::seed_folder(ensemble, run.seed).display().to_string();
    }
}

/// How a run that was there already went.
fn finished(folder: &Path) -> Result<Learnt> {
    let run = RunFolder::open(folder)?;
    let results = run.document().get("results").cloned().unwrap_or_default();
    serde_json::from_value(results).map_err(|e| {
        Error::Usage(format!("{}: damaged run.json ({e}); train it again", folder.display()))
    })
}
