//! `veridical refresh`

use veridical::Result;
use veridical::refresh::{self, Refresh, Refreshed};

use crate::flags::Flags;
use crate::terminal::Terminal;
use crate::typed::typed;

pub const ABOUT: &str = "\
Align, compare, gate, featurize and publish today's vectors in one job.

The daily job as one command. Today's table is aligned to a fixed reference, compared with it, checked against a budget
of limits, featurized if a spec is given, and published to a folder that appears by one rename, with `_SUCCESS` in it.
If a limit is not met, the folder holds only the report and its summary, and the exit code is 1. Without limits the
verdict decides. A killed job continues with --resume and publishes the same bytes.";

pub const EXAMPLES: &str = "\
Examples:
  veridical refresh --reference monday.parquet --new today.parquet --budget b.toml --out published
  veridical refresh --reference monday.parquet --new today.parquet --spec spec.json --out published
  veridical refresh --reference A.parquet --new B.parquet --consumers c.toml --out live --force

Exit codes: 0 published, 1 a limit was not met and nothing was published, 2 bad input, 130 interrupted (--resume).";

pub fn run(flags: Flags<Refresh>, terminal: &Terminal) -> Result<()> {
    let settings = Refresh { command: typed(), ..flags.settings("refresh")? };
    let refreshed = refresh::refresh(&settings, &terminal.job())?;
    terminal.result("refresh", &refreshed, &text(&refreshed))?;
    refreshed.gate()
}

fn text(refreshed: &Refreshed) -> String {
    let mut text = refreshed.report.to_text();
    let word = if refreshed.published { "published" } else { "NOT published; report written" };
    text += &format!("\n{word}:\n");
    for file in &refreshed.files {
        text += &format!("  {file}\n");
    }
    text
}
