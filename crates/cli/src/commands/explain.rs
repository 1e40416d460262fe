//! `veridical explain [audit|labels|validate]`

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use veridical::explain::{
    self, Audit, AuditSettings, Explain, Explained, Explanation, LabelErrors, LabelSettings, Part,
    Validate, Validation,
};
use veridical::{Error, Result};

use crate::flags::Flags;
use crate::terminal::Terminal;
use crate::typed::typed;

pub const ABOUT: &str = "\
Explain decisions of a network by the training rows they rest on.

A kernel machine on the network's own tangent kernel stands in for the network. `explain` lists, for every query, the training rows
that speak for and against its class; `explain audit` measures whether the machine decides as the network does, and which kernel is
the cheapest that does; `explain labels` ranks training rows whose label all others contradict; `explain validate` trains again on
parts of the rows and measures which attributions predict it. docs/explain.md says which number answers which question and when not
to trust it.";

const EXAMPLES: &str = "\
Examples:
  veridical explain --run runs/mnist --html why.html --out attributions.parquet
  veridical explain --run runs/mnist --queries strange/ --effect influence --top 5
  veridical explain --run runs/mnist-5-seeds --min-stable-top10 0.5
  veridical explain audit --run runs/mnist --kernels trntk,ck --html audit.html
  veridical explain audit --run runs/mnist --budget audit.toml
  veridical explain labels --run runs/mnist --out suspects.csv --html labels.html
  veridical explain validate --run runs/mnist --rows 1000 --out retrained --html validate.html
  veridical explain --run runs/reviews --queries new.csv

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
    /// Train again on parts of the rows, and measure which attributions predict it.
    Validate(Flags<Validate>),
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        match self.action {
            None => decisions(self.explain, terminal),
            Some(Action::Audit(flags)) => audit(flags, terminal),
            Some(Action::Labels(flags)) => labels(flags, terminal),
            Some(Action::Validate(flags)) => validate(flags, terminal),
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
        let sure = probability.map_or(String::new(), |p| format!(" ({:.1} %)", 100.0 * p));
        let _ = writeln!(text, "\nquery {query}: {predicted}{sure}");
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
        "  {:<14}{:<10}{:>8}{:>8}{:>11}{:>8}{:>9}{:>9}{:>9}{:>10}{:>9}",
        "kernel",
        "fitted to",
        "tau",
        "within",
        "agreement",
        "TAD",
        "iso R2",
        "log R2",
        "Pearson",
        "GFLOP",
        "MB"
    );
    for one in &found.audited {
        let found = &one.faithfulness;
        let [tau, within] = [found.tau.correct_class, found.tau.within_class]
            .map(|tau| tau.map_or(f64::NAN, |tau| tau.value));
        let _ = writeln!(
            text,
            "  {:<14}{:<10}{tau:>8.3}{within:>8.3}{:>11.3}{:>8.2}{:>9.3}{:>9.3}{:>9.3}{:>10.3}{:>9.1}",
            one.kernel,
            one.fit,
            found.agreement.value,
            found.accuracy_difference.value,
            found.isotonic_r2.value,
            found.linear_r2.value,
            found.pearson.value,
            one.cost,
            one.bytes / 1e6
        );
    }
    if let Some(overlap) = found.audited.first().map(|one| one.faithfulness.error_overlap) {
        let _ = writeln!(
            text,
            "\nerrors: {} of the network, {} of the first machine, {} of both ({:.1} by chance, p = {:.4})",
            overlap.network, overlap.surrogate, overlap.both, overlap.expected, overlap.p_value
        );
    }
    text += "Pearson's correlation is high for any machine that is as accurate: compare tau.\n";
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
    for note in &found.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if let Some(out) = &found.out {
        let _ = writeln!(text, "written to {out}");
    }
    text
}

fn validate(flags: Flags<Validate>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("explain validate")?;
    let found = explain::validate(&settings, &terminal.job())?;
    terminal.write_page(settings.html.as_ref(), || found.to_html(&typed()))?;
    terminal.result("explain-validate", &found, &validated(&found))
}

fn validated(found: &Validation) -> String {
    let mut text = format!("{}\n\n", found.answer());
    let shares = found.validated.first().map_or(&[][..], |one| &one.curve);
    let _ = write!(text, "  {:<12}{:>8}{:>8}", "effect", "LDS", "s.e.");
    for point in shares {
        let _ = write!(text, "{:>16}", format!("drop at {} %", 100.0 * point.share));
    }
    text.push('\n');
    for one in &found.validated {
        let score = one.score.map_or(f64::NAN, |score| score.value);
        let error = one.standard_error.unwrap_or(f64::NAN);
        let _ = write!(text, "  {:<12}{score:>8.3}{error:>8.3}", one.effect);
        for point in &one.curve {
            let _ = write!(text, "{:>16.3}", point.drop.map_or(f64::NAN, |drop| drop.value));
        }
        text.push('\n');
    }
    if !shares.is_empty() {
        let _ = write!(text, "  {:<28}", "random rows");
        for point in shares {
            let drop = point.random_drop.map_or(f64::NAN, |drop| drop.value);
            let _ = write!(text, "{drop:>16.3}");
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "\n{} networks; {} queries of {}, {} of them for the drops; {}",
        found.networks, found.n, found.queries, found.curve_queries, found.rows
    );
    for note in &found.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if let Some(out) = &found.out {
        let _ = writeln!(text, "outputs of the trainings are in {out}");
    }
    text
}
