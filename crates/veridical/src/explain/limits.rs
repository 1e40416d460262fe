//! Limits of `explain`, `explain audit` and `explain labels` in one file: each verb takes its own, and flags come first.

use std::collections::BTreeMap;
use std::path::Path;

use veridical_core::Error as Refusal;

use crate::Result;

/// Names of the limits with the least and the largest value.
const NAMES: [(&str, [f64; 2]); 5] = [
    ("min-tau", [-1.0, 1.0]),
    ("min-agreement", [0.0, 1.0]),
    ("max-tad", [0.0, f64::INFINITY]),
    ("min-stable-top10", [0.0, 1.0]),
    ("max-label-errors", [0.0, 1.0]),
];

/// The limits of a file.
#[derive(Debug, Default)]
pub(crate) struct Limits(BTreeMap<String, f64>);

impl Limits {
    /// Reads a file of limits, if there is one.
    pub fn read(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self::default()) };
        let text = std::fs::read_to_string(path).map_err(|e| {
            let what = format!("{}: cannot read the budget: {e}", path.display());
            Refusal::missing(what, "pass a TOML file such as `min-tau = 0.5`")
        })?;
        let limits = parse(&text)
            .map_err(|what| Refusal::unfit(format!("{}: {what}", path.display()), ""))?;
        Ok(Self(limits))
    }

    /// Returns a limit: the one that was given, else that of the file.
    pub fn or(&self, given: Option<f64>, name: &str) -> Option<f64> {
        given.or_else(|| self.0.get(name).copied())
    }
}

fn parse(text: &str) -> std::result::Result<BTreeMap<String, f64>, String> {
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
        let line = e.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
        format!("line {line}: {}", e.message())
    })?;
    if table.is_empty() {
        return Err("contains no limit, such as `min-tau = 0.5`".into());
    }
    let limit = |(key, value): (&String, &toml::Value)| {
        let Some((_, [least, most])) = NAMES.iter().find(|(name, _)| name == key) else {
            let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            return Err(format!("unknown limit `{key}`; known are {}", known.join(", ")));
        };
        let number = match value {
            toml::Value::Float(x) => Some(*x),
            toml::Value::Integer(x) => Some(*x as f64),
            _ => None,
        };
        let got = number.map_or_else(|| "no number".to_owned(), |x| x.to_string());
        match number.filter(|x| (*least..=*most).contains(x)) {
            Some(number) => Ok((key.clone(), number)),
            None if most.is_finite() => {
                Err(format!("`{key}` must be a number from {least} to {most}, got {got}"))
            }
            None => Err(format!("`{key}` must be a number of at least {least}, got {got}")),
        }
    };
    table.iter().map(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_known_numbers() {
        assert_eq!(parse("min-tau = 0.5\nmax-tad = 1").unwrap()["max-tad"], 1.0);
        let refused = |text: &str| parse(text).unwrap_err();
        assert!(refused("min-tua = 1").starts_with("unknown limit `min-tua`; known are min-tau,"));
        assert_eq!(refused("min-tau = 2"), "`min-tau` must be a number from -1 to 1, got 2");
        assert_eq!(refused("max-tad = -1"), "`max-tad` must be a number of at least 0, got -1");
        assert!(refused("min-tau = ").starts_with("line 1: "));
        assert!(refused("").starts_with("contains no limit"));
    }
}
