//! `veridical train`: trains embeddings on interactions or text, into run folders.
//!
//! A [`Request`] defines method, settings and data; [`train`] reads the data, trains one run, or one for each
//! of several seeds, and publishes self-describing folders.

pub(crate) mod ensemble;
mod material;
mod options;
pub(crate) mod reading;
mod warm;

use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Map, Value, json};
use veridical_core::Job;
use veridical_core::Seed;
use veridical_data::Checkpoint;
use veridical_embed::fit::{self, Validate, Validation};
use veridical_embed::{Part, Trainer};
use veridical_io::IfExists;
use veridical_io::run::{self, RunFolder, RunWriter};

pub(crate) use self::ensemble::Seeded;
pub(crate) use self::material::{Divided, Material};
pub use self::options::{Options, Replay, Request, SSE, fields, layer_of};
pub(crate) use self::options::{is_probability, method_of, purpose};
use crate::settings::Start;
use crate::{Error, Result};
pub use veridical_embed::fit::{Best, FitSettings, Fitted};
use veridical_embed::warm::Earlier;
pub use veridical_embed::warm::Warmed;

/// Settings of [`train`].
#[derive(Clone, Debug)]
pub struct Train {
    /// Method, settings and data.
    pub request: Request,
    /// Seeds and output folder.
    pub start: Start,
}

/// Result of [`train`].
#[derive(Clone, Debug, Serialize)]
pub struct Trained {
    /// Name of the method.
    pub method: &'static str,
    /// Output folder.
    pub out: String,
    /// Split rule, for interactions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Runs, one per seed.
    pub runs: Vec<Run>,
}

/// One training run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Run folder.
    pub folder: String,
    /// Random seed of the run.
    pub seed: u64,
    /// Vector tables of the run.
    pub tables: Vec<RunTable>,
    /// Training summary.
    #[serde(flatten)]
    pub fitted: Fitted,
    /// Whether the run was already finished.
    pub was_finished: bool,
}

/// A vector table of a run.
#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
pub struct RunTable {
    /// Name of the table: item, user, word, doc or context.
    pub name: String,
    /// Number of ids.
    pub rows: usize,
    /// Embedding dimension.
    pub dim: usize,
    /// Whether the table has a `bias` column.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bias: bool,
}

/// Trains embeddings and publishes the run folder.
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
/// use veridical::embed::Method;
/// use veridical::settings::{RunOutput, Start};
/// use veridical::train::{Request, Train, train};
/// # use veridical::prepare::{Generate, GeneratedKind, TablesOutput};
/// # let folder = tempfile::tempdir().unwrap();
/// # let at = |name: &str| folder.path().join(name);
/// # let shop = Generate {
/// #     what: Some(GeneratedKind::Shop),
/// #     users: 60,
/// #     items: 80,
/// #     per_user: 8,
/// #     output: TablesOutput { out: at("shop").into(), ..TablesOutput::default() },
/// #     ..Generate::default()
/// # };
/// # veridical::prepare::generate(&shop)?;
///
/// let given = json!({ "interactions": at("shop/interactions.csv"), "dim": 4, "epochs": 2 });
/// let layer = SettingsLayer::given(given.as_object().cloned().unwrap());
/// let request = Request::new(Method::Item2vec, &[layer])?;
/// let output = RunOutput { out: Some(at("run").into()), ..RunOutput::default() };
/// let start = Start { output, ..Start::default() };
/// let trained = train(&Train { request, start }, &Job::silent())?;
/// assert_eq!(trained.runs[0].tables[0].dim, 4);
/// assert!(at("run/vectors/item.parquet").exists());
/// # Ok::<(), veridical::Error>(())
/// ```
pub fn train(settings: &Train, job: &Job<'_>) -> Result<Trained> {
    let Train { request, start: Start { seeds, output, .. } } = settings;
    let (out, if_exists) = (&output.folder(request.method.name()), output.existing.if_exists());
    run::check_output(out, if_exists)?;
    let seed = request.options.seed.get()?;
    let seeds = seeds.map(|n| ensemble::seeds(seed, n)).transpose()?;
    let prepared = Prepared::load(request.clone(), job)?;
    let runs = match seeds {
        None => vec![prepared.run(seed, out, if_exists, job)?],
        Some(seeds) => ensemble::train(&prepared, &seeds, out, if_exists, job)?,
    };
    Ok(Trained {
        method: request.method.name(),
        out: out.to_string(),
        split: prepared.material.divided().map(|divided| divided.rule.to_string()),
        runs,
    })
}

/// A request with its data loaded, for any seed.
pub(crate) struct Prepared {
    pub request: Request,
    pub material: Material,
    stopping: FitSettings,
    earlier: Option<Earlier>,
}

impl Prepared {
    pub fn load(mut request: Request, job: &Job<'_>) -> Result<Self> {
        if request.settings.get("epochs").and_then(Value::as_u64) == Some(0) {
            return Err(Error::setting("epochs", "at least 1", "0"));
        }
        let mut material = Material::load(&request, job)?;
        if let Some((_, usual)) = request.method.early_stopping() {
            let has_rows = material.divided().is_some_and(|d| !d.split.validation.is_empty());
            let patience = &mut request.options.stopping.patience;
            *patience = Some(if has_rows { patience.unwrap_or(usual) } else { 0 });
        }
        let stopping = request.options.stopping();
        let mut earlier = None;
        if let Some(path) = &request.options.graphs.init {
            let loaded = warm::load(path, material.main_table())?;
            material.sections.insert("init".into(), loaded.fingerprint().into());
            earlier = Some(loaded);
        }
        let prepared = Self { request, material, stopping, earlier };
        let Request { method, settings, .. } = &prepared.request;
        method.check_memory(settings, prepared.material.input(), crate::settings::ram())?;
        Ok(prepared)
    }

    /// Every setting, with those that depend on the data.
    fn settings(&self) -> Result<Map<String, Value>> {
        let Request { method, settings, .. } = &self.request;
        Ok(method.resolved(settings, self.material.input())?)
    }

    /// Everything known before training: two runs with equal documents have equal bytes.
    pub fn document(&self, seed: Seed) -> Result<Value> {
        let method = self.request.method;
        let mut document = json!({
            "format": run::FORMAT,
            "version": env!("CARGO_PKG_VERSION"),
            "method": method.name(),
            "settings": self.settings()?,
            "seed": seed.get(),
            "options": self.request.documented(),
        });
        if let Some(document) = document.as_object_mut() {
            document.extend(self.material.sections.clone());
        }
        Ok(document)
    }

    /// Returns a trainer before its first epoch, warm-started if requested.
    pub fn trainer(&self, seed: Seed, job: &Job<'_>) -> Result<Box<dyn Trainer + '_>> {
        let Request { method, settings, .. } = &self.request;
        let (input, graphs) = (self.material.input(), &self.material.graphs);
        let mut trainer = method.trainer(settings, input, graphs, seed)?;
        trainer.notes().iter().for_each(|note| job.note(note));
        if let Some(earlier) = &self.earlier {
            let ids_of = |table: &str| self.material.ids(table);
            let table_of = |matrix: &str| self.material.table_of(matrix);
            for Warmed { table, kept, new, dropped } in
                earlier.start(&mut *trainer, ids_of, table_of)?
            {
                let counts = format!("{kept} rows kept, {new} new, {dropped} dropped");
                job.note(&format!("warm start of {table}: {counts}"));
            }
        }
        Ok(trainer)
    }

    /// Trains without writing a run.
    pub fn try_out(&self, seed: Seed, job: &Job<'_>) -> Result<Fitted> {
        let mut trainer = self.trainer(seed, job)?;
        self.fit(&mut *trainer, None, None, job)
    }

    /// Trains to the last epoch or the early stop, evaluated on the validation rows if there are any.
    fn fit(
        &self,
        trainer: &mut dyn Trainer,
        writer: Option<&RunWriter>,
        from: Option<Checkpoint>,
        job: &Job<'_>,
    ) -> Result<Fitted> {
        let divided = self.material.divided().filter(|d| !d.split.validation.is_empty());
        let validation = divided
            .map(|Divided { data, split, .. }| Validation::new(data, split, self.request.purpose()))
            .transpose()?;
        let validate = validation.as_ref().map(|validate| validate as &dyn Validate);
        fit::fit(trainer, self.stopping, validate, writer, from, job, |_, _, _| Ok(()))
    }

    fn complete(
        &self,
        mut trainer: Box<dyn Trainer + '_>,
        writer: RunWriter,
        checkpoint: Option<Checkpoint>,
        mut document: Value,
        job: &Job<'_>,
    ) -> Result<(Vec<RunTable>, Fitted)> {
        let begun = Instant::now();
        log(&writer, "data", self.request.files())?;
        let threads = rayon::current_num_threads();
        let start = json!({ "threads": threads, "host": host(), "time": now() });
        log(&writer, "start", start)?;
        let fitted = self.fit(&mut *trainer, Some(&writer), checkpoint, job)?;
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
        log(&writer, "end", end)?;
        let parts = model.parts()?;
        writer.publish(&document, &parts.iter().map(Part::named).collect::<Vec<_>>())?;
        Ok((tables, fitted))
    }
}

impl Seeded for Prepared {
    type Run = Run;

    fn method(&self) -> &str {
        self.request.method.name()
    }

    fn is_one_thread_enough(&self) -> bool {
        let mode = self.request.settings.get("mode").and_then(Value::as_str);
        mode == Some("deterministic")
    }

    fn run(&self, seed: Seed, out: &Path, if_exists: IfExists, job: &Job<'_>) -> Result<Run> {
        let document = self.document(seed)?;
        let trainer = self.trainer(seed, job)?;
        let Some((writer, checkpoint)) = RunWriter::begin(out, &document, if_exists)? else {
            job.note(&format!("{} is already finished", out.display()));
            return finished(out, seed);
        };
        let partial = writer.folder().to_owned();
        let outcome = self.complete(trainer, writer, checkpoint, document, job);
        let (tables, fitted) = outcome.map_err(|error| give_up(error, &partial))?;
        let folder = out.display().to_string();
        Ok(Run { folder, seed: seed.get(), tables, fitted, was_finished: false })
    }

    fn moved(run: &mut Run, ensemble: &Path) {
        run.folder = run::seed_folder(ensemble, run.seed).display().to_string();
    }
}

/// Returns a run that was already finished.
fn finished(folder: &Path, seed: Seed) -> Result<Run> {
    let run = RunFolder::open(folder)?;
    let section = |name: &str| run.document().get(name).cloned().unwrap_or_default();
    let damaged = |e| {
        Error::damaged(format!("{}: damaged run.json ({e})", folder.display()), "train it again")
    };
    Ok(Run {
        folder: folder.display().to_string(),
        seed: seed.get(),
        tables: serde_json::from_value(section("tables")).map_err(damaged)?,
        fitted: serde_json::from_value(section("results")).map_err(damaged)?,
        was_finished: true,
    })
}

/// Maps any kind of interruption to [`Error::Interrupted`].
pub(crate) fn interrupted(error: Error) -> Error {
    if error.is_interrupted() { Error::Interrupted } else { error }
}

/// Keeps a state that can be resumed and removes anything else.
pub(crate) fn give_up(error: Error, partial: &Path) -> Error {
    let error = interrupted(error);
    let is_resumable = match &error {
        Error::Io(e) => e.is_resumable(),
        other => other.is_interrupted(),
    };
    if !is_resumable {
        let _ = std::fs::remove_dir_all(partial); // the first error is the one to report
    }
    error
}

/// Appends a line to `log.jsonl`; `line` is an object.
pub(crate) fn log(writer: &RunWriter, event: &str, line: impl Into<Value>) -> Result<()> {
    let mut line = line.into();
    line["event"] = event.into();
    Ok(writer.log(&line)?)
}

pub(crate) use veridical_io::publish::host_name as host;

/// Returns the seconds since 1970-01-01.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
