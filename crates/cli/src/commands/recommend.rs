//! `veridical recommend`

use std::path::PathBuf;

use clap::Args;
use veridical::Result;
use veridical::recommend::{self, Recommend, Recommended};

use crate::terminal::Terminal;

pub const ABOUT: &str = "\
Write the best items of every user: columns user, item, score, rank.

Items of a user's history are left out. Users that the run does not know are folded in from their history
in --interactions: one least squares step, or the mean of what they chose, as the method asks.";

const EXAMPLES: &str = "\
Examples:
  veridical recommend --run runs/bpr --k 20 --out recs.parquet
  veridical recommend --run runs/bpr --users today.txt --out recs.csv
  veridical recommend --run runs/bpr --interactions new.csv --out recs.parquet";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Command {
    /// Run folder
    #[arg(long, value_name = "RUN")]
    run: PathBuf,
    /// Users to recommend to: one id per line, or a column of CSV or Parquet [default: all]
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// Histories of users [default: what the run was trained on]
    #[arg(long, value_name = "FILE")]
    interactions: Option<PathBuf>,
    /// Items per user
    #[arg(long, value_name = "K", default_value_t = 20)]
    k: usize,
    /// Also recommend items of the history
    #[arg(long)]
    keep_seen: bool,
    /// Table to write: .parquet, .arrow, .csv, .tsv or .jsonl
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        let Self { run, users, interactions, k, keep_seen, out, force } = self;
        let next = format!("veridical similar --run {} --id ", run.display());
        let settings = Recommend { run, interactions, users, k, keep_seen, out, force };
        let recommended = recommend::recommend(&settings, terminal)?;
        terminal.result("recommend", &recommended, &text(&recommended))?;
        terminal.next(&format!("{next}ID"));
        Ok(())
    }
}

fn text(done: &Recommended) -> String {
    let Recommended { out, users, rows, folded_in, .. } = done;
    let folded = match folded_in {
        0 => String::new(),
        n => format!(", {n} of them folded in"),
    };
    format!("{rows} rows for {users} users{folded}, written to {out}\n")
}
