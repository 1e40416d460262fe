//! `veridical train classifier`: from vectors and labels to a classifier (`model.rs`) in a run folder, evaluated and applied like
//! every other run.

mod model;
mod options;
mod saved;

use std::path::Path;
use std::time::Instant;

use serde_json::{Map, Value, json};
use veridical_core::{Error as CoreError, Job, Seed};
use veridical_data::NamedTensor;
use veridical_data::examples::{Dataset, Examples};
use veridical_features::FeatureSpec;
use veridical_io::IfExists;
use veridical_io::run::{self, RunFolder, RunWriter};
use veridical_nets::fit::Evaluation;
use veridical_nets::metrics::measures;

use self::model::{Choice, Fitted, Labeled, LinearInput};
pub use self::options::{
    ClassifierOptions, ClassifierRecipe, ClassifierRequest, METHOD, TrainClassifier, layer_of,
};
pub(super) use self::saved::{SavedClassifier, evaluate};
use super::{Learned, NetRun, TrainedNet, one_run};
use crate::train::{Seeded, ensemble, host, log, now};
use crate::{Error, Result, config, featurize};

/// The tensors of a run.
const WEIGHTS: &str = "weight";
const BIAS: &str = "bias";
const MEAN: &str = "mean";
const SCALE: &str = "scale";
const ROWS: &str = "rows";
const LABELS: &str = "labels";
/// The loss by which classifiers are compared.
pub(super) const LOSS: veridical_nets::Loss = veridical_nets::Loss::CrossEntropy { smoothing: 0.0 };

/// Returns whether a run folder, or the first run of an ensemble, is a classifier of vectors.
pub fn is_classifier(path: &Path) -> bool {
    let first = run::seeds(path).into_iter().next();
    RunFolder::open(first.as_deref().unwrap_or(path)).is_ok_and(|run| super::method(&run) == METHOD)
}

/// Trains a classifier and publishes the run folder; ⟨model⟩ mlp:N is trained as a network.
///
/// # Errors
/// Bad data and bad settings leave nothing behind.
///
/// # Example
/// ```
/// use serde_json::json;
/// use veridical::core::Job;
/// use veridical::core::settings::SettingsLayer;
/// use veridical::net::classifier::{TrainClassifier, train};
/// # let folder = tempfile::tempdir().unwrap();
/// # let at = |name: &str| folder.path().join(name);
///
/// let row = |i: i32| format!("{i},{},{}\n", i % 7, i % 5);
/// std::fs::write(at("v.csv"), format!("id,x,y\n{}", (0..70).map(row).collect::<String>())).unwrap();
/// let label = |i: i32| format!("{i},{}\n", if i % 7 > 2 { "much" } else { "little" });
/// std::fs::write(at("l.csv"), format!("id,label\n{}", (0..70).map(label).collect::<String>())).unwrap();
/// let given = json!({ "vectors": at("v.csv"), "labels": at("l.csv"), "out": at("run") });
/// let settings = TrainClassifier::new(vec![SettingsLayer::given(given.as_object().cloned().unwrap())])?;
/// let trained = train(&settings, &Job::silent())?;
/// assert_eq!(trained.runs[0].learned.accuracy, Some(1.0));
/// # Ok::<(), veridical::Error>(())
/// ```
pub fn train(settings: &TrainClassifier, job: &Job<'_>) -> Result<TrainedNet> {
    if let Some(network) = settings.network()? {
        return super::train(&network, job);
    }
    let TrainClassifier { request, start } = settings;
    let (out, if_exists) = (&start.output.folder(METHOD), start.output.existing.if_exists());
    run::check_output(out, if_exists)?;
    let seed = request.options.seed.get()?;
    let prepared = Prepared::load(request, job)?;
    let runs = match start.seeds.map(|n| ensemble::seeds(seed, n)).transpose()? {
        None => vec![prepared.run(seed, out, if_exists, job)?],
        Some(seeds) => ensemble::train(&prepared, &seeds, out, if_exists, job)?,
    };
    let parameters = SavedClassifier::open(Path::new(&runs[0].folder))?.fitted.parameters();
    let model = request.recipe.model.clone();
    Ok(TrainedNet { method: METHOD, model, parameters, out: out.to_string(), runs })
}

/// A request with its vectors loaded, for any seed.
struct Prepared<'a> {
    request: &'a ClassifierRequest,
    spec: Option<FeatureSpec>,
    train: Examples,
    classes: Vec<String>,
    /// Sections of `run.json` about the data.
    sections: Map<String, Value>,
}

impl<'a> Prepared<'a> {
    fn load(request: &'a ClassifierRequest, job: &Job<'_>) -> Result<Self> {
        let ClassifierRequest { recipe, options } = request;
        recipe.grid(recipe.kind()?)?; // fail before data is read
        let spec = recipe.phi.as_deref().map(featurize::load_spec).transpose()?;
        let Dataset { train, test, classes, fingerprint, .. } = options.read(None, None, job)?;
        let train = train.ok_or_else(|| CoreError::unfit("there are no labeled vectors", ""))?;
        let labels = Labeled::of(&train, classes.len())?.labels;
        if let Some(class) = (0..classes.len()).find(|&c| !labels.contains(&(c as u32))) {
            let what = format!("every row of class `{}` is in the test set", classes[class]);
            return Err(CoreError::unfit(
                what,
                "choose another ⟨split-seed⟩ or a smaller ⟨test-share⟩",
            )
            .into());
        }
        let rows = json!({ "train": train.n(), "test": test.map_or(0, |test| test.n()) });
        let sections = Map::from_iter([
            ("data".to_owned(), fingerprint),
            ("split".to_owned(), json!({ "rows": rows })),
            ("classes".to_owned(), json!(classes)),
        ]);
        Ok(Self { request, spec, train, classes, sections })
    }

    fn document(&self, seed: Seed) -> Value {
        let ClassifierRequest { recipe, options } = self.request;
        let mut document = json!({
            "format": run::FORMAT,
            "version": env!("CARGO_PKG_VERSION"),
            "method": METHOD,
            "settings": config::documented(recipe, &[]),
            "seed": seed.get(),
            "options": options.documented(),
        });
        if let Some(spec) = &self.spec {
            document["given_spec"] = spec.spec_id().into();
        }
        if let Some(document) = document.as_object_mut() {
            document.extend(self.sections.clone());
        }
        document
    }

    fn complete(
        &self,
        seed: Seed,
        writer: RunWriter,
        mut document: Value,
        job: &Job<'_>,
    ) -> Result<Learned> {
        let begun = Instant::now();
        let mut files = config::files(&self.request.options);
        files.extend(config::files(&self.request.recipe));
        log(&writer, "data", files)?;
        let threads = rayon::current_num_threads();
        log(&writer, "start", json!({ "threads": threads, "host": host(), "time": now() }))?;
        let data = Labeled::of(&self.train, self.classes.len())?;
        let progress = job.progress("fitting", "fits", None);
        let (fitted, choice) = Fitted::new(&self.request.recipe, self.spec.as_ref(), data, seed)?;
        drop(progress);
        job.check()?;
        report(&fitted, &choice, self.request.recipe.folds(), job);
        let outputs = fitted.outputs(data.rows, data.classes)?;
        let found = measures(&outputs, data.classes, &self.train.targets, LOSS, data.classes)?;
        let Evaluation { loss, accuracy, .. } = found.evaluation();
        let steps = match &fitted {
            Fitted::Linear { scores, .. } => scores.iterations as u64,
            Fitted::Neighbors { .. } => 0,
        };
        let learned = Learned { steps, loss: Some(loss), accuracy, ..Learned::default() };
        let Choice { output_dim, c, k, penalties, neighbors } = choice;
        document["results"] = json!(learned);
        for (name, value) in [
            ("output_dim", json!(output_dim)),
            ("c", json!(c)),
            ("k", json!(k)),
            ("penalties", json!(penalties)),
            ("neighbors", json!(neighbors)),
        ] {
            document["results"][name] = value;
        }
        if let Fitted::Linear { input: LinearInput::Features(map), .. } = &fitted {
            let spec = serde_json::from_str::<Value>(&map.spec().to_json());
            document["spec"] = spec.map_err(|e| CoreError::damaged(e.to_string(), ""))?;
        }
        log(&writer, "end", json!({ "seconds": begun.elapsed().as_secs_f64(), "time": now() }))?;
        publish(writer, &document, &fitted)?;
        Ok(learned)
    }
}

/// Writes the tensors of a classifier.
fn publish(writer: RunWriter, document: &Value, fitted: &Fitted) -> Result<()> {
    match fitted {
        Fitted::Linear { input, scores } => {
            let narrow = |values: &[f64]| values.iter().map(|&x| x as f32).collect::<Vec<f32>>();
            let (weights, bias) = (narrow(&scores.weights), narrow(&scores.intercepts));
            let shape = [bias.len(), weights.len() / bias.len().max(1)];
            let mut tensors = vec![
                NamedTensor { name: WEIGHTS, shape: &shape, values: &weights },
                NamedTensor { name: BIAS, shape: &shape[..1], values: &bias },
            ];
            if let LinearInput::Scaled { mean, scale } = input {
                let scale = std::slice::from_ref(scale);
                tensors.push(NamedTensor { name: MEAN, shape: &shape[1..], values: mean });
                tensors.push(NamedTensor { name: SCALE, shape: &[1], values: scale });
            }
            Ok(writer.publish(document, &tensors)?)
        }
        Fitted::Neighbors { rows, dim, labels, .. } => {
            let numbers: Vec<f32> = labels.iter().map(|&label| label as f32).collect();
            let shape = [labels.len(), *dim];
            let tensors = [
                NamedTensor { name: ROWS, shape: &shape, values: rows },
                NamedTensor { name: LABELS, shape: &shape[..1], values: &numbers },
            ];
            Ok(writer.publish(document, &tensors)?)
        }
    }
}

/// Says what cross-validation chose, and whether the fit has converged.
fn report(fitted: &Fitted, choice: &Choice, folds: usize, job: &Job<'_>) {
    let chosen = |name: &str, value: Option<String>| value.map(|value| format!("{name} {value}"));
    let parts = [
        chosen("output dim", choice.output_dim.map(|d| d.to_string())),
        chosen("C", choice.c.map(|c| c.to_string())),
        chosen("k", choice.k.map(|k| k.to_string())),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if !choice.penalties.is_empty() || !choice.neighbors.is_empty() {
        job.note(&format!("{} by {folds}-fold cross-validation", parts.join(", ")));
    }
    if let Fitted::Linear { scores, .. } = fitted
        && !scores.converged
    {
        let n = scores.iterations;
        job.warn(&format!(
            "the regression has not converged after {n} iterations; choose a smaller ⟨c⟩"
        ));
    }
}

impl Seeded for Prepared<'_> {
    type Run = NetRun;

    fn method(&self) -> &str {
        METHOD
    }

    fn is_one_thread_enough(&self) -> bool {
        false
    }

    fn run(&self, seed: Seed, out: &Path, if_exists: IfExists, job: &Job<'_>) -> Result<NetRun> {
        one_run((seed, out, if_exists), self.document(seed), job, |writer, _, document| {
            self.complete(seed, writer, document, job)
        })
    }

    fn moved(run: &mut NetRun, ensemble: &Path) {
        run.folder = run::seed_folder(ensemble, run.seed).display().to_string();
    }
}

impl ClassifierOptions {
    /// Reads the labeled vectors; `vectors` and `labels` may be others than those of the options, and then nothing is held out.
    fn read(
        &self,
        vectors: Option<&Path>,
        labels: Option<&Path>,
        job: &Job<'_>,
    ) -> Result<Dataset> {
        let Some(path) = vectors.or(self.vectors.as_deref()) else {
            return Err(Error::request("pass the vectors to learn from with ⟨vectors⟩ TABLE", ""));
        };
        let mut labeled = self.labeled.clone();
        if let Some(labels) = labels {
            labeled.labels = Some(labels.into());
        }
        let seed = Seed::new(self.split_seed.unwrap_or(0)).map_err(|e| e.named("split-seed"))?;
        let held_out = (vectors.is_none() && labels.is_none()).then_some(seed);
        labeled.read(path, &self.files, None, held_out, job)
    }
}
