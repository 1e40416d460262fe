//! `budget.toml`: the limits that a refresh must meet.
//!
//! ```toml
//! # 10 runs on identical data, 45 pairs
//! min-nn-overlap = 0.71
//! min-cka = 0.97
//! ```
//!
//! One key per limit, named as the flag: `min-` or `max-` and a measure.

use std::path::Path;

use veridical_core::Error;
use veridical_inspect::measures::KINDS;
use veridical_inspect::{Comparison, Kind, Limit, propose};

use crate::Result;

/// Reads a budget file.
///
/// # Errors
/// [`Error::Missing`] for a file that cannot be read; [`Error::Unfit`] names the file, the key and the valid names or
/// values.
pub fn read_budget(path: &Path) -> Result<Vec<Limit>> {
    let text = std::fs::read_to_string(path).map_err(|e| {
        Error::missing(format!("{}: cannot read the budget: {e}", path.display()), "")
    })?;
    Ok(parse(&text).map_err(|what| Error::unfit(format!("{}: {what}", path.display()), ""))?)
}

fn parse(text: &str) -> std::result::Result<Vec<Limit>, String> {
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
        let line = e.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
        format!("line {line}: {}", e.message())
    })?;
    if table.is_empty() {
        return Err("contains no limit; `veridical stability budget` proposes some".into());
    }
    table.iter().map(|(key, value)| limit(key, value)).collect()
}

fn limit(key: &str, value: &toml::Value) -> std::result::Result<Limit, String> {
    Kind::of_limit(key).map_err(|e| e.to_string())?;
    let value = match value {
        toml::Value::Float(x) => Some(*x),
        toml::Value::Integer(x) => Some(*x as f64),
        _ => None,
    };
    let value = value.filter(|x| x.is_finite());
    let value = value.ok_or_else(|| format!("`{key}` must be a number, such as 0.9"))?;
    Limit::new(key, value).map_err(|e| match e {
        Error::Setting { must_be, got, .. } => format!("`{key}` must be {must_be}, got {got}"),
        other => other.to_string(),
    })
}

/// The fewest runs for a budget: two are one pair, which says nothing on how much pairs differ.
const LEAST_RUNS: usize = 3;

/// Rejects too few runs for a budget, before any work is done.
///
/// # Errors
/// [`Error::Request`] says how to make more.
pub fn check_runs(runs: usize) -> Result<()> {
    if runs >= LEAST_RUNS {
        return Ok(());
    }
    let found = match runs {
        0 => "got none".to_owned(),
        1 => "got one".to_owned(),
        _ => format!("got {runs}, which are one pair"),
    };
    let what = format!("a budget needs at least {LEAST_RUNS} runs on identical data, {found}");
    let hint = "train more of them: `veridical train METHOD ⟨seeds⟩ 10 ⟨out⟩ RUNS` with the flags of the first, and \
                `veridical stability budget RUNS`";
    Err(Error::request(what, hint).into())
}

/// Returns the limits that runs on identical data meet, and the text of the budget file.
///
/// # Errors
/// Those of [`check_runs`].
pub fn proposed(floor: &Comparison, runs: usize, seed: u64) -> Result<(Vec<Limit>, String)> {
    check_runs(runs)?;
    let pairs = floor.nn_overlap.pairs.len();
    let mut limits: Vec<Limit> = KINDS.iter().filter_map(|kind| propose(floor, kind)).collect();
    let mut text = format!(
        "# Limits that {runs} runs on identical data keep: the 99 % quantile of {pairs} pairs (the harmful end of each\n\
         # pair's 95 % interval; seed {seed}). A refresh beyond them changes more than training again does.\n"
    );
    if pairs <= 100 {
        text += "# Up to 100 pairs: the worst pair seen.\n";
    }
    let line = |Limit { kind, value }: &Limit| {
        format!("\n# {}\n{} = {value:?}\n", kind.meaning, kind.limit())
    };
    text.extend(limits.iter().map(line));
    text += "\n# Not measured on runs of identical data; set them by what your consumers bear.\n";
    let by_hand = [("min-shared-ids", 0.99), ("max-zero-vectors", 0.0), ("max-norm-change", 0.2)];
    let by_hand: Vec<Limit> = by_hand
        .into_iter()
        .map(|(name, value)| Limit::new(name, value))
        .collect::<std::result::Result<_, Error>>()?;
    text.extend(by_hand.iter().map(line));
    limits.extend(by_hand);
    Ok((limits, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_limits_by_name() {
        let limits = parse("min-cka = 0.9\n# why\nmax-zero-vectors = 0\n").unwrap();
        let found: Vec<(String, f64)> = limits.iter().map(|l| (l.kind.limit(), l.value)).collect();
        assert_eq!(found, [("max-zero-vectors".into(), 0.0), ("min-cka".into(), 0.9)]);
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(
            parse("min-ckaa = 1").unwrap_err(),
            "there is no limit `min-ckaa`; did you mean `min-cka`?"
        );
        assert_eq!(
            parse("min-overlap = 1").unwrap_err(),
            "there is no limit `min-overlap`; did you mean `min-nn-overlap`?"
        );
        let listed = parse("latency = 1").unwrap_err();
        assert!(
            listed.starts_with("there is no limit `latency`; there are min-shared-ids, "),
            "{listed}"
        );
        assert_eq!(
            parse("min-cka = 2").unwrap_err(),
            "`min-cka` must be a number from -1 to 1, got 2"
        );
        assert_eq!(
            parse("max-gram-noise = -0.5").unwrap_err(),
            "`max-gram-noise` must be a number of at least 0, got -0.5"
        );
        assert!(parse("min-cka = \"a\"").unwrap_err().contains("must be a number"));
        assert!(parse("min-cka = nan").unwrap_err().contains("must be a number"));
        assert!(parse("min-cka 0.9\n").unwrap_err().starts_with("line 1: "));
        assert!(parse("").unwrap_err().contains("no limit"));
    }
}
