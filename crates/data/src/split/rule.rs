//! How a split is written: `none`, `random:0.2`, `leave-last-one`, `per-user:50`, `temporal:0.2`.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// A rule that splits interactions into training and test rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum SplitRule {
    /// `none`: every row is a training row.
    #[default]
    None,
    /// `random:0.2`: a random share of the rows is the test set, regardless of users.
    Random(f64),
    /// `leave-last-one`: the last row of every user by time is the test set. Leaks time across users.
    LeaveLastOne,
    /// `per-user:50`: this many rows of every user are the training set, the others are held out.
    PerUser(usize),
    /// `temporal:0.2`: the latest share of all rows is the test set.
    Temporal(f64),
}

const FORMS: &str = "none, random:0.2 (a share of the rows), leave-last-one, per-user:50 (rows of every \
                     user that are learned from) or temporal:0.2 (the latest share of the rows)";

impl fmt::Display for SplitRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "none"),
            Self::Random(share) => write!(f, "random:{share}"),
            Self::LeaveLastOne => write!(f, "leave-last-one"),
            Self::PerUser(rows) => write!(f, "per-user:{rows}"),
            Self::Temporal(share) => write!(f, "temporal:{share}"),
        }
    }
}

impl FromStr for SplitRule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refused = |what: &str| Error::request(format!("⟨split⟩: `{text}` {what}"), "");
        let (name, value) = match text.split_once(':') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let share = |value: &str| match value.parse::<f64>() {
            Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
            _ => Err(refused("needs a share between 0 and 1, such as 0.2")),
        };
        Ok(match (name, value) {
            ("none", None) => Self::None,
            ("leave-last-one" | "leave-last-one-out" | "loo", None) => Self::LeaveLastOne,
            ("random", Some(value)) => Self::Random(share(value)?),
            ("temporal", Some(value)) => Self::Temporal(share(value)?),
            ("per-user", Some(value)) => match value.parse() {
                Ok(rows) if rows > 0 => Self::PerUser(rows),
                _ => return Err(refused("needs a number of rows of at least 1, such as 50")),
            },
            _ => return Err(refused(&format!("is not a split; use {FORMS}"))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_as_it_is_written() {
        for text in ["none", "random:0.2", "leave-last-one", "per-user:50", "temporal:0.05"] {
            assert_eq!(text.parse::<SplitRule>().unwrap().to_string(), text);
        }
        for text in ["loo", "leave-last-one-out"] {
            assert_eq!(text.parse::<SplitRule>().unwrap(), SplitRule::LeaveLastOne);
        }
    }

    #[test]
    fn an_invalid_rule_is_refused_with_the_valid_forms() {
        let message = |text: &str| text.parse::<SplitRule>().unwrap_err().to_string();
        for share in ["0", "1", "-0.1", "NaN", "x", ""] {
            let want =
                format!("⟨split⟩: `random:{share}` needs a share between 0 and 1, such as 0.2");
            assert_eq!(message(&format!("random:{share}")), want);
        }
        assert!(message("per-user:0").contains("needs a number of rows of at least 1"));
        for other in ["", "random", "none:1", "leave-last-one:2", "k-fold"] {
            assert!(message(other).contains("is not a split; use none, random:0.2"), "{other}");
        }
    }
}
