//! `veridical reproduce list|show|run`

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use veridical::core::Estimate;
use veridical::io::publish;
use veridical::{Error, Result};
use veridical_experiments::{
    self as experiments, AllOutcomes, FinishedExperiment, Outcome, RunExperiment, RunOptions,
    ShowExperiment, SkippedExperiment,
};

use crate::flags::Flags;
use crate::terminal::Terminal;
use crate::typed::typed;

const EXAMPLES: &str = "\
Examples:
  veridical reproduce list
  veridical reproduce show 000-kernel-error
  veridical reproduce run 000-kernel-error --quick
  veridical reproduce run --all --time 2h --keep book
  veridical reproduce run 001-table3 --data ../shared/data --out result.json --html table3.html";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the experiments.
    List,
    /// Show an experiment: claim, rule of the verdict, configuration.
    Show(Flags<ShowExperiment>),
    /// Run an experiment.
    Run(Flags<RunExperiment>),
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        match self.action {
            Action::List => {
                let lines: Vec<String> = experiments::REGISTRY
                    .iter()
                    .map(|e| format!("{}\n    {}\n", e.id, e.claim))
                    .collect();
                let result = json!({ "experiments": experiments::REGISTRY });
                terminal.result("reproduce-list", &result, &lines.concat())
            }
            Action::Show(flags) => {
                let e = experiments::find(&flags.settings("reproduce show")?.id)?;
                let text =
                    format!("{}\nclaim  {}\nrule   {}\n\n{}", e.id, e.claim, e.rule, e.config());
                let result = json!({ "experiment": e, "config": e.config() });
                terminal.result("reproduce-show", &result, &text)
            }
            Action::Run(flags) => {
                let settings = flags.settings("reproduce run")?;
                if let Some(path) = &settings.out {
                    publish::check_new(path, settings.replace.force)?;
                }
                let data = std::env::var_os("VERIDICAL_DATA").map(PathBuf::from);
                let data = settings.data.as_deref().or(data.as_deref());
                let (quick, keep) = (settings.quick, settings.keep.as_deref());
                let job = terminal.job();
                let options = RunOptions { quick, data, keep, job: &job };
                if settings.all {
                    let outcomes = experiments::run_all(&options, settings.time)?;
                    terminal.result("reproduce-run-all", &outcomes, &summary(&outcomes))?;
                    if !outcomes.left.is_empty() {
                        terminal.next(&typed());
                    }
                    return Ok(());
                }
                let Some(id) = &settings.id else {
                    let what = "name an experiment, or run all of them with ⟨all⟩";
                    return Err(Error::request(what, "`veridical reproduce list` shows the names"));
                };
                let outcome = experiments::find(id)?.run(&options)?;
                terminal.write_page(settings.html.as_ref(), || outcome.to_html(&typed()))?;
                terminal.write_page(settings.out.as_ref(), || {
                    // INVARIANT: an outcome is numbers and strings.
                    let json =
                        serde_json::to_string_pretty(&outcome).expect("an outcome serializes");
                    format!("{json}\n")
                })?;
                terminal.result("reproduce-run", &outcome, &text(&outcome))
            }
        }
    }
}

fn summary(outcomes: &AllOutcomes) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    for FinishedExperiment { id, verdict, minutes } in &outcomes.finished {
        let _ = writeln!(text, "{id:<20} {verdict:<15} {minutes:6.1} minutes");
    }
    for SkippedExperiment { id, reason } in &outcomes.skipped {
        let _ = writeln!(text, "{id:<20} {:<15} {reason}", "skipped");
    }
    for id in &outcomes.left {
        let _ = writeln!(text, "{id:<20} {:<15} the time is over", "left");
    }
    let counts = [outcomes.finished.len(), outcomes.skipped.len(), outcomes.left.len()];
    let _ = writeln!(text, "{} finished, {} skipped, {} left", counts[0], counts[1], counts[2]);
    text
}

fn text(outcome: &Outcome) -> String {
    let width = outcome.rows.iter().map(|row| row.what.len()).max().unwrap_or(0);
    let mut text = format!("{}: {}\n\n", outcome.id, outcome.verdict);
    for row in &outcome.rows {
        let Estimate { value, low, high, seeds, .. } = row.measured;
        let interval = match row.measured.has_interval() {
            true => format!("[{low:.5}, {high:.5}]"),
            false => "no interval".to_owned(),
        };
        let mark = match row.holds {
            Some(true) => "holds",
            Some(false) => "FAILS",
            None => "",
        };
        let beside = match (row.paper, row.theory) {
            (Some(x), _) => format!("paper {x:.4}"),
            (None, Some(x)) => format!("theory {x:.4}"),
            (None, None) => String::new(),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:<width$}  {beside:>15}  measured {value:>8.5}  {interval}  {seeds} seeds  {mark}",
            row.what
        );
    }
    for note in &outcome.notes {
        let _ = writeln!(text, "{note}");
    }
    text
}
