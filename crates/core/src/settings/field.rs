//! One setting: its name, its meaning and the values it accepts.

use serde_json::{Number, Value};

use super::{Setting, to_value};
use crate::{Error, Result};

/// The kind of value that a setting accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// On or off.
    Bool,
    /// A non-negative integer.
    Integer,
    /// A finite number.
    Number,
    /// Any text.
    Text,
    /// One of a list of names, each with its description.
    Choice(&'static [(&'static str, &'static str)]),
    /// A file or a folder.
    Path(Access),
    /// A list of values of one kind.
    List(&'static Kind),
}

/// How a file or folder that a setting names is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is only read.
    Read,
    /// It is written.
    Written,
}

/// One setting. Its builder methods are the ones used in the brackets of [`settings!`](crate::settings!).
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The setting's name in kebab case.
    pub name: String,
    /// What the setting does; other settings are marked as in errors.
    pub help: String,
    /// The kind of value it accepts.
    pub kind: Kind,
    /// The value used unless one is given.
    pub default: Value,
    /// How the value is determined if none is given, where that depends on something else.
    pub rule: Option<String>,
    /// The name of the struct that defines it.
    pub origin: &'static str,
    /// The heading under which help lists it.
    pub heading: Option<&'static str>,
    /// The placeholder for the value in help.
    pub value_name: Option<&'static str>,
    /// The lower bound, and whether the bound itself is allowed.
    pub low: Option<(f64, bool)>,
    /// The upper bound, and whether the bound itself is allowed.
    pub high: Option<(f64, bool)>,
    /// The settings that must all be given with it.
    pub needs: &'static [&'static str],
    /// The settings that must not be given with it.
    pub excludes: &'static [&'static str],
    /// Whether a value is required.
    pub is_required: bool,
    /// Whether it is a positional argument on the command line.
    pub is_positional: bool,
    /// Whether it is a command-line flag without a value.
    pub is_switch: bool,
    /// Whether the values of a list are separated by commas.
    pub by_comma: bool,
    /// Whether one use on the command line takes several values of a list.
    pub at_once: bool,
    /// Whether the text may begin with a dash.
    pub may_begin_with_dash: bool,
    /// The value of the flag alone on the command line; an explicit value then needs an equals sign.
    pub bare: Option<&'static str>,
    /// Alternative names.
    pub aliases: &'static [&'static str],
    /// The one-letter form of the flag.
    pub letter: Option<char>,
    /// Whether most uses do not need it: short help leaves it out.
    pub is_detail: bool,
    /// Whether a folder of publications is meant as such, not its current version.
    pub is_root: bool,
}

/// Converts a Rust identifier to the kebab case of settings.
pub fn kebab(name: &str) -> String {
    name.replace('_', "-")
}

impl Field {
    /// Creates a field from its declaration.
    #[doc(hidden)]
    pub fn new<T: Setting>(name: &str, help: &str, default: &T, origin: &'static str) -> Self {
        Self {
            name: kebab(name),
            help: help.trim().to_owned(),
            kind: T::KIND,
            default: to_value(default),
            rule: None,
            origin,
            heading: None,
            value_name: None,
            low: None,
            high: None,
            needs: &[],
            excludes: &[],
            is_required: false,
            is_positional: false,
            is_switch: false,
            by_comma: false,
            at_once: false,
            may_begin_with_dash: false,
            bare: None,
            aliases: &[],
            letter: None,
            is_detail: false,
            is_root: false,
        }
    }

    /// Sets the heading under which help lists the setting.
    pub fn heading(mut self, heading: impl Into<Option<&'static str>>) -> Self {
        self.heading = heading.into();
        self
    }

    /// Sets the placeholder for the value in help.
    pub fn value(mut self, name: &'static str) -> Self {
        self.value_name = Some(name);
        self
    }

    /// Describes how the value is determined if none is given.
    pub fn otherwise(mut self, rule: impl Into<String>) -> Self {
        self.rule = Some(rule.into());
        self
    }

    /// Sets an inclusive lower bound.
    pub fn at_least(mut self, low: f64) -> Self {
        self.low = Some((low, true));
        self
    }

    /// Sets an exclusive lower bound.
    pub fn above(mut self, low: f64) -> Self {
        self.low = Some((low, false));
        self
    }

    /// Sets an inclusive upper bound.
    pub fn at_most(mut self, high: f64) -> Self {
        self.high = Some((high, true));
        self
    }

    /// Sets an exclusive upper bound.
    pub fn below(mut self, high: f64) -> Self {
        self.high = Some((high, false));
        self
    }

    /// Names the settings that must all be given with this one.
    pub fn needs(mut self, names: &'static [&'static str]) -> Self {
        self.needs = names;
        self
    }

    /// Names the settings that must not be given with this one.
    pub fn excludes(mut self, names: &'static [&'static str]) -> Self {
        self.excludes = names;
        self
    }

    /// Makes the setting required.
    pub fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    /// Makes it a positional argument on the command line.
    pub fn positional(mut self) -> Self {
        self.is_positional = true;
        self
    }

    /// Makes it a command-line flag without a value.
    pub fn switch(mut self) -> Self {
        self.is_switch = true;
        self
    }

    /// Most uses do not need it: short help leaves it out.
    pub fn detail(mut self) -> Self {
        self.is_detail = true;
        self
    }

    /// A folder of publications is meant as such, not its current version.
    pub fn root(mut self) -> Self {
        self.is_root = true;
        self
    }

    /// Separates the values of a list by commas.
    pub fn by_comma(mut self) -> Self {
        self.by_comma = true;
        self
    }

    /// Lets one use on the command line take several values of a list.
    pub fn at_once(mut self) -> Self {
        self.at_once = true;
        self
    }

    /// Allows text that begins with a dash.
    pub fn dashes(mut self) -> Self {
        self.may_begin_with_dash = true;
        self
    }

    /// Sets the value of the flag alone on the command line.
    pub fn bare(mut self, value: &'static str) -> Self {
        self.bare = Some(value);
        self
    }

    /// Adds alternative names.
    pub fn aliases(mut self, names: &'static [&'static str]) -> Self {
        self.aliases = names;
        self
    }

    /// Adds a one-letter form of the flag.
    pub fn letter(mut self, letter: char) -> Self {
        self.letter = Some(letter);
        self
    }

    /// Parses user input as a value of the field's kind.
    ///
    /// # Errors
    /// [`Error::Setting`] if the text is not of that kind.
    pub fn parse(&self, text: &str) -> Result<Value> {
        self.parse_as(self.kind, text)
    }

    fn parse_as(&self, kind: Kind, text: &str) -> Result<Value> {
        let wrong = |must_be: &'static str| Error::setting(self.name.clone(), must_be, text);
        match kind {
            Kind::Bool => match text {
                "on" | "true" => Ok(Value::Bool(true)),
                "off" | "false" => Ok(Value::Bool(false)),
                _ => Err(wrong("on or off")),
            },
            Kind::Integer => {
                text.parse::<u64>().map(Value::from).map_err(|_| wrong("a whole number"))
            }
            Kind::Number => {
                let number = text.parse::<f64>().ok().and_then(Number::from_f64);
                number.map(Value::Number).ok_or_else(|| wrong("a number"))
            }
            Kind::Choice(choices) if choices.iter().all(|(name, _)| *name != text) => {
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                let must_be = format!("one of {}", names.join(", "));
                Err(Error::setting(self.name.clone(), must_be, text))
            }
            Kind::Text | Kind::Choice(_) | Kind::Path(_) => Ok(Value::from(text)),
            Kind::List(of) if self.by_comma => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                parts.map(|part| self.parse_as(*of, part)).collect()
            }
            Kind::List(of) => Ok(Value::Array(vec![self.parse_as(*of, text)?])),
        }
    }

    /// Whether a value counts as not given: null, empty text or an empty list.
    pub(super) fn is_empty(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            _ => false,
        }
    }

    /// Checks that the numbers in a value are within the range.
    ///
    /// # Errors
    /// [`Error::Setting`] names the first number outside the range.
    pub(super) fn check(&self, value: &Value) -> Result<()> {
        if let Value::Array(list) = value {
            return list.iter().try_for_each(|value| self.check(value));
        }
        let Some(number) = value.as_f64() else { return Ok(()) };
        let holds = self.low.is_none_or(|(low, too)| number > low || too && number == low)
            && self.high.is_none_or(|(high, too)| number < high || too && number == high);
        match holds {
            true => Ok(()),
            false => Err(Error::setting(self.name.clone(), self.range(), value)),
        }
    }

    /// Describes the range in words; empty if there is none.
    pub fn range(&self) -> String {
        if let (Some((low, true)), Some((high, true))) = (self.low, self.high) {
            return format!("from {low} to {high}");
        }
        let low = self.low.map(|(low, too)| match too {
            true => format!("at least {low}"),
            false => format!("above {low}"),
        });
        let high = self.high.map(|(high, too)| match too {
            true => format!("at most {high}"),
            false => format!("below {high}"),
        });
        low.into_iter().chain(high).collect::<Vec<_>>().join(" and ")
    }

    /// Returns the default as help shows it; `None` if there is none worth showing.
    pub fn default_text(&self) -> Option<String> {
        if let Some(rule) = &self.rule {
            return Some(rule.clone());
        }
        fn shown(value: &Value) -> String {
            match value {
                Value::String(text) => text.clone(),
                Value::Bool(true) => "on".into(),
                Value::Bool(false) => "off".into(),
                Value::Array(list) => list.iter().map(shown).collect::<Vec<_>>().join(","),
                other => other.to_string(),
            }
        }
        let says_nothing = self.is_required || self.is_switch || Self::is_empty(&self.default);
        (!says_nothing).then(|| shown(&self.default))
    }
}
