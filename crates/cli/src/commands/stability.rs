//! `veridical stability [budget]`

use std::path::Path;

use clap::{Args, Subcommand};
use serde_json::json;
use veridical::Result;
use veridical::io::Output;
use veridical::stability::{self, ProposeBudget, StabilityOutput, StabilityReport};

use crate::flags::Flags;
use crate::terminal::Terminal;
use crate::typed::typed;

pub const ABOUT: &str = "\
Compare vector tables and report whether a refresh is safe to ship.

Two or more tables over the same ids are joined and compared: are ids and norms sane, did coordinates move, did the
geometry (the Gram matrix) hold, which nearest neighbors changed, how much accuracy do downstream models lose with and
without retraining. `--noise-floor` shows next to every number how much retraining on the same data changes it; limits
turn the comparison into a gate with an exit code. docs/stability.md explains each number and when it misleads.";

const EXAMPLES: &str = "\
Examples:
  veridical stability yesterday.parquet today.parquet
  veridical stability yesterday.parquet today.parquet --budget budget.toml --html report.html
  veridical stability runs/i2v/seed-* --labels genres.csv --spec spec.json --html stability.html
  veridical stability yesterday.parquet today.parquet --noise-floor runs/i2v --weights sales.csv
  veridical stability monday.parquet today.parquet --min-cka 0.9 --min-nn-overlap 0.5 --markdown
  veridical stability budget runs/i2v/seed-* --out budget.toml
  veridical stability budget --from-history live --out budget.toml

Exit codes: 0 compared (and all limits met), 1 a limit was not met, 2 bad input.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Command {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    compare: Flags<stability::CompareTables>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Propose limits from runs trained on identical data.
    Budget(Flags<ProposeBudget>),
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        match self.action {
            Some(Action::Budget(flags)) => budget(flags, terminal),
            None => {
                let settings = self.compare.settings("stability")?;
                settings.output.check(terminal.is_json())?;
                if let Some(out) = &settings.output.outliers {
                    veridical::io::publish::check_new(out, settings.replace.force)?;
                }
                let report = stability::stability(&settings.tables, &terminal.job())?;
                write(&settings.output, &report, terminal)?;
                if let Some(out) = &settings.output.outliers {
                    report.write_outliers(out)?;
                }
                report.gate()
            }
        }
    }
}

fn write(output: &StabilityOutput, report: &StabilityReport, terminal: &Terminal) -> Result<()> {
    let said = write_report(
        output,
        || report.to_html(&typed()),
        || report.to_markdown(),
        || report.to_prometheus(),
        terminal,
    )?;
    if !said {
        terminal.result("stability", report, &report.to_text())?;
    }
    if output.html.is_none() {
        terminal.next("the same command with --html report.html for a page with charts");
    }
    Ok(())
}

/// Writes a report in the forms that were requested; returns whether one of them went to stdout.
pub fn write_report(
    output: &StabilityOutput,
    html: impl FnOnce() -> String,
    markdown: impl FnOnce() -> String,
    prometheus: impl FnOnce() -> String,
    terminal: &Terminal,
) -> Result<bool> {
    terminal.write_page(output.html.as_ref(), html)?;
    let is_stdout = |path: &Option<Output>| path.as_deref() == Some(Path::new("-"));
    let (summary, metrics) = (is_stdout(&output.markdown), is_stdout(&output.prometheus));
    match summary {
        true => terminal.text(&markdown())?,
        false => terminal.write_page(output.markdown.as_ref(), markdown)?,
    }
    match metrics {
        true => terminal.text(&prometheus())?,
        false => terminal.write_page(output.prometheus.as_ref(), prometheus)?,
    }
    Ok(summary || metrics)
}

fn budget(flags: Flags<ProposeBudget>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("stability budget")?;
    let proposed = stability::propose_budget(&settings, &terminal.job())?;
    let Some(out) = &settings.out else { return terminal.text(&proposed.text) };
    let limits: Vec<_> = proposed
        .limits
        .iter()
        .map(|limit| json!({ "limit": limit.kind.limit(), "value": limit.value }))
        .collect();
    let shown = format!("{} limits, written to {out}\n", limits.len());
    let result = json!({ "out": out, "limits": limits });
    terminal.result("stability-budget", &result, &shown)?;
    terminal.next(&format!("veridical stability REFERENCE TODAY --budget {out}"));
    Ok(())
}
