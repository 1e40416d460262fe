//! `veridical predict`: applies a run to new inputs and writes a table.
//!
//! documents, vectors, images, tables   id, predicted, and the probability of every class, or the predicted numbers
//! pairs of user and item               user, item, and the predicted rating, or the score by which items are ranked
//!
//! Outputs are those that `evaluate` measures: of the same run, on the same inputs, in the same order.

mod pairs;

use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, StringArray};
use arrow_schema::{DataType, Field};
use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Job, settings};
use veridical_data::Ids;
use veridical_io::{ColumnWriter, Input, Output, Replace, publish};
use veridical_nets::metrics::predicted;

use crate::net::{self, Inputs, Outputs, Task};
use crate::settings::TextFiles;
use crate::{Error, Result};

settings! {
    /// Settings of [`predict`].
    pub struct Predict {
        /// Run to apply: a classifier, a network, or an embedding method that scores items
        pub run: Input = Input::default() => [required(), value("RUN")],
        /// Vectors to classify: a vector table or a run
        pub vectors: Option<Input> = None => [value("TABLE")],
        /// Images or a table, for networks
        pub data: Option<Input> = None => [value("FILE_OR_FOLDER")],
        /// Table of documents, for text models
        pub text: Option<Input> = None,
        /// Pairs of user and item to score, for embeddings
        pub interactions: Option<Input> = None,
        /// Column with the text
        pub column: Option<String> = None => [detail(), otherwise("the column of the run")],
        /// Column with the ids
        pub id_column: Option<String> = None => [otherwise("`id`, or the row number")],
        /// Columns of the pairs, by name or number
        pub columns: Option<String> = None => [detail(), value("user=U,item=I"), otherwise("by common names")],
        /// Table of a run folder with vectors
        pub table: Option<String> = None => [detail(), otherwise("item, or the first")],
        /// Column of the vectors, or the columns of their coordinates
        pub vector_column: Option<String> = None => [detail(), otherwise("the only list of floats, else numbered columns")],
        /// Table to write: CSV, TSV, Parquet, Arrow or JSON Lines
        pub out: Output = Output::default() => [required()],
    } with {
        /// How text files are decoded.
        pub files: TextFiles,
        /// Whether existing output is replaced.
        pub replace: Replace,
    }
}

/// Result of [`predict`].
#[derive(Clone, Debug, Serialize)]
pub struct Predicted {
    /// Number of rows.
    pub rows: usize,
    /// Classes with the number of rows predicted for each; empty for numbers and scores.
    pub classes: Vec<(String, usize)>,
    /// Notes about the inputs.
    pub notes: Vec<String>,
    /// Path of the table.
    pub out: String,
}

/// Applies a run to new inputs and writes a table of predictions.
///
/// # Errors
/// [`Error::Core`] if the run cannot be applied to these inputs, or if they cannot be read.
///
/// # Example
/// ```
/// use veridical::core::Job;
/// use veridical::predict::{Predict, predict};
/// # use serde_json::json;
/// # use veridical::core::settings::SettingsLayer;
/// # use veridical::net::classifier::{TrainClassifier, train};
/// # let folder = tempfile::tempdir().unwrap();
/// # let at = |name: &str| folder.path().join(name);
/// # let row = |i: i32| format!("{i},{},{}\n", i % 7, i % 5);
/// # std::fs::write(at("v.csv"), format!("id,x,y\n{}", (0..70).map(row).collect::<String>())).unwrap();
/// # let label = |i: i32| format!("{i},{}\n", if i % 7 > 2 { "much" } else { "little" });
/// # std::fs::write(at("l.csv"), format!("id,label\n{}", (0..70).map(label).collect::<String>())).unwrap();
/// # let given = json!({ "vectors": at("v.csv"), "labels": at("l.csv"), "out": at("run") });
/// # let settings = TrainClassifier::new(vec![SettingsLayer::given(given.as_object().cloned().unwrap())])?;
/// # train(&settings, &Job::silent())?;
///
/// // `run` is a classifier of vectors (x, y) into `much` and `little`.
/// std::fs::write(at("new.csv"), "id,x,y\na,6,1\nb,0,3\n").unwrap();
/// let settings = Predict {
///     run: at("run").into(),
///     vectors: Some(at("new.csv").into()),
///     out: at("p.csv").into(),
///     ..Predict::default()
/// };
/// assert_eq!(predict(&settings, &Job::silent())?.rows, 2);
/// let written = std::fs::read_to_string(at("p.csv")).unwrap();
/// assert!(written.starts_with("id,predicted,p_little,p_much\na,much,"));
/// # Ok::<(), veridical::Error>(())
/// ```
pub fn predict(settings: &Predict, job: &Job<'_>) -> Result<Predicted> {
    settings.check()?;
    publish::check_new(&settings.out, settings.replace.force)?;
    if let Some(seed) = veridical_io::run::seeds(&settings.run).first() {
        let what = format!("is an ensemble; pass one of its seeds, such as {}", seed.display());
        return Err(Error::request(format!("{} {what}", settings.run), ""));
    }
    if !net::is_network(&settings.run) {
        return pairs::predict(settings, job);
    }
    let inputs = settings.inputs()?;
    let Outputs { ids, values, dim, task, notes } =
        net::outputs(&settings.run, &inputs, &settings.files, job)?;
    let rows = values.chunks_exact(dim);
    let mut written = Columns::new(&ids);
    let mut classes = Vec::new();
    match &task {
        Task::Classes(names) => {
            let chosen: Vec<usize> = rows.clone().map(predicted).collect();
            let name = |&class: &usize| names[class].as_str();
            let text = StringArray::from_iter_values(chosen.iter().map(name));
            written.push("predicted".into(), DataType::Utf8, Arc::new(text));
            let shares: Vec<Vec<f32>> = rows.map(|f| probabilities(f, names.len())).collect();
            for (class, name) in names.iter().enumerate() {
                let of_class = shares.iter().map(|shares| shares[class]);
                written.numbers(format!("p_{name}"), of_class);
            }
            let count = |class: usize| chosen.iter().filter(|&&own| own == class).count();
            classes =
                names.iter().enumerate().map(|(at, name)| (name.clone(), count(at))).collect();
        }
        Task::Numbers(_) => {
            for target in 0..dim {
                let name =
                    if dim == 1 { "predicted".into() } else { format!("predicted_{}", target + 1) };
                written.numbers(name, rows.clone().map(|f| f[target]));
            }
        }
    }
    written.write(settings)?;
    Ok(Predicted { rows: ids.len(), classes, notes, out: settings.out.to_string() })
}

impl Predict {
    /// The inputs of networks and classifiers.
    fn inputs(&self) -> Result<Inputs> {
        let Self { vectors, data, text, column, id_column, table, vector_column, .. } =
            self.clone();
        if self.interactions.is_some() {
            let what = format!("{} does not score pairs of user and item", self.run);
            return Err(Error::request(what, "pass ⟨vectors⟩, ⟨data⟩ or ⟨text⟩"));
        }
        Ok(Inputs { vectors, data, text, column, id_column, table, vector_column })
    }

    /// Rejects inputs of other kinds.
    fn only(&self, wanted: &str, does: &str) -> Result<()> {
        let given = self.given();
        let others = ["vectors", "data", "text", "interactions"];
        match others.iter().find(|name| **name != wanted && given.contains_key(**name)) {
            Some(name) => {
                let what = format!("{} {does}, so ⟨{name}⟩ does not apply", self.run);
                Err(Error::request(what, format!("pass ⟨{wanted}⟩")))
            }
            None => Ok(()),
        }
    }
}

/// Returns the probabilities of classes: softmax of the outputs, or the logistic function of a single one.
fn probabilities(f: &[f32], classes: usize) -> Vec<f32> {
    if let ([f], 2) = (f, classes) {
        let p = 1.0 / (1.0 + (-f64::from(*f)).exp());
        return vec![(1.0 - p) as f32, p as f32];
    }
    let most = f.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let shares: Vec<f64> = f.iter().map(|&x| f64::from(x - most).exp()).collect();
    let total: f64 = shares.iter().sum();
    shares.into_iter().map(|x| (x / total) as f32).collect()
}

/// The columns of the output.
struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    /// Starts with the column `id`.
    fn new(ids: &Ids) -> Self {
        let (kind, array): (_, ArrayRef) = match ids {
            Ids::Int(ids) => (DataType::Int64, Arc::new(ids.clone())),
            Ids::Text(ids) => (DataType::Utf8, Arc::new(ids.clone())),
        };
        Self { fields: vec![Field::new("id", kind, false)], arrays: vec![array] }
    }

    fn push(&mut self, name: String, kind: DataType, array: ArrayRef) {
        self.fields.push(Field::new(name, kind, array.null_count() > 0));
        self.arrays.push(array);
    }

    fn numbers(&mut self, name: String, values: impl Iterator<Item = f32>) {
        self.push(name, DataType::Float32, Arc::new(Float32Array::from_iter_values(values)));
    }

    fn write(self, settings: &Predict) -> Result<()> {
        let mut writer = ColumnWriter::create(&settings.out, self.fields)?;
        writer.write(self.arrays)?;
        Ok(writer.finish()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_sum_to_one() {
        let p = probabilities(&[0.0, 2.0f32.ln()], 2);
        assert!((p[0] - 1.0 / 3.0).abs() < 1e-6 && (p[1] - 2.0 / 3.0).abs() < 1e-6);
        let p = probabilities(&[3.0f32.ln()], 2);
        assert!((p[0] - 0.25).abs() < 1e-6 && (p[1] - 0.75).abs() < 1e-6);
        assert_eq!(probabilities(&[1000.0, f32::MIN], 2), [1.0, 0.0]);
    }
}
