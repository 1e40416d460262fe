//! A trained network, loaded from its run folder.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;
use veridical_core::Job;
use veridical_core::Seed;
use veridical_data::examples::{Dataset, Examples, Targets};
use veridical_io::run::RunFolder;
use veridical_nets::{Loss, Net, Shape};

use super::check_is_net;
use super::material::{Normalization, Task};
use super::options::{NetRequest, Recipe};
use crate::{Error, Result};

/// A run of a network.
pub(crate) struct Saved {
    pub run: RunFolder,
    pub request: NetRequest,
    pub seed: u64,
    pub shape: Shape,
    pub task: Task,
    pub normalization: Normalization,
    pub loss: Loss,
    pub net: Net<f32>,
}

impl Saved {
    pub fn open(path: &Path) -> Result<Self> {
        let run = RunFolder::open(path)?;
        check_is_net(&run)?;
        let request = NetRequest::new(Vec::new(), Some(run.path()))?;
        let shape = match *part::<Vec<usize>>(&run, "input")?.as_slice() {
            [height, width, channels] => Shape::image(height, width, channels),
            [columns] => Shape::row(columns),
            _ => return Err(damaged(&run, "`input` has neither one dimension nor three")),
        };
        let task = match run.document().get("classes") {
            Some(_) => Task::Classes(part(&run, "classes")?),
            None => Task::Numbers(part(&run, "targets")?),
        };
        let normalization: Normalization = part(&run, "normalization")?;
        let lengths = [normalization.mean.len(), normalization.std.len()];
        if lengths != [shape.channels; 2] {
            return Err(damaged(&run, "`normalization` does not match `input`"));
        }
        let (loss, outputs) = request.recipe.loss(&task)?;
        let mut net = request.recipe.model(shape, outputs)?.build::<f32>(Seed::new(0)?)?;
        let tensors = run.model()?;
        let model = run.path().join("model.safetensors");
        net.import(&tensors, true)
            .map_err(|e| Error::request(format!("{}: {e}", model.display()), ""))?;
        let seed = run.document().get("seed").and_then(Value::as_u64).unwrap_or(0);
        Ok(Self { run, request, seed, shape, task, normalization, loss, net })
    }

    pub fn recipe(&self) -> &Recipe {
        &self.request.recipe
    }

    /// Returns the number of classes, 0 for regression.
    pub fn classes(&self) -> usize {
        self.task.classes()
    }

    /// Returns the path of the examples: `given`, otherwise the path recorded in the run.
    pub fn data(&self, given: Option<&Path>) -> Result<PathBuf> {
        given.or(self.request.options.data.as_deref()).map(Path::to_owned).ok_or_else(|| {
            let what = "does not record where its data is; pass it with ⟨data⟩";
            Error::request(format!("{} {what}", self.run.path().display()), "")
        })
    }

    /// Reads examples in the format of this network, with labels in its class order; `classes` filters them.
    pub fn read(
        &self,
        path: &Path,
        classes: Option<&str>,
        labels: Option<&Path>,
        job: &Job<'_>,
    ) -> Result<Dataset> {
        let mut options = self.request.options.clone();
        let is_other = labels.is_some() || options.data.as_deref() != Some(path);
        if let Some(labels) = labels {
            options.labeled.labels = Some(labels.into());
        }
        let known = match &self.task {
            Task::Classes(own) => Some(own.as_slice()),
            Task::Numbers(_) => None,
        };
        let mut data = options.read(path, known, classes, is_other, job)?;
        let folder = self.run.path().display();
        for part in [&mut data.train, &mut data.test].into_iter().flatten() {
            let shape = Shape::from(part.shape);
            if shape != self.shape {
                let what = format!(
                    "examples have shape {shape} but {folder} was trained on {}",
                    self.shape
                );
                return Err(Error::request(format!("{}: {what}", path.display()), ""));
            }
            match (&mut part.targets, &self.task) {
                (Targets::Classes(labels), Task::Classes(own)) => {
                    renumber(labels, &data.classes, own, &folder.to_string())?;
                }
                (Targets::Numbers { dim, .. }, Task::Numbers(own)) if dim == own => {}
                _ => {
                    let what = format!("has other targets than {folder} predicts; see ⟨target⟩");
                    return Err(Error::request(format!("{} {what}", path.display()), ""));
                }
            }
        }
        let columns = self.run.document().get("columns").cloned().unwrap_or_default();
        let own: Vec<String> = serde_json::from_value(columns).unwrap_or_default();
        if let Some((mine, theirs)) = own.iter().zip(&data.columns).find(|(a, b)| a != b) {
            let what = format!("has column `{theirs}` but {folder} was trained on `{mine}`");
            return Err(Error::request(
                format!("{} {what}", path.display()),
                "use the same column names",
            ));
        }
        Ok(data)
    }

    /// Returns the test examples, otherwise all examples with a note about it.
    pub fn test_set(&self, data: Dataset) -> Result<(Examples, Option<String>)> {
        match (data.test, data.train) {
            (Some(test), _) => Ok((test, None)),
            (None, Some(all)) => {
                let recorded = self.run.document().get("data").and_then(|data| data.get("train"));
                let is_own = recorded.is_some() && recorded == data.fingerprint.get("train");
                let own = if is_own { ", which the network was trained on" } else { "" };
                let note =
                    format!("the data has no test set: evaluated on all {} examples{own}", all.n());
                Ok((all, Some(note)))
            }
            (None, None) => Err(Error::missing("the data has no examples", "")),
        }
    }
}

/// Renumbers labels to the class order of a network.
pub(super) fn renumber(
    labels: &mut [u32],
    found: &[String],
    own: &[String],
    folder: &str,
) -> Result<()> {
    if found == own {
        return Ok(());
    }
    let place = |name: &String| {
        let at = own.iter().position(|class| class == name);
        at.map(|at| at as u32)
            .ok_or_else(|| Error::request(format!("⟨classes⟩: {folder} has no class `{name}`"), ""))
    };
    let numbers = found.iter().map(place).collect::<Result<Vec<u32>>>()?;
    labels.iter_mut().for_each(|label| *label = numbers[*label as usize]);
    Ok(())
}

pub(super) fn damaged(run: &RunFolder, what: &str) -> Error {
    let file = run.path().join("run.json");
    Error::request(format!("{}: {what}", file.display()), "train the network again")
}

pub(super) fn part<T: DeserializeOwned>(run: &RunFolder, name: &str) -> Result<T> {
    let value = run.document().get(name).cloned().unwrap_or_default();
    serde_json::from_value(value).map_err(|e| damaged(run, &format!("`{name}`: {e}")))
}
