//! The verdict: from measures and limits to an answer for every kind of consumer, one level, and a plain sentence.
//!
//! | aspect | stable | drifting | unstable | limit |
//! |---|---|---|---|---|
//! | ids | 99 % kept, 0.1 % zero, 1 % repeated, norms within 10 % | 90 %, 1 %, 5 %, 50 % | beyond | each its own |
//! | outliers | 1 % of ids moved alone, 1 % changed their norm | 3 % | beyond | `max-outlier-ids`, `max-norm-outliers` |
//! | geometry | CKA at least 0.95 | 0.8 | below | `min-cka` |
//! | neighbors | overlap at least 0.8 | 0.5 | below | `min-nn-overlap` |
//! | coordinates | sd at most 0.1 of their size, raw or aligned | 0.3 | beyond | `max-procrustes-residual`, if aligned |
//! | downstream | sd of the accuracy at most 0.005 | 0.02 | beyond | `max-metric-sd` |
//!
//! Where a measure has a limit, the limit decides: stable if it is passed, unstable if not. Else, with a noise floor, it is stable
//! where it is no worse than the floor's 99 % quantile, and at best drifting where it is worse.
//!
//! Three kinds of consumers rely on different aspects, besides ids and outliers: those that are retrained on geometry, those that
//! search neighbors on geometry and neighbors, those that are not retrained on coordinates. The level of the verdict is that of
//! the consumer who fares worst, or unstable if a limit is not met; its sentence begins with `Safe`, `Safe with care` or
//! `Not safe` accordingly.

use serde::Serialize;

use crate::stability::measures::{Harm, Kind, Measure};
use crate::stability::{Comparison, Downstream, Gate, Outliers};

/// The stability of an aspect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// No action is needed.
    Stable,
    /// The change is noticeable and worth checking.
    Drifting,
    /// The change is too large to rely on this aspect.
    Unstable,
}

/// The stability of one aspect of the tables.
#[derive(Clone, Debug, Serialize)]
pub struct Aspect {
    /// The aspect: `ids`, `outliers`, `geometry`, `neighbors`, `coordinates` or `downstream`.
    pub name: &'static str,
    /// The level of stability.
    pub level: Level,
    /// The numbers behind it.
    pub reason: String,
}

/// The answer for one kind of consumer.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// What the consumer does: `retrains`, `searches neighbors` or `uses coordinates`.
    pub consumer: &'static str,
    /// The level of what it relies on.
    pub level: Level,
    /// The treatment it needs: `raw`, `aligned` or `none`.
    pub treatment: &'static str,
    /// The numbers behind it.
    pub reason: String,
}

/// The recommendation for today's vectors.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The summary: what became of the limits, if there are any, then for which consumers the vectors are safe.
    pub sentence: String,
    /// The level of the consumer who fares worst; unstable if a limit is not met.
    pub level: Level,
    /// The answer for each kind of consumer.
    pub answers: Vec<Answer>,
    /// The level and numbers of each aspect.
    pub aspects: Vec<Aspect>,
    /// The recommended treatment: `raw`, `aligned`, a feature map, or `none`.
    pub treatment: String,
    /// The reason for that treatment.
    pub evidence: String,
    /// Further observations.
    pub notes: Vec<String>,
}

impl Verdict {
    /// Whether the vectors can be used: no consumer is let down, and no limit is broken.
    pub fn is_safe(&self) -> bool {
        self.level != Level::Unstable
    }

    /// Returns the limits that would decide, instead of fixed thresholds, on the aspects that are unstable.
    pub fn deciding_limits(&self) -> Vec<&'static str> {
        let of = |aspect: &Aspect| match aspect.name {
            "ids" => "min-shared-ids, max-zero-vectors, max-duplicate-vectors or max-norm-change",
            "outliers" => "max-outlier-ids or max-norm-outliers",
            "geometry" => "min-cka",
            "neighbors" => "min-nn-overlap",
            "coordinates" => "max-procrustes-residual",
            _ => "max-metric-sd",
        };
        let unstable = self.aspects.iter().filter(|a| a.level == Level::Unstable);
        unstable.filter(|aspect| aspect.name != "downstream").map(of).collect()
    }
}

fn level(value: f64, harm: Harm, stable: f64, drifting: f64) -> Level {
    let within = |limit: f64| match harm {
        Harm::Low => value >= limit,
        Harm::High => value <= limit,
    };
    match (within(stable), within(drifting)) {
        (true, _) => Level::Stable,
        (false, true) => Level::Drifting,
        _ => Level::Unstable, // includes NaN
    }
}

/// Below this CKA two tables are considered unrelated; with spectra closer than `SAME_SPECTRA` they are the same
/// geometry under permuted ids.
const UNRELATED: f64 = 0.2;
const SAME_SPECTRA: f64 = 0.05;
/// Coordinates closer than this mean that the model is the same.
const SAME_MODEL: f64 = 1e-3;
const MANY_NEW: f64 = 0.2;
/// Above this share of ids that moved alone a table is unstable, unless a limit or a noise floor decides.
pub const OUTLIERS_UNSTABLE: f64 = 0.03;
/// From this share on, and this many ids, rows that moved like noise are named.
const NAMED_NOISE: f64 = 0.002;
const NAMED_IDS: f64 = 5.0;
/// The number of broken limits that the sentence names.
const NAMED_LIMITS: usize = 3;

/// The measures and limits behind a verdict.
struct Evidence<'a> {
    measures: &'a [Measure],
    gates: &'a [Gate],
}

impl Evidence<'_> {
    fn found(&self, key: &str) -> Option<&Measure> {
        self.measures.iter().find(|m| m.key == key)
    }

    fn value(&self, key: &str) -> f64 {
        self.found(key).and_then(|m| m.estimate).map_or(f64::NAN, |e| e.value)
    }

    /// The level of a measure: by its limit, else by the noise floor, else by fixed thresholds; and the words for the first two.
    fn level(&self, key: &str, [stable, drifting]: [f64; 2]) -> (Level, String) {
        let Ok(kind) = Kind::of_key(key) else { return (Level::Unstable, String::new()) };
        let (value, limit) = (self.value(key), kind.limit());
        if let Some(gate) = self.gates.iter().find(|gate| gate.limit == limit) {
            let (level, word) = match gate.is_kept() {
                true => (Level::Stable, "within"),
                false => (Level::Unstable, "not within"),
            };
            return (level, format!("; {word} {limit} {}", gate.allowed));
        }
        let found = level(value, kind.harm, stable, drifting);
        let Some(floor) = self.found(key).and_then(|m| m.floor) else {
            return (found, String::new());
        };
        let no_worse = match kind.harm {
            Harm::Low => value >= floor.quantile,
            Harm::High => value <= floor.quantile,
        };
        let (level, how) = match no_worse {
            true => (Level::Stable, "no worse than"),
            false => (found.max(Level::Drifting), "worse than"),
        };
        (level, format!("; {how} retraining on the same data ({:.3})", floor.estimate.value))
    }
}

/// Derives the verdict from the measures and the outcome of the limits.
pub fn verdict(
    measures: &[Measure],
    gates: &[Gate],
    comparison: &Comparison,
    downstream: Option<&Downstream>,
) -> Verdict {
    let evidence = Evidence { measures, gates };
    let value = |key: &str| evidence.value(key);
    let mut aspects = Vec::new();
    if evidence.found("shared_ids").is_some() {
        aspects.push(ids(&evidence));
    }
    aspects.extend(comparison.outliers.as_ref().map(|found| outliers(&evidence, found)));
    let permuted = value("cka") < UNRELATED && comparison.spectra < SAME_SPECTRA;
    aspects.push(geometry(&evidence, permuted));
    let (level_of_neighbors, words) = evidence.level("nn_overlap", [0.8, 0.5]);
    aspects.push(Aspect {
        name: "neighbors",
        level: level_of_neighbors,
        reason: format!(
            "{} of the {} nearest neighbors stay{words}",
            percent(value("nn_overlap")),
            comparison.k
        ),
    });
    let relative = comparison
        .coordinates
        .as_ref()
        .and_then(|c| Some([c.relative_sd?.value, c.aligned_relative_sd?.value]));
    let moved = relative.map(|moved| coordinates(&evidence, moved));
    aspects.extend(moved.as_ref().map(|(aspect, _)| aspect.clone()));
    let sd = downstream.and_then(|d| d.treatments.first()).and_then(|raw| raw.accuracy.sd);
    if let Some(sd) = sd {
        let (level, words) = evidence.level("metric_sd", [0.005, 0.02]);
        let reason = format!(
            "the accuracy of a retrained model has an sd of {:.2} points{words}",
            100.0 * sd.value
        );
        aspects.push(Aspect { name: "downstream", level, reason });
    }
    let treatment = moved.as_ref().map(|(_, treatment)| *treatment);
    let answers = answers(&aspects, treatment);
    let worst = answers.iter().map(|answer| answer.level).max().unwrap_or(Level::Unstable);
    let kept = gates.iter().all(Gate::is_kept);
    let worst = if kept { worst } else { Level::Unstable };
    let usable = answers.iter().any(|answer| answer.level != Level::Unstable);
    let (treatment, reason) = match treatment {
        _ if !usable => ("none", "keep the vectors of before, or repair the table"),
        Some("raw") => ("raw", "coordinates held"),
        Some("aligned") => ("aligned", "alignment restores the coordinates"),
        Some(_) => {
            ("aligned", "alignment restores what can be restored; retrain what uses coordinates")
        }
        None => ("none", "the dimensions differ: consumers must be retrained"),
    };
    let mut verdict = Verdict {
        sentence: sentence(gates, &answers, &aspects, permuted),
        level: worst,
        notes: notes(comparison, relative.map(|[raw, _]| raw), value("new_ids")),
        answers,
        aspects,
        treatment: treatment.to_owned(),
        evidence: reason.to_owned(),
    };
    if let Some(downstream) = downstream.filter(|_| usable) {
        by_labels(&mut verdict, downstream);
    }
    verdict
}

/// Lets labels choose the treatment, unless no treatment beats the most frequent class.
fn by_labels(verdict: &mut Verdict, downstream: &Downstream) {
    let r = &downstream.recommendation;
    if downstream.at_chance() {
        verdict.notes.push(format!(
            "no classifier on these labels beats the most frequent class ({} against {}): the labels decide nothing",
            percent(r.retrained_accuracy),
            percent(downstream.majority)
        ));
        return;
    }
    verdict.treatment = r.unretrained.clone();
    verdict.evidence = format!(
        "on the labels: {} for retrained models ({}), {} for models that are not retrained ({})",
        r.retrained,
        percent(r.retrained_accuracy),
        r.unretrained,
        percent(r.unretrained_accuracy),
    );
}

fn ids(evidence: &Evidence<'_>) -> Aspect {
    let parts = [
        ("shared_ids", [0.99, 0.9], "of the ids are kept"),
        ("zero_vectors", [0.001, 0.01], "of the vectors are zero"),
        ("duplicate_vectors", [0.01, 0.05], "of the vectors repeat another"),
        ("norm_change", [0.1, 0.5], "change of the median norm"),
    ];
    let levels = parts.map(|(key, thresholds, text)| {
        // A table of zeros has no norm to change.
        let undefined = evidence.found(key).is_none_or(|m| m.estimate.is_none());
        let (found, words) = evidence.level(key, thresholds);
        let found = if undefined { Level::Stable } else { found };
        (
            found,
            format!("{} {text}{words}", percent(if undefined { 0.0 } else { evidence.value(key) })),
        )
    });
    let level = levels.iter().map(|(level, _)| *level).max().unwrap_or(Level::Stable);
    let reasons: Vec<String> = levels
        .into_iter()
        .enumerate()
        .filter(|(at, (level, _))| *at == 0 || *level > Level::Stable)
        .map(|(_, (_, text))| text)
        .collect();
    Aspect { name: "ids", level, reason: reasons.join(", ") }
}

/// What [`Outliers`] found: the share of ids that moved alone, and of what kind they are.
fn outliers(evidence: &Evidence<'_>, found: &Outliers) -> Aspect {
    let (moved, words) = evidence.level("outlier_ids", [0.01, OUTLIERS_UNSTABLE]);
    let (norms, norm_words) = evidence.level("norm_outliers", [0.01, 0.03]);
    let mut reason = format!("{} of ids moved alone{words}", percent(found.share.value));
    let named = |share: f64| share >= NAMED_NOISE && share * found.share.n as f64 >= NAMED_IDS;
    if let Some(noise) = found.like_noise.filter(|noise| named(noise.value)) {
        reason += &format!("; {} of ids moved like noise", percent(noise.value));
    }
    if found.stale > 0 {
        let stale = found.stale;
        reason += &format!("; {stale} ids still have their old vector while the others moved");
    }
    if norms > Level::Stable || named(found.norms.value) {
        let share = percent(found.norms.value);
        reason += &format!("; {share} of ids changed their norm unlike the others{norm_words}");
    }
    Aspect { name: "outliers", level: moved.max(norms), reason }
}

fn geometry(evidence: &Evidence<'_>, permuted: bool) -> Aspect {
    let (level, words) = evidence.level("cka", [0.95, 0.8]);
    let mut reason = format!("CKA {:.3}{words}", evidence.value("cka"));
    if permuted {
        reason += "; the spectra agree, so it is the same geometry under other ids: the ids look permuted";
    }
    Aspect { name: "geometry", level, reason }
}

/// The coordinates as a consumer sees them, and the treatment with which it does.
fn coordinates(evidence: &Evidence<'_>, [raw, aligned]: [f64; 2]) -> (Aspect, &'static str) {
    let text = format!(
        "a coordinate moves by {} of its size, {} after alignment",
        percent(raw),
        percent(aligned)
    );
    let aspect = |level, words: &str| Aspect {
        name: "coordinates",
        level,
        reason: format!("{text}{words}"),
    };
    let of_raw = level(raw, Harm::High, 0.1, 0.3);
    if of_raw == Level::Stable {
        return (aspect(of_raw, ""), "raw");
    }
    let limited = evidence.gates.iter().any(|gate| gate.limit == "max-procrustes-residual");
    let (found, words) = match limited {
        true => evidence.level("procrustes_residual", [f64::NAN; 2]),
        false => (level(aligned, Harm::High, 0.1, 0.3), String::new()),
    };
    let treatment = if found == Level::Unstable { "none" } else { "aligned" };
    (aspect(found, &words), treatment)
}

/// What each kind of consumer can rely on.
fn answers(aspects: &[Aspect], treatment: Option<&'static str>) -> Vec<Answer> {
    let answer = |consumer, names: &[&str], treatment| {
        let used = || aspects.iter().filter(|aspect| names.contains(&aspect.name));
        let level = used().map(|aspect| aspect.level).max().unwrap_or(Level::Stable);
        // The aspects that make the level.
        let reasons: Vec<&str> = used()
            .filter(|aspect| aspect.level == level && !["ids", "outliers"].contains(&aspect.name))
            .map(|aspect| aspect.reason.as_str())
            .collect();
        let all: Vec<&str> =
            used().filter(|a| a.level == level).map(|a| a.reason.as_str()).collect();
        let reason = if reasons.is_empty() { all.join("; ") } else { reasons.join("; ") };
        let treatment = if level == Level::Unstable { "none" } else { treatment };
        Answer { consumer, level, treatment, reason }
    };
    let mut answers = vec![
        answer("retrains", &["ids", "outliers", "geometry"], "raw"),
        answer("searches neighbors", &["ids", "outliers", "geometry", "neighbors"], "raw"),
    ];
    if let Some(treatment) = treatment {
        let names = ["ids", "outliers", "geometry", "coordinates"];
        answers.push(answer("uses coordinates", &names, treatment));
    }
    answers
}

/// The consumers of a sentence.
fn who(consumer: &str, treatment: &str) -> String {
    let aligned = if treatment == "aligned" { " (aligned)" } else { "" };
    match consumer {
        "retrains" => "are retrained".to_owned(),
        "searches neighbors" => "search neighbors".to_owned(),
        _ => format!("use coordinates{aligned} without retraining"),
    }
}

fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// What became of the limits, then what became of the table.
fn sentence(gates: &[Gate], answers: &[Answer], aspects: &[Aspect], permuted: bool) -> String {
    let broken: Vec<String> =
        gates.iter().filter(|gate| !gate.is_kept()).map(Gate::short).collect();
    let unstable = |name: &str| {
        aspects.iter().find(|a| a.name == name && a.level == Level::Unstable).map(|a| &a.reason)
    };
    let damage = if let Some(reason) = unstable("ids") {
        Some(format!("the table itself is broken: {reason}"))
    } else if permuted && unstable("geometry").is_some() {
        Some("the geometry is the same, but it belongs to other ids; the ids look permuted".into())
    } else if let Some(reason) = unstable("outliers") {
        Some(format!("part of the table is damaged: {reason}"))
    } else {
        unstable("geometry").map(|reason| {
            format!("the geometry itself changed ({reason}); no treatment repairs that, consumers must be retrained")
        })
    };
    let table =
        damage.map_or_else(|| by_consumer(answers), |damage| format!("Not safe: {damage}."));
    match (gates.len(), broken.len()) {
        (0, _) => table,
        (1, 0) => format!("The limit is met. {table}"),
        (n, 0) => format!("All {n} limits are met. {table}"),
        (n, of) => {
            let limits =
                if n == 1 { "the limit is".into() } else { format!("{of} of {n} limits are") };
            let mut named =
                broken.iter().take(NAMED_LIMITS).cloned().collect::<Vec<_>>().join(", ");
            if of > NAMED_LIMITS {
                named += &format!(" and {} more", of - NAMED_LIMITS);
            }
            let first = format!("Not safe: {limits} not met, {named}.");
            let more = answers.iter().any(|answer| answer.level == Level::Unstable);
            if more { format!("{first} {}", after_not_safe(&table)) } else { first }
        }
    }
}

/// What became of the table, in a sentence after one that has said that it is not safe.
fn after_not_safe(table: &str) -> String {
    if let Some(consumers) = table.strip_prefix("Not safe for") {
        return format!("Not for{consumers}");
    }
    capitalized(table.strip_prefix("Not safe: ").unwrap_or(table))
}

fn capitalized(text: &str) -> String {
    let first = text.get(..1).map(str::to_uppercase).unwrap_or_default();
    first + text.get(1..).unwrap_or_default()
}

/// For which consumers the vectors are safe, and why not for the others.
fn by_consumer(answers: &[Answer]) -> String {
    if answers.iter().all(|a| a.level == Level::Stable && a.treatment == "raw")
        && answers.len() == 3
    {
        return "Safe without treatment: ids, geometry, neighbors and coordinates held.".into();
    }
    let mut parts: Vec<String> = Vec::new();
    for (level, words) in [
        (Level::Unstable, "not safe for"),
        (Level::Drifting, "safe with care for"),
        (Level::Stable, "safe for"),
    ] {
        let these = || answers.iter().filter(|answer| answer.level == level);
        let who: Vec<String> =
            these().map(|answer| who(answer.consumer, answer.treatment)).collect();
        if who.is_empty() {
            continue;
        }
        let consumers = if parts.is_empty() { "consumers" } else { "those" };
        let mut part = format!("{words} {consumers} that {}", listed(&who));
        if level > Level::Stable {
            let mut reasons: Vec<&str> = these().map(|answer| answer.reason.as_str()).collect();
            reasons.dedup();
            part += &format!(" ({})", reasons.join("; "));
        }
        parts.push(part);
    }
    capitalized(&parts.join("; ")) + "."
}

fn notes(comparison: &Comparison, raw: Option<f64>, new_ids: f64) -> Vec<String> {
    let mut notes = Vec::new();
    if raw.is_some_and(|raw| raw < SAME_MODEL) && new_ids > MANY_NEW {
        notes.push(
            "the shared ids did not move and many ids are new: this is the same model on other rows, a matter of \
             data shift, not of stability"
                .into(),
        );
    }
    if comparison.coordinates.is_none() {
        notes.push(
            "the tables have different dimensions: coordinates and single ids cannot be compared"
                .into(),
        );
    }
    notes
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}
