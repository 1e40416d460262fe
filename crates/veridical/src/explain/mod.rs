//! `veridical explain`: which training rows a decision of a network rests on, and how far to trust that.
//!
//! A network is explained by a kernel machine on its own tangent kernel (paper 004, section 1). For every query x the direction v is
//! the margin of a class, by default the predicted one: the logit of the class less the log-sum-exp of the others. Effects on
//! v·f(x) and their formulas: [`veridical_inspect::attribute`]. [`audit`] asks whether the machine decides as the network does,
//! [`labels`] which training rows have a wrong label.

mod audit;
mod labels;
mod page;
mod subject;

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Error as Refusal, Estimate, Job, Seed, choices, settings};
use veridical_inspect::attribute::{
    self, Agreement, Concentration, agreement, concentration, margins, top,
};
use veridical_inspect::labels::one_hot;
use veridical_inspect::surrogate::{FitSettings, Machine, Surrogate, Target, fit, largest};
use veridical_io::{ColumnWriter, Input, Output, Replace, publish};
use veridical_kernels::machine::{Ridge, softmax};
use veridical_kernels::tangent::Kind;

pub use self::audit::{Audit, AuditSettings, Audited, audit};
pub use self::labels::{LabelErrors, LabelSettings, Suspect, labels};
pub(crate) use self::page::Pictures;
pub(crate) use self::subject::{Kernels, Subject, fed, kernel_settings, matrix, runs};
pub use self::subject::{RowLimit, SubjectSettings};
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
        /// Inputs to explain: images or a table
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
    /// Its probability.
    pub probability: f64,
    /// The label, where it is known.
    pub label: Option<String>,
    /// The class whose margin is explained.
    pub class: String,
    /// Rows with the largest positive effects, largest first.
    pub supporting: Vec<Part>,
    /// Rows with the largest negative effects, largest first.
    pub opposing: Vec<Part>,
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
    /// Accuracy of the network and agreement of the machine behind the effect with it, on the queries.
    pub agreement: Estimate,
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
/// [`Error::Core`] if the run does not classify, the data is not what it was trained on, or the queries have another shape.
pub fn explain(settings: &Explain, job: &Job<'_>) -> Result<Explanation> {
    settings.check()?;
    if let Some(out) = &settings.out {
        publish::check_new(out, settings.replace.force)?;
    }
    let paths = runs(&settings.subject.run);
    let open = |run: &Path| Subject::open(run, &settings.subject, settings.queries.as_deref(), job);
    let first = open(&paths[0])?;
    let main = effects(&first, settings, None, job)?;
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
        all.push(effects(&other, settings, Some(&main.of), job)?.values);
    }
    let n = first.rows.len();
    let views = all.iter().map(|values| matrix(values, n)).collect::<Result<Vec<_>>>()?;
    let stability = if views.len() > 1 { Some(agreement(&views, settings.top)?) } else { None };
    let passed = match (settings.min_stable_top10, &stability) {
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
    let explained = explained(&first, &main, stability.as_ref(), settings)?;
    let pictures = Pictures::of(&first, &explained);
    let mut explanation = Explanation {
        run: settings.subject.run.to_string(),
        rows: first.says_rows(),
        queries: first.query_source.clone(),
        effect: settings.effect.name(),
        kernel: settings.effect.kernel().to_string(),
        agreement: main.agreement,
        concentration: concentration(views[0]),
        stability,
        passed,
        explained,
        notes: first.notes,
        out: None,
        pictures,
    };
    explanation.notes.push(settings.effect.says().to_owned());
    if let Some(out) = &settings.out {
        write(out, &explanation)?;
        explanation.out = Some(out.to_string());
    }
    Ok(explanation)
}

/// Effects of all training rows on all queries.
struct Effects {
    values: Vec<f64>,
    similarity: Vec<f32>,
    logits: Vec<f64>,
    /// The class that is explained, for every query.
    of: Vec<u32>,
    agreement: Estimate,
}

/// Computes the effects for a run; `of` are the classes that are explained.
fn effects(
    subject: &Subject,
    settings: &Explain,
    of: Option<&[u32]>,
    job: &Job<'_>,
) -> Result<Effects> {
    let classes = subject.classes.len();
    let n = subject.rows.len();
    let [own, logits] = subject.logits(job)?;
    let predicted: Vec<u32> = logits.chunks_exact(classes).map(largest).collect();
    let of: Vec<u32> = match (of, &settings.class) {
        (Some(of), _) => of.to_vec(),
        (None, None) => predicted.clone(),
        (None, Some(name)) => vec![class_named(&subject.classes, name)?; predicted.len()],
    };
    let kind = settings.effect.kernel();
    let Kernels { train, queries, .. } = subject.kernels(kind, &settings.subject, job)?;
    let v = margins(matrix(&logits, classes)?, &of);
    let (k, q, v) = (matrix(&train, n)?, matrix(&queries, n)?, matrix(&v, classes)?);
    let unit = mean_diagonal(&train, n);
    let seed = Seed::new(settings.subject.seed)?;
    let ridge = || -> Result<Ridge> {
        let targets = one_hot(subject.labels(), classes)?;
        Ok(Ridge::fit(k, matrix(&targets, classes)?, LAMBDA * unit, None)?)
    };
    let surrogate = |target: Target<'_>, fitting: FitSettings| -> Result<Surrogate> {
        Ok(fit(k, target, &fitting, job)?)
    };
    let (values, machine) = match settings.effect {
        Effect::Removal => {
            let ridge = ridge()?;
            (ridge.removal(q, v)?, Some(ridge.predict(q)?))
        }
        Effect::Influence => {
            let labels = Target::Labels { labels: subject.labels(), classes, weights: None };
            let fitted = surrogate(labels, FitSettings::labels(seed))?;
            let Machine::Glm(glm) = &fitted.machine else {
                return Err(Error::request("labels are fitted by logistic regression", ""));
            };
            (glm.influence(k, q, v, job)?, Some(fitted.logits(q)?))
        }
        Effect::Mass => {
            let fitted =
                surrogate(Target::Network(matrix(&own, classes)?), FitSettings::network(seed))?;
            let alpha = matrix(fitted.alpha(), classes)?;
            (attribute::mass(alpha, fitted.intercepts(), q, v)?, Some(fitted.logits(q)?))
        }
        Effect::Trak => {
            let doubt: Vec<f64> = own
                .chunks_exact(classes)
                .zip(subject.labels())
                .map(|(logits, &label)| 1.0 - softmax(logits, classes)[label as usize])
                .collect();
            (attribute::dual(k, q, Some(&doubt), LAMBDA * unit)?, None)
        }
        // Loss gradients point from the label: more weight on a row lowers the loss of rows like it.
        Effect::Fisher => (attribute::dual(k, q, None, LAMBDA * unit)?, None),
        Effect::Similarity => (queries.iter().map(|&k| f64::from(k)).collect(), None),
    };
    let machine = match machine {
        Some(machine) => machine,
        None => ridge()?.predict(q)?,
    };
    let same = machine.chunks_exact(classes).zip(&predicted).filter(|(f, p)| largest(f) == **p);
    let agreement = Estimate::share(same.count() as u64, predicted.len() as u64);
    Ok(Effects { values, similarity: queries, logits, of, agreement })
}

/// Lists the strongest rows of every query.
fn explained(
    subject: &Subject,
    effects: &Effects,
    stability: Option<&Agreement>,
    settings: &Explain,
) -> Result<Vec<Explained>> {
    let (n, classes) = (subject.rows.len(), subject.classes.len());
    let labels = subject.labels();
    let mut all = Vec::new();
    for (q, logits) in effects.logits.chunks_exact(classes).enumerate() {
        let values = &effects.values[q * n..][..n];
        let part = |at: u32| {
            let at = at as usize;
            let found =
                stability.map(|s| s.rows[q].iter().any(|s| s.row as usize == at && s.stable));
            Part {
                row: subject.rows[at],
                label: subject.classes[labels[at] as usize].clone(),
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
        let predicted = largest(logits) as usize;
        all.push(Explained {
            query: subject.query_ids.get(q),
            predicted: subject.classes[predicted].clone(),
            probability: softmax(logits, classes)[predicted],
            label: subject
                .query_labels()
                .get(q)
                .map(|&label| subject.classes[label as usize].clone()),
            class: subject.classes[effects.of[q] as usize].clone(),
            supporting: listed(values),
            opposing: listed(&against),
        });
    }
    Ok(all)
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
    let class = classes.iter().position(|class| class == name);
    let class = class
        .ok_or_else(|| Refusal::setting("class", format!("one of {}", classes.join(", ")), name))?;
    Ok(class as u32)
}

/// Returns the mean of the diagonal of an n x n matrix.
pub(crate) fn mean_diagonal(k: &[f32], n: usize) -> f64 {
    k.iter().step_by(n + 1).map(|&k| f64::from(k)).sum::<f64>() / n as f64
}
