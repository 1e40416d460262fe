//! `veridical predict`

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use veridical::net::text::{PredictText, Predicted, predict};
use veridical::{Error, Result};

use crate::terminal::Terminal;

pub const ABOUT: &str = "\
Tell new documents apart by a run of `train text`.

Writes a table with the id of every document, its class, and the probability that the network gives it. No labels
are needed; `evaluate` with --data judges on documents that have some.";

const EXAMPLES: &str = "\
Examples:
  veridical predict --run runs/reviews --text new.csv --out predictions.csv
  veridical predict --run runs/reviews --text new.parquet --column body --id-column key --out p.csv";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Command {
    /// A run of `train text`
    #[arg(long, value_name = "RUN")]
    run: PathBuf,
    /// A table of documents
    #[arg(long, value_name = "FILE")]
    text: PathBuf,
    /// Column of the documents [default: as the run was trained]
    #[arg(long, value_name = "NAME")]
    column: Option<String>,
    /// Column of their ids [default: `id`, or the number of the row]
    #[arg(long, value_name = "NAME")]
    id_column: Option<String>,
    /// The CSV file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        let Self { run, text, column, id_column, out, force } = self;
        if !force && out.exists() {
            let what = "exists already; choose another name or replace it with --force";
            return Err(Error::Usage(format!("{} {what}", out.display())));
        }
        let predicted = predict(&PredictText { run, text, column, id_column, out }, terminal)?;
        terminal.result("predict", &predicted, &shown(&predicted))
    }
}

fn shown(predicted: &Predicted) -> String {
    let mut text = format!("{} documents\n", predicted.documents);
    for (class, count) in &predicted.classes {
        let _ = writeln!(text, "  {class:<20}{count:>10}"); // cannot fail
    }
    for note in &predicted.notes {
        let _ = writeln!(text, "\nnote: {note}");
    }
    let _ = writeln!(text, "written to {}", predicted.out);
    text
}
