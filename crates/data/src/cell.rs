//! One value of a table with columns of any type.

/// A value as stored in its file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// Text.
    Text(&'a str),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// No value.
    Missing,
}

impl Cell<'_> {
    /// Formats the value for messages.
    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) => shortened(text),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Missing => String::new(),
        }
    }
}

/// Returns at most 40 characters of a text, for messages.
pub fn shortened(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    if short.len() < text.len() { short + "..." } else { short }
}
