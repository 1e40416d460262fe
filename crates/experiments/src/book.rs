//! The book of results: one row per claim of the papers, as Markdown.
//!
//! The committed one is `experiments/README.md`; `reproduce run --all --keep DIR` writes one of its own results.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;
use veridical::{Error, Result};
use veridical_core::Estimate;
use veridical_report::brief;

use crate::claims::{Answer, Claim, PAPERS, claims};

/// The verdicts of claims, in the order of the summary.
const VERDICTS: [&str; 7] =
    ["replicated", "partly", "refuted", "measured, no rule", "not run yet", "planned", "not run"];

const HEADER: &str = include_str!("book_header.md");

/// What the book needs of a result.
#[derive(Deserialize)]
struct Found {
    rows: Vec<FoundRow>,
}

#[derive(Deserialize)]
struct FoundRow {
    what: String,
    measured: Estimate,
    holds: Option<bool>,
}

/// Returns the book: `results` are outcomes of experiments as JSON, by id.
///
/// # Errors
/// A result without a row that a claim names.
pub fn book(results: &BTreeMap<String, Value>) -> Result<String> {
    let claims = claims()?;
    let mut found = BTreeMap::new();
    for (id, result) in results {
        let result = Found::deserialize(result)
            .map_err(|e| Error::damaged(format!("the result of {id}: {e}"), ""))?;
        found.insert(id.as_str(), result);
    }
    let entries: Vec<Entry<'_>> =
        claims.iter().map(|claim| Entry::new(claim, &found)).collect::<Result<_>>()?;
    let mut text = format!("{HEADER}\n{}", summary(&entries));
    for (paper, title) in PAPERS {
        // Writing to a String cannot fail, here and below.
        let _ = write!(
            text,
            "\n## {paper}: {title}\n\n| claim | paper | ours | verdict |\n|---|---|---|---|\n"
        );
        for entry in entries.iter().filter(|entry| entry.claim.paper == paper) {
            let Entry { claim, ours, verdict } = entry;
            let reported = claim.reported.as_deref().unwrap_or_default();
            let _ = writeln!(
                text,
                "| **{}.** {} | {} | {ours} | {verdict} |",
                cell(&claim.source),
                cell(&claim.says),
                cell(reported)
            );
        }
    }
    Ok(text)
}

fn summary(entries: &[Entry<'_>]) -> String {
    let mut text = format!(
        "| paper | {} | claims |\n|---|{}---|\n",
        VERDICTS.join(" | "),
        "---|".repeat(VERDICTS.len())
    );
    for (paper, _) in PAPERS {
        let of_paper: Vec<_> = entries.iter().filter(|entry| entry.claim.paper == paper).collect();
        let counts = VERDICTS.map(|verdict| {
            match of_paper.iter().filter(|entry| entry.verdict == verdict).count() {
                0 => String::new(),
                n => n.to_string(),
            }
        });
        let _ = writeln!(text, "| {paper} | {} | {} |", counts.join(" | "), of_paper.len());
    }
    text
}

struct Entry<'a> {
    claim: &'a Claim,
    ours: String,
    verdict: &'static str,
}

impl<'a> Entry<'a> {
    fn new(claim: &'a Claim, results: &BTreeMap<&str, Found>) -> Result<Self> {
        let (ours, verdict) = match &claim.answer {
            Answer::Planned(plan) => (cell(plan), "planned"),
            Answer::NotRun(reason) => (cell(reason), "not run"),
            Answer::Experiment { id, rows } => match results.get(id.as_str()) {
                None => (format!("[{id}]({id})"), "not run yet"),
                Some(found) => measured(id, rows, found)?,
            },
        };
        Ok(Self { claim, ours, verdict })
    }
}

/// Our numbers and whether they hold.
fn measured(id: &str, rows: &[String], found: &Found) -> Result<(String, &'static str)> {
    let row = |what: &String| {
        found.rows.iter().find(|row| row.what == *what).ok_or_else(|| {
            let missing =
                format!("the result of {id} has no row `{what}`, which claims.toml names");
            Error::damaged(missing, "")
        })
    };
    let rows = rows.iter().map(row).collect::<Result<Vec<_>>>()?;
    let shown: Vec<String> = rows.iter().map(|row| shown(row)).collect();
    let held: Vec<bool> = rows.iter().filter_map(|row| row.holds).collect();
    let verdict = match held.iter().filter(|held| **held).count() {
        _ if held.is_empty() => "measured, no rule",
        n if n == held.len() => "replicated",
        0 => "refuted",
        _ => "partly",
    };
    Ok((format!("{}<br>[{id}]({id})", shown.join("<br>")), verdict))
}

fn shown(row: &FoundRow) -> String {
    let Estimate { value, low, high, .. } = row.measured;
    let interval = match row.measured.has_interval() {
        true => format!(" ({}, {})", brief(low), brief(high)),
        false => String::new(),
    };
    format!("**{}**{interval} {}", brief(value), cell(&row.what))
}

/// Text inside a table of Markdown.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('*', "\\*").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::REGISTRY;

    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");

    /// An experiment without a result is in the book as one that was not run yet.
    fn committed() -> BTreeMap<String, Value> {
        let read = |id: &str| {
            let text = std::fs::read(format!("{FOLDER}/{id}/result.json")).ok()?;
            Some((id.to_owned(), serde_json::from_slice(&text).unwrap()))
        };
        REGISTRY.iter().filter_map(|experiment| read(experiment.id)).collect()
    }

    /// `UPDATE_GOLDEN=1` writes it.
    #[test]
    fn the_committed_book_is_what_the_results_say() {
        let path = format!("{FOLDER}/README.md");
        let book = book(&committed()).unwrap();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &book).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap();
        assert!(committed == book, "run again with UPDATE_GOLDEN=1 and read the diff");
    }

    #[test]
    fn a_row_that_no_result_has_is_named() {
        let empty = json!({ "rows": [] });
        let results = BTreeMap::from([("000-figure1".to_owned(), empty)]);
        let error = book(&results).unwrap_err().to_string();
        assert!(error.starts_with("the result of 000-figure1 has no row `"), "{error}");
    }

    #[test]
    fn experiments_that_were_not_run_are_listed_as_such() {
        let book = book(&BTreeMap::new()).unwrap();
        assert!(book.contains("| [000-figure1](000-figure1) | not run yet |"), "{book}");
    }
}
