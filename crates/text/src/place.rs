//! Complaints about a file, with its name before them.

use std::fmt::Display;

use veridical_core::Error;
use veridical_data::Files;

/// A file as messages call it.
pub(crate) struct Place(String);

impl Place {
    pub fn of<F: Files + ?Sized>(files: &F, name: &str) -> Self {
        Self(files.shown(name))
    }

    fn told(&self, what: impl Display) -> String {
        format!("{}: {what}", self.0)
    }

    pub fn unfit(&self, what: impl Display, hint: &str) -> Error {
        Error::unfit(self.told(what), hint)
    }

    pub fn missing(&self, what: impl Display, hint: impl Into<String>) -> Error {
        Error::missing(self.told(what), hint)
    }

    pub fn damaged(&self, what: impl Display, hint: &str) -> Error {
        Error::damaged(self.told(what), hint)
    }
}
