//! `veridical train net` and related verbs: neural networks trained on examples, stored in run folders.
//!
//! A [`NetRequest`] defines the network and its data; [`train`] reads the examples, trains one run, or one for each of
//! several seeds, and publishes self-describing folders. [`evaluate()`] evaluates them on test data, [`refit()`] refits the
//! last layer. [`text`] and [`classifier`] train on documents and on vectors.

mod again;
mod apply;
mod classified;
pub mod classifier;
mod evaluate;
mod material;
mod options;
mod page;
mod refit;
mod saved;
pub mod text;
mod vectors;
mod weights;

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use serde_json::{Value, json};
use veridical_core::Job;
use veridical_core::Seed;
use veridical_data::examples::Examples;
use veridical_data::{Checkpoint, Checkpoints, NamedTensor, TensorMap, fingerprint, named};
use veridical_io::IfExists;
use veridical_io::run::{self, RunFolder, RunWriter};
use veridical_nets::fit::{Course, ExampleLearner, fit};
pub use veridical_nets::fit::{Evaluation, Learned};
pub use veridical_nets::metrics::{McNemar, Measures};
use veridical_nets::{Loss, Net, NetConfig, Trainer};

pub(crate) use self::again::Again;
pub(crate) use self::apply::{Inputs, Outputs, hidden, outputs};
pub use self::evaluate::{EvaluatedNet, NetEvaluation, evaluate, is_network};
use self::material::Material;
pub(crate) use self::material::{Division, Normalization, Task, divide, listed_rows};
pub(crate) use self::options::names;
pub use self::options::{METHOD, NetOptions, NetRequest, Recipe, TrainNet, layer_of};
pub use self::refit::{Compared, RefitHead, RefitNet, Tried, refit};
pub(crate) use self::saved::Saved;
pub(crate) use self::text::{LearnedTexts, Recurrent, SavedText, is_text};
use crate::settings::Start;
use crate::train::{Seeded, ensemble, give_up, host, log, now};
use crate::{Error, Result, config};

/// Runs of several seeds train in parallel, one thread each, if a step has at most this many products of weights and
/// samples: below it a second thread speeds up a step little.
const SMALL_STEP: usize = 1 << 24;

/// Result of [`train`].
#[derive(Clone, Debug, Serialize)]
pub struct TrainedNet {
    /// Training method: `net`, `text` or `classifier`.
    pub method: &'static str,
    /// Architecture.
    pub model: String,
    /// Number of trainable parameters.
    pub parameters: usize,
    /// Output folder.
    pub out: String,
    /// Runs, one per seed.
    pub runs: Vec<NetRun>,
}

/// One training run.
#[derive(Clone, Debug, Serialize)]
pub struct NetRun {
    /// Run folder.
    pub folder: String,
    /// Random seed of the run.
    pub seed: u64,
    /// Training summary.
    #[serde(flatten)]
    pub learned: Learned,
    /// Whether the run was already finished.
    pub was_finished: bool,
}

/// Returns whether a run folder, or the first run of an ensemble, is a network.
pub fn is_net(path: &Path) -> bool {
    let first = run::seeds(path).into_iter().next();
    RunFolder::open(first.as_deref().unwrap_or(path)).is_ok_and(|run| method(&run) == METHOD)
}

fn method(run: &RunFolder) -> &str {
    run.document().get("method").and_then(Value::as_str).unwrap_or("")
}

/// Rejects runs that are not networks.
fn check_is_net(run: &RunFolder) -> Result<()> {
    match method(run) {
        METHOD => Ok(()),
        other => {
            let what = format!("is a run of `{other}`, not a network");
            Err(Error::request(
                format!("{} {what}", run.path().display()),
                "train one with `train net`",
            ))
        }
    }
}

/// Trains a network and publishes the run folder.
///
/// # Errors
/// Bad data, bad settings and a diverging loss leave nothing behind; an interruption and a full disk
/// leave a state that can be resumed.
///
/// # Example
/// ```
/// use serde_json::json;
/// use veridical::core::Job;
/// use veridical::core::settings::SettingsLayer;
/// use veridical::net::{TrainNet, train};
/// # let folder = tempfile::tempdir().unwrap();
/// # let at = |name: &str| folder.path().join(name);
///
/// let row = |i: i32| format!("{},{},{}\n", i % 7, i % 5, i % 7 > i % 5);
/// std::fs::write(at("t.csv"), format!("a,b,larger\n{}", (0..70).map(row).collect::<String>())).unwrap();
/// let given = json!({
///     "model": "mlp:8", "data": at("t.csv"), "target": "larger", "epochs": 3, "batch": 10, "out": at("run"),
/// });
/// let settings = TrainNet::new(vec![SettingsLayer::given(given.as_object().cloned().unwrap())])?;
/// let trained = train(&settings, &Job::silent())?;
/// assert_eq!(trained.parameters, (2 + 1) * 8 + (8 + 1) * 2);
/// # Ok::<(), veridical::Error>(())
/// ```
pub fn train(settings: &TrainNet, job: &Job<'_>) -> Result<TrainedNet> {
    let TrainNet { request, start: Start { seeds, output, .. } } = settings;
    let (out, if_exists) = (&output.folder(METHOD), output.existing.if_exists());
    run::check_output(out, if_exists)?;
    let seed = request.options.seed.get()?;
    let seeds = seeds.map(|n| ensemble::seeds(seed, n)).transpose()?;
    let prepared = Prepared::load(request.clone(), job)?;
    let runs = match seeds {
        None => vec![prepared.run(seed, out, if_exists, job)?],
        Some(seeds) => ensemble::train(&prepared, &seeds, out, if_exists, job)?,
    };
    Ok(TrainedNet {
        method: METHOD,
        model: prepared.recipe.model.clone(),
        parameters: prepared.parameters,
        out: out.to_string(),
        runs,
    })
}

/// A request with its data loaded, for any seed.
struct Prepared {
    recipe: Recipe,
    options: NetOptions,
    material: Material,
    model: NetConfig,
    parameters: usize,
    loss: Loss,
    /// Initial weights, and the file they were read from.
    init: Option<(PathBuf, TensorMap)>,
}

impl Prepared {
    fn load(request: NetRequest, job: &Job<'_>) -> Result<Self> {
        let NetRequest { recipe, options } = &request;
        if recipe.epochs == 0 && options.init.is_none() {
            let what = "⟨epochs⟩ must be at least 1; 0 is allowed with ⟨init⟩, to import weights into a run";
            return Err(Error::request(what, ""));
        }
        recipe.model.parse::<veridical_nets::Architecture>()?; // fail before data is read
        let material = Material::load(options, job)?;
        Self::of(request, material)
    }

    fn of(request: NetRequest, mut material: Material) -> Result<Self> {
        let NetRequest { recipe, options } = request;
        let n = material.train.as_ref().map(Examples::n);
        let recipe = recipe.settled(&material.task, n)?;
        let (loss, outputs) = recipe.loss(&material.task)?;
        let model = recipe.model(material.shape, outputs)?;
        let net = model.build::<f32>(options.seed.get()?)?;
        recipe.augmentation(material.shape)?;
        drop(weights::is_trained(&net, recipe.freeze.as_deref())?); // fail before anything is written
        if recipe.epochs > 0 {
            let Some(train) = &material.train else {
                let what = "has only test examples; there is nothing to train on";
                let data = options.data.as_deref().unwrap_or(Path::new("")).display();
                return Err(Error::request(format!("{data} {what}"), ""));
            };
            loss.check(outputs, (&train.targets).into())?;
            let settings = recipe.training(loss, train.n());
            if settings.schedule.total > u64::from(u32::MAX) {
                let what = format!("{} steps are too many", settings.schedule.total);
                return Err(Error::request(what, "choose fewer ⟨epochs⟩ or a larger ⟨batch⟩"));
            }
        }
        let init = options
            .init
            .as_deref()
            .map(|path| Ok::<_, Error>((path.to_owned(), weights::load(path)?)));
        let init = init.transpose()?;
        if let Some((_, tensors)) = &init {
            material.sections.insert("init".into(), fingerprint::of_tensors(tensors).into());
        }
        let parameters = net.params.len();
        Ok(Self { recipe, options, material, model, parameters, loss, init })
    }

    /// Everything known before training: two runs with equal documents have equal bytes.
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

    /// Returns the network before its first step.
    fn net(&self, seed: Seed, job: &Job<'_>) -> Result<Net<f32>> {
        let mut net = self.model.build(seed)?;
        if let Some((path, tensors)) = &self.init {
            weights::import(&mut net, tensors, path, job)?;
        }
        Ok(net)
    }

    /// Trains a network to the end of its recipe.
    fn learned(
        &self,
        net: Net<f32>,
        seed: Seed,
        kept: Option<&dyn Checkpoints<Error = Error>>,
        checkpoint: Option<Checkpoint>,
        job: &Job<'_>,
    ) -> Result<(Net<f32>, Learned)> {
        match &self.material.train {
            Some(examples) if self.recipe.epochs > 0 => {
                let feed = |examples| self.material.normalization.feed(examples, seed);
                let augmentation = self.recipe.augmentation(self.material.shape)?;
                let settings = self.recipe.training(self.loss, examples.n());
                let held_out = self.material.validation.as_ref();
                let course = Course {
                    patience: self.recipe.patience,
                    min_delta: self.recipe.min_delta,
                    has_classes: matches!(self.material.task, Task::Classes(_)),
                    keeps_best: held_out.is_some(),
                    checkpoint_every: self.options.checkpoint_every,
                    ..Course::new(examples.n(), self.recipe.epochs, seed)
                };
                let is_trained = weights::is_trained(&net, self.recipe.freeze.as_deref())?;
                let trainer = Trainer::new(net, settings, is_trained)?;
                let mut learner = ExampleLearner::new(
                    trainer,
                    (feed(examples).augmented(augmentation), examples),
                    held_out.map(|held_out| (feed(held_out), held_out)),
                    self.material.task.classes(),
                );
                let learned = fit(&course, &mut learner, kept, checkpoint, job)?;
                Ok((learner.into_net(), learned))
            }
            _ => Ok((net, Learned::default())),
        }
    }

    fn complete(
        &self,
        net: Net<f32>,
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
        let kept = Kept(&writer);
        let (net, learned) = self.learned(net, seed, Some(&kept), checkpoint, job)?;
        document["results"] = json!(learned);
        let end = json!({ "seconds": begun.elapsed().as_secs_f64(), "time": now() });
        log(&writer, "end", end)?;
        writer.publish(&document, &named(&net.export()))?;
        Ok(learned)
    }
}

impl Seeded for Prepared {
    type Run = NetRun;

    fn method(&self) -> &str {
        METHOD
    }

    fn is_one_thread_enough(&self) -> bool {
        self.parameters.saturating_mul(self.recipe.batch.unwrap_or(0)) < SMALL_STEP
            && self.model.input.positions() == 1
    }

    fn run(&self, seed: Seed, out: &Path, if_exists: IfExists, job: &Job<'_>) -> Result<NetRun> {
        let net = self.net(seed, job)?;
        one_run((seed, out, if_exists), self.document(seed), job, |writer, checkpoint, document| {
            self.complete(net, seed, writer, checkpoint, document, job)
        })
    }

    fn moved(run: &mut NetRun, ensemble: &Path) {
        run.folder = run::seed_folder(ensemble, run.seed).display().to_string();
    }
}

/// Trains one run into its folder, unless it is finished; what `complete` leaves behind when it fails can be resumed.
fn one_run(
    (seed, out, if_exists): (Seed, &Path, IfExists),
    document: Value,
    job: &Job<'_>,
    complete: impl FnOnce(RunWriter, Option<Checkpoint>, Value) -> Result<Learned>,
) -> Result<NetRun> {
    let (folder, seed) = (out.display().to_string(), seed.get());
    let Some((writer, checkpoint)) = RunWriter::begin(out, &document, if_exists)? else {
        job.note(&format!("{folder} is already finished"));
        return Ok(NetRun { folder, seed, learned: finished(out)?, was_finished: true });
    };
    let partial = writer.folder().to_owned();
    let outcome = complete(writer, checkpoint, document);
    let learned = outcome.map_err(|error| give_up(error, &partial))?;
    Ok(NetRun { folder, seed, learned, was_finished: false })
}

/// Stores the states of the training loop in a run folder.
struct Kept<'a>(&'a RunWriter);

impl Checkpoints for Kept<'_> {
    type Error = Error;

    fn add_metrics(&self, line: &Value) -> Result<u64> {
        Ok(self.0.add_metrics(line)?)
    }

    fn save(
        &self,
        at: &Checkpoint,
        state: &[NamedTensor<'_>],
        best: Option<&[NamedTensor<'_>]>,
    ) -> Result<()> {
        Ok(self.0.save(at, state, best)?)
    }
}

/// Returns the metrics of each epoch, if the file exists.
fn metrics(run: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns the training summary of a finished run.
fn finished(folder: &Path) -> Result<Learned> {
    let run = RunFolder::open(folder)?;
    let results = run.document().get("results").cloned().unwrap_or_default();
    serde_json::from_value(results).map_err(|e| {
        Error::damaged(format!("{}: damaged run.json ({e})", folder.display()), "train it again")
    })
}
