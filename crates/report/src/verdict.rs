//! The summary of a page: a verdict, and a row of key numbers.

use std::fmt::Write as _;

use serde::Serialize;

use crate::html::{escape, prose};

/// A level from good to bad, shown by color, shape and words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// As expected.
    Good,
    /// Not rated.
    #[default]
    Neutral,
    /// Worth checking.
    Warn,
    /// Needs action.
    Bad,
}

impl Level {
    /// The name of its CSS class.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Neutral => "neutral",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }
}

/// The verdict at the top of a page.
///
/// ```
/// use veridical_report::{Level, Page, Verdict};
///
/// let verdict = Verdict::new(Level::Warn, "One of three consumers is affected.")
///     .detail("Retrain `ranker` before the refresh.");
/// let html = Page::new("Refresh").verdict(verdict).to_html();
/// assert!(html.contains("Retrain <code>ranker</code> before the refresh."));
/// ```
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The level of the verdict.
    pub level: Level,
    /// The verdict in one sentence.
    pub sentence: String,
    /// Reasons and actions, one line each.
    pub details: Vec<String>,
}

impl Verdict {
    /// Makes a verdict without details.
    pub fn new(level: Level, sentence: impl Into<String>) -> Self {
        Self { level, sentence: sentence.into(), details: Vec::new() }
    }

    /// Adds a line of detail.
    pub fn detail(mut self, line: impl Into<String>) -> Self {
        self.details.push(line.into());
        self
    }

    pub(crate) fn write(&self, html: &mut String) {
        let Self { level, sentence, details } = self;
        let _ = writeln!(
            html,
            "<div class=\"verdict {0}\" role=\"status\">{1}<div>\n<p class=\"sentence\">{2}</p>",
            level.name(),
            sign(*level),
            prose(sentence)
        );
        write_list(html, details);
        html.push_str("</div></div>\n");
    }
}

/// A key number of a page.
///
/// ```
/// use veridical_report::{Card, Level, Page};
///
/// let kept = Card::new("neighbors kept", "97 %").note("at least 95 %").level(Level::Good);
/// let html = Page::new("Refresh").cards([kept]).to_html();
/// assert!(html.contains("<span class=\"value\">97 %</span>"));
/// ```
#[derive(Clone, Debug)]
pub struct Card {
    /// What the number is.
    pub label: String,
    /// The number as text.
    pub value: String,
    /// What to compare it with; may be empty.
    pub note: String,
    /// The level of the number.
    pub level: Level,
}

impl Card {
    /// Makes a card without a level.
    pub fn new(label: impl Into<String>, value: impl Into<String>) -> Self {
        let (note, level) = (String::new(), Level::Neutral);
        Self { label: label.into(), value: value.into(), note, level }
    }

    /// Adds what to compare the number with.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Sets the level.
    pub fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    pub(crate) fn write(&self, html: &mut String) {
        let _ = writeln!(
            html,
            "<div class=\"card {}\"><span class=\"label\">{}</span><span class=\"value\">{}</span>\
             <span class=\"note\">{}</span></div>",
            self.level.name(),
            escape(&self.label),
            escape(&self.value),
            prose(&self.note)
        );
    }
}

/// Writes a list of lines; nothing if there are none.
pub(crate) fn write_list(html: &mut String, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    html.push_str("<ul>\n");
    for line in lines {
        let _ = writeln!(html, "<li>{}</li>", prose(line));
    }
    html.push_str("</ul>\n");
}

/// A distinct shape per level, so that nothing depends on color alone.
pub(crate) fn sign(level: Level) -> String {
    let (word, path) = match level {
        Level::Good => ("good", "M5 12.5l4.5 4.5L19 7.5"),
        Level::Neutral => ("note", "M12 11v6M12 7.2v.1"),
        Level::Warn => ("look", "M12 6v8M12 17.8v.1"),
        Level::Bad => ("stop", "M7 7l10 10M17 7L7 17"),
    };
    format!(
        "<svg class=\"sign\" viewBox=\"0 0 24 24\" role=\"img\" aria-label=\"{word}\"><path d=\"{path}\"/></svg>"
    )
}
