//! A progress bar on stderr, drawn only if stderr is a terminal.

use std::fmt;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use veridical::core::Meter;

/// A progress bar; dropping it clears it.
#[derive(Debug)]
pub struct Bar(ProgressBar);

impl Bar {
    /// Creates a bar labeled `what` that counts `unit`s up to `total`, if known; drawn only if stderr is a terminal.
    pub fn new(what: &str, unit: &str, total: Option<u64>) -> Self {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        let template = if total.is_some() {
            format!(
                "{what} {{bar:30}} {{percent}}%  {{human_pos}}/{{human_len}} {unit}  {{rate}}  eta {{eta}}"
            )
        } else {
            format!("{what} {{spinner}} {{human_pos}} {unit}  {{rate}}")
        };
        if let Ok(style) = ProgressStyle::with_template(&template) {
            let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
                let _ = write!(out, "{:.0}/s", state.per_sec()); // a failed write only leaves the rate out
            };
            bar.set_style(style.with_key("rate", rate));
        }
        Self(bar)
    }
}

impl Meter for Bar {
    fn advance(&self, n: u64) {
        self.0.inc(n);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
