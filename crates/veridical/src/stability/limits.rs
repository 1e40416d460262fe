//! Limits as settings: one for every measure, with name and help from the table of measures.

use std::collections::BTreeMap;

use serde_json::Value;
use veridical_core::Result as Checked;
use veridical_core::settings::{Field, Settings, Values, from_value, to_value};
use veridical_inspect::measures::{Harm, KINDS};
use veridical_inspect::{Kind, Limit};
use veridical_io::Input;

use super::read_budget;
use crate::Result;

const ORIGIN: &str = concat!(module_path!(), "::Limits");
const HEADING: &str = "Limits (exit code 1 if one is not met)";
const BUDGET: &str = "budget";

/// Limits that a comparison must meet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Path of a budget file.
    pub budget: Option<Input>,
    /// Limits by name; they override those of the file.
    given: BTreeMap<String, f64>,
}

impl Limits {
    /// Creates limits from a budget file.
    pub fn of_budget(path: impl Into<Input>) -> Self {
        Self { budget: Some(path.into()), ..Self::default() }
    }

    /// Returns the limits of the file, overridden by those given by name.
    ///
    /// # Errors
    /// As [`read_budget`].
    pub fn read(&self) -> Result<Vec<Limit>> {
        let mut limits = self.budget.as_deref().map(read_budget).transpose()?.unwrap_or_default();
        for (name, value) in &self.given {
            let given = Limit::new(name, *value)?;
            limits.retain(|limit| limit.kind != given.kind);
            limits.push(given);
        }
        let place = |limit: &Limit| KINDS.iter().position(|kind| *kind == *limit.kind);
        let of_file = limits.len() - self.given.len();
        limits[of_file..].sort_by_key(place);
        Ok(limits)
    }
}

/// What a limit needs to be measured, for its help.
fn needs(kind: &Kind) -> &'static str {
    match kind.key {
        "metric" => " (needs ⟨labels⟩)",
        "metric_sd" => " (needs ⟨labels⟩ and five runs)",
        _ => "",
    }
}

impl Settings for Limits {
    fn fields() -> Vec<Field> {
        let budget =
            Field::new::<Option<Input>>(BUDGET, "Budget file with limits (TOML)", &None, ORIGIN);
        let limit = |kind: &Kind| {
            let bound = if kind.harm == Harm::Low { "Minimum" } else { "Maximum" };
            let help = format!("{bound} {}: {}{}", kind.label, kind.meaning, needs(kind));
            Field::new::<Option<f64>>(&kind.limit(), &help, &None, ORIGIN)
        };
        let limits = KINDS.iter().map(limit);
        [budget].into_iter().chain(limits).map(|field| field.heading(HEADING)).collect()
    }

    fn values(&self) -> Values {
        let mut values = Values::from_iter([(BUDGET.to_owned(), to_value(&self.budget))]);
        values.extend(KINDS.iter().map(|kind| {
            let name = kind.limit();
            let value = to_value(&self.given.get(&name).copied());
            (name, value)
        }));
        values
    }

    fn set(&mut self, name: &str, value: &Value) -> Checked<bool> {
        if name == BUDGET {
            self.budget = from_value(name, value)?;
            return Ok(true);
        }
        if !KINDS.iter().any(|kind| kind.limit() == name) {
            return Ok(false);
        }
        match from_value::<Option<f64>>(name, value)? {
            Some(value) => self.given.insert(name.to_owned(), value),
            None => self.given.remove(name),
        };
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_measure_has_a_limit_with_its_own_words() {
        let fields = Limits::fields();
        assert_eq!(fields.len(), KINDS.len() + 1);
        assert_eq!(fields[7].name, "min-cka");
        assert!(
            fields[7].help.starts_with("Minimum linear CKA: agreement of "),
            "{}",
            fields[7].help
        );
        assert!(fields[2].help.starts_with("Maximum new ids: "), "{}", fields[2].help);
        for field in fields {
            let of_models = field.name.contains("metric");
            assert_eq!(of_models, field.help.contains("(needs ⟨labels⟩"), "{}", field.help);
        }
    }

    #[test]
    fn a_limit_that_is_given_takes_the_place_of_the_one_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.toml");
        std::fs::write(&path, "min-cka = 0.5\nmax-gram-noise = 0.1\n").unwrap();
        let mut limits = Limits::of_budget(path);
        assert!(limits.set("min-cka", &json!(0.9)).unwrap());
        assert!(limits.set("max-new-ids", &json!(0.2)).unwrap());
        assert!(!limits.set("min-ckb", &json!(0.9)).unwrap());
        let read = limits.read().unwrap();
        let shown: Vec<(String, f64)> = read.iter().map(|l| (l.kind.limit(), l.value)).collect();
        let want = [("max-gram-noise", 0.1), ("max-new-ids", 0.2), ("min-cka", 0.9)];
        assert_eq!(shown, want.map(|(name, value)| (name.to_owned(), value)));
    }
}
