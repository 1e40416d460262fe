//! Terminal output: results on stdout, everything else on stderr.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use serde_json::json;
use veridical::core::exit::Exit;
use veridical::core::{Cancel, Job, Meter, Observer, Silent};
use veridical::flags;
use veridical::io::{Error as IoError, Output, publish};

use crate::bar::Bar;

/// The two output streams and their verbosity.
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

    /// Returns a job that reports to this terminal and is canceled by signals.
    pub fn job(&self) -> Job<'_> {
        Job { observer: self, cancel: self.cancel.clone(), ends_now: false }
    }

    /// Returns whether results are requested as JSON.
    pub const fn is_json(&self) -> bool {
        self.json
    }

    /// Reports an error: in words on stderr and, for programs, as a document on stdout. A failed gate has printed its result.
    pub fn error(&self, error: &veridical::Error) {
        say(&format!("veridical: error: {error}"));
        if self.json && error.exit() != Exit::GateFailed {
            put_error(&error.to_string(), error.kind(), error.exit());
        }
    }

    /// Prints the result: JSON with its schema if requested, otherwise text.
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
        let document = serde_json::to_string_pretty(&document).expect("a result serializes");
        put(&format!("{document}\n"))
    }

    /// Writes a page or other text to a file, if one was requested, with ⟨settings⟩ rendered as flags.
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

    /// Prints a result that is plain text even with `--json`.
    pub fn text(&self, text: &str) -> veridical::Result<()> {
        put(text)
    }

    /// Suggests the command that usually follows, if stderr is a terminal.
    pub fn next(&self, command: &str) {
        if !self.quiet && !self.json && io::stderr().is_terminal() {
            say(&format!("next: {command}"));
        }
    }
}

/// Prints a line to stderr. Unlike `eprintln!`, a full or closed stderr does not abort the job.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", flags(line));
}

/// Prints an error as a document.
pub fn put_error(text: &str, kind: &str, exit: Exit) {
    let document = json!({
        "schema": "veridical.error/1", "error": flags(text), "kind": kind, "exit": exit.code(),
    });
    let _ = put(&format!("{document:#}\n")); // stderr has it in words
}

/// Writes text to stdout.
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
