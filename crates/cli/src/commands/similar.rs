//! `veridical similar`

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use veridical::Result;
use veridical::data::{ColumnMap, NameOptions};
use veridical::similar::{self, Neighbours, Similar};

use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  veridical similar --run runs/bpr --id 1193 --names movies.dat
  veridical similar --run runs/bpr --table user --id 17 --k 5
  veridical similar --run items.parquet --id B0001 --json";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Command {
    /// Run folder or vector table
    #[arg(long, value_name = "RUN_OR_TABLE")]
    run: PathBuf,
    /// Whose neighbours; may be given more than once
    #[arg(long, value_name = "ID", required = true, allow_hyphen_values = true)]
    id: Vec<String>,
    /// Table of a run folder [default: item, or the first]
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// Neighbours of each
    #[arg(long, value_name = "K", default_value_t = 10)]
    k: usize,
    /// File that tells what ids are called: MovieLens `::`, CSV, TSV or Parquet
    #[arg(long, value_name = "FILE")]
    names: Option<PathBuf>,
    /// Column of the names, by name or number [default: `name`, `title`, or the second]
    #[arg(long, value_name = "NAME", requires = "names")]
    name_column: Option<String>,
    /// Encoding of the names [default: utf-8]
    #[arg(long, value_name = "NAME", requires = "names")]
    encoding: Option<String>,
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        let mut columns = ColumnMap::default();
        if let Some(column) = self.name_column {
            columns.set("name", column);
        }
        let name_options = NameOptions { columns, encoding: self.encoding, ..Default::default() };
        let settings = Similar {
            source: self.run,
            table: self.table,
            ids: self.id,
            k: self.k,
            names: self.names,
            name_options,
        };
        let found = similar::similar(&settings, terminal)?;
        terminal.result("similar", &json!({ "results": found }), &text(&found))
    }
}

fn text(found: &[Neighbours]) -> String {
    let mut text = String::new();
    let named = |id: &str, name: &Option<String>| match name {
        Some(name) => format!("{id}  {name}"),
        None => id.to_owned(),
    };
    for of in found {
        let _ = writeln!(text, "{}", named(&of.id, &of.name)); // writing to a String cannot fail
        for (rank, near) in (1..).zip(&of.neighbours) {
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
