//! Merges layers of given values into settings.

use super::{Field, Value, Values};
use crate::{Error, Result};

/// Some values and their origin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SettingsLayer {
    /// The file the values come from, for error messages.
    pub origin: Option<String>,
    /// Setting names without dashes, and their values.
    pub values: Values,
}

impl SettingsLayer {
    /// Creates the layer of the values that the caller gave; null values are dropped.
    pub fn given(mut values: Values) -> Self {
        values.retain(|_, value| !value.is_null());
        Self { origin: None, values }
    }

    /// Prefixes an error with the origin of the layer.
    pub fn refuse(&self, error: Error) -> Error {
        let Some(origin) = &self.origin else { return error };
        Error::request(format!("{origin}: {error}"), "")
    }
}

/// The trait of structs defined by [`settings!`](crate::settings!).
pub trait Settings: Clone + Default {
    /// Returns every field in the order of definition, followed by those of shared structs.
    fn fields() -> Vec<Field>;

    /// Returns every field with its value.
    fn values(&self) -> Values;

    /// Sets the field of this name; returns `false` if it does not exist.
    ///
    /// # Errors
    /// [`Error::Request`] for a value of the wrong kind.
    fn set(&mut self, name: &str, value: &Value) -> Result<bool>;

    /// Returns every field that is not empty, with its value.
    fn given(&self) -> Values {
        let mut values = self.values();
        values.retain(|_, value| !value.is_null());
        values
    }

    /// Creates settings from the given values and the defaults of all others.
    ///
    /// # Errors
    /// Names the setting that does not exist or has a value of the wrong kind.
    fn of(values: &Values) -> Result<Self> {
        let mut settings = Self::default();
        for (name, value) in values {
            if !settings.set(name, value)? {
                let names: Vec<String> =
                    Self::fields().iter().map(|field| format!("`{}`", field.name)).collect();
                let what = format!("there is no setting `{name}`");
                return Err(Error::request(
                    format!("{what}, expected one of {}", names.join(", ")),
                    "",
                ));
            }
        }
        Ok(settings)
    }

    /// Merges layers, highest precedence first; `verb` is the command that has the settings, for error messages.
    ///
    /// # Errors
    /// Names the setting that does not exist or does not fit, and its layer.
    fn layered(verb: &str, layers: &[SettingsLayer]) -> Result<Self> {
        let mut settings = Self::default();
        for layer in layers.iter().rev() {
            for (name, value) in &layer.values {
                if !settings.set(name, value).map_err(|e| layer.refuse(e))? {
                    let what = format!("`{verb}` has no setting `{name}`");
                    return Err(layer.refuse(Error::missing(what, "")));
                }
            }
        }
        settings.check()?;
        Ok(settings)
    }

    /// Checks that every value is within its range, and that required companions are given.
    ///
    /// # Errors
    /// Names the first setting that violates a rule, and the rule.
    fn check(&self) -> Result<()> {
        check(&Self::fields(), &self.values())
    }
}

/// Does the same as [`Settings::check`] for fields that are not in a single struct.
///
/// # Errors
/// Names the first setting that violates a rule, and the rule.
pub fn check(fields: &[Field], values: &Values) -> Result<()> {
    let is_given = |name: &str| {
        let field = fields.iter().find(|field| field.name == name);
        values.get(name).is_some_and(|value| {
            !Field::is_empty(value) && field.is_none_or(|field| *value != field.default)
        })
    };
    for field in fields {
        let Field { name, needs, excludes, .. } = field;
        let Some(value) = values.get(name) else { continue };
        field.check(value)?;
        if field.is_required && Field::is_empty(value) {
            return Err(Error::missing(format!("⟨{name}⟩ is missing"), "give it a value"));
        }
        if !is_given(name) {
            continue;
        }
        if let Some(needed) = needs.iter().find(|needed| !is_given(needed)) {
            return Err(Error::request(format!("⟨{name}⟩ needs ⟨{needed}⟩"), ""));
        }
        if let Some(other) = excludes.iter().find(|other| is_given(other)) {
            return Err(Error::request(format!("⟨{name}⟩ and ⟨{other}⟩ exclude each other"), ""));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::settings;
    use crate::settings::Kind;

    settings! {
        /// Shared by several verbs.
        pub struct Reading in "Reading" {
            /// Encoding of text
            pub encoding: Option<String> = None => [otherwise("utf-8")],
            /// The first line is data
            pub no_header: bool = false => [switch()],
        }
    }

    settings! {
        /// An example.
        pub struct Example {
            /// Values of a vector
            pub dim: usize = 32 => [at_least(1.0), at_most(4096.0)],
            /// Weight of
            /// decay
            pub weight_decay: f64 = 0.5 => [at_least(0.0), below(1.0)],
            /// Lengths of lists
            pub k: Vec<usize> = vec![1, 5] => [by_comma(), at_least(1.0)],
            /// Classes of ids
            pub labels: Option<String> = None,
            /// Column of the classes
            pub label_column: Option<String> = None => [needs(&["labels"])],
            /// Start over
            pub force: bool = false => [switch(), excludes(&["resume"])],
            /// Resume
            pub resume: bool = false => [switch()],
        } with {
            /// How files are read.
            pub reading: Reading,
        }
    }

    fn layer(origin: &str, values: Value) -> SettingsLayer {
        let origin = (!origin.is_empty()).then(|| origin.to_owned());
        SettingsLayer { origin, values: values.as_object().cloned().unwrap() }
    }

    #[test]
    fn fields_come_with_kind_default_and_origin() {
        let fields = Example::fields();
        let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        let own = ["dim", "weight-decay", "k", "labels", "label-column", "force", "resume"];
        assert_eq!(names, [&own[..], &["encoding", "no-header"]].concat());
        assert_eq!((fields[1].help.as_str(), &fields[1].default), ("Weight of decay", &json!(0.5)));
        assert_eq!(fields[2].kind, Kind::List(&Kind::Integer));
        assert_eq!((fields[7].heading, fields[0].heading), (Some("Reading"), None));
        assert!(fields[0].origin.ends_with("tests::Example"), "{}", fields[0].origin);
        let shown: Vec<Option<String>> = fields.iter().map(Field::default_text).collect();
        let text = |shown: &str| Some(shown.to_owned());
        assert_eq!(shown[..4], [text("32"), text("0.5"), text("1,5"), None]);
        assert_eq!(shown[7..], [text("utf-8"), None]);
    }

    #[test]
    fn text_is_parsed_by_kind() {
        let fields = Example::fields();
        let parse = |at: usize, text: &str| fields[at].parse(text);
        assert_eq!(parse(0, "7"), Ok(json!(7)));
        assert_eq!(parse(1, "1"), Ok(json!(1.0)));
        assert_eq!(parse(2, "3, 4"), Ok(json!([3, 4])));
        assert_eq!(parse(5, "on"), Ok(json!(true)));
        let message = |at: usize, text: &str| parse(at, text).unwrap_err().to_string();
        assert_eq!(message(0, "-1"), "⟨dim⟩ must be a whole number, got -1");
        assert_eq!(message(1, "NaN"), "⟨weight-decay⟩ must be a number, got NaN");
        assert_eq!(message(2, "1,x"), "⟨k⟩ must be a whole number, got x");
    }

    #[test]
    fn a_stronger_layer_hides_a_weaker_one_value_by_value() {
        let given = layer("", json!({ "dim": 8 }));
        let file = layer("c.toml", json!({ "dim": 4, "encoding": "latin-1" }));
        let settings = Example::layered("verb", &[given, file]).unwrap();
        assert_eq!((settings.dim, settings.reading.encoding.as_deref()), (8, Some("latin-1")));
        let refused = |values: Value| {
            Example::layered("verb", &[layer("c.toml", values)]).unwrap_err().to_string()
        };
        assert_eq!(refused(json!({ "dims": 3 })), "c.toml: `verb` has no setting `dims`");
        let message = refused(json!({ "dim": "wide" }));
        assert!(message.starts_with("c.toml: ⟨dim⟩: invalid type: string"), "{message}");
    }

    #[test]
    fn ranges_and_companions_are_checked() {
        let refused =
            |values: Value| Example::layered("verb", &[layer("", values)]).unwrap_err().to_string();
        assert_eq!(refused(json!({ "dim": 0 })), "⟨dim⟩ must be from 1 to 4096, got 0");
        assert_eq!(
            refused(json!({ "weight-decay": 1.0 })),
            "⟨weight-decay⟩ must be at least 0 and below 1, got 1.0"
        );
        assert_eq!(refused(json!({ "k": [3, 0] })), "⟨k⟩ must be at least 1, got 0");
        assert_eq!(refused(json!({ "label-column": "x" })), "⟨label-column⟩ needs ⟨labels⟩");
        let both = json!({ "force": true, "resume": true });
        assert_eq!(refused(both), "⟨force⟩ and ⟨resume⟩ exclude each other");
    }

    #[test]
    fn json_has_every_field_and_comes_back() {
        let settings = Example { dim: 3, ..Example::default() };
        let json = serde_json::to_value(&settings).unwrap();
        assert_eq!(json["label-column"], Value::Null);
        assert_eq!(json["no-header"], json!(false));
        assert_eq!(serde_json::from_value::<Example>(json).unwrap(), settings);
        let unknown = serde_json::from_value::<Example>(json!({ "dims": 3 })).unwrap_err();
        assert!(
            unknown.to_string().starts_with("there is no setting `dims`, expected one of `dim`, ")
        );
    }
}
