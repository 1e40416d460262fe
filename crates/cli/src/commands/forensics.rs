//! `veridical forensics trace`

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use veridical::Result;
use veridical::forensics::{self, Trace, Tracing};

use crate::flags::Flags;
use crate::terminal::Terminal;
use crate::typed::typed;

pub const ABOUT: &str = "\
Find the training rows behind wrong decisions.

Incidents are inputs that the network put into a class and should not have. `forensics trace` looks for training rows of that class
that are like the incidents and not like inputs that belong there, and names a group only where shuffled incidents would show none:
without evidence there is no verdict. It ends in a list that `train net --exclude-rows` takes. docs/explain.md has the details.";

const EXAMPLES: &str = "\
Examples:
  veridical forensics trace --run runs/poisoned --incidents triggered/ --out remove.csv --html trace.html
  veridical train net --from runs/poisoned --exclude-rows remove.csv --out runs/cleaned";

#[derive(Args, Debug)]
pub struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Trace incidents to the training rows behind them.
    #[command(after_help = EXAMPLES)]
    Trace(Flags<Trace>),
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        let Action::Trace(flags) = self.action;
        let settings = flags.settings("forensics trace")?;
        let found = forensics::trace(&settings, &terminal.job())?;
        terminal.write_page(settings.html.as_ref(), || found.to_html(&typed()))?;
        terminal.result("forensics-trace", &found, &shown(&found))?;
        if let Some(out) = found.out.as_ref().filter(|_| !found.group.is_empty()) {
            let from = &found.run;
            terminal.next(&format!(
                "veridical train net --from {from} --exclude-rows {out} --out cleaned"
            ));
        }
        Ok(())
    }
}

fn shown(found: &Tracing) -> String {
    let mut text = format!("{}\n", found.answer());
    // Writing to a String cannot fail.
    for row in found.group.iter().take(10) {
        let _ = writeln!(text, "  row {:<8} {:.4}", row.row, row.score.value);
    }
    if let Some(check) = &found.check {
        let percent = |share: f64| 100.0 * share;
        let _ = writeln!(
            text,
            "without them, kernel ridge puts {:.1} % of the incidents there (before: {:.1} %); its accuracy is {:.1} % (before: {:.1} %)",
            percent(check.success_after.value),
            percent(check.success_before.value),
            percent(check.accuracy_after.value),
            percent(check.accuracy_before.value)
        );
    }
    for note in &found.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if let Some(out) = &found.out {
        let _ = writeln!(text, "written to {out}");
    }
    text
}
