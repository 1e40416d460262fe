//! A limit on the time that a job may take, such as `90s`, `30m` or `2h`.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Kind, Setting};

/// A time limit, written as a whole number and a unit: `90s`, `30m` or `2h`.
///
/// ```
/// use veridical_core::settings::TimeLimit;
///
/// let limit: TimeLimit = "90m".parse()?;
/// assert_eq!(limit.duration().as_secs(), 5400);
/// assert_eq!(limit.to_string(), "90m");
/// assert!("soon".parse::<TimeLimit>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimit {
    number: u32,
    unit: char,
}

impl TimeLimit {
    /// Makes a limit of some seconds.
    pub const fn seconds(number: u32) -> Self {
        Self { number, unit: 's' }
    }

    /// Returns the limit as a duration.
    pub fn duration(self) -> Duration {
        let seconds = match self.unit {
            'h' => 3600,
            'm' => 60,
            _ => 1,
        };
        Duration::from_secs(u64::from(self.number) * seconds)
    }
}

impl std::str::FromStr for TimeLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text
            .strip_suffix(['s', 'm', 'h'])
            .zip(text.chars().last())
            .and_then(|(number, unit)| Some(Self { number: number.parse().ok()?, unit }));
        parsed
            .filter(|limit| limit.number > 0)
            .ok_or_else(|| format!("must be a time such as 90s, 30m or 2h, got {text}"))
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number, self.unit)
    }
}

impl Serialize for TimeLimit {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeLimit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

impl Setting for TimeLimit {
    const KIND: Kind = Kind::Text;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_without_a_number_or_a_unit_are_refused() {
        for text in ["", "2", "h", "0h", "-1h", "1.5h", "2 h", "2d", "99999999999h", "2\u{e9}"] {
            let error = text.parse::<TimeLimit>().unwrap_err();
            assert_eq!(error, format!("must be a time such as 90s, 30m or 2h, got {text}"));
        }
    }
}
