//! `veridical predict`

use std::fmt::Write as _;

use veridical::Result;
use veridical::predict::{Predict, Predicted, predict};

use crate::flags::Flags;
use crate::terminal::Terminal;

pub const ABOUT: &str = "\
Apply a run to new inputs, and write a table of predictions.

A classifier of documents takes --text, one of vectors --vectors, a network what it was trained on: images or a table with the
same columns (--data), or vectors. Every row gets its id, the predicted class and the probability of every class, or the
predicted numbers. Any embedding method that scores items takes pairs of user and item (--interactions) and writes their
scores, or the predicted ratings. Labels are not needed; to measure accuracy, use `evaluate` with --data.";

pub const EXAMPLES: &str = "\
Examples:
  veridical predict --run runs/reviews --text new.csv --out predictions.csv
  veridical predict --run runs/genres --vectors new.parquet --out predictions.parquet
  veridical predict --run runs/mnist --data images/ --out predictions.csv
  veridical predict --run runs/sasrec --interactions pairs.csv --out scores.csv";

pub fn run(flags: Flags<Predict>, terminal: &Terminal) -> Result<()> {
    let predicted = predict(&flags.settings("predict")?, &terminal.job())?;
    terminal.result("predict", &predicted, &shown(&predicted))?;
    Ok(())
}

fn shown(predicted: &Predicted) -> String {
    let mut text = format!("{} rows\n", predicted.rows);
    for (class, count) in &predicted.classes {
        let _ = writeln!(text, "  {class:<20}{count:>10}"); // cannot fail
    }
    for note in &predicted.notes {
        let _ = writeln!(text, "\nnote: {note}");
    }
    let _ = writeln!(text, "written to {}", predicted.out);
    text
}
