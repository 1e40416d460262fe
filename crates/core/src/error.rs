//! What can go wrong, grouped by who can fix it.
//!
//! A message marks a setting as `⟨name⟩` or `⟨name value⟩`, without dashes: the command line renders it as `--name value`,
//! Python as `name=value`, and no caller has to search sentences for flags ([`render`]).

use std::borrow::Cow;

/// The result of a fallible Veridical function.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong. Variants with a `hint` say there what to do; the hint is empty where `what` already says it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is outside its range: the caller changes the setting.
    #[error("⟨{name}⟩ must be {must_be}, got {got}")]
    Setting {
        /// The name of the setting as the user knows it, without dashes.
        name: Cow<'static, str>,
        /// The rule that the value violates, such as `at least 1`.
        must_be: Cow<'static, str>,
        /// The value that was passed.
        got: String,
    },
    /// The settings exclude each other, or do not match the data.
    #[error("{}", with_hint(what, hint))]
    Request {
        /// What was requested, and why it is impossible.
        what: String,
        /// What the caller can do about it.
        hint: String,
    },
    /// Something required does not exist.
    #[error("{}", with_hint(what, hint))]
    Missing {
        /// What is missing.
        what: String,
        /// What the caller can do about it.
        hint: String,
    },
    /// The output already exists, or is being written.
    #[error("{}", with_hint(what, hint))]
    Exists {
        /// What already exists.
        what: String,
        /// What the caller can do about it.
        hint: String,
    },
    /// Sizes do not match.
    #[error("{}", with_hint(what, hint))]
    Shape {
        /// The sizes found, and the sizes expected.
        what: String,
        /// What the caller can do about it.
        hint: String,
    },
    /// The data can be read but not used: too few rows, values that are NaN, duplicate ids.
    #[error("{}", with_hint(what, hint))]
    Unfit {
        /// What is wrong with the data, and where.
        what: String,
        /// What the caller can do about it.
        hint: String,
    },
    /// Stored state is corrupt or inconsistent.
    #[error("{}", with_hint(what, hint))]
    Damaged {
        /// What is wrong with the state, and where.
        what: String,
        /// What the caller can do about it.
        hint: String,
    },
    /// The loss is no longer finite.
    #[error("{place}: the loss is {loss} at learning rate {rate}: training diverged; {hint}")]
    Diverged {
        /// The epoch or step at which training diverged, counted from 1.
        place: String,
        /// The loss at that point: NaN or infinite.
        loss: f64,
        /// The learning rate at that point.
        rate: f64,
        /// What the caller can do about it.
        hint: String,
    },
    /// The user asked the job to stop.
    #[error("interrupted")]
    Interrupted,
    /// The operating system rejected a request.
    #[error("cannot {what}: {why}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// The reason the system reported.
        why: String,
    },
    /// A broken invariant: a bug in Veridical, not in the input.
    #[error("internal error: {0}; please report it")]
    Internal(String),
}

fn with_hint(what: &str, hint: &str) -> String {
    if hint.is_empty() { what.to_owned() } else { format!("{what}; {hint}") }
}

macro_rules! constructors {
    ($( $(#[doc = $doc:expr])* $name:ident = $kind:ident; )*) => {
        impl Error {
            $( $(#[doc = $doc])*
            pub fn $name(what: impl Into<String>, hint: impl Into<String>) -> Self {
                Self::$kind { what: what.into(), hint: hint.into() }
            } )*
        }
    };
}

constructors! {
    /// Creates an [`Error::Request`].
    request = Request;
    /// Creates an [`Error::Missing`].
    missing = Missing;
    /// Creates an [`Error::Exists`].
    exists = Exists;
    /// Creates an [`Error::Shape`].
    shape = Shape;
    /// Creates an [`Error::Unfit`].
    unfit = Unfit;
    /// Creates an [`Error::Damaged`].
    damaged = Damaged;
}

impl Error {
    /// Returns the kind of error in one word, for programs.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Setting { .. } => "setting",
            Self::Request { .. } => "request",
            Self::Missing { .. } => "missing",
            Self::Exists { .. } => "exists",
            Self::Shape { .. } => "shape",
            Self::Unfit { .. } => "unfit",
            Self::Damaged { .. } => "damaged",
            Self::Diverged { .. } => "diverged",
            Self::Interrupted => "interrupted",
            Self::System { .. } => "system",
            Self::Internal(_) => "internal",
        }
    }

    /// Creates an [`Error::Setting`].
    ///
    /// ```
    /// let error = veridical_core::Error::setting("dim", "at least 1", 0);
    /// assert_eq!(error.to_string(), "⟨dim⟩ must be at least 1, got 0");
    /// ```
    pub fn setting(
        name: impl Into<Cow<'static, str>>,
        must_be: impl Into<Cow<'static, str>>,
        got: impl ToString,
    ) -> Self {
        Self::Setting { name: name.into(), must_be: must_be.into(), got: got.to_string() }
    }

    /// Replaces the setting's name by `other`, the name under which the caller's users know it.
    pub fn named(mut self, other: impl Into<Cow<'static, str>>) -> Self {
        if let Self::Setting { name, .. } = &mut self {
            *name = other.into();
        }
        self
    }

    /// Returns whether the user interrupted the job; results so far are kept.
    pub const fn is_interrupted(&self) -> bool {
        matches!(self, Self::Interrupted)
    }
}

/// Renders every marked setting in `text` with `show`, which receives its name and, if present, its value.
///
/// ```
/// use veridical_core::error::render;
///
/// let text = "the output exists; continue with ⟨resume⟩ or read it with ⟨format csv⟩";
/// let flags = render(text, |name, value| match value {
///     Some(value) => format!("--{name} {value}"),
///     None => format!("--{name}"),
/// });
/// assert_eq!(flags, "the output exists; continue with --resume or read it with --format csv");
/// ```
pub fn render(text: &str, show: impl Fn(&str, Option<&str>) -> String) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, marked)) = rest.split_once('⟨') {
        shown.push_str(before);
        let Some((marked, after)) = marked.split_once('⟩') else {
            shown.push('⟨');
            rest = marked;
            continue;
        };
        let (name, value) =
            marked.split_once(' ').map_or((marked, None), |(name, value)| (name, Some(value)));
        shown.push_str(&show(name, value));
        rest = after;
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_that_is_not_closed_is_text() {
        let show = |name: &str, _: Option<&str>| format!("<{name}>");
        assert_eq!(render("a ⟨b⟩ c ⟨d", show), "a <b> c ⟨d");
        assert_eq!(render("", show), "");
        assert_eq!(render("⟨x y⟩⟨z⟩", show), "<x><z>");
    }

    #[test]
    fn what_and_hint_are_one_sentence() {
        assert_eq!(Error::missing("no rows", "").to_string(), "no rows");
        let shown = Error::exists("out exists", "replace it with ⟨force⟩").to_string();
        assert_eq!(shown, "out exists; replace it with ⟨force⟩");
        let shown = Error::setting("lr", "above 0", -1).to_string();
        assert_eq!(shown, "⟨lr⟩ must be above 0, got -1");
    }
}
