//! What a person or a program sees: results on stdout, everything else on stderr.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use veridical::Observer;
use veridical::core::progress::Progress;
use veridical::data::Error as DataError;

/// The two streams and how much is said on them.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    quiet: bool,
    json: bool,
}

impl Terminal {
    pub fn new(quiet: bool, json: bool) -> Self {
        Self { quiet, json }
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
    let _ = writeln!(io::stderr(), "{line}");
}

/// Text to stdout.
fn put(text: &str) -> veridical::Result<()> {
    let mut out = io::stdout().lock();
    Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(DataError::stdout)?)
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

    fn progress(&self, what: &str, unit: &str, total: Option<u64>) -> Progress {
        Progress::new(what, unit, total, !self.quiet)
    }
}
