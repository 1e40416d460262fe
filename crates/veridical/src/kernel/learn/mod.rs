//! `veridical kernel regress` and `kernel classify`: kernel machines on examples, beside textbook baselines.
//!
//! | kernel | of |
//! |---|---|
//! | linear, rbf, laplace, matern-3/2, arc-cosine-1, ... | standardized inputs |
//! | ck, ntk, trntk, ... | a trained network: rho^2 + h . h' of its last layer, all its gradients |
//! | ckj, ntkj | the same features, by least squares without squaring their condition number (paper 004, section 2) |
//!
//! The machine of `regress` is kernel ridge with an intercept; that of `classify` kernel logistic regression, or kernel ridge on one-hot
//! targets where a solver is named. A penalty is in units of the mean of the kernel's diagonal (of s_1^2 for ckj and ntkj), and is chosen
//! on training rows alone. Baselines: the mean, or the most frequent class; ridge, or logistic regression, on the inputs.

mod data;
mod fit;
mod page;
mod score;

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Estimate, Job, choices, settings};
use veridical_io::{ColumnWriter, Input, Output, Replace, publish};
use veridical_kernels::machine::Solver;

use self::data::{Material, Wanted};
use self::fit::Fitted;
use crate::explain::RowLimit;
use crate::settings::TextFiles;
use crate::{Error, Result};

choices! {
    /// How a system is solved.
    pub enum SolverName {
        /// Newton's method: kernel logistic regression (classify)
        Newton = "newton",
        /// Decomposition of the matrix
        Direct = "direct",
        /// Gradient descent, with its predicted residual
        Richardson = "richardson",
        /// Gradient descent on a flattened spectrum
        EigenPro = "eigenpro",
        /// Nystrom-preconditioned conjugate gradients
        Pcg = "pcg",
        /// A restriction to centers
        Falkon = "falkon",
    }
}

impl SolverName {
    fn solver(self) -> Option<Solver> {
        Solver::from_name(self.name())
    }
}

choices! {
    /// Weights of training rows.
    pub enum WeightRule {
        /// All the same
        Equal = "equal",
        /// Of the trapezoid rule, for inputs on a grid
        Trapezoid = "trapezoid",
    }
}

settings! {
    /// Settings of [`regress`] and [`classify`].
    pub struct Learn in "Data" {
        /// Examples: a table, or a folder of images
        pub data: Option<Input> = None => [value("FILE_OR_FOLDER"), otherwise("the data of the run")],
        /// Target column of a table; several for regression
        pub target: Option<String> = None => [value("COLUMN,COLUMN")],
        /// Columns of a table that are not inputs
        pub ignore_columns: Option<String> = None => [value("COLUMN,COLUMN")],
        /// Run of `train net` whose kernel is used, for ck, ntk, ckj, ntkj and other kernels of networks
        pub run: Option<Input> = None => [value("RUN"), excludes(&["target", "ignore-columns"])],
        /// Training rows to use: a number, or `all`
        pub rows: RowLimit = RowLimit::All => [value("N")],
        /// Share of the rows that is held out for evaluation where the data has no test set
        pub held_out: f64 = 0.2 => [value("SHARE"), above(0.0), below(1.0)],
        /// Random seed of held-out rows, of a part of the rows and of centers
        pub split_seed: u64 = 0 => [value("S")],
        /// Kernel: linear, rbf, laplace, cauchy, matern-1/2, matern-3/2, matern-5/2, arc-cosine-0, arc-cosine-1; of a run ck, ntk, ckj, ntkj, trntk, pntk, ...
        pub kernel: String = "rbf".into() => [heading("Machine"), value("NAME")],
        /// Length scale: a number, or `median` of the distances
        pub length_scale: String = "median".into() => [heading("Machine"), value("L")],
        /// Penalty in units of the kernel: a number, or `path` to choose it on training rows
        pub lambda: String = "path".into() => [heading("Machine"), value("LAMBDA")],
        /// Weights of training rows
        pub weights: WeightRule = WeightRule::Equal => [heading("Machine"), value("RULE")],
        /// Solver
        pub solver: Option<SolverName> = None => [heading("Machine"), otherwise("direct; newton to classify")],
        /// Relative residual at which an iterative solver stops
        pub tolerance: f64 = 1e-6 => [detail(), heading("Machine"), above(0.0)],
        /// Largest number of iterations
        pub iterations: usize = 1000 => [detail(), heading("Machine"), at_least(1.0)],
        /// Centers of falkon and pcg, rows of the subsample of eigenpro
        pub centers: usize = 1000 => [detail(), heading("Machine"), at_least(1.0)],
        /// Memory for Gram matrices, in MB
        pub memory: u64 = 4000 => [detail(), value("MB"), at_least(64.0)],
        /// Predictions of the held-out rows to write: Parquet, Arrow, CSV, TSV or JSON Lines
        pub out: Option<Output> = None => [heading("Output")],
        /// HTML report to write
        pub html: Option<Output> = None => [heading("Output")],
    } with {
        /// How tables are read.
        pub files: TextFiles,
        /// Whether existing output is replaced.
        pub replace: Replace,
    }
}

/// How good a model is on held-out rows.
#[derive(Clone, Debug, Serialize)]
pub struct Score {
    /// The model.
    pub model: String,
    /// Root mean squared error over all targets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rmse: Option<Estimate>,
    /// Share of the variance that is predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r2: Option<f64>,
    /// Share of rows put into their class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<Estimate>,
    /// Mean cross-entropy of the predicted probabilities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross_entropy: Option<Estimate>,
}

/// A penalty and the error of training rows that it was not fitted to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tried {
    /// In units of the kernel.
    pub lambda: f64,
    /// Root mean squared error, or mean cross-entropy.
    pub error: f64,
}

/// How the system was solved.
#[derive(Clone, Debug, Serialize)]
pub struct Solved {
    /// The solver.
    pub solver: String,
    /// Its iterations.
    pub iterations: usize,
    /// Norm of the residual of the system over that of its right-hand side; null for logistic regression and least squares of features.
    pub residual: Option<f64>,
    /// The residual that the spectrum predicts for Richardson's iteration.
    pub predicted_residual: Option<f64>,
    /// Whether the tolerance was reached.
    pub converged: bool,
}

/// Result of [`regress`] and [`classify`].
#[derive(Clone, Debug, Serialize)]
pub struct Learned {
    /// The examples.
    pub data: String,
    /// The kernel.
    pub kernel: String,
    /// Its length scale, if any.
    pub length_scale: Option<f64>,
    /// The run whose kernel it is.
    pub run: Option<String>,
    /// Training rows.
    pub rows: usize,
    /// What the held-out rows are.
    pub held_out: String,
    /// Their number.
    pub n: usize,
    /// The penalty, in units of the kernel.
    pub lambda: f64,
    /// Penalties that were tried.
    pub path: Vec<Tried>,
    /// How the system was solved.
    pub solved: Solved,
    /// The machine first, then the network, if it is of one, and the baselines.
    pub scores: Vec<Score>,
    /// Mean difference of the errors of single rows, squared errors or mistakes, between the best baseline and the machine: above 0 if the
    /// machine is better.
    pub gain: Option<Estimate>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Path of the predictions.
    pub out: Option<String>,
    /// Predictions and targets of held-out rows, for the page.
    #[serde(skip)]
    pub(super) points: Vec<(f64, f64)>,
}

impl Learned {
    /// Returns whether classes were predicted.
    pub fn is_classification(&self) -> bool {
        self.scores.first().is_some_and(|score| score.accuracy.is_some())
    }

    /// Returns the answer in a sentence.
    pub fn answer(&self) -> String {
        let own = &self.scores[0];
        let says = |score: &Score| match (&score.accuracy, &score.rmse) {
            (Some(accuracy), _) => format!("{} right", accuracy.percent()),
            (_, Some(rmse)) => format!("an error of {:.4}", rmse.value),
            _ => String::new(),
        };
        let Some(best) = self.best_baseline() else {
            return format!("{}: {}.", own.model, says(own));
        };
        let verdict = match &self.gain {
            Some(gain) if gain.low > 0.0 => "better than",
            Some(gain) if gain.high < 0.0 => "worse than",
            _ => "not distinguishable from",
        };
        format!(
            "{} has {} on {} held-out rows, {verdict} {} with {}.",
            own.model,
            says(own),
            self.n,
            best.model,
            says(best)
        )
    }

    /// The best of the two baselines, which come last.
    pub(super) fn best_baseline(&self) -> Option<&Score> {
        let value = |score: &&Score| match (&score.accuracy, &score.rmse) {
            (Some(accuracy), _) => -accuracy.value,
            (_, Some(rmse)) => rmse.value,
            _ => f64::INFINITY,
        };
        self.scores.iter().rev().take(2).min_by(|a, b| value(a).total_cmp(&value(b)))
    }
}

/// Fits kernel ridge regression and evaluates it on held-out rows.
///
/// # Errors
/// [`Error::Core`] if the examples, the kernel or the settings do not suit each other.
pub fn regress(settings: &Learn, job: &Job<'_>) -> Result<Learned> {
    learn(settings, Wanted::Numbers, job)
}

/// Fits a kernel classifier and evaluates it on held-out rows.
///
/// # Errors
/// The same as [`regress`].
pub fn classify(settings: &Learn, job: &Job<'_>) -> Result<Learned> {
    learn(settings, Wanted::Classes, job)
}

fn learn(settings: &Learn, wanted: Wanted, job: &Job<'_>) -> Result<Learned> {
    settings.check()?;
    if let Some(out) = &settings.out {
        publish::check_new(out, settings.replace.force)?;
    }
    let usual = match wanted {
        Wanted::Numbers => SolverName::Direct,
        Wanted::Classes => SolverName::Newton,
    };
    let solver = settings.solver.unwrap_or(usual);
    if solver == SolverName::Newton && wanted == Wanted::Numbers {
        return Err(Error::request("⟨solver newton⟩ is for classes", "choose direct or pcg"));
    }
    let material = Material::open(settings, wanted, job)?;
    let fitted = Fitted::new(settings, solver, &material, job)?;
    let mut learned = fitted.evaluate(settings, &material, job)?;
    if let Some(out) = &settings.out {
        write(out, &material, &fitted)?;
        learned.out = Some(out.to_string());
    }
    Ok(learned)
}

/// Writes the predictions of held-out rows.
fn write(out: &Output, material: &Material, fitted: &Fitted) -> Result<()> {
    let t = material.targets();
    let rows = material.test.rows.iter().map(|&row| row as i64);
    let mut fields = vec![Field::new("row", DataType::Int64, false)];
    let mut columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(rows))];
    let mut number = |name: String, values: Vec<f64>| {
        fields.push(Field::new(name, DataType::Float64, false));
        columns.push(Arc::new(Float64Array::from(values)));
    };
    let column = |values: &[f64], j: usize| values.iter().skip(j).step_by(t).copied().collect();
    match &material.test.labels {
        None => {
            for j in 0..t {
                let name = |what: &str| match t {
                    1 => what.to_owned(),
                    _ => format!("{what}_{j}"),
                };
                number(name("target"), column(&material.test.y, j));
                number(name("predicted"), column(&fitted.predicted, j));
            }
        }
        Some(labels) => {
            let names = |of: &[u32]| -> ArrayRef {
                let name = |&label: &u32| material.classes[label as usize].as_str();
                Arc::new(StringArray::from_iter_values(of.iter().map(name)))
            };
            let scores: Vec<Vec<f64>> = (0..t).map(|j| column(&fitted.predicted, j)).collect();
            for (name, values) in material.classes.iter().zip(scores) {
                number(format!("score_{name}"), values);
            }
            let found = fitted.classes(t);
            for (name, of) in [("label", labels), ("predicted", &found)] {
                fields.push(Field::new(name, DataType::Utf8, false));
                columns.push(names(of));
            }
        }
    }
    let mut writer = ColumnWriter::create(out, fields)?;
    writer.write(columns)?;
    Ok(writer.finish()?)
}
