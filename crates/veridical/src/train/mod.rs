//! `veridical train`: embeddings from interactions or text, into run folders.
//!
//! A [`Request`] says how to learn and from what; [`train`] reads the data, trains one run, or one for each
//! of several seeds, and publishes folders that say everything about themselves.

pub(crate) mod ensemble;
mod fit;
mod judge;
mod material;
mod options;
pub(crate) mod reading;
mod warm;

use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Map, Value, json};
use veridical_core::{Error as CoreError, Seed};
use veridical_data::IfExists;
use veridical_data::run::{self, Checkpoint, RunFolder, RunWriter};
use veridical_embed::{Error as EmbedError, Trainer};

pub(crate) use self::ensemble::Seeded;
pub use self::fit::{Best, Fitted, Stopping};
pub(crate) use self::fit::{Pace, fit};
pub(crate) use self::judge::Judge;
pub(crate) use self::material::{Divided, Material};
pub use self::options::{Layer, Options, Request};
pub(crate) use self::options::{method_of, purpose};
use self::warm::Earlier;
pub use self::warm::Warmed;
use crate::{Error, Observer, Result};

/// What to train, and where to.
#[derive(Clone, Debug)]
pub struct Train {
    /// How to learn and from what.
    pub request: Request,
    /// The run folder, or the folder of an ensemble.
    pub out: PathBuf,
    /// Train so many runs with consecutive seeds.
    pub seeds: Option<u64>,
    /// What to do with a folder that is there.
    pub if_exists: IfExists,
}

/// What was trained.
#[derive(Clone, Debug, Serialize)]
pub struct Trained {
    /// The name of the method.
    pub method: &'static str,
    /// The folder.
    pub out: String,
    /// How rows were divided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// One entry per seed.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Its folder.
    pub folder: String,
    /// Its seed.
    pub seed: u64,
    /// The vector tables.
    pub tables: Vec<RunTable>,
    /// How it went.
    #[serde(flatten)]
    pub fitted: Fitted,
    /// Whether it was there already.
    pub was_finished: bool,
}

/// A vector table of a run.
#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
pub struct RunTable {
    /// item, user, word, doc or context.
    pub name: String,
    /// How many ids.
    pub rows: usize,
    /// Values of a vector.
    pub dim: usize,
    /// Whether it has a column `bias`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bias: bool,
}

/// Trains and publishes.
///
/// # Errors
/// Bad data, bad settings and a loss that diverges leave nothing behind; an interruption and a full disk
/// leave what can be resumed.
pub fn train(settings: &Train, observer: &dyn Observer) -> Result<Trained> {
    let Train { request, out, seeds, if_exists } = settings;
    run::check_output(out, *if_exists)?;
    let seed = request.options.seed()?;
    let seeds = seeds.map(|n| ensemble::seeds(seed, n)).transpose()?;
    let job = Job::load(request.clone(), observer)?;
    let runs = match seeds {
        None => vec![job.run(seed, out, *if_exists, observer)?],
        Some(seeds) => ensemble::train(&job, &seeds, out, *if_exists, observer)?,
    };
    Ok(Trained {
        method: request.method.name(),
        out: out.display().to_string(),
        split: job.material.divided().map(|divided| divided.rule.to_string()),
        runs,
    })
}

/// A request with everything it needs, for any seed.
pub(crate) struct Job {
    pub request: Request,
    pub material: Material,
    stopping: Stopping,
    earlier: Option<Earlier>,
}

impl Job {
    pub fn load(request: Request, observer: &dyn Observer) -> Result<Self> {
        if request.settings.get("epochs").and_then(Value::as_u64) == Some(0) {
            return Err(Error::Usage("--epochs must be at least 1, got 0".into()));
        }
        let stopping = request.options.stopping()?;
        let mut material = Material::load(&request, observer)?;
        let mut earlier = None;
        if let Some(path) = &request.options.init {
            let loaded = Earlier::load(path, material.main_table())?;
            material.sections.insert("init".into(), loaded.fingerprint().into());
            earlier = Some(loaded);
        }
        Ok(Self { request, material, stopping, earlier })
    }

    /// What is known before training: two runs with the same one have the same bytes.
    pub fn document(&self, seed: Seed) -> Value {
        let Request { method, settings, .. } = &self.request;
        let mut document = json!({
            "format": run::FORMAT,
            "version": env!("CARGO_PKG_VERSION"),
            "method": method.name(),
            "settings": settings,
            "seed": seed.get(),
            "options": self.request.documented(),
        });
        if let Some(document) = document.as_object_mut() {
            document.extend(self.material.sections.clone());
        }
        document
    }

    /// A trainer before its first epoch, warm if that was asked for.
    pub fn trainer(&self, seed: Seed, observer: &dyn Observer) -> Result<Box<dyn Trainer + '_>> {
        let Request { method, settings, .. } = &self.request;
        let (input, graphs) = (self.material.input(), &self.material.graphs);
        let mut trainer = method.trainer(settings, input, graphs, seed)?;
        trainer.notes().iter().for_each(|note| observer.note(note));
        if let Some(earlier) = &self.earlier {
            for Warmed { table, kept, new, dropped } in
                earlier.start(&mut *trainer, &self.material)?
            {
                let counts = format!("{kept} rows kept, {new} new, {dropped} dropped");
                observer.note(&format!("warm start of {table}: {counts}"));
            }
        }
        Ok(trainer)
    }

    /// Trains without writing anything.
    pub fn try_out(&self, seed: Seed, observer: &dyn Observer) -> Result<Fitted> {
        let mut trainer = self.trainer(seed, observer)?;
        let judge = self.judge()?;
        fit(&mut *trainer, None, None, self.stopping, judge.as_ref(), observer)
    }

    fn judge(&self) -> Result<Option<Judge<'_>>> {
        let divided = self.material.divided().filter(|d| !d.split.validation.is_empty());
        divided.map(|divided| Judge::validation(divided, self.request.purpose())).transpose()
    }

    fn complete(
        &self,
        mut trainer: Box<dyn Trainer + '_>,
        writer: RunWriter,
        checkpoint: Option<Checkpoint>,
        mut document: Value,
        observer: &dyn Observer,
    ) -> Result<(Vec<RunTable>, Fitted)> {
        let begun = Instant::now();
        log(&writer, "data", self.request.files())?;
        let threads = rayon::current_num_threads();
        let start = json!({ "threads": threads, "host": host(), "time": now() });
        log(&writer, "start", start.as_object().cloned().unwrap_or_default())?;
        let judge = self.judge()?;
        let fitted =
            fit(&mut *trainer, Some(&writer), checkpoint, self.stopping, judge.as_ref(), observer)?;
        let model = trainer.into_model();
        let mut tables = Vec::new();
        for table in model.tables() {
            let Some(ids) = self.material.ids(table.name) else { continue };
            let (rows, dim) = (table.rows.n_rows(), table.rows.dim());
            writer.write_table(table.name, ids, dim, table.rows.values(), table.bias)?;
            let name = table.name.to_owned();
            tables.push(RunTable { name, rows, dim, bias: table.bias.is_some() });
        }
        document["tables"] = json!(tables);
        document["results"] = json!(fitted);
        let end = json!({ "seconds": begun.elapsed().as_secs_f64(), "time": now() });
        log(&writer, "end", end.as_object().cloned().unwrap_or_default())?;
        writer.publish(&document, &fit::borrowed(&model.parts()?))?;
        Ok((tables, fitted))
    }
}

impl Seeded for Job {
    type Run = Run;

    fn method(&self) -> &str {
        self.request.method.name()
    }

    fn is_one_thread_enough(&self) -> bool {
        let mode = self.request.settings.get("mode").and_then(Value::as_str);
        mode == Some("deterministic")
    }

    fn run(
        &self,
        seed: Seed,
        out: &Path,
        if_exists: IfExists,
        observer: &dyn Observer,
    ) -> Result<Run> {
        let document = self.document(seed);
        let trainer = self.trainer(seed, observer)?;
        let Some((writer, checkpoint)) = RunWriter::begin(out, &document, if_exists)? else {
            observer.note(&format!("{} is finished already", out.display()));
            return finished(out, seed);
        };
        let partial = writer.folder().to_owned();
        let outcome = self.complete(trainer, writer, checkpoint, document, observer);
        let (tables, fitted) = outcome.map_err(|error| give_up(error, &partial))?;
        let folder = out.display().to_string();
        Ok(Run { folder, seed: seed.get(), tables, fitted, was_finished: false })
    }

    fn moved(run: &mut Run, ensemble: &Path) {
        run.folder = run::seed_folder(ensemble, run.seed).display().to_string();
    }
}

/// A run that was there already.
fn finished(folder: &Path, seed: Seed) -> Result<Run> {
    let run = RunFolder::open(folder)?;
    let section = |name: &str| run.document().get(name).cloned().unwrap_or_default();
    let damaged =
        |e| Error::Usage(format!("{}: damaged run.json ({e}); train it again", folder.display()));
    Ok(Run {
        folder: folder.display().to_string(),
        seed: seed.get(),
        tables: serde_json::from_value(section("tables")).map_err(damaged)?,
        fitted: serde_json::from_value(section("results")).map_err(damaged)?,
        was_finished: true,
    })
}

/// An interruption, wherever it was noticed.
pub(crate) fn interrupted(error: Error) -> Error {
    match error {
        Error::Core(CoreError::Interrupted)
        | Error::Data(veridical_data::Error::Core(CoreError::Interrupted))
        | Error::Nets(veridical_nets::Error::Core(CoreError::Interrupted))
        | Error::Embed(EmbedError::Core(CoreError::Interrupted)) => Error::Interrupted,
        other => other,
    }
}

/// Keeps what can be resumed and removes the rest.
pub(crate) fn give_up(error: Error, partial: &Path) -> Error {
    let error = interrupted(error);
    let is_resumable = match &error {
        Error::Interrupted => true,
        Error::Data(e) | Error::Embed(EmbedError::File(e)) => e.is_resumable(),
        _ => false,
    };
    if !is_resumable {
        let _ = std::fs::remove_dir_all(partial); // the first error is the one to report
    }
    error
}

pub(crate) fn log(writer: &RunWriter, event: &str, mut line: Map<String, Value>) -> Result<()> {
    line.insert("event".into(), event.into());
    Ok(writer.log(&line.into())?)
}

/// Seconds since 1970.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

pub(crate) fn host() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned())
}
