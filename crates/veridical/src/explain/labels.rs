//! `veridical explain labels`: training rows whose label the others contradict.
//!
//! One trained network, one solve: kernel ridge on its tangent kernel predicts every row from the other rows in closed form
//! ([`veridical_inspect::labels`]). Flips that are planted in the labels say how far down the list real errors go.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Job, Seed, settings};
use veridical_inspect::labels::{
    Calibration, calibrate, confident_joint, left_out_scores, one_hot, plant, suspects,
};
use veridical_io::{ColumnWriter, Input, Output, Replace, publish};
use veridical_kernels::machine::Ridge;
use veridical_kernels::tangent::Kind;

use super::page::Pictures;
use super::{LAMBDA, Limits, Subject, SubjectSettings, matrix, mean_diagonal, runs};
use crate::Result;

settings! {
    /// Settings of [`labels`].
    pub struct LabelSettings {
        /// Share of the labels to flip in a copy, to see how well flips are found; 0 for none
        pub calibrate: f64 = 0.02 => [value("SHARE"), at_least(0.0), below(0.5)],
        /// Table of suspects to write, strongest first: CSV, TSV, Parquet, Arrow or JSON Lines
        pub out: Option<Output> = None,
        /// HTML report to write
        pub html: Option<Output> = None,
        /// Limits from a file: lines such as `max-label-errors = 0.05`
        pub budget: Option<Input> = None
            => [heading("Limits (exit code 1 if one is not met)"), value("FILE")],
        /// Largest estimated share of wrong labels
        pub max_label_errors: Option<f64> = None
            => [heading("Limits (exit code 1 if one is not met)"), value("SHARE"), at_least(0.0), at_most(1.0)],
    } with {
        /// Run, data and rows.
        pub subject: SubjectSettings,
        /// Whether existing output is replaced.
        pub replace: Replace,
    }
}

/// A row whose label the other rows contradict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Suspect {
    /// Number of the row in the training data.
    pub row: usize,
    /// Its label.
    pub label: String,
    /// The class that the other rows suggest.
    pub suggested: String,
    /// How much more they support it than the label.
    pub score: f64,
    /// Place of the row among the rows that are used.
    #[serde(skip)]
    pub(crate) at: usize,
}

/// Result of [`labels`].
#[derive(Clone, Debug, Serialize)]
pub struct LabelErrors {
    /// The run.
    pub run: String,
    /// Training rows that were used, in words.
    pub rows: String,
    /// Their number.
    pub n: usize,
    /// Estimated number of wrong labels (confident joint of predictions without the row itself).
    pub estimate: f64,
    /// How well planted flips are found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// Whether the limit on label errors holds; null without one.
    pub passed: Option<bool>,
    /// Rows whose label another class beats, strongest evidence first.
    pub suspects: Vec<Suspect>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Path of the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
    #[serde(skip)]
    pub(crate) pictures: Pictures,
}

impl LabelErrors {
    /// Returns the answer in a sentence.
    pub fn answer(&self) -> String {
        let share = 100.0 * self.estimate / self.n as f64;
        let listed = self.suspects.len();
        format!(
            "About {:.0} of {} labels are wrong ({share:.1} %); {listed} rows are listed, the most suspicious first.",
            self.estimate, self.n
        )
    }
}

impl LabelErrors {
    /// Says how many planted flips the list finds.
    pub fn found(&self) -> Option<String> {
        let Calibration { planted, curve, .. } = self.calibration.as_ref()?;
        let point = curve.iter().rev().find(|point| point.listed <= self.suspects.len() as u64)?;
        Some(format!(
            "Of {planted} labels flipped in a copy, {} stand above the first {} other rows.",
            point.recall.percent(),
            point.listed
        ))
    }
}

/// Ranks training rows by the evidence against their labels.
///
/// # Errors
/// As [`explain`](super::explain()); a class needs two rows.
pub fn labels(settings: &LabelSettings, job: &Job<'_>) -> Result<LabelErrors> {
    settings.check()?;
    if let Some(out) = &settings.out {
        publish::check_new(out, settings.replace.force)?;
    }
    let limits = Limits::read(settings.budget.as_deref())?;
    let run = runs(&settings.subject.run).swap_remove(0);
    let subject = Subject::open(&run, &settings.subject, None, job)?;
    subject.needs_classes("a wrong label")?;
    subject.check_classes()?;
    let (n, classes) = (subject.rows.len(), subject.classes.len());
    let train = subject.train_kernel(Kind::Trntk, &settings.subject, job)?;
    let (k, lambda) = (matrix(&train, n)?, LAMBDA * mean_diagonal(&train, n));
    let targets = one_hot(subject.labels(), classes)?;
    // Flipped labels are other targets of the same matrix.
    let fitted = Ridge::fit(k, matrix(&targets, classes)?, lambda, None)?;
    let ranked = |labels: &[u32]| -> Result<_> {
        let targets = one_hot(labels, classes)?;
        let ridge = fitted.with_targets(matrix(&targets, classes)?)?;
        let scores = left_out_scores(&ridge, &targets);
        Ok((suspects(matrix(&scores, classes)?, labels), scores))
    };
    let (found, scores) = ranked(subject.labels())?;
    let joint = confident_joint(matrix(&scores, classes)?, subject.labels());
    let calibration = match settings.calibrate {
        0.0 => None,
        share => {
            let planted =
                plant(subject.labels(), classes, share, Seed::new(settings.subject.seed)?)?;
            let (with_planted, _) = ranked(&planted.labels)?;
            Some(calibrate(&with_planted, &planted, joint.estimate))
        }
    };
    let listed: Vec<Suspect> = found
        .iter()
        .filter(|suspect| suspect.score > 0.0)
        .map(|suspect| Suspect {
            row: subject.rows[suspect.row as usize],
            label: subject.classes[suspect.label as usize].clone(),
            suggested: subject.classes[suspect.suggested as usize].clone(),
            score: suspect.score,
            at: suspect.row as usize,
        })
        .collect();
    let most = limits.or(settings.max_label_errors, "max-label-errors");
    let passed = most.map(|most| joint.estimate / n as f64 <= most);
    let pictures = Pictures::of_rows(&subject, listed.iter().map(|suspect| suspect.at));
    let errors = LabelErrors {
        run: run.display().to_string(),
        rows: subject.says_rows(),
        n,
        estimate: joint.estimate,
        calibration,
        passed,
        suspects: listed,
        notes: subject.notes.clone(),
        out: settings.out.as_ref().map(ToString::to_string),
        pictures,
    };
    if let Some(out) = &settings.out {
        write(out, &errors.suspects)?;
    }
    Ok(errors)
}

fn write(out: &Output, suspects: &[Suspect]) -> Result<()> {
    let fields = vec![
        Field::new("row", DataType::Int64, false),
        Field::new("label", DataType::Utf8, false),
        Field::new("suggested", DataType::Utf8, false),
        Field::new("score", DataType::Float64, false),
    ];
    let text = |of: fn(&Suspect) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(suspects.iter().map(of)))
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(suspects.iter().map(|s| s.row as i64))),
        text(|s| &s.label),
        text(|s| &s.suggested),
        Arc::new(Float64Array::from_iter_values(suspects.iter().map(|s| s.score))),
    ];
    let mut writer = ColumnWriter::create(out, fields)?;
    writer.write(columns)?;
    Ok(writer.finish()?)
}
