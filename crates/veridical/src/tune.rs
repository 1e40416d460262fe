//! `veridical tune`: hyperparameters selected on validation rows only.
//!
//! Every combination of the grid is a trial: trained as `train` would train it, evaluated on the validation rows,
//! recorded in `OUT/tune.jsonl`. The best trial is retrained into `OUT/best`, and only that model is evaluated on the
//! test rows. An interrupted tuning continues with `--resume`: trials recorded in `tune.jsonl` are not repeated, and a
//! larger grid adds to them.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use veridical_core::settings::{Field, Settings as _, SettingsLayer};
use veridical_core::{Job, Meter, Observer, settings};
use veridical_data::SplitRule;
use veridical_embed::{Method, Purpose};
use veridical_io::publish::{self, Lock};
use veridical_io::run::RunFolder;
use veridical_io::{IfExists, Input, write_atomically};

use crate::evaluate::{self, Evaluate, Evaluation};
use crate::settings::RunOutput;
use crate::train::{Fitted, Prepared, Request, SSE, Seeded, is_probability};
use crate::{Error, Result};

const PLAN: &str = "tune.json";
const TRIALS: &str = "tune.jsonl";
const BEST: &str = "best.json";
const RESULT: &str = "result.json";
const RUN: &str = "best";
/// Default fraction of the training rows held out for validation.
const VALIDATION: f64 = 0.1;
/// Maximum number of trials; a larger grid is likely a mistake.
const MOST_TRIALS: usize = 100_000;

settings! {
    /// Settings of a grid search.
    pub struct TuneSettings in "Tuning" {
        /// Values of a setting to try; repeat for each setting
        pub grid: Vec<String> = Vec::new() => [required(), value("SETTING=V,V")],
        /// Cutoffs k of the ranking metrics in the final test evaluation
        pub k: Vec<usize> = vec![1, 5, 10] => [by_comma(), value("K,K")],
        /// Start from the settings and data of an earlier run; flags override them
        pub from: Option<Input> = None => [heading("Output"), value("RUN")],
    } with {
        /// Where trials are written.
        pub output: RunOutput,
    }
}

/// A grid search: the fixed settings and the grid.
#[derive(Clone, Debug)]
pub struct Tune {
    /// Method, data and settings shared by all trials.
    pub request: Request,
    /// Grid and output.
    pub settings: TuneSettings,
}

/// One trial of a grid search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Values of the grid settings.
    pub settings: Map<String, Value>,
    /// Metric on the validation rows of the model that would be returned; `None` if training diverged.
    pub value: Option<f64>,
    /// Training summary.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fitted: Option<Fitted>,
    /// Reason why there is no value.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failed: Option<String>,
}

/// Result of [`tune`].
#[derive(Clone, Debug, Serialize)]
pub struct Tuned {
    /// Output folder.
    pub out: String,
    /// Name of the selection metric on the validation rows.
    pub measure: &'static str,
    /// Trials, in grid order.
    pub trials: Vec<Trial>,
    /// Index of the best trial.
    pub best: usize,
    /// Run folder of the best trial.
    pub run: String,
    /// Evaluation of the best trial on the test rows, if the split has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<Evaluation>,
}

/// Parses a grid entry such as `sse-item=0,0.005,0.01`.
///
/// # Errors
/// [`Error::Core`] for a setting that the method does not have, and for values of the wrong type.
fn parse_grid(method: Method, text: &str) -> Result<(String, Vec<Value>)> {
    let Some((name, values)) = text.split_once('=') else {
        let what = "must have the form SETTING=VALUE,VALUE, such as lr=0.01,0.1";
        return Err(Error::request(format!("⟨grid⟩: `{text}` {what}"), ""));
    };
    let name = name.trim().trim_start_matches("--");
    let fields = method.fields();
    let is_all = |field: &&Field| name == SSE && is_probability(field);
    let field =
        fields.iter().find(|field| field.name == name || is_all(field)).ok_or_else(|| {
            let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
            let what = format!("{} has no setting `{name}`", method.name());
            Error::request(format!("⟨grid⟩: {what}; it has {}", names.join(", ")), "")
        })?;
    let field = Field { name: name.to_owned(), ..field.clone() };
    let values = values.split(',').map(|value| Ok(field.parse(value.trim())?));
    Ok((name.to_owned(), values.collect::<Result<_>>()?))
}

/// Runs a grid search over all combinations of values.
///
/// # Errors
/// [`Error::Core`] for an invalid grid, for the folder of a different tuning, and if every trial diverges.
pub fn tune(settings: &Tune, job: &Job<'_>) -> Result<Tuned> {
    let Tune { request, settings } = settings;
    settings.check()?;
    let mut request = request.clone();
    let out = &settings.output.folder(&format!("tune-{}", request.method.name()));
    let if_exists = settings.output.existing.if_exists();
    let grid = settings.grid.iter().map(|text| parse_grid(request.method, text));
    let grid = &grid.collect::<Result<Vec<_>>>()?;
    let validation = *request.options.split.validation.get_or_insert(VALIDATION);
    let (measure, smaller) = match request.purpose() {
        Purpose::Rating => ("rmse", true),
        Purpose::Ranking => ("ndcg@10", false),
        Purpose::Text => {
            let what = "documents are not split, so there is no validation set to select on";
            return Err(Error::request(what, ""));
        }
    };
    if validation <= 0.0 {
        let what = "selection needs validation rows: ⟨validation⟩ must be above 0";
        return Err(Error::request(format!("{what}, got {validation}"), ""));
    }
    let combinations = combinations(&request, grid)?;
    let mut folder = Folder::check(out, if_exists)?;
    let seed = request.options.seed.get()?;
    let common = request.clone();
    let mut prepared = Prepared::load(request, job)?;
    let known = folder.begin(&plan(&prepared, seed.get(), grid)?, &prepared.request, if_exists)?;

    let mut trials = Vec::new();
    for (at, values) in combinations.iter().enumerate() {
        let label = format!("trial {}/{}: {}", at + 1, combinations.len(), shown(values));
        if let Some(trial) = known.iter().find(|trial| trial.settings == *values) {
            job.note(&format!("{label}: known"));
            trials.push(trial.clone());
            continue;
        }
        prepared.request = with(&common, values)?;
        let (fitted, failed) = match prepared
            .try_out(seed, &job.with_observer(&Titled(job.observer, &label)))
        {
            Ok(fitted) => (Some(fitted), None),
            Err(Error::Embed(e)) if e.is_diverged() => (None, Some(crate::flags(&e.to_string()))),
            Err(error) => return Err(folder.give_up(error, trials.is_empty() && known.is_empty())),
        };
        let value = fitted.as_ref().and_then(|fitted| fitted.best.map(|best| best.value));
        let result = value.map_or("diverged".to_owned(), |value| format!("{measure} {value:.4}"));
        job.note(&format!("{label}: {result}"));
        let trial = Trial { settings: values.clone(), value, fitted, failed };
        folder.add(&trial)?;
        trials.push(trial);
    }

    let mut best: Option<(usize, f64)> = None;
    for (at, value) in trials.iter().enumerate().filter_map(|(at, t)| Some((at, t.value?))) {
        if best.is_none_or(|(_, best)| if smaller { value < best } else { value > best }) {
            best = Some((at, value));
        }
    }
    let Some((best, _)) = best else {
        let what = "training diverged in every trial; try smaller learning rates, such as ⟨grid⟩ lr=0.001,0.01";
        return Err(Error::request(what, ""));
    };
    prepared.request = with(&common, &trials[best].settings)?;
    let run = folder.path.join(RUN);
    job.note(&format!("training with the best settings: {}", shown(&trials[best].settings)));
    prepared.run(seed, &run, folder.for_best(&prepared.document(seed)?), job)?;
    let document = fs::read(run.join("run.json"));
    let document = document.map_err(|e| Error::request(format!("{}: {e}", run.display()), ""))?;
    write_atomically(&folder.path.join(BEST), &document)?;
    let test = match common.options.split.rule()? {
        SplitRule::None => None,
        _ => Some(evaluate::evaluate(&test_evaluation(&run, &settings.k), job)?),
    };
    let (out, run) = (out.to_string(), run.display().to_string());
    let tuned = Tuned { out, measure, trials, best, run, test };
    // INVARIANT: numbers and strings under string keys.
    let json = serde_json::to_string_pretty(&tuned).expect("a result serializes");
    write_atomically(&folder.path.join(RESULT), format!("{json}\n").as_bytes())?;
    Ok(tuned)
}

/// Returns every combination of the grid, the last setting varying fastest.
fn combinations(
    request: &Request,
    grid: &[(String, Vec<Value>)],
) -> Result<Vec<Map<String, Value>>> {
    if grid.is_empty() {
        return Err(Error::missing(
            "pass values to try with ⟨grid⟩, such as ⟨grid⟩ lr=0.01,0.1",
            "",
        ));
    }
    let n = grid.iter().try_fold(1usize, |n, (_, values)| n.checked_mul(values.len()));
    let n = n.filter(|n| *n <= MOST_TRIALS).ok_or_else(|| {
        Error::shape(format!("the grid has more than {MOST_TRIALS} trials"), "try fewer values")
    })?;
    for (at, (name, values)) in grid.iter().enumerate() {
        if grid[..at].iter().any(|(other, _)| other == name) {
            return Err(Error::request(
                format!("⟨grid⟩ names `{name}` twice"),
                "pass all values at once",
            ));
        }
        if let Some(twice) = values.iter().enumerate().find(|(i, v)| values[..*i].contains(v)) {
            return Err(Error::request(format!("⟨grid⟩ {name} lists {} twice", twice.1), ""));
        }
    }
    let combination = |mut at: usize| {
        let mut values = Map::new();
        for (name, choices) in grid.iter().rev() {
            values.insert(name.clone(), choices[at % choices.len()].clone());
            at /= choices.len();
        }
        values
    };
    let all: Vec<Map<String, Value>> = (0..n).map(combination).collect();
    all.iter().try_for_each(|values| with(request, values).map(|_| ()))?;
    Ok(all)
}

/// Returns the request with these values of the grid.
fn with(request: &Request, values: &Map<String, Value>) -> Result<Request> {
    let layers =
        [SettingsLayer::given(values.clone()), SettingsLayer::given(request.settings.clone())];
    let Request { method, settings, .. } = Request::new(request.method, &layers)?;
    Ok(Request { method, settings, options: request.options.clone() })
}

/// Everything except the grid, which must be unchanged for trials to be comparable.
fn plan(prepared: &Prepared, seed: u64, grid: &[(String, Vec<Value>)]) -> Result<Value> {
    let mut plan = prepared.document(veridical_core::Seed::new(seed)?)?;
    if let Some(settings) = plan.get_mut("settings").and_then(Value::as_object_mut) {
        let is_tried = |name: &str| {
            grid.iter()
                .any(|(tried, _)| tried == name || (tried == "sse" && name.starts_with("sse-")))
        };
        settings.retain(|name, _| !is_tried(name));
    }
    Ok(plan)
}

/// Returns the settings of the final evaluation on the test rows.
fn test_evaluation(run: &Path, ks: &[usize]) -> Evaluate {
    Evaluate { run: vec![run.into()], k: ks.to_vec(), ..Evaluate::default() }
}

fn shown(values: &Map<String, Value>) -> String {
    let one = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    };
    values.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// The folder of a grid search.
struct Folder {
    path: PathBuf,
    /// Held from the first trial to the final evaluation.
    lock: Option<Lock>,
}

impl Folder {
    /// Rejects a folder that cannot be written before any work is done.
    fn check(out: &Path, if_exists: IfExists) -> Result<Self> {
        let is_ours = out.join(PLAN).is_file();
        let refused = |what: &str| Err(Error::request(format!("{} {what}", out.display()), ""));
        let is_empty =
            !out.exists() || fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_none());
        match if_exists {
            _ if is_empty => {}
            IfExists::Refuse if is_ours => {
                return refused(
                    "holds a tuning; continue it with ⟨resume⟩ or start over with ⟨force⟩",
                );
            }
            _ if !is_ours => return refused("is not a tuning; choose another name"),
            _ => {}
        }
        Lock::refuse_held(out)?;
        Ok(Self { path: out.to_owned(), lock: None })
    }

    /// Starts or resumes a tuning; returns the recorded trials.
    fn begin(
        &mut self,
        plan: &Value,
        request: &Request,
        if_exists: IfExists,
    ) -> Result<Vec<Trial>> {
        if let Some(parent) = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent)
                .map_err(|e| Error::request(format!("{}: {e}", parent.display()), ""))?;
        }
        self.lock = Some(Lock::acquire(&self.path, &publish::partial_path(&self.path))?);
        let file = self.path.join(PLAN);
        let damaged = |path: &Path, why: String| {
            Error::request(format!("{}: {why}", path.display()), "start over with ⟨force⟩")
        };
        if if_exists == IfExists::Resume && file.is_file() {
            let text = fs::read(&file).map_err(|e| damaged(&file, e.to_string()))?;
            let before: Value =
                serde_json::from_slice(&text).map_err(|e| damaged(&file, e.to_string()))?;
            if let Some((at, before, now)) = veridical_io::difference(&before, plan, "") {
                let at = at.trim_start_matches('.');
                let what = format!(
                    "the tuning differs from the one that was started: {at} was {before} and is now {now}"
                );
                return Err(damaged(&self.path, what));
            }
            let trials = self.path.join(TRIALS);
            let text = fs::read_to_string(&trials).unwrap_or_default();
            // A line cut off by a kill is a trial to repeat; the file continues after the last complete line.
            let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
            if whole.len() < text.len() {
                write_atomically(&trials, whole.as_bytes())?;
            }
            let parse = |line: &str| {
                serde_json::from_str(line).map_err(|e| damaged(&trials, e.to_string()))
            };
            return whole.lines().map(parse).collect();
        }
        let failed =
            |e: std::io::Error| Error::request(format!("{}: {e}", self.path.display()), "");
        if self.path.exists() {
            fs::remove_dir_all(&self.path).map_err(failed)?;
        }
        fs::create_dir_all(&self.path).map_err(failed)?;
        // INVARIANT: a JSON value is JSON.
        let text = serde_json::to_string_pretty(plan).expect("a plan serializes");
        write_atomically(&file, format!("{text}\n").as_bytes())?;
        let mut log = request.files();
        log.insert("event".into(), "data".into());
        write_atomically(&self.path.join("log.jsonl"), format!("{}\n", json!(log)).as_bytes())?;
        write_atomically(&self.path.join(TRIALS), b"")?;
        Ok(Vec::new())
    }

    fn add(&self, trial: &Trial) -> Result<()> {
        let path = self.path.join(TRIALS);
        let failed = |e: std::io::Error| Error::request(format!("{}: {e}", path.display()), "");
        let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
        writeln!(file, "{}", json!(trial)).map_err(failed)
    }

    /// Returns whether to resume the best run in the folder: only if it is this one.
    fn for_best(&self, document: &Value) -> IfExists {
        let run = self.path.join(RUN);
        let partial = self.path.join(format!("{RUN}.partial"));
        let found = [run, partial].into_iter().find_map(|folder| RunFolder::open(&folder).ok());
        match found {
            Some(run) if run.document().get("settings") != document.get("settings") => {
                IfExists::Force
            }
            _ => IfExists::Resume,
        }
    }

    /// Keeps recorded trials; removes the folder of a tuning without any.
    fn give_up(&self, error: Error, is_empty: bool) -> Error {
        match crate::train::interrupted(error) {
            Error::Interrupted => Error::Interrupted,
            other => {
                if is_empty {
                    let _ = fs::remove_dir_all(&self.path); // the first error is the one to report
                }
                other
            }
        }
    }
}

/// An observer that labels progress bars with one of several trainings and hides its epochs.
pub(crate) struct Titled<'a>(pub &'a dyn Observer, pub &'a str);

impl Observer for Titled<'_> {
    fn note(&self, _text: &str) {}

    fn warn(&self, text: &str) {
        self.0.warn(text);
    }

    fn meter(&self, what: &str, unit: &str, total: Option<u64>) -> Box<dyn Meter> {
        self.0.meter(&format!("{} {what}", self.1), unit, total)
    }
}
