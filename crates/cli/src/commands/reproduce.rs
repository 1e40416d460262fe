//! `veridical reproduce list|show|run`

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use veridical::reproduce::{self, Outcome, RunOptions};
use veridical::{Error, Observer, Result};

use crate::terminal::Terminal;
use crate::typed::typed;

const EXAMPLES: &str = "\
Examples:
  veridical reproduce list
  veridical reproduce show 000-kernel-error
  veridical reproduce run 000-kernel-error --quick
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
    Show {
        /// Experiment, as `list` names it
        id: String,
    },
    /// Run an experiment.
    Run {
        /// Experiment, as `list` names it
        id: String,
        /// Less data and fewer seeds: whether it runs, not what comes out
        #[arg(long)]
        quick: bool,
        /// Folder of the data sets, for experiments on real data; otherwise VERIDICAL_DATA, otherwise ../shared/data
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Folder where finished trainings of long experiments are kept; a run that was interrupted goes on from there
        #[arg(long, value_name = "DIR")]
        keep: Option<PathBuf>,
        /// Write the result as JSON to this file
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Write numbers and pictures as one HTML file
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
        /// Replace a file that is there
        #[arg(long)]
        force: bool,
    },
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        match self.action {
            Action::List => {
                let lines: Vec<String> = reproduce::REGISTRY
                    .iter()
                    .map(|e| format!("{}\n    {}\n", e.id, e.claim))
                    .collect();
                let result = json!({ "action": "list", "experiments": reproduce::REGISTRY });
                terminal.result("reproduce", &result, &lines.concat())
            }
            Action::Show { id } => {
                let e = reproduce::find(&id)?;
                let text =
                    format!("{}\nclaim  {}\nrule   {}\n\n{}", e.id, e.claim, e.rule, e.config());
                let result = json!({ "action": "show", "experiment": e, "config": e.config() });
                terminal.result("reproduce", &result, &text)
            }
            Action::Run { id, quick, data, keep, out, html, force } => {
                let there = |file: &&PathBuf| !force && file.exists();
                if let Some(file) = out.iter().chain(&html).find(there) {
                    let what = "exists already; choose another name or replace it with --force";
                    return Err(Error::Usage(format!("{} {what}", file.display())));
                }
                let data = data.or_else(|| std::env::var_os("VERIDICAL_DATA").map(PathBuf::from));
                let (data, keep) = (data.as_deref(), keep.as_deref());
                let options = RunOptions { quick, data, keep, observer: terminal };
                let outcome = reproduce::find(&id)?.run(&options)?;
                if let Some(html) = &html {
                    veridical::data::write_atomically(html, outcome.to_html(&typed()).as_bytes())?;
                    terminal.note(&format!("wrote {}", html.display()));
                }
                if let Some(out) = &out {
                    // INVARIANT: an outcome is numbers and strings.
                    let json =
                        serde_json::to_string_pretty(&outcome).expect("an outcome serialises");
                    veridical::data::write_atomically(out, format!("{json}\n").as_bytes())?;
                    terminal.note(&format!("wrote {}", out.display()));
                }
                terminal.result(
                    "reproduce",
                    &json!({ "action": "run", "result": outcome }),
                    &text(&outcome),
                )
            }
        }
    }
}

fn text(outcome: &Outcome) -> String {
    let width = outcome.rows.iter().map(|row| row.what.len()).max().unwrap_or(0);
    let mut text = format!("{}: {}\n\n", outcome.id, outcome.verdict);
    for row in &outcome.rows {
        let [low, high] = row.interval;
        let mark = match row.holds {
            Some(true) => "holds",
            Some(false) => "FAILS",
            None => "",
        };
        let expected = row.expected.map_or("-".to_owned(), |x| format!("{x:.4}"));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:<width$}  expected {:>7}  measured {:>8.5}  [{low:.5}, {high:.5}]  {} seeds  {mark}",
            row.what, expected, row.measured, row.seeds
        );
    }
    for note in &outcome.notes {
        let _ = writeln!(text, "{note}");
    }
    text
}
