//! What can go wrong, by who can put it right.
//!
//! A text names a setting as `⟨name⟩`, or `⟨name value⟩`, without dashes: the command line renders `--name value`, Python
//! `name=value`, and nobody has to search sentences for flags ([`render`]).

use std::borrow::Cow;

/// The result of a computation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong. Each kind with a `hint` says there what to do; it may be empty where `what` says it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is outside its range: the caller changes the setting.
    #[error("⟨{name}⟩ must be {must_be}, got {got}")]
    Setting {
        /// The setting as the user knows it, without dashes.
        name: Cow<'static, str>,
        /// The rule it broke.
        must_be: Cow<'static, str>,
        /// The value that was given.
        got: String,
    },
    /// Settings that exclude each other, or that do not fit the data.
    #[error("{}", told(what, hint))]
    Request {
        /// What was asked for, and why it cannot be.
        what: String,
        /// What to do.
        hint: String,
    },
    /// Something that is needed is not there.
    #[error("{}", told(what, hint))]
    Missing {
        /// What is not there.
        what: String,
        /// What to do.
        hint: String,
    },
    /// The output exists already, or is being written.
    #[error("{}", told(what, hint))]
    Exists {
        /// What is there.
        what: String,
        /// What to do.
        hint: String,
    },
    /// Sizes do not fit each other.
    #[error("{}", told(what, hint))]
    Shape {
        /// Which sizes, and what they should be.
        what: String,
        /// What to do.
        hint: String,
    },
    /// The data is readable and does not serve: too little of it, values that are not numbers, ids that repeat.
    #[error("{}", told(what, hint))]
    Unfit {
        /// What, and where.
        what: String,
        /// What to do.
        hint: String,
    },
    /// Stored state is not what it promises to be.
    #[error("{}", told(what, hint))]
    Damaged {
        /// What, and where.
        what: String,
        /// What to do.
        hint: String,
    },
    /// The loss is no longer finite.
    #[error("{place}: the loss is {loss} at learning rate {rate}: training diverged; {hint}")]
    Diverged {
        /// Epoch or step, counted from 1.
        place: String,
        /// What the loss became.
        loss: f64,
        /// The learning rate there.
        rate: f64,
        /// What to do.
        hint: String,
    },
    /// The user asked the job to stop.
    #[error("interrupted")]
    Interrupted,
    /// The operating system refused a service.
    #[error("cannot {what}: {why}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// The system's answer.
        why: String,
    },
    /// An invariant of ours broke: we change the code.
    #[error("internal error: {0}; please report it")]
    Internal(String),
}

fn told(what: &str, hint: &str) -> String {
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
    /// [`Error::Request`].
    request = Request;
    /// [`Error::Missing`].
    missing = Missing;
    /// [`Error::Exists`].
    exists = Exists;
    /// [`Error::Shape`].
    shape = Shape;
    /// [`Error::Unfit`].
    unfit = Unfit;
    /// [`Error::Damaged`].
    damaged = Damaged;
}

impl Error {
    /// A setting outside its range.
    pub fn setting(
        name: impl Into<Cow<'static, str>>,
        must_be: impl Into<Cow<'static, str>>,
        got: impl ToString,
    ) -> Self {
        Self::Setting { name: name.into(), must_be: must_be.into(), got: got.to_string() }
    }

    /// The same error about a setting of another name, as the caller's user knows it.
    pub fn named(mut self, other: impl Into<Cow<'static, str>>) -> Self {
        if let Self::Setting { name, .. } = &mut self {
            *name = other.into();
        }
        self
    }

    /// Whether the user asked the job to stop: what is done so far is kept.
    pub const fn is_interrupted(&self) -> bool {
        matches!(self, Self::Interrupted)
    }
}

/// `text` with every marked setting as `show` writes it, given its name and what follows the name.
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
        let told = Error::exists("out exists", "replace it with ⟨force⟩").to_string();
        assert_eq!(told, "out exists; replace it with ⟨force⟩");
        let told = Error::setting("lr", "above 0", -1).to_string();
        assert_eq!(told, "⟨lr⟩ must be above 0, got -1");
    }
}
