//! Trained classifiers of vectors, loaded from their run folders.

use std::path::Path;

use serde_json::Value;
use veridical_core::{Job, Rows, Seed};
use veridical_data::TensorMap;
use veridical_data::examples::{Examples, Targets};
use veridical_features::{FeatureMap, FeatureSpec};
use veridical_io::run::RunFolder;
use veridical_learn::Logistic;
use veridical_nets::Loss;

use super::super::classified::{self, Baselines, Classifies, Test};
use super::super::evaluate::NetEvaluation;
use super::super::saved::{damaged, part, renumber};
use super::model::{Fitted, Labeled, LinearInput, rows_of};
use super::options::{ClassifierRequest, METHOD, ModelKind};
use super::{BIAS, LABELS, LOSS, MEAN, ROWS, SCALE, WEIGHTS};
use crate::evaluate::Evaluate;
use crate::{Error, Result, config};
use veridical_core::settings::Settings as _;

/// A run of a classifier.
pub(in super::super) struct SavedClassifier {
    run: RunFolder,
    pub request: ClassifierRequest,
    seed: u64,
    pub classes: Vec<String>,
    pub(super) fitted: Fitted,
}

impl SavedClassifier {
    pub fn open(path: &Path) -> Result<Self> {
        let run = RunFolder::open(path)?;
        let layer = config::of_run::<ClassifierRequest>(&run, run.path(), &[]);
        let request = ClassifierRequest::layered(METHOD, &[layer])?;
        let classes: Vec<String> = part(&run, "classes")?;
        let mut tensors = run.model()?;
        let fitted = match request.recipe.kind()? {
            ModelKind::Knn => neighbors(&run, &mut tensors, classes.len())?,
            ModelKind::Logistic => {
                let (_, mean) = tensor(&run, &mut tensors, MEAN)?;
                let (_, scale) = tensor(&run, &mut tensors, SCALE)?;
                let &[scale] = scale.as_slice() else {
                    return Err(damaged(&run, "`scale` is not one number"));
                };
                let dim = mean.len();
                let input = LinearInput::Scaled { mean, scale };
                linear(&run, &mut tensors, input, dim, classes.len())?
            }
            ModelKind::Phi => {
                let spec: Value = part(&run, "spec")?;
                let spec = FeatureSpec::from_json(&spec.to_string())
                    .map_err(|e| damaged(&run, &format!("`spec`: {e}")))?;
                let input = LinearInput::Features(Box::new(FeatureMap::new(&spec)?));
                linear(&run, &mut tensors, input, spec.output_dim(), classes.len())?
            }
        };
        let seed = run.document().get("seed").and_then(Value::as_u64).unwrap_or(0);
        Ok(Self { run, request, seed, classes, fitted })
    }

    /// Returns the outputs of vectors, one logit per class.
    pub fn outputs_of(&self, rows: Rows<'_, f32>) -> Result<Vec<f32>> {
        if rows.dim() != self.fitted.dim() {
            let (dim, own) = (rows.dim(), self.fitted.dim());
            let run = self.run.path().display();
            let what = format!("the vectors have dimension {dim}, and {run} was trained on {own}");
            return Err(Error::request(what, "pass vectors of the same kind as in training"));
        }
        self.fitted.outputs(rows, self.classes.len())
    }
}

/// A tensor of the run.
fn tensor(run: &RunFolder, tensors: &mut TensorMap, name: &str) -> Result<(Vec<usize>, Vec<f32>)> {
    tensors.remove(name).ok_or_else(|| damaged(run, &format!("the model has no tensor `{name}`")))
}

fn linear(
    run: &RunFolder,
    tensors: &mut TensorMap,
    input: LinearInput,
    dim: usize,
    classes: usize,
) -> Result<Fitted> {
    let wide = |values: Vec<f32>| values.into_iter().map(f64::from).collect::<Vec<f64>>();
    let (shape, weights) = tensor(run, tensors, WEIGHTS)?;
    let (_, bias) = tensor(run, tensors, BIAS)?;
    if shape != [classes, dim] || bias.len() != classes {
        return Err(damaged(run, "the weights do not match `classes` and the dimension"));
    }
    let scores = Logistic {
        weights: wide(weights),
        intercepts: wide(bias),
        iterations: 0,
        loss: f64::NAN,
        converged: true,
    };
    Ok(Fitted::Linear { input, scores })
}

fn neighbors(run: &RunFolder, tensors: &mut TensorMap, classes: usize) -> Result<Fitted> {
    let (shape, rows) = tensor(run, tensors, ROWS)?;
    let (_, labels) = tensor(run, tensors, LABELS)?;
    let labels: Vec<u32> = labels.into_iter().map(|label| label as u32).collect();
    let k = run.document().pointer("/results/k").and_then(Value::as_u64).unwrap_or(0) as usize;
    let is_sound = labels.iter().all(|&label| (label as usize) < classes);
    match *shape.as_slice() {
        [n, dim] if n == labels.len() && dim > 0 && (1..=n).contains(&k) && is_sound => {
            Ok(Fitted::Neighbors { rows, dim, labels, k })
        }
        _ => Err(damaged(run, "the voting rows do not match their labels, `classes` or k")),
    }
}

impl Classifies for SavedClassifier {
    type Inputs = Examples;

    fn open(path: &Path) -> Result<Self> {
        Self::open(path)
    }

    fn run(&self) -> &RunFolder {
        &self.run
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn description(&self) -> String {
        self.request.recipe.model.clone()
    }

    fn loss(&self) -> (Loss, usize) {
        (LOSS, self.classes.len())
    }

    fn test(&self, settings: &Evaluate, job: &Job<'_>) -> Result<Test<Examples>> {
        let options = &self.request.options;
        let (data, labels) = (settings.data.as_deref(), settings.labels.as_deref());
        let mut found = options.read(data, labels, job)?;
        let recorded = self.run.document().get("data");
        if data.is_none() && labels.is_none() && recorded != Some(&found.fingerprint) {
            let run = self.run.path().display();
            return Err(Error::request(
                format!("the vectors or labels of {run} have changed since training"),
                "pass those to evaluate on with ⟨data⟩ and ⟨labels⟩",
            ));
        }
        let content = |part: &str| found.fingerprint.get(part)?.get("fingerprint")?.as_str();
        let fingerprint = content("test").or(content("train")).unwrap_or_default().to_owned();
        let (test, train) = (found.test.take(), found.train.take());
        let is_own = data.is_none() && labels.is_none() && test.is_none();
        let mut inputs = test.or(train).ok_or_else(|| Error::missing("there are no rows", ""))?;
        let note = is_own.then(|| {
            let n = inputs.n();
            format!(
                "nothing is held out: evaluated on all {n} rows, which the model was trained on"
            )
        });
        if let Targets::Classes(labels) = &mut inputs.targets {
            let run = self.run.path().display().to_string();
            renumber(labels, &found.classes, &self.classes, &run)?;
        }
        let targets = inputs.targets.clone();
        Ok(Test { inputs, targets, fingerprint, note })
    }

    fn outputs(&self, inputs: &Examples, _job: &Job<'_>) -> Result<(Vec<f32>, Option<String>)> {
        Ok((self.outputs_of(rows_of(inputs)?)?, None))
    }

    fn baselines(&self, inputs: &Examples, job: &Job<'_>) -> Result<Option<Baselines>> {
        let found = self.request.options.read(None, None, &Job::silent()).ok();
        let recorded = self.run.document().get("data");
        let found = found.filter(|found| recorded == Some(&found.fingerprint));
        let Some(train) = found.and_then(|found| found.train) else { return Ok(None) };
        let data = Labeled::of(&train, self.classes.len())?;
        let labels = data.labels.to_vec();
        let is_usual = matches!(self.request.recipe.kind()?, ModelKind::Logistic);
        if is_usual {
            return Ok(Some(Baselines { labels, usual: None }));
        }
        job.note("fitting the baseline logistic; without it: ⟨baselines⟩ none");
        let usual = Fitted::usual(data, Seed::new(0)?)?;
        let outputs = usual.outputs(rows_of(inputs)?, self.classes.len())?;
        Ok(Some(Baselines { labels, usual: Some(("logistic", outputs)) }))
    }
}

/// Evaluates classifiers of vectors beside the most frequent class and a logistic regression.
pub(in super::super) fn evaluate(settings: &Evaluate, job: &Job<'_>) -> Result<NetEvaluation> {
    classified::evaluate::<SavedClassifier>(settings, job)
}
