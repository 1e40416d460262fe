//! What a person or a program sees: results on stdout, everything else on stderr.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use veridical::core::{Cancel, Job, Meter, Observer, Silent};
use veridical::flags;
use veridical::io::{Error as IoError, Output, publish};

use crate::bar::Bar;

/// The two streams and how much is said on them.
#[derive(Clone, Debug)]
pub struct Terminal {
    quiet: bool,
    json: bool,
    cancel: Cancel,
}

impl Terminal {
    pub fn new(quiet: bool, json: bool, cancel: Cancel) -> Self {
        Self { quiet, json, cancel }
    }

    /// A job that is told here and stopped by signals.
    pub fn job(&self) -> Job<'_> {
        Job { observer: self, cancel: self.cancel.clone() }
    }

    /// Whether results are asked for as JSON.
    pub const fn is_json(&self) -> bool {
        self.json
    }

    pub fn error(&self, text: &str) {
        say(&format!("veridical: error: {text}"));
    }

    /// The result: JSON with its schema if asked for, else text.
    pub fn result(&self, verb: &str, result: &impl Serialize, text: &str) -> veridical::Result<()> {
        if !self.json {
            return put(text);
        }
        #[derive(Serialize)]
        struct WithSchema<'a, T> {
            schema: String,
            #[serde(flatten)]
            result: &'a T,
        }
        let document = WithSchema { schema: format!("veridical.{verb}/1"), result };
        // INVARIANT: results are structs of numbers and strings with string keys.
        let document = serde_json::to_string_pretty(&document).expect("a result serialises");
        put(&format!("{document}\n"))
    }

    /// Writes a page or another text to a file, where one is asked for, with its settings as flags.
    pub fn write_page(
        &self,
        path: Option<&Output>,
        page: impl FnOnce() -> String,
    ) -> veridical::Result<()> {
        if let Some(path) = path {
            publish::put(path, flags(&page()).as_bytes())?;
            self.note(&format!("wrote {path}"));
        }
        Ok(())
    }

    /// A result that is text whatever was asked for.
    pub fn text(&self, text: &str) -> veridical::Result<()> {
        put(text)
    }

    /// The command that usually follows, for a person at a terminal.
    pub fn next(&self, command: &str) {
        if !self.quiet && !self.json && io::stderr().is_terminal() {
            say(&format!("next: {command}"));
        }
    }
}

/// A line to stderr. A stderr that is full or closed must not stop a job, as `eprintln!` would.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", flags(line));
}

/// Text to stdout.
fn put(text: &str) -> veridical::Result<()> {
    let mut out = io::stdout().lock();
    Ok(out.write_all(flags(text).as_bytes()).and_then(|()| out.flush()).map_err(IoError::stdout)?)
}

impl Observer for Terminal {
    fn note(&self, text: &str) {
        if !self.quiet {
            say(&format!("veridical: {text}"));
        }
    }

    fn warn(&self, text: &str) {
        say(&format!("veridical: warning: {text}"));
    }

    fn meter(&self, what: &str, unit: &str, total: Option<u64>) -> Box<dyn Meter> {
        if self.quiet { Box::new(Silent) } else { Box::new(Bar::new(what, unit, total)) }
    }
}
