//! From layers of given values to settings.

use super::{Field, Value, Values};
use crate::{Error, Result};

/// Some values and where they come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    /// A file, for messages.
    pub origin: Option<String>,
    /// Names without dashes, and their values.
    pub values: Values,
}

impl Layer {
    /// What the caller gave; values that are null were not.
    pub fn given(mut values: Values) -> Self {
        values.retain(|_, value| !value.is_null());
        Self { origin: None, values }
    }

    /// An error with the place of the layer before it.
    pub fn refuse(&self, error: Error) -> Error {
        let Some(origin) = &self.origin else { return error };
        Error::request(format!("{origin}: {error}"), "")
    }
}

/// What [`settings!`](crate::settings!) defines.
pub trait Settings: Clone + Default {
    /// Every field in the order of the definition, those of shared structs behind the own ones.
    fn fields() -> Vec<Field>;

    /// Every field with its value.
    fn values(&self) -> Values;

    /// Sets the field of this name; `false` if there is none.
    ///
    /// # Errors
    /// [`Error::Request`] for a value of another kind.
    fn set(&mut self, name: &str, value: &Value) -> Result<bool>;

    /// Every field that says something, with its value.
    fn given(&self) -> Values {
        let mut values = self.values();
        values.retain(|_, value| !value.is_null());
        values
    }

    /// The values given, and the defaults of the others.
    ///
    /// # Errors
    /// Names the setting that does not exist or has a value of another kind.
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

    /// From layers, the strongest first; `verb` is who has the settings, for messages.
    ///
    /// # Errors
    /// Names the setting that does not exist or does not fit, and its layer.
    fn layered(verb: &str, layers: &[Layer]) -> Result<Self> {
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

    /// Whether every value is inside its range and those that go together are there.
    ///
    /// # Errors
    /// Names the first setting that does not fit, and the rule.
    fn check(&self) -> Result<()> {
        check(&Self::fields(), &self.values())
    }
}

/// As [`Settings::check`], of fields that stand in no single struct.
///
/// # Errors
/// As there.
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
            /// Their column
            pub label_column: Option<String> = None => [needs(&["labels"])],
            /// Start over
            pub force: bool = false => [switch(), excludes(&["resume"])],
            /// Go on
            pub resume: bool = false => [switch()],
        } with {
            /// How files are read.
            pub reading: Reading,
        }
    }

    fn layer(origin: &str, values: Value) -> Layer {
        let origin = (!origin.is_empty()).then(|| origin.to_owned());
        Layer { origin, values: values.as_object().cloned().unwrap() }
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
        let told = |text: &str| Some(text.to_owned());
        assert_eq!(shown[..4], [told("32"), told("0.5"), told("1,5"), None]);
        assert_eq!(shown[7..], [told("utf-8"), None]);
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
