//! `veridical forensics trace|check|scan`

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use veridical::Result;
use veridical::forensics::{self, Check, Checking, Scan, Scanning, Trace, Tracing};

use crate::flags::Flags;
use crate::terminal::Terminal;
use crate::typed::typed;

pub const ABOUT: &str = "\
Find the training rows behind wrong decisions.

Incidents are inputs that the network put into a class and should not have. `forensics trace` looks for training rows of that class
that are like the incidents and not like inputs that belong there, and names a group only where shuffled incidents would show none:
without evidence there is no verdict. It ends in a list that `train net --exclude-rows` takes. `forensics check` takes rows that
somebody suspects and says which decisions rest on them, beside chance; `forensics scan` ranks where to look first when nothing is
known. docs/explain.md has the details.";

const TRACE: &str = "\
Examples:
  veridical forensics trace --run runs/poisoned --incidents triggered/ --out remove.csv --html trace.html
  veridical forensics trace --run runs/poisoned --incidents triggered/ --retrain --out remove.csv
  veridical train net --from runs/poisoned --exclude-rows remove.csv --out runs/cleaned";

const CHECK: &str = "\
Examples:
  veridical forensics check --run runs/poisoned --suspects remove.csv --queries triggered/ --html check.html
  veridical forensics check --run runs/mnist --suspects supplier-b.csv --rows all --out votes.csv";

const SCAN: &str = "\
Examples:
  veridical forensics scan --run runs/mnist --html scan.html
  veridical forensics scan --run runs/mnist --top 20 --out ranking.csv

The exit code is 0 whatever it finds: no verdict without incidents or suspects.";

#[derive(Args, Debug)]
pub struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Trace incidents to the training rows behind them.
    #[command(after_help = TRACE)]
    Trace(Flags<Trace>),
    /// Check which decisions rest on suspect training rows.
    #[command(after_help = CHECK)]
    Check(Flags<Check>),
    /// Rank classes and training rows by where to look first.
    #[command(after_help = SCAN)]
    Scan(Flags<Scan>),
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        match self.action {
            Action::Trace(flags) => trace(flags, terminal),
            Action::Check(flags) => check(flags, terminal),
            Action::Scan(flags) => scan(flags, terminal),
        }
    }
}

fn trace(flags: Flags<Trace>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("forensics trace")?;
    let found = forensics::trace(&settings, &terminal.job())?;
    terminal.write_page(settings.html.as_ref(), || found.to_html(&typed()))?;
    terminal.result("forensics-trace", &found, &traced(&found))?;
    if let Some(out) = found.out.as_ref().filter(|_| !found.group.is_empty()) {
        let from = &found.run;
        terminal
            .next(&format!("veridical train net --from {from} --exclude-rows {out} --out cleaned"));
    }
    Ok(())
}

fn traced(found: &Tracing) -> String {
    let mut text = format!("{}\n", found.answer());
    // Writing to a String cannot fail.
    for row in found.group.iter().take(10) {
        let _ = writeln!(text, "  row {:<8} {:.4}", row.row, row.score.value);
    }
    let percent = |share: f64| 100.0 * share;
    if let Some(check) = &found.check {
        let _ = writeln!(
            text,
            "without them, kernel ridge puts {:.1} % of the incidents there (before: {:.1} %); its accuracy is {:.1} % (before: {:.1} %)",
            percent(check.success_after.value),
            percent(check.success_before.value),
            percent(check.accuracy_after.value),
            percent(check.accuracy_before.value)
        );
    }
    if found.states.len() > 1 {
        text += "trained again:\n";
        for (i, state) in found.states.iter().enumerate() {
            let accuracy = state.accuracy.map_or(String::new(), |accuracy| {
                format!(", accuracy {:.2} %", percent(accuracy.value))
            });
            let more = if state.found > 0 {
                format!("; {} rows traced", state.found)
            } else {
                String::new()
            };
            let more = if state.confirms == Some(false) { "; not confirmed" } else { &more };
            let _ = writeln!(
                text,
                "  {i}: without {} rows {:.2} % of the incidents succeed{accuracy}{more}",
                state.removed,
                percent(state.success.value)
            );
        }
    }
    if let Some(advice) = found.advice() {
        let _ = writeln!(text, "{advice}");
    }
    for note in &found.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if let Some(out) = &found.out {
        let _ = writeln!(text, "written to {out}");
    }
    text
}

fn check(flags: Flags<Check>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("forensics check")?;
    let found = forensics::check(&settings, &terminal.job())?;
    terminal.write_page(settings.html.as_ref(), || found.to_html(&typed()))?;
    terminal.result("forensics-check", &found, &checked(&found))?;
    if settings.html.is_none() {
        terminal.next("the same command with --html check.html to look at the decisions");
    }
    Ok(())
}

fn checked(found: &Checking) -> String {
    let mut text = format!("{}\n", found.answer());
    for one in found.listed.iter().take(10) {
        let label = one.label.as_ref().map_or(String::new(), |label| format!(", label {label}"));
        let _ = writeln!(
            text,
            "  query {:<8} predicted {}{label}: {} suspects",
            one.query, one.predicted, one.votes
        );
    }
    if let (Some(wrong), Some(precision), Some(recall)) =
        (found.wrong, &found.precision, &found.recall)
    {
        let share = |share: f64| match share.is_finite() {
            true => format!("{:.1} %", 100.0 * share),
            false => "none".to_owned(),
        };
        let _ = writeln!(
            text,
            "{wrong} decisions are wrong; of the flagged ones {} are wrong (precision), of the wrong ones {} are flagged (recall)",
            share(precision.value),
            share(recall.value)
        );
    }
    let _ = writeln!(
        text,
        "{} of {} suspects vote; {}; queries: {}",
        found.suspects_used, found.suspects, found.rows, found.queries
    );
    for note in &found.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if let Some(out) = &found.out {
        let _ = writeln!(text, "written to {out}");
    }
    text
}

fn scan(flags: Flags<Scan>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("forensics scan")?;
    let found = forensics::scan(&settings, &terminal.job())?;
    terminal.write_page(settings.html.as_ref(), || found.to_html(&typed()))?;
    terminal.result("forensics-scan", &found, &scanned(&found))?;
    if settings.html.is_none() {
        terminal.next("the same command with --html scan.html to look at the rows");
    }
    Ok(())
}

fn scanned(found: &Scanning) -> String {
    let mut text = format!("{}\n\n", found.answer());
    let _ = writeln!(
        text,
        "  {:<16}{:>8}{:>15}{:>12}  first rows",
        "class", "rows", "smaller group", "separation"
    );
    for class in &found.classes {
        let rows: Vec<String> = class.rows.iter().take(5).map(|row| row.row.to_string()).collect();
        let _ = writeln!(
            text,
            "  {:<16}{:>8}{:>13.1} %{:>12.2}  {}",
            class.class,
            class.n,
            100.0 * class.share,
            class.separation,
            rows.join(", ")
        );
    }
    let _ = writeln!(text, "\n{}", found.rows);
    if let Some(out) = &found.out {
        let _ = writeln!(text, "written to {out}");
    }
    text
}
