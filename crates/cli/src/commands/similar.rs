//! `veridical similar`

use std::fmt::Write as _;

use serde_json::json;
use veridical::Result;
use veridical::similar::{self, Neighbors, Similar};

use crate::flags::Flags;
use crate::terminal::Terminal;

pub const EXAMPLES: &str = "\
Examples:
  veridical similar --run runs/bpr --id 1193 --names movies.dat
  veridical similar --run runs/bpr --table user --id 17 --k 5
  veridical similar --run items.parquet --id B0001 --json";

pub fn run(flags: Flags<Similar>, terminal: &Terminal) -> Result<()> {
    let found = similar::similar(&flags.settings("similar")?, &terminal.job())?;
    terminal.result("similar", &json!({ "results": found }), &text(&found))
}

fn text(found: &[Neighbors]) -> String {
    let mut text = String::new();
    let named = |id: &str, name: &Option<String>| match name {
        Some(name) => format!("{id}  {name}"),
        None => id.to_owned(),
    };
    for of in found {
        let _ = writeln!(text, "{}", named(&of.id, &of.name)); // writing to a String cannot fail
        for (rank, near) in (1..).zip(&of.neighbors) {
            let _ = writeln!(
                text,
                "{rank:>4}  {:.4}  {}",
                near.similarity,
                named(&near.id, &near.name)
            );
        }
    }
    text
}
