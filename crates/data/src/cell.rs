//! One value of a table of any kind.

/// A value as its file holds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// Text.
    Text(&'a str),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// Nothing.
    Missing,
}

impl Cell<'_> {
    /// As it stands in messages.
    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) => shortened(text),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Missing => String::new(),
        }
    }
}

/// At most 40 characters of a text, for messages.
pub fn shortened(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    if short.len() < text.len() { short + "..." } else { short }
}
