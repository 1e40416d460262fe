//! Settings of a method, defined once: the struct, its defaults, its JSON and the help of its flags.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{Error, Result};

/// Defines a struct of settings: one documented field with its default per line.
macro_rules! settings {
    (
        $(#[doc = $about:expr])*
        pub struct $name:ident {
            $( $(#[doc = $doc:expr])* pub $field:ident: $type:ty = $default:expr, )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
        pub struct $name {
            $( $(#[doc = $doc])* pub $field: $type, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }

        impl $crate::settings::Settings for $name {
            const FIELDS: &'static [(&'static str, &'static str)] =
                &[ $( (stringify!($field), concat!($($doc),*)), )* ];
        }
    };
}
pub(crate) use settings;

/// What the macro `settings!` defines.
pub trait Settings: Default + Serialize + DeserializeOwned {
    /// The fields with their documentation, in their order.
    const FIELDS: &'static [(&'static str, &'static str)];
}

/// One setting, as a flag shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Flag {
    /// The name in kebab case, without dashes before it.
    pub name: String,
    /// What it does.
    pub help: &'static str,
    /// Its value unless the user gives one.
    pub default: Value,
}

impl Flag {
    /// What the user wrote, as a value of the same kind as the default.
    ///
    /// # Errors
    /// [`Error::Setting`] if it is of another kind.
    pub fn parse(&self, text: &str) -> Result<Value> {
        let wrong =
            |must_be: &str| Error::State(format!("--{} must be {must_be}, got {text}", self.name));
        match &self.default {
            Value::Bool(_) => match text {
                "on" | "true" => Ok(Value::Bool(true)),
                "off" | "false" => Ok(Value::Bool(false)),
                _ => Err(wrong("on or off")),
            },
            Value::Number(n) if n.is_f64() => match text.parse::<f64>() {
                Ok(x) if x.is_finite() => Ok(Value::from(x)),
                _ => Err(wrong("a number")),
            },
            Value::Number(_) => {
                text.parse::<u64>().map(Value::from).map_err(|_| wrong("a whole number"))
            }
            _ => Ok(Value::from(text)),
        }
    }
}

/// The flags of a method.
pub fn flags<S: Settings>() -> Vec<Flag> {
    // INVARIANT: settings are structs of numbers, booleans and names.
    let defaults = serde_json::to_value(S::default()).expect("settings serialise");
    let flag = |(field, help): &(&str, &'static str)| {
        let name = field.replace('_', "-");
        Flag { default: defaults[&name].clone(), help: help.trim(), name }
    };
    S::FIELDS.iter().map(flag).collect()
}

/// Settings from the values that were given; the others have their defaults.
///
/// # Errors
/// [`Error::State`] names the setting that does not exist or has a value of another kind.
pub fn parse<S: Settings>(values: &Map<String, Value>) -> Result<S> {
    for (name, value) in values {
        let alone = Map::from_iter([(name.clone(), value.clone())]);
        if let Err(e) = serde_json::from_value::<S>(Value::Object(alone)) {
            let why = e.to_string();
            let why = match why.strip_prefix("unknown field") {
                Some(expected) => format!("there is no setting{expected}"),
                None => format!("--{name}: {why}"),
            };
            return Err(Error::State(why));
        }
    }
    serde_json::from_value(Value::Object(values.clone())).map_err(|e| Error::State(e.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    settings! {
        /// An example.
        pub struct Example {
            /// Values of a vector
            pub dim: usize = 32,
            /// Weight of
            /// decay
            pub weight_decay: f64 = 0.5,
            /// How threads are used
            pub mode: crate::Mode = crate::Mode::Deterministic,
        }
    }

    #[test]
    fn flags_come_from_the_fields() {
        let flags = flags::<Example>();
        let names: Vec<&str> = flags.iter().map(|flag| flag.name.as_str()).collect();
        assert_eq!(names, ["dim", "weight-decay", "mode"]);
        assert_eq!((flags[1].help, &flags[1].default), ("Weight of decay", &json!(0.5)));
        assert_eq!(flags[0].parse("7").unwrap(), json!(7));
        assert_eq!(flags[1].parse("1").unwrap(), json!(1.0));
        let message = |flag: &Flag, text| flag.parse(text).unwrap_err().to_string();
        assert_eq!(message(&flags[0], "-1"), "--dim must be a whole number, got -1");
        assert_eq!(message(&flags[1], "NaN"), "--weight-decay must be a number, got NaN");
    }

    #[test]
    fn values_that_do_not_fit_are_named() {
        let parse = |value: Value| parse::<Example>(value.as_object().unwrap());
        let given = parse(json!({ "dim": 8, "mode": "hogwild" })).unwrap();
        assert_eq!(given, Example { dim: 8, mode: crate::Mode::Hogwild, ..Example::default() });
        let message = parse(json!({ "mode": "fast" })).unwrap_err().to_string();
        assert_eq!(
            message,
            "--mode: unknown variant `fast`, expected `deterministic` or `hogwild`"
        );
        let message = parse(json!({ "dims": 3 })).unwrap_err().to_string();
        assert_eq!(
            message,
            "there is no setting `dims`, expected one of `dim`, `weight-decay`, `mode`"
        );
    }
}
