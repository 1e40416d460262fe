//! `veridical explain`: which training rows a decision of a network rests on, and how far to trust that.
//!
//! A network is explained by a kernel machine on its own tangent kernel (paper 004, section 1). For every query x the direction v is
//! the margin of a class, by default the predicted one: the logit of the class less the log-sum-exp of the others. Effects on
//! v·f(x) and their formulas: [`veridical_inspect::attribute`]. [`audit`] asks whether the machine decides as the network does,
//! [`labels`] which training rows have a wrong label, [`validate`] whether attributions predict what training again shows. A regression
//! has no margin: the direction is the prediction itself.

mod audit;
mod effects;
mod labels;
mod limits;
mod network;
mod page;
mod samples;
mod subject;
mod validate;

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Error as Refusal, Estimate, Job, choices, settings};
use veridical_inspect::attribute::{
    Agreement, Concentration, agreement, concentration, lorenz, top,
};
use veridical_inspect::surrogate::largest;
use veridical_io::{ColumnWriter, Input, Output, Replace, publish};
use veridical_kernels::machine::softmax;
use veridical_kernels::tangent::Kind;

pub use self::audit::{Audit, AuditSettings, Audited, audit};
pub(crate) use self::effects::{Effects, effects};
pub use self::labels::{LabelErrors, LabelSettings, Suspect, labels};
pub(crate) use self::limits::Limits;
pub(crate) use self::network::fed;
pub(crate) use self::page::Pictures;
pub(crate) use self::samples::Samples;
pub(crate) use self::subject::{Kernels, Subject, kernel_settings, matrix, runs};
pub use self::subject::{RowLimit, SubjectSettings};
pub use self::validate::{Validate, Validated, Validation, validate};
use crate::{Error, Result};

/// Penalty of kernel ridge relative to the mean diagonal of the kernel: the best or near the best in every trial of the specification.
pub(crate) const LAMBDA: f64 = 1.0;

choices! {
    /// What an attribution means.
    pub enum Effect {
        /// What leaving a row out changes, exactly, in kernel ridge on the labels
        Removal = "removal",
        /// The derivative by a row's weight, exactly, of kernel logistic regression
        Influence = "influence",
        /// How the logit of a machine fitted to the network adds up
        Mass = "mass",
        /// TRAK, from exact gradients of margins
        Trak = "trak",
        /// Influence with the empirical Fisher matrix, from exact gradients of losses
        Fisher = "fisher",
        /// Look-alikes: the kernel value
        Similarity = "similarity",
    }
}

impl Effect {
    /// The kernel that it is computed from.
    fn kernel(self) -> Kind {
        match self {
            Self::Removal | Self::Similarity => Kind::Trntk,
            Self::Influence | Self::Mass => Kind::Trntk0,
            Self::Trak => Kind::Margin,
            Self::Fisher => Kind::Loss,
        }
    }

    /// What the numbers say, in a sentence.
    fn says(self) -> &'static str {
        match self {
            Self::Removal => {
                "A value is what leaving the row out would take from the margin of the class, in kernel ridge on the labels (exact)."
            }
            Self::Influence => {
                "A value is the change of the margin for each unit of weight on the row, in kernel logistic regression (exact)."
            }
            Self::Mass => {
                "Values of a query add up to the margin of a machine fitted to the network; they do not say what retraining changes."
            }
            Self::Trak => "TRAK's score from exact gradients of margins.",
            Self::Fisher => {
                "Influence with the empirical Fisher matrix, from exact gradients of losses."
            }
            Self::Similarity => {
                "The cosine of the gradients of query and row: look-alikes, whatever their labels."
            }
        }
    }
}

settings! {
    /// Settings of [`explain`].
    pub struct Explain {
        /// Inputs to explain: images, a table, vectors or documents
        pub queries: Option<Input> = None => [value("FILE_OR_FOLDER"), otherwise("the test set")],
        /// What an attribution means
        pub effect: Effect = Effect::Removal,
        /// Class whose margin is explained
        pub class: Option<String> = None => [value("CLASS"), otherwise("the predicted one")],
        /// Number of training rows to list for and against each query
        pub top: usize = 10 => [value("K"), at_least(1.0), at_most(1000.0)],
        /// Table of the listed rows to write: Parquet, Arrow, CSV, TSV or JSON Lines
        pub out: Option<Output> = None,
        /// HTML report to write
        pub html: Option<Output> = None,
        /// Limits from a file: lines such as `min-stable-top10 = 0.5`
        pub budget: Option<Input> = None
            => [heading("Limits (exit code 1 if one is not met)"), value("FILE")],
        /// Smallest share of listed rows that must be stable over the runs of an ensemble
        pub min_stable_top10: Option<f64> = None
            => [heading("Limits (exit code 1 if one is not met)"), value("SHARE"), at_least(0.0), at_most(1.0)],
    } with {
        /// Run, data and rows.
        pub subject: SubjectSettings,
        /// Whether existing output is replaced.
        pub replace: Replace,
    }
}

/// One training row in the explanation of a query.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// Number of the row in the training data.
    pub row: usize,
    /// Its label.
    pub label: String,
    /// Its effect; positive values support the class.
    pub value: f64,
    /// Its kernel value with the query.
    pub similarity: f64,
    /// Whether it is listed for at least 80 % of the runs of an ensemble; null for one run.
    pub stable: Option<bool>,
    /// Place of the row among the rows that are used.
    #[serde(skip)]
    pub(crate) at: usize,
}

/// The explanation of one query.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explained {
    /// Id of the query.
    pub query: String,
    /// The class that the network predicts.
    pub predicted: String,
    /// Its probability; null for a regression.
    pub probability: Option<f64>,
    /// The label, where it is known.
    pub label: Option<String>,
    /// The class whose margin is explained; `prediction` for a regression.
    pub class: String,
    /// Rows with the largest positive effects, largest first.
    pub supporting: Vec<Part>,
    /// Rows with the largest negative effects, largest first.
    pub opposing: Vec<Part>,
    /// How much to look at it first: wrong decisions, then the least certain ones.
    #[serde(skip)]
    pub(crate) doubt: f64,
}

/// Result of [`explain`].
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The run.
    pub run: String,
    /// Training rows that were used, in words.
    pub rows: String,
    /// What the queries are.
    pub queries: String,
    /// The effect.
    pub effect: &'static str,
    /// The kernel.
    pub kernel: String,
    /// Share of the queries that the machine behind the effect puts into the network's class; null for a regression.
    pub agreement: Option<Estimate>,
    /// Correlation of its predictions with those of the network, for a regression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation: Option<Estimate>,
    /// How concentrated the effects are.
    pub concentration: Concentration,
    /// Agreement of the listed rows between the runs of an ensemble.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stability: Option<Agreement>,
    /// Whether the limit on stable rows holds; null without a limit.
    pub passed: Option<bool>,
    /// The queries.
    pub explained: Vec<Explained>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Path of the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
    #[serde(skip)]
    pub(crate) pictures: Pictures,
    #[serde(skip)]
    pub(crate) spread: Spread,
}

/// How the effects of all rows are distributed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread {
    /// Effects of the rows of a class on the decisions for it, class by class, and of all other rows; each with the mean of all of them.
    pub groups: Vec<(String, f64, Vec<f64>)>,
    /// The Lorenz curve of the positive effects.
    pub lorenz: Vec<[f64; 2]>,
}

impl Explanation {
    /// Returns the answer in a sentence.
    pub fn answer(&self) -> String {
        let n = self.explained.len();
        let half = self.concentration.share_for_half.map_or(String::new(), |share| {
            format!("; {} of the rows carry half of the positive effect", share.percent())
        });
        format!("{n} decisions of {} explained by {}{half}.", self.run, self.rows)
    }
}

/// Explains decisions of a network by its training rows.
///
/// # Errors
/// [`Error::Core`] if the data is not what it was trained on, or the queries have another shape.
pub fn explain(settings: &Explain, job: &Job<'_>) -> Result<Explanation> {
    settings.check()?;
    if let Some(out) = &settings.out {
        publish::check_new(out, settings.replace.force)?;
    }
    let limits = Limits::read(settings.budget.as_deref())?;
    let min_stable = limits.or(settings.min_stable_top10, "min-stable-top10");
    let paths = runs(&settings.subject.run);
    let open = |run: &Path| Subject::open(run, &settings.subject, settings.queries.as_deref(), job);
    let first = open(&paths[0])?;
    let effect = settings.effect;
    let of = match &settings.class {
        None => None,
        Some(name) => Some(vec![class_named(&first.classes, name)?; first.queries.n()]),
    };
    let main = effects(&first, effect, &settings.subject, of.as_deref(), job)?;
    let mut all = vec![main.values.clone()];
    for path in &paths[1..] {
        let other = open(path)?;
        if other.rows != first.rows || other.classes != first.classes {
            let what = format!(
                "{} and {} were trained on different rows",
                paths[0].display(),
                path.display()
            );
            return Err(Error::request(what, "explain the runs of one ensemble"));
        }
        all.push(effects(&other, effect, &settings.subject, Some(&main.of), job)?.values);
    }
    let n = first.rows.len();
    let views = all.iter().map(|values| matrix(values, n)).collect::<Result<Vec<_>>>()?;
    let stability = if views.len() > 1 { Some(agreement(&views, settings.top)?) } else { None };
    let passed = match (min_stable, &stability) {
        (None, _) => None,
        (Some(_), None) => {
            let what = "⟨min-stable-top10⟩ compares the runs of an ensemble, and this is one run";
            return Err(Error::request(
                what,
                "train with ⟨seeds⟩ 5 and pass the folder of all of them",
            ));
        }
        (Some(limit), Some(found)) => {
            Some(found.stable_share.is_some_and(|share| share.value >= limit))
        }
    };
    let explained = explained(&first, &main, stability.as_ref(), settings);
    let pictures = Pictures::of(&first, &explained);
    let spread = spread(&first, &main)?;
    let zeros = first.says_zeros(&main.zeros);
    let mut explanation = Explanation {
        run: settings.subject.run.to_string(),
        rows: first.says_rows(),
        queries: first.query_source.clone(),
        effect: settings.effect.name(),
        kernel: settings.effect.kernel().to_string(),
        agreement: main.agreement,
        correlation: main.correlation,
        concentration: concentration(views[0]),
        stability,
        passed,
        explained,
        notes: first.notes,
        out: None,
        pictures,
        spread,
    };
    explanation.notes.extend(zeros);
    explanation.notes.push(settings.effect.says().to_owned());
    if let Some(out) = &settings.out {
        write(out, &explanation)?;
        explanation.out = Some(out.to_string());
    }
    Ok(explanation)
}

/// Lists the strongest rows of every query.
fn explained(
    subject: &Subject,
    effects: &Effects,
    stability: Option<&Agreement>,
    settings: &Explain,
) -> Vec<Explained> {
    let (n, dim) = (subject.rows.len(), subject.dim());
    let labels = subject.labels();
    let label_of = |at: usize| match labels.get(at) {
        Some(&label) => subject.classes[label as usize].clone(),
        None => subject.train.numbers().get(at).map_or(String::new(), |x| format!("{x}")),
    };
    let mut all = Vec::new();
    for (q, logits) in effects.logits.chunks_exact(dim).enumerate() {
        let values = &effects.values[q * n..][..n];
        let part = |at: u32| {
            let at = at as usize;
            let found =
                stability.map(|s| s.rows[q].iter().any(|s| s.row as usize == at && s.stable));
            Part {
                row: subject.rows[at],
                label: label_of(at),
                value: values[at],
                similarity: f64::from(effects.similarity[q * n + at]),
                stable: found,
                at,
            }
        };
        let against: Vec<f64> = values.iter().map(|value| -value).collect();
        let listed = |of: &[f64]| -> Vec<Part> {
            top(of, settings.top)
                .into_iter()
                .filter(|&at| of[at as usize] > 0.0)
                .map(part)
                .collect()
        };
        let query = subject.query_ids.get(q);
        let (supporting, opposing) = (listed(values), listed(&against));
        all.push(match subject.classes.is_empty() {
            true => {
                let label = subject.queries.numbers().get(q);
                Explained {
                    query,
                    predicted: format!("{:.4}", logits[0]),
                    probability: None,
                    label: label.map(ToString::to_string),
                    class: "prediction".into(),
                    supporting,
                    opposing,
                    doubt: label.map_or(0.0, |&x| (f64::from(x) - logits[0]).abs()),
                }
            }
            false => {
                let predicted = largest(logits) as usize;
                let probability = softmax(logits, dim)[predicted];
                let label = subject.query_labels().get(q).map(|&label| label as usize);
                let is_wrong = label.is_some_and(|label| label != predicted);
                Explained {
                    query,
                    predicted: subject.classes[predicted].clone(),
                    probability: Some(probability),
                    label: label.map(|label| subject.classes[label].clone()),
                    class: subject.classes[effects.of[q] as usize].clone(),
                    supporting,
                    opposing,
                    doubt: 1.0 - probability + if is_wrong { 1.0 } else { 0.0 },
                }
            }
        });
    }
    all
}

/// Effects that a box is drawn of, at most: every so many of them.
const MOST_EFFECTS: usize = 20_000;

/// The distribution of the effects of all rows.
fn spread(subject: &Subject, effects: &Effects) -> Result<Spread> {
    let n = subject.rows.len();
    let labels = subject.labels();
    let lorenz = lorenz(matrix(&effects.values, n)?, 100);
    let groups = subject.classes.len() + 1;
    let mut all: Vec<(f64, Vec<f64>)> = vec![(0.0, Vec::new()); groups];
    for (values, &of) in effects.values.chunks_exact(n).zip(&effects.of) {
        for (i, &value) in values.iter().enumerate() {
            let group = match labels.get(i) {
                Some(&label) if label == of => of as usize,
                _ => groups - 1,
            };
            all[group].0 += value;
            all[group].1.push(value);
        }
    }
    let other = if subject.classes.is_empty() { "all rows" } else { "rows of other classes" };
    let names = subject.classes.iter().map(String::as_str).chain([other]);
    let groups = names.zip(all).filter(|(_, (_, values))| !values.is_empty());
    let groups = groups.map(|(name, (sum, values))| {
        let mean = sum / values.len() as f64;
        let step = values.len().div_ceil(MOST_EFFECTS).max(1);
        (name.to_owned(), mean, values.into_iter().step_by(step).collect())
    });
    Ok(Spread { groups: groups.collect(), lorenz })
}

/// Writes the listed rows as a table.
fn write(out: &Output, explanation: &Explanation) -> Result<()> {
    let fields = vec![
        Field::new("query", DataType::Utf8, false),
        Field::new("row", DataType::Int64, false),
        Field::new("effect", DataType::Utf8, false),
        Field::new("value", DataType::Float64, false),
        Field::new("class", DataType::Utf8, false),
        Field::new("label", DataType::Utf8, false),
        Field::new("similarity", DataType::Float64, false),
        Field::new("stable", DataType::Boolean, true),
    ];
    let lines: Vec<(&Explained, &Part)> = explanation
        .explained
        .iter()
        .flat_map(|e| e.supporting.iter().chain(&e.opposing).map(move |part| (e, part)))
        .collect();
    let text = |of: &dyn Fn(&(&Explained, &Part)) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(lines.iter().map(of)))
    };
    let columns: Vec<ArrayRef> = vec![
        text(&|line| line.0.query.clone()),
        Arc::new(Int64Array::from_iter_values(lines.iter().map(|line| line.1.row as i64))),
        text(&|_| explanation.effect.to_owned()),
        Arc::new(Float64Array::from_iter_values(lines.iter().map(|line| line.1.value))),
        text(&|line| line.0.class.clone()),
        text(&|line| line.1.label.clone()),
        Arc::new(Float64Array::from_iter_values(lines.iter().map(|line| line.1.similarity))),
        Arc::new(lines.iter().map(|line| line.1.stable).collect::<BooleanArray>()),
    ];
    let mut writer = ColumnWriter::create(out, fields)?;
    writer.write(columns)?;
    Ok(writer.finish()?)
}

/// Returns the number of a class.
pub(crate) fn class_named(classes: &[String], name: &str) -> Result<u32> {
    if classes.is_empty() {
        let what = format!("⟨class⟩ {name}: the network predicts a number, not classes");
        return Err(Error::request(what, "leave ⟨class⟩ out"));
    }
    let class = classes.iter().position(|class| class == name);
    let class = class
        .ok_or_else(|| Refusal::setting("class", format!("one of {}", classes.join(", ")), name))?;
    Ok(class as u32)
}

/// Returns the mean of the diagonal of an n x n matrix.
pub(crate) fn mean_diagonal(k: &[f32], n: usize) -> f64 {
    k.iter().step_by(n + 1).map(|&k| f64::from(k)).sum::<f64>() / n as f64
}
