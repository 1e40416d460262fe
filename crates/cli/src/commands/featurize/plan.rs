//! `veridical featurize plan`

use std::fmt::Write as _;

use veridical::Result;
use veridical::featurize::{self, Answer, Goal, Plan, Planned};

use super::describe::bytes;
use crate::flags::{Flags, repeated};
use crate::terminal::Terminal;

pub const EXAMPLES: &str = "\
Examples:
  veridical featurize plan --data items.parquet --epsilon 0.05
  veridical featurize plan --data items.parquet --output-dim 512 --directions hadamard
  veridical featurize plan --input-dim 128 --epsilon 0.05 --confidence 0.99

The error of a pair is |<phi(x), phi(y)> - k(x, y)|. Theoretical bounds cover the worst case over all data. With
--data the errors of random pairs of your rows are measured, and dimensions are tested from the largest down until
one fails, so the recommended dimension holds with the stated confidence.";

pub fn run(flags: Flags<Plan>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("featurize plan")?;
    let planned = featurize::plan(&settings, &terminal.job())?;
    terminal.result("featurize-plan", &planned, &text(&planned, settings.goal()?))?;
    match (&settings.data, planned.recommended_output_dim) {
        (Some(data), Some(output_dim)) => terminal.next(&format!(
            "veridical featurize new --data {data} --output-dim {output_dim}{} --out spec.json",
            repeated(&settings.map)
        )),
        _ => terminal.next("veridical featurize plan --data FILE with the same flags"),
    }
    Ok(())
}

fn text(planned: &Planned, goal: Goal) -> String {
    let mut text = String::new();
    let Planned { input_dim, kernel, length_scale, directions, normalize, confidence, .. } =
        planned;
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "d = {input_dim}, {kernel} kernel, length scale {length_scale:.6}, {directions}, normalize \
         {normalize}, confidence {confidence}"
    );
    if let (Some(pairs), Some(rows)) = (planned.n_pairs, planned.n_rows) {
        let _ = writeln!(text, "measured on {pairs} disjoint random pairs of {rows} rows");
    }
    text.push('\n');
    let first = if matches!(goal, Goal::Epsilon(_)) { "D" } else { "error" };
    let _ = writeln!(
        text,
        "{first:>10} {:>10} {:>12}  {:<26}  bounded quantity",
        "row", "100M rows", "use"
    );
    for answer in &planned.answers {
        let _ = writeln!(text, "{}", line(answer, goal));
    }
    if let (Some(output_dim), Goal::Epsilon(epsilon)) = (planned.recommended_output_dim, goal) {
        let _ = writeln!(
            text,
            "\nrecommended: D = {output_dim}; 95 % of the pairs in your data have an error of at most {epsilon}"
        );
    }
    text
}

fn line(answer: &Answer, goal: Goal) -> String {
    let Answer { bounds, label, .. } = answer;
    if let Some(why) = &answer.why_not {
        return format!("{:>10} {:>10} {:>12}  {label:<26}  {bounds}: {why}", "-", "-", "-");
    }
    let first = match goal {
        Goal::Epsilon(_) => answer.output_dim.map(|d| d.to_string()),
        Goal::OutputDim(_) => answer.epsilon.map(|e| format!("{e:.4}")),
    };
    let row = answer.bytes_per_row.map(|b| bytes(b as usize)).unwrap_or_default();
    let many = answer.gb_per_100m_rows.map(|gb| format!("{gb:.1} GB")).unwrap_or_default();
    let first = first.unwrap_or_default();
    format!("{first:>10} {row:>10} {many:>12}  {label:<26}  {bounds}")
}
