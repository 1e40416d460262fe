//! `veridical recommend`

use veridical::Result;
use veridical::recommend::{self, Recommend, Recommended};

use crate::flags::Flags;
use crate::terminal::Terminal;

pub const ABOUT: &str = "\
Write the top-k items of every user as a table with columns user, item, score, rank.

Items in a user's history are excluded. Users unknown to the run are folded in from their history in
--interactions: by one least-squares step, or by the mean vector of their items, depending on the method.";

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
        n => format!(", {n} folded in"),
    };
    format!("{rows} rows for {users} users{folded}, written to {out}\n")
}
