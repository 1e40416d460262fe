//! A progress bar on stderr for a person, nothing for a pipe.

use std::fmt;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// Where a job reports how far it is.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar called `what` that counts `unit`s up to `total` if that is known. It is drawn only if
    /// stderr is a terminal and `visible` is set, and is gone when the value is dropped.
    pub fn new(what: &str, unit: &str, total: Option<u64>, visible: bool) -> Self {
        let target =
            if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(total, target);
        let template = if total.is_some() {
            format!(
                "{what} {{bar:30}} {{percent}}%  {{human_pos}}/{{human_len}} {unit}  {{rate}}  eta {{eta}}"
            )
        } else {
            format!("{what} {{spinner}} {{human_pos}} {unit}  {{rate}}")
        };
        if let Ok(style) = ProgressStyle::with_template(&template) {
            let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
                let _ = write!(out, "{:.0}/s", state.per_sec()); // a bar may go undrawn
            };
            bar.set_style(style.with_key("rate", rate));
        }
        Self(bar)
    }

    /// A bar that is never drawn.
    pub fn hidden() -> Self {
        Self::new("", "", None, false)
    }

    /// `n` more units are done.
    pub fn advance(&self, n: u64) {
        self.0.inc(n);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
