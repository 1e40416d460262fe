//! `veridical forensics check`: which decisions rest on suspect training rows.
//!
//! A query is flagged when at least `needed` of the `nearest` training rows most similar to it are suspects (paper 004, section 1.5: 3 of
//! 5). How many chance would flag if suspects were any rows: [`veridical_inspect::forensics`]. Where queries have labels, precision and
//! recall are those of wrong decisions: the share of flagged queries that are wrong, and of wrong ones that are flagged.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use serde::Serialize;
use veridical_core::settings::Settings as _;
use veridical_core::{Error as Refusal, Estimate, Job, settings};
use veridical_inspect::forensics::{VoteSettings, check as check_votes};
use veridical_inspect::surrogate::largest;
use veridical_io::{ColumnWriter, Input, Output, Replace, publish};
use veridical_kernels::tangent::Kind;
use veridical_learn::top_k;

use crate::explain::{Pictures, Subject, SubjectSettings, matrix, runs};
use crate::net::listed_rows;
use crate::{Error, Result};

/// Flagged queries that are listed with their nearest rows, and shown on a page.
const LISTED: usize = 24;

settings! {
    /// Settings of [`check`].
    pub struct Check {
        /// Suspect training rows: numbers from 0, one per line or in a column `row`
        pub suspects: Input = Input::default() => [required(), value("FILE")],
        /// Inputs whose decisions are checked; with labels, precision and recall are measured
        pub queries: Option<Input> = None => [value("FILE_OR_FOLDER"), otherwise("the test set")],
        /// Number of most similar training rows that vote
        pub nearest: usize = 5 => [value("K"), at_least(1.0)],
        /// Number of suspects among them that flags a decision
        pub needed: usize = 3 => [value("K"), at_least(1.0)],
        /// Table of all queries to write: CSV, TSV, Parquet, Arrow or JSON Lines
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

/// A flagged decision.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckedQuery {
    /// Id of the query.
    pub query: String,
    /// The class that the network predicts.
    pub predicted: String,
    /// The label, where it is known.
    pub label: Option<String>,
    /// Number of suspects among the nearest rows.
    pub votes: u32,
    /// Numbers of the nearest rows in the training data, most similar first.
    pub nearest: Vec<usize>,
    /// Whether each of them is a suspect.
    pub suspect: Vec<bool>,
    /// Place of the query, and places of the rows.
    #[serde(skip)]
    pub(super) at: (usize, Vec<usize>),
}

/// Result of [`check`].
#[derive(Clone, Debug, Serialize)]
pub struct Checking {
    /// The run.
    pub run: String,
    /// Training rows that vote, in words.
    pub rows: String,
    /// What the queries are.
    pub queries: String,
    /// Number of queries.
    pub n: usize,
    /// Number of suspects in the list.
    pub suspects: usize,
    /// Number of them among the rows that vote.
    pub suspects_used: usize,
    /// The rule: how many rows vote, and how many suspects flag a decision.
    pub rule: VoteSettings,
    /// Number of flagged decisions.
    pub flagged: usize,
    /// Their share.
    pub flagged_share: Estimate,
    /// The probability that chance flags a decision.
    pub chance: f64,
    /// The numbers of flagged decisions that chance stays within, 95 % of the time.
    pub chance_range: [u64; 2],
    /// The probability that chance flags at least as many.
    pub p_value: f64,
    /// Number of wrong decisions, where queries have labels.
    pub wrong: Option<usize>,
    /// Share of flagged decisions that are wrong.
    pub precision: Option<Estimate>,
    /// Share of wrong decisions that are flagged.
    pub recall: Option<Estimate>,
    /// The first flagged decisions, most votes first.
    pub listed: Vec<CheckedQuery>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Path of the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
    /// Number of training rows that vote.
    #[serde(skip)]
    pub(super) used: usize,
    #[serde(skip)]
    pub(super) votes: Vec<u32>,
    #[serde(skip)]
    pub(super) pictures: [Pictures; 2],
    #[serde(skip)]
    pub(super) labels: HashMap<usize, String>,
}

impl Checking {
    /// Returns the answer in a sentence.
    pub fn answer(&self) -> String {
        let Self { flagged, n, rule, chance_range: [low, high], p_value, .. } = self;
        let VoteSettings { nearest, needed } = rule;
        let p_value =
            if *p_value < 1e-4 { "p < 0.0001".to_owned() } else { format!("p = {p_value:.4}") };
        let chance = if low == high { format!("{low}") } else { format!("{low} to {high}") };
        format!(
            "{flagged} of {n} decisions rest on the suspects: {needed} or more of their {nearest} most similar training rows are among them. Chance would flag {chance} ({p_value})."
        )
    }

    /// Whether more are flagged than chance explains.
    pub fn is_more_than_chance(&self) -> bool {
        self.p_value <= 0.01
    }
}

/// Flags decisions that rest on suspect training rows.
///
/// # Errors
/// As [`trace`](super::trace()), and for suspects that are no training rows, are there twice, none or all.
pub fn check(settings: &Check, job: &Job<'_>) -> Result<Checking> {
    settings.check()?;
    if settings.needed > settings.nearest {
        let rule = format!("at most ⟨nearest⟩ {}", settings.nearest);
        return Err(Refusal::setting("needed", rule, settings.needed).into());
    }
    if let Some(out) = &settings.out {
        publish::check_new(out, settings.replace.force)?;
    }
    let run = runs(&settings.subject.run).swap_remove(0);
    let mut subject = Subject::open(&run, &settings.subject, None, job)?;
    subject.needs_classes("a check")?;
    let given = listed_rows(&settings.suspects, subject.rows_of_data())?;
    if let Some(path) = settings.queries.as_deref() {
        subject.ask(path, job)?;
    }
    let mut notes = std::mem::take(&mut subject.notes);
    let suspects = places(&subject, &given, settings, &mut notes)?;
    let (n, dim) = (subject.rows.len(), subject.dim());
    if settings.nearest > n {
        let rule = format!("at most the {n} training rows that are used");
        return Err(Refusal::setting("nearest", rule, settings.nearest).into());
    }
    let logits = subject.logits_of(&subject.queries, job)?;
    let predicted: Vec<u32> = logits.chunks_exact(dim).map(largest).collect();
    let truth: Option<Vec<bool>> = match subject.query_labels() {
        [] => None,
        labels => Some(predicted.iter().zip(labels).map(|(p, y)| p != y).collect()),
    };
    let (queries, train) = (&subject.queries, &subject.train);
    let kernel = subject.kernel_of(queries, train, Kind::Trntk, &settings.subject, job)?;
    let kernel = matrix(&kernel, n)?;
    let rule = VoteSettings { nearest: settings.nearest, needed: settings.needed };
    let found = check_votes(kernel, &suspects, truth.as_deref(), rule)?;

    let mut order: Vec<usize> = found.flagged.iter().map(|&q| q as usize).collect();
    order.sort_by(|&a, &b| found.votes[b].cmp(&found.votes[a]).then(a.cmp(&b)));
    order.truncate(LISTED);
    let is_suspect = |at: usize| suspects.contains(&(at as u32));
    let class = |y: u32| subject.classes[y as usize].clone();
    let label = |q: usize| subject.query_labels().get(q).map(|&y| class(y));
    let listed: Vec<CheckedQuery> = order
        .into_iter()
        .map(|q| {
            let near = top_k((0..).zip(kernel.row(q).iter().copied()), settings.nearest);
            let near: Vec<usize> = near.iter().map(|near| near.number as usize).collect();
            CheckedQuery {
                query: subject.query_ids.get(q),
                predicted: class(predicted[q]),
                label: label(q),
                votes: found.votes[q],
                nearest: near.iter().map(|&at| subject.rows[at]).collect(),
                suspect: near.iter().map(|&at| is_suspect(at)).collect(),
                at: (q, near),
            }
        })
        .collect();
    if let Some(out) = &settings.out {
        let lines = (0..predicted.len()).map(|q| Line {
            query: subject.query_ids.get(q),
            predicted: class(predicted[q]),
            label: label(q),
            votes: found.votes[q],
            flagged: found.votes[q] as usize >= settings.needed,
        });
        write(out, &lines.collect::<Vec<_>>())?;
    }
    let rows = listed.iter().flat_map(|one| one.at.1.iter().copied());
    let labels = rows.clone().map(|at| (at, class(subject.labels()[at]))).collect();
    let pictures = [
        Pictures::of_samples(&subject.queries, listed.iter().map(|one| one.at.0)),
        Pictures::of_rows(&subject, rows),
    ];
    Ok(Checking {
        run: run.display().to_string(),
        rows: subject.says_rows(),
        queries: subject.query_source.clone(),
        n: predicted.len(),
        suspects: given.len(),
        suspects_used: suspects.len(),
        rule,
        flagged: found.flagged.len(),
        flagged_share: found.flagged_share,
        chance: found.chance,
        chance_range: found.chance_range,
        p_value: found.p_value,
        wrong: truth.map(|truth| truth.iter().filter(|wrong| **wrong).count()),
        precision: found.precision,
        recall: found.recall,
        listed,
        notes,
        out: settings.out.as_ref().map(ToString::to_string),
        used: n,
        votes: found.votes,
        pictures,
        labels,
    })
}

/// The places of the suspects among the rows that are used.
fn places(
    subject: &Subject,
    given: &[usize],
    settings: &Check,
    notes: &mut Vec<String>,
) -> Result<Vec<u32>> {
    let path = settings.suspects.display();
    let mut sorted = given.to_vec();
    sorted.sort_unstable();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        let what = format!("{path}: row {} is twice among the suspects", twice[0]);
        return Err(Error::request(what, "list every row once"));
    }
    let learned = sorted.iter().filter(|row| subject.numbers.binary_search(row).is_ok()).count();
    if learned < sorted.len() {
        notes.push(format!(
            "{} of {} suspects are rows that the network did not learn from.",
            sorted.len() - learned,
            sorted.len()
        ));
    }
    let at = |row: &usize| subject.rows.binary_search(row).ok().map(|at| at as u32);
    let used: Vec<u32> = sorted.iter().filter_map(at).collect();
    let refuse = |what: &str, hint: &str| Err(Error::request(format!("{path}: {what}"), hint));
    match used.len() {
        0 if sorted.is_empty() => refuse("there are no suspects", "list the rows to check"),
        0 => refuse(
            &format!("none of the {} suspects is among the {}", sorted.len(), subject.says_rows()),
            "raise ⟨rows⟩, or pass `all`",
        ),
        n if n == subject.rows.len() => refuse(
            "all training rows that are used are suspects, so no decision can be told apart",
            "list fewer rows",
        ),
        n => {
            if n < learned {
                notes.push(format!("{n} of {learned} suspects are among the rows that vote."));
            }
            Ok(used)
        }
    }
}

struct Line {
    query: String,
    predicted: String,
    label: Option<String>,
    votes: u32,
    flagged: bool,
}

fn write(out: &Output, lines: &[Line]) -> Result<()> {
    let fields = vec![
        Field::new("query", DataType::Utf8, false),
        Field::new("predicted", DataType::Utf8, false),
        Field::new("label", DataType::Utf8, true),
        Field::new("votes", DataType::Int64, false),
        Field::new("flagged", DataType::Boolean, false),
    ];
    let text = |of: fn(&Line) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(lines.iter().map(of)))
    };
    let columns: Vec<ArrayRef> = vec![
        text(|line| &line.query),
        text(|line| &line.predicted),
        Arc::new(lines.iter().map(|line| line.label.as_deref()).collect::<StringArray>()),
        Arc::new(Int64Array::from_iter_values(lines.iter().map(|line| i64::from(line.votes)))),
        Arc::new(lines.iter().map(|line| Some(line.flagged)).collect::<BooleanArray>()),
    ];
    let mut writer = ColumnWriter::create(out, fields)?;
    writer.write(columns)?;
    Ok(writer.finish()?)
}
