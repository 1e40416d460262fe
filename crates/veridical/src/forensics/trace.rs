//! `veridical forensics trace`: the training rows behind incidents.
//!
//! Incidents are inputs that the network put into a class and should not have. Candidates are all training rows of that class; the
//! contrast of their kernel with incidents and with rightly classified inputs, and when it counts as evidence:
//! [`veridical_inspect::forensics`]. What leaving the group out does is checked on kernel ridge at once; training again confirms it.
//!
//! One trace seldom has all of the rows: a network needs few of them to learn a patch. With `retrain` the network is trained again without
//! the rows, as its run was, and the incidents that still succeed are traced in the new network, until their share is at most `until`,
//! no group is found, or the rounds are spent. Incidents that are left may be ordinary mistakes, whose look-alikes are no cause: rows of a
//! round count only if training without them takes a tenth of the success or more, which chance does in at most 5 % of the cases (sign
//! test of the incidents that changed); otherwise they are taken from the list and the rounds end. The list has the rows of all
//! confirmed rounds, and those that the run left out before: it is what `train net --exclude-rows` takes.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use serde::Serialize;
use veridical_core::distributions::binomial_cdf;
use veridical_core::settings::Settings as _;
use veridical_core::{Estimate, Job, Seed, settings};
use veridical_inspect::forensics::{
    self, RemovalCheck, TraceSettings, removal_check, trace as trace_rows,
};
use veridical_inspect::labels::one_hot;
use veridical_inspect::surrogate::largest;
use veridical_io::{ColumnWriter, Input, Output, Replace, publish};
use veridical_kernels::machine::Ridge;
use veridical_kernels::tangent::Kind;

use crate::explain::{
    LAMBDA, Pictures, Samples, Subject, SubjectSettings, class_named, matrix, mean_diagonal, runs,
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
        /// Train again without the rows, and trace what is left, until the incidents are gone
        pub retrain: bool = false => [switch()],
        /// Share of the incidents that may still succeed when ⟨retrain⟩ stops
        pub until: f64 = 0.05 => [value("SHARE"), at_least(0.0), at_most(1.0)],
        /// Most trainings of ⟨retrain⟩
        pub rounds: usize = 4 => [at_least(1.0), at_most(100.0), detail()],
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
    /// The trace that found it, from 1.
    pub round: usize,
    /// Place among all training rows of the run.
    #[serde(skip)]
    pub(super) at: usize,
}

/// A network on the way: that of the run, and each that was trained again.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct State {
    /// Training rows that were left out.
    pub removed: usize,
    /// Share of all incidents that the network puts into the class.
    pub success: Estimate,
    /// Its accuracy on queries with labels.
    pub accuracy: Option<Estimate>,
    /// Rows that its trace found.
    pub found: usize,
    /// Share of shuffles with at least the gap of its trace; null if it was not traced.
    pub p_value: Option<f64>,
    /// Whether the success fell against the state before: what confirms the rows of the round before. Null for the network of the run.
    pub confirms: Option<bool>,
    /// Which incidents succeed.
    #[serde(skip)]
    hits: Vec<bool>,
}

/// Least relative fall of the success, and largest chance of it, that confirm a round.
const FALL: f64 = 0.1;
const CHANCE: f64 = 0.05;

impl State {
    /// Whether the success fell enough since an earlier state, and more than by chance: P(Bin(changed, 1/2) >= stopped).
    fn is_confirmed_against(&self, before: &Self) -> bool {
        let pairs = || before.hits.iter().zip(&self.hits);
        let stopped = pairs().filter(|(before, now)| **before && !**now).count() as u64;
        let began = pairs().filter(|(before, now)| !**before && **now).count() as u64;
        let p_value = binomial_cdf(began, stopped + began, 0.5);
        self.success.value <= (1.0 - FALL) * before.success.value && p_value <= CHANCE
    }
}

/// Result of [`trace`].
#[derive(Clone, Debug, Serialize)]
pub struct Tracing {
    /// The run.
    pub run: String,
    /// The class that the incidents are predicted as.
    pub class: String,
    /// Number of incidents that the first trace used.
    pub incidents: u64,
    /// Number of its reference inputs.
    pub reference: u64,
    /// Number of training rows of the class.
    pub candidates: usize,
    /// Difference of the mean contrast between the upper group and the rest, in the first trace.
    pub gap: f64,
    /// The gap that 99 % of shuffled incidents stay below.
    pub chance_gap: f64,
    /// Share of shuffles with at least this gap.
    pub p_value: f64,
    /// Rows behind the incidents, by round, strongest first; empty without evidence.
    pub group: Vec<TracedRow>,
    /// Rows that the run left out already, which the list repeats.
    pub left_out_before: usize,
    /// The network of the run, and those that were trained again.
    pub states: Vec<State>,
    /// Whether rows were found that no training has confirmed yet.
    pub needs_another_round: bool,
    /// What leaving the group of the first trace out does to kernel ridge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<RemovalCheck>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Path of the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
    #[serde(skip)]
    pub(super) scores: Vec<f64>,
    #[serde(skip)]
    pub(super) threshold: Option<f64>,
    #[serde(skip)]
    pub(super) pictures: [Pictures; 3],
}

impl Tracing {
    /// Returns the answer in a sentence.
    pub fn answer(&self) -> String {
        let Self { incidents, candidates, class, p_value, states, .. } = self;
        let mut answer = match self.group.len() {
            0 => format!(
                "No group among the {candidates} training rows labeled {class} stands behind the {incidents} incidents (p = {p_value:.3})."
            ),
            n => format!(
                "{n} of {candidates} training rows labeled {class} stand behind the {incidents} incidents (p = {p_value:.4})."
            ),
        };
        if let ([before, _, ..], Some(after)) = (states.as_slice(), self.after()) {
            let [before, after] = [before, after].map(|state| 100.0 * state.success.value);
            answer += &format!(
                " Trained again without them, {after:.1} % of the incidents succeed instead of {before:.1} %."
            );
        }
        answer
    }

    /// The network that was trained without the rows of the list: the last one whose rows are confirmed.
    pub fn after(&self) -> Option<&State> {
        self.states.iter().rev().find(|state| state.confirms != Some(false))
    }

    /// Says what to do next, if anything.
    pub fn advice(&self) -> Option<String> {
        let last = self.states.last()?;
        if let ([.., before, last], Some(false)) = (self.states.as_slice(), last.confirms) {
            return Some(format!(
                "The {} rows of the last round are not listed: training without them left {:.1} % of the incidents (before: {:.1} %), so these may have other causes.",
                before.found,
                100.0 * last.success.value,
                100.0 * before.success.value
            ));
        }
        if self.group.is_empty() {
            return None;
        }
        let share = 100.0 * last.success.value;
        Some(match (self.states.len(), self.needs_another_round) {
            (1, _) => "Only training again confirms the rows, and few that are missed may keep an attack alive: ⟨retrain⟩ does it and traces what is left.".into(),
            (_, true) => format!(
                "{share:.1} % of the incidents still succeeded, and the last {} rows are not confirmed: another round is needed (⟨rounds⟩).",
                last.found
            ),
            (_, false) if last.p_value.is_some() => format!(
                "{share:.1} % of the incidents still succeed, but no further rows stand behind them: they may have other causes."
            ),
            (..) => "No further round is needed.".into(),
        })
    }
}

/// What the rounds of a trace share.
struct Case<'a> {
    settings: &'a Trace,
    /// The class that the incidents were put into.
    class: u32,
    incidents: Samples,
    /// Inputs among which the reference is, and their labels if they are known.
    asked: Samples,
    labeled: bool,
    /// Places of the candidates among all training rows.
    of_class: Vec<usize>,
}

/// What one trace found.
struct Found {
    trace: forensics::Trace,
    /// Places of the candidates.
    candidates: Vec<usize>,
    incidents: Samples,
    reference: Samples,
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
    subject.needs_classes("a trace")?;
    let again = match settings.retrain {
        true => Some(subject.again(&settings.subject, job)?),
        false => None,
    };
    let mut notes = std::mem::take(&mut subject.notes);
    let incidents = subject.inputs(&settings.incidents, job)?;
    let predicted = predictions(&subject, &incidents, job)?;
    let class = common_class(&subject, &predicted, settings.class.as_deref(), &mut notes)?;
    let name = subject.classes[class as usize].clone();
    if let Some(i) = subject.everything.first_among(&incidents) {
        let what = format!("incident {i} is a training row");
        return Err(Error::request(what, "pass inputs that the network did not learn"));
    }
    let asked = match &settings.reference {
        Some(path) => subject.inputs(path, job)?,
        None => subject.queries.clone(),
    };
    let labeled = settings.reference.is_none() && !asked.labels().is_empty();
    let of_class = subject.rows_of(class);
    let case = Case { settings, class, incidents, asked, labeled, of_class };

    let mut group: Vec<TracedRow> = Vec::new();
    let mut removed: BTreeSet<usize> = BTreeSet::new();
    let mut first: Option<(Found, Option<RemovalCheck>)> = None;
    let mut states = vec![case.state(&subject, &removed, job)?];
    loop {
        let found = case.trace(&subject, &removed, &mut notes, first.is_none(), job)?;
        let Some(found) = found else { break };
        let rows = case.rows(&subject, &found, states.len());
        if let Some(state) = states.last_mut() {
            (state.found, state.p_value) = (rows.len(), Some(found.trace.p_value));
        }
        removed.extend(rows.iter().map(|row| row.row));
        if first.is_none() {
            let check = match rows.is_empty() {
                true => None,
                false => case.removal(&mut subject, &found.incidents, &rows, &mut notes, job)?,
            };
            first = Some((found, check));
        }
        let is_found = !rows.is_empty();
        group.extend(rows);
        let Some(again) = again.as_ref().filter(|_| is_found) else { break };
        if states.len() > settings.rounds {
            break;
        }
        job.note(&format!("training without {} rows (round {})", removed.len(), states.len()));
        subject.replace(again.without(&removed, job)?);
        let mut state = case.state(&subject, &removed, job)?;
        let confirms = states.last().is_some_and(|before| state.is_confirmed_against(before));
        state.confirms = Some(confirms);
        states.push(state);
        if !confirms {
            group.retain(|row| row.round + 1 < states.len());
            break;
        }
        if states.last().is_some_and(|state| state.success.value <= settings.until) {
            break;
        }
    }
    // INVARIANT: the first trace has its incidents or is refused.
    let Some((found, check)) = first else {
        return Err(Error::request("there are no incidents to trace", ""));
    };
    let shown = |data: &Samples, rows: Vec<usize>| Pictures::of_samples(data, rows.into_iter());
    let pictures = [
        shown(&found.incidents, (0..found.incidents.n()).collect()),
        shown(&subject.everything, group.iter().map(|row| row.at).collect()),
        shown(&found.reference, (0..found.reference.n()).collect()),
    ];
    let before = subject.left_out(&settings.subject, job)?;
    let tracing = Tracing {
        run: run.display().to_string(),
        class: name,
        incidents: found.trace.incidents,
        reference: found.trace.reference,
        candidates: case.of_class.len(),
        gap: found.trace.gap,
        chance_gap: found.trace.chance_gap,
        p_value: found.trace.p_value,
        group,
        left_out_before: before.len(),
        needs_another_round: states.last().is_some_and(|state| state.found > 0),
        states,
        check,
        notes,
        out: settings.out.as_ref().map(ToString::to_string),
        scores: found.trace.candidates.iter().map(|traced| traced.score.value).collect(),
        threshold: found.trace.threshold,
        pictures,
    };
    if let Some(out) = &settings.out {
        write(out, &tracing.group, &before)?;
    }
    Ok(tracing)
}

impl Case<'_> {
    /// Measures the network as it is now.
    fn state(&self, subject: &Subject, removed: &BTreeSet<usize>, job: &Job<'_>) -> Result<State> {
        let predicted = predictions(subject, &self.incidents, job)?;
        let hits: Vec<bool> = predicted.iter().map(|p| *p == self.class).collect();
        let labels = subject.query_labels();
        let accuracy = match labels.is_empty() {
            true => None,
            false => {
                let predicted = predictions(subject, &subject.queries, job)?;
                let right = predicted.iter().zip(labels).filter(|(p, y)| p == y).count();
                Some(Estimate::share(right as u64, labels.len() as u64))
            }
        };
        let succeeded = hits.iter().filter(|hit| **hit).count() as u64;
        Ok(State {
            removed: removed.len(),
            success: Estimate::share(succeeded, hits.len() as u64),
            accuracy,
            found: 0,
            p_value: None,
            confirms: None,
            hits,
        })
    }

    /// Traces the incidents that the network still puts into the class among the rows that are left; `None` if too few of either
    /// are left, which is an error the first time.
    fn trace(
        &self,
        subject: &Subject,
        removed: &BTreeSet<usize>,
        notes: &mut Vec<String>,
        is_first: bool,
        job: &Job<'_>,
    ) -> Result<Option<Found>> {
        let Self { class, settings, .. } = self;
        let name = &subject.classes[*class as usize];
        let predicted = predictions(subject, &self.incidents, job)?;
        let own: Vec<usize> = (0..predicted.len()).filter(|&i| predicted[i] == *class).collect();
        let predicted = predictions(subject, &self.asked, job)?;
        let labels = if self.labeled { self.asked.labels() } else { &[] };
        let is_right =
            |i: &usize| predicted[*i] == *class && labels.get(*i).is_none_or(|y| y == class);
        let right: Vec<usize> = (0..predicted.len()).filter(is_right).collect();
        let candidates: Vec<usize> = self
            .of_class
            .iter()
            .copied()
            .filter(|&at| !removed.contains(&subject.numbers[at]))
            .collect();
        if right.len() < 2 {
            let what = format!("{} reference inputs are rightly predicted as {name}", right.len());
            if is_first {
                return Err(Error::request(what, "pass such inputs with ⟨reference⟩"));
            }
            notes.push(format!("{what} by the network that was trained again."));
            return Ok(None);
        }
        if !is_first && (own.len() < 2 || candidates.len() < 2) {
            return Ok(None);
        }
        let incidents = self.incidents.subset(&first(&own));
        let reference = self.asked.subset(&first(&right));
        let asked = incidents.followed_by(&reference);
        let among = subject.everything.subset(&candidates);
        let kernel = subject.kernel_of(&asked, &among, Kind::Trntk, &settings.subject, job)?;
        let n = candidates.len();
        let (of_incidents, of_reference) = kernel.split_at(incidents.n() * n);
        let all: Vec<u32> = (0..n as u32).collect();
        let trace = trace_rows(
            matrix(of_incidents, n)?,
            matrix(of_reference, n)?,
            &all,
            &TraceSettings::new(Seed::new(settings.subject.seed)?),
        )?;
        Ok(Some(Found { trace, candidates, incidents, reference }))
    }

    /// The rows of the group of a trace.
    fn rows(&self, subject: &Subject, found: &Found, round: usize) -> Vec<TracedRow> {
        let group: BTreeSet<u32> = found.trace.group.iter().copied().collect();
        let traced = found.trace.candidates.iter().filter(|traced| group.contains(&traced.row));
        traced
            .map(|traced| {
                let at = found.candidates[traced.row as usize];
                TracedRow {
                    row: subject.numbers[at],
                    label: subject.classes[self.class as usize].clone(),
                    score: traced.score,
                    round,
                    at,
                }
            })
            .collect()
    }

    /// Leaves the group out of kernel ridge on the rows that are used.
    fn removal(
        &self,
        subject: &mut Subject,
        incidents: &Samples,
        group: &[TracedRow],
        notes: &mut Vec<String>,
        job: &Job<'_>,
    ) -> Result<Option<RemovalCheck>> {
        let (n, classes) = (subject.rows.len(), subject.classes.len());
        let listed: BTreeSet<usize> = group.iter().map(|traced| traced.row).collect();
        let used: Vec<u32> =
            (0..n as u32).filter(|&at| listed.contains(&subject.rows[at as usize])).collect();
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
        subject.queries = incidents.followed_by(&clean);
        let kernels = subject.kernels(Kind::Trntk, &self.settings.subject, None, job);
        subject.queries = clean;
        let kernels = kernels?;
        let targets = one_hot(subject.labels(), classes)?;
        let lambda = LAMBDA * mean_diagonal(&kernels.train, n);
        let ridge =
            Ridge::fit(matrix(&kernels.train, n)?, matrix(&targets, classes)?, lambda, None)?;
        let (of_incidents, of_clean) = kernels.queries.split_at(incidents.n() * n);
        let (of_incidents, of_clean) = (matrix(of_incidents, n)?, matrix(of_clean, n)?);
        Ok(Some(removal_check(&ridge, of_incidents, self.class, of_clean, &labels, &used)?))
    }
}

/// Returns the classes that the network predicts.
fn predictions(subject: &Subject, samples: &Samples, job: &Job<'_>) -> Result<Vec<u32>> {
    let logits = subject.logits_of(samples, &job.quiet())?;
    Ok(logits.chunks_exact(subject.dim()).map(largest).collect())
}

/// The class that the incidents were put into: the one that was named, else what most are predicted as.
fn common_class(
    subject: &Subject,
    predicted: &[u32],
    given: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<u32> {
    let classes = &subject.classes;
    let class = match given {
        None => most_common(predicted, classes.len()),
        Some(name) => class_named(classes, name)?,
    };
    let name = &classes[class as usize];
    let own = predicted.iter().filter(|p| **p == class).count();
    if given.is_none() && (own as f64) < COMMON * predicted.len() as f64 {
        return Err(several(classes, predicted));
    }
    if own == 0 {
        let what = format!("none of the {} incidents is predicted as {name}", predicted.len());
        return Err(Error::request(what, "leave ⟨class⟩ out to take what most are predicted as"));
    }
    if own < predicted.len() {
        let others = predicted.len() - own;
        notes.push(format!("{others} incidents are not predicted as {name} and are set aside."));
    }
    Ok(class)
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

/// Writes the list: rows that the run left out before as round 0, without a score, and then those that were found.
fn write(out: &Output, group: &[TracedRow], before: &[(usize, String)]) -> Result<()> {
    let fields = vec![
        Field::new("row", DataType::Int64, false),
        Field::new("label", DataType::Utf8, false),
        Field::new("score", DataType::Float64, true),
        Field::new("low", DataType::Float64, true),
        Field::new("high", DataType::Float64, true),
        Field::new("round", DataType::Int64, false),
    ];
    let number = |of: fn(&Estimate) -> f64| -> ArrayRef {
        let finite = |row: &TracedRow| Some(of(&row.score)).filter(|x| x.is_finite());
        let none = before.iter().map(|_| None);
        Arc::new(none.chain(group.iter().map(finite)).collect::<Float64Array>())
    };
    let rows = before.iter().map(|(row, _)| *row).chain(group.iter().map(|row| row.row));
    let labels = before
        .iter()
        .map(|(_, label)| label.as_str())
        .chain(group.iter().map(|row| row.label.as_str()));
    let rounds = before.iter().map(|_| 0).chain(group.iter().map(|row| row.round as i64));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.map(|row| row as i64))),
        Arc::new(StringArray::from_iter_values(labels)),
        number(|score| score.value),
        number(|score| score.low),
        number(|score| score.high),
        Arc::new(Int64Array::from_iter_values(rounds)),
    ];
    let mut writer = ColumnWriter::create(out, fields)?;
    writer.write(columns)?;
    Ok(writer.finish()?)
}
