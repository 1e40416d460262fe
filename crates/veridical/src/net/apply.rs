//! Applying networks and classifiers to inputs without targets: their outputs, and the values of a hidden layer.

use std::path::Path;

use veridical_core::{Job, Rows, Seed};
use veridical_data::examples::{Examples, Targets, Values};
use veridical_data::{Ids, VectorTable};
use veridical_io::Input;
use veridical_io::examples::{InputOptions, read_inputs};
use veridical_nets::metrics::Passes;
use veridical_nets::{Net, Shape};

use super::classified::Classifies;
use super::classifier::{self, SavedClassifier};
use super::material::Task;
use super::saved::Saved;
use super::text::{self, SavedText};
use super::vectors::LabeledVectors;
use crate::settings::TextFiles;
use crate::{Error, Result};

/// The inputs of a run, of which it takes one kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inputs {
    pub vectors: Option<Input>,
    pub data: Option<Input>,
    pub text: Option<Input>,
    pub column: Option<String>,
    pub id_column: Option<String>,
    pub table: Option<String>,
    pub vector_column: Option<String>,
}

impl Inputs {
    /// Returns the one input that a run takes, and rejects others.
    fn only(&self, wanted: &[&'static str], run: &Path) -> Result<(&'static str, &Path)> {
        let all = [("vectors", &self.vectors), ("data", &self.data), ("text", &self.text)];
        let given = all.iter().find_map(|(name, path)| Some((*name, path.as_deref()?)));
        let needed: Vec<String> = wanted.iter().map(|name| format!("⟨{name}⟩")).collect();
        let needed = needed.join(" or ");
        match given {
            Some((name, path)) if wanted.contains(&name) => Ok((name, path)),
            Some((name, _)) => {
                let what = format!("{} takes {needed}, so ⟨{name}⟩ does not apply", run.display());
                Err(Error::request(what, format!("pass {needed}")))
            }
            None => Err(Error::missing(format!("{} takes {needed}", run.display()), "pass it")),
        }
    }

    fn read_vectors(
        &self,
        path: &Path,
        own: &LabeledVectors,
        files: &TextFiles,
    ) -> Result<VectorTable> {
        let reading = LabeledVectors {
            table: self.table.clone().or_else(|| own.table.clone()),
            id_column: self.id_column.clone(),
            vector_column: self.vector_column.clone(),
            ..LabeledVectors::default()
        };
        reading.table(path, files)
    }
}

/// The outputs of a run.
pub(crate) struct Outputs {
    pub ids: Ids,
    /// `dim` outputs per row.
    pub values: Vec<f32>,
    pub dim: usize,
    pub task: Task,
    pub notes: Vec<String>,
}

/// Applies a run to inputs.
pub(crate) fn outputs(
    run: &Path,
    inputs: &Inputs,
    files: &TextFiles,
    job: &Job<'_>,
) -> Result<Outputs> {
    if text::is_text(run) {
        let saved = SavedText::open(run)?;
        let (_, path) = inputs.only(&["text"], run)?;
        let (ids, texts) = saved.read(path, inputs, job)?;
        let all: Vec<&str> = texts.iter().map(String::as_str).collect();
        let (values, note) = saved.outputs(&all, job)?;
        let (task, notes) = (Task::Classes(saved.classes.clone()), note.into_iter().collect());
        let (_, dim) = saved.loss();
        return Ok(Outputs { ids, values, dim, task, notes });
    }
    if classifier::is_classifier(run) {
        let saved = SavedClassifier::open(run)?;
        let (_, path) = inputs.only(&["vectors"], run)?;
        let VectorTable { ids, dim, vectors } =
            inputs.read_vectors(path, &saved.request.options.labeled, files)?;
        let values = saved.outputs_of(Rows::new(&vectors, dim)?)?;
        let task = Task::Classes(saved.classes.clone());
        return Ok(Outputs { ids, dim: saved.classes.len(), values, task, notes: Vec::new() });
    }
    let saved = Saved::open(run)?;
    let (ids, examples, notes) = saved.inputs(inputs, files)?;
    let feed = saved.normalization.feed(&examples, Seed::new(0)?);
    let label = run.display().to_string();
    let values = Passes::new(&saved.net).outputs(&saved.net, &feed, (&label, job))?;
    Ok(Outputs { ids, values, dim: saved.net.outputs(), task: saved.task, notes })
}

/// Returns the values of a hidden layer as a vector table, one row per input; by default of the input of the last layer.
pub(crate) fn hidden(
    run: &Path,
    layer: Option<&str>,
    inputs: &Inputs,
    files: &TextFiles,
    job: &Job<'_>,
) -> Result<(VectorTable, Vec<String>)> {
    if classifier::is_classifier(run) {
        let what =
            format!("{} is a classifier of vectors, which has no hidden layers", run.display());
        return Err(Error::request(what, "embed with a run of `train net` or `train text`"));
    }
    if text::is_text(run) {
        let saved = SavedText::open(run)?;
        let (_, path) = inputs.only(&["text"], run)?;
        let (ids, texts) = saved.read(path, inputs, job)?;
        let all: Vec<&str> = texts.iter().map(String::as_str).collect();
        let (dim, vectors, note) = saved.hidden(layer, &all, job)?;
        return Ok((VectorTable { ids, dim, vectors }, note.into_iter().collect()));
    }
    let saved = Saved::open(run)?;
    let layer = chosen(&saved.net, layer, run)?;
    let (ids, examples, notes) = saved.inputs(inputs, files)?;
    let feed = saved.normalization.feed(&examples, Seed::new(0)?);
    let mut vectors = Vec::with_capacity(examples.n() * layer.dim);
    let label = run.display().to_string();
    Passes::new(&saved.net).run(&saved.net, &feed, (&label, job), |_, work| match &layer.name {
        Some(name) => vectors.extend_from_slice(work.activations(&saved.net, name).unwrap_or(&[])),
        None => vectors.extend_from_slice(saved.net.features(work)),
    })?;
    Ok((VectorTable { ids, dim: layer.dim, vectors }, notes))
}

/// A layer of a network; without a name the input of the last one.
pub(super) struct Layer {
    pub name: Option<String>,
    pub dim: usize,
}

/// Finds a layer by its name.
pub(super) fn chosen(net: &Net<f32>, name: Option<&str>, run: &Path) -> Result<Layer> {
    let Some(name) = name else { return Ok(Layer { name: None, dim: net.feature_dim() }) };
    let Some(shape) = net.output_of(name) else {
        let names: Vec<&str> = net.names().collect();
        let what = format!("{} has no layer `{name}`", run.display());
        return Err(Error::request(what, format!("choose one of {}", names.join(", "))));
    };
    Ok(Layer { name: Some(name.to_owned()), dim: shape.values() })
}

impl Saved {
    /// Reads inputs in the format of this network.
    pub(crate) fn inputs(
        &self,
        inputs: &Inputs,
        files: &TextFiles,
    ) -> Result<(Ids, Examples, Vec<String>)> {
        let folder = self.run.path();
        let is_image = self.shape.positions() > 1;
        let wanted: &[&'static str] = match (is_image, self.columns()) {
            (true, _) => &["data"],
            (false, columns) if columns.is_empty() => &["vectors"],
            _ => &["data", "vectors"],
        };
        let (kind, path) = inputs.only(wanted, folder)?;
        let (ids, examples, note) = if kind == "vectors" {
            let VectorTable { ids, dim, vectors } =
                inputs.read_vectors(path, &self.request.options.labeled, files)?;
            let shape = veridical_data::examples::ExampleShape::Row { columns: dim };
            let targets = Targets::Classes(Vec::new());
            (ids, Examples { shape, values: Values::Floats(vectors), targets }, None)
        } else {
            let options = InputOptions {
                columns: self.columns(),
                id_column: inputs.id_column.clone(),
                records: files.records(veridical_io::ColumnMap::default()),
            };
            let read = read_inputs(path, &options)?;
            (read.ids, read.examples, read.note)
        };
        let shape = Shape::from(examples.shape);
        if shape != self.shape {
            let what = format!(
                "examples have shape {shape}, and {} was trained on {}",
                folder.display(),
                self.shape
            );
            return Err(Error::request(
                format!("{}: {what}", path.display()),
                "pass inputs of the same shape as in training",
            ));
        }
        Ok((ids, examples, note.into_iter().collect()))
    }

    /// Reads inputs of the kind that this network was trained on: images, a table, or vectors.
    pub(crate) fn inputs_of(&self, path: &Path) -> Result<(Ids, Examples, Vec<String>)> {
        let is_of_vectors = self.shape.positions() == 1 && self.columns().is_empty();
        let inputs = match is_of_vectors {
            true => Inputs { vectors: Some(path.into()), ..Inputs::default() },
            false => Inputs { data: Some(path.into()), ..Inputs::default() },
        };
        self.inputs(&inputs, &TextFiles::default())
    }

    /// Returns the names of the input columns; none for images and vectors.
    pub(crate) fn columns(&self) -> Vec<String> {
        let columns = self.run.document().get("columns").cloned().unwrap_or_default();
        serde_json::from_value(columns).unwrap_or_default()
    }
}
