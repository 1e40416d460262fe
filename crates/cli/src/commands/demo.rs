//! `veridical demo`

use std::fmt::Write as _;

use veridical::Result;
use veridical::core::Estimate;
use veridical::demo::{self, Demo, DemoOutput, Outcome};

use crate::flags::Flags;
use crate::terminal::Terminal;

pub const ABOUT: &str = "\
Train item2vec ten times on a generated shop, measure what retraining changes, publish a good refresh and stop a bad one.

The generated purchases have eight planted genres. All ten runs see the same interactions; only the random seed differs.
Limits are proposed from the ten runs. Under these limits Tuesday's table is published, and a table with permuted ids is
stopped. The folder keeps monday.parquet, tuesday.parquet, broken.parquet, spec.json and budget.toml to experiment with.";

pub fn run(flags: Flags<DemoOutput>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("demo")?;
    let demo = demo::run(&settings, &terminal.job())?;
    terminal.result("demo", &demo, &text(&demo))?;
    let out = &settings.out;
    terminal.next(&format!(
        "veridical stability {out}/monday.parquet {out}/tuesday.parquet --budget {out}/budget.toml"
    ));
    Ok(())
}

/// Treatments of the short table: the label of the row, and the treatment's name in the result. Features are those of the spec.
fn shown(output_dim: usize) -> [(String, String); 4] {
    let text = |label: &str, name: &str| (label.to_owned(), name.to_owned());
    let phi = format!("phi orthogonal D={output_dim}");
    [
        text("vectors as they are", "raw"),
        text("aligned", "aligned"),
        (format!("phi, D = {output_dim}"), phi.clone()),
        text("align, then phi", &format!("align-then-{phi}")),
    ]
}

fn text(demo: &Demo) -> String {
    let percent = |x: f64| format!("{:.1} %", 100.0 * x);
    let value = |found: Option<Estimate>| found.map_or(f64::NAN, |e| e.value);
    let mut text = String::from("wrote\n");
    // Writing to a String cannot fail.
    for file in &demo.files {
        let _ = writeln!(text, "  {file}");
    }
    let [raw, aligned] = demo.coordinate_sd.map(value);
    let _ = write!(
        text,
        "
The same data trained ten times, only the seed differs:
  a coordinate moves by          {:>7}  of its size ({} after alignment)
  an inner product moves by      {:>7}  of the spread between pairs: the geometry stays (CKA {:.3})
  nearest neighbors that stay    {:>7}

A genre model on these vectors (chance {}):
                            retrained          not retrained
",
        percent(raw),
        percent(aligned),
        percent(value(demo.gram_noise)),
        value(demo.cka),
        percent(value(demo.nn_overlap)),
        percent(demo.chance),
    );
    for (label, name) in shown(demo.output_dim) {
        if let Some(model) = demo.models.iter().find(|m| m.treatment == name) {
            let [retrained, sd, left] =
                [model.retrained, model.sd, model.unretrained].map(|e| e.value);
            let retrained = format!("{} (sd {:.1})", percent(retrained), 100.0 * sd);
            let _ = writeln!(text, "  {label:<24}  {retrained:<18} {:>7}", percent(left));
        }
    }
    let outcome = |name: &str, outcome: &Outcome| {
        let word = if outcome.published { "published" } else { "STOPPED" };
        let limits = match outcome.broken_limits.len() {
            0 => format!("all {} limits met", demo.limits),
            n => format!("{n} of {} limits not met", demo.limits),
        };
        format!(
            "  {name:<17} {word}, {limits}: {}\n                    {}\n",
            outcome.output, outcome.verdict
        )
    };
    let _ = write!(
        text,
        "
Two refreshes against Monday, under limits proposed from the ten trainings:
{}{}
The report: {}
",
        outcome("tuesday.parquet", &demo.tuesday),
        outcome("broken.parquet", &demo.broken),
        demo.report
    );
    text
}
