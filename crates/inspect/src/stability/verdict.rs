//! The verdict: from measures to a plain sentence, by the thresholds listed here and in `docs/stability.md`.
//!
//! | aspect | stable | drifting | unstable |
//! |---|---|---|---|
//! | ids | 99 % kept, 0.1 % zero, 1 % repeated, norms within 10 % | 90 %, 1 %, 5 %, 50 % | beyond |
//! | coordinates | sd at most 0.1 of their size | 0.3 | beyond |
//! | geometry | CKA at least 0.95 | 0.8 | below |
//! | neighbors | overlap at least 0.8 | 0.5 | below |
//! | downstream | sd of the accuracy at most 0.005 | 0.02 | beyond |
//!
//! With a noise floor, geometry and neighbors are stable where they are no worse than its 99 % quantile, and at best
//! drifting where they are worse.

use serde::Serialize;

use crate::stability::measures::{Harm, Measure};
use crate::stability::{Comparison, Downstream};

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
    /// The aspect: `ids`, `coordinates`, `geometry`, `neighbors` or `downstream`.
    pub name: &'static str,
    /// The level of stability.
    pub level: Level,
    /// The numbers behind it.
    pub reason: String,
}

/// The recommendation for today's vectors.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The summary in one sentence.
    pub sentence: String,
    /// The worst level of ids, geometry and neighbors, which no treatment can repair.
    pub level: Level,
    /// The level and numbers of each aspect.
    pub aspects: Vec<Aspect>,
    /// The recommended treatment: `raw`, `aligned`, a feature map, or `none`.
    pub treatment: String,
    /// The reason for that treatment.
    pub evidence: String,
    /// Further observations.
    pub notes: Vec<String>,
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

/// Derives the verdict from the measures.
pub fn verdict(
    measures: &[Measure],
    comparison: &Comparison,
    downstream: Option<&Downstream>,
) -> Verdict {
    let found = |key: &str| measures.iter().find(|m| m.key == key);
    let value = |key: &str| found(key).and_then(|m| m.estimate).map_or(f64::NAN, |e| e.value);
    let mut notes = Vec::new();
    let mut aspects = Vec::new();
    if found("shared_ids").is_some() {
        aspects.push(ids(&value));
    }
    let relative = comparison
        .coordinates
        .as_ref()
        .and_then(|c| Some([c.relative_sd?.value, c.aligned_relative_sd?.value]));
    if let Some([raw, aligned]) = relative {
        aspects.push(Aspect {
            name: "coordinates",
            level: level(raw, Harm::High, 0.1, 0.3),
            reason: format!(
                "a coordinate moves by {} of its size, {} after alignment",
                percent(raw),
                percent(aligned)
            ),
        });
    }
    let aspect = |key: &'static str, name, stable, drifting, words: &dyn Fn(f64) -> String| {
        let value = value(key);
        let harm = Harm::Low;
        let floor = found(key).and_then(|m| m.floor);
        let mut level = level(value, harm, stable, drifting);
        let mut reason = words(value);
        if let Some(floor) = floor {
            let no_worse = value >= floor.quantile;
            level = if no_worse { Level::Stable } else { level.max(Level::Drifting) };
            let how = if no_worse { "no worse than" } else { "worse than" };
            reason += &format!("; {how} retraining on the same data ({:.3})", floor.estimate.value);
        }
        Aspect { name, level, reason }
    };
    let permuted = value("cka") < UNRELATED && comparison.spectra < SAME_SPECTRA;
    let mut geometry = aspect("cka", "geometry", 0.95, 0.8, &|cka| format!("CKA {cka:.3}"));
    if permuted {
        geometry.reason += "; the spectra agree, so it is the same geometry under other ids: the ids look permuted";
    }
    let geometry_level = geometry.level;
    aspects.push(geometry);
    let k = comparison.k;
    aspects.push(aspect("nn_overlap", "neighbors", 0.8, 0.5, &|overlap| {
        format!("{} of the {k} nearest neighbors stay", percent(overlap))
    }));
    let sd = downstream.and_then(|d| d.treatments.first()).and_then(|raw| raw.accuracy.sd);
    if let Some(sd) = sd {
        aspects.push(Aspect {
            name: "downstream",
            level: level(sd.value, Harm::High, 0.005, 0.02),
            reason: format!(
                "the accuracy of a retrained model has an sd of {:.2} points",
                100.0 * sd.value
            ),
        });
    }
    let unmoved = relative.is_some_and(|[raw, _]| raw < SAME_MODEL);
    if unmoved && value("new_ids") > MANY_NEW {
        notes.push(
            "the shared ids did not move and many ids are new: this is the same model on other rows, a matter of \
             data shift, not of stability"
                .into(),
        );
    }
    let of = |name: &str| aspects.iter().find(|a| a.name == name).map(|a| a.level);
    let repairable = ["ids", "geometry", "neighbors"];
    let worst = repairable.iter().filter_map(|name| of(name)).max().unwrap_or(Level::Unstable);
    let coordinates = of("coordinates").unwrap_or(Level::Unstable);
    let cka = value("cka");
    let (sentence, treatment, evidence) = if of("ids") == Some(Level::Unstable) {
        (
            "Not safe: the table itself is broken, see the ids.".to_owned(),
            "none",
            "repair the table first",
        )
    } else if permuted {
        let text = "Not safe: the geometry is the same, but it belongs to other ids; the ids look permuted.";
        (text.to_owned(), "none", "fix the ids first")
    } else if geometry_level == Level::Unstable {
        let text = format!(
            "Not safe: the geometry itself changed (CKA {cka:.2}); no treatment repairs that, consumers must retrain."
        );
        (text, "none", "retrain the consumers, or keep yesterday's vectors")
    } else if coordinates == Level::Stable {
        let text = format!("Safe without treatment: coordinates and geometry held (CKA {cka:.3}).");
        (text, "raw", "coordinates held")
    } else {
        let text = format!(
            "Safe for consumers that retrain or use aligned vectors: the geometry held (CKA \
             {cka:.3}), the coordinates did not."
        );
        (text, "aligned", "only alignment restores the coordinates")
    };
    let mut verdict = Verdict {
        sentence,
        level: worst,
        aspects,
        treatment: treatment.to_owned(),
        evidence: evidence.to_owned(),
        notes,
    };
    if let Some(downstream) = downstream.filter(|_| treatment != "none") {
        let r = &downstream.recommendation;
        verdict.treatment = r.unretrained.clone();
        verdict.evidence = format!(
            "on the labels: {} for retrained models ({}), {} for models that are not retrained ({})",
            r.retrained,
            percent(r.retrained_accuracy),
            r.unretrained,
            percent(r.unretrained_accuracy),
        );
    }
    verdict
}

fn ids(value: &dyn Fn(&str) -> f64) -> Aspect {
    let zero_if_none = |x: f64| if x.is_nan() { 0.0 } else { x };
    let parts = [
        ("shared_ids", Harm::Low, 0.99, 0.9, "of the ids are kept"),
        ("zero_vectors", Harm::High, 0.001, 0.01, "of the vectors are zero"),
        ("duplicate_vectors", Harm::High, 0.01, 0.05, "of the vectors repeat another"),
        ("norm_change", Harm::High, 0.1, 0.5, "change of the median norm"),
    ];
    let levels = parts.map(|(key, harm, stable, drifting, words)| {
        let x = zero_if_none(value(key));
        (level(x, harm, stable, drifting), format!("{} {words}", percent(x)))
    });
    let worst = levels.iter().map(|(level, _)| *level).max().unwrap_or(Level::Stable);
    let reasons: Vec<String> = levels
        .into_iter()
        .enumerate()
        .filter(|(at, (level, _))| *at == 0 || *level > Level::Stable)
        .map(|(_, (_, text))| text)
        .collect();
    Aspect { name: "ids", level: worst, reason: reasons.join(", ") }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}
