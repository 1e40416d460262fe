//! Errors about a file, prefixed with its name.

use std::fmt::Display;

use veridical_core::Error;
use veridical_data::Files;

/// A file, by its name in messages.
pub(crate) struct Place(String);

impl Place {
    pub fn of<F: Files + ?Sized>(files: &F, name: &str) -> Self {
        Self(files.shown(name))
    }

    fn message(&self, what: impl Display) -> String {
        format!("{}: {what}", self.0)
    }

    pub fn unfit(&self, what: impl Display, hint: &str) -> Error {
        Error::unfit(self.message(what), hint)
    }

    pub fn missing(&self, what: impl Display, hint: impl Into<String>) -> Error {
        Error::missing(self.message(what), hint)
    }

    pub fn damaged(&self, what: impl Display, hint: &str) -> Error {
        Error::damaged(self.message(what), hint)
    }
}
