//! `veridical forensics trace`: the training rows behind incidents.
//!
//! Incidents are inputs that the network put into a class and should not have. Candidates are all training rows of that class; the
//! contrast of their kernel with incidents and with rightly classified inputs, and when it counts as evidence:
//! [`veridical_inspect::forensics`]. What leaving the group out does is checked on kernel ridge; training again confirms it.

mod page;

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Estimate, Job, Seed, settings};
use veridical_data::examples::Examples;
use veridical_inspect::forensics::{
    RemovalCheck, TraceSettings, removal_check, trace as trace_rows,
};
use veridical_inspect::labels::one_hot;
use veridical_inspect::surrogate::largest;
use veridical_io::{ColumnWriter, Input, Output, Replace, publish};
use veridical_kernels::machine::Ridge;
use veridical_kernels::tangent::Kind;

use crate::explain::{
    LAMBDA, Pictures, Subject, SubjectSettings, class_named, matrix, mean_diagonal, runs,
};
use crate::{Error, Result};

/// Incidents, and reference inputs, that a trace uses at most.
const MOST: usize = 200;
/// Share of the incidents that must be predicted as one class, unless it is named; the others are set aside.
const COMMON: f64 = 0.5;

settings! {
    /// Settings of [`trace`].
    pub struct Trace {
        /// Inputs that the network classified wrongly, all as one class
        pub incidents: Input = Input::default() => [required(), value("FILE_OR_FOLDER")],
        /// The class that they were put into
        pub class: Option<String> = None => [value("CLASS"), otherwise("what most of them are predicted as")],
        /// Inputs that it rightly puts into that class
        pub reference: Option<Input> = None
            => [value("FILE_OR_FOLDER"), otherwise("the test examples that it rightly puts there")],
        /// List of the rows to remove to write: CSV, TSV, Parquet, Arrow or JSON Lines
        pub out: Option<Output> = None,
        /// HTML report to write
        pub html: Option<Output> = None,
    } with {
        /// Run, data and rows.
        pub subject: SubjectSettings,
        /// Whether existing output is replaced.
        pub replace: Replace,
    }
}

/// A training row behind the incidents.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TracedRow {
    /// Number of the row in the training data.
    pub row: usize,
    /// Its label.
    pub label: String,
    /// Contrast of its kernel with incidents and reference; the interval is over incidents.
    pub score: Estimate,
    /// Place among the candidates.
    #[serde(skip)]
    at: usize,
}

/// Result of [`trace`].
#[derive(Clone, Debug, Serialize)]
pub struct Tracing {
    /// The run.
    pub run: String,
    /// The class that the incidents are predicted as.
    pub class: String,
    /// Number of incidents.
    pub incidents: u64,
    /// Number of reference inputs.
    pub reference: u64,
    /// Number of training rows of the class.
    pub candidates: usize,
    /// Difference of the mean contrast between the upper group and the rest.
    pub gap: f64,
    /// The gap that 99 % of shuffled incidents stay below.
    pub chance_gap: f64,
    /// Share of shuffles with at least this gap.
    pub p_value: f64,
    /// Rows behind the incidents, strongest first; empty without evidence.
    pub group: Vec<TracedRow>,
    /// What leaving the group out does to kernel ridge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<RemovalCheck>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Path of the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
    #[serde(skip)]
    scores: Vec<f64>,
    #[serde(skip)]
    threshold: Option<f64>,
    #[serde(skip)]
    pictures: [Pictures; 2],
}

impl Tracing {
    /// Returns the answer in a sentence.
    pub fn answer(&self) -> String {
        let Self { incidents, candidates, class, p_value, .. } = self;
        match self.group.len() {
            0 => format!(
                "No group among the {candidates} training rows labeled {class} stands behind the {incidents} incidents (p = {p_value:.3})."
            ),
            n => format!(
                "{n} of {candidates} training rows labeled {class} stand behind the {incidents} incidents (p = {p_value:.4})."
            ),
        }
    }
}

/// Traces incidents to training rows.
///
/// # Errors
/// As [`explain`](crate::explain::explain()), and for incidents that are predicted as several classes.
pub fn trace(settings: &Trace, job: &Job<'_>) -> Result<Tracing> {
    settings.check()?;
    if let Some(out) = &settings.out {
        publish::check_new(out, settings.replace.force)?;
    }
    let run = runs(&settings.subject.run).swap_remove(0);
    let mut subject = Subject::open(&run, &settings.subject, None, job)?;
    let classes = subject.classes.len();
    let mut notes = std::mem::take(&mut subject.notes);
    let given = subject.inputs(&settings.incidents)?;
    let of_test = std::mem::replace(&mut subject.queries, given);
    let predicted = predictions(&subject, job)?;
    let class = match &settings.class {
        None => most_common(&predicted, classes),
        Some(name) => class_named(&subject.classes, name)?,
    };
    let (own, others): (Vec<usize>, Vec<usize>) =
        (0..predicted.len()).partition(|&q| predicted[q] == class);
    if settings.class.is_none() && (own.len() as f64) < COMMON * predicted.len() as f64 {
        return Err(several(&subject.classes, &predicted));
    }
    if own.is_empty() {
        let name = &subject.classes[class as usize];
        let what = format!("none of the {} incidents is predicted as {name}", predicted.len());
        return Err(Error::request(what, "leave ⟨class⟩ out to take what most are predicted as"));
    }
    if !others.is_empty() {
        let name = &subject.classes[class as usize];
        notes.push(format!(
            "{} incidents are not predicted as {name} and are set aside.",
            others.len()
        ));
    }
    let incidents = subject.queries.subset(&first(&own));
    check_new_inputs(&incidents, &subject.everything)?;
    subject.queries = match &settings.reference {
        Some(path) => subject.inputs(path)?,
        None => of_test,
    };
    let predicted = predictions(&subject, job)?;
    let labels = subject.query_labels();
    let is_right = |q: usize| predicted[q] == class && labels.get(q).is_none_or(|y| *y == class);
    let right: Vec<usize> = (0..predicted.len()).filter(|&q| is_right(q)).collect();
    let reference = subject.queries.subset(&first(&right));
    let name = subject.classes[class as usize].clone();
    if reference.n() < 2 {
        let what = format!("{} reference inputs are rightly predicted as {name}", reference.n());
        return Err(Error::request(what, "pass such inputs with ⟨reference⟩"));
    }

    let of_class: Vec<usize> = subject.rows_of(class);
    let candidates = subject.everything.subset(&of_class);
    let asked = joined(&incidents, &reference);
    let kernel = subject.kernel_of(&asked, &candidates, Kind::Trntk, &settings.subject, job)?;
    let values = matrix(&kernel, of_class.len())?;
    let (of_incidents, of_reference) = kernel.split_at(incidents.n() * of_class.len());
    let all: Vec<u32> = (0..of_class.len() as u32).collect();
    let seed = Seed::new(settings.subject.seed)?;
    let found = trace_rows(
        matrix(of_incidents, values.dim())?,
        matrix(of_reference, values.dim())?,
        &all,
        &TraceSettings::new(seed),
    )?;
    let score = |row: u32| found.candidates.iter().find(|traced| traced.row == row);
    let group: Vec<TracedRow> = found
        .group
        .iter()
        .filter_map(|&row| score(row))
        .map(|traced| TracedRow {
            row: subject.numbers[of_class[traced.row as usize]],
            label: name.clone(),
            score: traced.score,
            at: traced.row as usize,
        })
        .collect();
    let check = match group.is_empty() {
        true => None,
        false => removal(&mut subject, (&incidents, class), &group, settings, &mut notes, job)?,
    };
    let shown = |data: &Examples, rows: Vec<usize>| Pictures::of_examples(data, rows.into_iter());
    let pictures = [
        shown(&incidents, (0..incidents.n()).collect()),
        shown(&candidates, group.iter().map(|row| row.at).collect()),
    ];
    let tracing = Tracing {
        run: run.display().to_string(),
        class: name,
        incidents: found.incidents,
        reference: found.reference,
        candidates: of_class.len(),
        gap: found.gap,
        chance_gap: found.chance_gap,
        p_value: found.p_value,
        group,
        check,
        notes,
        out: settings.out.as_ref().map(ToString::to_string),
        scores: found.candidates.iter().map(|traced| traced.score.value).collect(),
        threshold: found.threshold,
        pictures,
    };
    if let Some(out) = &settings.out {
        write(out, &tracing.group)?;
    }
    Ok(tracing)
}

/// Leaves the group out of kernel ridge on the rows that are used.
fn removal(
    subject: &mut Subject,
    (incidents, class): (&Examples, u32),
    group: &[TracedRow],
    settings: &Trace,
    notes: &mut Vec<String>,
    job: &Job<'_>,
) -> Result<Option<RemovalCheck>> {
    let (n, classes) = (subject.rows.len(), subject.classes.len());
    let used: Vec<u32> = (0..n as u32)
        .filter(|&at| group.iter().any(|traced| traced.row == subject.rows[at as usize]))
        .collect();
    let labels = subject.query_labels().to_vec();
    if used.is_empty() || labels.is_empty() || used.len() + classes > n {
        return Ok(None);
    }
    if used.len() < group.len() {
        notes.push(format!(
            "What removal does was checked on {}, with {} rows of the group.",
            subject.says_rows(),
            used.len()
        ));
    }
    let clean = subject.queries.clone();
    subject.queries = joined(incidents, &clean);
    let kernels = subject.kernels(Kind::Trntk, &settings.subject, job)?;
    let targets = one_hot(subject.labels(), classes)?;
    let lambda = LAMBDA * mean_diagonal(&kernels.train, n);
    let ridge = Ridge::fit(matrix(&kernels.train, n)?, matrix(&targets, classes)?, lambda, None)?;
    let (of_incidents, of_clean) = kernels.queries.split_at(incidents.n() * n);
    let (of_incidents, of_clean) = (matrix(of_incidents, n)?, matrix(of_clean, n)?);
    Ok(Some(removal_check(&ridge, of_incidents, class, of_clean, &labels, &used)?))
}

/// Returns the classes that the network predicts for the queries.
fn predictions(subject: &Subject, job: &Job<'_>) -> Result<Vec<u32>> {
    let [_, logits] = subject.logits(job)?;
    Ok(logits.chunks_exact(subject.classes.len()).map(largest).collect())
}

/// The refusal of incidents without a common class.
fn several(classes: &[String], predicted: &[u32]) -> Error {
    let count = |class: u32| predicted.iter().filter(|p| **p == class).count();
    let counts: Vec<String> = (0..classes.len() as u32)
        .filter(|&class| count(class) > 0)
        .map(|class| format!("{} ({})", classes[class as usize], count(class)))
        .collect();
    let what = format!("the incidents are predicted as several classes: {}", counts.join(", "));
    Error::request(what, "name the one they were wrongly put into with ⟨class⟩")
}

fn most_common(predicted: &[u32], classes: usize) -> u32 {
    let count = |class: &u32| predicted.iter().filter(|p| *p == class).count();
    // The first of equally common classes.
    (0..classes as u32).rev().max_by_key(count).unwrap_or(0)
}

/// Every so many of a list, `MOST` in all.
fn first(rows: &[usize]) -> Vec<usize> {
    let step = rows.len().div_ceil(MOST).max(1);
    rows.iter().copied().step_by(step).collect()
}

/// Two sets of inputs one after the other, without labels.
fn joined(a: &Examples, b: &Examples) -> Examples {
    a.followed_by(b)
}

/// Refuses incidents that are training rows: their kernel with themselves is no evidence.
fn check_new_inputs(incidents: &Examples, train: &Examples) -> Result<()> {
    match (0..incidents.n()).find(|&i| train.contains(incidents, i)) {
        None => Ok(()),
        Some(i) => {
            let what = format!("incident {i} is a training row");
            Err(Error::request(what, "pass inputs that the network did not learn"))
        }
    }
}

fn write(out: &Output, group: &[TracedRow]) -> Result<()> {
    let fields = vec![
        Field::new("row", DataType::Int64, false),
        Field::new("label", DataType::Utf8, false),
        Field::new("score", DataType::Float64, false),
        Field::new("low", DataType::Float64, true),
        Field::new("high", DataType::Float64, true),
    ];
    let number = |of: fn(&Estimate) -> f64| -> ArrayRef {
        let finite = |row: &TracedRow| Some(of(&row.score)).filter(|x| x.is_finite());
        Arc::new(group.iter().map(finite).collect::<Float64Array>())
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(group.iter().map(|row| row.row as i64))),
        Arc::new(StringArray::from_iter_values(group.iter().map(|row| row.label.as_str()))),
        number(|score| score.value),
        number(|score| score.low),
        number(|score| score.high),
    ];
    let mut writer = ColumnWriter::create(out, fields)?;
    writer.write(columns)?;
    Ok(writer.finish()?)
}
