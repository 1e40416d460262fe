//! `veridical predict`

use std::fmt::Write as _;

use veridical::Result;
use veridical::net::text::{PredictText, Predicted, predict};

use crate::flags::Flags;
use crate::terminal::Terminal;

pub const ABOUT: &str = "\
Classify new documents with a run of `train text`.

Writes a table with the id, predicted class and predicted probability of every document. Labels are not needed; to
measure accuracy on labeled documents, use `evaluate` with --data.";

pub const EXAMPLES: &str = "\
Examples:
  veridical predict --run runs/reviews --text new.csv --out predictions.csv
  veridical predict --run runs/reviews --text new.parquet --column body --id-column key --out p.csv";

pub fn run(flags: Flags<PredictText>, terminal: &Terminal) -> Result<()> {
    let predicted = predict(&flags.settings("predict")?, &terminal.job())?;
    terminal.result("predict", &predicted, &shown(&predicted))
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
