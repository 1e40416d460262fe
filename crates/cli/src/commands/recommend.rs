//! `veridical recommend`

use veridical::Result;
use veridical::recommend::{self, Recommend, Recommended};

use crate::flags::Flags;
use crate::terminal::Terminal;

pub const ABOUT: &str = "\
Write the best items of every user: columns user, item, score, rank.

Items of a user's history are left out. Users that the run does not know are folded in from their history
in --interactions: one least squares step, or the mean of what they chose, as the method asks.";

pub const EXAMPLES: &str = "\
Examples:
  veridical recommend --run runs/bpr --k 20 --out recs.parquet
  veridical recommend --run runs/bpr --users today.txt --out recs.csv
  veridical recommend --run runs/bpr --interactions new.csv --out recs.parquet";

pub fn run(flags: Flags<Recommend>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("recommend")?;
    let recommended = recommend::recommend(&settings, &terminal.job())?;
    terminal.result("recommend", &recommended, &text(&recommended))?;
    terminal.next(&format!("veridical similar --run {} --id ID", settings.run));
    Ok(())
}

fn text(done: &Recommended) -> String {
    let Recommended { out, users, rows, folded_in, .. } = done;
    let folded = match folded_in {
        0 => String::new(),
        n => format!(", {n} of them folded in"),
    };
    format!("{rows} rows for {users} users{folded}, written to {out}\n")
}
