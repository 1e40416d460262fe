//! One setting: what it is called, what it means, and which values it takes.

use serde_json::{Number, Value};

use super::{Setting, to_value};
use crate::{Error, Result};

/// What kind of value a setting has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Yes or no.
    Bool,
    /// A whole number, not negative.
    Integer,
    /// A finite number.
    Number,
    /// Text.
    Text,
    /// One of these names, each with what it means.
    Choice(&'static [(&'static str, &'static str)]),
    /// A file or a folder.
    Path(Access),
    /// Any number of these.
    List(&'static Kind),
}

/// What happens to a file or a folder that a setting names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is read, and never touched.
    Read,
    /// It is written.
    Written,
}

/// One setting. The methods are what stands in the brackets of [`settings!`](crate::settings!).
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The name in kebab case.
    pub name: String,
    /// What it does; other settings are marked as in errors.
    pub help: String,
    /// What kind of value it has.
    pub kind: Kind,
    /// Its value unless one is given.
    pub default: Value,
    /// What is done without a value, where that depends on something else.
    pub rule: Option<String>,
    /// The struct that defines it.
    pub origin: &'static str,
    /// Under which heading help lists it.
    pub heading: Option<&'static str>,
    /// What stands for the value in help.
    pub value_name: Option<&'static str>,
    /// The smallest value, and whether it is allowed itself.
    pub low: Option<(f64, bool)>,
    /// The largest value, and whether it is allowed itself.
    pub high: Option<(f64, bool)>,
    /// It makes sense only with all of these.
    pub needs: &'static [&'static str],
    /// It makes no sense with any of these.
    pub excludes: &'static [&'static str],
    /// It must be given.
    pub is_required: bool,
    /// The command line takes it by its place.
    pub is_positional: bool,
    /// The command line takes it without a value.
    pub is_switch: bool,
    /// The values of a list stand between commas.
    pub by_comma: bool,
    /// The command line takes several values of a list at once.
    pub at_once: bool,
    /// Text that may begin with a dash.
    pub may_begin_with_dash: bool,
    /// What it means without a value on the command line; a value then needs an equals sign.
    pub bare: Option<&'static str>,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// A single letter.
    pub letter: Option<char>,
}

/// A name of Rust as settings spell it.
pub fn kebab(name: &str) -> String {
    name.replace('_', "-")
}

impl Field {
    /// A field as it is declared.
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
        }
    }

    /// Under which heading help lists it.
    pub fn heading(mut self, heading: impl Into<Option<&'static str>>) -> Self {
        self.heading = heading.into();
        self
    }

    /// What stands for the value in help.
    pub fn value(mut self, name: &'static str) -> Self {
        self.value_name = Some(name);
        self
    }

    /// What is done without a value, in words.
    pub fn otherwise(mut self, rule: impl Into<String>) -> Self {
        self.rule = Some(rule.into());
        self
    }

    /// The smallest value.
    pub fn at_least(mut self, low: f64) -> Self {
        self.low = Some((low, true));
        self
    }

    /// Every value is larger.
    pub fn above(mut self, low: f64) -> Self {
        self.low = Some((low, false));
        self
    }

    /// The largest value.
    pub fn at_most(mut self, high: f64) -> Self {
        self.high = Some((high, true));
        self
    }

    /// Every value is smaller.
    pub fn below(mut self, high: f64) -> Self {
        self.high = Some((high, false));
        self
    }

    /// It makes sense only with all of these.
    pub fn needs(mut self, names: &'static [&'static str]) -> Self {
        self.needs = names;
        self
    }

    /// It makes no sense with any of these.
    pub fn excludes(mut self, names: &'static [&'static str]) -> Self {
        self.excludes = names;
        self
    }

    /// It must be given.
    pub fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    /// The command line takes it by its place.
    pub fn positional(mut self) -> Self {
        self.is_positional = true;
        self
    }

    /// The command line takes it without a value.
    pub fn switch(mut self) -> Self {
        self.is_switch = true;
        self
    }

    /// The values of a list stand between commas.
    pub fn by_comma(mut self) -> Self {
        self.by_comma = true;
        self
    }

    /// The command line takes several values of a list at once.
    pub fn at_once(mut self) -> Self {
        self.at_once = true;
        self
    }

    /// Text that may begin with a dash.
    pub fn dashes(mut self) -> Self {
        self.may_begin_with_dash = true;
        self
    }

    /// What it means without a value on the command line.
    pub fn bare(mut self, value: &'static str) -> Self {
        self.bare = Some(value);
        self
    }

    /// Other names.
    pub fn aliases(mut self, names: &'static [&'static str]) -> Self {
        self.aliases = names;
        self
    }

    /// A single letter.
    pub fn letter(mut self, letter: char) -> Self {
        self.letter = Some(letter);
        self
    }

    /// What the user wrote, as a value of its kind.
    ///
    /// # Errors
    /// [`Error::Setting`] if it is of another kind.
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

    /// Whether a value says nothing: none, an empty text, an empty list.
    pub(super) fn is_empty(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            _ => false,
        }
    }

    /// Whether the numbers in a value are inside the range.
    ///
    /// # Errors
    /// [`Error::Setting`].
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

    /// The range in words; empty if there is none.
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

    /// What holds without a value, as help shows it; `None` if that is nothing.
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
