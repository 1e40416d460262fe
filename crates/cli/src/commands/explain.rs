//! `veridical explain [audit|labels]`

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use veridical::explain::{
    self, Audit, AuditSettings, Explain, Explained, Explanation, LabelErrors, LabelSettings, Part,
};
use veridical::{Error, Result};

use crate::flags::Flags;
use crate::terminal::Terminal;
use crate::typed::typed;

pub const ABOUT: &str = "\
Explain decisions of a network by the training rows they rest on.

A kernel machine on the network's own tangent kernel stands in for the network. `explain` lists, for every query, the training rows
that speak for and against its class; `explain audit` measures whether the machine decides as the network does, and which kernel is
the cheapest that does; `explain labels` ranks training rows whose label all others contradict. docs/explain.md says which number
answers which question and when not to trust it.";

const EXAMPLES: &str = "\
Examples:
  veridical explain --run runs/mnist --html why.html --out attributions.parquet
  veridical explain --run runs/mnist --queries strange/ --effect influence --top 5
  veridical explain --run runs/mnist-5-seeds --min-stable-top10 0.5
  veridical explain audit --run runs/mnist --kernels trntk,ck --html audit.html
  veridical explain labels --run runs/mnist --out suspects.csv --html labels.html

Exit codes: 0 explained (and all limits met), 1 a limit was not met, 2 bad input.";

/// Queries and rows that the terminal shows.
const SHOWN: usize = 5;

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Command {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    explain: Flags<Explain>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Measure how well kernel machines imitate the network, and recommend a kernel.
    Audit(Flags<AuditSettings>),
    /// Rank training rows whose label the other rows contradict.
    Labels(Flags<LabelSettings>),
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        match self.action {
            None => decisions(self.explain, terminal),
            Some(Action::Audit(flags)) => audit(flags, terminal),
            Some(Action::Labels(flags)) => labels(flags, terminal),
        }
    }
}

fn gate(passed: Option<bool>, what: &str) -> Result<()> {
    match passed {
        Some(false) => Err(Error::GateFailed(format!("the gate failed: {what}"))),
        _ => Ok(()),
    }
}

fn decisions(flags: Flags<Explain>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("explain")?;
    let found = explain::explain(&settings, &terminal.job())?;
    terminal.write_page(settings.html.as_ref(), || found.to_html(&typed()))?;
    terminal.result("explain", &found, &shown(&found))?;
    if settings.html.is_none() {
        terminal.next("the same command with --html why.html to look at the rows");
    }
    gate(found.passed, "fewer listed rows are stable than --min-stable-top10 asks for")
}

fn shown(found: &Explanation) -> String {
    let mut text = format!("{}\n", found.answer());
    let rows = |parts: &[Part]| {
        let row = |part: &Part| format!("{} ({}, {:+.3})", part.row, part.label, part.value);
        parts.iter().take(SHOWN).map(row).collect::<Vec<_>>().join(", ")
    };
    // Writing to a String cannot fail.
    for Explained { query, predicted, probability, supporting, opposing, class, .. } in
        found.doubtful_first().into_iter().take(SHOWN)
    {
        let _ = writeln!(text, "\nquery {query}: {predicted} ({:.1} %)", 100.0 * probability);
        let _ = writeln!(text, "  for {class}: {}", rows(supporting));
        let _ = writeln!(text, "  against: {}", rows(opposing));
    }
    for note in &found.notes {
        let _ = writeln!(text, "\nnote: {note}");
    }
    if let Some(out) = &found.out {
        let _ = writeln!(text, "written to {out}");
    }
    text
}

fn audit(flags: Flags<AuditSettings>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("explain audit")?;
    let found = explain::audit(&settings, &terminal.job())?;
    terminal.write_page(settings.html.as_ref(), || found.to_html(&typed()))?;
    terminal.result("explain-audit", &found, &audited(&found))?;
    terminal.next(&format!("veridical explain --run {} --html why.html", found.run));
    gate(found.passed, &found.broken.join("; "))
}

fn audited(found: &Audit) -> String {
    let mut text = format!("{}\n\n", found.answer());
    let _ = writeln!(
        text,
        "  {:<14}{:<10}{:>8}{:>12}{:>10}{:>10}",
        "kernel", "fitted to", "tau", "agreement", "TAD", "GFLOP"
    );
    for one in &found.audited {
        let tau = one.faithfulness.tau.correct_class.map_or(f64::NAN, |tau| tau.value);
        let _ = writeln!(
            text,
            "  {:<14}{:<10}{tau:>8.3}{:>12.3}{:>10.2}{:>10.3}",
            one.kernel,
            one.fit,
            one.faithfulness.agreement.value,
            one.faithfulness.accuracy_difference.value,
            one.cost
        );
    }
    let _ = writeln!(text, "\n{} queries of {}; {}", found.n, found.queries, found.rows);
    for note in &found.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn labels(flags: Flags<LabelSettings>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("explain labels")?;
    let found = explain::labels(&settings, &terminal.job())?;
    terminal.write_page(settings.html.as_ref(), || found.to_html(&typed()))?;
    terminal.result("explain-labels", &found, &suspects(&found))?;
    if settings.html.is_none() {
        terminal.next("the same command with --html labels.html to look at the rows");
    }
    gate(found.passed, "more labels seem wrong than --max-label-errors allows")
}

fn suspects(found: &LabelErrors) -> String {
    let mut text = format!("{}\n\n", found.answer());
    for suspect in found.suspects.iter().take(2 * SHOWN) {
        let explain::Suspect { row, label, suggested, score, .. } = suspect;
        let _ = writeln!(text, "  row {row:<8} {label} -> {suggested:<12} {score:.3}");
    }
    if let Some(calibrated) = found.found() {
        let _ = writeln!(text, "\n{calibrated}");
    }
    if let Some(out) = &found.out {
        let _ = writeln!(text, "written to {out}");
    }
    text
}
