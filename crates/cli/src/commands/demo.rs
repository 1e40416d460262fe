//! `veridical demo`

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use veridical::Result;
use veridical::demo::{self, Demo};

use crate::terminal::Terminal;

pub const ABOUT: &str = "\
Train two days of embeddings of a shop, featurise them, and measure what a refresh does.

The shop is generated, with eight genres behind it. Both days are trained by item2vec on the same
interactions; only the seed differs.";

#[derive(Args, Debug)]
pub struct Command {
    /// Folder to write to
    #[arg(long, value_name = "FOLDER", default_value = "demo")]
    out: PathBuf,
    /// Write into a folder that is not empty
    #[arg(long)]
    force: bool,
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        let demo = demo::run(&self.out, self.force, terminal)?;
        terminal.result("demo", &demo, &text(&demo))?;
        let out = self.out.display();
        terminal.next(&format!(
            "veridical featurize apply --spec {out}/spec.json {out}/monday.parquet phi.parquet"
        ));
        Ok(())
    }
}

fn text(demo: &Demo) -> String {
    let mut text = String::from("wrote\n");
    // Writing to a String cannot fail.
    for file in &demo.files {
        let _ = writeln!(text, "  {file}");
    }
    let _ = write!(
        text,
        "
From Monday to Tuesday, the same items trained again:
  a coordinate changes by   {:.4}  (a coordinate has size {:.4}: nothing is left of it)
  an inner product changes  {:.4}  (they spread by {:.4}: the geometry stays)

Error of <phi, phi'> as an estimate of the kernel, over pairs of items:
     D   measured   iid theory
",
        demo.coordinate_change, demo.coordinate_size, demo.gram_change, demo.gram_spread
    );
    for row in &demo.kernel_error {
        let _ = writeln!(
            text,
            "  {:>4}     {:.4}       {:.4}",
            row.output_dim, row.measured, row.iid_theory
        );
    }
    let percent = |x: f64| 100.0 * x;
    let _ = write!(
        text,
        "
Genre by nearest centre in phi (chance {:.1} %):
  Monday's model on Monday          {:5.1} %
  retrained on Tuesday              {:5.1} %
  Monday's model on Tuesday         {:5.1} %  <- phi turns with h: align before featurising,
                                               or retrain
",
        percent(demo.chance),
        percent(demo.accuracy_monday),
        percent(demo.accuracy_tuesday_retrained),
        percent(demo.accuracy_tuesday_not_retrained)
    );
    text
}
